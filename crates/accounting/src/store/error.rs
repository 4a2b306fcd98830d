// SPDX-License-Identifier: LGPL-3.0-only
//! What can be wrong with a file: one sentence that names the file and the reason.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;
use rusqlite::ffi;

use super::Access;
use super::beside::INTERRUPTED;

/// A file that can't be used, and what became of what was to be changed in it.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It does not exist.
    Missing,
    /// The system does not let this user read it; in its words.
    Denied(String),
    /// The system refuses to open or read it for another reason.
    Unreadable(String),
    /// There is nothing in it.
    Empty,
    /// It has no SQLite header.
    NotADatabase,
    /// Another process holds its lock.
    Locked(Duration),
    /// It is shorter than its own header says.
    Truncated {
        /// Bytes that should be there.
        expected: u64,
        /// Bytes that are.
        found: u64,
    },
    /// SQLite finds its content inconsistent.
    Damaged(String),
    /// It can't be written.
    ReadOnly(&'static str),
    /// It is a link that this user made, who is neither root nor the caller.
    Linked(u32),
    /// A file that SQLite would open with it, and that must not be opened.
    Beside {
        /// What it is called behind the name of the database.
        suffix: &'static str,
        /// Whose it is.
        user: u32,
    },
    /// A table or column is missing.
    Schema(String),
    /// A value can't be what it says.
    Value(String),
    /// A text document does not follow its format.
    Format(String),
    /// Anything else, in SQLite's words.
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

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.reason {
            Reason::Missing => write!(f, "no such file")?,
            Reason::Denied(text) | Reason::Unreadable(text) => write!(f, "can't be read: {text}")?,
            Reason::Empty => write!(f, "an empty file")?,
            Reason::NotADatabase => write!(f, "not an SQLite database")?,
            Reason::Locked(waited) => {
                write!(f, "locked by another process (waited {} s)", waited.as_secs_f64())?;
            }
            Reason::Truncated { expected, found } => write!(f, "truncated: {found} of {expected} bytes")?,
            Reason::Damaged(text) => write!(f, "damaged: {text}")?,
            Reason::ReadOnly(text) => write!(f, "read-only: {text}")?,
            Reason::Linked(user) => {
                write!(f, "it is a link of user {user}, which could lead anywhere; name the file itself")?;
            }
            Reason::Beside { suffix, user } => write!(
                f,
                "the file beside it that ends in {suffix} is user {user}'s, and could do harm to whoever opens it; if it is \
                 to be trusted give it to the owner of the database (chown), else remove it"
            )?,
            Reason::Sqlite(text) | Reason::Schema(text) | Reason::Value(text) | Reason::Format(text) => {
                f.write_str(text)?;
            }
        }
        // What was not even opened needs no such assurance.
        let opened = !matches!(
            self.reason,
            Reason::Missing
                | Reason::Denied(_)
                | Reason::Unreadable(_)
                | Reason::Empty
                | Reason::NotADatabase
                | Reason::Schema(_)
                | Reason::Value(_)
                | Reason::Format(_)
        );
        match self.left {
            Left::Unchanged if opened => f.write_str("; nothing was changed"),
            Left::WholeOrNot if opened => f.write_str("; all of it is stored, or nothing: run it again"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for StoreError {}
