// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs in PRIORITY that get their priority by id, because Flux would leave them in PRIORITY.
//!
//! Flux keeps pending jobs in one list, ordered by priority. To insert a job, Flux searches from the end of the
//! list, or from its beginning if the priority is in the upper half of the range. After a restart all pending jobs
//! are in PRIORITY without a priority. Flux's loop asks for their priorities in no order, so each insertion
//! searches half the list, and the broker serves no request until the loop ends. So if there are many jobs, the
//! engine leaves them in PRIORITY during the loop, and posts their priorities by id in the order of the list. With
//! this order, Flux inserts each job at the end or at the beginning of the list. With 20,000 jobs, the push that
//! begins Flux's loop takes a quarter of the time that it takes without this order.

use super::{Effect, Shared, Timer};
use crate::ids::JobId;
use crate::priority::PRIORITY_MAX;
use std::collections::BTreeSet;

/// Jobs that Flux may leave in PRIORITY.
#[derive(Clone, Debug, Default)]
pub(super) struct JobsLeftInPriority {
    jobs: BTreeSet<JobId>,
    /// A stack of the jobs, used only if there are many jobs. The last element is the next job to process. The stack
    /// may contain jobs that are no longer in `jobs`.
    order: Vec<JobId>,
}

impl JobsLeftInPriority {
    /// Makes the engine ask for the urgency of a job when `timer` fires, and post the job's priority by id.
    pub fn request_urgency_later(&mut self, id: JobId, timer: Timer) -> Effect {
        self.jobs.insert(id);
        Effect::Arm(timer)
    }

    pub fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    /// Returns the effect that arms the timer of the next requests, if there are jobs.
    pub fn timer(&self) -> Option<Effect> {
        (!self.jobs.is_empty()).then_some(Effect::Arm(Timer::ReactorTurn))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Removes and returns the next of the ordered jobs, or `None` if no job is left.
    fn take_next(&mut self) -> Option<JobId> {
        while let Some(id) = self.order.pop() {
            if self.jobs.remove(&id) {
                return Some(id);
            }
        }
        None
    }
}

/// If job `id` has no priority, makes the engine post the job's priority by id in the next reactor turn. Flux's
/// reprioritize would leave the job in PRIORITY if the priority did not change.
pub fn post_by_reprioritize(shared: &mut Shared, id: JobId) -> Option<Effect> {
    shared.unprioritized.remove(&id).then(|| shared.unmoved.request_urgency_later(id, Timer::ReactorTurn))
}

/// Asks for the urgencies of jobs in PRIORITY, to post their priorities by id. If there are many jobs, asks only for
/// the next batch.
pub fn request_next_urgencies(shared: &mut Shared) -> Vec<Effect> {
    if shared.unmoved.order.is_empty() {
        if shared.unmoved.jobs.len() <= shared.batches.put_off {
            let jobs = std::mem::take(&mut shared.unmoved.jobs);
            return jobs.into_iter().map(Effect::AskUrgency).collect();
        }
        shared.unmoved.order = order_jobs(shared, &shared.unmoved.jobs);
    }
    let next_jobs = std::iter::from_fn(|| shared.unmoved.take_next()).take(shared.batches.unmoved);
    let mut effects: Vec<Effect> = next_jobs.map(Effect::AskUrgency).collect();
    effects.extend(shared.unmoved.timer());
    effects
}

/// Returns true if too many jobs have no priority yet. The engine then leaves job `id` in PRIORITY during Flux's
/// loop.
pub fn is_put_off(shared: &Shared, id: JobId) -> bool {
    shared.unprioritized.len() > shared.batches.put_off && shared.unprioritized.contains(&id)
}

/// Sorts jobs so that Flux can insert each job into its list without a search. The engine posts the priority of the
/// last job in the returned list first. Uses the urgencies that Flux reported last.
pub fn order_jobs(shared: &Shared, jobs: &BTreeSet<JobId>) -> Vec<JobId> {
    let mut keyed: Vec<(bool, u32, u64)> = jobs
        .iter()
        .map(|id| {
            let explanation = shared.ledger.job(*id).and_then(|job| shared.explain(*id, job, job.urgency));
            let priority = explanation.map_or(0, |explanation| explanation.priority);
            if priority > PRIORITY_MAX / 2 { (true, !priority, id.0) } else { (false, priority, !id.0) }
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(is_high, _, id)| JobId(if is_high { id } else { !id })).collect()
}
