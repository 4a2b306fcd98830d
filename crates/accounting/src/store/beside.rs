// SPDX-License-Identifier: LGPL-3.0-only
//! What lies beside a database, and whose it is. SQLite trusts it, and does more with it than to read.
//!
//! A journal is played back by whoever opens the database for writing: pages go back to where they were, and in the end the file is
//! removed that the journal names as that of a change to several databases. Whoever wrote the journal chose that file. So it is
//! played back only where it comes from those who could remove files anyway: root and the caller.
//!
//! A journal, a log and its index are given to the owner of the database where root opens them, be it only to look: whatever file
//! lies there under that name, and a journal of anybody's beside a database of root's is root's from then on. So root opens none
//! that belongs to somebody else than the database does. Where somebody else opens a log its files are theirs, and keep out an
//! owner who may not write to them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::{Access, Journal, Reason};

/// What is to be done about a write that was cut off, where somebody else has to.
pub(super) const INTERRUPTED: &str = "an interrupted write must first be rolled back by its owner: run \"flux fairshare show\" as the user to whom the file belongs";

/// Between two looks at a file that others may be about to remove.
const PAUSE: Duration = Duration::from_millis(20);

/// A database's file with its links resolved, for that is beside which SQLite keeps its own.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// To whom the file belongs.
    pub(super) owner: u32,
    /// Who is about to open it.
    pub(super) own: u32,
}

/// How a reader opens a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Able to roll back what was cut off, and to make and take away the files of a log.
    ReadWrite,
    /// SQLite refuses where something would have to be rolled back.
    ReadOnly,
    /// As if nobody else were at it.
    WithoutLog,
}

impl Place {
    /// The way that plays back nothing of a stranger's, and leaves no log behind that is none of the owner's.
    pub(super) fn way(&self, journal: Journal) -> Result<Way, Reason> {
        Ok(match journal {
            Journal::Rollback if self.trusts_owner() && self.has_journal() => Way::ReadWrite,
            Journal::Rollback => Way::ReadOnly,
            Journal::WriteAhead if self.trusts_owner() => Way::ReadWrite,
            Journal::WriteAhead if self.own == 0 => Way::ReadOnly,
            Journal::WriteAhead if !self.has("-wal") => Way::WithoutLog,
            // The index of a log lies there while anybody is at it; a new one would be this user's.
            Journal::WriteAhead if !self.has("-shm") => return Err(Reason::ReadOnly(INTERRUPTED)),
            Journal::WriteAhead => Way::ReadOnly,
        })
    }

