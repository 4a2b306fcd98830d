// SPDX-License-Identifier: LGPL-3.0-only
//! Amounts of what limits measure, by where jobs are.

use super::size::Size;
use crate::ids::{Measure, Stage};

/// How much of each measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([u64; Measure::ALL.len()]);

impl Amounts {
    /// What one job of `size` counts as.
    pub fn of_job(size: Size) -> Amounts {
        Amounts(Measure::ALL.map(|measure| size.of(measure)))
    }

    /// How much of one measure.
    pub fn of(self, measure: Measure) -> u64 {
        self.0.get(measure as usize).copied().unwrap_or_default()
    }

    /// Jobs.
    pub fn jobs(self) -> u64 {
        self.of(Measure::Jobs)
    }

    /// Their nodes.
    pub fn nodes(self) -> u64 {
        self.of(Measure::Nodes)
    }

    /// Their cores.
    pub fn cores(self) -> u64 {
        self.of(Measure::Cores)
    }

    /// Their GPUs.
    pub fn gpus(self) -> u64 {
        self.of(Measure::Gpus)
    }

    fn zip(mut self, other: Amounts, op: fn(u64, u64) -> u64) -> Amounts {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine = op(*mine, theirs));
        self
    }
}

/// What runs, and what is in SCHED.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// From RUN to INACTIVE.
    pub run: Amounts,
    /// In SCHED.
    pub sched: Amounts,
    /// From RUN to INACTIVE, by what was given instead of what was asked for.
    pub given: Amounts,
}

impl Counts {
    fn zip(self, other: Counts, op: fn(u64, u64) -> u64) -> Counts {
        Counts {
            run: self.run.zip(other.run, op),
            sched: self.sched.zip(other.sched, op),
            given: self.given.zip(other.given, op),
        }
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
    /// The sum; never wraps.
    pub fn plus(self, other: Tally) -> Tally {
        Tally { charged: self.charged.plus(other.charged), reserved: self.reserved.plus(other.reserved) }
    }

    /// What is in use of `measure` by jobs of `stage`; of running jobs by what they asked for, or were given.
    pub fn used(&self, stage: Stage, measure: Measure, is_given: bool) -> u64 {
        let run = |counts: &Counts| if is_given { counts.given.of(measure) } else { counts.run.of(measure) };
        let (charged, reserved) = (&self.charged, &self.reserved);
        let sched = || charged.sched.of(measure).saturating_add(reserved.sched.of(measure));
        match stage {
            Stage::Running => run(charged).saturating_add(run(reserved)),
            Stage::Scheduled => sched(),
            Stage::RunningAndScheduled => run(charged).saturating_add(sched()),
        }
    }
}
