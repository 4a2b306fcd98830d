// SPDX-License-Identifier: LGPL-3.0-only
//! flux-accounting's SQLite database, and the documents that stand in for it.
//!
//! A [`Database`] gives [`Snapshot`]s: one transaction, in which everything is read and, if asked for, the fair-shares
//! are written. A snapshot that is dropped leaves the file as it was. SQL lives nowhere else.
//!
//! The schema changed 38 times so far; `schema.rs` says which columns are needed and what stands in for newer ones.

mod archive;
mod beside;
mod bins;
mod error;
mod history;
mod jobs;
mod ledger;
mod links;
mod marks;
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

pub use archive::ArchivedJob;
use beside::{Place, Way};
pub use bins::{Bins, StoredBin, UsageChanges};
pub use error::{Left, Reason, StoreError};
pub use history::PastJob;
pub use jobs::{EndedJob, JobRecord, LATEST, Which, is_time};
pub use ledger::{Account, Counted, Ledger, LedgerBank, UsageSettings};
pub use marks::{Continuous, FetchMarks, Marks};
pub use pace::Pace;
pub use policy_data::{ConfigRecord, PolicyData};
pub use policy_tree::{AHEAD, TreeRecord};
pub use site_limits::{LimitRecord, StoredLimit};
pub use site_policy::SitePolicy;
pub use tree::{BankRow, StoredAssociation, StoredTree, UsageBin, add_banks};
pub use unknown::UnknownColumn;
pub use values::shell_word;

/// Where flux-accounting keeps its database unless told otherwise.
pub const DEFAULT_PATH: &str = "/var/lib/flux/FluxAccounting.db";

/// The first 16 bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// What a database is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look, change nothing.
    Read,
    /// Take the write lock at once, so that what is written belongs to what was read.
    Write,
}

/// An open accounting database.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    access: Access,
    wait: Duration,
    journal: Journal,
    connection: Connection,
    unlocked: Option<Stamp>,
}

/// One transaction. Everything read through it belongs to one moment; [`Snapshot::commit`] ends it with a
/// commit, dropping it with a rollback.
#[derive(Debug)]
pub struct Snapshot<'a> {
    path: &'a Path,
    access: Access,
    wait: Duration,
    journal: Journal,
    transaction: Transaction<'a>,
    unlocked: Option<Stamp>,
}

/// Size and time of a file that is read without locks: while they stay, so does what is in it.
type Stamp = (u64, Option<SystemTime>);

impl Database {
    /// Opens an existing database; never creates one. Locks held by others are waited for up to `wait`.
    pub fn open(path: &Path, access: Access, wait: Duration) -> Result<Database, StoreError> {
        Self::open_for(path, access, wait).map_err(|error| error.of(access))
    }

    fn open_for(path: &Path, access: Access, wait: Duration) -> Result<Database, StoreError> {
        if access == Access::Write
            && let Some(user) = links::strangers(path, rustix::process::geteuid().as_raw())
        {
            return Err(StoreError::new(path, Reason::Linked(user)));
        }
        let (place, journal) = probe(path)?;
        place.settle(access, wait).map_err(|reason| StoreError::new(path, reason))?;
        let (connection, unlocked) = match access {
            Access::Read => to_read(path, &place, journal, wait)?,
            Access::Write => (to_write(path, &place, wait)?, None),
        };
        Ok(Database { path: path.to_owned(), access, wait, journal, connection, unlocked })
    }

    /// Starts the one transaction in which all is read and written.
    pub fn snapshot(&mut self) -> Result<Snapshot<'_>, StoreError> {
        let behavior = match self.access {
            Access::Read => TransactionBehavior::Deferred,
            Access::Write => TransactionBehavior::Immediate,
        };
        let (path, wait, unlocked, access) = (self.path.as_path(), self.wait, self.unlocked, self.access);
        let journal = self.journal;
        let transaction = self
            .connection
            .transaction_with_behavior(behavior)
            .map_err(|error| StoreError::sqlite(path, wait, &error).of(access))?;
        Ok(Snapshot { path, access, wait, journal, transaction, unlocked })
    }
}

impl Snapshot<'_> {
    fn fail(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::sqlite(self.path, self.wait, error).of(self.access)
    }

    fn error(&self, reason: Reason) -> StoreError {
        let reason = match reason {
            // A statement that puts a value right needs the database's path.
            Reason::Value(text) => {
                let path = shell_word(&self.path.display().to_string());
                Reason::Value(text.replace("`sqlite3 DATABASE ", &format!("`sqlite3 {path} ")))
            }
            reason => reason,
        };
        StoreError::new(self.path, reason).of(self.access)
    }

    /// What was read without locks must still be what is there.
    fn check_unchanged(&self) -> Result<(), StoreError> {
        let Some(before) = self.unlocked else { return Ok(()) };
        if stamp(self.path).is_ok_and(|now| now == before) {
            return Ok(());
        }
        let text =
            "it was written to meanwhile, and only who may write beside it can wait for that; try again";
        Err(self.error(Reason::Unreadable(text.to_owned())))
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        self.path
    }

    /// Ends the transaction and stores all that was written in it: all of it or, on any error, nothing. Only where a write-ahead
    /// log could not be brought to the disk is it not known which; [`StoreError::left`] says so.
    pub fn commit(self) -> Result<(), StoreError> {
        let (path, wait, access, journal) = (self.path, self.wait, self.access, self.journal);
        self.transaction.commit().map_err(|error| {
            let failed = StoreError::sqlite(path, wait, &error).of(access);
            match (journal, failed.left) {
                (Journal::WriteAhead, Left::Unchanged) => StoreError { left: Left::WholeOrNot, ..failed },
                _ => failed,
            }
        })
    }

    /// The number in `PRAGMA user_version`; 0 before flux-accounting 0.20.
    pub fn schema_version(&self) -> Result<i64, StoreError> {
        self.transaction
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| self.fail(&error))
    }
}

