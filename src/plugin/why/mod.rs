// SPDX-License-Identifier: LGPL-3.0-only
//! Code that the methods `explain`, `standing`, `jobs`, `check_job` and `stats` share. Every user may call the first four,
//! and admins may call `stats`.
//!
//! A guest may ask about their own jobs and associations; the plugin refuses any other request with an error text. It
//! identifies a guest by the user id that Flux gives for the request. It never logs what a guest may see.

use super::MfPriority;
use super::services::{busy_error, request_error};
use crate::jobtap::{Caller, EINVAL, EIO, EPERM, EPROTO, Host, Reply, RequestError};
use fairshare_engine::engine::answers::Heading;
use fairshare_engine::ids::UserId;
use fairshare_protocol::wire::WireError;
use serde::Serialize;

pub(super) fn payload_error(method: &str, fault: WireError) -> RequestError {
    match fault {
        WireError::Undecodable(detail) => {
            request_error(EPROTO, format!("failed to unpack {method} msg: Protocol error: {detail}"))
        }
        WireError::WrongType(what) => {
            request_error(EINVAL, format!("mf_priority unpack: {what} has the wrong type"))
        }
        WireError::Record(text) => request_error(EINVAL, format!("mf_priority unpack: {text}")),
    }
}

/// Returns the user that a request is about; `None` means all users. A guest gets only their own user.
pub(super) fn select_user(caller: Caller, named: Option<UserId>) -> Result<Option<UserId>, RequestError> {
    let own = UserId(caller.userid);
    match named {
        named if caller.is_privileged() => Ok(named),
        Some(other) if other != own => {
            let text =
                format!("user {own} may not ask for user {other}: only the instance owner and admins may");
            Err(request_error(EPERM, text))
        }
        _ => Ok(Some(own)),
    }
}

/// Creates the heading of an answer, as of now.
pub(super) fn make_heading(plugin: &MfPriority, host: Host<'_, MfPriority>) -> Result<Heading, RequestError> {
    let (now, overruled) = (host.now(), plugin.others.overruled_job());
    plugin.engine.view(|view| Heading::new(view, now, overruled)).ok_or_else(busy_error)
}

/// Returns the JSON text of an answer as a reply. The members of each object are sorted by name.
pub(super) fn make_reply(answer: &impl Serialize) -> Reply {
    let value = serde_json::to_value(answer).map_err(serialize_error)?;
    Ok(Some(value.to_string()))
}

/// Returns an answer as a reply. The members of each object are in the order of the type.
pub(super) fn make_ordered_reply(answer: &impl Serialize) -> Reply {
    serde_json::to_string(answer).map(Some).map_err(serialize_error)
}

fn serialize_error(fault: serde_json::Error) -> RequestError {
    request_error(EIO, format!("mf_priority: {fault}"))
}
