// SPDX-License-Identifier: LGPL-3.0-only
//! What is going on: live jobs, what they occupy, and which of them are held.
//!
//! `table` lists the limits; `job` says what a job counts as; `ledger` keeps the counters; `release` is the rule by
//! which held jobs go. Imports go one way: `size`, `counts`, `table`, `hold_names`, `job`, `usage`, `ledger`, `release`.
#![forbid(unsafe_code)]

mod allocation;
mod counts;
mod eligible;
mod hold;
mod hold_names;
mod job;
mod ledger;
mod line;
mod release;
mod room;
mod size;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use allocation::{Allocation, Resources};
pub use counts::{Amounts, Counts, Tally};
pub use eligible::Eligible;
pub use hold::{Hold, HoldSet};
pub use hold_names::{HoldName, HoldNames};
pub use job::{Admission, Demand, Footprint, Grant, Job, Keepers, Knowledge, Origin, Phase, Project};
pub use ledger::{Ledger, PlaceInLine, Pressure};
pub use release::{Line, Released, Walk};
pub use room::Room;
pub use size::{Kind, Measure, Size, SizeError, Vertex, measure};
pub use table::{Caps, RULES, Rule, Rules, Stage};
pub use usage::Usage;
