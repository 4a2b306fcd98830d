// SPDX-License-Identifier: LGPL-3.0-only
//! The counters of an association, in total and by queue.

use super::counts::Tally;
use super::job::{Footprint, Job};
use crate::ids::QueueName;

/// All counters of one association.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of active jobs.
    pub active_jobs: u64,
    /// The sum over all queues and over jobs without a queue.
    pub total: Tally,
    /// The counters of each queue, sorted by name. A queue remains in the list after its jobs have ended.
    queues: Vec<(QueueName, Tally)>,
}

impl Usage {
    /// Returns the counters of the association's jobs in `queue`.
    pub fn tally_in_queue(&self, queue: &str) -> Tally {
        let found = self.queues.binary_search_by(|(name, _)| name.as_str().cmp(queue));
        found.ok().and_then(|at| self.queues.get(at)).map_or(Tally::default(), |(_, tally)| *tally)
    }

    /// Returns the queues in which a job was ever counted, with their counters.
    pub fn queues(&self) -> impl Iterator<Item = (&QueueName, &Tally)> {
        self.queues.iter().map(|(name, tally)| (name, tally))
    }

    /// Adds a job if `is_in` is true, and subtracts it otherwise.
    pub fn count_job(&mut self, job: &Job, footprint: Footprint, is_in: bool) {
        let op = if is_in { u64::saturating_add } else { u64::saturating_sub };
        self.active_jobs = op(self.active_jobs, footprint.active_jobs);
        if footprint.is_idle() {
            return;
        }
        let apply = |tally: &mut Tally| *tally = tally.zip(footprint.tally, op);
        apply(&mut self.total);
        let Some(queue) = &job.queue else { return };
        let at = match self.queues.binary_search_by(|(name, _)| name.cmp(queue)) {
            Ok(at) => at,
            Err(at) => {
                self.queues.insert(at, (queue.clone(), Tally::default()));
                at
            }
        };
        if let Some((_, tally)) = self.queues.get_mut(at) {
            apply(tally);
        }
    }

    /// Returns true if all counters are equal. A queue without jobs equals a queue that is not in the list.
    pub fn equals(&self, other: &Usage) -> bool {
        let covers =
            |a: &Usage, b: &Usage| a.queues().all(|(name, tally)| *tally == b.tally_in_queue(name.as_str()));
        self.active_jobs == other.active_jobs
            && self.total == other.total
            && covers(self, other)
            && covers(other, self)
    }
}
