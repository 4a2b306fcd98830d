// SPDX-License-Identifier: LGPL-3.0-only
//! Holds jobs that exceed limits. A job is held in DEPEND by dependencies, in PRIORITY by the answer that the job has
//! no priority, and in SCHED by priority 0.
//!
//! # In PRIORITY
//!
//! Flux accepts a dependency only in NEW and DEPEND. In PRIORITY, the plugin answers that the job has no priority. Flux
//! leaves the job there until the plugin posts a priority by id. A release scan releases the job like any other held
//! job. A job is held in PRIORITY ([`Reservation::Awaited`](crate::limits::Reservation)) in these cases:
//!
//! - The job waited for data.
//! - The job was in PRIORITY when Flux restarted.
//! - Other plugins released the job while our plugin was not subscribed to the events of the job.
//!
//! # In SCHED
//!
//! Flux rejects the answer "no priority" for a job in SCHED, logs an error, and leaves the job as it is. If the urgency
//! or the jobspec of the job changes, Flux moves the job to PRIORITY and asks for its priority. At this point the job
//! may exceed a limit, because an update has changed its limits, or because the job lost its reservation at priority 0.
//!
//! The job must return to SCHED before the next reactor turn. The scheduler may have decided on the job, and Flux takes
//! resources for a start only in SCHED. If the job stayed in PRIORITY, the resources would be allocated but unused.
//! After the release, Flux would request the resources again, treat the second answer as an error, and send the
//! scheduler no more requests.
//!
//! So the job gets priority 0. Flux requests no resources for priority 0, so the job is held in SCHED
//! ([`is_in_sched`](crate::limits::Job::is_in_sched)), and no limit counts it. If the scheduler had already allocated
//! resources, the job runs, and limits count it as running.
//!
//! - An expedited job cannot be held in SCHED, because Flux replaces priority 0. The plugin releases an expedited job
//!   even if the job exceeds a limit.
//! - While the plugin has no data, a job in SCHED keeps its posted priority.
//! - After a reload or a restart, a job in SCHED at priority 0 is treated as held, unless its urgency is 0. If its
//!   current priority is also 0, the job stays at priority 0 after the release.

use super::{Effect, Shared};
use crate::accounts::{AssociationId, RunningLimits};
use crate::ids::{JobId, QueueName, Stage};
use crate::limits::{BlockState, Candidates, Demand, Holding, Job, Phase, Reservation, Size};

/// Holds a job in PRIORITY that has no priority, whatever the reason.
pub fn hold_in_priority(shared: &mut Shared, id: JobId) {
    if shared.ledger.job(id).is_some_and(|job| job.phase == Phase::Priority) {
        shared.ledger.change(id, Job::hold_past_depend);
    }
}

/// Holds a job that was in SCHED. The job's reservation ends.
pub fn hold_in_sched(shared: &mut Shared, id: JobId) {
    // A restart may have moved the job to PRIORITY. If the job got no priority, it is still in PRIORITY.
    let is_in_priority = shared.unprioritized.contains(&id);
    shared.ledger.change(id, |job| {
        job.hold_past_depend();
        job.is_in_sched &= !is_in_priority;
    });
    shared.posted.remove_job(id);
    shared.posted.mark_held_again(id);
}

/// Holds a job in SCHED at priority 0 until there is headroom for it. The job loses its reservation, so the release
/// scan of the next reactor turn may release other jobs. By then Flux has the new priority of this job.
pub fn hold_until_headroom(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let association = shared.ledger.job(id).and_then(Job::association);
    hold_in_sched(shared, id);
    association.into_iter().flat_map(|of| shared.due.schedule_scan(of, Candidates::All)).collect()
}

