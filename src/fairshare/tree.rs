// SPDX-License-Identifier: LGPL-3.0-only
//! The tree: an arena of banks and associations, built and checked once.
#![forbid(unsafe_code)]

use std::fmt;

use super::{Shares, Site};

/// A node of one [`Tree`]; cheap to copy, meaningless in another tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// A dense index, 0 to [`Tree::len`] - 1, for a caller's own columns.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// An inner node (possibly without anything below it).
    Bank,
    /// A leaf: a user in a bank.
    Association,
}

/// Why a site is no tree. Each names the culprit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// No bank without a parent.
    NoRoot,
    /// Two banks without a parent.
    SeveralRoots(String, String),
    /// A bank name appears twice.
    DuplicateBank(String),
    /// A bank's parent is not among the banks.
    MissingParent {
        /// The bank.
        bank: String,
        /// The parent it names.
        parent: String,
    },
    /// A bank is its own ancestor.
    Cycle(String),
    /// An association's bank is not among the banks.
    MissingBank {
        /// The user.
        user: String,
        /// The bank it names.
        bank: String,
    },
    /// A user is twice in one bank.
    DuplicateAssociation {
        /// The user.
        user: String,
        /// The bank.
        bank: String,
    },
    /// A usage that is negative, NaN or infinite; or so many of them that their sum is infinite.
    BadUsage {
        /// The node, as `bank NAME` or `user NAME in bank NAME`.
        node: String,
        /// The usage as text.
        usage: String,
    },
    /// More nodes or longer names in all than 32 bit can number.
    TooLarge,
}

/// A site as a checked tree.
///
/// In the order of node ids associations come before banks, a bank before the banks below it, and siblings of a kind are
/// in name order.
#[derive(Clone, Debug)]
pub struct Tree {}

/// Takes banks and associations one by one, without keeping a copy of each name, and makes a [`Tree`].
///
/// Order is free: a bank may come after its children. Nothing is checked before [`Builder::build`].
#[derive(Clone, Debug, Default)]
pub struct Builder {}

impl Builder {
    /// Adds a bank; see [`super::Bank`].
    pub fn bank(&mut self, name: &str, parent: Option<&str>, shares: Shares, usage: Option<f64>) {
        todo!()
    }

    /// Adds an association; see [`super::Association`].
    pub fn association(&mut self, user: &str, bank: &str, shares: Shares, usage: Option<f64>, active: bool) {
        todo!()
    }

    /// Checks everything and makes the tree. O(n log n).
    pub fn build(self) -> Result<Tree, TreeError> {
        todo!()
    }
}

impl Tree {
    /// The tree of a site, or the reason why it is none.
    pub fn build(site: &Site) -> Result<Tree, TreeError> {
        todo!()
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Never: a tree has a root.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The root bank.
    pub fn root(&self) -> NodeId {
        todo!()
    }

    /// The bank of this name.
    pub fn bank(&self, name: &str) -> Option<NodeId> {
        todo!()
    }

    /// The association of this user in this bank.
    pub fn leaf(&self, user: &str, bank: &str) -> Option<NodeId> {
        todo!()
    }

    /// All associations of a user, in bank order. O(banks).
    pub fn leaves_of<'a>(&'a self, user: &'a str) -> impl Iterator<Item = NodeId> + 'a {
        std::iter::empty()
    }

    /// All banks: each before everything below it.
    pub fn banks(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..0u32).map(NodeId).collect::<Vec<_>>().into_iter()
    }

    /// All associations, active or not, grouped by bank.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..0u32).map(NodeId).collect::<Vec<_>>().into_iter()
    }

    /// Every node with its depth (root: 0), depth-first: a bank, then its associations, then its banks, by name.
    /// [`super::Ranking::walk`] visits in ranked order.
    pub fn walk(&self) -> Vec<(NodeId, usize)> {
        todo!()
    }

    /// As [`Tree::walk`], siblings in the order of the input.
    pub fn walk_list_order(&self) -> Vec<(NodeId, usize)> {
        todo!()
    }

    /// Bank or association.
    pub fn kind(&self, node: NodeId) -> NodeKind {
        todo!()
    }

    /// A bank's name, or an association's user.
    pub fn name(&self, node: NodeId) -> &str {
        todo!()
    }

    /// The bank above; `None` for the root.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        todo!()
    }

    /// The shares as given.
    pub fn shares(&self, node: NodeId) -> Shares {
        todo!()
    }

    /// A node's own usage, if recorded: a leaf's, or what a bank has on top of what is below it.
    pub fn own_usage(&self, node: NodeId) -> Option<f64> {
        todo!()
    }

    /// False for an inactive association.
    pub fn is_active(&self, node: NodeId) -> bool {
        todo!()
    }

    /// Where the node was in the input: the index among the banks, or among the associations.
    pub fn list_index(&self, node: NodeId) -> usize {
        todo!()
    }

    /// Replaces a node's own usage. The next rank sees it; nothing is rebuilt.
    pub fn set_usage(&mut self, node: NodeId, usage: f64) -> Result<(), TreeError> {
        todo!()
    }

    /// Replaces a node's shares.
    pub fn set_shares(&mut self, node: NodeId, shares: Shares) {
        todo!()
    }

    /// Bytes of the tree's own columns, and of the names.
    pub fn memory(&self) -> (usize, usize) {
        todo!()
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::NoRoot => write!(f, "no root: every bank has a parent"),
            TreeError::SeveralRoots(one, other) => {
                write!(f, "several roots: neither bank \"{one}\" nor bank \"{other}\" has a parent")
            }
            TreeError::DuplicateBank(bank) => write!(f, "bank \"{bank}\" appears twice"),
            TreeError::MissingParent { bank, parent } => {
                write!(f, "bank \"{bank}\": its parent \"{parent}\" does not exist")
            }
            TreeError::Cycle(bank) => write!(f, "bank \"{bank}\" is its own ancestor"),
            TreeError::MissingBank { user, bank } => {
                write!(f, "user \"{user}\": bank \"{bank}\" does not exist")
            }
            TreeError::DuplicateAssociation { user, bank } => {
                write!(f, "user \"{user}\" is twice in bank \"{bank}\"")
            }
            TreeError::BadUsage { node, usage } => {
                write!(f, "{node}: usage {usage} is not a finite number >= 0")
            }
            TreeError::TooLarge => {
                write!(f, "the site is too large: more than 4294967294 nodes or bytes of names")
            }
        }
    }
}

impl std::error::Error for TreeError {}
