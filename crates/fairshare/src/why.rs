// SPDX-License-Identifier: LGPL-3.0-only
//! Why one association is ahead of another, and what made a fair-share.

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
    /// The sum of usages it competes in, itself included: of [`NodeDetail::usage`], so that parts add up to a whole. Under
    /// `fair-tree` with what the bank above has on top, for that is what its rule divides by.
    pub sibling_usage: f64,
    /// Its part of the usage of the bank above, and all parts together: as [`Level::detail`] and [`Level::sibling_usage`] have
    /// them, but for `pbs` without the minimum that everyone starts with, which no bank adds up.
    pub counted: (f64, f64),
    /// What is compared with siblings, larger is more deserving: weight, level fair-share, or the fair-share of a formula
    /// policy. `None` for the root and for an inactive association, which takes no part.
    pub value: Option<f64>,
}

/// The levels of one association, root first.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// From the root to the leaf.
    pub levels: Vec<Level>,
    /// The level below the root where most was lost: the smallest value (first one, if several). An index into `levels`.
    /// `None` for an association that is not ranked, and if each level used at most its share.
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
    /// Who has the better fair-share. `None` if one has no fair-share, being inactive: then nothing decides.
    pub verdict: Option<Verdict>,
    /// The first common ancestor.
    pub ancestor: NodeId,
    /// The nodes right below it on the way to each. Under the rank policies their values decide. When banks with equal values
    /// were merged the decision falls further down: at [`Comparison::decisive`].
    pub fork: (Level, Level),
    /// Rank policies: the pair that decided, the fork itself unless tied banks were merged.
    pub decisive: (Level, Level),
    /// Rank policies: whether the policy takes the values of the decisive pair for equal.
    pub equal: bool,
    /// All levels of both, for the formula policies' chains of numbers.
    pub chains: (Explanation, Explanation),
}

impl Ranking {
    /// The levels of a node from the root down. Banks that take their parent's shares take no part and are left out.
    pub fn explain(&self, tree: &Tree, node: NodeId) -> Explanation {
        let path = self.path(tree, node);
        let levels: Vec<Level> =
            path.iter().enumerate().map(|(depth, &node)| self.level(tree, node, depth)).collect();
        let below_root = levels.iter().enumerate().filter_map(|(at, level)| Some((at, level.value?)));
        let worst = below_root
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(at, _)| at)
            .filter(|_| self.takes_part(tree, node))
            .filter(|at| {
                let level_fs = levels.get(*at).and_then(|level| level.detail.level_fs);
                level_fs.is_none_or(|level_fs| level_fs < 1.0)
            });
        Explanation { levels, worst }
    }

    /// Why `first` is ahead of `second`, or the other way round. `None` if they are one node or one is above the other.
    pub fn compare(&self, tree: &Tree, first: NodeId, second: NodeId) -> Option<Comparison> {
        let chains = (self.explain(tree, first), self.explain(tree, second));
        let pairs = || chains.0.levels.iter().zip(&chains.1.levels);
        let common = pairs().take_while(|(a, b)| a.node == b.node).count();
        let ancestor = chains.0.levels.get(common.checked_sub(1)?)?.node;
        let mut below = pairs().skip(common);
        let fork = below.next().map(|(a, b)| (*a, *b))?;
        let mut decisive = fork;
        while self.merges(tree, &decisive) {
            let Some((a, b)) = below.next() else { break };
            decisive = (*a, *b);
        }
        let verdict = match (self.fairshare(first), self.fairshare(second)) {
            (Some(one), Some(other)) => Some(match one.total_cmp(&other) {
                Ordering::Greater => Verdict::First,
                Ordering::Less => Verdict::Second,
                Ordering::Equal => Verdict::Tied,
            }),
            _ => None,
        };
        let equal = self.equal(&decisive);
        Some(Comparison { verdict, ancestor, fork, decisive, equal, chains })
    }

    /// What an association adds to the usage of the banks above it: nothing where the policy, or the options, do not
    /// count what it has.
    pub fn counted_usage(&self, tree: &Tree, leaf: NodeId) -> f64 {
        let usage = tree.own_usage(leaf).unwrap_or(0.0);
        let is_initial = self.policy.initial_usage(&self.options) == Some(usage);
        if is_initial || self.sums.ignores(tree, leaf) { 0.0 } else { usage }
    }

    /// Nodes from the root down to `node`, without banks that take their parent's shares.
    pub(super) fn path(&self, tree: &Tree, node: NodeId) -> Vec<NodeId> {
        let mut path = vec![node];
        let mut above = tree.parent(node);
        while let Some(bank) = above {
            if tree.bank_number(bank).is_some_and(|bank| !self.sums.vanishes(bank)) {
                path.push(bank);
            }
            above = tree.parent(bank);
        }
        path.reverse();
        path
    }

    fn level(&self, tree: &Tree, node: NodeId, depth: usize) -> Level {
        let (sibling_shares, sibling_usage) = if depth == 0 {
            (0.0, self.usage(tree, node))
        } else if self.policy.is_rank() {
            self.siblings(tree, node)
        } else {
            (self.siblings(tree, node).0, self.shown_usage(tree, node))
        };
        let value = self.value(tree, node).filter(|_| self.takes_part(tree, node));
        let detail = self.detail(tree, node);
        let counted = match self.policy.initial_usage(&self.options) {
            Some(_) if depth > 0 => (self.recorded(tree, node), self.siblings(tree, node).1),
            Some(_) => (self.recorded(tree, node), self.recorded(tree, node)),
            None => (detail.usage, sibling_usage),
        };
        Level { node, depth, detail, sibling_shares, sibling_usage, counted, value }
    }

    /// What a node adds to the banks above it.
    fn recorded(&self, tree: &Tree, node: NodeId) -> f64 {
        if tree.is_bank(node) { self.sums.usage_of(tree, node) } else { self.counted_usage(tree, node) }
    }

    /// The sum of the usages of all that a node competes with, itself included, as each of them is shown: `pbs` shows a
    /// minimum that its sums leave out, Slurm's formulas leave out who takes the parent's shares.
    fn shown_usage(&self, tree: &Tree, node: NodeId) -> f64 {
        let mut sum = 0.0;
        let mut todo = vec![tree.bank_node(self.sums.arena_of(tree, node))];
        while let Some(bank) = todo.pop() {
            for child in tree.children(bank) {
                if tree.bank_number(child).is_some_and(|bank| self.sums.vanishes(bank)) {
                    todo.push(child);
                } else if !self.sums.ignores(tree, child) {
                    sum += self.usage(tree, child);
                }
            }
        }
        sum
    }

    /// False for an inactive association.
    fn takes_part(&self, tree: &Tree, node: NodeId) -> bool {
        tree.is_bank(node) || self.rank(node).is_some()
    }

    /// Whether two banks were visited as one.
    fn merges(&self, tree: &Tree, pair: &(Level, Level)) -> bool {
        !self.policy.uses_list_order(&self.options)
            && tree.is_bank(pair.0.node)
            && tree.is_bank(pair.1.node)
            && self.equal(pair)
    }

    /// Whether a rank policy takes two values for equal.
    fn equal(&self, (a, b): &(Level, Level)) -> bool {
        let (Some(one), Some(other)) = (a.value, b.value) else { return false };
        let (high, low) = if one >= other { (one, other) } else { (other, one) };
        self.policy.rules().is_tie(high, low)
    }
}
