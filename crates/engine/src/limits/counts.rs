// SPDX-License-Identifier: LGPL-3.0-only
//! Amounts of what limits measure, by where jobs are.

use super::size::Size;
use crate::ids::{Amount, Measure, Stage};

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

    /// Returns how much of `amount` is in use, and how much is reserved. If `is_given` is true, a running job counts the resources that
    /// it got, and otherwise the resources that it requested.
    pub fn parts(&self, amount: Amount, is_given: bool) -> (u64, u64) {
        let measure = amount.measure;
        let run = |counts: &Counts| if is_given { counts.given.of(measure) } else { counts.run.of(measure) };
        let sched = |counts: &Counts| counts.sched.of(measure);
        let Tally { charged, reserved } = self;
        match amount.stage {
            Stage::Running => (run(charged), run(reserved)),
            Stage::Scheduled => (sched(charged), sched(reserved)),
            // A released job reserves its amounts in SCHED only, so that it counts once.
            Stage::RunningAndScheduled => (run(charged).saturating_add(sched(charged)), sched(reserved)),
        }
    }
}
