// SPDX-License-Identifier: LGPL-3.0-only
//! What a policy makes of a tree: the rank and fair-share of each node, and the numbers they came from.

use std::fmt;

use super::formula::{self, Formula, Numbers};
use super::names::bytes;
use super::policy::classic::Classic;
use super::policy::depth_oblivious::DepthOblivious;
use super::policy::fair_tree;
use super::policy::pbs::Pbs;
use super::policy::weighted_walk::{self, WeightedWalk};
use super::sums::{Sums, ratio};
use super::tree::Flags;
use super::walk::Visit;
use super::{NodeId, Options, Policy, Shares, Ties, Tree};

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
    /// Formula policies: per node.
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

/// OpenPBS's names for its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PbsDetail {
    /// The target: product of the parts of the siblings' shares from the root down.
    pub fairshare_perc: f64,
    /// The effective usage; larger is less deserving.
    pub fairshare_tree_usage: f64,
    /// 2^-(tree usage / perc); 0 without shares.
    pub fairshare_factor: f64,
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
        let Ranking { sums, rank, order, factor, numbers, visit, .. } = ranking;
        let initial_usage = if policy == Policy::Pbs { options.pbs_min_usage } else { 0.0 };
        sums.fill(self, options, initial_usage);
        rank.clear();
        rank.resize(self.leaf_count() as usize, 0);
        order.clear();
        order.reserve(rank.len());
        factor.clear();
        numbers.clear();
        match (policy, options.ties) {
            (Policy::WeightedWalk, _) => visit.run(&WeightedWalk, self, sums, rank, order),
            (Policy::FairTree, Ties::Documented) => {
                visit.run(&fair_tree::Documented, self, sums, rank, order)
            }
            (Policy::FairTree, Ties::SlurmProgram) => {
                visit.run(&fair_tree::SlurmProgram, self, sums, rank, order);
            }
            (Policy::Classic, _) => formula::run(&classic(options), self, sums, numbers, factor),
            (Policy::DepthOblivious, _) => {
                formula::run(&depth_oblivious(options), self, sums, numbers, factor)
            }
            (Policy::Pbs, _) => formula::run(&pbs(options), self, sums, numbers, factor),
        }
        if !policy.is_rank() {
            visit.by_value(self, factor, rank, order);
        }
        ranking.policy = policy;
        ranking.options = *options;
        Ok(())
    }

    /// Whether a policy can rank it, whatever the usages.
    pub fn check(&self, policy: Policy) -> Result<(), RankError> {
        if !matches!(policy, Policy::WeightedWalk | Policy::Pbs) {
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

pub(super) fn classic(options: &Options) -> Classic {
    Classic { dampening: options.dampening }
}

pub(super) fn depth_oblivious(options: &Options) -> DepthOblivious {
    DepthOblivious { dampening: options.dampening }
}

pub(super) fn pbs(options: &Options) -> Pbs {
    Pbs { min_usage: options.pbs_min_usage }
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
        if self.policy.is_rank() {
            return self.rank(node).map(|rank| f64::from(rank) / self.ranked() as f64);
        }
        let is_bank = node.index() >= self.rank.len();
        self.factor.get(node.index()).copied().filter(|_| is_bank || self.rank(node).is_some())
    }

    /// Own usage and all usage below (`pbs`: with the minimum usage of that policy).
    pub fn usage(&self, tree: &Tree, node: NodeId) -> f64 {
        if self.policy == Policy::Pbs {
            return pbs(&self.options).usage(tree, &self.sums, node);
        }
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
        match self.policy {
            Policy::WeightedWalk | Policy::FairTree => self.sibling_numbers(tree, node, &mut detail),
            Policy::Classic => self.site_numbers(tree, node, &classic(&self.options), &mut detail),
            Policy::DepthOblivious => {
                self.site_numbers(tree, node, &depth_oblivious(&self.options), &mut detail);
            }
            Policy::Pbs => self.pbs_numbers(tree, node, &mut detail),
        }
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
        if !self.policy.is_rank() {
            return self.factor.get(node.index()).copied();
        }
        let detail = self.detail(tree, node);
        detail.weight.or(detail.level_fs).or(Some(f64::INFINITY))
    }

    /// The shares and the usage that a node competes in, itself included.
    pub(super) fn siblings(&self, tree: &Tree, node: NodeId) -> (f64, f64) {
        let arena = self.sums.arena_of(tree, node) as usize;
        let usage = if self.policy == Policy::FairTree { &self.sums.total } else { &self.sums.usage };
        (self.sums.shares.get(arena).copied().unwrap_or(0.0), usage.get(arena).copied().unwrap_or(0.0))
    }

    /// Bytes of the ranking, scratch memory included.
    pub fn memory(&self) -> usize {
        let columns = [bytes(&self.rank), bytes(&self.order), bytes(&self.factor), bytes(&self.numbers)];
        columns.into_iter().chain([self.sums.memory(), self.visit.memory()]).sum()
    }

    fn sibling_numbers(&self, tree: &Tree, node: NodeId, detail: &mut NodeDetail) {
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
        detail.level_fs = Some(fair_tree::level(shares, sibling_shares, detail.usage, sibling_usage));
        if self.policy == Policy::WeightedWalk {
            detail.weight = Some(weighted_walk::weight(shares, sibling_shares, detail.usage, sibling_usage));
        }
    }

    fn site_numbers(&self, tree: &Tree, node: NodeId, formula: &impl Formula, detail: &mut NodeDetail) {
        let numbers = formula::numbers(formula, tree, &self.sums, &self.numbers, node);
        detail.norm_shares = numbers.norm_shares;
        detail.effective_usage = numbers.effective_usage;
    }

    fn pbs_numbers(&self, tree: &Tree, node: NodeId, detail: &mut NodeDetail) {
        let rule = pbs(&self.options);
        let numbers = formula::numbers(&rule, tree, &self.sums, &self.numbers, node);
        if tree.parent(node).is_some() {
            let above = self.sums.arena_of(tree, node) as usize;
            let has_target = self.numbers.get(above).is_some_and(|above| above.norm_shares != 0.0);
            let counts = has_target && !self.sums.ignores(tree, node);
            let shares = if counts { shares_of(tree, node) } else { 0.0 };
            detail.norm_shares = ratio(shares, self.siblings(tree, node).0);
        }
        detail.effective_usage = numbers.effective_usage;
        detail.pbs = Some(PbsDetail {
            fairshare_perc: numbers.norm_shares,
            fairshare_tree_usage: numbers.effective_usage,
            fairshare_factor: rule.factor(numbers),
        });
    }
}

fn shares_of(tree: &Tree, node: NodeId) -> f64 {
    if let Shares::Count(count) = tree.shares(node) { count as f64 } else { 0.0 }
}
