// SPDX-License-Identifier: LGPL-3.0-only
//! The shares of a bank or an association.

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
