// SPDX-License-Identifier: LGPL-3.0-only
//! Decides when a watch runs a step. The decision depends only on the time and the observations.

use std::time::Duration;

/// The reason why the watch runs a sync now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum Cause {
    /// The watch started.
    #[strum(serialize = "start")]
    Start,
    /// A job ended.
    #[strum(serialize = "jobs ended")]
    Jobs,
    /// Another program wrote to the database or replaced the file.
    #[strum(serialize = "the database changed")]
    Database,
    /// Flux is reachable again. The instance and its plugin may be new.
    #[strum(serialize = "Flux is back")]
    Flux,
    /// The user has requested a sync with SIGHUP.
    #[strum(serialize = "requested")]
    Asked,
    /// No sync has run for a while. Usage has decayed since, and Flux may have loaded a plugin that has no data yet.
    #[strum(serialize = "interval elapsed")]
    Time,
    /// The last step failed.
    #[strum(serialize = "retry")]
    Again,
}

/// The state of the database and of Flux at one moment.
#[derive(Clone, Debug)]
pub struct Observation<S> {
    /// A value that changes with the database, or the reason why the database can't be read.
    pub database: Result<S, String>,
    /// The end of the job that ended last, if any; or the reason why Flux is not reachable.
    pub flux: Result<Option<f64>, String>,
    /// True if the user requests a step.
    pub asked: bool,
}

/// Shortest pause between two syncs while another program keeps writing to the database.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Longest time between two steps.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// Longest time until a failed step is tried again.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// The data that decide when the next step runs.
#[derive(Debug)]
pub(super) struct Schedule<S> {
    /// Ended jobs cause at most one sync in this time.
    jobs_every: Duration,
    /// `None` before the first step.
    last: Option<LastWatchStep<S>>,
    flux_was_gone: bool,
    asked: bool,
}

#[derive(Debug)]
struct LastWatchStep<S> {
    began: Duration,
    ended: Duration,
    database: S,
    newest: Option<f64>,
    /// Number of failed steps in a row.
    failures: u32,
    /// True if a part of the step failed.
    is_partial: bool,
}

impl<S: Clone + PartialEq> Schedule<S> {
    pub(super) fn new(jobs_every: Duration) -> Self {
        Schedule { jobs_every, last: None, flux_was_gone: false, asked: false }
    }

    /// If a step is due at `now`, returns the reason, and records that the step begins. If something changes
    /// during the step, another step follows, even if the step itself made the change. That step then finds
    /// nothing to do.
    pub(super) fn begin_watch_step_if_due(&mut self, now: Duration, seen: &Observation<S>) -> Option<Cause> {
        self.asked |= seen.asked;
        self.flux_was_gone |= seen.flux.is_err();
        let (Ok(database), Ok(newest)) = (&seen.database, &seen.flux) else { return None };
        let cause = self.cause(now, database, *newest)?;
        let (failures, is_partial) =
            self.last.as_ref().map_or((0, false), |last| (last.failures, last.is_partial));
        let database = database.clone();
        self.last =
            Some(LastWatchStep { began: now, ended: now, database, newest: *newest, failures, is_partial });
        self.flux_was_gone = false;
        self.asked = false;
        Some(cause)
    }

    fn cause(&self, now: Duration, database: &S, newest: Option<f64>) -> Option<Cause> {
        let Some(last) = &self.last else { return Some(Cause::Start) };
        if self.flux_was_gone {
            return Some(Cause::Flux);
        }
        if self.asked {
            return Some(Cause::Asked);
        }
        if last.failures > 0 {
            let pause = MIN_PAUSE.saturating_mul(1 << last.failures.min(10)).min(MAX_RETRY_PAUSE);
            return (now >= last.ended + pause).then_some(Cause::Again);
        }
        // If another program writes all the time, the pause is at least as long as the last sync took.
        let pause = MIN_PAUSE.max(last.ended - last.began);
        if *database != last.database && now >= last.ended + pause {
            return Some(Cause::Database);
        }
        // If Flux purges the job that ended last, `newest` becomes earlier. Only a later end shows that a job has
        // ended.
        if newest > last.newest && now >= last.began + self.jobs_every {
            return Some(Cause::Jobs);
        }
        // If a part of the last sync failed, another sync runs after a while, even if `newest` is not later. For example,
        // if the clock is behind, new jobs may end before the newest end on record.
        if last.is_partial && now >= last.began + self.jobs_every.max(MAX_RETRY_PAUSE) {
            return Some(Cause::Jobs);
        }
        (now >= last.began + MAX_PAUSE).then_some(Cause::Time)
    }

    /// Records the end of the step. `is_partial` is true if one of its parts failed.
    pub(super) fn end_step(&mut self, now: Duration, success: bool, is_partial: bool) {
        if let Some(last) = &mut self.last {
            last.ended = now;
            last.is_partial = is_partial;
            last.failures = if success { 0 } else { last.failures.saturating_add(1) };
        }
    }
}
