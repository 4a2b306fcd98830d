// SPDX-License-Identifier: LGPL-3.0-only
//! The input: a site's banks and associations, in list order.

/// The share of a bank or an association, relative to its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// Number of shares; 0 is valid.
    Count(u64),
    /// Slurm's `fairshare=parent`: the node has no shares of its own. The children of such a bank compete under the
    /// nearest ancestor that has shares of its own.
    Parent,
}

impl Shares {
    /// Returns the number of shares, or 0 for [`Shares::Parent`].
    pub fn count(self) -> u64 {
        if let Shares::Count(count) = self { count } else { 0 }
    }
}

impl Default for Shares {
    fn default() -> Shares {
        Shares::Count(0)
    }
}

/// An inner node of the tree (Slurm: account, PBS: group).
#[derive(Clone, Debug, PartialEq)]
pub struct Bank {
    /// The name, which is unique in the site.
    pub name: String,
    /// The parent bank; `None` for the root.
    pub parent: Option<String>,
    /// The shares of the root are stored but never used.
    pub shares: Shares,
    /// The usage of the bank itself, which its children do not include; usually `None`. In node-seconds,
    /// unless resources have weights.
    pub usage: Option<f64>,
}

/// A leaf of the tree: one user in one bank (Slurm: user association, PBS: entity).
#[derive(Clone, Debug, PartialEq)]
pub struct Association {
    /// Name of the user; a user may be in several banks.
    pub user: String,
    /// Name of the bank.
    pub bank: String,
    /// The shares, relative to the siblings: the other associations and the banks right below the same bank.
    pub shares: Shares,
    /// The usage, 0 or more, in node-seconds unless resources have weights. `None` means that no usage was
    /// recorded. A missing usage counts as 0, except under `pbs`, where it counts as
    /// [`super::Options::pbs_min_usage`].
    pub usage: Option<f64>,
    /// False for an inactive association, which gets no rank. [`super::InactiveUsage`] selects whether sums
    /// include its usage.
    pub active: bool,
}

/// The banks and associations of a site. Their order matters only for ties under
/// [`super::Ties::SlurmProgram`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// All banks.
    pub banks: Vec<Bank>,
    /// All associations.
    pub associations: Vec<Association>,
}
