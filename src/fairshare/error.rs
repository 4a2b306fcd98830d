// SPDX-License-Identifier: LGPL-3.0-only
//! Why a site can't be made a tree, in words for its administrator.
#![forbid(unsafe_code)]

use std::fmt;

/// Why a site is no tree. Each names the culprit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// No banks at all.
    NoBanks,
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
    /// A usage that is negative, NaN, infinite, or so large (over 1e298) that a sum could become infinite.
    BadUsage {
        /// The node, as `bank NAME` or `user NAME in bank NAME`.
        node: String,
        /// The usage as text.
        usage: String,
    },
    /// More nodes or longer names in all than 32 bit can number.
    TooLarge,
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::NoBanks => write!(f, "there are no banks"),
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
                write!(f, "{node}: usage {usage} is not a number from 0 to 1e298")
            }
            TreeError::TooLarge => {
                write!(f, "the site is too large: more than 4294967294 nodes or bytes of names")
            }
        }
    }
}

impl std::error::Error for TreeError {}
