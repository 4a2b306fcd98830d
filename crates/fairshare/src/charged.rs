// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the fair-share that an association would have with a different usage, without ranking the whole tree.
//!
//! Under a formula policy, the usage of an association is added only to the banks above it, so only the numbers of one
//! path are recomputed. Under a rank policy, the number of associations ahead gives the fair-share. Siblings are
//! ordered by the quotient usage / shares alone. So at each level, a binary search among the sorted siblings gives the
//! new position of the node. This method cannot handle ties, which lead to shared ranks and merged banks. So the whole
//! tree is ranked if a sibling is equal or nearly equal to a node of the path, or if a node has parent shares.

use std::collections::HashMap;

use super::formula::{self, Formula, UsageChange};
use super::sums::{Sums, value_at};
use super::tree::Flags;
use super::{NodeId, Ranking, Tree};

/// Computes fair-shares with different usages for one tree and its ranking. The first request about the children of a
/// bank sorts them; later requests take O(log siblings) per level.
#[derive(Clone, Debug)]
pub struct ChargedFairshares<'a> {
    tree: &'a Tree,
    ranking: &'a Ranking,
    /// The children of each bank, sorted by usage / shares.
    sorted: HashMap<u32, Vec<Sibling>>,
    has_parent_shares: Option<bool>,
    /// A copy of the tree, ranked with the usage of a request.
    scratch: Option<(Tree, Ranking)>,
}

#[derive(Clone, Copy, Debug)]
struct Sibling {
    quotient: f64,
    node: NodeId,
    /// The number of ranked associations before this node.
    ahead: u32,
}

