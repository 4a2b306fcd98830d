// SPDX-License-Identifier: LGPL-3.0-only
//! Code that the RPC methods share: error texts for the log and for the sender, the user that a request is about, and replies.
//!
//! Every user may call `explain`, `standing`, `jobs` and `check_job`. A guest may ask about their own jobs
//! and associations. The setting `public` decides what else a guest may see, and the private mode of Flux hides other
//! jobs. The plugin identifies a guest by the user id that Flux gives for the request. Faults in requests of these
//! methods are not logged.

use super::MfPriority;
use crate::jobtap::{
    Caller, EINVAL, EIO, EPERM, EPROTO, Host, LogLevel, Plugin, Reply, RequestError, Result,
};
use fairshare_engine::engine::View;
use fairshare_engine::engine::answers::{Heading, Overruled};
use fairshare_engine::ids::UserId;
use fairshare_protocol::{reading::Warnings, wire::WireError};
use serde::Serialize;

pub(super) fn request_error(errno: i32, text: String) -> RequestError {
    RequestError { errno, text }
}

pub(super) fn busy_error() -> RequestError {
    request_error(EIO, "internal error: the engine is in use".to_owned())
}

impl MfPriority {
    /// Reads from the engine. Fails if the engine is in use.
    pub(super) fn view<R>(&self, read: impl FnOnce(&View<'_>) -> R) -> Result<R> {
        self.engine.view(read).ok_or_else(busy_error)
    }
}

/// Returns the answer to a request of `method` whose payload is rejected.
pub(super) fn payload_error(method: &str, fault: &WireError) -> RequestError {
    let is_config = method == "rec_config_update";
    let text = match fault {
        WireError::Undecodable(detail) => {
            return request_error(EPROTO, format!("{}: {detail}", describe_unreadable(method)));
        }
        WireError::WrongType("config") if is_config => "mf_priority: invalid config payload".to_owned(),
        WireError::WrongType(what @ ("config" | "policy")) => {
            format!("mf_priority unpack: {what} data is NULL or not an object")
        }
        WireError::WrongType(array) => format!("mf_priority unpack: {array} data is NULL or not an array"),
        WireError::Record(text) if is_config => format!("mf_priority config unpack: {text}"),
        WireError::Record(text) => format!("mf_priority unpack: {text}"),
    };
    request_error(EINVAL, text)
}

fn describe_unreadable(method: &str) -> String {
    let what = match method {
        "rec_config_update" => "config update",
        "rec_update" | "rec_q_update" | "rec_proj_update" | "rec_bank_update" | "rec_fac_update" => {
            "custom_priority.trigger"
        }
        other => other,
    };
    format!("failed to unpack {what} msg: Protocol error")
}

/// Returns the value read from the payload of `method`. If the payload is invalid, logs the fault and returns an error reply.
pub(super) fn accept<T>(host: Host<'_, MfPriority>, method: &str, read: Result<T, WireError>) -> Result<T> {
    read.map_err(|fault| refuse_payload(host.plugin(), method, &fault))
}

/// Logs that the payload of `method` is rejected, and returns the answer.
pub(super) fn refuse_payload(plugin: Plugin, method: &str, fault: &WireError) -> RequestError {
    let error = payload_error(method, fault);
    match fault {
        // Programs parse this log line, so its text is fixed. Only the reply to the sender has the details.
        WireError::Undecodable(_) => plugin.log(LogLevel::Error, &describe_unreadable(method)),
        WireError::WrongType(_) | WireError::Record(_) => plugin.log(LogLevel::Error, &error.text),
    }
    error
}

/// Rejects a push whose tree is invalid.
pub(super) fn refuse_tree(plugin: Plugin, method: &str, fault: &str) -> RequestError {
    refuse_payload(plugin, method, &WireError::Record(format!("tree: {fault}")))
}

pub(super) fn log_warnings(plugin: Plugin, warnings: &mut Warnings) {
    for warning in warnings.take() {
        plugin.log(LogLevel::Warning, &format!("mf_priority: {warning}"));
    }
}

/// Logs how many warnings were omitted.
pub(super) fn log_omitted_warnings(plugin: Plugin, warnings: &Warnings) {
    let more = warnings.omitted();
    if more > 0 {
        plugin.log(LogLevel::Warning, &format!("mf_priority: {more} more warnings of the same push"));
    }
}

/// Returns the text for the log about an error in the load-time configuration.
pub(super) fn describe_load_fault(fault: &WireError) -> String {
    let detail = match fault {
        WireError::Undecodable(detail) => format!("the configuration cannot be read: {detail}"),
        WireError::WrongType(what @ ("config" | "policy")) => format!("{what} is not an object"),
        WireError::WrongType(array) => format!("{array} data is NULL or not an array"),
        WireError::Record(text) => text.clone(),
    };
    format!("error initializing plugin with JSON object: {detail}")
}

/// Returns the user that a request is about; `None` means all users. A guest gets only their own user.
pub(super) fn select_user(caller: Caller, named: Option<UserId>) -> Result<Option<UserId>> {
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

/// Creates the heading of an answer to `caller`, with the time of the answer.
pub(super) fn make_heading(
    plugin: &MfPriority,
    host: Host<'_, MfPriority>,
    caller: Caller,
) -> Result<Heading> {
    let (now, overruled) = (host.now(), show_overruled(plugin, caller));
    plugin.view(|view| Heading::new(view, now, overruled))
}

/// Returns the job that shows that another priority plugin decides priorities. In private mode, a guest gets only their own job.
pub(super) fn show_overruled(plugin: &MfPriority, caller: Caller) -> Option<Overruled> {
    let user_of = |job| plugin.engine.view(|view| view.user_of(job)).flatten();
    plugin.overruled.get().filter(|overruled| {
        !plugin.hides_other_jobs_from(caller) || user_of(overruled.job) == Some(UserId(caller.userid))
    })
}

/// Returns the JSON text of an answer as a reply.
pub(super) fn make_reply(answer: &impl Serialize) -> Reply {
    let text = serde_json::to_string(answer);
    text.map(Some).map_err(|fault| request_error(EIO, format!("mf_priority: {fault}")))
}
