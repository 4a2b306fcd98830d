// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs in PRIORITY that get their priority by id, because Flux would leave them there.
//!
//! Flux keeps pending jobs in one list, ordered by priority. It finds the place of a new job by a walk from the end of the list; for
//! priorities in the upper half of the range, from its beginning. After a restart all of them are in PRIORITY without a priority. Flux's
//! loop asks for their priorities in no order, so each insertion walks over half the list, and the broker serves no request until the
//! loop ends. So if there are many, the loop leaves them in PRIORITY, and they get their priorities by id, in the order of the list. Then
//! each job is the last of the list, or the first. With 20,000 jobs, the push that makes Flux loop takes a quarter of the time.

use super::{Effect, Shared, Timer};
use crate::ids::JobId;
use crate::priority::PRIORITY_MAX;
use std::collections::BTreeSet;

/// Jobs in PRIORITY that Flux may leave there.
#[derive(Clone, Debug, Default)]
pub(super) struct Unmoved {
    jobs: BTreeSet<JobId>,
    /// The order in which many jobs get their priorities, the first at the end. Jobs in it may have left the set.
    order: Vec<JobId>,
}

impl Unmoved {
    pub fn insert(&mut self, id: JobId) {
        self.jobs.insert(id);
    }

    pub fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Removes and returns the next of the ordered jobs.
    fn next(&mut self) -> Option<JobId> {
        while let Some(id) = self.order.pop() {
            if self.jobs.remove(&id) {
                return Some(id);
            }
        }
        None
    }
}

/// Returns the answer for a job that gets its priority by id in a later reactor turn.
pub(super) fn put_off_job(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    shared.due.unmoved.insert(id);
    vec![Effect::Arm(Timer::Turn), Effect::KeepPriority]
}

/// Notes that a job in PRIORITY gets its priority from a reprioritize. If that equals the priority before, Flux does nothing; so the job
/// gets its then current priority by id in the next reactor turn.
pub(super) fn post_later(shared: &mut Shared, id: JobId) -> Option<Effect> {
    shared.unpriced.remove(&id).then(|| {
        shared.due.unmoved.insert(id);
        Effect::Arm(Timer::Turn)
    })
}

/// Asks for the urgencies of the jobs that get their priority by id: of all, or of the next ones if there are many.
pub(super) fn ask_next_unmoved(shared: &mut Shared) -> Vec<Effect> {
    if shared.due.unmoved.order.is_empty() {
        if shared.due.unmoved.jobs.len() <= shared.batches.put_off {
            let jobs = std::mem::take(&mut shared.due.unmoved.jobs);
            return jobs.into_iter().map(Effect::AskUrgency).collect();
        }
        shared.due.unmoved.order = order_jobs(shared, &shared.due.unmoved.jobs);
    }
    let next = std::iter::from_fn(|| shared.due.unmoved.next()).take(shared.batches.unmoved);
    let mut effects: Vec<Effect> = next.map(Effect::AskUrgency).collect();
    effects.extend((!shared.due.unmoved.is_empty()).then_some(Effect::Arm(Timer::Turn)));
    effects
}

/// Returns true if Flux's loop leaves the job in PRIORITY, because there are many such jobs.
pub(super) fn is_put_off(shared: &Shared, id: JobId) -> bool {
    shared.unpriced.len() > shared.batches.put_off && shared.unpriced.contains(&id)
}

/// Orders jobs so that Flux finds the place of each without a walk, the first at the end. Uses the urgencies that Flux reported last.
pub(super) fn order_jobs(shared: &Shared, jobs: &BTreeSet<JobId>) -> Vec<JobId> {
    let mut keyed: Vec<(bool, u32, u64)> = jobs
        .iter()
        .map(|id| {
            let made = shared.ledger.job(*id).and_then(|job| shared.explain(*id, job, job.urgency));
            let priority = made.map_or(0, |made| made.priority);
            match priority > PRIORITY_MAX / 2 {
                true => (true, !priority, id.0),
                false => (false, priority, !id.0),
            }
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(is_high, _, id)| JobId(if is_high { id } else { !id })).collect()
}
