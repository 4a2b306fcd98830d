// SPDX-License-Identifier: LGPL-3.0-only
//! The result of a ranking policy: rank and fair-share of each node, and the numbers that lead to them.

use super::formula::{self, Formula, InheritedFormulaValues};
#[cfg(test)]
use super::names::bytes;
use super::sums::{Sums, level, ratio, value_at};
use super::tree::Flags;
use super::walk::{SiblingRule, Visit};
use super::{NodeId, Options, PbsDetail, Policy, Shares, Tree};

/// The result of [`Tree::rank`]. It is valid for that tree until usages or shares change. Details are computed on
/// request.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    pub(super) policy: Policy,
    pub(super) options: Options,
    pub(super) sums: Sums,
    /// The rank of each association; 0 means no rank.
    rank: Vec<u32>,
    order: Vec<NodeId>,
    /// The fair-share of each node under a formula policy; empty under a rank policy.
    factor: Vec<f64>,
    /// The normalized shares and the effective usage of each bank under a formula policy.
    pub(super) numbers: Vec<InheritedFormulaValues>,
    pub(super) visit: Visit,
}

/// All numbers of one node. Numbers that the policy does not use are `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeDetail {
    /// The node's shares, as the site defines them.
    pub shares: Shares,
    /// Under rank policies and `pbs`, the fraction of the siblings' shares. Under `classic` and `depth-oblivious`, the product of
    /// the fractions of the node and of all banks above it. 1 for the root. For a node with [`Shares::Parent`], the value of the
    /// bank under which the node competes, as Slurm shows it (under `fair-tree`, 0 below the root).
    pub norm_shares: f64,
    /// Usage of the node and of all nodes below (`pbs`: including the minimum usage).
    pub usage: f64,
    /// `usage` / usage of the root; 0 if the root has no usage or sums exclude the node's usage.
    pub norm_usage: f64,
    /// Under rank policies, the fraction of the siblings' usage. Under formula policies, the effective usage of the
    /// formula.
    pub effective_usage: f64,
    /// Under rank policies, norm shares / effective usage, which may be infinite; `None` for the root, and for a
    /// bank with [`Shares::Parent`].
    pub level_fs: Option<f64>,
    /// Under `weighted-walk`, the value by which siblings are sorted, at most 2^64; `None` for the root.
    pub weight: Option<f64>,
    /// The rank, from 1 for the worst to N for the best. Tied associations share a rank. `None` for banks and
    /// inactive associations.
    pub rank: Option<u32>,
    /// The fair-share, from 0 to 1; a larger one is better. `None` for a node without a rank. Formula policies also
    /// compute a fair-share for banks.
    pub fairshare: Option<f64>,
    /// OpenPBS's values for the node. `None` if the policy is not `pbs`.
    pub pbs: Option<PbsDetail>,
}

impl Tree {
    /// Ranks all active associations. Returns an error if the policy does not support the shares of a node.
    pub fn rank(&self, policy: Policy, options: &Options) -> Result<Ranking, String> {
        let mut ranking = Ranking::default();
        self.rank_into(policy, options, &mut ranking)?;
        Ok(ranking)
    }

    /// Ranks like [`Tree::rank`], but reuses the memory of an earlier ranking. After an error the ranking is
    /// unchanged.
    pub fn rank_into(&self, policy: Policy, options: &Options, ranking: &mut Ranking) -> Result<(), String> {
        self.check_policy(policy)?;
        ranking.policy = policy;
        ranking.options = *options;
        ranking.sums.fill(self, options, policy.initial_usage(options).unwrap_or(0.0));
        ranking.clear_ranks(self);
        ranking.numbers.clear();
        policy.rank(self, ranking);
        Ok(())
    }

    /// Returns an error if the policy does not support the shares of a node. Usage has no influence.
    pub fn check_policy(&self, policy: Policy) -> Result<(), String> {
        if policy.takes_parent_shares() {
            return Ok(());
        }
        // The shares of the root are never used.
        let has_parent_shares =
            |node: &NodeId| *node != self.root() && self.flags(*node).has(Flags::PARENT_SHARES);
        match self.leaves().chain(self.banks()).find(has_parent_shares) {
            Some(node) => Err(format!(
                "{}: policy {policy} does not support shares \"parent\"; use a policy of Slurm, for example --policy fair-tree",
                self.describe(node)
            )),
            None => Ok(()),
        }
    }
}

impl Ranking {
    /// Returns the ranking policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the options of the ranking policy.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns N, the number of ranked associations.
    pub fn ranked(&self) -> usize {
        self.order.len()
    }

    /// Returns the rank, which is N for the best; `None` for banks and inactive associations.
    pub fn rank(&self, node: NodeId) -> Option<u32> {
        self.rank.get(node.index()).copied().filter(|&rank| rank > 0)
    }

    /// Returns the fair-share, from 0 to 1. Returns `None` for inactive associations. Banks have a fair-share only
    /// under formula policies.
    pub fn fairshare(&self, node: NodeId) -> Option<f64> {
        if self.factor.is_empty() {
            return self.rank(node).map(|rank| f64::from(rank) / self.ranked() as f64);
        }
        let is_bank = node.index() >= self.rank.len();
        self.factor.get(node.index()).copied().filter(|_| is_bank || self.rank(node).is_some())
    }

    /// Returns the usage of a node and of all nodes below (`pbs`: including the minimum usage).
    pub fn usage(&self, tree: &Tree, node: NodeId) -> f64 {
        self.policy.usage(tree, self, node)
    }

