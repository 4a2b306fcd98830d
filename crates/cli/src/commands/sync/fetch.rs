// SPDX-License-Identifier: LGPL-3.0-only
//! The first step of `flux fairshare sync`: fetches records of ended jobs into the database.
//!
//! A locked database blocks other writers, and Flux may answer slowly, so records are fetched into memory before the lock is
//! taken. Only the first fetch of a large site exceeds this memory and fetches the remaining records under the lock.

use std::path::Path;

use crate::outcome::{Result, failure};
use crate::site::database::Found;
use crate::site::input::Wait;
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use fairshare_accounting::pipeline::fetch::{self, Fetched, Fetching, Listing};
use fairshare_accounting::store::{Access, JobRecord, Snapshot};
use fairshare_client::Flux;

/// Bytes of text that are kept in memory before the database is locked.
const MEMORY: usize = 64 << 20;
/// The most unreadable records that are named.
const NAMED: usize = 10;

/// The target of a fetch.
pub(crate) struct Fetch<'a> {
    pub(crate) found: &'a Found,
    pub(crate) wait: Wait,
    /// Seconds since the epoch.
    pub(crate) now: f64,
}

/// A fetch after its first phase: the records in memory, and the requests for the remaining records.
pub(crate) struct StartedFetch<'a> {
    records: Vec<Vec<JobRecord>>,
    /// Number of jobs whose records had been removed from the database.
    removed: u64,
    fetching: Fetching<'a>,
    /// Time of the request, in seconds since the epoch.
    asked: f64,
}

/// Result of a fetch.
pub(crate) struct Stored {
    /// Number of new records.
    pub(crate) new: u64,
    /// Number of jobs left out because their records had been removed.
    removed: u64,
    fetched: Fetched,
}

impl Fetch<'_> {
    /// Requests the records that the database lacks, and reads as many as fit into memory.
    pub(crate) fn begin<'f>(&self, flux: &'f mut Flux, progress: &mut Progress) -> Result<StartedFetch<'f>> {
        progress.phase("listing jobs", || 0);
        let newest = self.newest_end()?;
        let mut left_out = 0;
        let mut listing = Listing::request(flux, newest).map_err(failure)?;
        if !listing.is_empty() {
            let mut database = self.wait.open(self.found, Access::Read)?;
            let snapshot = database.snapshot().map_err(failure)?;
            // Computed on demand, because the computation reads all records.
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
        let mut begun = StartedFetch { records: Vec::new(), removed, fetching: listing.fetch(flux), asked };
        let mut weight = 0;
        while weight < MEMORY
            && let Some(batch) = begun.next_batch(progress)?
        {
            weight += batch.iter().map(|record| record.r.len() + record.jobspec.len()).sum::<usize>();
            begun.records.push(batch);
        }
        Ok(begun)
    }

    /// Returns the end time of the newest complete record. Flux is asked for the jobs that ended after this time.
    fn newest_end(&self) -> Result<Option<f64>> {
        let mut database = self.wait.open(self.found, Access::Read)?;
        let snapshot = database.snapshot().map_err(failure)?;
        fetch::newest_complete(&snapshot, self.now).map_err(failure)
    }
}

impl StartedFetch<'_> {
    fn next_batch(&mut self, progress: &mut Progress) -> Result<Option<Vec<JobRecord>>> {
        let batch = self.fetching.next_batch().map_err(failure)?;
        progress.set_done(self.fetching.done());
        Ok(batch)
    }

    /// Writes the records into the transaction.
    pub(crate) fn store(mut self, snapshot: &Snapshot<'_>, progress: &mut Progress) -> Result<Stored> {
        let mut new = 0;
        for batch in std::mem::take(&mut self.records) {
            new += snapshot.insert_jobs(&batch).map_err(failure)?;
        }
        while let Some(batch) = self.next_batch(progress)? {
            new += snapshot.insert_jobs(&batch).map_err(failure)?;
        }
        fetch::record_fetch(snapshot, self.asked, new).map_err(failure)?;
        let fetched = self.fetching.fetched().clone();
        Ok(Stored { new, removed: self.removed, fetched })
    }
}

impl Stored {
    /// Passes messages about unreadable records to `note`.
    pub(crate) fn note_unreadable(&self, path: &Path, note: &mut dyn FnMut(String)) {
        let unreadable = &self.fetched.unreadable;
        for one in unreadable.iter().take(NAMED) {
            note(format!("{}: left out: {one}", path.display()));
        }
        if unreadable.len() > NAMED {
            note(format!("{}: and {} more left out", path.display(), unreadable.len() - NAMED));
        }
    }

    /// Returns a short summary.
    pub(crate) fn summary(&self) -> String {
        let removed = match self.removed {
            0 => String::new(),
            removed => format!(", {removed} left out as removed"),
        };
        format!("{} fetched, {} new{removed}", count(self.fetched.records, "record"), self.new)
    }
}
