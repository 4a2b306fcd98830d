// SPDX-License-Identifier: LGPL-3.0-only
//! From when on Flux is asked, so that no job is left out that ended while a clock was behind. Also says which jobs are not
//! fetched again: their records were here once and have been removed.
//!
//! At each time all is fetched that ended before it. What is on record and ended later says nothing: a clock was ahead, and
//! jobs that end now do so before that.

use std::ops::Range;

use super::OVERLAP;
use crate::store::{FetchMarks, JobRecord, Snapshot, StoreError};

/// When all was fetched is written again after so many seconds, also if nothing was new: too early a time only makes the
/// next answer longer.
const STALE: f64 = 600.0;

/// What came into the database.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inserted {
    /// Records that were not there before.
    pub new: u64,
    /// When the oldest of all that were handed over ended.
    pub oldest: Option<f64>,
}

impl Inserted {
    /// Writes more of them.
    pub fn add(&mut self, snapshot: &Snapshot<'_>, records: &[JobRecord]) -> Result<(), StoreError> {
        self.new += snapshot.insert_jobs(records)?;
        let ends = records.iter().map(|record| record.t_inactive).filter(|ended| *ended > 0.0);
        self.oldest = ends.chain(self.oldest).reduce(f64::min);
        Ok(())
    }
}

/// The end of the newest job on record that is a bound: all that ended before it are on record too.
pub fn newest(snapshot: &Snapshot<'_>, now: f64) -> Result<Option<f64>, StoreError> {
    match snapshot.fetch_marks()? {
        // The clock was set back since: what ended meanwhile may have ended at any time.
        Some(marks) if marks.fetched > now => Ok(None),
        Some(marks) => snapshot.newest_inactive(marks.fetched),
        None => Ok(snapshot.newest_inactive(f64::INFINITY)?.filter(|newest| *newest <= now)),
    }
}

/// Jobs that ended in this range had a record that was removed since; they have counted. It begins at the oldest job that
/// ever had a record and ends at the oldest that has one. What ended before the range never had a record, so it is taken:
/// a job that ended while the clock was behind, at a site that is young.
pub fn removed(snapshot: &Snapshot<'_>, now: f64) -> Result<Range<f64>, StoreError> {
    let Some(FetchMarks { fetched, oldest: Some(oldest) }) = snapshot.fetch_marks()? else {
        return Ok(0.0..0.0);
    };
    // Nobody removes records this new; a job that ended within the last minutes may still be on its way.
    let recent = fetched.min(now) - OVERLAP;
    Ok(oldest..snapshot.oldest_inactive()?.map_or(recent, |kept| kept.min(recent)))
}

/// Remembers that all was fetched that had ended `now`. Writes nothing where that would say nothing new: whoever watches the
/// database takes each writing for a change.
pub fn remember(snapshot: &Snapshot<'_>, now: f64, inserted: Inserted) -> Result<(), StoreError> {
    let before = snapshot.fetch_marks()?;
    let known = before.and_then(|marks| marks.oldest);
    // Only once: it takes a look at all records.
    let others = if known.is_none() { snapshot.oldest_inactive()? } else { inserted.oldest };
    let oldest = known.into_iter().chain(others).reduce(f64::min);
    let says_it =
        |marks: FetchMarks| (marks.fetched..marks.fetched + STALE).contains(&now) && marks.oldest == oldest;
    if inserted.new == 0 && before.is_some_and(says_it) {
        return Ok(());
    }
    snapshot.write_fetch_marks(FetchMarks { fetched: now, oldest })
}
