// SPDX-License-Identifier: LGPL-3.0-only
//! Amounts of each measure, by the state of the jobs.

use super::size::Size;
use crate::ids::{Amount, Measure, Stage};

/// An amount of each measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([u64; Measure::ALL.len()]);

impl Amounts {
    /// Returns the amounts of one job of `size`.
    pub fn of_job(size: Size) -> Amounts {
        Amounts(Measure::ALL.map(|measure| size.amount(measure)))
    }

    /// Returns the amount of one measure; 0 for a measure of time.
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

/// The amounts that jobs in RUN and in SCHED count as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The requested amounts of jobs from RUN to INACTIVE.
    pub run: Amounts,
    /// The requested amounts of jobs in SCHED.
    pub sched: Amounts,
    /// The allocated amounts of jobs from RUN to INACTIVE.
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

    /// Returns the sum of `self` and `other`, which saturates.
    pub fn plus(self, other: Counts) -> Counts {
        self.zip(other, u64::saturating_add)
    }
}

/// Amounts in use and reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The amounts in use by jobs in RUN and SCHED.
    pub charged: Counts,
    /// The amounts reserved for released jobs that are not in RUN or SCHED yet.
    pub reserved: Counts,
    /// The suspended reservations for RUN of released jobs in stopped queues.
    pub suspended: Amounts,
}

impl Tally {
    /// Returns the sum of `self` and `other`, which saturates.
    pub fn plus(self, other: Tally) -> Tally {
        self.zip(other, u64::saturating_add)
    }

    /// Applies `op` to each pair of amounts.
    pub(super) fn zip(self, other: Tally, op: fn(u64, u64) -> u64) -> Tally {
        Tally {
            charged: self.charged.zip(other.charged, op),
            reserved: self.reserved.zip(other.reserved, op),
            suspended: self.suspended.zip(other.suspended, op),
        }
    }

    /// Returns how much of `amount` the released jobs in stopped queues will reserve when their queues start.
    pub fn suspended_amount(&self, amount: Amount) -> u64 {
        if amount.stage == Stage::Running { self.suspended.amount(amount.measure) } else { 0 }
    }

    /// Returns how much of `amount` is in use, and how much is reserved. If `is_given` is true, a running job counts with its allocated
    /// resources, and otherwise with its requested resources.
    pub fn charged_and_reserved(&self, amount: Amount, is_given: bool) -> (u64, u64) {
        let measure = amount.measure;
        let run = |counts: &Counts| {
            if is_given { counts.given.amount(measure) } else { counts.run.amount(measure) }
        };
        let sched = |counts: &Counts| counts.sched.amount(measure);
        let Tally { charged, reserved, .. } = self;
        match amount.stage {
            Stage::Running => (run(charged), run(reserved)),
            Stage::Scheduled => (sched(charged), sched(reserved)),
            // A released job reserves its amounts in SCHED only, so that it counts once.
            Stage::RunningAndScheduled => (run(charged).saturating_add(sched(charged)), sched(reserved)),
            // Tallies count neither active jobs nor the size of single jobs.
            Stage::Active | Stage::OneJob => (0, 0),
        }
    }
}
