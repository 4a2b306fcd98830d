// SPDX-License-Identifier: LGPL-3.0-only
//! When a watch has to act. Time and what was seen come in as values; what is due goes out.

use std::time::Duration;

/// Why a step is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum Cause {
    /// The watch begins.
    #[strum(serialize = "start")]
    Start,
    /// A job ended.
    #[strum(serialize = "jobs ended")]
    Jobs,
    /// Somebody wrote to the database, or put another in its place.
    #[strum(serialize = "the database changed")]
    Database,
    /// Flux answers again: the instance, and with it the plugin, may be a new one.
    #[strum(serialize = "Flux is back")]
    Flux,
    /// Somebody asked (SIGHUP).
    #[strum(serialize = "asked to")]
    Asked,
    /// Nothing happened for a while. Usage decays all the same, and a plugin may have been loaded without data.
    #[strum(serialize = "time passed")]
    Time,
    /// The step before failed.
    #[strum(serialize = "tried again")]
    Again,
}

/// What is there at one moment.
#[derive(Clone, Debug)]
pub struct Look<S> {
    /// Something that differs when the database does; or why it can't be seen.
    pub database: Result<S, String>,
    /// When the job that ended last did, if one has; or why Flux can't be asked.
    pub flux: Result<Option<f64>, String>,
    /// Somebody asks for a step.
    pub asked: bool,
}

/// The shortest time between two steps that others' writing causes.
const REST: Duration = Duration::from_secs(1);
/// The longest between any two.
const IDLE: Duration = Duration::from_secs(300);
/// The longest until a failed step is tried again.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was when the last step began, and how it went.
#[derive(Debug)]
pub(super) struct WatchPace<S> {
    /// Ended jobs are taken up no more often than this.
    jobs_every: Duration,
    /// `None` before the first step.
    last: Option<Last<S>>,
    gone: bool,
    asked: bool,
}

#[derive(Debug)]
struct Last<S> {
    began: Duration,
    ended: Duration,
    database: S,
    newest: Option<f64>,
    /// Steps that failed, one after the other.
    failures: u32,
    /// The step could not do all that it should.
    lacks: bool,
}

impl<S: Clone + PartialEq> WatchPace<S> {
    pub(super) fn new(jobs_every: Duration) -> Self {
        WatchPace { jobs_every, last: None, gone: false, asked: false }
    }

    /// Whether a step is due at `now`. If so it is taken as begun: what is seen now counts as known from here on, so
    /// whatever changes during the step makes another. So does what the step itself writes; that one finds nothing to do.
    pub(super) fn due(&mut self, now: Duration, look: &Look<S>) -> Option<Cause> {
        self.asked |= look.asked;
        self.gone |= look.flux.is_err();
        let (Ok(database), Ok(newest)) = (&look.database, &look.flux) else { return None };
        let cause = self.cause(now, database, *newest)?;
        let (failures, lacks) = self.last.as_ref().map_or((0, false), |last| (last.failures, last.lacks));
        let database = database.clone();
        self.last = Some(Last { began: now, ended: now, database, newest: *newest, failures, lacks });
        self.gone = false;
        self.asked = false;
        Some(cause)
    }

    fn cause(&self, now: Duration, database: &S, newest: Option<f64>) -> Option<Cause> {
        let Some(last) = &self.last else { return Some(Cause::Start) };
        if self.gone {
            return Some(Cause::Flux);
        }
        if self.asked {
            return Some(Cause::Asked);
        }
        if last.failures > 0 {
            let wait = REST.saturating_mul(1 << last.failures.min(10)).min(PATIENCE);
            return (now >= last.ended + wait).then_some(Cause::Again);
        }
        // Somebody who writes all the time gets half of ours.
        let rest = REST.max(last.ended - last.began);
        if *database != last.database && now >= last.ended + rest {
            return Some(Cause::Database);
        }
        // Ended jobs are purged some day: only a later one is news.
        if newest > last.newest && now >= last.began + self.jobs_every {
            return Some(Cause::Jobs);
        }
        // While a clock is behind, none that ends is later.
        if last.lacks && now >= last.began + self.jobs_every.max(PATIENCE) {
            return Some(Cause::Jobs);
        }
        (now >= last.began + IDLE).then_some(Cause::Time)
    }

    /// The step that was due came to its end; it may have done all but something.
    pub(super) fn done(&mut self, now: Duration, success: bool, lacks: bool) {
        if let Some(last) = &mut self.last {
            last.ended = now;
            last.lacks = lacks;
            last.failures = if success { 0 } else { last.failures.saturating_add(1) };
        }
    }
}
