// SPDX-License-Identifier: LGPL-3.0-only
//! Why a site can't be made a tree, in words for its administrator.

use std::borrow::Cow;
use std::fmt;

/// Returns the first 60 characters of a text of the input, for error messages.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(60) {
        None => text.into(),
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
    }
}

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
                write!(
                    f,
                    "several roots: neither bank \"{}\" nor bank \"{}\" has a parent",
                    shortened(one),
                    shortened(other)
                )
            }
            TreeError::DuplicateBank(bank) => write!(f, "bank \"{}\" appears twice", shortened(bank)),
            TreeError::MissingParent { bank, parent } => {
                write!(f, "bank \"{}\": its parent \"{}\" does not exist", shortened(bank), shortened(parent))
            }
            TreeError::Cycle(bank) => write!(f, "bank \"{}\" is its own ancestor", shortened(bank)),
            TreeError::MissingBank { user, bank } => {
                write!(f, "user \"{}\": bank \"{}\" does not exist", shortened(user), shortened(bank))
            }
            TreeError::DuplicateAssociation { user, bank } => {
                write!(f, "user \"{}\" is twice in bank \"{}\"", shortened(user), shortened(bank))
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
