// SPDX-License-Identifier: LGPL-3.0-only
//! Where a run of the exact rule begins: what the stored bins stand for, and which records are counted in them.

use super::PipelineError;
use super::exact::Run;
use crate::store::{Marks, Snapshot, UsageSettings};
use fairshare::periods::Periods;

/// A clock that is this much behind (seconds) has only been corrected.
const CORRECTION: f64 = 60.0;
/// How far apart flux-accounting takes the two times that it writes when it is reconfigured.
const TOGETHER: f64 = 5.0;

/// Why everything is counted anew.
const ASKED: &str = "it was asked for";
const CHANGED: &str = "half-life, decay or reset period were changed";

/// Where a run begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    /// The period that bin 0 stands for.
    pub(super) period: i64,
    /// Why all bins are counted anew, if they are.
    pub(super) recount: Option<&'static str>,
    /// Jobs that ended up to here don't count.
    pub(super) since: f64,
    /// Records up to this row were seen; `None` if that is not known.
    pub(super) last_row: Option<i64>,
    /// Somebody took counted jobs back: records that were seen have to be looked at again.
    pub(super) uncounted: bool,
    /// Somebody else counted since: bins may be as flux-accounting leaves them.
    pub(super) take_over: bool,
}

impl Start {
    /// From what is remembered, or else from what flux-accounting's tables say.
    pub(super) fn of(
        run: &Run<'_>,
        snapshot: &Snapshot<'_>,
        now: f64,
        anew: bool,
    ) -> Result<Start, PipelineError> {
        let settings = run.settings;
        let accounts = 0..run.ledger.accounts.len();
        let mut start = Start { period: run.current, since: settings.reconfigured, ..Start::default() };
        if anew {
            // Whatever the clock was at the last run: this is what repairs one that was ahead.
            return Ok(Start { recount: Some(ASKED), since: 0.0, ..start });
        }
        if let Some(marks) = run.marks {
            if now < marks.ran - CORRECTION {
                return Err(PipelineError::ClockWentBack { was: marks.ran });
            }
            start.since = marks.since;
            let lengths = (marks.half_life, marks.decay, marks.reset_period, marks.reconfigured);
            if lengths != (settings.half_life, settings.decay, settings.reset_period, settings.reconfigured) {
                start.recount = Some(CHANGED);
                return Ok(start);
            }
            start.take_over = accounts.clone().any(|at| run.is_foreign(at));
            start.uncounted = accounts
                .into_iter()
                .any(|at| run.known.get(at).is_some_and(|known| run.stored_newest(at) < *known));
            start.last_row = match &marks.last_job {
                None => Some(i64::MIN),
                Some(id) => snapshot.row_of_job(id)?,
            };
            if let Some(period) = of_marks(marks, settings, run.periods) {
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
        start.period = of_accounting(run.current);
        start.take_over = true;
        Ok(start)
    }

    /// Whether everything is counted anew because somebody asked for it.
    pub(super) fn is_asked(&self) -> bool {
        self.recount == Some(ASKED)
    }

    /// The period that bin 0 stands for of users who are in the bank no more. No record counts for them, so their bins decay
    /// from where they are also where all others are counted anew.
    pub(super) fn of_away(&self, run: &Run<'_>) -> i64 {
        let Some(why) = self.recount else { return self.period };
        match run.marks {
            // By another half-life nobody can say how many boundaries have passed.
            Some(marks) if marks.half_life != run.settings.half_life => run.current,
            None if why == CHANGED => run.current,
            marks => marks
                .and_then(|marks| of_marks(marks, run.settings, run.periods))
                .unwrap_or_else(|| of_accounting(run.current)),
        }
    }
}

/// The period of bin 0 by what is remembered; `None` if somebody else crossed a boundary since.
fn of_marks(marks: &Marks, settings: &UsageSettings, periods: Periods) -> Option<i64> {
    (marks.period_end == settings.period_end).then(|| periods.index(marks.period_start))
}

/// flux-accounting leaves bin 0 to the period that begins at the stored end, or to the one before it, the first.
fn of_accounting(current: i64) -> i64 {
    current.min(0)
}

/// What the bins that are stored stand for.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    periods: Periods,
    first: i64,
}

impl Present {
    /// As the next run of the exact rule takes them.
    pub fn of(snapshot: &Snapshot<'_>, now: f64) -> Result<Present, PipelineError> {
        let settings = snapshot.usage_settings()?;
        let (end, half_life) = (settings.period_end, settings.half_life);
        let periods = Periods::new(end, half_life).ok_or(PipelineError::Periods { end, half_life })?;
        let marks = snapshot.marks()?;
        let first = marks.and_then(|marks| of_marks(&marks, &settings, periods));
        Ok(Present { periods, first: first.unwrap_or_else(|| of_accounting(periods.index(now))) })
    }

    /// Boundaries that passed and that the next run makes good; none where that can't be told.
    pub fn due(snapshot: &Snapshot<'_>, now: f64) -> u32 {
        let passed = Present::of(snapshot, now)
            .map_or(0, |present| present.periods.index(now).saturating_sub(present.first).max(0));
        u32::try_from(passed).unwrap_or(u32::MAX)
    }

    /// When the period of a bin began, or will: 0 is the present bin, 1 the one before it, -1 the next.
    pub fn began(self, bin: i64) -> f64 {
        self.periods.start(self.first.saturating_sub(bin))
    }
}

/// flux-accounting was reconfigured, which throws all usage away, and has counted nothing since.
fn is_just_reconfigured(run: &Run<'_>, snapshot: &Snapshot<'_>) -> Result<bool, PipelineError> {
    let settings = run.settings;
    let begin = settings.period_end - settings.half_life;
    let together = settings.reconfigured > 0.0
        && (begin - settings.reconfigured).abs() < TOGETHER
        && (0..run.ledger.accounts.len()).all(|at| run.stored_newest(at) == 0.0);
    Ok(together && snapshot.bins(run.ledger)?.of.iter().flatten().all(|bin| bin.value == 0.0))
}
