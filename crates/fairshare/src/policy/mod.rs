// SPDX-License-Identifier: LGPL-3.0-only
//! The ranking rules behind one enum.

pub(super) mod classic;
pub(super) mod depth_oblivious;
pub(super) mod fair_tree;
pub(super) mod pbs;
pub(super) mod weighted_walk;

use std::fmt;
use std::str::FromStr;

/// A rule that turns shares and usages into fair-shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// flux-accounting: visit the tree by weight, rank / N.
    #[default]
    WeightedWalk,
    /// Slurm's Fair Tree: the same idea, exact ties.
    FairTree,
    /// Slurm before Fair Tree: 2^-(effective usage / norm shares).
    Classic,
    /// Slurm's variant of classic for deep and uneven trees.
    DepthOblivious,
    /// OpenPBS's `fairshare_factor`.
    Pbs,
}

impl Policy {
    /// Every policy, the default first.
    pub const ALL: [Policy; 5] =
        [Policy::WeightedWalk, Policy::FairTree, Policy::Classic, Policy::DepthOblivious, Policy::Pbs];

    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            Policy::WeightedWalk => "weighted-walk",
            Policy::FairTree => "fair-tree",
            Policy::Classic => "classic",
            Policy::DepthOblivious => "depth-oblivious",
            Policy::Pbs => "pbs",
        }
    }

    /// True where the place in a walk makes the fair-share (rank / N), false where a formula does.
    pub fn is_rank(self) -> bool {
        matches!(self, Policy::WeightedWalk | Policy::FairTree)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePolicyError(String);

impl fmt::Display for ParsePolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown policy \"{}\"; known are", self.0)?;
        for (index, policy) in Policy::ALL.iter().enumerate() {
            write!(f, "{} {policy}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for ParsePolicyError {}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Policy::ALL
            .into_iter()
            .find(|policy| policy.name() == text)
            .ok_or_else(|| ParsePolicyError(text.to_owned()))
    }
}