    /// Whether it may be opened. What must not be touched may be there for a write that goes on now, so that it goes away is waited
    /// for as a lock is.
    pub(super) fn settle(&self, access: Access, wait: Duration) -> Result<(), Reason> {
        let begun = Instant::now();
        while let Some(reason) = self.refusal(access) {
            let left = wait.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(reason);
            }
            thread::sleep(left.min(PAUSE));
        }
        Ok(())
    }

    fn refusal(&self, access: Access) -> Option<Reason> {
        let is_interrupted = || access == Access::Write && !self.trusts_owner() && self.has_journal();
        self.strangers().or_else(|| is_interrupted().then_some(Reason::ReadOnly(INTERRUPTED)))
    }

    /// A file beside it that this user must not have opened.
    fn strangers(&self) -> Option<Reason> {
        let opened: &[&'static str] =
            if self.own == 0 { &["-journal", "-wal", "-shm"] } else { &["-journal"] };
        opened.iter().find_map(|&suffix| {
            let found = fs::symlink_metadata(self.beside(suffix)).ok()?;
            let user = found.uid();
            // SQLite takes an empty journal for none.
            let is_nothing = suffix == "-journal" && found.is_file() && found.len() == 0;
            let is_known = user == self.owner || self.own != 0 && (user == 0 || user == self.own);
            let is_harmless = is_nothing || found.is_file() && is_known;
            (!is_harmless).then_some(Reason::Beside { suffix, user })
        })
    }

    /// True if SQLite's file of this suffix lies here and something is in it.
    pub(super) fn has(&self, suffix: &str) -> bool {
        fs::metadata(self.beside(suffix)).is_ok_and(|metadata| metadata.len() > 0)
    }

    fn has_journal(&self) -> bool {
        self.has("-journal")
    }

    fn trusts_owner(&self) -> bool {
        self.owner == 0 || self.owner == self.own
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, INTERRUPTED, Journal, Place, Reason, Way};
    use std::fs::{metadata, write};
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    /// The owner of what is made here, who is not root: root can make a file another's.
    fn user_of(path: &std::path::Path) -> Option<u32> {
        let _ = lchown(path, Some(12_345), None);
        // A root that may not is alone, and has no strangers.
        Some(metadata(path).unwrap().uid()).filter(|user| *user != 0)
    }

    #[test]
    fn a_journal_is_played_back_where_nobody_gains_by_it() {
        let room = tempfile::tempdir().unwrap();
        let (path, journal) = (room.path().join("a.db"), room.path().join("a.db-journal"));
        write(&journal, "x").unwrap();
        let Some(user) = user_of(&journal) else { return };
        let (other, interrupted) = (user + 1, Reason::ReadOnly(INTERRUPTED));
        let foreign = Some(Reason::Beside { suffix: "-journal", user });
        // Whose the database is, and who opens it; why it may not be read, or written; how else it is read.
        let rows = [
            (user, user, [None, None], [Way::ReadWrite; 2]),
            (0, user, [None, None], [Way::ReadWrite; 2]),
            (user, 0, [None, Some(interrupted.clone())], [Way::ReadOnly; 2]),
            (other, user, [None, Some(interrupted)], [Way::ReadOnly, Way::WithoutLog]),
            (0, 0, [foreign.clone(), foreign.clone()], [Way::ReadWrite; 2]),
            (other, 0, [foreign.clone(), foreign.clone()], [Way::ReadOnly; 2]),
            (other, other, [foreign.clone(), foreign.clone()], [Way::ReadWrite; 2]),
        ];
        for (owner, own, refusals, ways) in rows {
            let place = Place { path: path.clone(), owner, own };
            let refused = [Access::Read, Access::Write].map(|access| place.refusal(access));
            assert_eq!(refused, refusals, "{place:?}");
            let found = [Journal::Rollback, Journal::WriteAhead].map(|journal| place.way(journal).unwrap());
            assert_eq!(found, ways, "{place:?}");
        }
        // A link is one more way to lay a journal there, whosever it is; what is empty is none.
        std::fs::rename(&journal, room.path().join("elsewhere")).unwrap();
        symlink("elsewhere", &journal).unwrap();
        let _ = lchown(&journal, Some(12_345), None);
        for own in [0, user] {
            assert_eq!(Place { path: path.clone(), owner: user, own }.refusal(Access::Read), foreign);
        }
        std::fs::remove_file(&journal).unwrap();
        write(&journal, "").unwrap();
        assert_eq!(Place { path, owner: 0, own: 0 }.refusal(Access::Write), None);
    }

    #[test]
    fn a_log_is_made_by_who_may_and_taken_as_it_is_by_others() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a.db");
        let way = |journal, owner, own| Place { path: path.clone(), owner, own }.way(journal);
        let of =
            |owner, own| [Journal::Rollback, Journal::WriteAhead].map(|journal| way(journal, owner, own));
        assert_eq!(of(7, 7), [Ok(Way::ReadOnly), Ok(Way::ReadWrite)], "with nothing to roll back");
        assert_eq!(of(7, 0), [Ok(Way::ReadOnly), Ok(Way::ReadOnly)]);
        assert_eq!(of(7, 8), [Ok(Way::ReadOnly), Ok(Way::WithoutLog)]);
        let log = room.path().join("a.db-wal");
        write(&log, "x").unwrap();
        assert_eq!(of(7, 8)[1], Err(Reason::ReadOnly(INTERRUPTED)), "the index would be made anew");
        write(room.path().join("a.db-shm"), "x").unwrap();
        assert_eq!(of(7, 8)[1], Ok(Way::ReadOnly));
        // Root would give it to the owner of the database; others do nothing to it.
        let Some(user) = user_of(&log) else { return };
        let refusal = |owner, own| Place { path: path.clone(), owner, own }.refusal(Access::Read);
        let _ = lchown(room.path().join("a.db-shm"), Some(12_345), None);
        assert_eq!(refusal(user + 1, 0), Some(Reason::Beside { suffix: "-wal", user }));
        assert_eq!([refusal(user, 0), refusal(user + 1, user + 2)], [None, None]);
    }
}