/// Holds a job that an update moves from SCHED to PRIORITY, if the job exceeds a limit. `association`, `queue` and
/// `size` are those before the update. `is_all` is true if the association or the counting rule of the job has changed.
/// If `is_all` is false, checks only the limits that may newly apply: after a change of the queue, the limits of the
/// queue, and after an extension of the time limit, the limits that count time. Returns true if the job is held.
pub fn hold_job_moved_from_sched(
    shared: &mut Shared,
    id: JobId,
    (association, queue, size): &(Option<AssociationId>, Option<QueueName>, Size),
    is_all: bool,
) -> bool {
    let is_scheduled = |job: &&Job| job.phase == Phase::Sched && association.is_some();
    let Some(job) = shared.ledger.job(id).filter(is_scheduled) else { return false };
    let on_move = shared.limits().list_limits_on_move(queue.as_ref(), job.queue.as_ref());
    let is_longer = job.size.time_limit_ms > size.time_limit_ms;
    let is_new =
        |it: &Holding| is_all || on_move.contains(it.hold) || is_longer && it.amount.measure.is_time();
    let exceeds_limit = shared.limits().holding(id).iter().any(is_new);
    if exceeds_limit {
        hold_in_sched(shared, id);
    }
    exceeds_limit
}

/// Counts an expedited job as scheduled, even if it exceeds a limit: priority 0 cannot hold an expedited job. Also
/// corrects the phase if no callback reported that the job had entered SCHED.
pub fn release_expedited(shared: &mut Shared, id: JobId) {
    if shared.ledger.job(id).is_some_and(|job| job.phase < Phase::Sched) {
        advance_phase(shared, id, Phase::Sched);
    }
}

/// Adds a dependency for each limit that a job in DEPEND exceeds now. An unwatched job without dependencies
/// of this plugin gets no dependency, because no event would report when the job can be released.
pub fn hold_in_depend(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    if shared.subscriptions.is_unwatched(id) && !shared.ledger.job(id).is_some_and(Job::is_held) {
        return Vec::new();
    }
    let exceeded = shared.limits().exceeded_by(id);
    if exceeded.is_empty() {
        return Vec::new();
    }
    let rules = shared.ledger.rules();
    let names = shared.ledger.change(id, |job| {
        job.reservation = Reservation::None;
        job.names.add_all(rules, exceeded)
    });
    names.unwrap_or_default().into_iter().map(|name| Effect::AddDependency(id, name)).collect()
}

/// Stores the next phase of a job. If the job was released while other plugins blocked it, reserves headroom for the
/// job again.
pub fn advance_phase(shared: &mut Shared, id: JobId, phase: Phase) {
    shared.ledger.change(id, |job| {
        job.phase = phase;
        job.is_in_sched = false;
        if matches!(job.reservation, Reservation::Blocked | Reservation::Awaited) {
            job.reservation = Reservation::Given;
        }
    });
}

/// Stores whether the scheduler would consider the job. Returns the job's association if the job gives back reserved
/// headroom.
pub fn store_scheduler_demand(shared: &mut Shared, id: JobId, demand: Demand) -> Option<AssociationId> {
    let job = shared.ledger.job(id).filter(|job| job.demand != demand)?;
    let (association, footprint) = (job.association(), job.footprint());
    shared.ledger.change(id, |job| job.demand = demand);
    let is_freed = shared.ledger.job(id).is_some_and(|job| job.footprint() != footprint);
    association.filter(|_| demand == Demand::Resting && is_freed)
}

/// Returns true if a job in SCHED at priority 0 would now get a higher priority, but exceeds a limit on running jobs.
/// Always false under the rule [`RunningLimits::Upstream`]. Flux asks about every job, so a cheap test first excludes
/// jobs that were not at priority 0.
pub fn lacks_headroom_to_resume(shared: &Shared, id: JobId, job: &Job, urgency: i64) -> bool {
    let is_full = |hold: &Holding| hold.amount.stage == Stage::Running;
    (job.phase, job.demand, job.running) == (Phase::Sched, Demand::Resting, RunningLimits::Strict)
        && shared.explain(id, job, urgency).is_some_and(|it| it.priority > 0)
        && shared.limits().holding(id).iter().any(is_full)
}

/// Returns true if only this plugin holds the job in DEPEND, so that a request `rest` can move the job to SCHED at urgency 0.
pub fn can_rest(job: &Job) -> bool {
    job.is_held() && job.phase == Phase::Depend && job.block_state == BlockState::Unblocked
}