/// A connection for a reader, and the stamp of what it reads without locks.
///
/// A reader may have to roll back a write that was cut off, so it asks for write access where it may do that; SQLite falls back to
/// read-only where the system refuses, and query_only keeps a reader from changing anything itself.
fn to_read(
    path: &Path,
    place: &Place,
    journal: Journal,
    wait: Duration,
) -> Result<(Connection, Option<Stamp>), StoreError> {
    let flags = match place.way(journal).map_err(|reason| StoreError::new(path, reason))? {
        Way::WithoutLog => return without_log(path, place, wait),
        Way::ReadWrite => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Way::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    match connect(&place.path, flags, Access::Read, wait) {
        Ok(connection) => Ok((connection, None)),
        Err(error) if journal == Journal::WriteAhead && needs_log(&error) => without_log(path, place, wait),
        Err(error) => Err(StoreError::sqlite(path, wait, &error)),
    }
}

fn to_write(path: &Path, place: &Place, wait: Duration) -> Result<Connection, StoreError> {
    let connection = connect(&place.path, OpenFlags::SQLITE_OPEN_READ_WRITE, Access::Write, wait)
        .map_err(|error| StoreError::sqlite(path, wait, &error))?;
    if connection.is_readonly("main").unwrap_or(false) {
        return Err(StoreError::new(path, Reason::ReadOnly("the file can't be written")));
    }
    Ok(connection)
}

/// A connection set up for what it is to do, which shows that the file can be read.
fn connect(path: &Path, flags: OpenFlags, access: Access, wait: Duration) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(wait)?;
    // An update touches most pages of the table: kept in memory (up to 512 MB) each is read once and written once.
    connection.pragma_update(None, "cache_size", -524_288)?;
    connection.pragma_update(None, "query_only", access == Access::Read)?;
    if access == Access::Read {
        connection.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
    }
    Ok(connection)
}

/// True for what SQLite says where it may not make the files of a write-ahead log.
fn needs_log(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        matches!(error.code, ErrorCode::CannotOpen | ErrorCode::ReadOnly)
            && error.extended_code != ffi::SQLITE_READONLY_ROLLBACK
    })
}

/// A database in WAL mode, which flux-accounting makes, for someone who may not write beside it, or should not. SQLite reads such
/// a one only if told that nobody else is at it; that is so as long as there is no log, and is checked when all was read.
fn without_log(
    path: &Path,
    place: &Place,
    wait: Duration,
) -> Result<(Connection, Option<Stamp>), StoreError> {
    let unreadable = |text: String| StoreError::new(path, Reason::Unreadable(text));
    let stamp = stamp(&place.path).map_err(|error| unreadable(error.to_string()))?;
    if place.has("-wal") {
        return Err(unreadable("it is in WAL mode, and reading that needs a writable directory".to_owned()));
    }
    // A URI must not start with two slashes, which a path without links does not.
    let mut uri = "file:".to_owned();
    for byte in place.path.as_os_str().as_bytes() {
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
        .map_err(|error| StoreError::sqlite(path, wait, &error))?;
    Ok((connection, Some(stamp)))
}

fn stamp(path: &Path) -> std::io::Result<Stamp> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.len(), metadata.modified().ok()))
}

/// True for a file that starts as SQLite databases do.
pub fn looks_like_database(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// How a database keeps writes apart until they are whole, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    Rollback,
    WriteAhead,
}

/// What can be said before SQLite sees the file. SQLite takes an empty file, or one cut off within its first page, for a
/// new database without tables.
fn probe(path: &Path) -> Result<(Place, Journal), StoreError> {
    let fail = |reason| Err(StoreError::new(path, reason));
    // What is not there, and what has no name of its own like a pipe, is told of below.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut file = match File::open(&real) {
        Ok(file) => file,
        Err(error) => return Err(StoreError::system(path, &error)),
    };
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
    let place = Place { path: real, owner: metadata.uid(), own: rustix::process::geteuid().as_raw() };
    // While another process's journal or log lies beside the file its size proves nothing.
    let beside = ["-journal", "-wal"].iter().any(|suffix| place.has(suffix));
    let (expected, found) = (expected_size(&head).unwrap_or(512), metadata.len());
    if found < expected && !beside {
        return fail(Reason::Truncated { expected, found });
    }
    Ok((place, if head.get(19) == Some(&2) { Journal::WriteAhead } else { Journal::Rollback }))
}

/// The size a database's header promises: page size times page count, if the count is current.
fn expected_size(head: &[u8]) -> Option<u64> {
    let word =
        |at: usize| head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    let page = match u16::from_be_bytes(head.get(16..18)?.try_into().ok()?) {
        1 => 65536,
        size => u64::from(size),
    };
    let current = word(24)? == word(92)?;
    Some(page * if current { u64::from(word(28)?) } else { 1 })
}
