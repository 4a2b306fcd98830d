// SPDX-License-Identifier: LGPL-3.0-only
//! A policy that comes in parts, so that none of them keeps Flux from its work for long.
//!
//! `policy_begin` gives the push a number, `policy_part` brings some records, `policy_commit` puts all of them in force
//! at once, `policy_abort` forgets them. One push is open at a time: a later begin, or a policy in one message, takes
//! its place, since whoever died in the middle must not keep others from pushing. A part that is refused ends its push,
//! and so does silence: a timer then gives back what the parts took up.

use super::MfPriority;
use super::costs::PushStep;
use super::services::{busy, error, refuse, tell, warn, warn_of_the_rest};
use crate::jobtap::{EINVAL, ENOENT, Host, LogLevel, Reply, RequestError};
use fairshare_engine::engine::{Event, Timer};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::{self, Beginning};
use serde_json::json;
use std::time::SystemTime;

/// Records in one part: what a part costs must stay far below what anybody would notice.
const MAX_RECORDS: usize = 1000;
/// Of the jobs that a push would move, so many are named.
const MOST_MOVES: usize = 10;
/// Bytes of one part, for the same reason.
const MAX_BYTES: usize = 1 << 20;

/// The open push, and what became of the one before it.
#[derive(Default)]
pub(super) struct Parts {
    /// The number given last.
    latest: u64,
    open: Option<Open>,
    /// Why the push with this number is not open any more.
    ended: Option<(u64, String)>,
}

struct Open {
    number: u64,
    beginning: Beginning,
    reader: Reader,
}

impl Parts {
    /// Notes that the open push ends.
    fn end(&mut self, why: &str) {
        if let Some(open) = self.open.take() {
            self.ended = Some((open.number, format!("push {}: {why}", open.number)));
        }
    }

    /// Takes the open push out, if it is this one.
    fn take(&mut self, number: u64) -> Result<Open, RequestError> {
        if let Some(open) = self.open.take_if(|open| open.number == number) {
            return Ok(open);
        }
        let ended = self.ended.as_ref().filter(|(ended, _)| *ended == number);
        let text = ended.map_or_else(
            || format!("push {number}: there is no such push; begin again"),
            |(_, why)| why.clone(),
        );
        Err(error(ENOENT, format!("mf_priority: {text}")))
    }
}

impl MfPriority {
    pub(super) fn policy_begin(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let beginning =
            wire::policy_begin(payload).map_err(|fault| refuse(host.plugin(), "policy_begin", &fault))?;
        self.remember_steps_aside();
        self.effect(host, Event::PolicyBegin { keeps_config: beginning.keeps_config })?;
        let mut parts = self.parts.try_borrow_mut().map_err(|_| busy())?;
        self.costs.note(PushStep::Begin);
        parts.latest += 1;
        let number = parts.latest;
        parts.end(&format!("push {number} began and took its place"));
        host.restart(Timer::Expire.index(), beginning.expires as f64);
        parts.open = Some(Open { number, beginning, reader: Reader::default() });
        let reply = json!({
            "push": number,
            "expires": beginning.expires,
            "max_records": MAX_RECORDS,
            "max_bytes": MAX_BYTES,
        });
        Ok(Some(reply.to_string()))
    }

    pub(super) fn policy_part(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let number =
            wire::push_number(payload).map_err(|fault| refuse(host.plugin(), "policy_part", &fault))?;
        let mut open = self.taken(number)?;
        let part = self.read_part(host, payload, &mut open.reader);
        warn(host.plugin(), &mut open.reader.warnings);
        match part {
            Ok(event) => {
                host.restart(Timer::Expire.index(), open.beginning.expires as f64);
                let read = open.reader.associations();
                self.parts.try_borrow_mut().map_err(|_| busy())?.open = Some(open);
                self.effect(host, event)?;
                Ok(Some(json!({"push": number, "associations": read}).to_string()))
            }
            Err(refused) => {
                self.give_up(host, open, &format!("a part was refused: {}", refused.text));
                Err(refused)
            }
        }
    }

