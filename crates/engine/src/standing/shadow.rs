// SPDX-License-Identifier: LGPL-3.0-only
//! Another policy on the same live tree, without effect: what it would make of who stands where.

use super::{Index, Standing};
use fairshare::tau::kendall_tau;
use fairshare::{Policy, RankError, Ranking};

/// The live tree ranked by another policy.
#[derive(Clone, Debug)]
pub struct Shadow(Ranking);

/// One association that would stand elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mover {
    /// Which.
    pub association: Index,
    /// Its rank by the policy in force; 1 is first.
    pub rank: u32,
    /// By the other.
    pub shadow_rank: u32,
}

impl Mover {
    fn distance(self) -> u32 {
        self.rank.abs_diff(self.shadow_rank)
    }
}

/// How two rankings of the same tree differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    /// Ranked associations.
    pub associations: usize,
    /// Kendall's tau-b over their ranks; `None` if in either all are equal.
    pub tau: Option<f64>,
    /// How many would have another rank.
    pub moved: usize,
    /// Those that would move most, the greatest first; ties in the order of the tree.
    pub movers: Vec<Mover>,
}

impl Standing {
    /// Ranks the live tree, as of the last refresh, by another policy with the options in force. `None` without a tree.
    pub fn shadow(&self, policy: Policy, now: f64) -> Option<Result<Shadow, RankError>> {
        let (_, options) = self.rule()?;
        let options = self.scaled_options(&options, now);
        Some(self.tree()?.rank(policy, &options).map(Shadow))
    }

    /// What the other policy makes of an association.
    pub fn shadow_fairshare(&self, shadow: &Shadow, association: Index) -> Option<f64> {
        shadow.0.fairshare(self.node(association)?)
    }

    /// Compares it with the policy in force. `most` movers are kept.
    pub fn compare_with(&self, shadow: &Shadow, most: usize) -> Compared {
        let (Some(tree), Some(ranking)) = (self.tree(), self.ranking()) else { return Compared::default() };
        let both = |leaf| Some((leaf, ranking.rank(leaf)?, shadow.0.rank(leaf)?));
        let ranks: Vec<_> = tree.leaves().filter_map(both).collect();
        let pairs: Vec<(u32, u32)> = ranks.iter().map(|(_, rank, other)| (*rank, *other)).collect();
        let mut movers: Vec<Mover> = ranks
            .iter()
            .filter(|(_, rank, other)| rank != other)
            .filter_map(|&(leaf, rank, shadow_rank)| {
                Some(Mover { association: self.association(leaf)?, rank, shadow_rank })
            })
            .collect();
        let moved = movers.len();
        movers.sort_by_key(|mover| std::cmp::Reverse(mover.distance()));
        movers.truncate(most);
        Compared { associations: ranks.len(), tau: kendall_tau(&pairs), moved, movers }
    }
}
