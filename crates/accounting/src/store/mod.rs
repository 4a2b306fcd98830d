// SPDX-License-Identifier: LGPL-3.0-only
//! flux-accounting's SQLite database, and the documents of its `export-json`.
//!
//! A [`Database`] provides [`Snapshot`]s. A snapshot is one transaction for all reads and writes. Dropping it leaves
//! the file unchanged. All SQL is in this module.
//!
//! The schema has changed 38 times. `schema.rs` lists the columns that are needed, and substitutes for columns
//! that older schemas lack.

mod bins;
mod budgets;
mod charges;
mod companions;
mod credits;
mod error;
mod jobs;
mod ledger;
mod links;
mod marks;
mod own_tables;
mod pace;
mod policy_data;
mod policy_tree;
mod schema;
mod site_limits;
mod site_policy;
#[cfg(test)]
mod tests;
mod tree;
mod unknown;
mod values;

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, ffi};

pub use bins::{Bins, StoredBin, UsageChanges};
pub use budgets::Deposit;
pub use charges::{NewCharges, ReportedCharges};
use companions::{DatabaseFile, OpenMode};
pub use credits::{Credit, MAX_CREDIT};
use error::StoreResult;
pub use error::{Fault, Left, Reason, StoreError};
pub use jobs::{EndedJob, JobRecord, LATEST, Which, is_time};
pub use ledger::{Account, BankWithUsage, Counted, Ledger, UsageSettings};
pub use marks::{Continuous, CreditedUsage, LastFetchState, Marks};
pub use pace::Pace;
pub use policy_data::{ConfigRecord, PolicyData};
pub use policy_tree::{AHEAD, TreeRecord};
pub use site_limits::{StoredLimit, UserIds};
pub use site_policy::SitePolicy;
pub use tree::{StoredAssociation, StoredTree, UsageBin};
pub use unknown::UnknownColumn;
pub use values::quote_for_shell;

/// flux-accounting's default path of the database.
pub const DEFAULT_PATH: &str = "/var/lib/flux/FluxAccounting.db";

/// The first 16 bytes of an SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The purpose of opening a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only read.
    Read,
    /// Take the write lock at once, so that no other program writes between our reads and writes.
    Write,
}

/// An open accounting database.
#[derive(Debug)]
pub struct Database {
    opened: Opened,
    connection: Connection,
}

/// How a database was opened.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    access: Access,
    wait: Duration,
    journal: Journal,
    unlocked: Option<Stamp>,
}

/// One transaction. All its reads see the database at the same moment. [`Snapshot::commit`] commits the
/// transaction, and dropping the snapshot rolls it back.
#[derive(Debug)]
pub struct Snapshot<'a> {
    opened: &'a Opened,
    transaction: Transaction<'a>,
}

/// Size and modification time of a file that is read without locks. A write to the file changes them.
type Stamp = (u64, Option<SystemTime>);

impl Database {
    /// Opens an existing database and never creates one. Waits up to `wait` for locks of other processes.
    pub fn open(path: &Path, access: Access, wait: Duration) -> StoreResult<Database> {
        Self::open_with_access(path, access, wait).map_err(|error| error.with_access(access))
    }

    fn open_with_access(path: &Path, access: Access, wait: Duration) -> StoreResult<Database> {
        if access == Access::Write
            && let Some(user) = links::find_link_of_other_user(path, rustix::process::geteuid().as_raw())
        {
            return Err(StoreError::new(path, Reason::Linked(user)));
        }
        let (file, journal) = check_file_before_open(path)?;
        file.wait_until_openable(access, wait).map_err(|reason| StoreError::new(path, reason))?;
        let (connection, unlocked) = match access {
            Access::Read => open_read_connection(path, &file, journal, wait)?,
            Access::Write => (connect_to_write(path, &file, wait)?, None),
        };
        Ok(Database { opened: Opened { path: path.to_owned(), access, wait, journal, unlocked }, connection })
    }

    /// Starts the transaction. Writers wait for the write lock.
    pub fn snapshot(&mut self) -> StoreResult<Snapshot<'_>> {
        let behavior = match self.opened.access {
            Access::Read => TransactionBehavior::Deferred,
            Access::Write => TransactionBehavior::Immediate,
        };
        let (opened, transaction) = (&self.opened, self.connection.transaction_with_behavior(behavior));
        let transaction = transaction.map_err(|error| opened.sqlite_error(&error))?;
        Ok(Snapshot { opened, transaction })
    }
}

