// SPDX-License-Identifier: LGPL-3.0-only
//! Computes usage and fair-shares from the records of ended jobs, as one transaction.
//!
//! ```text   records of ended jobs -> usage by association and period -> usage of banks -> fair-shares ```
//!
//! Each step reads a [`Snapshot`] and returns the changes. The owner of the snapshot writes and commits the
//! changes, so that a run is stored whole or not at all. [`Rule::Exact`] counts each record once, in the
//! half-life period in which its job ended, even if the record arrives late. [`Rule::FluxAccounting`] stores
//! the numbers of flux-accounting's `update-usage` to the last digit.

mod accounting;
mod banks;
pub mod budgets;
pub mod charges;
mod continuous;
pub mod credits;
mod error;
mod exact;
pub mod fairshare;
pub mod fetch;
mod found;
mod grouped;
mod periods;
mod placing;
mod recount;
pub mod report;
pub mod resources;
pub mod scrub;
mod start;
#[cfg(test)]
mod tests;
mod update_usage;
pub mod watch;

pub use error::PipelineError;
use error::Result;
pub use periods::Periods;
pub use recount::{Difference, Recount, compute_usages_with_half_life};
pub use start::StoredPeriods;
use strum::{Display, EnumString};

use crate::store::{Bins, Ledger, Marks, Snapshot, UsageChanges};

/// The rule that computes usage from jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown_rule)]
pub enum Rule {
    /// Each job counts once, in the period in which it ended, and all usage decays once at each period boundary.
    #[default]
    Exact,
    /// Counts usage exactly as flux-accounting does, including flux-accounting's faults.
    FluxAccounting,
}

fn unknown_rule(_: &str) -> String {
    "known rules are exact and flux-accounting".to_owned()
}

/// The numbers of job records that a sync read, counted and left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Records that no earlier run has read.
    pub records: usize,
    /// Records that this run counted.
    pub counted: usize,
    /// Counted records that name no bank. They count in the default bank of their user.
    pub in_default_bank: usize,
    /// Counted records that arrived after a later job of their association had been counted.
    pub late: usize,
    /// Records of jobs that ended later than the time of this run. They count in the current period.
    pub from_the_future: usize,
    /// Records that are older than all stored periods.
    pub too_old: usize,
    /// Records of jobs that ended before the cut-off of their bank or of the site.
    pub ignored: usize,
    /// Ids of records whose R or times are invalid, at most 10.
    pub unreadable: Vec<String>,
    /// Total number of records whose R or times are invalid.
    pub unreadable_count: usize,
    /// User id, bank and number of records that have no association, at most 10 entries.
    pub unplaced: Vec<(i64, String, usize)>,
    /// Number of records that have no association yet, including those of earlier runs.
    pub waiting: usize,
    /// Number of credits that were not counted, because [`Rule::FluxAccounting`] ignores credits.
    pub ignored_credits: usize,
    /// Number of period boundaries that this run crossed.
    pub boundaries: usize,
    /// Number of associations whose past usage flux-accounting had counted twice. This run corrected it.
    pub repaired: usize,
    /// Reason why all usage was counted again, if it was.
    pub recounted: Option<&'static str>,
}

/// The changes of one run, and the data from which the run computed them.
#[derive(Debug)]
pub struct Plan {
    /// Associations and banks before the run.
    pub ledger: Ledger,
    /// The usage by half-life period before the sync. It is empty if the sync did not read it.
    pub bins: Bins,
    /// Changes of usage.
    pub changes: UsageChanges,
    /// The new state for the next sync. `None` if the stored state does not change.
    pub marks: Option<Marks>,
    /// The numbers of records that the run read, counted and left out.
    pub tally: Tally,
}

impl Plan {
    /// Computes the changes of all usages at the time `now`, in seconds since the epoch.
    pub fn new(snapshot: &Snapshot<'_>, rule: Rule, now: f64, progress: &mut dyn FnMut(u64)) -> Result<Plan> {
        snapshot.check_usage_schema()?;
        match rule {
            Rule::Exact => exact::plan_run(snapshot, now, false, progress),
            Rule::FluxAccounting => accounting::plan_run(snapshot, now, progress),
        }
    }

    /// Writes the changes into the transaction.
    pub fn write(&self, snapshot: &Snapshot<'_>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        if !self.changes.is_empty() {
            snapshot.write_usage(&self.ledger, &self.bins, &self.changes, progress)?;
        }
        if let Some(marks) = &self.marks {
            snapshot.write_usage_marks(marks)?;
        }
        Ok(())
    }
}
