// SPDX-License-Identifier: LGPL-3.0-only
//! The input document: a site's banks and associations, in list order.

/// What a bank or an association was promised, relative to its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// A number of shares; 0 is legal.
    Count(u64),
    /// Slurm's `fairshare=parent`: it takes no shares of its own. A bank of this kind vanishes and its children
    /// compete under the nearest ancestor that is not of this kind.
    Parent,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares::Count(0)
    }
}

/// An inner node of the tree (Slurm: account, PBS: group).
#[derive(Clone, Debug, PartialEq)]
pub struct Bank {
    /// Unique in the site.
    pub name: String,
    /// The bank above; `None` for the one root.
    pub parent: Option<String>,
    /// The root's shares are kept but never used.
    pub shares: Shares,
    /// Usage of the bank itself, on top of what is below it; usually `None`. Node-seconds unless weighted.
    pub usage: Option<f64>,
}

/// A leaf of the tree: one user in one bank (Slurm: user association, PBS: entity).
#[derive(Clone, Debug, PartialEq)]
pub struct Association {
    /// A user may be in several banks.
    pub user: String,
    /// The bank it is in.
    pub bank: String,
    /// Relative to the siblings in the same bank, sub-banks included.
    pub shares: Shares,
    /// Node-seconds unless weighted; >= 0. `None`, never recorded, counts as 0 except under `pbs`, where such a leaf
    /// has [`super::Options::pbs_min_usage`] and one with a recorded 0 has 0.
    pub usage: Option<f64>,
    /// An inactive association gets no rank ([`super::InactiveUsage`] says what becomes of its usage).
    pub active: bool,
}

/// A whole site. The order of the two lists only decides ties under [`super::Ties::SlurmProgram`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// All banks.
    pub banks: Vec<Bank>,
    /// All associations.
    pub associations: Vec<Association>,
}
