// SPDX-License-Identifier: LGPL-3.0-only
//! Handles `policy_update`, which pushes a whole site document in one message. Also handles the methods of
//! flux-accounting: `rec_update` and others push parts of the data, and `reprioritize` ends the push.

use crate::jobtap::{Host, LogLevel, Plugin, Reply, Request};
use crate::plugin::services::{
    accept, busy_error, log_omitted_warnings, log_warnings, make_reply, refuse_tree, request_error,
};
use crate::plugin::{MfPriority, costs::CompletedPushStep};
use fairshare_engine::accounts::{ChangeCounts, Difference};
use fairshare_engine::engine::{Event, answers::PushChanges};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::{self, WireError};
use std::ffi::CStr;

/// Applies data that flux-accounting pushes. `read` parses the data, and `make_event` makes the engine's event.
pub fn update_records<T>(
    plugin: &MfPriority,
    host: Host<'_, MfPriority>,
    request: &Request<'_>,
    method: &CStr,
    read: fn(Option<&str>, &mut Reader) -> Result<T, WireError>,
    make_event: fn(T) -> Event<'static>,
) -> Reply {
    let mut reader = Reader::default();
    let method = method.to_str().unwrap_or_default();
    let event = make_event(accept(host, method, read(request.payload, &mut reader))?);
    log_warnings(host.plugin(), &mut reader.warnings);
    log_omitted_warnings(host.plugin(), &reader.warnings);
    let outcome = plugin.feed_request_event(host, event);
    // Even if Flux refused an effect, the engine has the new data.
    plugin.record_data_update();
    let mut sum = plugin.pieces.get().unwrap_or_default();
    sum.add(plugin.view(|view| view.last_difference())?);
    plugin.pieces.set(Some(sum));
    plugin.advance_snapshot(host, |snapshot, _| snapshot.record_push_in_force(false));
    outcome.map_err(|refused| {
        request_error(refused.errno, format!("the update is in force, but a call failed: {}", refused.text))
    })?;
    Ok(None)
}

/// Ends a push that flux-accounting sent as several requests. Logs the number of changes, and makes Flux ask
/// for all priorities.
pub fn answer_reprioritize(plugin: &MfPriority, host: Host<'_, MfPriority>, _: &Request<'_>) -> Reply {
    if let Some(difference) = plugin.pieces.take() {
        let generation = plugin.view(|view| view.generation())?;
        log_push(host.plugin(), "push", generation, difference);
        plugin.costs.step.set(CompletedPushStep::End);
    }
    plugin.feed_request_event(host, Event::Reprioritize)?;
    Ok(None)
}

/// Replaces all data by one site document. For a dry run, answers with the changes that the document would
/// make.
pub fn update_policy(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let mut reader = Reader::default();
    let ((policy, site), dry_run) =
        accept(host, "policy_update", wire::read_policy_update(request.payload, &mut reader))?;
    log_warnings(host.plugin(), &mut reader.warnings);
    log_omitted_warnings(host.plugin(), &reader.warnings);
    plugin.costs.step.set(if dry_run { CompletedPushStep::Drop } else { CompletedPushStep::Whole });
    if dry_run {
        let difference =
            plugin.engine.read(|engine| engine.difference(policy, site)).ok_or_else(busy_error)?;
        let difference = difference.map_err(|fault| refuse_tree(host.plugin(), "policy_update", &fault))?;
        let generation = plugin.view(|view| view.generation())?;
        return make_reply(&PushChanges { generation, is_dry_run: true, difference });
    }
    plugin.staged_pushes.borrow_mut().end("a policy_update in one message replaced it");
    plugin.advance_snapshot(host, |snapshot, _| snapshot.restart_applying_snapshot());
    answer_push(plugin, host, Event::Policy(policy, site))
}

/// Passes `event`, the push of a whole site document, to the engine. Answers with the changes.
pub(super) fn answer_push(plugin: &MfPriority, host: Host<'_, MfPriority>, event: Event<'_>) -> Reply {
    let outcome = plugin.feed_request_event(host, event);
    if let Some(fault) = plugin.rejected.take() {
        plugin.costs.step.set(CompletedPushStep::Drop);
        return Err(refuse_tree(host.plugin(), "policy_update", &fault));
    }
    let (generation, difference) = plugin.view(|view| (view.generation(), view.last_difference()))?;
    log_push(host.plugin(), "policy", generation, difference);
    plugin.pieces.take();
    plugin.record_data_update();
    plugin.advance_snapshot(host, |snapshot, _| snapshot.record_push_in_force(true));
    outcome.map_err(|refused| {
        let text = format!("the policy is in force (generation {generation}), but: {}", refused.text);
        request_error(refused.errno, text)
    })?;
    make_reply(&PushChanges { generation, is_dry_run: false, difference })
}

/// Logs the changes of a push in one line.
fn log_push(plugin: Plugin, what: &str, generation: u64, difference: Difference) {
    let Difference { added, changed, removed, unchanged, others } = difference;
    let mut text = format!(
        "mf_priority: {what}: generation {generation}, associations: {added} added, {changed} changed, \
         {removed} removed, {unchanged} unchanged"
    );
    for (kind, counts @ ChangeCounts { added, changed, removed }) in others.kinds() {
        if !counts.is_empty() {
            text += &format!("; {kind}: {added} added, {changed} changed, {removed} removed");
        }
    }
    if others.config.changed > 0 {
        text += &format!("; config: {} changed", others.config.changed);
    }
    plugin.log(LogLevel::Info, &text);
}
