// SPDX-License-Identifier: LGPL-3.0-only
//! What the oracle knows of running limits that hold: in which queues they do.

use super::super::site::HostJob;
use crate::accounts::RunningLimits;
use crate::engine::Settings;
use std::collections::BTreeMap;

/// In which queues the running limits are strict.
#[derive(Clone, Debug, Default)]
pub(super) struct StrictIn {
    others: bool,
    queues: BTreeMap<String, bool>,
}

impl StrictIn {
    pub fn of(settings: &Settings) -> StrictIn {
        let is_strict = |rule: &RunningLimits| *rule == RunningLimits::Strict;
        let queues = settings.running.queues.iter();
        StrictIn {
            others: is_strict(&settings.running.others),
            queues: queues.map(|(queue, rule)| (queue.to_string(), is_strict(rule))).collect(),
        }
    }

    /// Whether a job counts before it runs.
    pub fn counts(&self, job: &HostJob) -> bool {
        let of_queue = job.queue.as_ref().and_then(|queue| self.queues.get(queue));
        of_queue.copied().unwrap_or(self.others)
    }
}

impl super::Oracle {
    /// Whether a job's queue, or the site, lets no more into SCHED than could run.
    pub fn is_strict(&self, job: &HostJob) -> bool {
        self.strict.counts(job)
    }
}
