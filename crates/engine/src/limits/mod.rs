// SPDX-License-Identifier: LGPL-3.0-only
//! Live jobs, what they count as, and which of them limits hold.
//!
//! - `table` lists the limits in records, `scope_rows` those over limit scopes;
//! - `job` says what a job counts as; `ledger` keeps the counters of associations, and `scope` those of limit scopes;
//! - `counter` computes the headroom that limits leave to a job;
//! - `release` decides which held jobs go; `place` orders the associations that wait in a limit scope, and `overtaken` keeps headroom for
//!   overtaken jobs.

mod allocation;
mod counter;
mod counts;
mod eligible;
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

pub use allocation::{Allocation, Resources};
pub use counter::{Holding, Limits, Room, ScopeUsage};
pub use counts::{Amounts, Counts, Tally};
pub use eligible::Eligible;
pub use hold::{Hold, HoldSet};
pub use hold_names::{HoldName, HoldNames};
pub use job::{
    Admission, CachedPriority, Demand, Footprint, Grant, Job, Keepers, Knowledge, Origin, Phase, Project,
};
pub use ledger::{Accounts, Ledger, PlaceInLine};
pub use overtaken::OVERTAKEN;
pub use release::{Line, Released, ScanCursor};
pub use scope_rows::rows_of_queues;
pub use size::{Kind, Size, SizeError, Vertex, measure};
pub use table::{Caps, PerJob, RULES, Rule, Rules};
pub use usage::Usage;
