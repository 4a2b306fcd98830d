// SPDX-License-Identifier: LGPL-3.0-only
//! Determines the state before a sync: the period of the newest stored usage, and the records that are already
//! counted.

use super::PipelineError;
use super::exact::Run;
use super::{Periods, Result};
use crate::store::{Marks, Snapshot, UsageSettings};

/// If the clock went back by at most this many seconds, a run assumes that the clock was corrected.
const CORRECTION: f64 = 60.0;
/// The largest difference in seconds between the two times that flux-accounting writes when it is reconfigured.
const SAME_CHANGE: f64 = 5.0;

// Reasons for counting all usage again.
const REQUESTED: &str = "requested by the user";
const CHANGED: &str = "the half-life, the decay or the reset period has changed";

/// The state of the stored usage before a sync.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    /// The period that bin 0 belongs to.
    pub(super) period: i64,
    /// Reason why all bins are counted again, if they are.
    pub(super) recount: Option<&'static str>,
    /// Jobs that ended at or before this time, in seconds since the epoch, do not count.
    pub(super) since: f64,
    /// The last row that earlier runs have read; `None` if unknown.
    pub(super) last_row: Option<i64>,
    /// True if another program set the end of an association's newest counted job to an earlier time. The run must
    /// then read the records of earlier runs again.
    pub(super) uncounted: bool,
    /// True if another program has counted jobs since the last run with the usage rule `exact`. Bin 0 may then
    /// also include the usage of older bins.
    pub(super) take_over: bool,
}

impl Start {
    /// Reads the state that the last sync stored. If there is none, derives the state from flux-accounting's tables.
    /// If `recount` is true, all usage is counted again. Otherwise, returns an error if the clock is earlier than the
    /// last sync by more than [`CORRECTION`], or is in an earlier period.
    pub(super) fn new(run: &Run<'_>, snapshot: &Snapshot<'_>, now: f64, recount: bool) -> Result<Start> {
        let settings = run.settings;
        let accounts = 0..run.ledger.accounts.len();
        let mut start = Start { period: run.current, since: settings.reconfigured, ..Start::default() };
        if recount {
            // The time of the last run is not checked, because a recount repairs the database after a wrong clock.
            return Ok(Start { recount: Some(REQUESTED), since: 0.0, ..start });
        }
        if let Some(marks) = run.marks {
            if now < marks.ran - CORRECTION {
                return Err(PipelineError::ClockWentBack { was: marks.ran });
            }
            start.since = marks.since;
            let marked_settings = (marks.half_life, marks.decay, marks.reset_period, marks.reconfigured);
            if marked_settings
                != (settings.half_life, settings.decay, settings.reset_period, settings.reconfigured)
            {
                start.recount = Some(CHANGED);
                return Ok(start);
            }
            start.take_over = accounts.clone().any(|at| run.is_foreign(at));
            start.uncounted = accounts
                .into_iter()
                .any(|at| run.known.get(at).is_some_and(|known| run.read_stored_newest_end(at) < *known));
            start.last_row = match &marks.last_job {
                None => Some(i64::MIN),
                Some(id) => snapshot.find_row_of_job(id)?,
            };
            if let Some(period) = find_period_of_last_run(marks, settings, run.periods) {
                start.period = period;
                if start.period > run.current {
                    return Err(PipelineError::ClockWentBack { was: marks.ran });
                }
                return Ok(start);
            }
        } else if is_just_reconfigured(run, snapshot)? {
            start.since = 0.0;
            start.recount = Some(CHANGED);
            return Ok(start);
        }
        start.period = find_period_in_flux_accounting(run.current);
        start.take_over = true;
        Ok(start)
    }

    /// Returns true if all usage is counted again at the user's request.
    pub(super) fn is_requested(&self) -> bool {
        self.recount == Some(REQUESTED)
    }

    /// Returns the newest period of the usage of users who were removed from their bank. A recount does not count
    /// their jobs again. It only decays their stored usage, beginning with this period.
    pub(super) fn find_period_of_removed_users(&self, run: &Run<'_>) -> i64 {
        let Some(why) = self.recount else { return self.period };
        match run.marks {
            // After a change of the half-life the number of crossed boundaries is unknown.
            Some(marks) if marks.half_life != run.settings.half_life => run.current,
            None if why == CHANGED => run.current,
            marks => marks
                .and_then(|marks| find_period_of_last_run(marks, run.settings, run.periods))
                .unwrap_or_else(|| find_period_in_flux_accounting(run.current)),
        }
    }
}

/// Returns the period of the newest stored usage, as the last sync stored it. Returns `None` if flux-accounting has
/// changed the end of the half-life period since.
fn find_period_of_last_run(marks: &Marks, settings: &UsageSettings, periods: Periods) -> Option<i64> {
    (marks.period_end == settings.period_end).then(|| periods.index(marks.period_start))
}

/// Returns the period that flux-accounting's bin 0 belongs to. This is period 0, which begins at
/// `end_half_life_period`, or the current period if it is earlier.
fn find_period_in_flux_accounting(current: i64) -> i64 {
    current.min(0)
}

/// Maps stored bins to periods.
#[derive(Clone, Copy, Debug)]
pub struct StoredPeriods {
    periods: Periods,
    first: i64,
}

impl StoredPeriods {
    /// Reads when each stored half-life period begins. `now` is in seconds since the epoch.
    pub fn read(snapshot: &Snapshot<'_>, now: f64) -> Result<StoredPeriods> {
        let settings = snapshot.usage_settings()?;
        let periods = Periods::read(&settings)?;
        let marks = snapshot.marks()?;
        let first = marks.and_then(|marks| find_period_of_last_run(&marks, &settings, periods));
        Ok(StoredPeriods {
            periods,
            first: first.unwrap_or_else(|| find_period_in_flux_accounting(periods.index(now))),
        })
    }

    /// Returns the number of boundaries that have passed since the last run. The next run decays the usage at
    /// each of them. Returns 0 if the number is unknown.
    pub fn count_due_boundaries(snapshot: &Snapshot<'_>, now: f64) -> u32 {
        let passed = StoredPeriods::read(snapshot, now)
            .map_or(0, |stored| stored.periods.index(now).saturating_sub(stored.first).max(0));
        u32::try_from(passed).unwrap_or(u32::MAX)
    }

    /// Returns the start of the period of a bin, in seconds since the epoch. Bin 0 is the current period, bin 1 the
    /// period before it, and bin -1 the next period.
    pub fn start(self, bin: i64) -> f64 {
        self.periods.start(self.first.saturating_sub(bin))
    }
}

/// Returns true if flux-accounting was reconfigured, which deletes all usage, and has not counted since then.
fn is_just_reconfigured(run: &Run<'_>, snapshot: &Snapshot<'_>) -> Result<bool> {
    let settings = run.settings;
    let begin = settings.period_end - settings.half_life;
    let is_same_change = settings.reconfigured > 0.0
        && (begin - settings.reconfigured).abs() < SAME_CHANGE
        && (0..run.ledger.accounts.len()).all(|at| run.read_stored_newest_end(at) == 0.0);
    Ok(is_same_change && snapshot.bins(run.ledger)?.by_account.iter().flatten().all(|bin| bin.value == 0.0))
}
