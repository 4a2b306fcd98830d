// SPDX-License-Identifier: LGPL-3.0-only
//! Why one association is ahead of another, and what made a fair-share.
#![forbid(unsafe_code)]

use std::cmp::Ordering;

use super::{NodeDetail, NodeId, Ranking, Tree};

/// One node on the way from the root to a leaf, with what its figures were measured against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The node.
    pub node: NodeId,
    /// 0 for the root.
    pub depth: usize,
    /// Its numbers.
    pub detail: NodeDetail,
    /// The sum of shares it competes in, itself included; 0 for the root.
    pub sibling_shares: f64,
    /// The sum of usages it competes in, itself included.
    pub sibling_usage: f64,
    /// What is compared with siblings, larger is more deserving: weight, level fair-share, or the fair-share of a formula
    /// policy. `None` for the root.
    pub value: Option<f64>,
}

/// The levels of one association, root first.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// From the root to the leaf.
    pub levels: Vec<Level>,
    /// The level below the root where most was lost: the smallest value (first one, if several). An index into `levels`.
    pub worst: Option<usize>,
}

/// Which of two nodes is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first.
    First,
    /// The second.
    Second,
    /// Neither.
    Tied,
}

/// Why an association is ahead of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Who has the better fair-share; an association without a rank is behind all that have one.
    pub verdict: Verdict,
    /// The first common ancestor.
    pub ancestor: NodeId,
    /// The nodes right below it on the way to each. Under the rank policies their values decide. When banks with equal values
    /// were merged the decision falls further down: at [`Comparison::decisive`].
    pub fork: (Level, Level),
    /// Rank policies: the pair that decided, the fork itself unless tied banks were merged.
    pub decisive: (Level, Level),
    /// All levels of both, for the formula policies' chains of numbers.
    pub chains: (Explanation, Explanation),
}

impl Ranking {
    /// The levels of a node from the root down.
    pub fn explain(&self, tree: &Tree, node: NodeId) -> Explanation {
        todo!()
    }

    /// Why `first` is ahead of `second`, or the other way round. `None` if they are one node or one is above the other.
    pub fn compare(&self, tree: &Tree, first: NodeId, second: NodeId) -> Option<Comparison> {
        todo!()
    }

    /// OpenPBS's pairwise walk: at the first level where the paths differ the smaller usage / perc is more deserving (`Less`),
    /// a perc of 0 loses, two of 0 are equal and end the walk, equal ones go a level deeper; equal to the end of the shorter
    /// path is equal. Not transitive where leaves are at different depths. `None` under another policy.
    pub fn pbs_compare(&self, tree: &Tree, first: NodeId, second: NodeId) -> Option<Ordering> {
        todo!()
    }
}
