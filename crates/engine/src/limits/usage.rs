// SPDX-License-Identifier: LGPL-3.0-only
//! The counters of an association, in total and by queue.

use super::counts::Tally;
use super::job::Footprint;
use crate::accounts::{Scope, SiteLimits};
use crate::ids::QueueName;

/// All counters of one association.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of active jobs.
    pub active_jobs: u64,
    /// The sum over all queues and over jobs without a queue.
    pub total: Tally,
    /// The counters of each queue, sorted by name. A queue remains in the list after its jobs have ended.
    queues: Vec<(QueueName, UsageInQueue)>,
}

/// The counters of one association for its jobs in one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UsageInQueue {
    active_jobs: u64,
    /// `None` if no job in this queue has ever used or reserved headroom.
    tally: Option<Tally>,
}

impl Usage {
    fn in_queue(&self, queue: &str) -> (u64, Tally) {
        let found = self.queues.binary_search_by(|(name, _)| name.as_str().cmp(queue));
        let usage =
            found.ok().and_then(|at| self.queues.get(at)).map(|(_, usage)| *usage).unwrap_or_default();
        (usage.active_jobs, usage.tally.unwrap_or_default())
    }

    /// Returns the counters of the association's jobs in `queue`.
    pub fn tally_in_queue(&self, queue: &str) -> Tally {
        self.in_queue(queue).1
    }

    /// Returns the number of active jobs, and the amounts of all jobs. Leaves out jobs in queues that are exempt from
    /// the limits of associations.
    pub fn without_exempt_queues(&self, limits: &SiteLimits) -> (u64, Tally) {
        let exempt = limits.exempt_queues(Scope::Association);
        exempt.fold((self.active_jobs, self.total), |(active_jobs, total), queue| {
            let (active, tally) = self.in_queue(queue.as_str());
            (active_jobs.saturating_sub(active), total.zip(tally, u64::saturating_sub))
        })
    }

    /// Returns the queues in which a job was ever counted, with their counters.
    pub fn queues(&self) -> impl Iterator<Item = (&QueueName, &Tally)> {
        self.queues.iter().filter_map(|(name, usage)| Some((name, usage.tally.as_ref()?)))
    }

    /// Adds the amounts of a job to the counters if `is_in` is true. Otherwise subtracts the amounts.
    pub fn count_job(&mut self, footprint: &Footprint, is_in: bool) {
        let op = if is_in { u64::saturating_add } else { u64::saturating_sub };
        let tally = (!footprint.is_idle()).then(|| footprint.tally());
        let apply = |sum: &mut Tally, tally| *sum = sum.zip(tally, op);
        self.active_jobs = op(self.active_jobs, footprint.active_jobs);
        tally.into_iter().for_each(|tally| apply(&mut self.total, tally));
        let Some(queue) = &footprint.queue else { return };
        let at = self.queues.binary_search_by(|(name, _)| name.cmp(queue)).unwrap_or_else(|at| {
            self.queues.insert(at, (queue.clone(), UsageInQueue::default()));
            at
        });
        if let Some((_, usage)) = self.queues.get_mut(at) {
            usage.active_jobs = op(usage.active_jobs, footprint.active_jobs);
            tally.into_iter().for_each(|tally| apply(usage.tally.get_or_insert_default(), tally));
        }
    }

    /// Returns true if all counters are equal. A queue without jobs equals a queue that is not in the list.
    pub fn equals(&self, other: &Usage) -> bool {
        let covers = |a: &Usage, b: &Usage| {
            let mut names = a.queues.iter().map(|(name, _)| name.as_str());
            names.all(|name| a.in_queue(name) == b.in_queue(name))
        };
        self.active_jobs == other.active_jobs
            && self.total == other.total
            && covers(self, other)
            && covers(other, self)
    }
}
