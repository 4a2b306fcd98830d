// SPDX-License-Identifier: LGPL-3.0-only
//! Values that the source system of a document had computed, for the comparison with our values.

/// The node of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// A bank, by its index in the builder's list.
    Bank(usize),
    /// An association, by its index in the builder's list.
    Association(usize),
}

/// The kind of a value. `Display` writes the name in Slurm or PBS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
pub enum Quantity {
    /// Slurm's FairShare, with six decimals.
    FairShare,
    /// Slurm's LevelFS, with six decimals. Slurm computed it from usages whose decimals are not in the document.
    #[strum(serialize = "LevelFS")]
    LevelFs,
    /// PBS's percentage of the tree, as a fraction from 0 to 1.
    #[strum(serialize = "Percentage")]
    TreePercentage,
    /// PBS's `fairshare_tree_usage`, with six decimals.
    #[strum(serialize = "fairshare_tree_usage")]
    TreeUsage,
    /// PBS's usage of a group, a whole number.
    #[strum(serialize = "usage of groups")]
    GroupUsage,
}

/// A value of the source system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The node of the value.
    pub node: Claimant,
    /// The kind of the value.
    pub quantity: Quantity,
    /// The value as printed.
    pub value: f64,
    /// Half a unit of the last printed digit.
    pub half_unit: f64,
}
