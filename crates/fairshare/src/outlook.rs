// SPDX-License-Identifier: LGPL-3.0-only
//! What a person asks next: who is just ahead, what would change it, when a usage is even again; and, of OpenPBS, the order of
//! its scheduler's own walk.

use std::cmp::Ordering;

use super::sums::Sums;
use super::walk::{SiblingRule, Visit};
use super::{Comparison, Level, NodeId, Policy, Ranking, Shares, Tree};

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

/// OpenPBS's order where no formula asks for the factor: usage / target, level by level from the root.
#[derive(Clone, Debug, Default)]
pub struct PbsWalk {
    rank: Vec<u32>,
    order: Vec<NodeId>,
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
        if !self.policy().is_rank() || comparison.decisive.0.node != comparison.fork.0.node {
            return None;
        }
        let (one, other) = &comparison.decisive;
        match one.value?.total_cmp(&other.value?) {
            Ordering::Less => overtake(one, other),
            Ordering::Greater => overtake(other, one),
            Ordering::Equal => None,
        }
    }

    /// The order that OpenPBS's scheduler takes associations in, without a formula; `None` under another policy. The pairwise
    /// rule ([`Ranking::pbs_compare`]) makes no order where leaves of equal figures are at different depths: there one that
    /// is right below goes with the best below an equal bank.
    pub fn pbs_walk(&self, tree: &Tree) -> Option<PbsWalk> {
        if self.policy() != Policy::Pbs {
            return None;
        }
        let mut walk = PbsWalk { rank: vec![0; tree.leaves().len()], order: Vec::new() };
        Visit::default().run(&UsageOverTarget(self), tree, &self.sums, &mut walk.rank, &mut walk.order);
        Some(walk)
    }

    /// Usage / target, which OpenPBS compares; infinite without a target. `None` under another policy.
    pub fn usage_over_target(&self, tree: &Tree, node: NodeId) -> Option<f64> {
        let detail = self.detail(tree, node);
        let target = detail.pbs?.fairshare_perc;
        Some(if target > 0.0 { detail.usage / target } else { f64::INFINITY })
    }
}

impl PbsWalk {
    /// 1 for who goes first; tied associations share one. `None` for banks and inactive associations.
    pub fn place(&self, node: NodeId) -> Option<usize> {
        let rank = self.rank.get(node.index()).copied().filter(|rank| *rank > 0)?;
        Some(self.order.len() + 1 - rank as usize)
    }

    /// The last one that goes before `node` and is not tied with it.
    pub fn just_ahead(&self, node: NodeId) -> Option<NodeId> {
        let ahead = self.place(node)? - 1;
        self.order.get(ahead.checked_sub(1)?).copied()
    }
}

/// The rule of that walk, as one of siblings.
struct UsageOverTarget<'a>(&'a Ranking);

impl SiblingRule for UsageOverTarget<'_> {
    const APPROXIMATE: bool = false;
    const BANK_INHERITS_TIE: bool = true;
    const MERGES_BANKS: bool = true;

    fn value(&self, tree: &Tree, _: &Sums, node: NodeId, _: u32) -> f64 {
        let ratio = self.0.usage_over_target(tree, node).unwrap_or(f64::INFINITY);
        // Smaller comes first: the same numbers the other way round, so that no two become equal by arithmetic.
        f64::from_bits(f64::INFINITY.to_bits().saturating_sub(ratio.to_bits()))
    }

    fn equal(&self, a: f64, b: f64) -> bool {
        a == b
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
