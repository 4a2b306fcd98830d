// SPDX-License-Identifier: LGPL-3.0-only
//! Live jobs, what they count as, and which of them limits hold.
//!
//! - `table` lists the limits in records, `scope_rows` those over limit scopes;
//! - `job` computes how much a job counts as; `ledger` keeps the live jobs, `accounts` the counters of associations, and `scope` those of
//!   limit scopes;
//! - `counter` computes the headroom that limits leave to a job;
//! - `release` decides which held jobs go; `held` lists the associations that scans look at, `place` orders those that wait in a limit
//!   scope, and `overtaken` keeps headroom for overtaken jobs.

mod accounts;
mod allocation;
mod counter;
mod counts;
mod eligible;
mod held;
mod hold;
mod hold_names;
mod job;
mod ledger;
mod line;
mod overtaken;
mod place;
mod release;
mod scope;
mod scope_rows;
mod size;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use accounts::Accounts;
pub use allocation::{Allocation, Resources};
pub use counter::{Holding, Limits, Room, ScopeUsage};
pub use counts::{Amounts, Counts, Tally};
pub use eligible::Eligible;
pub use hold::{Hold, HoldSet};
pub use hold_names::{HoldName, HoldNames};
pub use job::{
    Admission, CachedPriority, Demand, Footprint, Grant, Job, Keepers, Knowledge, Origin, Phase, Project,
};
pub use ledger::{Ledger, PlaceInLine};
pub use overtaken::{OVERTAKEN, OvertakenJobs};
pub use release::{Line, Released, ScanCursor};
pub use scope_rows::rows_of_queues;
pub use size::{Kind, Size, SizeError, Vertex, measure};
pub use table::{Caps, PerJob, RULES, Rule, Rules};
pub use usage::Usage;