impl<'a> ChargedFairshares<'a> {
    /// Makes a calculator for `tree` and the ranking of that tree.
    pub fn new(tree: &'a Tree, ranking: &'a Ranking) -> ChargedFairshares<'a> {
        ChargedFairshares { tree, ranking, sorted: HashMap::new(), has_parent_shares: None, scratch: None }
    }

    /// Returns the current usage of association `leaf`.
    pub fn recorded(&self, leaf: NodeId) -> f64 {
        self.tree.usage.get(leaf.index()).copied().unwrap_or(0.0)
    }

    /// Returns the fair-share that `leaf` would have with `usage` (see [`Tree::accrue`]), or `None` if it is not
    /// ranked.
    pub fn fairshare(&mut self, leaf: NodeId, usage: f64) -> Option<f64> {
        self.ranking.rank(leaf)?;
        let recorded = self.tree.usage.get(leaf.index()).copied()?;
        if usage == recorded {
            return self.ranking.fairshare(leaf);
        }
        let path = self.find_path(leaf);
        let policy = self.ranking.policy;
        let fairshare = if let Some(formula) = policy.formula(&self.ranking.options) {
            Some(self.compute_by_formula(&*formula, &path, recorded, usage))
        } else if policy.compares_quotients() {
            let ranked = self.ranking.ranked();
            self.count_associations_ahead(&path, recorded, usage)
                .map(|ahead| (ranked - ahead as usize) as f64 / ranked as f64)
        } else {
            None
        };
        fairshare.or_else(|| self.compute_fairshare_after_charge(leaf, recorded, usage))
    }

    /// Returns true if a request needed a ranking of the whole tree.
    #[cfg(test)]
    pub(super) fn has_ranked(&self) -> bool {
        self.scratch.is_some()
    }

    /// Returns the nodes from below the root down to the association.
    fn find_path(&self, leaf: NodeId) -> Vec<NodeId> {
        let mut path = Vec::new();
        let mut at = Some(leaf);
        while let Some(node) = at.filter(|node| *node != self.tree.root()) {
            path.push(node);
            at = self.tree.parent(node);
        }
        path.reverse();
        path
    }

    fn compute_by_formula(&self, formula: &dyn Formula, path: &[NodeId], recorded: f64, usage: f64) -> f64 {
        let ChargedFairshares { tree, ranking, .. } = self;
        let initial = ranking.policy.initial_usage(&ranking.options);
        // The initial usage of a node is not added to the banks above the node.
        let counted = |usage: f64| if initial == Some(usage) { 0.0 } else { usage };
        let more = UsageChange { own: usage - recorded, above: counted(usage) - counted(recorded) };
        formula::charged_factor(formula, tree, &ranking.sums, path, more)
    }

    /// Returns how many associations rank ahead of the last node of `path`, or `None` if this needs a full ranking.
    fn count_associations_ahead(&mut self, path: &[NodeId], recorded: f64, usage: f64) -> Option<u32> {
        let (tree, ranking) = (self.tree, self.ranking);
        let sums = &ranking.sums;
        let find_parent_shares =
            || tree.leaves().chain(tree.banks()).any(|node| tree.flags(node).has(Flags::PARENT_SHARES));
        if *self.has_parent_shares.get_or_insert_with(find_parent_shares)
            || ranking.policy.uses_list_order(&ranking.options)
        {
            return None;
        }
        let mut ahead = 0;
        let mut above = tree.root();
        for &node in path {
            let arena = tree.bank_number(above)?;
            let own = sums.usage_of(tree, node) - recorded + usage;
            let quotient = usage_per_share(tree, node, own);
            let level_usage = value_at(&sums.usage, arena).max(value_at(&sums.total, arena));
            let siblings = self.sort_siblings(arena);
            let at = siblings.partition_point(|sibling| sibling.quotient < quotient);
            let is_other = |sibling: &&Sibling| sibling.node != node;
            let before = siblings.iter().take(at).rev().find(is_other);
            let mut neighbours = before.into_iter().chain(siblings.iter().skip(at).find(is_other));
            let scale = (level_usage - recorded + usage) / value_at(&sums.shares, arena);
            if neighbours.any(|sibling| is_near(sibling.quotient, quotient, scale)) {
                return None;
            }
            let count_through = |last: &Sibling| last.ahead + count_ranked(sums, tree, last.node);
            ahead +=
                siblings.get(at).map(|next| next.ahead).or(siblings.last().map(count_through)).unwrap_or(0);
            // The node must not be counted as its own sibling.
            if usage_per_share(tree, node, sums.usage_of(tree, node)) < quotient {
                ahead -= count_ranked(sums, tree, node);
            }
            above = node;
        }
        Some(ahead)
    }

    fn sort_siblings(&mut self, bank: u32) -> &[Sibling] {
        let ChargedFairshares { tree, ranking, sorted, .. } = self;
        sorted.entry(bank).or_insert_with(|| {
            let sums = &ranking.sums;
            let has_ranked = |node: &NodeId| count_ranked(sums, tree, *node) > 0;
            let mut siblings: Vec<Sibling> = tree
                .children(tree.bank_node(bank))
                .filter(has_ranked)
                .map(|node| Sibling {
                    quotient: usage_per_share(tree, node, sums.usage_of(tree, node)),
                    node,
                    ahead: 0,
                })
                .collect();
            siblings.sort_unstable_by(|a, b| a.quotient.total_cmp(&b.quotient).then(a.node.cmp(&b.node)));
            let mut ahead = 0;
            for sibling in &mut siblings {
                sibling.ahead = ahead;
                ahead += count_ranked(sums, tree, sibling.node);
            }
            siblings
        })
    }

    fn compute_fairshare_after_charge(&mut self, leaf: NodeId, recorded: f64, usage: f64) -> Option<f64> {
        let ChargedFairshares { tree, ranking, scratch, .. } = self;
        let (tree, copy) = scratch.get_or_insert_with(|| (Tree::clone(tree), Ranking::default()));
        tree.accrue(leaf, usage);
        let result = tree.rank_into(ranking.policy, &ranking.options, copy);
        tree.accrue(leaf, recorded);
        result.ok().and_then(|()| copy.fairshare(leaf))
    }
}

/// Returns the number of ranked associations at or below a node.
fn count_ranked(sums: &Sums, tree: &Tree, node: NodeId) -> u32 {
    match tree.bank_number(node) {
        Some(bank) => sums.ranked.get(bank as usize).copied().unwrap_or(0),
        None => u32::from(tree.is_active(node)),
    }
}

/// Returns usage / shares, by which siblings are sorted in ascending order; infinite without shares.
fn usage_per_share(tree: &Tree, node: NodeId, usage: f64) -> f64 {
    let shares = tree.shares.get(node.index()).map_or(0.0, |&shares| shares as f64);
    if shares > 0.0 { usage / shares } else { f64::INFINITY }
}

/// Returns true if a policy may treat two quotients as equal. Policies compare the level values `scale` / quotient.
pub(super) fn is_near(a: f64, b: f64, scale: f64) -> bool {
    if a == b {
        return true;
    }
    let (a, b) = (scale / a, scale / b);
    // All values above `highest` are treated as equal. Both tolerances are about a thousand times larger than those
    // of any ranking policy.
    let highest = 1e17;
    (a > highest && b > highest)
        || (a.is_finite() && b.is_finite() && (a - b).abs() <= 1e-12 * a.max(b).max(1.0))
}
