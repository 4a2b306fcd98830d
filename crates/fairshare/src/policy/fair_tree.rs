// SPDX-License-Identifier: LGPL-3.0-only
//! `fair-tree`: Slurm's Fair Tree.
//!
//! Level fair-share = part of the siblings' shares / part of the parent's usage. As [`super::weighted_walk`], but values
//! are compared exactly and the first user below an account shares the rank of a user equal to that account. All in 64
//! bit: Slurm divides in 80, so ties that exist in one width only are ranked differently.

use crate::sums::{Sums, ratio};
use crate::tree::{Flags, NodeId, Tree};
use crate::walk::SiblingRule;

/// Equal accounts are visited as one, as Slurm's documentation says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Documented;

/// Equal accounts are visited one after the other, as Slurm's program does: it means to merge them, but looks for a tie
/// with the next account in a way that never finds one. The first child of the second account still inherits the tie,
/// be it an account without users, or one with `Shares::Parent`, in which the tie then ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlurmProgram;

/// The level fair-share of a node with shares of its own.
pub(crate) fn level(shares: f64, sibling_shares: f64, usage: f64, parent_usage: f64) -> f64 {
    let part = ratio(shares, sibling_shares);
    let used = ratio(usage, parent_usage);
    if part == 0.0 {
        0.0
    } else if used == 0.0 {
        f64::INFINITY
    } else {
        part / used
    }
}

fn value(tree: &Tree, sums: &Sums, node: NodeId, arena: u32) -> f64 {
    let at = arena as usize;
    if tree.flags(node).has(Flags::PARENT_SHARES) {
        return f64::INFINITY;
    }
    let shares = tree.shares.get(node.index()).map_or(0.0, |&shares| shares as f64);
    let (sibling_shares, parent_usage) =
        (sums.shares.get(at).copied().unwrap_or(0.0), sums.total.get(at).copied().unwrap_or(0.0));
    level(shares, sibling_shares, sums.usage_of(tree, node), parent_usage)
}

impl SiblingRule for Documented {
    const APPROXIMATE: bool = false;
    const BANK_INHERITS_TIE: bool = true;
    const MERGES_BANKS: bool = true;

    fn value(&self, tree: &Tree, sums: &Sums, node: NodeId, arena: u32) -> f64 {
        value(tree, sums, node, arena)
    }

    fn equal(&self, a: f64, b: f64) -> bool {
        a == b
    }
}

impl SiblingRule for SlurmProgram {
    const APPROXIMATE: bool = false;
    const BANK_INHERITS_TIE: bool = true;
    const MERGES_BANKS: bool = false;
    /// Slurm's `NO_VAL`, which it leaves in an account that takes its parent's shares.
    const VANISHED: f64 = 4_294_967_294.0;

    fn value(&self, tree: &Tree, sums: &Sums, node: NodeId, arena: u32) -> f64 {
        value(tree, sums, node, arena)
    }

    fn equal(&self, a: f64, b: f64) -> bool {
        a == b
    }
}
