// SPDX-License-Identifier: LGPL-3.0-only
//! Errors of reading and writing files. Each names the file and the reason in one sentence.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;
use rusqlite::ffi;

use super::Access;
use super::companions::INTERRUPTED;

/// The result of a function of the store.
pub(super) type StoreResult<T> = Result<T, StoreError>;

/// A failed access to a file, and the state of the file after it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {reason}{}", describe_outcome(.reason, *.left))]
pub struct StoreError {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason of the failure.
    pub reason: Reason,
    /// State of the file. The error text includes it if the failed access was a write.
    pub left: Left,
}

/// State of a file after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The failed access was a read, so the file is unchanged.
    Alone,
    /// The failed access was a write, and the file is unchanged.
    Unchanged,
    /// The file has all changes or none. SQLite appends a commit to a write-ahead log. If the system fails to
    /// confirm that the log is on disk, the next program that opens the database may find the commit.
    WholeOrNot,
}

/// Reason why a file can't be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// The file does not exist.
    #[error("no such file")]
    Missing,
    /// The user has no permission to read the file. The value is the system's error text.
    #[error("can't be read: {0}")]
    Denied(String),
    /// The system can't open or read the file for another reason.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// The file is empty.
    #[error("an empty file")]
    Empty,
    /// The file has no SQLite header.
    #[error("not an SQLite database")]
    NotADatabase,
    /// Another process holds the lock of the database.
    #[error("locked by another process (waited {} s)", .0.as_secs_f64())]
    Locked(Duration),
    /// The file is shorter than its header states.
    #[error("truncated: {found} of {expected} bytes")]
    Truncated {
        /// Size according to the header, in bytes.
        expected: u64,
        /// Size of the file, in bytes.
        found: u64,
    },
    /// SQLite finds the content of the file inconsistent. The value is SQLite's error text.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The file can't be written.
    #[error("read-only: {0}")]
    ReadOnly(&'static str),
    /// The path is a link of a user who is neither root nor the caller.
    #[error(
        "it is a symbolic link of user {0}, which is not safe to follow; specify the path of the file itself"
    )]
    Linked(u32),
    /// Another user owns a file that SQLite would open together with the database.
    #[error(
        "user {user} owns the companion file that ends in {suffix}, which is not safe to open; if you trust it, change its \
         owner to that of the database (chown), otherwise remove it"
    )]
    Beside {
        /// Suffix of the file name after the name of the database.
        suffix: &'static str,
        /// User id of the owner.
        user: u32,
    },
    /// A table or column is missing.
    #[error("{0}")]
    Schema(Fault),
    /// A value is invalid.
    #[error("{0}")]
    Value(Fault),
    /// A text document has an invalid format.
    #[error("{0}")]
    Format(String),
    /// Another error. The value is SQLite's error text.
    #[error("{0}")]
    Sqlite(String),
}

/// A fault of the database, and the clause that names the command to correct it, if there is one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{problem}{}", .remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}")))]
pub struct Fault {
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: Option<String>,
}

impl<T: Into<String>> From<T> for Fault {
    fn from(problem: T) -> Fault {
        Fault { problem: problem.into(), remedy: None }
    }
}

impl StoreError {
    /// Returns the problem with the path of the file, and the remedy if the error names one.
    pub fn fault(&self) -> Fault {
        let (Reason::Schema(fault) | Reason::Value(fault)) = &self.reason else {
            return self.to_string().into();
        };
        Fault { problem: format!("{}: {}", self.path.display(), fault.problem), ..fault.clone() }
    }

    /// Makes an error about the file `path`, which is unchanged.
    pub fn new(path: &Path, reason: Reason) -> Self {
        StoreError { path: path.to_owned(), reason, left: Left::Alone }
    }

    /// Makes an error from an I/O error of opening or reading a file.
    pub fn system(path: &Path, error: &std::io::Error) -> Self {
        let reason = match error.kind() {
            ErrorKind::NotFound => Reason::Missing,
            ErrorKind::PermissionDenied => Reason::Denied(error.to_string()),
            _ => Reason::Unreadable(error.to_string()),
        };
        Self::new(path, reason)
    }

    /// Notes in the error whether the database was opened for writing.
    pub(super) fn with_access(self, access: Access) -> Self {
        let left = if access == Access::Write { Left::Unchanged } else { Left::Alone };
        StoreError { left, ..self }
    }

    /// Makes an error from an SQLite error.
    pub(super) fn from_sqlite(path: &Path, waited: Duration, error: &rusqlite::Error) -> Self {
        Self::new(path, find_reason(waited, error))
    }
}

fn find_reason(waited: Duration, error: &rusqlite::Error) -> Reason {
    let (failure, text) = match error {
        rusqlite::Error::SqliteFailure(failure, text) => (failure, text),
        // Users can't change our SQL text, so the error has only SQLite's message.
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

/// Returns the last part of an error message, about whether the database was changed. Returns an empty text if the
/// database was not opened or was only read.
fn describe_outcome(reason: &Reason, left: Left) -> &'static str {
    let was_opened = !matches!(
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
        Left::Unchanged if was_opened => "; nothing was changed",
        Left::WholeOrNot if was_opened => "; either all or nothing was stored: run the command again",
        _ => "",
    }
}
