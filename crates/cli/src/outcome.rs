// SPDX-License-Identifier: LGPL-3.0-only
//! The outcome of a subcommand, and the exit statuses.

use std::fmt;
use std::io::{self, ErrorKind};

use fairshare_accounting::store::{Fault, StoreError};

pub(crate) const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  the answer is no: the user, bank or job does not exist, or you may not see it
  2  an error; the database is unchanged unless the message says that something is stored";

/// The answer of a subcommand that did not fail: exit status 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
}

/// Why a subcommand failed. The text is shown to the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Message(Fault),
    /// The command worked, and the answer to the user's question is no: exit status 1. The text is the reason.
    #[error("{0}")]
    No(String),
    /// The command failed after it stored all changes.
    #[error("{0}; all changes are stored")]
    Stored(String),
    #[error("can't write the output: {0}")]
    Output(#[from] io::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Message(error.fault())
    }
}

/// The result of a function of the command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

pub(crate) type Outcome = Result<Answer>;

/// Turns an error into a failure with the error's text.
pub(crate) fn failure(error: impl fmt::Display) -> Failure {
    Failure::Message(error.to_string().into())
}

/// Turns a failure into [`Failure::Stored`], because the exit status does not show that the changes are stored. Returns a closed pipe
/// unchanged, because the command treats a closed pipe as a success.
pub(crate) fn mark_stored(failure: impl Into<Failure>) -> Failure {
    match failure.into() {
        Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => Failure::Output(error),
        Failure::Stored(text) => Failure::Stored(text),
        failure => Failure::Stored(failure.to_string()),
    }
}
