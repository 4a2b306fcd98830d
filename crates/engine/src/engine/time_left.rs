// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the time that running jobs have left. Limits on the node-hours of running jobs need this time.
//!
//! Counters are computed only from jobs, so each job stores how long it has run. A timer updates this value for each
//! running job under such a limit. Between two updates a counter may be too large, but never too small.

use super::{Effect, Shared, Timer};
use crate::ids::JobId;
use crate::limits::Job;

/// The number of jobs that the engine updates in one reactor turn.
const SLICE: usize = 1000;

/// The jobs to update, and whether the timer is armed.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeLeft {
    is_armed: bool,
    /// The running jobs whose time the current update has not computed yet.
    jobs: Vec<JobId>,
    /// Whether the update in progress has changed a job.
    has_changed: bool,
}

impl TimeLeft {
    /// Notes that a timer that was armed may never fire.
    pub fn mark_timer_lost(&mut self) {
        self.is_armed = false;
    }
}

/// Arms the timer if a limit counts the time that running jobs have left.
pub fn arm_timer_if_needed(shared: &mut Shared, effects: &mut Vec<Effect>) {
    if !shared.time_left.is_armed && shared.book.site_limits().has_time_left_limit() {
        shared.time_left = TimeLeft { is_armed: true, ..TimeLeft::default() };
        effects.push(Effect::ArmIn(Timer::TimeLeft, period(shared)));
    }
}

/// Returns the time between two updates, in seconds. It equals the time between two refreshes, if there is
/// one.
fn period(shared: &Shared) -> f64 {
    let refresh = shared.settings.refresh;
    if refresh > 0.0 { refresh } else { Timer::TimeLeft.seconds() }
}

/// Updates the elapsed time of the next batch of running jobs. If an elapsed time changed, a scan of all held jobs
/// follows after the last batch.
pub fn update_next_jobs(shared: &mut Shared) -> Vec<Effect> {
    shared.time_left.is_armed = false;
    if !shared.book.site_limits().has_time_left_limit() {
        return Vec::new();
    }
    let mut jobs = std::mem::take(&mut shared.time_left.jobs);
    if jobs.is_empty() {
        jobs.extend(shared.ledger.accounts().all_counted_jobs());
    }
    for id in jobs.split_off(jobs.len().saturating_sub(SLICE)) {
        let counts = |job: &&Job| shared.ledger.accounts().counts_time_left(job);
        let Some(job) = shared.ledger.job(id).filter(counts) else { continue };
        let elapsed_ms = job.compute_elapsed_time(shared.now);
        if elapsed_ms != job.elapsed_ms {
            shared.ledger.change(id, |job| job.elapsed_ms = elapsed_ms);
            shared.time_left.has_changed = true;
        }
    }
    shared.time_left.is_armed = true;
    shared.time_left.jobs = jobs;
    if !shared.time_left.jobs.is_empty() {
        return vec![Effect::ArmIn(Timer::TimeLeft, 0.0)];
    }
    let mut effects = vec![Effect::ArmIn(Timer::TimeLeft, period(shared))];
    let has_held = shared.ledger.associations_with_held().next().is_some();
    if std::mem::take(&mut shared.time_left.has_changed) && has_held {
        effects.extend(shared.scan_all_held_later());
    }
    effects
}
