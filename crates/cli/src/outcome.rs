// SPDX-License-Identifier: LGPL-3.0-only
//! The outcome of a subcommand, and the exit statuses.

use std::fmt;
use std::io::{self, ErrorKind};

pub(crate) const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  asked, and the answer is no: there is no such user, bank or job, or it is not for you to see
  2  an error; the message says what, and the database is as it was unless it says that something is stored";

/// What a subcommand that did not fail came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
}

/// Why a subcommand failed; the text is for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Message(String),
    #[error("can't write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) type Outcome = Result<Answer, Failure>;

/// Any error whose text says enough.
pub(crate) fn failure(error: impl fmt::Display) -> Failure {
    Failure::Message(error.to_string())
}

/// A failure after all was stored that was to be: it says so, as an exit status can't. A reader who is gone is none.
pub(crate) fn after_storing(failure: impl Into<Failure>) -> Failure {
    match failure.into() {
        Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => Failure::Output(error),
        failure => Failure::Message(format!("{failure}; what was to be stored is stored")),
    }
}
