// SPDX-License-Identifier: LGPL-3.0-only
//! What is going on: live jobs, what they occupy, and which of them are held.
//!
//! `table` lists the limits; `job` says what a job counts as; `ledger` keeps the counters; `release` is the rule by
//! which held jobs go.
#![forbid(unsafe_code)]

mod allocation;
mod hold;
mod job;
mod ledger;
mod line;
mod names;
mod release;
mod room;
mod size;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use allocation::{Allocation, Resources};
pub use hold::{Hold, HoldSet};
pub use job::{Admission, Demand, Footprint, Grant, Job, Keepers, Knowledge, Origin, Phase, Project};
pub use ledger::Ledger;
pub use names::{Name, Names};
pub use release::{Line, Released, Walk};
pub use room::Room;
pub use size::{Kind, Size, SizeError, Vertex, measure};
pub use table::{Caps, Measure, RULES, Rule, Rules, Stage};
pub use usage::{Amounts, Counts, Tally, Usage};
