// SPDX-License-Identifier: LGPL-3.0-only
//! What a ranking policy makes of a tree: the rank and fair-share of each node, and the numbers they came from.

use std::fmt;

use super::formula::{self, Formula, Numbers};
use super::names::bytes;
use super::sums::{Sums, level, ratio};
use super::tree::Flags;
use super::walk::{SiblingRule, Visit};
use super::{NodeId, Options, PbsDetail, Policy, Shares, Tree};

/// The outcome of one [`Tree::rank`]. Valid for that tree until its usages or shares change; details are computed
/// when asked for.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    pub(super) policy: Policy,
    pub(super) options: Options,
    pub(super) sums: Sums,
    /// Per association; 0 is none.
    rank: Vec<u32>,
    order: Vec<NodeId>,
    /// Formula policies: per node. Empty under a rank policy.
    factor: Vec<f64>,
    /// Formula policies: per bank.
    pub(super) numbers: Vec<Numbers>,
    pub(super) visit: Visit,
}

/// Every number of one node. What a policy does not use is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeDetail {
    /// As given.
    pub shares: Shares,
    /// Rank policies and `pbs`: the part of the siblings' shares. `classic`, `depth-oblivious`: the product of those
    /// parts from the root down. The root has 1. With [`Shares::Parent`]: that of the bank it competes under, as Slurm
    /// shows it (`fair-tree`: 0 under the root).
    pub norm_shares: f64,
    /// Own usage and all usage below (`pbs`: with the minimum usage of that policy).
    pub usage: f64,
    /// `usage` / the root's; 0 where nothing was used, or what was does not count.
    pub norm_usage: f64,
    /// Rank policies: the part of the siblings' usage. The others: what the policy's formula makes of it.
    pub effective_usage: f64,
    /// Rank policies: norm shares / effective usage, possibly infinite; `None` for the root, and for a bank with
    /// [`Shares::Parent`].
    pub level_fs: Option<f64>,
    /// `weighted-walk`: what siblings are sorted by, at most 2^64; `None` for the root.
    pub weight: Option<f64>,
    /// N is the best, 1 the worst; tied associations share one. `None` for banks and inactive associations.
    pub rank: Option<u32>,
    /// 0 to 1, larger is more deserving. `None` without a rank; the formula policies have one for banks too.
    pub fairshare: Option<f64>,
    /// `pbs` only.
    pub pbs: Option<PbsDetail>,
}

/// Why a tree can't be ranked by a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankError {
    /// The policy has no meaning for shares taken from the parent.
    ParentShares {
        /// The policy.
        policy: Policy,
        /// The node, as `bank NAME` or `user NAME in bank NAME`.
        node: String,
    },
}

impl fmt::Display for RankError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankError::ParentShares { policy, node } => {
                write!(
                    f,
                    "{node}: policy {policy} can't use shares \"parent\", only Slurm's policies do: try --policy fair-tree"
                )
            }
        }
    }
}

impl std::error::Error for RankError {}

impl Tree {
    /// Ranks every active association.
    pub fn rank(&self, policy: Policy, options: &Options) -> Result<Ranking, RankError> {
        let mut ranking = Ranking::default();
        self.rank_into(policy, options, &mut ranking)?;
        Ok(ranking)
    }

    /// As [`Tree::rank`], reusing the memory of an earlier ranking. After an error the ranking is what it was before.
    pub fn rank_into(
        &self,
        policy: Policy,
        options: &Options,
        ranking: &mut Ranking,
    ) -> Result<(), RankError> {
        self.check(policy)?;
        ranking.policy = policy;
        ranking.options = *options;
        ranking.sums.fill(self, options, policy.initial_usage(options).unwrap_or(0.0));
        ranking.rank.clear();
        ranking.rank.resize(self.leaf_count() as usize, 0);
        ranking.order.clear();
        ranking.order.reserve(ranking.rank.len());
        ranking.factor.clear();
        ranking.numbers.clear();
        policy.rules().rank(self, ranking);
        Ok(())
    }

    /// Whether a policy can rank it, whatever the usages.
    pub fn check(&self, policy: Policy) -> Result<(), RankError> {
        if policy.rules().takes_parent_shares() {
            return Ok(());
        }
        // The root's shares are never used.
        let takes_parent =
            |node: &NodeId| *node != self.root() && self.flags(*node).has(Flags::PARENT_SHARES);
        match self.leaves().chain(self.banks()).find(takes_parent) {
            Some(node) => Err(RankError::ParentShares { policy, node: self.describe(node) }),
            None => Ok(()),
        }
    }
}

impl Ranking {
    /// The policy it was made by.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The number of ranked associations, N.
    pub fn ranked(&self) -> usize {
        self.order.len()
    }

    /// N for the best; `None` for banks and inactive associations.
    pub fn rank(&self, node: NodeId) -> Option<u32> {
        self.rank.get(node.index()).copied().filter(|&rank| rank > 0)
    }

    /// 0 to 1; `None` for what has no rank (formula policies give one to banks too).
    pub fn fairshare(&self, node: NodeId) -> Option<f64> {
        if self.factor.is_empty() {
            return self.rank(node).map(|rank| f64::from(rank) / self.ranked() as f64);
        }
        let is_bank = node.index() >= self.rank.len();
        self.factor.get(node.index()).copied().filter(|_| is_bank || self.rank(node).is_some())
    }

    /// Own usage and all usage below (`pbs`: with the minimum usage of that policy).
    pub fn usage(&self, tree: &Tree, node: NodeId) -> f64 {
        self.policy.rules().usage(tree, self, node)
    }

