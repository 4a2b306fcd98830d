// SPDX-License-Identifier: LGPL-3.0-only
//! What a person asks next: who is just ahead, what would change it, when a usage is even again.

use std::cmp::Ordering;

use super::{Comparison, Level, NodeId, Ranking, Shares};

/// What would put the one who is behind before the other, the rest of the site staying as it is. Each alone is enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overtake {
    /// Which of [`Comparison::decisive`] is meant.
    pub node: NodeId,
    /// The fewest shares that do, whoever is below; `None` if no number does.
    pub shares: Option<u64>,
    /// It must have used less than this; `None` if it used nothing, or has no shares.
    pub usage: Option<f64>,
}

impl Ranking {
    /// 1 for who goes first; tied associations share one. `None` without a rank.
    pub fn place(&self, node: NodeId) -> Option<usize> {
        self.rank(node).map(|rank| self.ranked() + 1 - rank as usize)
    }

    /// The last one that goes before `node` and is not tied with it.
    pub fn just_ahead(&self, node: NodeId) -> Option<NodeId> {
        // So many go before it, and the order begins with them.
        let ahead = self.place(node)? - 1;
        self.order().get(ahead.checked_sub(1)?).copied()
    }

    /// How many others have the same rank.
    pub fn tied_with(&self, node: NodeId) -> usize {
        let (Some(rank), Some(place)) = (self.rank(node), self.place(node)) else { return 0 };
        // Ranks fall along the order.
        let from = self.order().get(place - 1..).unwrap_or_default();
        from.partition_point(|other| self.rank(*other) >= Some(rank)).saturating_sub(1)
    }

    /// What would change it. `None` if they are tied, or not ranked; under a formula policy, where all levels matter at once;
    /// and where the members of merged banks decide.
    pub fn overtake(&self, comparison: &Comparison) -> Option<Overtake> {
        let is_comparable = self.policy().is_rank() && self.policy().compares_quotients();
        if !is_comparable || comparison.decisive.0.node != comparison.fork.0.node {
            return None;
        }
        let (one, other) = &comparison.decisive;
        match one.value?.total_cmp(&other.value?) {
            Ordering::Less => overtake(one, other),
            Ordering::Greater => overtake(other, one),
            Ordering::Equal => None,
        }
    }
}

impl Level {
    /// The usage at which its part of what all siblings used is its part of their shares, while theirs stays. `None` where
    /// there is no such usage: without shares, or without anybody beside.
    pub fn even_usage(&self) -> Option<f64> {
        let Shares::Count(shares) = self.detail.shares else { return None };
        let part = shares as f64 / self.sibling_shares;
        let others = self.sibling_usage - self.detail.usage;
        (part > 0.0 && part < 1.0 && others > 0.0).then(|| others * part / (1.0 - part))
    }
}

/// Siblings are compared by shares / usage: what they are measured against is the same for both.
fn overtake(low: &Level, high: &Level) -> Option<Overtake> {
    let (Shares::Count(own), Shares::Count(more)) = (low.detail.shares, high.detail.shares) else {
        return None;
    };
    let (own_usage, others_usage) = (low.detail.usage, high.detail.usage);
    // Who is ahead has shares. If it used nothing, the number is infinite: no shares are enough. And beyond 2^53 there is
    // no next number.
    let even = more as f64 * own_usage / others_usage;
    let shares = (even < 9e15).then(|| even.floor() as u64 + 1);
    let usage = (own > 0 && others_usage > 0.0).then(|| others_usage * own as f64 / more as f64);
    Some(Overtake { node: low.node, shares, usage })
}
