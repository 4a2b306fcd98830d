// SPDX-License-Identifier: LGPL-3.0-only
//! Observes the dependencies of other plugins: which jobs the other plugins block in DEPEND, and when they
//! release a job.
//!
//! Flux reports the events of a job only to plugins that subscribed to the job, and searches its list of subscriptions
//! from the front when a subscription ends. So the plugin subscribes to a job only while other plugins may block it, at
//! most from NEW to the end of DEPEND. It subscribes at once if the jobspec declares dependencies, and otherwise when
//! the job stays in DEPEND without a dependency of this plugin.
//!
//! There are at most [`Batches::subscribed`](super::Batches) subscriptions, because users can have any number
//! of jobs that wait for other jobs or for a begin time. Any further job is unwatched: no event reports when
//! other plugins release it. An unwatched job gets no dependency of this plugin, because the engine would
//! regard the job as blocked and never release it. If the job has such dependencies from before a reload, it
//! is held as if no other plugin blocked it. When other plugins release the job, it enters PRIORITY, and is
//! held there if there is no headroom.

use super::{Effect, Shared, State, due::Task, hold, subscriptions::ForeignNames};
use crate::ids::JobId;
use crate::limits::{BlockState, Candidates, Phase, Reservation};

/// Subscribes to a job that declares dependencies, before other plugins see the job.
pub fn subscribe_at_creation(
    shared: &mut Shared,
    id: JobId,
    state: State,
    has_dependencies: bool,
) -> Vec<Effect> {
    let foreign_names = match state {
        State::New if has_dependencies => ForeignNames::complete(),
        State::Depend if has_dependencies => ForeignNames::default(),
        _ => return Vec::new(),
    };
    subscribe_to_job(shared, id, foreign_names).unwrap_or_default()
}

/// Subscribes to a job that other plugins block, and reads the names of their dependencies from its eventlog.
pub fn watch_job(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    if shared.subscriptions.names(id).is_some() {
        return Vec::new();
    }
    let Some(mut effects) = subscribe_to_job(shared, id, ForeignNames::default()) else {
        return Vec::new();
    };
    shared.ledger.change(id, |job| job.block_state = BlockState::Blocked);
    shared.ledger.update_age_eligibility(id, None, shared.now);
    effects.push(Effect::ReadEventlog(id));
    effects
}

fn subscribe_to_job(shared: &mut Shared, id: JobId, names: ForeignNames) -> Option<Vec<Effect>> {
    let effects = shared.subscriptions.add(id, names);
    if effects.is_none() {
        mark_job_unwatched(shared, id);
    }
    effects
}

/// Marks a job as unwatched: no event reports when other plugins release it. Unless limits hold the job, the engine
/// assumes that other plugins block it.
pub fn mark_job_unwatched(shared: &mut Shared, id: JobId) {
    shared.subscriptions.mark_unwatched(id);
    shared.ledger.change(id, |job| {
        let is_ours = !job.names.outstanding().is_empty();
        job.block_state = if is_ours { BlockState::Unblocked } else { BlockState::Blocked };
    });
    shared.ledger.update_age_eligibility(id, None, shared.now);
}

/// Subscribes to jobs that are still in DEPEND without a dependency of this plugin. In the same reactor turn,
/// Flux moves a job that has no dependencies out of DEPEND. So other plugins block these jobs.
pub fn watch_blocked_jobs(shared: &mut Shared) -> Vec<Effect> {
    let mut jobs = shared.due.take_jobs_of_task(Task::WatchBlocked);
    jobs.retain(|id| shared.ledger.job(*id).is_some_and(|job| job.phase == Phase::Depend));
    jobs.into_iter().flat_map(|id| watch_job(shared, id)).collect()
}

/// Records that the dependency `name` of a job was added or removed.
pub fn note_dependency(shared: &mut Shared, id: JobId, name: &str, added: bool) -> Vec<Effect> {
    if shared.ledger.rules().parse(name).is_some() {
        return Vec::new();
    }
    let Some(foreign_names) = shared.subscriptions.names_mut(id) else { return Vec::new() };
    foreign_names.record_dependency_of_other_plugin(name, added);
    let may_go = !added && foreign_names.count_blocking_dependencies() == 0;
    let mut effects = update_block_state(shared, id);
    effects.extend(may_go.then(|| hold_job_if_released(shared, id)).into_iter().flatten());
    effects
}

/// Records whether other plugins block the job. If they stopped blocking a held job, a release scan follows in the
/// next reactor turn, because the running callback is about that job.
pub fn update_block_state(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let block_state = shared.subscriptions.block_state(id);
    let Some(job) = shared.ledger.job(id).filter(|job| job.block_state != block_state) else {
        return Vec::new();
    };
    let (association, is_held) = (job.association(), job.is_held());
    shared.ledger.change(id, |job| job.block_state = block_state);
    shared.ledger.update_age_eligibility(id, None, shared.now);
    match association {
        Some(association) if block_state == BlockState::Unblocked && is_held => {
            shared.due.schedule_scan(association, Candidates::Unblocked)
        }
        _ => Vec::new(),
    }
}

/// Holds a job in DEPEND that has no dependency of this plugin, if the job exceeds a limit. If other plugins have just
/// released the job, it leaves DEPEND after the current callback, so the engine must hold the job now. If several jobs
/// wait for the same job, the engine tests each of them after the jobs that were released before it.
fn hold_job_if_released(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let Some(job) = shared.ledger.job(id).filter(|job| job.is_only_blocked_by_plugins()) else {
        return Vec::new();
    };
    // If the job already has a reservation, a release scan has just released it.
    if job.reservation == Reservation::Given { Vec::new() } else { hold::hold_in_depend(shared, id) }
}