    /// Returns the usage of a node and of all nodes below, without the minimum usage of `pbs`.
    pub(super) fn recorded_usage(&self, tree: &Tree, node: NodeId) -> f64 {
        match tree.bank_number(node) {
            Some(_) => self.sums.usage_of(tree, node),
            None => tree.own_usage(node).unwrap_or(0.0),
        }
    }

    /// Returns all numbers of a node. `tree` must be the tree that was ranked.
    pub fn detail(&self, tree: &Tree, node: NodeId) -> NodeDetail {
        let (usage, root_usage) = (self.usage(tree, node), self.usage(tree, tree.root()));
        let mut detail = NodeDetail {
            shares: tree.shares(node),
            norm_shares: 1.0,
            usage,
            norm_usage: if self.sums.is_left_out(tree, node) { 0.0 } else { ratio(usage, root_usage) },
            effective_usage: 1.0,
            level_fs: None,
            weight: None,
            rank: self.rank(node),
            fairshare: self.fairshare(node),
            pbs: None,
        };
        self.policy.add_numbers(tree, self, node, &mut detail);
        detail
    }

    /// Returns the ranked associations, the best first. Tied associations are sorted by node id (bank, then user name).
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// Returns every node with its depth, in depth-first order, the better sibling first. Under rank
    /// policies, siblings are sorted as for the ranking, but tied banks are not merged. Under formula
    /// policies, siblings are sorted by fair-share. Associations without a rank come last.
    pub fn walk(&self, tree: &Tree) -> Vec<(NodeId, usize)> {
        let key = |node| (!tree.is_active(node), !self.value(tree, node).unwrap_or(0.0).to_bits(), node);
        tree.depth_first(|siblings| siblings.sort_by_cached_key(|node| key(*node)))
    }

    /// Returns the value that siblings are compared by; larger is better. `None` for the root.
    pub fn value(&self, tree: &Tree, node: NodeId) -> Option<f64> {
        tree.parent(node)?;
        if !self.factor.is_empty() {
            return self.factor.get(node.index()).copied();
        }
        let detail = self.detail(tree, node);
        detail.weight.or(detail.level_fs).or(Some(f64::INFINITY))
    }

    /// Returns the sum of the shares, and the sum of the usage, of a node and its siblings.
    pub(super) fn siblings(&self, tree: &Tree, node: NodeId) -> (f64, f64) {
        let arena = self.sums.find_bank_where_node_competes(tree, node);
        (value_at(&self.sums.shares, arena), value_at(self.policy.usage_divisors(&self.sums), arena))
    }

    /// Returns the allocated bytes, including the reusable buffers.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        let columns = [bytes(&self.rank), bytes(&self.order), bytes(&self.factor), bytes(&self.numbers)];
        columns.into_iter().chain([self.sums.memory(), self.visit.memory()]).sum()
    }

    /// Removes the ranks and the fair-shares of all nodes.
    pub(super) fn clear_ranks(&mut self, tree: &Tree) {
        self.rank.clear();
        self.rank.resize(tree.leaf_count() as usize, 0);
        self.order.clear();
        self.order.reserve(self.rank.len());
        self.factor.clear();
    }

    /// Ranks the associations by a depth-first visit.
    pub(super) fn rank_by_depth_first_visit(&mut self, rule: &impl SiblingRule, tree: &Tree) {
        self.visit.rank_depth_first(rule, tree, &self.sums, &mut self.rank, &mut self.order);
    }

    /// Ranks the associations by the fair-share that the formula gives each of them.
    pub(super) fn rank_by_formula(&mut self, formula: &dyn Formula, tree: &Tree) {
        formula::compute_all(formula, tree, &self.sums, &mut self.numbers, &mut self.factor);
        self.visit.rank_by_value(tree, &self.factor, &mut self.rank, &mut self.order);
    }

    /// Sets the values in `detail` that compare a node with its siblings: effective usage, normalized shares
    /// and level fair-share.
    pub(super) fn add_sibling_numbers(&self, tree: &Tree, node: NodeId, detail: &mut NodeDetail) {
        if tree.parent(node).is_none() {
            return;
        }
        let (sibling_shares, sibling_usage) = self.siblings(tree, node);
        let counted_fraction = if self.sums.is_left_out(tree, node) { 0.0 } else { 1.0 };
        detail.effective_usage = ratio(detail.usage * counted_fraction, sibling_usage);
        let Shares::Count(shares) = detail.shares else {
            // As in Slurm, a node with parent shares has the normalized shares of the bank under which it
            // competes. The value is 0 if this bank is the root.
            let arena = tree.bank_node(self.sums.find_bank_where_node_competes(tree, node));
            let is_root = tree.parent(arena).is_none();
            detail.norm_shares = if is_root {
                0.0
            } else {
                ratio(tree.shares(arena).count() as f64, self.siblings(tree, arena).0)
            };
            // A bank with parent shares has no level fair-share: its children compete in its place.
            detail.level_fs = (!tree.is_bank(node)).then_some(f64::INFINITY);
            return;
        };
        let shares = shares as f64 * counted_fraction;
        detail.norm_shares = ratio(shares, sibling_shares);
        detail.level_fs = Some(level(shares, sibling_shares, detail.usage, sibling_usage));
    }

    /// Sets the values in `detail` that the formula computes. Returns the normalized shares and the effective
    /// usage of the node.
    pub(super) fn add_formula_numbers(
        &self,
        formula: &dyn Formula,
        tree: &Tree,
        node: NodeId,
        detail: &mut NodeDetail,
    ) -> InheritedFormulaValues {
        let numbers = formula::node_numbers(formula, tree, &self.sums, &self.numbers, node);
        detail.norm_shares = numbers.norm_shares;
        detail.effective_usage = numbers.effective_usage;
        numbers
    }
}
