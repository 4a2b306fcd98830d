// SPDX-License-Identifier: LGPL-3.0-only
//! Checks the owners of the files that SQLite opens together with a database: journal, write-ahead log and index of
//! the log. SQLite trusts these files and does more with them than read.
//!
//! A program that opens a database for writing plays its journal back: it restores pages, and removes a file whose
//! name is in the journal (the master journal of a change to several databases). The author of the journal chooses
//! that file. Therefore a journal is played back only if its owner could remove files anyway: root or the caller.
//!
//! If root opens a journal, a log or an index, SQLite gives the file to the owner of the database, also if root only
//! reads. A journal of any user next to a database of root would then belong to root. Therefore root does not open
//! such files if they belong to another user than the database does. If another user opens a log, the new files
//! belong to that user, and may lock out the owner of the database.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::{Access, Journal, Reason};

/// The remedy for an interrupted write that only the owner of the database may roll back.
pub(super) const INTERRUPTED: &str = "its owner must first roll back an interrupted write: run \"flux fairshare show\" as the owner of the file";

/// Time between two checks for a file that another process may be about to remove.
const CHECK_PAUSE: Duration = Duration::from_millis(20);

/// A database file. Its path contains no symbolic links, because SQLite places the journal and the log next to the
/// file itself.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    pub(super) path: PathBuf,
    /// User id of the owner of the file.
    pub(super) owner: u32,
    /// User id of the caller.
    pub(super) own: u32,
}

/// The mode in which a reader opens a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenMode {
    /// Opens the database for writing. SQLite may roll back an interrupted write, and may create or remove the log.
    ReadWrite,
    /// Opens for reading only. SQLite returns an error if a write has to be rolled back.
    ReadOnly,
    /// Opens the database as immutable, without locks and without a write-ahead log.
    WithoutLog,
}

impl DatabaseFile {
    /// Returns the mode in which opening is safe: SQLite plays back no journal of another user, and creates
    /// no log that the owner of the database can't write.
    pub(super) fn open_mode(&self, journal: Journal) -> Result<OpenMode, Reason> {
        Ok(match journal {
            Journal::Rollback if self.trusts_owner() && self.has_journal() => OpenMode::ReadWrite,
            Journal::Rollback => OpenMode::ReadOnly,
            Journal::WriteAhead if self.trusts_owner() => OpenMode::ReadWrite,
            Journal::WriteAhead if self.own == 0 => OpenMode::ReadOnly,
            Journal::WriteAhead if !self.has_companion("-wal") => OpenMode::WithoutLog,
            // While a process uses the write-ahead log, the index file (`-shm`) exists. If it is missing, SQLite
            // would create an index file that belongs to the caller.
            Journal::WriteAhead if !self.has_companion("-shm") => return Err(Reason::ReadOnly(INTERRUPTED)),
            Journal::WriteAhead => OpenMode::ReadOnly,
        })
    }

