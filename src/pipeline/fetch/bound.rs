// SPDX-License-Identifier: LGPL-3.0-only
//! From when on Flux is asked, so that no job is left out that ended while a clock was behind.
//!
//! At each time all is fetched that ended before it. What is on record and ended later says nothing: a clock was ahead, and
//! jobs that end now do so before that.

use crate::store::{Snapshot, StoreError};

/// When all was fetched is written again after so many seconds, also if nothing was new: too early a time only makes the
/// next answer longer.
const STALE: f64 = 600.0;

/// The end of the newest job on record that is a bound: all that ended before it are on record too.
pub fn newest(snapshot: &Snapshot<'_>, now: f64) -> Result<Option<f64>, StoreError> {
    match snapshot.fetched()? {
        // The clock was set back since: what ended meanwhile may have ended at any time.
        Some(fetched) if fetched > now => Ok(None),
        Some(fetched) => snapshot.newest_inactive(fetched),
        None => Ok(snapshot.newest_inactive(f64::INFINITY)?.filter(|newest| *newest <= now)),
    }
}

/// Remembers that all was fetched that had ended `now`, of which so many were new.
pub fn remember(snapshot: &Snapshot<'_>, now: f64, new: u64) -> Result<(), StoreError> {
    let is_known = snapshot.fetched()?.is_some_and(|fetched| fetched <= now && now < fetched + STALE);
    if is_known && new == 0 { Ok(()) } else { snapshot.write_fetched(now) }
}
