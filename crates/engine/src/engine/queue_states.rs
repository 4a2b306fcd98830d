// SPDX-License-Identifier: LGPL-3.0-only
//! Stores which queues are stopped, and which are scheduled together. `queues.rs` has the tables.

use super::{Effect, QueueReport, Shared, Timer, due::Scan, queues::UNANSWERED, recovery::Recovery};
use crate::ids::{JobId, QueueName};
use crate::limits::{Candidates, Phase};
use std::collections::BTreeSet;

/// Begins to ask for the states of queues if they affect a decision.
pub fn watch_queues(shared: &mut Shared, effects: &mut Vec<Effect>) {
    if !shared.queues.is_asking() && needs_queue_states(shared) {
        effects.push(Effect::ArmIn(Timer::Queues, shared.queues.begin_queue_requests()));
    }
}

/// Asks which queues are stopped.
pub fn ask_queues(shared: &mut Shared) -> Vec<Effect> {
    let is_needed = needs_queue_states(shared);
    shared.queues.make_queue_state_request(is_needed).into_iter().collect()
}

/// Stores which queues are stopped. If a queue was stopped or started, schedules a release scan. If Flux reported no
/// states, because the scheduler is not loaded yet, the engine asks again soon.
pub fn store_queue_states(shared: &mut Shared, states: Vec<(Option<QueueName>, QueueReport)>) -> Vec<Effect> {
    let is_unanswered = !states.is_empty() && states.iter().all(|(_, state)| *state == QueueReport::Unknown);
    let mut changed = BTreeSet::new();
    for (queue, state) in states {
        if state == QueueReport::Missing {
            shared.queues.mark_missing(queue.clone());
        }
        let is_stopped = state != QueueReport::Started;
        if state != QueueReport::Unknown && shared.ledger.set_stopped(queue.clone(), is_stopped) {
            changed.insert(queue);
        }
    }
    update_reservations_in_queues(shared, &changed);
    vec![if is_unanswered { Effect::ArmIn(Timer::Queues, UNANSWERED) } else { Effect::Arm(Timer::Queues) }]
}

/// Stores the named queues of Flux's configuration, each with its parent.
pub fn store_configured_queues(
    shared: &mut Shared,
    recovery: &mut Recovery,
    queues: Vec<(QueueName, Option<QueueName>)>,
) -> Vec<Effect> {
    let Some(parents) = shared.queues.set_configured_queues(queues) else { return Vec::new() };
    // The `max-priority` of a parent also bounds the priorities of jobs in its virtual queues, so cached priorities are invalid.
    shared.revision += 1;
    shared.book.set_queue_parents(parents.clone());
    shared.ledger.apply_scope_limits(&shared.book);
    recovery.mark_limits_changed();
    // A limit on the parent queue also counts the jobs of its virtual queues.
    reorder_queues(shared);
    let mut effects = shared.scan_all_held_later();
    if !shared.settings.max_priorities.is_empty() {
        effects.push(shared.due.note_changed_priority_settings());
    }
    effects
}

/// Stores whether the scheduler keeps the jobs of all queues in one list.
pub fn store_single_list_flag(shared: &mut Shared, is_one_list: bool) -> Vec<Effect> {
    if shared.queues.set_single_list_flag(is_one_list) {
        reorder_queues(shared);
    }
    Vec::new()
}

/// Puts each pending job into the order of its scheduler queue. The next refresh corrects the orders.
fn reorder_queues(shared: &mut Shared) {
    let (queues, ledger) = (&shared.queues, &shared.ledger);
    shared.posted.reassign_queues(|id| {
        let queue = ledger.job(id).and_then(|job| job.queue.as_ref());
        queues.scheduler_queue(queue).cloned()
    });
}

/// Suspends the reservations of jobs in queues that were stopped, and resumes the reservations of jobs in
/// queues that were started.
fn update_reservations_in_queues(shared: &mut Shared, changed: &BTreeSet<Option<QueueName>>) {
    if changed.is_empty() {
        return;
    }
    let pending =
        shared.ledger.jobs().filter(|(_, job)| job.phase < Phase::Run && changed.contains(&job.queue));
    let pending: Vec<JobId> = pending.map(|(id, _)| id).collect();
    // Only jobs outside of stopped queues can take the headroom of suspended reservations. When a queue starts, held
    // jobs of this queue can take this headroom too, so a release scan is needed.
    let mut associations = BTreeSet::new();
    for id in pending {
        let Some(job) = shared.ledger.job(id) else { continue };
        let is_queue_stopped = shared.ledger.is_stopped(job.queue.as_ref());
        associations.extend(job.association());
        shared.ledger.change(id, |job| job.is_queue_stopped = is_queue_stopped);
    }
    let scans = associations.into_iter().map(|association| (association, Candidates::All)).collect();
    shared.due.add_release_scan_after_event(Scan::Associations(scans));
}

fn needs_queue_states(shared: &Shared) -> bool {
    let has_held = shared.ledger.associations_with_held().next().is_some();
    shared.queues.are_states_needed(shared.ledger.stopped_queues(), has_held)
}
