// SPDX-License-Identifier: LGPL-3.0-only
//! Removes old job records, except those of periods that are still stored.

use super::PipelineError;
use crate::store::{Marks, Snapshot};
use fairshare::periods::Periods;

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scrubbed {
    /// Number of removed records.
    pub removed: usize,
    /// Number of records before the requested time that stay, because their period is still stored.
    pub needed: usize,
    /// Records of jobs that ended before this time were removed.
    pub before: f64,
}

/// Removes the records of jobs that ended before `before`, except those whose period is still stored.
pub fn scrub(snapshot: &Snapshot<'_>, before: f64, now: f64) -> Result<Scrubbed, PipelineError> {
    snapshot.check_usage_schema()?;
    let requested = before;
    let before = before.min(find_oldest_stored_start(snapshot, now)?);
    let removed = snapshot.count_jobs_before(before)?;
    let needed = snapshot.count_jobs_before(requested)? - removed;
    if removed > 0 {
        let marks = snapshot.marks()?;
        let row = marks.as_ref().and_then(|marks| marks.last_job.as_deref());
        let row = row.map(|id| snapshot.row_of_job(id)).transpose()?.flatten();
        snapshot.remove_jobs_before(before)?;
        // The marks name the last counted record, which may now be an earlier one.
        if let Some((marks, row)) = marks.zip(row) {
            let last_job = snapshot.last_job_until(row)?;
            if last_job != marks.last_job {
                snapshot.write_marks(&Marks { last_job, ..marks })?;
            }
        }
    }
    Ok(Scrubbed { removed, needed, before })
}

/// Returns the start of the oldest period that is still stored.
fn find_oldest_stored_start(snapshot: &Snapshot<'_>, now: f64) -> Result<f64, PipelineError> {
    let settings = snapshot.usage_settings()?;
    let (end, half_life) = (settings.period_end, settings.half_life);
    let periods = Periods::new(end, half_life).ok_or(PipelineError::Periods { end, half_life })?;
    let bins = snapshot.bins(&snapshot.ledger(&mut |_| ())?)?;
    let stored =
        bins.by_account.iter().filter_map(|bins| bins.last()).map(|bin| bin.period.saturating_add(1)).max();
    let kept = ((settings.reset_period / half_life).ceil() as i64).max(stored.unwrap_or(4));
    Ok(periods.start(periods.index(now).saturating_sub(kept - 1)))
}
