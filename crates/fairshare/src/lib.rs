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
//! # Policies
//!
//! S is a node's part of its siblings' shares, U its part of their usage; F is the fair-share.
//!
//! | policy | rule | ties |
//! |---|---|---|
//! | `weighted-walk` | siblings by S/U, depth-first, F = rank / N | users share a rank, banks are merged; users before banks |
//! | `fair-tree` | the same | exact; a user and an equal bank's first user share a rank; [`Ties`] |
//! | `classic` | F = 2^-(effective usage / norm shares) | equal F |
//! | `depth-oblivious` | F = 2^-R, R = R(parent) * r^k | equal F |
//! | `pbs` | F = 2^-(tree usage / perc) | equal F |
//!
//! # How
//!
//! - `tree`: columns over an arena. Associations grouped by bank, then banks breadth-first, siblings by name: children are
//!   ranges, bottom-up is a loop backwards, top-down one forwards.
//! - `sums`: per bank, what it adds up to and what its children compete in.
//! - `walk`: the depth-first visit of the rank policies over an explicit stack. A sibling is one 128-bit number (value,
//!   then name or list order), so a sort of numbers is the whole of the ordering.
//! - `formula`: numbers handed down level by level.
//! - `ranking`: ranks and fair-shares are stored, all other numbers of a node are computed when asked for.
//! - `why`: the first common ancestor of two associations, and the pair below it that decided.
//! - `charged`: where one would stand with another usage.
//! - `tau`: how far two orders agree.
//! - `policy`: the ranking policies, a file each: its rule, what it shows, and what only its program has (OpenPBS's own walk).
//! - `outlook`: who is just ahead, and what would change it.
//!
//! - `accrual`: what a job counts at an instant, also while it runs, and usage in units that do not decay.
//! - `periods`, `accounting`: where usage comes from, job by job and period by period: the exact rule and flux-accounting's.
//!
//! No I/O, no clock, no recursion on the call stack: depth is bounded by memory only.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod accrual;
mod builder;
mod charged;
pub mod decay;
mod error;
mod formula;
mod inactive;
mod names;
mod options;
mod outlook;
pub mod periods;
mod policy;
mod ranking;
mod site;
mod sums;
pub mod tau;
mod tree;
mod walk;
mod why;

pub use builder::Builder;
pub use charged::Charged;
pub use error::{TreeError, shortened};
pub use inactive::inactive_banks;
pub use options::{InactiveUsage, OptionError, Options, Ties};
pub use outlook::Overtake;
pub use policy::{ParsePolicyError, PbsDetail, PbsWalk, Policy};
pub use ranking::{NodeDetail, RankError, Ranking};
pub use site::{Association, Bank, Shares, Site};
pub use tree::{MAX_USAGE, NodeId, NodeKind, Tree};
pub use why::{Comparison, Explanation, Level, Verdict};

#[cfg(test)]
mod tests;
