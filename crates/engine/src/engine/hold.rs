// SPDX-License-Identifier: LGPL-3.0-only
//! How limits hold a job: by dependencies in DEPEND; without a priority in PRIORITY, and at priority 0 in SCHED, if limits came to concern
//! the job there.
//!
//! Flux takes a dependency only in NEW and DEPEND. What keeps a job in PRIORITY is that it is given no priority: asked for one, the
//! plugin says that there is none, and Flux leaves the job alone until it is given one by id. So a job that waits for data, that a
//! restart finds in PRIORITY, or that others let go when nobody watched it, stands in line there
//! ([`Grant::Awaited`](crate::limits::Grant)), and a pass releases it like any other held job.
//!
//! A job in SCHED stays there whatever the limits say: to `job.priority.get` Flux takes no such answer of it, but logs an error
//! and leaves it as it is. When its urgency or its jobspec changes, Flux has it in PRIORITY while it asks for its priority; an update may
//! have moved it into a full place then, or it wakes when its place to run is taken. It must be back in SCHED before the next reactor
//! turn: the scheduler may have decided on it, and only of a job in SCHED does Flux take resources for what starts it. In PRIORITY
//! they would be its own without a use; and when it was released Flux would ask for them again, take the second answer for an error,
//! and ask the scheduler for nothing more. So it is given priority 0, at which no scheduler is asked for it, and stands in
//! line in SCHED ([`is_in_sched`](crate::limits::Job::is_in_sched)), where it counts for nothing until it is released. Should resources
//! have been on their way, it runs, and counts as running. An expedited job cannot be held in SCHED, because Flux replaces priority 0:
//! it is released whatever the limits say. A job in SCHED without data keeps its posted priority. After a reload or a restart a job that is in SCHED at priority 0, though its
//! urgency is another, is taken for one of these: or its score is 0, and it rests when its turn comes.

use super::{Effect, Shared};
use crate::accounts::{AssociationId, RunningLimits};
use crate::ids::{JobId, Stage};
use crate::limits::{Demand, Grant, Holding, Job, Keepers, Line, Phase, Rule, rows_of_queues};

/// A job in PRIORITY has no priority, for whatever reason, and waits there for its turn.
pub(super) fn stays_in_priority(shared: &mut Shared, id: JobId) {
    if shared.ledger.job(id).is_some_and(|job| job.phase == Phase::Priority) {
        shared.ledger.change(id, Job::await_room);
    }
}

/// A job that was in SCHED is held, and gives up what it had.
pub(super) fn take_back(shared: &mut Shared, id: JobId) {
    // One that a restart sent to PRIORITY, where it found no priority, is there.
    let is_in_priority = shared.unpriced.contains(&id);
    shared.ledger.change(id, |job| {
        job.await_room();
        job.is_in_sched &= !is_in_priority;
    });
    shared.posted.forget(id);
    shared.posted.note_held_again(id);
}

/// A job that was in SCHED, at priority 0, wakes too late: it stands in line. What it leaves is others' in the next reactor turn, when
/// Flux has heard that it stays.
pub(super) fn stands_in_line(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let association = shared.ledger.job(id).and_then(Job::association);
    take_back(shared, id);
    association.into_iter().flat_map(|of| shared.due.scan_later(of, Line::All)).collect()
}

/// A job that an update takes from SCHED to PRIORITY, and into a full place, is held until there is room. What it counted
/// in before is no matter: of the limits of its association only if that is another one, or if it counts by
/// another rule.
pub(super) fn take_back_moved(
    shared: &mut Shared,
    id: JobId,
    former: Option<AssociationId>,
    is_all: bool,
) -> bool {
    let is_scheduled = |job: &Job| job.phase == Phase::Sched && former.is_some();
    let of_queue = shared.ledger.rules().select(Rule::is_of_queue).or(rows_of_queues());
    let is_new = |hold: &Holding| is_all || of_queue.contains(hold.hold);
    let is_late = shared.ledger.job(id).is_some_and(is_scheduled)
        && shared.ledger.holding(&shared.book, id).iter().any(is_new);
    if is_late {
        take_back(shared, id);
    }
    is_late
}

/// Counts an expedited job that Flux sends from SCHED through PRIORITY back to SCHED as scheduled. Priority 0 cannot hold it there.
/// This corrects the record where the callback of the job's first way to SCHED was missed.
pub(super) fn release_expedited(shared: &mut Shared, id: JobId) {
    if shared.ledger.job(id).is_some_and(|job| job.phase < Phase::Sched) {
        advance(shared, id, Phase::Sched);
    }
}

/// Adds a name for every limit that the job, in DEPEND, would exceed now; not to one of which nobody would tell that
/// it may go.
pub(super) fn hold(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    if shared.subscriptions.is_unwatched(id) && !shared.ledger.job(id).is_some_and(Job::is_held) {
        return Vec::new();
    }
    let exceeded = shared.ledger.exceeded_by(&shared.book, id);
    if exceeded.is_empty() {
        return Vec::new();
    }
    let rules = shared.ledger.rules();
    let names = shared.ledger.change(id, |job| {
        job.grant = Grant::None;
        job.names.add_all(rules, exceeded)
    });
    names.unwrap_or_default().into_iter().map(|name| Effect::AddDependency(id, name)).collect()
}

/// What was promised to a job that was released and kept by others is reserved again until it is charged.
pub(super) fn advance(shared: &mut Shared, id: JobId, phase: Phase) {
    shared.ledger.change(id, |job| {
        job.phase = phase;
        job.is_in_sched = false;
        if matches!(job.grant, Grant::Blocked | Grant::Awaited) {
            job.grant = Grant::Given;
        }
    });
}

/// Notes whether the job would be scheduled. Returns its association if that frees the headroom that the job has reserved.
pub(super) fn rest(shared: &mut Shared, id: JobId, demand: Demand) -> Option<AssociationId> {
    let job = shared.ledger.job(id).filter(|job| job.demand != demand)?;
    let (association, footprint) = (job.association(), job.footprint());
    shared.ledger.change(id, |job| job.demand = demand);
    let is_freed = shared.ledger.job(id).is_some_and(|job| job.footprint() != footprint);
    association.filter(|_| demand == Demand::Resting && is_freed)
}

/// By the strict rule a job that rested, and would be scheduled now, may find that its place to run is taken: then it
/// is held. Flux asks for every job: of one that did not rest this is known at once.
pub(super) fn wakes_too_late(shared: &Shared, id: JobId, job: &Job, urgency: i64) -> bool {
    let is_full = |hold: &Holding| hold.amount.stage == Stage::Running;
    (job.phase, job.demand, job.running) == (Phase::Sched, Demand::Resting, RunningLimits::Strict)
        && shared.explain(id, job, urgency).is_some_and(|it| it.priority > 0)
        && shared.ledger.holding(&shared.book, id).iter().any(is_full)
}

/// Returns true if this plugin alone holds the job in DEPEND, so that it can be put into SCHED at urgency 0.
pub(super) fn may_rest(job: &Job) -> bool {
    job.is_held() && job.phase == Phase::Depend && job.keepers == Keepers::NobodyElse
}
