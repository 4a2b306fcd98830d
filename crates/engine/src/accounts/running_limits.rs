// SPDX-License-Identifier: LGPL-3.0-only
//! From when on a job counts for limits on what runs: what a site chooses, for all queues and for some.

use crate::ids::QueueName;
use std::collections::BTreeMap;

/// From when on a job counts for limits on what runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunningLimits {
    /// When it runs, as in flux-accounting; one that was held, when it is released. They are looked at when a job leaves
    /// DEPEND, so that on a busy machine more of them get into SCHED than may run, and later all of them run.
    #[default]
    Upstream,
    /// When it is on its way to the scheduler: no more of them are in SCHED than could run at once.
    Strict,
}

impl RunningLimits {
    /// Both of them.
    pub const ALL: [RunningLimits; 2] = [RunningLimits::Upstream, RunningLimits::Strict];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            RunningLimits::Upstream => "upstream",
            RunningLimits::Strict => "strict",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<RunningLimits> {
        RunningLimits::ALL.into_iter().find(|rule| rule.name() == text)
    }
}

/// What a site chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningLimitsOf {
    /// Of jobs in queues that are not listed, and of those without queue.
    pub others: RunningLimits,
    /// Of jobs in these.
    pub queues: BTreeMap<QueueName, RunningLimits>,
}

impl RunningLimitsOf {
    /// The rule by which jobs of a queue count.
    pub fn queue(&self, queue: Option<&QueueName>) -> RunningLimits {
        queue.and_then(|queue| self.queues.get(queue)).copied().unwrap_or(self.others)
    }
}
