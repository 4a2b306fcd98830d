// SPDX-License-Identifier: LGPL-3.0-only
//! Fair-share policies: turns a tree of banks and associations into one fair-share per association.
//!
//! ```text
//! Builder -> Tree -> Ranking -> NodeDetail, Comparison, Explanation
//! ```
//!
//! [`Tree`] is checked once, when it is built. [`Tree::rank`] does not change the tree. [`Tree::set_usage`] does, and
//! the next ranking uses the new usage without a rebuild. The results are deterministic: siblings are stored in name
//! order and sums are taken in that order. The order of the input has no influence, except under
//! [`Ties::SlurmProgram`], which reproduces Slurm's dependence on it.
//!
//! # Policies
//!
//! S is a node's fraction of the shares at its level, U its fraction of the usage at its level, and F its fair-share.
//!
//! | policy | rule | ties |
//! |---|---|---|
//! | `weighted-walk` | siblings by S/U, depth-first, F = rank / N | users share a rank, banks are merged; users before banks |
//! | `fair-tree` | the same | exact; a user and an equal bank's first user share a rank; [`Ties`] |
//! | `classic` | F = 2^-(effective usage / norm shares) | equal F |
//! | `depth-oblivious` | F = 2^-R, R = R(parent) * r^k | equal F |
//! | `pbs` | F = 2^-(tree usage / perc) | equal F |
//!
//! # Modules
//!
//! - `tree`: columns over an arena. Associations come first, grouped by bank, then banks breadth-first, siblings by
//!   name. The children of a bank are therefore ranges, and loops over the columns replace recursion.
//! - `sums`: totals per bank, and the shares and usage that the children of each bank compete for.
//! - `walk`: the depth-first visit of the rank policies, with an explicit stack. Each sibling is one 128-bit number
//!   (value, then name or list order), so sorting these numbers orders the siblings.
//! - `formula`: the numbers that formula policies pass down level by level.
//! - `ranking`: stores ranks and fair-shares, and computes all other numbers of a node on request.
//! - `why`: the first common ancestor of two associations, and the pair of nodes below it that decides their order.
//! - `charged`: the fair-share that an association would have with a different usage.
//! - `policy`: the ranking policies, one file each, with their rules, their columns, and OpenPBS's own walk.
//! - `outlook`: the association just ahead, and the shares or usage that would change the order.
//! - `accrual`: the usage of a job at an instant, also while the job runs, and usage in units that do not decay.
//! - `charging`: the charge factors of queues over time.
//! - `periods`: the usage per second of a job.
//!
//! The crate does no I/O, reads no clock, and does not recurse, so only memory limits the depth of a tree.
#![forbid(unsafe_code)]

pub mod accrual;
mod builder;
mod charged;
pub mod charging;
mod error;
mod formula;
mod inactive;
mod names;
mod options;
mod outlook;
pub mod periods;
mod policy;
mod ranking;
mod shares;
mod sums;
mod tree;
mod walk;
mod why;

use std::collections::BTreeMap;

pub use builder::Builder;
pub use charged::ChargedFairshares;
pub use error::{TreeError, shortened};
pub use inactive::inactive_banks;
pub use options::{InactiveUsage, Options, Ties};
pub use outlook::Overtake;
pub use policy::{PbsDetail, Policy};
pub use ranking::{NodeDetail, Ranking};
pub use shares::Shares;
pub use tree::{MAX_USAGE, NodeId, NodeKind, Tree};
pub use why::{Comparison, Explanation, Level};

/// Inserts `values` into a new collection, one by one. `collect` would sort them first, and each type of values has its own code for that
/// sort, of about 8 kB. So use this function where the number of values is small or the time does not matter.
pub fn insert_all<C: Default + Extend<T>, T>(values: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(values);
    all
}

/// Groups the values of `pairs` by their keys. The values of a key keep their order.
pub fn group_all<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, Vec<V>> {
    let mut groups: BTreeMap<K, Vec<V>> = BTreeMap::new();
    pairs.into_iter().for_each(|(key, value)| groups.entry(key).or_default().push(value));
    groups
}

#[cfg(test)]
mod tests;
