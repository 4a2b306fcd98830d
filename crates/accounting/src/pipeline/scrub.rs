// SPDX-License-Identifier: LGPL-3.0-only
//! Removes old job records. Records stay if their period is still stored, or if a current budget counts them.

use super::{Periods, Result, budgets};
use crate::store::{Marks, Snapshot};

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordRemovalResult {
    /// Number of removed records.
    pub removed: usize,
    /// Number of records that are old enough but were not removed, because usage or a budget needs them.
    pub needed: usize,
    /// True if a budget needs some of the old records, so that they were not removed.
    pub is_for_budget: bool,
    /// Records of jobs that ended before this time were removed.
    pub before: f64,
}

/// Removes the records of jobs that ended before `before`. A record stays if its period is still stored. A record
/// also stays if its job may have started in a budget's window that has not ended.
pub fn scrub(snapshot: &Snapshot<'_>, before: f64, now: f64) -> Result<RecordRemovalResult> {
    snapshot.check_usage_schema()?;
    let requested = before;
    let stored = before.min(find_oldest_period_start(snapshot, now)?);
    let before = stored.min(budgets::find_earliest_start(snapshot, now)?);
    let removed = snapshot.count_jobs_ended_before(before)?;
    let needed = snapshot.count_jobs_ended_before(requested)? - removed;
    if removed > 0 {
        budgets::Budgets::count(snapshot, None, &[], now)?.store_spent_amounts(snapshot, false)?;
        snapshot.mark_final(before, now)?;
        let marks = snapshot.marks()?;
        let row = marks.as_ref().and_then(|marks| marks.last_job.as_deref());
        let row = row.map(|id| snapshot.find_row_of_job(id)).transpose()?.flatten();
        snapshot.remove_jobs_before(before)?;
        // `marks` names the last counted record. If this record was removed, `marks` must name an earlier record
        // that still exists.
        if let Some((marks, row)) = marks.zip(row) {
            let last_job = snapshot.find_last_job_up_to_row(row)?;
            if last_job != marks.last_job {
                snapshot.write_usage_marks(&Marks { last_job, ..marks })?;
            }
        }
    }
    Ok(RecordRemovalResult { removed, needed, is_for_budget: before < stored, before })
}

/// Returns the start of the oldest period that is still stored.
fn find_oldest_period_start(snapshot: &Snapshot<'_>, now: f64) -> Result<f64> {
    let settings = snapshot.usage_settings()?;
    let periods = Periods::read(&settings)?;
    let bins = snapshot.bins(&snapshot.ledger(&mut |_| ())?)?;
    let stored =
        bins.by_account.iter().filter_map(|bins| bins.last()).map(|bin| bin.period.saturating_add(1)).max();
    let kept = ((settings.reset_period / settings.half_life).ceil() as i64).max(stored.unwrap_or(4));
    Ok(periods.start(periods.index(now).saturating_sub(kept - 1)))
}