impl Opened {
    fn sqlite_error(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(&self.path, self.wait, error).with_access(self.access)
    }
}

impl Snapshot<'_> {
    fn sqlite_error(&self, error: &rusqlite::Error) -> StoreError {
        self.opened.sqlite_error(error)
    }

    /// Runs SQL statements. An error of SQLite becomes an error about this database.
    fn run_sql<T>(&self, statements: impl FnOnce() -> rusqlite::Result<T>) -> StoreResult<T> {
        statements().map_err(|error| self.sqlite_error(&error))
    }

    fn error(&self, reason: Reason) -> StoreError {
        let reason = match reason {
            // The remedy may contain an SQL command with a placeholder for the path of the database.
            Reason::Value(Fault { problem, remedy: Some(remedy) }) => {
                let path = quote_for_shell(&self.path().display().to_string());
                let remedy = remedy.replace("`sqlite3 DATABASE ", &format!("`sqlite3 {path} "));
                Reason::Value(Fault { problem, remedy: Some(remedy) })
            }
            reason => reason,
        };
        StoreError::new(self.path(), reason).with_access(self.opened.access)
    }

    /// Returns an error if another program wrote to the database while it was read without locks.
    fn check_database_unchanged(&self) -> StoreResult<()> {
        let Some(before) = self.opened.unlocked else { return Ok(()) };
        if read_stamp(self.path()).is_ok_and(|now| now == before) {
            return Ok(());
        }
        let text = "another process wrote to the database during the read, and a lock needs write \
                    permission for the directory; try again";
        Err(self.error(Reason::Unreadable(text.to_owned())))
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    /// Ends the transaction and stores all its writes, or none of them after an error. If a write-ahead log could not
    /// be flushed to disk, the outcome is unknown; [`StoreError::left`] has the outcome.
    pub fn commit(self) -> StoreResult<()> {
        let opened = self.opened;
        self.transaction.commit().map_err(|error| {
            let failed = opened.sqlite_error(&error);
            match (opened.journal, failed.left) {
                (Journal::WriteAhead, Left::Unchanged) => StoreError { left: Left::WholeOrNot, ..failed },
                _ => failed,
            }
        })
    }

    /// Returns `PRAGMA user_version`, which is 0 before flux-accounting 0.20.
    pub fn schema_version(&self) -> StoreResult<i64> {
        self.run_sql(|| self.transaction.query_row("PRAGMA user_version", [], |row| row.get(0)))
    }
}

/// Opens a connection for a reader. Also returns the [`Stamp`] of the file if the connection reads without locks.
///
/// A reader may have to roll back an interrupted write, so the connection has write access if that is safe. SQLite
/// falls back to read-only if the system denies it, and `query_only` prevents all other writes.
fn open_read_connection(
    path: &Path,
    file: &DatabaseFile,
    journal: Journal,
    wait: Duration,
) -> StoreResult<(Connection, Option<Stamp>)> {
    let flags = match file.open_mode(journal).map_err(|reason| StoreError::new(path, reason))? {
        OpenMode::WithoutLog => return connect_without_log(path, file, wait),
        OpenMode::ReadWrite => OpenFlags::SQLITE_OPEN_READ_WRITE,
        OpenMode::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    match connect(&file.path, flags, Access::Read, wait) {
        Ok(connection) => Ok((connection, None)),
        Err(error) if journal == Journal::WriteAhead && needs_write_ahead_log(&error) => {
            connect_without_log(path, file, wait)
        }
        Err(error) => Err(StoreError::from_sqlite(path, wait, &error)),
    }
}

fn connect_to_write(path: &Path, file: &DatabaseFile, wait: Duration) -> StoreResult<Connection> {
    let connection = connect(&file.path, OpenFlags::SQLITE_OPEN_READ_WRITE, Access::Write, wait)
        .map_err(|error| StoreError::from_sqlite(path, wait, &error))?;
    if connection.is_readonly("main").unwrap_or(false) {
        return Err(StoreError::new(path, Reason::ReadOnly("the file can't be written")));
    }
    Ok(connection)
}

/// Opens and configures a connection. Returns an error if the file can't be read.
fn connect(path: &Path, flags: OpenFlags, access: Access, wait: Duration) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(wait)?;
    // An update modifies most pages of a table. A cache of 512 MB avoids reading or writing a page twice.
    connection.pragma_update(None, "cache_size", -524_288)?;
    connection.pragma_update(None, "query_only", access == Access::Read)?;
    if access == Access::Read {
        connection.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
    }
    Ok(connection)
}

