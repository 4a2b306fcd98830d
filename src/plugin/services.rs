// SPDX-License-Identifier: LGPL-3.0-only
//! The RPC methods. Each payload is applied whole or not at all; each that is refused is logged, and the sender told why.

use super::costs::PushStep;
use super::why::put;
use super::{MfPriority, query};
use crate::jobtap::{EINVAL, EIO, EPROTO, Host, LogLevel, Plugin, Reply, RequestError};
use fairshare_engine::accounts::{Counts, Difference};
use fairshare_engine::engine::answers;
use fairshare_engine::engine::{Event, Preview};
use fairshare_protocol::reading::{Reader, Warnings};
use fairshare_protocol::wire::{self, WireError};
use serde_json::{Value, json};
use std::time::SystemTime;

/// What was pushed since the last line in the log about it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pushed {
    is_due: bool,
    difference: Difference,
}

impl MfPriority {
    /// Takes in what one of flux-accounting's methods brings, as far as `read` can read it.
    pub(super) fn update(
        &self,
        host: Host<'_, Self>,
        method: &str,
        read: impl FnOnce(&mut Reader) -> Result<Event<'static>, WireError>,
    ) -> Reply {
        let mut reader = Reader::default();
        let event = read(&mut reader).map_err(|fault| refuse(host.plugin(), method, &fault))?;
        warn(host.plugin(), &mut reader.warnings);
        warn_of_the_rest(host.plugin(), &reader.warnings);
        let carried_out = self.effect(host, event);
        // The data are in force, whatever Flux made of what follows from them.
        self.note_push()?;
        self.forget_policy(host);
        carried_out.map_err(|refused| {
            error(refused.errno, format!("the data are in force, but: {}", refused.text))
        })?;
        Ok(None)
    }

    /// What is pushed piece by piece is told of when it comes to bear.
    fn note_push(&self) -> Result<(), RequestError> {
        let mut pushed = self.pushed.get();
        pushed.is_due = true;
        self.updated.set(Some(SystemTime::now()));
        pushed.difference.add(self.engine.view(|view| view.latest_difference()).ok_or_else(busy)?);
        self.pushed.set(pushed);
        Ok(())
    }

    pub(super) fn reprioritize(&self, host: Host<'_, Self>) -> Reply {
        let pushed = self.pushed.take();
        if pushed.is_due {
            let generation = self.engine.view(|view| view.generation()).ok_or_else(busy)?;
            tell(host.plugin(), "push", generation, pushed.difference);
            self.costs.note(PushStep::End);
        }
        self.effect(host, Event::Reprioritize)?;
        Ok(None)
    }

    /// Replaces everything by one document, or says what that would change.
    pub(super) fn policy_update(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let mut reader = Reader::default();
        let ((policy, site), dry_run) = wire::policy_update(payload, &mut reader)
            .map_err(|fault| refuse(host.plugin(), "policy_update", &fault))?;
        warn(host.plugin(), &mut reader.warnings);
        warn_of_the_rest(host.plugin(), &reader.warnings);
        self.costs.note(if dry_run { PushStep::Drop } else { PushStep::Whole });
        if dry_run {
            let difference = self.engine.read(|engine| engine.difference(policy, site)).ok_or_else(busy)?;
            let difference = difference.map_err(|fault| {
                let fault = WireError::Record(format!("tree: {fault}"));
                refuse(host.plugin(), "policy_update", &fault)
            })?;
            return self.changed(difference, true);
        }
        self.supersede_parts();
        self.remember_steps_aside();
        self.put_in_force(host, Event::Policy(policy, site))
    }

    /// What a whole policy changes, for who sent it.
    pub(super) fn changed(&self, difference: Difference, dry_run: bool) -> Reply {
        Ok(Some(self.difference(difference, dry_run)?.to_string()))
    }

    fn difference(&self, difference: Difference, dry_run: bool) -> Result<Value, RequestError> {
        let mut reply = json!({
            "generation": self.engine.view(|view| view.generation()).ok_or_else(busy)?,
            "dry_run": dry_run,
            "added": difference.added,
            "changed": difference.changed,
            "removed": difference.removed,
            "unchanged": difference.unchanged,
            "config": {"changed": difference.others.config},
        });
        for (kind, Counts { added, changed, removed }) in difference.others.kinds() {
            put(&mut reply, kind, json!({"added": added, "changed": changed, "removed": removed}));
        }
        Ok(reply)
    }

