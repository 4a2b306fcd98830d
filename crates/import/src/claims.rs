// SPDX-License-Identifier: LGPL-3.0-only
//! What the system that a document comes from had computed itself: claims to compare ours with.

/// Whose value it is: the place in the builder's list of banks, or of associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// A bank, by its list index.
    Bank(usize),
    /// An association, by its list index.
    Association(usize),
}

/// Which value. `Display` writes the name that Slurm or PBS uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
pub enum Quantity {
    /// Slurm's FairShare: six decimals.
    FairShare,
    /// Slurm's LevelFS: six decimals, from usages that the document shows without theirs.
    #[strum(serialize = "LevelFS")]
    LevelFs,
    /// PBS's percentage of the tree, here from 0 to 1.
    #[strum(serialize = "Percentage")]
    TreePercentage,
    /// PBS's `fairshare_tree_usage`: six decimals.
    #[strum(serialize = "fairshare_tree_usage")]
    TreeUsage,
    /// PBS's usage of a group, a whole number.
    #[strum(serialize = "usage of groups")]
    GroupUsage,
}

/// One value that the document holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Whose.
    pub of: Claimant,
    /// Which.
    pub quantity: Quantity,
    /// As printed.
    pub value: f64,
    /// Half a unit of its last printed digit.
    pub half_unit: f64,
}
