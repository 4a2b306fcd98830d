// SPDX-License-Identifier: LGPL-3.0-only
//! Errors in a site's banks and associations, worded for its administrator.

use std::borrow::Cow;

/// Returns the first 60 characters of a text from the input, for error messages.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(60) {
        None => text.into(),
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
    }
}

/// Error in the banks or associations that makes a tree impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There are no banks.
    #[error("there are no banks")]
    NoBanks,
    /// Every bank has a parent.
    #[error("no root: every bank has a parent")]
    NoRoot,
    /// Two banks without a parent.
    #[error("several roots: neither bank \"{}\" nor bank \"{}\" has a parent", shortened(.0), shortened(.1))]
    SeveralRoots(String, String),
    /// A bank name appears twice.
    #[error("bank \"{}\" appears twice", shortened(.0))]
    DuplicateBank(String),
    /// The parent of a bank is not among the banks. The fields are the names of the bank and of the parent.
    #[error("bank \"{}\": its parent \"{}\" does not exist", shortened(.0), shortened(.1))]
    MissingParent(String, String),
    /// A bank is its own ancestor.
    #[error("bank \"{}\" is its own ancestor", shortened(.0))]
    Cycle(String),
    /// The bank of an association is not among the banks. The fields are the names of the user and of the bank.
    #[error("user \"{}\": bank \"{}\" does not exist", shortened(.0), shortened(.1))]
    MissingBank(String, String),
    /// A bank has the same user twice. The fields are the names of the user and of the bank.
    #[error("user \"{}\" is twice in bank \"{}\"", shortened(.0), shortened(.1))]
    DuplicateAssociation(String, String),
    /// A usage that is negative, NaN, infinite, or so large (over 1e298) that a sum could become infinite.
    #[error("{node}: usage {usage} is not a number from 0 to 1e298")]
    BadUsage {
        /// The node, as `bank "NAME"` or `user "NAME" in bank "NAME"`.
        node: String,
        /// The usage as text.
        usage: String,
    },
    /// The number of nodes or the total length of names exceeds 32 bits.
    #[error("the site is too large: more than 4294967294 nodes or bytes of names")]
    TooLarge,
}
