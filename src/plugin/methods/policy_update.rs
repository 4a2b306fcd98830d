// SPDX-License-Identifier: LGPL-3.0-only
//! `policy_update`: a whole site document in one message.

use super::changes::log_push;
use crate::jobtap::{Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::costs::PushStep;
use crate::plugin::services::{
    accept, busy_error, log_omitted_warnings, log_warnings, make_reply, refuse_tree, request_error,
};
use fairshare_engine::engine::Event;
use fairshare_engine::engine::answers::PushChanges;
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire;

/// Replaces all data by one site document. For a dry run, answers with the changes that the document would
/// make.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let mut reader = Reader::default();
    let ((policy, site), dry_run) =
        accept(host, "policy_update", wire::policy_update(request.payload, &mut reader))?;
    log_warnings(host.plugin(), &mut reader.warnings);
    log_omitted_warnings(host.plugin(), &reader.warnings);
    plugin.costs.note_step(if dry_run { PushStep::Drop } else { PushStep::Whole });
    if dry_run {
        let difference =
            plugin.engine.read(|engine| engine.difference(policy, site)).ok_or_else(busy_error)?;
        let difference = difference.map_err(|fault| refuse_tree(host.plugin(), "policy_update", &fault))?;
        let generation = plugin.view(|view| view.generation())?;
        return make_reply(&PushChanges { generation, is_dry_run: true, difference });
    }
    if let Ok(mut pushes) = plugin.staged_pushes.try_borrow_mut() {
        pushes.end("a policy_update in one message replaced it");
    }
    plugin.advance_snapshot(host, |snapshot, _| snapshot.restart_applying());
    put_in_force(plugin, host, Event::Policy(policy, site))
}

/// Puts a whole site document in force by `event`, and answers with the changes.
pub(super) fn put_in_force(plugin: &MfPriority, host: Host<'_, MfPriority>, event: Event<'_>) -> Reply {
    let outcome = plugin.handle_request_event(host, event);
    if let Some(fault) = plugin.rejected.take() {
        plugin.costs.note_step(PushStep::Drop);
        return Err(refuse_tree(host.plugin(), "policy_update", &fault));
    }
    let (generation, difference) = plugin.view(|view| (view.generation(), view.latest_difference()))?;
    log_push(host.plugin(), "policy", generation, difference);
    plugin.pieces.take_sum();
    plugin.note_update();
    plugin.advance_snapshot(host, |snapshot, _| snapshot.note_push(true));
    outcome.map_err(|refused| {
        let text = format!("the policy is in force (generation {generation}), but: {}", refused.text);
        request_error(refused.errno, text)
    })?;
    make_reply(&PushChanges { generation, is_dry_run: false, difference })
}
