// SPDX-License-Identifier: LGPL-3.0-only
//! `policy_begin`, `policy_part`, `policy_commit` and `policy_abort`: a push in parts ([`crate::plugin::parts`]).

use super::updates::answer_push;
use crate::jobtap::{EINVAL, Host, LogLevel, Plugin, Reply, Request, Result};
use crate::plugin::services::{
    accept, busy_error, log_omitted_warnings, log_warnings, make_reply, refuse_payload, refuse_tree,
    request_error,
};
use crate::plugin::{MfPriority, costs::CompletedPushStep, parts::OpenStagedPush};
use fairshare_engine::engine::{Event, Timer};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::{self, BeginPushAnswer, StagedPushProgress, WireError};

/// The maximum number of records of one part, so that a part takes a few milliseconds at most.
const MAX_RECORDS: usize = 1000;
/// The maximum number of jobs that a dry run lists: the jobs whose positions would change most.
const MAX_MOVES: usize = 10;
/// The maximum number of bytes of one part, so that a part takes a few milliseconds at most.
const MAX_BYTES: usize = 1 << 20;

/// Opens a staged push.
pub fn answer_push_begin(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let beginning = accept(host, "policy_begin", wire::read_policy_begin(request.payload))?;
    plugin.advance_snapshot(host, |snapshot, _| snapshot.restart_applying_snapshot());
    plugin.feed_request_event(host, Event::PolicyBegin { keeps_config: beginning.keeps_config })?;
    plugin.costs.step.set(CompletedPushStep::Begin);
    let expires = beginning.expires;
    let number = plugin.staged_pushes.borrow_mut().begin(beginning, host.now());
    host.restart_timer(Timer::Expire.index(), expires as f64);
    make_reply(&BeginPushAnswer { push: number, expires, max_records: MAX_RECORDS, max_bytes: MAX_BYTES })
}

/// Adds the records of a part to the staged push.
pub fn answer_part(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let mut open = take_push(plugin, host, request, "policy_part")?;
    let part = read_part(host.plugin(), request.payload, &mut open.reader);
    log_warnings(host.plugin(), &mut open.reader.warnings);
    match part {
        Ok(event) => {
            host.restart_timer(Timer::Expire.index(), open.beginning.expires as f64);
            let (push, associations) = (open.number, open.reader.associations());
            plugin.staged_pushes.borrow_mut().put_back(open);
            plugin.feed_request_event(host, event)?;
            make_reply(&StagedPushProgress { push, associations })
        }
        Err(refused) => {
            drop_push(plugin, host, open, &format!("a part of the push was refused: {}", refused.text));
            Err(refused)
        }
    }
}

fn read_part(flux: Plugin, payload: Option<&str>, reader: &mut Reader) -> Result<Event<'static>> {
    let size_error = |most: usize, what: &str, given: usize| {
        let text = format!("mf_priority: a part of a push has at most {most} {what}; this part has {given}");
        flux.log(LogLevel::Error, &text);
        request_error(EINVAL, text)
    };
    let bytes = payload.map_or(0, str::len);
    if bytes > MAX_BYTES {
        return Err(size_error(MAX_BYTES, "bytes", bytes));
    }
    let before = reader.records();
    let (part, site) = wire::read_policy_part(payload, reader)
        .map_err(|fault| refuse_payload(flux, "policy_part", &fault))?;
    let records = reader.records() - before;
    if records > MAX_RECORDS {
        return Err(size_error(MAX_RECORDS, "records", records));
    }
    Ok(Event::PolicyPart(part, site))
}

/// Applies the staged push. For a dry run, only answers with the changes that the push would make.
pub fn answer_commit(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let open = take_push(plugin, host, request, "policy_commit")?;
    if let Some(array) = plugin.view(|view| view.missing_array())? {
        let fault = WireError::Record(format!("policy.{array}: key is missing in all parts"));
        drop_push(plugin, host, open, "an array is missing");
        return Err(refuse_payload(host.plugin(), "policy_commit", &fault));
    }
    log_omitted_warnings(host.plugin(), &open.reader.warnings);
    if open.beginning.dry_run {
        let now = host.plugin().now();
        let preview = plugin.engine.read(|engine| engine.preview(now, MAX_MOVES)).ok_or_else(busy_error)?;
        drop_push(plugin, host, open, "it was a dry run");
        return make_reply(&preview.map_err(|fault| refuse_tree(host.plugin(), "policy_commit", &fault))?);
    }
    plugin.staged_pushes.borrow_mut().note_end(open.number, "it was committed");
    plugin.costs.step.set(CompletedPushStep::End);
    let answer = answer_push(plugin, host, Event::PolicyCommit);
    if answer.is_err() {
        plugin.staged_pushes.borrow_mut().note_end(open.number, "its commit was refused");
    }
    answer
}

/// Drops the staged push.
pub fn answer_abort(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let open = take_push(plugin, host, request, "policy_abort")?;
    drop_push(plugin, host, open, "it was aborted");
    Ok(None)
}

/// Ends the staged push if its client sent no part within the time that the client requested. The memory of the staged
/// associations stays in the engine's tables, for the next push.
pub fn expire_push(plugin: &MfPriority, host: Host<'_, MfPriority>) {
    if plugin.is_push_open() {
        plugin.staged_pushes.borrow_mut().end("it expired, because no part arrived in time; begin again");
        let _ = plugin.feed_event(host, None, Event::PolicyAbort);
    }
}

fn take_push(
    plugin: &MfPriority,
    host: Host<'_, MfPriority>,
    request: &Request<'_>,
    method: &str,
) -> Result<OpenStagedPush> {
    let number = accept(host, method, wire::read_push_number(request.payload))?;
    plugin.staged_pushes.borrow_mut().take(number)
}

fn drop_push(plugin: &MfPriority, host: Host<'_, MfPriority>, open: OpenStagedPush, why: &str) {
    plugin.staged_pushes.borrow_mut().note_end(open.number, why);
    plugin.costs.step.set(CompletedPushStep::Drop);
    // An abort changes only staged records, so it has no effects that Flux could refuse.
    let _ = plugin.feed_event(host, None, Event::PolicyAbort);
}