    /// Waits up to `wait` while a companion file prevents opening the database. A write in progress removes
    /// its companion file at its end. If the file still prevents opening after `wait`, returns the reason.
    pub(super) fn wait_until_openable(&self, access: Access, wait: Duration) -> Result<(), Reason> {
        let begun = Instant::now();
        while let Some(reason) = self.find_access_obstacle(access) {
            let left = wait.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(reason);
            }
            thread::sleep(left.min(CHECK_PAUSE));
        }
        Ok(())
    }

    fn find_access_obstacle(&self, access: Access) -> Option<Reason> {
        let is_interrupted = || access == Access::Write && !self.trusts_owner() && self.has_journal();
        self.find_file_of_other_user().or_else(|| is_interrupted().then_some(Reason::ReadOnly(INTERRUPTED)))
    }

    /// Returns an error for a file of another user that SQLite would open.
    fn find_file_of_other_user(&self) -> Option<Reason> {
        let opened: &[&'static str] =
            if self.own == 0 { &["-journal", "-wal", "-shm"] } else { &["-journal"] };
        opened.iter().find_map(|&suffix| {
            let found = fs::symlink_metadata(self.make_path_with_suffix(suffix)).ok()?;
            let user = found.uid();
            // SQLite ignores an empty journal.
            let is_empty_journal = suffix == "-journal" && found.is_file() && found.len() == 0;
            let has_known_owner = user == self.owner || self.own != 0 && (user == 0 || user == self.own);
            let is_harmless = is_empty_journal || found.is_file() && has_known_owner;
            (!is_harmless).then_some(Reason::Beside { suffix, user })
        })
    }

    /// Returns true if the file with this suffix exists and is not empty.
    pub(super) fn has_companion(&self, suffix: &str) -> bool {
        fs::metadata(self.make_path_with_suffix(suffix)).is_ok_and(|metadata| metadata.len() > 0)
    }

    fn has_journal(&self) -> bool {
        self.has_companion("-journal")
    }

    fn trusts_owner(&self) -> bool {
        self.owner == 0 || self.owner == self.own
    }

    fn make_path_with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, DatabaseFile, INTERRUPTED, Journal, OpenMode, Reason};
    use std::fs::{metadata, write};
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    /// Changes the owner of a file to a user other than root, if possible. Returns the owner, or `None` if it is
    /// root.
    fn change_owner(path: &std::path::Path) -> Option<u32> {
        let _ = lchown(path, Some(12_345), None);
        // If the test can't change the owner, it can't check a file of another user.
        Some(metadata(path).unwrap().uid()).filter(|user| *user != 0)
    }

    #[test]
    fn a_journal_is_played_back_only_if_its_owner_is_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let (path, journal) = (directory.path().join("a.db"), directory.path().join("a.db-journal"));
        write(&journal, "x").unwrap();
        let Some(user) = change_owner(&journal) else { return };
        let (other, interrupted) = (user + 1, Reason::ReadOnly(INTERRUPTED));
        let foreign = Some(Reason::Beside { suffix: "-journal", user });
        // Each row has four parts: the owner of the database; the caller; the reasons why the caller can't read
        // and can't write; and the open mode with a rollback journal and with a write-ahead log.
        let rows = [
            (user, user, [None, None], [OpenMode::ReadWrite; 2]),
            (0, user, [None, None], [OpenMode::ReadWrite; 2]),
            (user, 0, [None, Some(interrupted.clone())], [OpenMode::ReadOnly; 2]),
            (other, user, [None, Some(interrupted)], [OpenMode::ReadOnly, OpenMode::WithoutLog]),
            (0, 0, [foreign.clone(), foreign.clone()], [OpenMode::ReadWrite; 2]),
            (other, 0, [foreign.clone(), foreign.clone()], [OpenMode::ReadOnly; 2]),
            (other, other, [foreign.clone(), foreign.clone()], [OpenMode::ReadWrite; 2]),
        ];
        for (owner, own, refusals, modes) in rows {
            let file = DatabaseFile { path: path.clone(), owner, own };
            let refused = [Access::Read, Access::Write].map(|access| file.find_access_obstacle(access));
            assert_eq!(refused, refusals, "{file:?}");
            let found =
                [Journal::Rollback, Journal::WriteAhead].map(|journal| file.open_mode(journal).unwrap());
            assert_eq!(found, modes, "{file:?}");
        }
        // A symbolic link to a journal must be refused too. An empty journal is ignored.
        std::fs::rename(&journal, directory.path().join("elsewhere")).unwrap();
        symlink("elsewhere", &journal).unwrap();
        let _ = lchown(&journal, Some(12_345), None);
        for own in [0, user] {
            assert_eq!(
                DatabaseFile { path: path.clone(), owner: user, own }.find_access_obstacle(Access::Read),
                foreign
            );
        }
        std::fs::remove_file(&journal).unwrap();
        write(&journal, "").unwrap();
        assert_eq!(DatabaseFile { path, owner: 0, own: 0 }.find_access_obstacle(Access::Write), None);
    }

    #[test]
    fn only_the_owner_creates_a_log_and_others_read_without_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let mode = |journal, owner, own| DatabaseFile { path: path.clone(), owner, own }.open_mode(journal);
        let modes =
            |owner, own| [Journal::Rollback, Journal::WriteAhead].map(|journal| mode(journal, owner, own));
        assert_eq!(modes(7, 7), [Ok(OpenMode::ReadOnly), Ok(OpenMode::ReadWrite)], "no log needs a rollback");
        assert_eq!(modes(7, 0), [Ok(OpenMode::ReadOnly), Ok(OpenMode::ReadOnly)]);
        assert_eq!(modes(7, 8), [Ok(OpenMode::ReadOnly), Ok(OpenMode::WithoutLog)]);
        let log = directory.path().join("a.db-wal");
        write(&log, "x").unwrap();
        assert_eq!(modes(7, 8)[1], Err(Reason::ReadOnly(INTERRUPTED)), "a new index would be needed");
        write(directory.path().join("a.db-shm"), "x").unwrap();
        assert_eq!(modes(7, 8)[1], Ok(OpenMode::ReadOnly));
        // If root opens the log, SQLite gives the log to the owner of the database. If another user opens the log,
        // the owner of the log does not change.
        let Some(user) = change_owner(&log) else { return };
        let obstacle =
            |owner, own| DatabaseFile { path: path.clone(), owner, own }.find_access_obstacle(Access::Read);
        let _ = lchown(directory.path().join("a.db-shm"), Some(12_345), None);
        assert_eq!(obstacle(user + 1, 0), Some(Reason::Beside { suffix: "-wal", user }));
        assert_eq!([obstacle(user, 0), obstacle(user + 1, user + 2)], [None, None]);
    }
}
