// SPDX-License-Identifier: LGPL-3.0-only
//! Determines the time from which jobs are fetched, including jobs that ended while the clock was behind. Also
//! determines which jobs are not fetched again, because their records were stored and later removed.
//!
//! The database stores the time of the last complete fetch; all jobs that ended before that time have been fetched.
//! If a record has a later end, the clock was ahead. Jobs that end now may then have earlier ends.

use std::ops::Range;

use super::OVERLAP;
use crate::store::{LastFetchState, Snapshot, StoreError};

/// The time of the last fetch is rewritten after this many seconds even if the fetch found no new job. An old time
/// only makes the next response longer.
const REWRITE_SECONDS: f64 = 600.0;

/// Returns the end of the newest job on record. All jobs that ended before this time are on record too.
pub fn find_end_of_last_recorded_job(snapshot: &Snapshot<'_>, now: f64) -> Result<Option<f64>, StoreError> {
    match snapshot.read_last_fetch_state()? {
        // The clock was set back after the last fetch. Jobs that ended since that fetch may have any end time.
        Some(marks) if marks.fetched > now => Ok(None),
        Some(marks) => snapshot.newest_inactive(marks.fetched),
        None => Ok(snapshot.newest_inactive(f64::INFINITY)?.filter(|newest| *newest <= now)),
    }
}

/// Returns the range of end times of jobs whose records were removed from the database. The range begins at the
/// end of the oldest job that ever had a record, and ends at the end of the oldest job that has a record now.
///
/// A job that ended before the range never had a record, because it ended while the clock of a new site was behind.
/// Such a job is fetched.
pub fn find_removed_range(snapshot: &Snapshot<'_>, now: f64) -> Result<Range<f64>, StoreError> {
    let Some(LastFetchState { fetched, oldest: Some(oldest) }) = snapshot.read_last_fetch_state()? else {
        return Ok(0.0..0.0);
    };
    // Records of the last `OVERLAP` seconds are not removed, and a job that ended in that time may not be on record
    // yet.
    let recent = fetched.min(now) - OVERLAP;
    Ok(oldest..snapshot.oldest_inactive()?.map_or(recent, |kept| kept.min(recent)))
}

/// Stores `now` as the time of the last complete fetch. `new` is the number of new records. If there are none and
/// the stored time is recent, writes nothing, because each write wakes programs that watch the database.
pub fn record_fetch(snapshot: &Snapshot<'_>, now: f64, new: u64) -> Result<(), StoreError> {
    let before = snapshot.read_last_fetch_state()?;
    let known = before.and_then(|marks| marks.oldest);
    let is_recorded = new == 0
        && before.is_some_and(|marks| (marks.fetched..marks.fetched + REWRITE_SECONDS).contains(&now));
    if is_recorded && known.is_some() {
        return Ok(());
    }
    // Other programs add records too.
    let oldest = known.into_iter().chain(snapshot.oldest_inactive()?).reduce(f64::min);
    if is_recorded && oldest.is_none() {
        return Ok(());
    }
    snapshot.store_complete_fetch_state(LastFetchState { fetched: now, oldest })
}
