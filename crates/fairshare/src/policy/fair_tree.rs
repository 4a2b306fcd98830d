// SPDX-License-Identifier: LGPL-3.0-only
//! `fair-tree`: Slurm's Fair Tree.
//!
//! Level fair-share = fraction of the siblings' shares / fraction of the parent's usage. Siblings are visited
//! as under [`super::weighted_walk`], but values are compared exactly, and a user and the first user below an
//! equal account share a rank. This crate computes with 64 bits, and Slurm divides with 80 bits. If two
//! values are therefore tied in only one of the two programs, the programs rank them differently.

use super::{Policy, RankingPolicy};
use crate::sums::{Sums, level, value_at};
use crate::tree::{Flags, NodeId, Tree};
use crate::walk::SiblingRule;
use crate::{NodeDetail, Options, Ranking, Ties};

impl Policy {
    /// Slurm's Fair Tree: depth-first visit by level fair-share, exact ties, F = rank / N.
    pub const FairTree: Policy = Policy(&FairTree);
}

struct FairTree;

impl RankingPolicy for FairTree {
    fn name(&self) -> &'static str {
        "fair-tree"
    }

    fn rank(&self, tree: &Tree, ranking: &mut Ranking) {
        match ranking.options.ties {
            Ties::Documented => ranking.rank_by_depth_first_visit(&SlurmSiblingOrder::<true>, tree),
            Ties::SlurmProgram => ranking.rank_by_depth_first_visit(&SlurmSiblingOrder::<false>, tree),
        }
    }

    fn add_numbers(&self, tree: &Tree, ranking: &Ranking, node: NodeId, detail: &mut NodeDetail) {
        ranking.add_sibling_numbers(tree, node, detail);
    }

    fn options(&self) -> &'static [&'static str] {
        &["ties"]
    }

    fn takes_parent_shares(&self) -> bool {
        true
    }

    /// Slurm divides the usage of a node by the usage of its parent bank. The parent bank may also have usage of its
    /// own.
    fn usage_divisors<'a>(&self, sums: &'a Sums) -> &'a [f64] {
        &sums.total
    }

    fn is_tie(&self, high: f64, low: f64) -> bool {
        high == low
    }

    fn uses_list_order(&self, options: &Options) -> bool {
        options.ties == Ties::SlurmProgram
    }

    fn value_name(&self) -> &'static str {
        "level fair-share"
    }

    fn table_columns(&self, long: bool) -> &'static [&'static str] {
        if long { &["level_fs", "served"] } else { &["level_fs"] }
    }

    fn describe_order_of_tied_nodes(&self, options: &Options) -> &'static str {
        match options.ties {
            Ties::Documented => "a user shares the rank of the best user below the bank",
            Ties::SlurmProgram => {
                "the first user below the bank shares the user's rank, unless a bank that ends the tie comes before"
            }
        }
    }
}

/// Visits the children of an account in Slurm's order. If `MERGES_BANKS` is true, the children of equal
/// accounts are sorted in one list. Slurm's documentation describes this order.
/// If `MERGES_BANKS` is false, equal accounts are visited one after the other, as in Slurm's program. The program is
/// meant to merge equal accounts, but its check for a tie with the next account never succeeds. The first child of the
/// second account still inherits the tie. An account without users, or with `Shares::Parent`, also inherits the tie
/// and ends it.
struct SlurmSiblingOrder<const MERGES_BANKS: bool>;

impl<const MERGES_BANKS: bool> SiblingRule for SlurmSiblingOrder<MERGES_BANKS> {
    const MERGES_BANKS: bool = MERGES_BANKS;
    /// Slurm's `NO_VAL`, which is the level fair-share of an account with parent shares.
    const VANISHED: f64 = 4_294_967_294.0;

    fn value(&self, tree: &Tree, sums: &Sums, node: NodeId, arena: u32) -> f64 {
        if tree.flags(node).has(Flags::PARENT_SHARES) {
            return f64::INFINITY;
        }
        let shares = tree.shares.get(node.index()).map_or(0.0, |&shares| shares as f64);
        level(shares, value_at(&sums.shares, arena), sums.usage_of(tree, node), value_at(&sums.total, arena))
    }
}