/// Returns true if SQLite failed because the user may not create the files of a write-ahead log.
fn needs_write_ahead_log(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        matches!(error.code, ErrorCode::CannotOpen | ErrorCode::ReadOnly)
            && error.extended_code != ffi::SQLITE_READONLY_ROLLBACK
    })
}

/// Opens a database in WAL mode (flux-accounting's default) for users that may not or should not create files next
/// to the database. SQLite reads such a database only as immutable, which is valid only while no log exists.
/// Therefore the [`Stamp`] of the file is compared again after reading.
fn connect_without_log(
    path: &Path,
    file: &DatabaseFile,
    wait: Duration,
) -> StoreResult<(Connection, Option<Stamp>)> {
    let unreadable_error = |text: String| StoreError::new(path, Reason::Unreadable(text));
    let stamp = read_stamp(&file.path).map_err(|error| unreadable_error(error.to_string()))?;
    if file.has_companion("-wal") {
        return Err(unreadable_error(
            "the database is in WAL mode, so reading it needs write permission for its directory".to_owned(),
        ));
    }
    // In a URI, two slashes after `file:` would begin a host name. A canonical path begins with one slash.
    let mut uri = "file:".to_owned();
    for byte in file.path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(*byte))
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = connect(Path::new(&uri), flags, Access::Read, wait)
        .map_err(|error| StoreError::from_sqlite(path, wait, &error))?;
    Ok((connection, Some(stamp)))
}

fn read_stamp(path: &Path) -> std::io::Result<Stamp> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.len(), metadata.modified().ok()))
}

/// Returns true if `head` is the start of an SQLite database.
pub fn looks_like_database(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// The journal mode in the header of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    Rollback,
    WriteAhead,
}

/// Checks a file before SQLite opens it, because SQLite treats an empty file, or one that ends within its first page,
/// as a new database without tables.
fn check_file_before_open(path: &Path) -> StoreResult<(DatabaseFile, Journal)> {
    let fail = |reason| Err(StoreError::new(path, reason));
    // A path that does not exist or has no canonical form (a pipe) causes an error below.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut file = File::open(&real).map_err(|error| StoreError::system(path, &error))?;
    let mut head = Vec::with_capacity(100);
    if let Err(error) = file.by_ref().take(100).read_to_end(&mut head) {
        return fail(Reason::Unreadable(error.to_string()));
    }
    if head.is_empty() {
        return fail(Reason::Empty);
    }
    if !looks_like_database(&head) {
        return fail(Reason::NotADatabase);
    }
    let metadata = match file.metadata() {
        Ok(metadata) => metadata,
        Err(error) => return fail(Reason::Unreadable(error.to_string())),
    };
    let database =
        DatabaseFile { path: real, owner: metadata.uid(), own: rustix::process::geteuid().as_raw() };
    // While a journal or a write-ahead log exists, the file may be shorter than its header states.
    let has_companion = ["-journal", "-wal"].iter().any(|suffix| database.has_companion(suffix));
    let (expected, found) = (expected_size(&head).unwrap_or(512), metadata.len());
    if found < expected && !has_companion {
        return fail(Reason::Truncated { expected, found });
    }
    Ok((database, if head.get(19) == Some(&2) { Journal::WriteAhead } else { Journal::Rollback }))
}

/// Returns the file size according to the header, page size times page count, or one page if the count is not
/// current.
fn expected_size(head: &[u8]) -> Option<u64> {
    let read_word =
        |at: usize| head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    let page = match u16::from_be_bytes(head.get(16..18)?.try_into().ok()?) {
        1 => 65536,
        size => u64::from(size),
    };
    let current = read_word(24)? == read_word(92)?;
    Some(page * if current { u64::from(read_word(28)?) } else { 1 })
}
