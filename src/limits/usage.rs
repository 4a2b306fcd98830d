// SPDX-License-Identifier: LGPL-3.0-only
//! Counters: what jobs occupy, and what has been promised to released jobs.

use super::job::{Footprint, Job};
use super::size::Size;
use super::table::Measure;
use crate::ids::QueueName;

/// Jobs and what they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Jobs.
    pub jobs: u64,
    /// Their nodes.
    pub nodes: u64,
    /// Their cores.
    pub cores: u64,
}

impl Amounts {
    /// What one job of `size` counts as.
    pub fn of_job(size: Size) -> Amounts {
        let [jobs, nodes, cores] = [Measure::Jobs, Measure::Nodes, Measure::Cores].map(|m| m.of(size));
        Amounts { jobs, nodes, cores }
    }

    /// One of them.
    pub fn of(self, measure: Measure) -> u64 {
        match measure {
            Measure::Jobs => self.jobs,
            Measure::Nodes => self.nodes,
            Measure::Cores => self.cores,
        }
    }

    fn zip(self, other: Amounts, op: fn(u64, u64) -> u64) -> Amounts {
        Amounts {
            jobs: op(self.jobs, other.jobs),
            nodes: op(self.nodes, other.nodes),
            cores: op(self.cores, other.cores),
        }
    }
}

/// What runs, and what is in SCHED.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// From RUN to INACTIVE.
    pub run: Amounts,
    /// In SCHED.
    pub sched: Amounts,
}

impl Counts {
    fn zip(self, other: Counts, op: fn(u64, u64) -> u64) -> Counts {
        Counts { run: self.run.zip(other.run, op), sched: self.sched.zip(other.sched, op) }
    }

    /// The sum; never wraps.
    pub fn plus(self, other: Counts) -> Counts {
        self.zip(other, u64::saturating_add)
    }

    /// The difference; never wraps.
    pub fn minus(self, other: Counts) -> Counts {
        self.zip(other, u64::saturating_sub)
    }
}
/// What is occupied and what is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By jobs in RUN and SCHED.
    pub charged: Counts,
    /// To released jobs that are not there yet.
    pub reserved: Counts,
}

impl Tally {
    /// What decisions count with.
    pub fn total(&self) -> Counts {
        self.charged.plus(self.reserved)
    }
}

/// All counters of one association.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Active jobs.
    pub active_jobs: u64,
    /// Over all queues, and none.
    pub total: Tally,
    /// Per queue, sorted by name. A queue stays listed once a job was counted in it.
    queues: Vec<(QueueName, Tally)>,
}

impl Usage {
    /// What is counted in one queue.
    pub fn in_queue(&self, queue: &str) -> Tally {
        let found = self.queues.binary_search_by(|(name, _)| name.as_str().cmp(queue));
        found.ok().and_then(|at| self.queues.get(at)).map_or(Tally::default(), |(_, tally)| *tally)
    }

    /// Queues in which a job was ever counted.
    pub fn queues(&self) -> impl Iterator<Item = (&QueueName, &Tally)> {
        self.queues.iter().map(|(name, tally)| (name, tally))
    }

    /// Counts a job.
    pub fn deposit(&mut self, job: &Job) {
        let footprint = job.footprint();
        self.active_jobs = self.active_jobs.saturating_add(footprint.active_jobs);
        if footprint.is_idle() {
            return;
        }
        self.each_tally(job, footprint, Counts::plus);
    }

    /// Uncounts a job.
    pub fn withdraw(&mut self, job: &Job) {
        let footprint = job.footprint();
        self.active_jobs = self.active_jobs.saturating_sub(footprint.active_jobs);
        if footprint.is_idle() {
            return;
        }
        self.each_tally(job, footprint, Counts::minus);
    }

    fn each_tally(&mut self, job: &Job, footprint: Footprint, op: fn(Counts, Counts) -> Counts) {
        let apply = |tally: &mut Tally| {
            tally.charged = op(tally.charged, footprint.charged);
            tally.reserved = op(tally.reserved, footprint.reserved);
        };
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

    /// Whether both count the same, queues without jobs aside.
    pub fn equals(&self, other: &Usage) -> bool {
        let covers =
            |a: &Usage, b: &Usage| a.queues().all(|(name, tally)| *tally == b.in_queue(name.as_str()));
        self.active_jobs == other.active_jobs
            && self.total == other.total
            && covers(self, other)
            && covers(other, self)
    }
}
