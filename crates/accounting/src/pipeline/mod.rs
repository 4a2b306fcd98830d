// SPDX-License-Identifier: LGPL-3.0-only
//! From ended jobs to fair-shares: what a site runs from time to time, as one transaction.
//!
//! ```text
//!   records of ended jobs -> usage by association and period -> usage of banks -> fair-shares
//! ```
//!
//! Each step reads a [`Snapshot`] and says what is to be written; who holds the snapshot writes and commits, so that a
//! run is stored whole or not at all. [`Rule::Exact`] counts each record once, in the half-life period in which its job
//! ended, whenever the record comes; [`Rule::FluxAccounting`] stores what flux-accounting's `update-usage` would, to the
//! last digit.

mod accounting;
mod banks;
pub mod charges;
mod continuous;
mod error;
mod exact;
pub mod fairshare;
pub mod fetch;
mod found;
mod grouped;
mod nameless;
mod placing;
mod recount;
pub mod report;
pub mod resources;
pub mod scrub;
mod start;
#[cfg(test)]
mod tests;
pub mod watch;

pub use error::PipelineError;
pub use recount::{Difference, Recount};
pub use start::Present;
use strum::{Display, EnumString};

use crate::store::{Bins, Ledger, Marks, Snapshot, UsageChanges};

/// Which rule makes usage of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown_rule)]
pub enum Rule {
    /// Each job once, in its own period; every boundary once, for all.
    #[default]
    Exact,
    /// As flux-accounting counts, its faults included.
    FluxAccounting,
}

/// Returns the error for a name that no rule has.
fn unknown_rule(_: &str) -> String {
    "known rules are exact and flux-accounting".to_owned()
}

/// What a run found among the records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Records that were looked at for the first time.
    pub records: usize,
    /// Records that count now.
    pub counted: usize,
    /// Of these, how many name no bank and count in their user's default bank.
    pub in_default_bank: usize,
    /// Of these, how many came after a job of their association that ended later.
    pub late: usize,
    /// Records of jobs that ended after the time of this run, counted in the present period.
    pub from_the_future: usize,
    /// Records too old for any period that is kept.
    pub too_old: usize,
    /// Records that the bank's or the site's cut-off leaves out.
    pub ignored: usize,
    /// Ids of records whose R or times can't be read, the first ones.
    pub unreadable: Vec<String>,
    /// How many those are.
    pub unreadable_count: usize,
    /// Who ran jobs that count nowhere for lack of an association: user id, bank, how many; the first ones.
    pub unplaced: Vec<(i64, String, usize)>,
    /// How many records wait for their association, those of earlier runs included.
    pub waiting: usize,
    /// Half-life boundaries that were crossed.
    pub boundaries: usize,
    /// Associations from whose bins a past that was counted twice was taken out by flux-accounting.
    pub repaired: usize,
    /// Why everything was counted anew, if it was.
    pub recounted: Option<&'static str>,
}

/// What is to be stored, and how it came to be.
#[derive(Debug)]
pub struct Plan {
    /// The database as it was.
    pub ledger: Ledger,
    /// Its bins; empty where nobody had to look.
    pub bins: Bins,
    /// What changes.
    pub changes: UsageChanges,
    /// What the exact rule is to remember, if that changes.
    pub marks: Option<Marks>,
    /// What was found.
    pub tally: Tally,
}

impl Plan {
    /// Works out one run at the time `now`, in seconds since the epoch.
    pub fn new(
        snapshot: &Snapshot<'_>,
        rule: Rule,
        now: f64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Plan, PipelineError> {
        snapshot.check_usage_schema()?;
        match rule {
            Rule::Exact => exact::plan(snapshot, now, false, progress),
            Rule::FluxAccounting => accounting::plan(snapshot, now, progress),
        }
    }

    /// Writes it into the transaction.
    pub fn write(&self, snapshot: &Snapshot<'_>, progress: &mut dyn FnMut(u64)) -> Result<(), PipelineError> {
        if !self.changes.is_empty() {
            snapshot.write_usage(&self.ledger, &self.bins, &self.changes, progress)?;
        }
        if let Some(marks) = &self.marks {
            snapshot.write_marks(marks)?;
        }
        Ok(())
    }
}
