// SPDX-License-Identifier: LGPL-3.0-only
//! Explains why one association is ahead of another, and which numbers lead to a fair-share.

use std::cmp::Ordering;

use super::{NodeDetail, NodeId, Ranking, Tree};

/// One node on the path from the root to a leaf, and the sums of its siblings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The node.
    pub node: NodeId,
    /// Depth below the root, which has 0.
    pub depth: usize,
    /// The values of the node in the ranking.
    pub detail: NodeDetail,
    /// Sum of the shares of the siblings, this node included; 0 for the root.
    pub sibling_shares: f64,
    /// Sum of [`NodeDetail::usage`] of the siblings, this node included. Under `fair-tree` the sum includes
    /// the own usage of the bank above, because Slurm divides by this sum.
    pub sibling_usage: f64,
    /// The usage that the node adds to the bank above, and the sum of the usages that all siblings add. Under
    /// `pbs`, both numbers exclude the minimum usage. Under the other policies, they equal the usage in
    /// [`Level::detail`] and [`Level::sibling_usage`].
    pub counted: (f64, f64),
    /// The value that siblings are compared by, larger is better: weight, level fair-share, or the fair-share of a
    /// formula policy. `None` for the root and for an inactive association.
    pub value: Option<f64>,
}

/// The path to one association.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The levels from the root to the leaf.
    pub levels: Vec<Level>,
    /// The index of the level with the smallest value, or the first such level. The root is left out. `None`
    /// if the association is not ranked, or if no level used more than its share.
    pub worst: Option<usize>,
}

/// Why an association or a bank is ahead of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The order of the two nodes: `Less` if the first node has the better fair-share, and `Equal` if the two are tied. `None` if one
    /// of them has no fair-share: an inactive association, or a bank under a rank policy.
    pub verdict: Option<Ordering>,
    /// The first common ancestor.
    pub ancestor: NodeId,
    /// The two nodes directly below the common ancestor, one on the path to each association. Under rank policies,
    /// the values of these two nodes decide the order. If tied banks were merged, the nodes of
    /// [`Comparison::decisive`] are further down.
    pub fork: (Level, Level),
    /// The two nodes whose values decide the order under a rank policy. The first node is on the path to the first
    /// association, and the second node is on the path to the second association.
    pub decisive: (Level, Level),
    /// Under rank policies, true if the policy treats the values of the nodes in [`Comparison::decisive`] as
    /// equal.
    pub equal: bool,
    /// All levels of both associations.
    pub chains: (Explanation, Explanation),
}

impl Ranking {
    /// Returns the levels of a node from the root down, without banks that have parent shares.
    pub fn explain(&self, tree: &Tree, node: NodeId) -> Explanation {
        let path = self.path(tree, node);
        let levels: Vec<Level> =
            path.iter().enumerate().map(|(depth, &node)| self.level(tree, node, depth)).collect();
        let below_root = levels.iter().enumerate().filter_map(|(at, level)| Some((at, level.value?)));
        let worst = below_root
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(at, _)| at)
            .filter(|_| self.is_compared(tree, node))
            .filter(|at| {
                let level_fs = levels.get(*at).and_then(|level| level.detail.level_fs);
                level_fs.is_none_or(|level_fs| level_fs < 1.0)
            });
        Explanation { levels, worst }
    }

    /// Compares two nodes. Returns `None` if they are the same node, or if one is an ancestor of the other.
    pub fn compare(&self, tree: &Tree, first: NodeId, second: NodeId) -> Option<Comparison> {
        let chains = (self.explain(tree, first), self.explain(tree, second));
        let pairs = || chains.0.levels.iter().zip(&chains.1.levels);
        let common = pairs().take_while(|(a, b)| a.node == b.node).count();
        let ancestor = chains.0.levels.get(common.checked_sub(1)?)?.node;
        let mut below = pairs().skip(common);
        let fork = below.next().map(|(a, b)| (*a, *b))?;
        let mut decisive = fork;
        while self.were_banks_merged(tree, &decisive) {
            let Some((a, b)) = below.next() else { break };
            decisive = (*a, *b);
        }
        let fairshares = self.fairshare(first).zip(self.fairshare(second));
        let verdict = fairshares.map(|(first, second)| second.total_cmp(&first));
        let equal = self.is_equal(&decisive);
        Some(Comparison { verdict, ancestor, fork, decisive, equal, chains })
    }

    /// Returns the usage that an association adds to the banks above it. Returns 0 if the policy or the
    /// options exclude the usage of the association.
    pub fn counted_usage(&self, tree: &Tree, leaf: NodeId) -> f64 {
        let usage = tree.own_usage(leaf).unwrap_or(0.0);
        let is_initial = self.policy.initial_usage(&self.options) == Some(usage);
        if is_initial || self.sums.is_left_out(tree, leaf) { 0.0 } else { usage }
    }

    /// Returns the nodes from the root down to `node`, without banks that have parent shares.
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
            (self.siblings(tree, node).0, self.sum_usage_of_node_and_siblings(tree, node))
        };
        let value = self.value(tree, node).filter(|_| self.is_compared(tree, node));
        let detail = self.detail(tree, node);
        let counted = match self.policy.initial_usage(&self.options) {
            Some(_) if depth > 0 => (self.recorded(tree, node), self.siblings(tree, node).1),
            Some(_) => (self.recorded(tree, node), self.recorded(tree, node)),
            None => (detail.usage, sibling_usage),
        };
        Level { node, depth, detail, sibling_shares, sibling_usage, counted, value }
    }

    /// Returns the usage that a node adds to the banks above it.
    fn recorded(&self, tree: &Tree, node: NodeId) -> f64 {
        if tree.is_bank(node) { self.sums.usage_of(tree, node) } else { self.counted_usage(tree, node) }
    }

    /// Returns the sum of the usages that commands show for a node and its siblings. The stored sums differ: under
    /// `pbs` they exclude the minimum usage, and under Slurm's formulas they exclude nodes with parent shares.
    fn sum_usage_of_node_and_siblings(&self, tree: &Tree, node: NodeId) -> f64 {
        let mut sum = 0.0;
        let mut stack = vec![tree.bank_node(self.sums.find_bank_where_node_competes(tree, node))];
        while let Some(bank) = stack.pop() {
            for child in tree.children(bank) {
                if tree.bank_number(child).is_some_and(|bank| self.sums.vanishes(bank)) {
                    stack.push(child);
                } else if !self.sums.is_left_out(tree, child) {
                    sum += self.usage(tree, child);
                }
            }
        }
        sum
    }

    /// Returns true for a bank and for an active association.
    fn is_compared(&self, tree: &Tree, node: NodeId) -> bool {
        tree.is_bank(node) || self.rank(node).is_some()
    }

    /// Returns true if the policy treats two equal banks as one bank and compares their children.
    fn were_banks_merged(&self, tree: &Tree, pair: &(Level, Level)) -> bool {
        !self.policy.uses_list_order(&self.options)
            && tree.is_bank(pair.0.node)
            && tree.is_bank(pair.1.node)
            && self.is_equal(pair)
    }

    /// Returns true if the rank policy treats the values of two nodes as equal.
    fn is_equal(&self, (a, b): &(Level, Level)) -> bool {
        let (Some(first), Some(second)) = (a.value, b.value) else { return false };
        let (high, low) = if first >= second { (first, second) } else { (second, first) };
        self.policy.is_tie(high, low)
    }
}
