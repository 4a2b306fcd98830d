// SPDX-License-Identifier: LGPL-3.0-only
//! The time that running jobs have left, for limits on node-hours of running jobs.
//!
//! A counter is a function of the jobs, so the elapsed time is a field of the job. A timer updates the field of each running job under such a
//! limit. Between two updates the counter is too large, never too small.

use super::{Effect, Shared, Timer};
use crate::ids::JobId;
use crate::limits::{Job, Phase};

/// The number of jobs that one reactor turn updates.
const SLICE: usize = 1000;

/// The jobs to update, and whether the timer is armed.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeLeft {
    is_armed: bool,
    /// The job after which the present update continues, if the update is in progress.
    after: Option<JobId>,
    /// Whether the present update has changed a job.
    has_changed: bool,
}

impl TimeLeft {
    /// Notes that a timer that was armed may never fire.
    pub fn note_lost_timer(&mut self) {
        self.is_armed = false;
    }
}

/// Arms the timer if a limit counts the time that running jobs have left.
pub(super) fn arm_if_needed(shared: &mut Shared, effects: &mut Vec<Effect>) {
    if !shared.time_left.is_armed && shared.book.site_limits().count_time_left() {
        shared.time_left = TimeLeft { is_armed: true, ..TimeLeft::default() };
        effects.push(Effect::ArmIn(Timer::TimeLeft, period(shared)));
    }
}

/// Returns the time between two updates, in seconds: that of refreshes.
fn period(shared: &Shared) -> f64 {
    let refresh = shared.settings.refresh;
    if refresh > 0.0 { refresh } else { Timer::TimeLeft.seconds() }
}

/// Updates the next running jobs under limits on the time that they have left. When the last job is updated, a release scan of all held jobs
/// follows.
pub(super) fn update_next_jobs(shared: &mut Shared) -> Vec<Effect> {
    shared.time_left.is_armed = false;
    if !shared.book.site_limits().count_time_left() {
        return Vec::new();
    }
    let counts = |job: &Job| {
        let accounts = shared.ledger.accounts();
        job.phase == Phase::Run
            && job.association().is_some_and(|of| accounts.counts_time_left(of, job.queue.as_ref()))
    };
    let running = shared.ledger.jobs_after(shared.time_left.after).filter(|(_, job)| counts(job));
    let jobs: Vec<JobId> = running.map(|(id, _)| id).take(SLICE).collect();
    for id in &jobs {
        let Some(job) = shared.ledger.job(*id) else { continue };
        let elapsed_ms = job.elapsed_until(shared.now);
        if elapsed_ms != job.elapsed_ms {
            shared.ledger.change(*id, |job| job.elapsed_ms = elapsed_ms);
            shared.time_left.has_changed = true;
        }
    }
    shared.time_left.is_armed = true;
    shared.time_left.after = jobs.last().copied().filter(|_| jobs.len() == SLICE);
    if shared.time_left.after.is_some() {
        return vec![Effect::ArmIn(Timer::TimeLeft, 0.0)];
    }
    let mut effects = vec![Effect::ArmIn(Timer::TimeLeft, period(shared))];
    let has_held = shared.ledger.associations_with_held().next().is_some();
    if std::mem::take(&mut shared.time_left.has_changed) && has_held {
        effects.extend(shared.scan_all_held_later());
    }
    effects
}