    /// What a whole policy would change, jobs included.
    pub(super) fn would_change(&self, preview: &Preview) -> Reply {
        /// Jobs that would end are named up to here, and counted beyond.
        const MOST_NAMED: usize = 100;
        let mut reply = self.difference(preview.difference, true)?;
        let moves = preview.moves.iter().map(|job| {
            json!({
                "id": job.id.0,
                "userid": job.user.0,
                "bank": job.bank.as_ref().map(|bank| bank.as_str()),
                "queue": job.queue.as_ref().map(|queue| queue.as_str()),
                "priority": [job.from, job.to],
                "place": [job.place, job.next],
            })
        });
        let rejected = preview.rejected.iter().take(MOST_NAMED);
        let rejected = rejected.map(|(id, user, text)| json!({"id": id.0, "userid": user.0, "reason": text}));
        let removed = preview.removed.iter().take(MOST_NAMED);
        let removed =
            removed.map(|(user, bank, jobs)| json!({"userid": user.0, "bank": bank.as_str(), "jobs": jobs}));
        let of_jobs = json!({
            "pending": preview.pending,
            "repriced": preview.repriced,
            "moved": preview.moved,
            "moves": moves.collect::<Vec<_>>(),
            "rejected": rejected.collect::<Vec<_>>(),
            "rejected_count": preview.rejected.len(),
            "removed_with_jobs": removed.collect::<Vec<_>>(),
            "removed_with_jobs_count": preview.removed.len(),
        });
        if let (Value::Object(reply), Value::Object(of_jobs)) = (&mut reply, of_jobs) {
            reply.extend(of_jobs);
        }
        Ok(Some(reply.to_string()))
    }

    /// One page of the associations that the query shows.
    pub(super) fn associations(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let wanted = wire::page(payload).map_err(|fault| refuse(host.plugin(), "associations", &fault))?;
        let page = self.engine.view(|view| answers::page(view, &wanted)).ok_or_else(busy)?;
        query::page(&page).map(Some).map_err(|fault| error(EIO, format!("mf_priority: {fault}")))
    }

    /// Recounts all live jobs and reports what differs from the counters in use.
    pub(super) fn check(&self) -> Reply {
        let check = self.engine.view(answers::check).ok_or_else(busy)?;
        Ok(Some(query::check(&check, self.others.overruled())))
    }
}

pub(super) fn error(errno: i32, text: String) -> RequestError {
    RequestError { errno, text }
}

pub(super) fn busy() -> RequestError {
    error(EIO, "internal error: the engine is in use".to_owned())
}

pub(super) fn refuse(plugin: Plugin, method: &str, fault: &WireError) -> RequestError {
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

pub(super) fn warn(plugin: Plugin, warnings: &mut Warnings) {
    for warning in warnings.take() {
        plugin.log(LogLevel::Warning, &format!("mf_priority: {warning}"));
    }
}

/// Says how many warnings nobody was told of.
pub(super) fn warn_of_the_rest(plugin: Plugin, warnings: &Warnings) {
    let more = warnings.untold();
    if more > 0 {
        plugin.log(LogLevel::Warning, &format!("mf_priority: {more} more warnings of the same push"));
    }
}

/// One line in the log about what a push changed.
pub(super) fn tell(plugin: Plugin, what: &str, generation: u64, difference: Difference) {
    let Difference { added, changed, removed, unchanged, others } = difference;
    let mut text = format!(
        "mf_priority: {what}: generation {generation}, associations: {added} added, {changed} changed, \
         {removed} removed, {unchanged} unchanged"
    );
    for (kind, counts) in others.kinds() {
        let Counts { added, changed, removed } = counts;
        if !counts.is_empty() {
            text += &format!("; {kind}: {added} added, {changed} changed, {removed} removed");
        }
    }
    if others.config > 0 {
        text += &format!("; config: {} changed", others.config);
    }
    plugin.log(LogLevel::Info, &text);
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
