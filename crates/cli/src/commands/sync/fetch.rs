// SPDX-License-Identifier: LGPL-3.0-only
//! The first step of `flux fairshare sync`: records of ended jobs come into the database.
//!
//! Nobody else can write to the database while it is locked, and Flux may take its time: what fits into memory is fetched
//! before the lock is taken. Only of a first fetch by a large site something is left then.

use std::path::Path;

use crate::outcome::{Failure, failure};
use crate::site::database::Found;
use crate::site::input::Wait;
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use fairshare_accounting::pipeline::fetch::{self, Fetched, Fetching, Listing};
use fairshare_accounting::store::{Access, JobRecord, Snapshot};
use fairshare_client::Flux;

/// Bytes of text that are kept in memory before the database is locked.
const MEMORY: usize = 64 << 20;
/// How many records that can't be had are named.
const NAMED: usize = 10;

/// Where records go.
pub(crate) struct Fetch<'a> {
    pub(crate) found: &'a Found,
    pub(crate) wait: Wait,
    /// Seconds since the epoch.
    pub(crate) now: f64,
}

/// Records in memory, and the rest on its way.
pub(crate) struct Begun<'a> {
    records: Vec<Vec<JobRecord>>,
    /// Jobs whose records had been removed.
    removed: u64,
    fetching: Fetching<'a>,
    /// When Flux was asked.
    asked: f64,
}

/// What came into the database.
pub(crate) struct Stored {
    /// Records that were not there before.
    pub(crate) new: u64,
    /// Jobs that are left out, as their records were removed once.
    removed: u64,
    fetched: Fetched,
    copied: Option<Fetched>,
}

impl Fetch<'_> {
    /// Asks Flux for what is not in the database yet.
    pub(crate) fn begin<'f>(
        &self,
        flux: &'f mut Flux,
        progress: &mut Progress,
    ) -> Result<Begun<'f>, Failure> {
        progress.phase("listing jobs", || 0);
        let newest = self.newest()?;
        let mut left_out = 0;
        let mut listing = Listing::request(flux, newest).map_err(failure)?;
        if !listing.is_empty() {
            let mut database = self.wait.open(self.found, Access::Read)?;
            let snapshot = database.snapshot().map_err(failure)?;
            // It takes a look at all records, which most fetches can do without.
            let mut removed = None;
            let stored = |id: u64, ended: f64| {
                if snapshot.row_of_job(&id.to_string())?.is_some() {
                    return Ok(true);
                }
                let range = match removed.take() {
                    Some(range) => range,
                    None => fetch::removed_range(&snapshot, self.now)?,
                };
                let was_removed = range.contains(&ended);
                removed = Some(range);
                left_out += u64::from(was_removed);
                Ok(was_removed)
            };
            listing.remove_stored(stored).map_err(failure)?;
        }
        progress.phase("fetching", || listing.len() as u64);
        let (removed, asked) = (left_out, self.now);
        let mut begun = Begun { records: Vec::new(), removed, fetching: listing.fetch(flux), asked };
        let mut weight = 0;
        while weight < MEMORY
            && let Some(batch) = begun.next_batch(progress)?
        {
            weight += batch.iter().map(|record| record.r.len() + record.jobspec.len()).sum::<usize>();
            begun.records.push(batch);
        }
        Ok(begun)
    }

    /// From when on Flux is asked.
    fn newest(&self) -> Result<Option<f64>, Failure> {
        let mut database = self.wait.open(self.found, Access::Read)?;
        let snapshot = database.snapshot().map_err(failure)?;
        fetch::newest_complete(&snapshot, self.now).map_err(failure)
    }
}

impl Begun<'_> {
    fn next_batch(&mut self, progress: &mut Progress) -> Result<Option<Vec<JobRecord>>, Failure> {
        let batch = self.fetching.next_batch().map_err(failure)?;
        progress.at(self.fetching.done());
        Ok(batch)
    }

    /// Writes the records into the transaction, and those of the archive if there is one.
    pub(crate) fn store(
        mut self,
        snapshot: &Snapshot<'_>,
        archive: Option<(&Path, Wait)>,
        progress: &mut Progress,
    ) -> Result<Stored, Failure> {
        let (mut new, mut left_out) = (0, self.removed);
        // Before anything comes in that an archive may have too.
        let archive = match archive {
            Some(archive) => Some((archive, fetch::removed_range(snapshot, self.asked).map_err(failure)?)),
            None => None,
        };
        for batch in std::mem::take(&mut self.records) {
            new += snapshot.insert_jobs(&batch).map_err(failure)?;
        }
        while let Some(batch) = self.next_batch(progress)? {
            new += snapshot.insert_jobs(&batch).map_err(failure)?;
        }
        let mut copied = None;
        if let Some(((path, wait), removed)) = archive {
            progress.phase("copying", || 0);
            let mut sink = |mut batch: Vec<JobRecord>| {
                let all = batch.len();
                batch.retain(|record| !removed.contains(&record.t_inactive));
                left_out += (all - batch.len()) as u64;
                new += snapshot.insert_jobs(&batch)?;
                Ok(())
            };
            let read = fetch::read_archive(path, wait.wait, &mut sink, &mut |done, _| progress.at(done));
            copied = Some(read.map_err(failure)?);
        }
        fetch::record_fetch(snapshot, self.asked, new).map_err(failure)?;
        let fetched = self.fetching.fetched().clone();
        Ok(Stored { new, removed: left_out, fetched, copied })
    }
}

impl Stored {
    /// Names the jobs whose records can't be had.
    pub(crate) fn tell(&self, path: &Path, note: &mut dyn FnMut(String)) {
        let all = [Some(&self.fetched), self.copied.as_ref()].into_iter().flatten();
        let unreadable: Vec<_> = all.flat_map(|fetched| &fetched.unreadable).collect();
        for one in unreadable.iter().take(NAMED) {
            note(format!("{}: left out: {one}", path.display()));
        }
        if unreadable.len() > NAMED {
            note(format!("{}: and {} more left out", path.display(), unreadable.len() - NAMED));
        }
    }

    /// In a few words.
    pub(crate) fn summary(&self) -> String {
        let copied = self
            .copied
            .as_ref()
            .map_or(String::new(), |copied| format!(", {} in the archive", count(copied.records, "record")));
        let removed = match self.removed {
            0 => String::new(),
            removed => format!(", {removed} left out as removed"),
        };
        format!("{} fetched{copied}, {} new{removed}", count(self.fetched.records, "record"), self.new)
    }
}
