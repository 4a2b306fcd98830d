// SPDX-License-Identifier: LGPL-3.0-only
//! The fair-share engine: a tree of banks and associations in, a fair-share per association out.
//!
//! ```text
//! Site or Builder -> Tree -> Ranking -> details of a node, Comparison, Explanation
//! ```
//!
//! [`Tree`] is checked once, when it is built. [`Tree::rank`] never changes it; [`Tree::set_usage`] does, and the next
//! rank sees the new figures without a rebuild. Everything is deterministic: siblings are kept in name order, sums are
//! taken in that order, so the order of the input changes nothing (but for [`Ties::SlurmProgram`], whose point it is).
//!
//! No I/O, no clock, no recursion on the call stack: depth is bounded by memory only.
#![forbid(unsafe_code)]

mod builder;
pub mod decay;
mod error;
mod formula;
mod names;
mod options;
mod policy;
mod ranking;
mod site;
mod sums;
mod tree;
mod walk;
mod why;

pub use builder::Builder;
pub use error::TreeError;
pub use options::{InactiveUsage, OptionError, Options, Ties};
pub use policy::{ParsePolicyError, Policy};
pub use ranking::{NodeDetail, PbsDetail, RankError, Ranking};
pub use site::{Association, Bank, Shares, Site};
pub use tree::{NodeId, NodeKind, Tree};
pub use why::{Comparison, Explanation, Level, Verdict};
