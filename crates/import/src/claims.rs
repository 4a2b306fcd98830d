// SPDX-License-Identifier: LGPL-3.0-only
//! Values that the source system of a document had computed. The command compares them with its own values.

/// The bank or association that a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claimant {
    /// A bank, by its index in the builder's list.
    Bank(usize),
    /// An association, by its index in the builder's list.
    Association(usize),
}

/// What a value measures. `Display` writes the name that Slurm or PBS uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
pub enum Quantity {
    /// Slurm's FairShare, with six decimals.
    FairShare,
    /// Slurm's LevelFS, with six decimals. Slurm computed it from usages with more decimals than the document has.
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

/// A value that Slurm or PBS computed for a node and printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The bank or association that the value belongs to.
    pub node: Claimant,
    /// What the value measures.
    pub quantity: Quantity,
    /// The value as it was printed.
    pub value: f64,
    /// Half a unit of the last printed digit, which is the largest rounding error.
    pub half_unit: f64,
}
