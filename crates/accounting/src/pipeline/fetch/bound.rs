// SPDX-License-Identifier: LGPL-3.0-only
//! From when on Flux is asked, so that no job is left out that ended while a clock was behind. Also says which jobs are not
//! fetched again: their records were here once and have been removed.
//!
//! At each time all is fetched that ended before it. What is on record and ended later says nothing: a clock was ahead, and
//! jobs that end now do so before that.

use std::ops::Range;

use super::OVERLAP;
use crate::store::{FetchMarks, Snapshot, StoreError};

/// When all was fetched is written again after so many seconds, also if nothing was new: too early a time only makes the
/// next answer longer.
const STALE: f64 = 600.0;

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

/// Remembers that all was fetched that had ended `now`; `new` records came of it. Writes nothing where that would say nothing new:
/// whoever watches the database takes each writing for a change.
pub fn remember(snapshot: &Snapshot<'_>, now: f64, new: u64) -> Result<(), StoreError> {
    let before = snapshot.fetch_marks()?;
    let known = before.and_then(|marks| marks.oldest);
    let is_said =
        new == 0 && before.is_some_and(|marks| (marks.fetched..marks.fetched + STALE).contains(&now));
    if is_said && known.is_some() {
        return Ok(());
    }
    // Others bring records too.
    let oldest = known.into_iter().chain(snapshot.oldest_inactive()?).reduce(f64::min);
    if is_said && oldest.is_none() {
        return Ok(());
    }
    snapshot.write_fetch_marks(FetchMarks { fetched: now, oldest })
}
