// SPDX-License-Identifier: LGPL-3.0-only
//! Expirations that Flux changes without calling the plugin.
//!
//! If the time limit of the instance changes, Flux posts the event `resource-update` for each running job
//! that has no time limit of its own. Flux reports the events of a job only to plugins that subscribed to the
//! job. The engine subscribes to one of these jobs. When the event of that job comes, the engine looks up all
//! these jobs in later reactor turns. A lookup inside the callback would make Flux lose its position in its
//! list of jobs.

use super::{Effect, Timer};
use crate::ids::JobId;
use crate::limits::{Ledger, Phase};
use std::collections::BTreeSet;

/// The number of jobs that the engine looks up in one reactor turn.
const SLICE: usize = 500;

/// Running jobs without a time limit of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Expirations {
    jobs: BTreeSet<JobId>,
    /// The one job of `jobs` to whose events the plugin is subscribed.
    heard: Option<JobId>,
    /// Jobs to be looked up.
    due: BTreeSet<JobId>,
}

impl Expirations {
    /// Removes a job to which the plugin is not subscribed any more.
    pub fn remove_job(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.due.remove(&id);
        self.heard.take_if(|heard| *heard == id);
    }

    /// Returns true if the plugin subscribed to the job for its expiration.
    pub fn is_subscribed(&self, id: JobId) -> bool {
        self.heard == Some(id)
    }

    /// Adds or removes a job whose state, time limit or R may have changed. `runs` says whether the job is in RUN.
    pub fn update_job(&mut self, ledger: &Ledger, id: JobId, runs: bool) -> Vec<Effect> {
        let job = ledger.job(id).filter(|job| runs && job.phase == Phase::Run);
        let mut effects = Vec::new();
        if job.is_some_and(|job| job.time_limit().is_none() && job.allocation.is_some()) {
            self.jobs.insert(id);
        } else {
            effects.extend(self.is_subscribed(id).then_some(Effect::Unsubscribe(id)));
            self.remove_job(id);
        }
        if self.heard.is_none()
            && let Some(first) = self.jobs.first().copied()
        {
            self.heard = Some(first);
            effects.push(Effect::Subscribe(first));
        }
        effects
    }

    /// Schedules a lookup of all expirations, because the time limit of the instance has changed.
    pub fn request_all_expirations(&mut self) -> Vec<Effect> {
        self.due.clone_from(&self.jobs);
        vec![Effect::Arm(Timer::ReactorTurn)]
    }

    /// Returns effects that look up the expirations of at most `SLICE` jobs.
    pub fn look_up_next_expirations(&mut self) -> Vec<Effect> {
        let due = std::iter::from_fn(|| self.due.pop_first()).take(SLICE);
        let mut effects: Vec<Effect> = due.map(Effect::AskExpiration).collect();
        effects.extend((!self.due.is_empty()).then_some(Effect::Arm(Timer::ReactorTurn)));
        effects
    }
}
