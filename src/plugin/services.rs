// SPDX-License-Identifier: LGPL-3.0-only
//! The RPC methods. Each payload is applied whole or not at all; each refusal is logged and told to the sender.

use super::wire::{self, Warnings, WireError};
use super::{MfPriority, query};
use crate::engine::{Engine, Event};
use crate::jobtap::{EINVAL, EIO, EPROTO, Host, LogLevel, Plugin, Reply, RequestError};
use serde_json::json;

/// Warnings beyond these are only counted: a push of 50,000 records must not flood the log.
const MAX_WARNINGS: usize = 10;

impl MfPriority {
    pub(super) fn serve(&self, host: Host<'_, Self>, method: &str, payload: Option<&str>) -> Reply {
        if self.read(Engine::is_doubtful) == Some(true) {
            let _ = self.drive(host, None, Event::TryAgain);
        }
        let mut warnings = Warnings::new();
        let reply = match method {
            "rec_update" => wire::associations(payload, &mut warnings).map(Event::Associations),
            "rec_q_update" => wire::queues(payload, &mut warnings).map(Event::Queues),
            "rec_proj_update" => wire::projects(payload, &mut warnings).map(Event::Projects),
            "rec_bank_update" => wire::banks(payload, &mut warnings).map(Event::Banks),
            "rec_fac_update" => wire::weights(payload, &mut warnings).map(Event::Weights),
            "rec_config_update" => wire::config(payload).map(Event::Config),
            "policy_update" => return self.policy_update(host, payload),
            "reprioritize" => Ok(Event::Reprioritize),
            "check" => return self.check(),
            other => return Err(error(EINVAL, format!("unknown method {other}"))),
        };
        let event = reply.map_err(|fault| refuse(host.plugin(), method, &fault))?;
        warn(host.plugin(), &warnings);
        self.drive(host, None, event).map_err(|_| busy())?;
        Ok(None)
    }

    /// Replaces everything by one document, or says what that would change.
    fn policy_update(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let mut warnings = Warnings::new();
        let (policy, dry_run) = wire::policy_update(payload, &mut warnings)
            .map_err(|fault| refuse(host.plugin(), "policy_update", &fault))?;
        warn(host.plugin(), &warnings);
        let difference = self.read(|engine| engine.book().difference(&policy)).ok_or_else(busy)?;
        if !dry_run {
            self.drive(host, None, Event::Policy(policy)).map_err(|_| busy())?;
        }
        let generation = self.read(|engine| engine.book().generation()).ok_or_else(busy)?;
        let reply = json!({
            "generation": generation,
            "dry_run": dry_run,
            "added": difference.added,
            "changed": difference.changed,
            "removed": difference.removed,
            "unchanged": difference.unchanged,
        });
        Ok(Some(reply.to_string()))
    }

    /// Recounts all live jobs and reports what differs from the counters in use.
    fn check(&self) -> Reply {
        let check = self.read(|engine| engine.check()).ok_or_else(busy)?;
        Ok(Some(query::check(&check)))
    }
}

fn error(errno: i32, text: String) -> RequestError {
    RequestError { errno, text }
}

fn busy() -> RequestError {
    error(EIO, "internal error: the engine is in use".to_owned())
}

fn refuse(plugin: Plugin, method: &str, fault: &WireError) -> RequestError {
    let is_config = method == "rec_config_update";
    let text = match fault {
        WireError::Undecodable(detail) => {
            let what = match method {
                "rec_config_update" => "config update",
                "policy_update" => "policy_update",
                _ => "custom_priority.trigger",
            };
            // The log line is an interface, and ends here; the sender is told more.
            let line = format!("failed to unpack {what} msg: Protocol error");
            plugin.log(LogLevel::Error, &line);
            return error(EPROTO, format!("{line}: {detail}"));
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
    error(EINVAL, text)
}

pub(super) fn warn(plugin: Plugin, warnings: &Warnings) {
    for warning in warnings.iter().take(MAX_WARNINGS) {
        plugin.log(LogLevel::Warning, &format!("mf_priority: {warning}"));
    }
    if let Some(more) = warnings.len().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
        plugin
            .log(LogLevel::Warning, &format!("mf_priority: {more} more negative limits in the same payload"));
    }
}

/// What is wrong with the load-time configuration, for the log.
pub(super) fn load_fault(fault: &WireError) -> String {
    let detail = match fault {
        WireError::Undecodable(detail) => format!("the configuration cannot be read: {detail}"),
        WireError::WrongType(what @ ("config" | "policy")) => format!("{what} is not an object"),
        WireError::WrongType(array) => format!("{array} data is NULL or not an array"),
        WireError::Record(text) => text.clone(),
    };
    format!("error initializing plugin with JSON object: {detail}")
}