    fn read_part(
        &self,
        host: Host<'_, Self>,
        payload: Option<&str>,
        reader: &mut Reader,
    ) -> Result<Event<'static>, RequestError> {
        let too_much = |most: usize, what: &str, given: usize| {
            let text = format!("mf_priority: a part is at most {most} {what}, this is {given}");
            host.plugin().log(LogLevel::Error, &text);
            error(EINVAL, text)
        };
        let bytes = payload.map_or(0, str::len);
        if bytes > MAX_BYTES {
            return Err(too_much(MAX_BYTES, "bytes", bytes));
        }
        let before = reader.records();
        let part = wire::policy_part(payload, reader)
            .map_err(|fault| refuse(host.plugin(), "policy_part", &fault))?;
        let records = reader.records() - before;
        if records > MAX_RECORDS {
            return Err(too_much(MAX_RECORDS, "records", records));
        }
        let (part, site) = part;
        Ok(Event::PolicyPart(part, site))
    }

    pub(super) fn policy_commit(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let number =
            wire::push_number(payload).map_err(|fault| refuse(host.plugin(), "policy_commit", &fault))?;
        let open = self.taken(number)?;
        if let Some(array) = self.engine.view(|view| view.lacks()).ok_or_else(busy)? {
            let fault = wire::WireError::Record(format!("policy.{array}: key is missing in all parts"));
            self.give_up(host, open, "it was not whole");
            return Err(refuse(host.plugin(), "policy_commit", &fault));
        }
        warn_of_the_rest(host.plugin(), &open.reader.warnings);
        if open.beginning.dry_run {
            let now = host.plugin().now();
            let preview = self.engine.read(|engine| engine.preview(now, MOST_MOVES)).ok_or_else(busy)?;
            self.give_up(host, open, "it was a dry run");
            return match preview {
                Ok(preview) => self.would_change(&preview),
                Err(fault) => {
                    let fault = wire::WireError::Record(format!("tree: {fault}"));
                    Err(refuse(host.plugin(), "policy_commit", &fault))
                }
            };
        }
        self.ended(number, "it was committed");
        self.costs.note(PushStep::End);
        let reply = self.put_in_force(host, Event::PolicyCommit);
        if reply.is_err() {
            self.ended(number, "its commit was refused");
        }
        reply
    }

    pub(super) fn policy_abort(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let number =
            wire::push_number(payload).map_err(|fault| refuse(host.plugin(), "policy_abort", &fault))?;
        let open = self.taken(number)?;
        self.give_up(host, open, "it was aborted");
        Ok(None)
    }

    /// Has a whole policy in force, and says what that changed.
    pub(super) fn put_in_force(&self, host: Host<'_, Self>, event: Event<'_>) -> Reply {
        let done = self.effect(host, event);
        if let Some(fault) = self.rejected.take() {
            self.costs.note(PushStep::Drop);
            let fault = wire::WireError::Record(format!("tree: {fault}"));
            return Err(refuse(host.plugin(), "policy_update", &fault));
        }
        let (generation, difference) =
            self.engine.view(|view| (view.generation(), view.latest_difference())).ok_or_else(busy)?;
        tell(host.plugin(), "policy", generation, difference);
        self.pushed.take();
        self.updated.set(Some(SystemTime::now()));
        self.remember_policy(host);
        done.map_err(|refused| {
            let text = format!("the policy is in force (generation {generation}), but: {}", refused.text);
            error(refused.errno, text)
        })?;
        self.changed(difference, false)
    }

    /// A policy in one message takes the place of the open push.
    pub(super) fn supersede_parts(&self) {
        if let Ok(mut parts) = self.parts.try_borrow_mut() {
            parts.end("a policy_update in one message took its place");
        }
    }

    /// Whether a push is open.
    pub(super) fn is_push_open(&self) -> bool {
        self.parts.try_borrow().is_ok_and(|parts| parts.open.is_some())
    }

    /// Nobody spoke of the open push for as long as its client asked for: its parts need not be kept. What of them stands
    /// in the book's own tables stays, for the next push: beside each association in force there is a place for it.
    pub(super) fn expire_push(&self, host: Host<'_, Self>) {
        let Ok(mut parts) = self.parts.try_borrow_mut() else { return };
        let was_open = parts.open.is_some();
        parts.end("it was given up, since no part came for too long; begin again");
        drop(parts);
        if was_open {
            let _ = self.drive(host, None, Event::PolicyAbort);
        }
    }

    fn taken(&self, number: u64) -> Result<Open, RequestError> {
        self.parts.try_borrow_mut().map_err(|_| busy())?.take(number)
    }

    fn ended(&self, number: u64, why: &str) {
        if let Ok(mut parts) = self.parts.try_borrow_mut() {
            parts.ended = Some((number, format!("push {number}: {why}")));
        }
    }

    fn give_up(&self, host: Host<'_, Self>, open: Open, why: &str) {
        self.ended(open.number, why);
        self.costs.note(PushStep::Drop);
        // It changes the book alone, so there is nothing that could be refused.
        let _ = self.drive(host, None, Event::PolicyAbort);
    }
}
