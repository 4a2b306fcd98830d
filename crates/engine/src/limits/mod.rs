// SPDX-License-Identifier: LGPL-3.0-only
//! What is going on: live jobs, what they occupy, and which of them are held.
//!
//! `table` lists the limits that associations and queues bring, `scopes` those that the site sets over scopes; `job` says
//! what a job counts as; `ledger` keeps the counters, `groups` those that associations share; `release` is the rule by which
//! held jobs go, `place` says who comes first where associations share a limit, `overtaken` keeps headroom for overtaken jobs, `in_vain`
//! says who need not be looked at again.

mod allocation;
mod counter;
mod counts;
mod eligible;
mod groups;
mod hold;
mod hold_names;
mod in_vain;
mod job;
mod ledger;
mod line;
mod overtaken;
mod place;
mod recount;
mod release;
mod scopes;
mod size;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use allocation::{Allocation, Resources};
pub use counter::{Holding, Room, ScopeUsage};
pub use counts::{Amounts, Counts, Tally};
pub use eligible::Eligible;
pub use hold::{Hold, HoldSet};
pub use hold_names::{HoldName, HoldNames};
pub use job::{
    Admission, Demand, Footprint, Grant, Job, Keepers, Knowledge, Origin, Phase, Project, Settled,
};
pub use ledger::{Ledger, PlaceInLine};
pub use overtaken::OVERTAKEN;
pub use release::{Line, Released, Walk};
pub use scopes::rows_of_queues;
pub use size::{Kind, Size, SizeError, Vertex, measure};
pub use table::{Caps, RULES, Rule, Rules};
pub use usage::Usage;
