// SPDX-License-Identifier: LGPL-3.0-only
//! What the methods have in common that tell people why: `explain`, `standing` and `jobs` for every user, `stats` for the instance owner.
//!
//! A guest is told of his own jobs and associations. Who he is is what Flux vouches for; what he asks for beyond that is refused with
//! a text. Nothing of what a guest sends is written to the log.

pub(super) mod show;
pub(super) mod show_standing;
pub(super) mod wanted;

use super::MfPriority;
use super::services::{busy, error};
use crate::jobtap::{Caller, EINVAL, EPERM, EPROTO, Host, RequestError};
use fairshare_engine::engine::View;
use fairshare_engine::ids::UserId;
use fairshare_protocol::wire::WireError;
use serde_json::{Value, json};
pub(super) use show::put;

pub(super) fn unreadable(method: &str, fault: WireError) -> RequestError {
    match fault {
        WireError::Undecodable(detail) => {
            error(EPROTO, format!("failed to unpack {method} msg: Protocol error: {detail}"))
        }
        WireError::WrongType(what) => error(EINVAL, format!("mf_priority unpack: {what} has the wrong type")),
        WireError::Record(text) => error(EINVAL, format!("mf_priority unpack: {text}")),
    }
}

/// The user whose jobs or associations are asked about. A guest asks about himself alone.
pub(super) fn subject(caller: Caller, named: Option<UserId>) -> Result<Option<UserId>, RequestError> {
    let own = UserId(caller.userid);
    match named {
        named if caller.is_privileged() => Ok(named),
        Some(other) if other != own => {
            let text =
                format!("user {own} may not ask for user {other}: only the instance owner and admins may");
            Err(error(EPERM, text))
        }
        _ => Ok(Some(own)),
    }
}

/// Returns what every answer begins with.
pub(super) fn heading(plugin: &MfPriority, host: Host<'_, MfPriority>) -> Result<Value, RequestError> {
    let about = |view: &View<'_>| {
        let live = view.outline();
        json!({
            "now": host.now(),
            "generation": view.generation(),
            "live": live.is_on,
            "live_generation": live.generation,
            "policy": live.rule.map(|(policy, _)| policy.name()),
            "overruled": plugin.others.overruled(),
        })
    };
    plugin.engine.view(about).ok_or_else(busy)
}
