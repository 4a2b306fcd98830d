// SPDX-License-Identifier: LGPL-3.0-only
//! From when on Flux is asked, so that no job is left out that ended while a clock was behind; and what is not taken again, as
//! it was on record once and was removed.
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

/// When the jobs ended whose records were on record and are not any more: old records were removed, and had counted. All
/// between the oldest that ever was on record and the oldest that is. What ended before that never was: a young site has
/// nothing older on record, and a job that ended while the clock was behind is new to it.
pub fn removed(snapshot: &Snapshot<'_>, now: f64) -> Result<Range<f64>, StoreError> {
    let Some(FetchMarks { fetched, oldest: Some(oldest) }) = snapshot.fetch_marks()? else {
        return Ok(0.0..0.0);
    };
    // Nobody removes what ended just now, and some of that may come late.
    let recent = fetched.min(now) - OVERLAP;
    Ok(oldest..snapshot.oldest_inactive()?.map_or(recent, |kept| kept.min(recent)))
}

/// Remembers that all was fetched that had ended `now`, of which so many were new.
pub fn remember(snapshot: &Snapshot<'_>, now: f64, new: u64) -> Result<(), StoreError> {
    let before = snapshot.fetch_marks()?;
    let is_known = before
        .is_some_and(|marks| marks.fetched <= now && now < marks.fetched + STALE && marks.oldest.is_some());
    if is_known && new == 0 {
        return Ok(());
    }
    let known = before.and_then(|marks| marks.oldest);
    let oldest = known.into_iter().chain(snapshot.oldest_inactive()?).reduce(f64::min);
    snapshot.write_fetch_marks(FetchMarks { fetched: now, oldest })
}
