// SPDX-License-Identifier: LGPL-3.0-only
//! `policy_begin`, `policy_part`, `policy_commit` and `policy_abort`: a push in parts ([`crate::plugin::parts`]).

use super::policy_update::put_in_force;
use crate::jobtap::{EINVAL, Host, LogLevel, Plugin, Reply, RequestError};
use crate::plugin::MfPriority;
use crate::plugin::costs::PushStep;
use crate::plugin::parts::Open;
use crate::plugin::services::{busy, error, refuse, refuse_tree, warn, warn_of_omitted};
use crate::plugin::why::reply;
use fairshare_engine::engine::{Event, Timer};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::{self, OpenPush, StagedPart, WireError};

/// The most records of one part, so that a part takes a few milliseconds at most.
const MAX_RECORDS: usize = 1000;
/// The most jobs with a new place that a dry run lists.
const MOST_MOVES: usize = 10;
/// The most bytes of one part, for the same reason.
const MAX_BYTES: usize = 1 << 20;

/// Opens a staged push.
pub fn begin(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let beginning =
        wire::policy_begin(payload).map_err(|fault| refuse(host.plugin(), "policy_begin", &fault))?;
    plugin.advance_snapshot(host, |snapshot, _| snapshot.restart_applying());
    plugin.effect(host, Event::PolicyBegin { keeps_config: beginning.keeps_config })?;
    plugin.costs.note(PushStep::Begin);
    let expires = beginning.expires;
    let number = plugin.parts.try_borrow_mut().map_err(|_| busy())?.begin(beginning);
    host.restart(Timer::Expire.index(), expires as f64);
    reply(&OpenPush { push: number, expires, max_records: MAX_RECORDS, max_bytes: MAX_BYTES })
}

/// Stages the records of a part.
pub fn part(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let number = wire::push_number(payload).map_err(|fault| refuse(host.plugin(), "policy_part", &fault))?;
    let mut open = take(plugin, number)?;
    let part = read_part(host.plugin(), payload, &mut open.reader);
    warn(host.plugin(), &mut open.reader.warnings);
    match part {
        Ok(event) => {
            host.restart(Timer::Expire.index(), open.beginning.expires as f64);
            let associations = open.reader.associations();
            plugin.parts.try_borrow_mut().map_err(|_| busy())?.put_back(open);
            plugin.effect(host, event)?;
            reply(&StagedPart { push: number, associations })
        }
        Err(refused) => {
            give_up(plugin, host, open, &format!("a part was refused: {}", refused.text));
            Err(refused)
        }
    }
}

fn read_part(
    flux: Plugin,
    payload: Option<&str>,
    reader: &mut Reader,
) -> Result<Event<'static>, RequestError> {
    let too_much = |most: usize, what: &str, given: usize| {
        let text = format!("mf_priority: a part is at most {most} {what}, this is {given}");
        flux.log(LogLevel::Error, &text);
        error(EINVAL, text)
    };
    let bytes = payload.map_or(0, str::len);
    if bytes > MAX_BYTES {
        return Err(too_much(MAX_BYTES, "bytes", bytes));
    }
    let before = reader.records();
    let part = wire::policy_part(payload, reader).map_err(|fault| refuse(flux, "policy_part", &fault))?;
    let records = reader.records() - before;
    if records > MAX_RECORDS {
        return Err(too_much(MAX_RECORDS, "records", records));
    }
    let (part, site) = part;
    Ok(Event::PolicyPart(part, site))
}

/// Puts the staged push in force. For a dry run, answers with the changes that it would make.
pub fn commit(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let number =
        wire::push_number(payload).map_err(|fault| refuse(host.plugin(), "policy_commit", &fault))?;
    let open = take(plugin, number)?;
    if let Some(array) = plugin.engine.view(|view| view.lacks()).ok_or_else(busy)? {
        let fault = WireError::Record(format!("policy.{array}: key is missing in all parts"));
        give_up(plugin, host, open, "it was not whole");
        return Err(refuse(host.plugin(), "policy_commit", &fault));
    }
    warn_of_omitted(host.plugin(), &open.reader.warnings);
    if open.beginning.dry_run {
        let now = host.plugin().now();
        let preview = plugin.engine.read(|engine| engine.preview(now, MOST_MOVES)).ok_or_else(busy)?;
        give_up(plugin, host, open, "it was a dry run");
        return reply(&preview.map_err(|fault| refuse_tree(host.plugin(), "policy_commit", &fault))?);
    }
    note_end(plugin, number, "it was committed");
    plugin.costs.note(PushStep::End);
    let answer = put_in_force(plugin, host, Event::PolicyCommit);
    if answer.is_err() {
        note_end(plugin, number, "its commit was refused");
    }
    answer
}

/// Drops the staged push.
pub fn abort(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let number = wire::push_number(payload).map_err(|fault| refuse(host.plugin(), "policy_abort", &fault))?;
    let open = take(plugin, number)?;
    give_up(plugin, host, open, "it was aborted");
    Ok(None)
}

/// Ends the staged push if its client sent nothing for the time that it asked for. The memory of the staged
/// associations stays in the engine's tables, for the next push.
pub fn expire(plugin: &MfPriority, host: Host<'_, MfPriority>) {
    let Ok(mut parts) = plugin.parts.try_borrow_mut() else { return };
    let was_open = parts.is_open();
    parts.end("it expired, because no part came in time; begin again");
    drop(parts);
    if was_open {
        let _ = plugin.drive(host, None, Event::PolicyAbort);
    }
}

fn take(plugin: &MfPriority, number: u64) -> Result<Open, RequestError> {
    plugin.parts.try_borrow_mut().map_err(|_| busy())?.take(number)
}

fn note_end(plugin: &MfPriority, number: u64, why: &str) {
    if let Ok(mut parts) = plugin.parts.try_borrow_mut() {
        parts.note_end(number, why);
    }
}

fn give_up(plugin: &MfPriority, host: Host<'_, MfPriority>, open: Open, why: &str) {
    note_end(plugin, open.number, why);
    plugin.costs.note(PushStep::Drop);
    // An abort changes only staged records, so it has no effects that Flux could refuse.
    let _ = plugin.drive(host, None, Event::PolicyAbort);
}
