// SPDX-License-Identifier: LGPL-3.0-only
//! The rules that define when a job begins to count under the limits on running jobs.

use crate::ids::QueueName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::EnumString;

/// A rule that defines when a job begins to count under the limits on running jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RunningLimits {
    /// A job counts from its start, and a held job counts from its release, as in flux-accounting. The limits are checked
    /// when a job leaves DEPEND. So on a busy machine, more jobs may enter SCHED than the limits allow to run, and all of
    /// these jobs will run.
    #[default]
    Upstream,
    /// A job counts from the time when it leaves DEPEND, so jobs in SCHED count too. There are never more jobs in SCHED
    /// than may run at once.
    Strict,
}

/// The rules that a site chose for its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunningLimitSettings {
    /// The rule for jobs without a queue, and for jobs in queues that `queues` does not contain.
    #[serde(rename = "default")]
    pub others: RunningLimits,
    /// The limit rule of each queue that does not use the default rule.
    pub queues: BTreeMap<QueueName, RunningLimits>,
}

impl RunningLimitSettings {
    /// Returns the rule that decides when a job in `queue` begins to count under limits on running jobs.
    pub fn queue(&self, queue: Option<&QueueName>) -> RunningLimits {
        queue.and_then(|queue| self.queues.get(queue)).copied().unwrap_or(self.others)
    }
}
