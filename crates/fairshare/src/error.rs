// SPDX-License-Identifier: LGPL-3.0-only
//! Errors in a site's banks and associations, worded for its administrator.

use std::borrow::Cow;
use std::fmt;

/// Returns the first 60 characters of a text from the input, for error messages.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(60) {
        None => text.into(),
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
    }
}

/// Error in the banks or associations that makes a tree impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// There are no banks.
    NoBanks,
    /// Every bank has a parent.
    NoRoot,
    /// Two banks without a parent.
    SeveralRoots(String, String),
    /// A bank name appears twice.
    DuplicateBank(String),
    /// A bank's parent is not among the banks.
    MissingParent {
        /// Name of the bank.
        bank: String,
        /// Name of the missing parent.
        parent: String,
    },
    /// A bank is its own ancestor.
    Cycle(String),
    /// An association's bank is not among the banks.
    MissingBank {
        /// Name of the user.
        user: String,
        /// Name of the missing bank.
        bank: String,
    },
    /// A bank has the same user twice.
    DuplicateAssociation {
        /// Name of the user.
        user: String,
        /// Name of the bank.
        bank: String,
    },
    /// A usage that is negative, NaN, infinite, or so large (over 1e298) that a sum could become infinite.
    BadUsage {
        /// The node, as `bank "NAME"` or `user "NAME" in bank "NAME"`.
        node: String,
        /// The usage as text.
        usage: String,
    },
    /// The number of nodes or the total length of names exceeds 32 bits.
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
