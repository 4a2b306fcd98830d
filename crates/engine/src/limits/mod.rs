// SPDX-License-Identifier: LGPL-3.0-only
//! Active jobs, the amounts that they add to counters, and the limits that hold them.
//!
//! - `table` lists the limits in records, and `scope_rows` lists the limits over limit scopes.
//! - `job` computes the amounts that a job adds to counters. `ledger` stores the active jobs, `accounts` the counters of
//!   associations, and `scope` the counters of limit scopes.
//! - `counter` computes the headroom that limits leave to a job.
//! - `release` decides which held jobs are released. `held` lists the associations that scans search, `place` sorts the waiting list of
//!   each limit scope, and `overtaken` keeps headroom for overtaken jobs.

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
pub use counter::{ActiveJobsLimit, BudgetAccount, Headroom, Holding, Limits, ScopeUsage};
pub use counts::{Amounts, Tally};
pub use eligible::Eligible;
pub use hold::{Hold, HoldSet};
pub use hold_names::{HoldName, HoldNames};
pub use job::{
    Admission, BlockState, CachedPriority, Demand, Footprint, Job, Knowledge, Origin, Phase, Project,
    Reservation,
};
pub use ledger::{Ledger, PositionAmongJobs};
pub use overtaken::{OVERTAKEN, OvertakenJobs};
pub use release::{Candidates, Released, ScanCursor};
pub use scope::BudgetAccounts;
pub use size::{ChargeFactor, Kind, Size, Vertex, measure};
pub use table::{Caps, JobSizeLimit, RULES, Rule, Rules};
pub use usage::Usage;
