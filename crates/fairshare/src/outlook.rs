// SPDX-License-Identifier: LGPL-3.0-only
//! Finds the association just ahead, and the shares or usage that would change the order.

use std::cmp::Ordering;

use super::{Comparison, Level, NodeId, Ranking, Shares};

/// The change of shares, and the change of usage, that would reverse the order of two associations. Each is
/// enough alone, if the rest of the site does not change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overtake {
    /// The node whose shares or usage must change. It is one of the two nodes of [`Comparison::decisive`].
    pub node: NodeId,
    /// The fewest shares that suffice; `None` if no number does.
    pub shares: Option<u64>,
    /// The usage below which the node comes first; `None` if the node has no shares, or the other node has no usage.
    pub usage: Option<f64>,
}

impl Ranking {
    /// Returns the position of `node`, which is 1 for the best. Tied associations share a position. `None` without a
    /// rank.
    pub fn place(&self, node: NodeId) -> Option<usize> {
        self.rank(node).map(|rank| self.ranked() + 1 - rank as usize)
    }

    /// Returns the last association that is ahead of `node` and not tied with it. Returns `None` if no association is
    /// ahead.
    pub fn just_ahead(&self, node: NodeId) -> Option<NodeId> {
        // The associations ahead of `node` are at the front of the order.
        self.order().get(self.place(node)?.checked_sub(2)?).copied()
    }

    /// Returns how many other associations have the same rank as `node`.
    pub fn count_ties(&self, node: NodeId) -> usize {
        let (Some(rank), Some(place)) = (self.rank(node), self.place(node)) else { return 0 };
        // The nodes are sorted from the highest to the lowest rank.
        let from = self.order().get(place - 1..).unwrap_or_default();
        from.partition_point(|other| self.rank(*other) >= Some(rank)).saturating_sub(1)
    }

    /// Returns the shares or the usage that would reverse the order of the two associations in `comparison`. Returns
    /// `None` if the two are tied or not ranked, or if the members of merged banks decide. Also returns `None` under a
    /// formula policy, where all levels count.
    pub fn overtake(&self, comparison: &Comparison) -> Option<Overtake> {
        let is_comparable = self.policy().is_rank() && self.policy().compares_quotients();
        if !is_comparable || comparison.decisive.0.node != comparison.fork.0.node {
            return None;
        }
        let (first, second) = &comparison.decisive;
        match first.value?.total_cmp(&second.value?) {
            Ordering::Less => find_changes_that_reverse_order(first, second),
            Ordering::Greater => find_changes_that_reverse_order(second, first),
            Ordering::Equal => None,
        }
    }
}

impl Level {
    /// Returns the usage at which the node's fraction of the siblings' usage equals its fraction of their shares, if
    /// the usage of the other siblings does not change. Returns `None` if the node has no shares or no siblings with
    /// usage.
    pub fn even_usage(&self) -> Option<f64> {
        let Shares::Count(shares) = self.detail.shares else { return None };
        let part = shares as f64 / self.sibling_shares;
        let others = self.sibling_usage - self.detail.usage;
        (part > 0.0 && part < 1.0 && others > 0.0).then(|| others * part / (1.0 - part))
    }
}

/// Returns the shares or the usage with which `low` would come before `high`. Returns `None` if one of the nodes uses
/// the shares of its parent. Both nodes are compared by shares / usage, so common divisors cancel.
fn find_changes_that_reverse_order(low: &Level, high: &Level) -> Option<Overtake> {
    let (Shares::Count(own), Shares::Count(more)) = (low.detail.shares, high.detail.shares) else {
        return None;
    };
    let (own_usage, others_usage) = (low.detail.usage, high.detail.usage);
    // If the node ahead has no usage, `equal_shares` is infinite, and no number of shares is enough. Numbers above
    // 9e15 are rejected too, because an f64 does not represent all larger integers exactly.
    let equal_shares = more as f64 * own_usage / others_usage;
    let shares = (equal_shares < 9e15).then(|| equal_shares.floor() as u64 + 1);
    let usage = (own > 0 && others_usage > 0.0).then(|| others_usage * own as f64 / more as f64);
    Some(Overtake { node: low.node, shares, usage })
}
