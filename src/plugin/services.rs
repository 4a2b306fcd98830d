// SPDX-License-Identifier: LGPL-3.0-only
//! Writes the error texts of rejected payloads, for the log and for the sender.

use crate::jobtap::{EINVAL, EIO, EPROTO, LogLevel, Plugin, RequestError};
use fairshare_protocol::reading::Warnings;
use fairshare_protocol::wire::WireError;

pub(super) fn request_error(errno: i32, text: String) -> RequestError {
    RequestError { errno, text }
}

pub(super) fn busy_error() -> RequestError {
    request_error(EIO, "internal error: the engine is in use".to_owned())
}

pub(super) fn refuse_payload(plugin: Plugin, method: &str, fault: &WireError) -> RequestError {
    let is_config = method == "rec_config_update";
    let text = match fault {
        WireError::Undecodable(detail) => {
            let what = match method {
                "rec_config_update" => "config update",
                "rec_update" | "rec_q_update" | "rec_proj_update" | "rec_bank_update" | "rec_fac_update" => {
                    "custom_priority.trigger"
                }
                other => other,
            };
            // Programs parse this log line, so only the sender gets the detail.
            let line = format!("failed to unpack {what} msg: Protocol error");
            plugin.log(LogLevel::Error, &line);
            return request_error(EPROTO, format!("{line}: {detail}"));
        }
        WireError::WrongType("config") if is_config => "mf_priority: invalid config payload".to_owned(),
        WireError::WrongType(what @ ("config" | "policy")) => {
            format!("mf_priority unpack: {what} data is NULL or not an object")
        }
        WireError::WrongType(array) => format!("mf_priority unpack: {array} data is NULL or not an array"),
        WireError::Record(text) if is_config => format!("mf_priority config unpack: {text}"),
        WireError::Record(text) => format!("mf_priority unpack: {text}"),
    };
    plugin.log(LogLevel::Error, &text);
    request_error(EINVAL, text)
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