    /// Returns own usage and all usage below, without what the ranking policy adds.
    pub(super) fn recorded_usage(&self, tree: &Tree, node: NodeId) -> f64 {
        match tree.bank_number(node) {
            Some(_) => self.sums.usage_of(tree, node),
            None => tree.own_usage(node).unwrap_or(0.0),
        }
    }

    /// Every number of a node. `tree` is the tree it was made from.
    pub fn detail(&self, tree: &Tree, node: NodeId) -> NodeDetail {
        let (usage, root_usage) = (self.usage(tree, node), self.usage(tree, tree.root()));
        let mut detail = NodeDetail {
            shares: tree.shares(node),
            norm_shares: 1.0,
            usage,
            norm_usage: if self.sums.ignores(tree, node) { 0.0 } else { ratio(usage, root_usage) },
            effective_usage: 1.0,
            level_fs: None,
            weight: None,
            rank: self.rank(node),
            fairshare: self.fairshare(node),
            pbs: None,
        };
        self.policy.rules().add_numbers(tree, self, node, &mut detail);
        detail
    }

    /// Ranked associations, the most deserving first; ties in the order of node ids (bank, then user name).
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// Every node with its depth, depth-first, the more deserving sibling first (rank policies: as they were visited,
    /// but each bank apart; formula policies: by fair-share). Associations without a rank come after those with one.
    pub fn walk(&self, tree: &Tree) -> Vec<(NodeId, usize)> {
        let mut keyed: Vec<(bool, u64, NodeId)> = Vec::new();
        tree.depth_first(|siblings| {
            keyed.clear();
            keyed.extend(siblings.iter().map(|&node| {
                let behind = !tree.is_active(node);
                (behind, !self.value(tree, node).unwrap_or(0.0).to_bits(), node)
            }));
            keyed.sort_unstable();
            for (place, &(_, _, node)) in siblings.iter_mut().zip(&keyed) {
                *place = node;
            }
        })
    }

    /// What siblings are compared by, larger is more deserving; `None` for the root.
    pub fn value(&self, tree: &Tree, node: NodeId) -> Option<f64> {
        tree.parent(node)?;
        if !self.factor.is_empty() {
            return self.factor.get(node.index()).copied();
        }
        let detail = self.detail(tree, node);
        detail.weight.or(detail.level_fs).or(Some(f64::INFINITY))
    }

    /// The shares and the usage that a node competes in, itself included.
    pub(super) fn siblings(&self, tree: &Tree, node: NodeId) -> (f64, f64) {
        let arena = self.sums.arena_of(tree, node) as usize;
        let usage = self.policy.rules().whole_usage(&self.sums);
        (self.sums.shares.get(arena).copied().unwrap_or(0.0), usage.get(arena).copied().unwrap_or(0.0))
    }

    /// Bytes of the ranking, scratch memory included.
    pub fn memory(&self) -> usize {
        let columns = [bytes(&self.rank), bytes(&self.order), bytes(&self.factor), bytes(&self.numbers)];
        columns.into_iter().chain([self.sums.memory(), self.visit.memory()]).sum()
    }

    /// Ranks by a depth-first visit.
    pub(super) fn rank_by_visit(&mut self, rule: &impl SiblingRule, tree: &Tree) {
        self.visit.run(rule, tree, &self.sums, &mut self.rank, &mut self.order);
    }

    /// Ranks by the fair-share that a formula gives each node.
    pub(super) fn rank_by_formula(&mut self, formula: &impl Formula, tree: &Tree) {
        formula::run(formula, tree, &self.sums, &mut self.numbers, &mut self.factor);
        self.visit.by_value(tree, &self.factor, &mut self.rank, &mut self.order);
    }

    /// Adds the numbers of a node among its siblings to `detail`.
    pub(super) fn add_sibling_numbers(&self, tree: &Tree, node: NodeId, detail: &mut NodeDetail) {
        if tree.parent(node).is_none() {
            return;
        }
        let (sibling_shares, sibling_usage) = self.siblings(tree, node);
        let counted = if self.sums.ignores(tree, node) { 0.0 } else { 1.0 };
        detail.effective_usage = ratio(detail.usage * counted, sibling_usage);
        let Shares::Count(shares) = detail.shares else {
            // As Slurm shows it: the part of the node it competes under; the root is no part of anything.
            let arena = tree.bank_node(self.sums.arena_of(tree, node));
            let is_root = tree.parent(arena).is_none();
            detail.norm_shares =
                if is_root { 0.0 } else { ratio(shares_of(tree, arena), self.siblings(tree, arena).0) };
            // The account itself is no competitor.
            detail.level_fs = (!tree.is_bank(node)).then_some(f64::INFINITY);
            return;
        };
        let shares = shares as f64 * counted;
        detail.norm_shares = ratio(shares, sibling_shares);
        detail.level_fs = Some(level(shares, sibling_shares, detail.usage, sibling_usage));
    }

    /// Adds the numbers that a formula hands down to a node to `detail`, and returns them.
    pub(super) fn add_formula_numbers(
        &self,
        formula: &impl Formula,
        tree: &Tree,
        node: NodeId,
        detail: &mut NodeDetail,
    ) -> Numbers {
        let numbers = formula::numbers(formula, tree, &self.sums, &self.numbers, node);
        detail.norm_shares = numbers.norm_shares;
        detail.effective_usage = numbers.effective_usage;
        numbers
    }
}

/// Returns the number of shares of a node, 0 with [`Shares::Parent`].
pub(super) fn shares_of(tree: &Tree, node: NodeId) -> f64 {
    if let Shares::Count(count) = tree.shares(node) { count as f64 } else { 0.0 }
}
