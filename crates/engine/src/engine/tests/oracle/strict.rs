// SPDX-License-Identifier: LGPL-3.0-only
//! Decides for the test oracle in which queues running limits are strict.

use super::super::site::HostJob;
use crate::accounts::RunningLimits;
use crate::engine::Settings;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct StrictQueues {
    others: bool,
    queues: BTreeMap<String, bool>,
}

impl StrictQueues {
    pub fn from_settings(settings: &Settings) -> StrictQueues {
        let is_strict = |rule: &RunningLimits| *rule == RunningLimits::Strict;
        let queues = settings.running.queues.iter();
        StrictQueues {
            others: is_strict(&settings.running.others),
            queues: queues.map(|(queue, rule)| (queue.to_string(), is_strict(rule))).collect(),
        }
    }

    /// Returns true if limits on running jobs count the job as soon as it is in SCHED.
    pub fn counts(&self, job: &HostJob) -> bool {
        let of_queue = job.queue.as_ref().and_then(|queue| self.queues.get(queue));
        of_queue.copied().unwrap_or(self.others)
    }
}

impl super::Oracle {
    pub fn is_strict(&self, job: &HostJob) -> bool {
        self.strict.counts(job)
    }
}
