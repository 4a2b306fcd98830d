// SPDX-License-Identifier: LGPL-3.0-only
//! What a policy makes of a tree: the rank and fair-share of each node, and the numbers they came from.
#![forbid(unsafe_code)]

use std::fmt;

use super::{NodeId, Options, Policy, Shares, Tree};

/// The outcome of one [`Tree::rank`]. Valid for that tree until its usages or shares change; details are computed
/// when asked for.
#[derive(Clone, Debug, Default)]
pub struct Ranking {}

/// Every number of one node. What a policy does not use is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeDetail {
    /// As given.
    pub shares: Shares,
    /// Rank policies and `pbs`: the part of the siblings' shares. `classic`, `depth-oblivious`: the product of those
    /// parts from the root down. The root has 1.
    pub norm_shares: f64,
    /// Own usage and all usage below (`pbs`: with the minimum usage of that policy).
    pub usage: f64,
    /// `usage` / the root's; 0 where nothing was used.
    pub norm_usage: f64,
    /// Rank policies: the part of the siblings' usage. The others: what the policy's formula makes of it.
    pub effective_usage: f64,
    /// Rank policies: norm shares / effective usage, possibly infinite; `None` for the root.
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
                write!(f, "{node}: policy {policy} can't use shares \"parent\", only Slurm's policies do")
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

    /// As [`Tree::rank`], reusing the memory of an earlier ranking; after an error it holds nothing of use.
    pub fn rank_into(
        &self,
        policy: Policy,
        options: &Options,
        ranking: &mut Ranking,
    ) -> Result<(), RankError> {
        todo!()
    }
}

impl Ranking {
    /// The policy it was made by.
    pub fn policy(&self) -> Policy {
        todo!()
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        todo!()
    }

    /// The number of ranked associations, N.
    pub fn ranked(&self) -> usize {
        todo!()
    }

    /// N for the best; `None` for banks and inactive associations.
    pub fn rank(&self, node: NodeId) -> Option<u32> {
        todo!()
    }

    /// 0 to 1; `None` for what has no rank (formula policies give one to banks too).
    pub fn fairshare(&self, node: NodeId) -> Option<f64> {
        todo!()
    }

    /// Own usage and all usage below.
    pub fn usage(&self, tree: &Tree, node: NodeId) -> f64 {
        todo!()
    }

    /// Every number of a node. `tree` is the tree it was made from.
    pub fn detail(&self, tree: &Tree, node: NodeId) -> NodeDetail {
        todo!()
    }

    /// Ranked associations, the most deserving first; ties by bank and user name.
    pub fn order(&self) -> &[NodeId] {
        todo!()
    }

    /// Every node with its depth, depth-first, the more deserving sibling first (rank policies: as they were visited,
    /// but each bank apart; formula policies: by fair-share).
    pub fn walk(&self, tree: &Tree) -> Vec<(NodeId, usize)> {
        todo!()
    }

    /// Bytes of the ranking, scratch memory included.
    pub fn memory(&self) -> usize {
        todo!()
    }
}
