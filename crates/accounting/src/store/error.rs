// SPDX-License-Identifier: LGPL-3.0-only
//! What can be wrong with a file: one sentence that names the file and the reason.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;
use rusqlite::ffi;

use super::Access;
use super::beside::INTERRUPTED;

/// A file that can't be used, and what became of what was to be changed in it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {reason}{}", outcome(.reason, *.left))]
pub struct StoreError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: Reason,
    /// How it is left: where it was to be changed the text says so.
    pub left: Left,
}

/// How an error leaves a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// As it was, and nobody asked for anything else.
    Alone,
    /// As it was, though it was to be changed.
    Unchanged,
    /// With all that was to be changed, or with nothing of it. SQLite appends a commit to a write-ahead log; where the system fails to
    /// say that it is on the disk, whoever opens the database next may find it there.
    WholeOrNot,
}

/// Why a file can't be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// It does not exist.
    #[error("no such file")]
    Missing,
    /// The system does not let this user read it; in its words.
    #[error("can't be read: {0}")]
    Denied(String),
    /// The system refuses to open or read it for another reason.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// There is nothing in it.
    #[error("an empty file")]
    Empty,
    /// It has no SQLite header.
    #[error("not an SQLite database")]
    NotADatabase,
    /// Another process holds its lock.
    #[error("locked by another process (waited {} s)", .0.as_secs_f64())]
    Locked(Duration),
    /// It is shorter than its own header says.
    #[error("truncated: {found} of {expected} bytes")]
    Truncated {
        /// Bytes that should be there.
        expected: u64,
        /// Bytes that are.
        found: u64,
    },
    /// SQLite finds its content inconsistent.
    #[error("damaged: {0}")]
    Damaged(String),
    /// It can't be written.
    #[error("read-only: {0}")]
    ReadOnly(&'static str),
    /// It is a link that this user made, who is neither root nor the caller.
    #[error("it is a link of user {0}, which could lead anywhere; name the file itself")]
    Linked(u32),
    /// A file that SQLite would open with it, and that must not be opened.
    #[error(
        "the file beside it that ends in {suffix} is user {user}'s, and could do harm to whoever opens it; if it is to be \
         trusted give it to the owner of the database (chown), else remove it"
    )]
    Beside {
        /// What it is called behind the name of the database.
        suffix: &'static str,
        /// Whose it is.
        user: u32,
    },
    /// A table or column is missing.
    #[error("{0}")]
    Schema(String),
    /// A value can't be what it says.
    #[error("{0}")]
    Value(String),
    /// A text document does not follow its format.
    #[error("{0}")]
    Format(String),
    /// Anything else, in SQLite's words.
    #[error("{0}")]
    Sqlite(String),
}

impl StoreError {
    /// Makes an error about the file `path`, in which nothing was changed.
    pub fn new(path: &Path, reason: Reason) -> Self {
        StoreError { path: path.to_owned(), reason, left: Left::Alone }
    }

    /// An error of opening or reading a file.
    pub fn system(path: &Path, error: &std::io::Error) -> Self {
        let reason = match error.kind() {
            ErrorKind::NotFound => Reason::Missing,
            ErrorKind::PermissionDenied => Reason::Denied(error.to_string()),
            _ => Reason::Unreadable(error.to_string()),
        };
        Self::new(path, reason)
    }

    /// The same error of something that was to write, or only to read.
    pub(super) fn of(self, access: Access) -> Self {
        let left = if access == Access::Write { Left::Unchanged } else { Left::Alone };
        StoreError { left, ..self }
    }

    /// The reason behind an SQLite error.
    pub(super) fn sqlite(path: &Path, waited: Duration, error: &rusqlite::Error) -> Self {
        Self::new(path, reason(waited, error))
    }
}

fn reason(waited: Duration, error: &rusqlite::Error) -> Reason {
    let (failure, text) = match error {
        rusqlite::Error::SqliteFailure(failure, text) => (failure, text),
        // Our SQL is no help to whoever has this database.
        rusqlite::Error::SqlInputError { msg, .. } => return Reason::Sqlite(msg.clone()),
        _ => return Reason::Sqlite(error.to_string()),
    };
    let text = text.clone().unwrap_or_else(|| failure.to_string());
    match (failure.code, failure.extended_code) {
        (_, ffi::SQLITE_READONLY_ROLLBACK | ffi::SQLITE_READONLY_RECOVERY) => Reason::ReadOnly(INTERRUPTED),
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Reason::Locked(waited),
        (ErrorCode::NotADatabase, _) => Reason::NotADatabase,
        (ErrorCode::CannotOpen, _) => Reason::Unreadable(format!(
            "{text}; if the database is in WAL mode its directory must be writable"
        )),
        (ErrorCode::DatabaseCorrupt, _) => Reason::Damaged(text),
        (ErrorCode::ReadOnly, _) => Reason::ReadOnly("the file or its directory can't be written"),
        _ => Reason::Sqlite(text),
    }
}

/// Returns how the file was left, as the end of an error text. It is empty if the file was not opened, or not to be changed.
fn outcome(reason: &Reason, left: Left) -> &'static str {
    let opened = !matches!(
        reason,
        Reason::Missing
            | Reason::Denied(_)
            | Reason::Unreadable(_)
            | Reason::Empty
            | Reason::NotADatabase
            | Reason::Schema(_)
            | Reason::Value(_)
            | Reason::Format(_)
    );
    match left {
        Left::Unchanged if opened => "; nothing was changed",
        Left::WholeOrNot if opened => "; all of it is stored, or nothing: run it again",
        _ => "",
    }
}
