// SPDX-License-Identifier: LGPL-3.0-only
//! flux-accounting's SQLite database, and the documents that stand in for it.
//!
//! A [`Database`] gives [`Snapshot`]s: one transaction, in which everything is read and, if asked for, the fair-shares
//! are written. A snapshot that is dropped leaves the file as it was. SQL lives nowhere else.
//!
//! The schema changed 38 times so far; `schema.rs` says which columns are needed and what stands in for newer ones.

mod error;
pub mod formats;
mod policy_data;
mod schema;
mod tree;
mod values;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

pub use error::{Reason, StoreError};
pub use policy_data::{
    AssociationRecord, BankRecord, ConfigRecord, FactorRecord, PolicyData, ProjectRecord, QueueRecord,
};
pub use tree::{StoredAssociation, StoredTree, UsageBin};

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
    connection: Connection,
}

/// One transaction. Everything read through it belongs to one moment; [`Snapshot::write_fairshare`] ends it with a
/// commit, dropping it with a rollback.
#[derive(Debug)]
pub struct Snapshot<'a> {
    path: &'a Path,
    wait: Duration,
    transaction: Transaction<'a>,
}

impl Database {
    /// Opens an existing database; never creates one. Locks held by others are waited for up to `wait`.
    pub fn open(path: &Path, access: Access, wait: Duration) -> Result<Database, StoreError> {
        probe(path)?;
        let fail = |error: rusqlite::Error| StoreError::sqlite(path, wait, &error);
        // A reader may have to roll back a write that was cut off, so it asks for write access too; SQLite falls back to
        // read-only where the system refuses, and query_only keeps a reader from changing anything itself.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
        connection.busy_timeout(wait).map_err(fail)?;
        if access == Access::Write && connection.is_readonly("main").map_err(fail)? {
            return Err(StoreError::new(path, Reason::ReadOnly("the file can't be written")));
        }
        // An update touches most pages of the table: kept in memory (up to 512 MB) each is read once and written once.
        connection.pragma_update(None, "cache_size", -524_288).map_err(fail)?;
        connection.pragma_update(None, "query_only", access == Access::Read).map_err(fail)?;
        Ok(Database { path: path.to_owned(), access, wait, connection })
    }

    /// Starts the one transaction in which all is read and written.
    pub fn snapshot(&mut self) -> Result<Snapshot<'_>, StoreError> {
        let behavior = match self.access {
            Access::Read => TransactionBehavior::Deferred,
            Access::Write => TransactionBehavior::Immediate,
        };
        let (path, wait) = (self.path.as_path(), self.wait);
        let transaction = self
            .connection
            .transaction_with_behavior(behavior)
            .map_err(|error| StoreError::sqlite(path, wait, &error))?;
        Ok(Snapshot { path, wait, transaction })
    }
}

impl Snapshot<'_> {
    fn fail(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::sqlite(self.path, self.wait, error)
    }

    fn error(&self, reason: Reason) -> StoreError {
        StoreError::new(self.path, reason)
    }

    /// The number in `PRAGMA user_version`; 0 before flux-accounting 0.20.
    pub fn schema_version(&self) -> Result<i64, StoreError> {
        self.transaction
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| self.fail(&error))
    }
}

/// True for a file that starts as SQLite databases do.
pub(crate) fn looks_like_database(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// What can be said before SQLite sees the file. SQLite takes an empty file, or one cut off within its first page, for a
/// new database without tables.
fn probe(path: &Path) -> Result<(), StoreError> {
    let fail = |reason| Err(StoreError::new(path, reason));
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return fail(Reason::Missing),
        Err(error) => return fail(Reason::Unreadable(error.to_string())),
    };
    let mut head = Vec::with_capacity(100);
    if let Err(error) = file.by_ref().take(100).read_to_end(&mut head) {
        return fail(Reason::Unreadable(error.to_string()));
    }
    if !looks_like_database(&head) {
        return fail(Reason::NotADatabase);
    }
    let found = match file.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) => return fail(Reason::Unreadable(error.to_string())),
    };
    // While another process's journal or log lies beside the file its size proves nothing.
    let beside = ["-journal", "-wal"].iter().any(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        std::fs::metadata(name).is_ok_and(|metadata| metadata.len() > 0)
    });
    let expected = expected_size(&head).unwrap_or(512);
    if found < expected && !beside {
        return fail(Reason::Truncated { expected, found });
    }
    Ok(())
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
