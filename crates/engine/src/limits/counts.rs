// SPDX-License-Identifier: LGPL-3.0-only
//! Numbers of jobs, nodes, cores and GPUs, by the state of the jobs.

use super::size::Size;
use crate::ids::{Measure, Stage};

/// A number of jobs, nodes, cores and GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([u64; Measure::ALL.len()]);

impl Amounts {
    /// Returns the total of `count` jobs that each have the size `size`.
    pub fn sum_amounts_of_equal_jobs(count: u64, size: Size) -> Amounts {
        Amounts(Measure::ALL.map(|measure| count * size.measure(measure)))
    }

    /// Returns the amount of `measure`, such as the number of nodes. For measures of time, returns 0.
    pub fn amount(self, measure: Measure) -> u64 {
        self.0.get(measure as usize).copied().unwrap_or_default()
    }

    /// Returns the number of jobs.
    pub fn jobs(self) -> u64 {
        self.amount(Measure::Jobs)
    }

    /// Returns the nodes of the jobs.
    pub fn nodes(self) -> u64 {
        self.amount(Measure::Nodes)
    }

    /// Returns the cores of the jobs.
    pub fn cores(self) -> u64 {
        self.amount(Measure::Cores)
    }

    /// Returns the GPUs of the jobs.
    pub fn gpus(self) -> u64 {
        self.amount(Measure::Gpus)
    }

    fn zip(mut self, other: Amounts, op: fn(u64, u64) -> u64) -> Amounts {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine = op(*mine, theirs));
        self
    }
}

/// The amounts that jobs use and reserve, by state. `T` is either [`Amounts`] or a number of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally<T = Amounts> {
    /// The requests of jobs that have resources. A job has resources from RUN until INACTIVE.
    pub run: T,
    /// The requests of jobs in SCHED.
    pub sched: T,
    /// The resources allocated to jobs from RUN to INACTIVE.
    pub given: T,
    /// The headroom that released jobs reserve for RUN.
    pub reserved_run: T,
    /// The headroom that released jobs reserve for SCHED.
    pub reserved_sched: T,
    /// The headroom for RUN that released jobs will reserve when their stopped queue starts.
    pub suspended: T,
}

impl<T> Tally<T> {
    /// Applies `convert` to each field.
    pub(super) fn map<U>(self, convert: impl Fn(T) -> U) -> Tally<U> {
        Tally {
            run: convert(self.run),
            sched: convert(self.sched),
            given: convert(self.given),
            reserved_run: convert(self.reserved_run),
            reserved_sched: convert(self.reserved_sched),
            suspended: convert(self.suspended),
        }
    }
}

impl Tally<u64> {
    /// Returns three amounts for limits on jobs in `stage`: the amount in use, the reserved amount and the suspended
    /// amount. Running jobs count with their requested resources.
    pub fn get_amounts_counted_in_stage(self, stage: Stage) -> (u64, u64, u64) {
        match stage {
            Stage::Running => (self.run, self.reserved_run, self.suspended),
            Stage::Scheduled => (self.sched, self.reserved_sched, 0),
            // A reservation counts in SCHED only. Otherwise a released job would count twice.
            Stage::RunningAndScheduled => (self.run.saturating_add(self.sched), self.reserved_sched, 0),
            // A [`Tally`] stores no amounts for these stages.
            Stage::Active | Stage::OneJob => (0, 0, 0),
        }
    }
}

impl Tally {
    /// Applies `op` to each pair of amounts.
    pub(crate) fn zip(self, other: Tally, op: fn(u64, u64) -> u64) -> Tally {
        Tally {
            run: self.run.zip(other.run, op),
            sched: self.sched.zip(other.sched, op),
            given: self.given.zip(other.given, op),
            reserved_run: self.reserved_run.zip(other.reserved_run, op),
            reserved_sched: self.reserved_sched.zip(other.reserved_sched, op),
            suspended: self.suspended.zip(other.suspended, op),
        }
    }
}
