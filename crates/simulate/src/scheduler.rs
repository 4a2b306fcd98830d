// SPDX-License-Identifier: LGPL-3.0-only
//! Selects the pending jobs to start: first come first served by priority, or with EASY backfill behind the first job.
//!
//! The cluster is a number of cores; it does not matter which nodes a job gets.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use super::trace::Job;

/// Scheduling algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// First come first served: no job starts before the first pending job.
    Fcfs,
    /// Backfill: a job may start if, by the time limits, it does not delay the first pending job.
    #[default]
    Easy,
}

/// A time that implements `Ord`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Time(pub(super) f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Index of a job in the history.
pub(super) type JobIndex = u32;

/// The pending jobs that may start, by descending priority. Jobs of equal priority are in the order of submission.
#[derive(Debug, Default)]
pub(super) struct Queue {
    order: BTreeSet<(Reverse<u32>, JobIndex)>,
    /// Number of jobs by number of cores.
    sizes: BTreeMap<u32, u32>,
}

impl Queue {
    pub(super) fn insert(&mut self, priority: u32, job: JobIndex, cores: u32) {
        if self.order.insert((Reverse(priority), job)) {
            *self.sizes.entry(cores).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, priority: u32, job: JobIndex, cores: u32) {
        if self.order.remove(&(Reverse(priority), job))
            && let Some(count) = self.sizes.get_mut(&cores)
        {
            *count -= 1;
            if *count == 0 {
                self.sizes.remove(&cores);
            }
        }
    }

    /// Returns true if the smallest job fits into `free` cores.
    pub(super) fn has_fitting_job(&self, free: u64) -> bool {
        self.sizes.first_key_value().is_some_and(|(least, _)| u64::from(*least) <= free)
    }

    fn jobs(&self) -> impl Iterator<Item = JobIndex> {
        self.order.iter().map(|(_, job)| *job)
    }

    #[cfg(test)]
    pub(super) fn head(&self) -> Option<JobIndex> {
        self.jobs().next()
    }
}

/// The cores of the cluster, and the running jobs.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) cores: u64,
    pub(super) free: u64,
    /// The running jobs. The key is the latest end time of a job with the job's index, the value is the job's number of
    /// cores.
    ends: BTreeMap<(Time, JobIndex), u32>,
}

/// The latest time at which the first pending job starts, and the number of cores that are still free after that start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reservation {
    pub(super) start: f64,
    pub(super) extra: u64,
}

impl Cluster {
    pub(super) fn new(cores: u64) -> Cluster {
        Cluster { cores, free: cores, ends: BTreeMap::new() }
    }

    pub(super) fn allocate(&mut self, number: JobIndex, job: &Job, now: f64) {
        self.free = self.free.saturating_sub(job.cores.into());
        self.ends.insert((Time(now + job.walltime), number), job.cores);
    }

    pub(super) fn release(&mut self, number: JobIndex, job: &Job, started: f64) {
        if self.ends.remove(&(Time(started + job.walltime), number)).is_some() {
            self.free += u64::from(job.cores);
        }
    }

    /// Returns the reservation for a job of `cores` cores that does not fit now, or `None` if the cluster is too
    /// small.
    pub(super) fn reserve(&self, cores: u32) -> Option<Reservation> {
        let cores_needed = u64::from(cores);
        let (mut free, mut start) = (self.free, None);
        for ((end, _), cores_freed) in &self.ends {
            // Jobs that end at the time `start` free their cores too.
            if start.is_some_and(|start| start < end.0) {
                break;
            }
            free += u64::from(*cores_freed);
            start = start.or((free >= cores_needed).then_some(end.0));
        }
        start.map(|start| Reservation { start, extra: free - cores_needed })
    }
}

impl Scheduler {
    /// Returns the jobs to start now, in order. Backfill considers `depth` jobs after the first one.
    pub(super) fn choose_jobs(
        self,
        queue: &Queue,
        cluster: &Cluster,
        (jobs, depth): (&[Job], usize),
        now: f64,
    ) -> Vec<JobIndex> {
        let mut chosen = Vec::new();
        let mut free = cluster.free;
        if !queue.has_fitting_job(free) {
            return chosen;
        }
        let mut pending = queue.jobs();
        let mut blocked = None;
        for number in pending.by_ref() {
            let Some(job) = jobs.get(number as usize) else { continue };
            if u64::from(job.cores) > free {
                blocked = Some(job);
                break;
            }
            free -= u64::from(job.cores);
            chosen.push(number);
        }
        let Some(head) = blocked.filter(|_| self == Scheduler::Easy && chosen.is_empty()) else {
            return chosen;
        };
        let Some(Reservation { start, mut extra }) = cluster.reserve(head.cores) else { return chosen };
        for number in pending.take(depth) {
            let Some(job) = jobs.get(number as usize) else { continue };
            let cores = u64::from(job.cores);
            if cores > free {
                continue;
            }
            let is_over_before = now + job.walltime <= start;
            if is_over_before || cores <= extra {
                free -= cores;
                extra -= if is_over_before { 0 } else { cores };
                chosen.push(number);
                if !queue.has_fitting_job(free) {
                    break;
                }
            }
        }
        chosen
    }
}
