// SPDX-License-Identifier: LGPL-3.0-only
//! The record of a queue, as pushes and the query document have it.

use serde::{Deserialize, Serialize};

/// The value of an unlimited limit.
pub(crate) const UNLIMITED: i64 = i32::MAX as i64;

/// A queue: its priority and its limits.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Queue {
    pub priority: i64,
    min_nodes_per_job: i64,
    max_nodes_per_job: i64,
    max_time_per_job: i64,
    max_running_jobs: i64,
    max_nodes_per_assoc: i64,
    max_sched_jobs: i64,
    max_sched_nodes_per_assoc: i64,
    max_sched_cores_per_assoc: i64,
}

impl Queue {
    /// A queue with priority 0 and no limits.
    pub const UNLIMITED: Queue = Queue {
        priority: 0,
        min_nodes_per_job: 0,
        max_nodes_per_job: UNLIMITED,
        max_time_per_job: UNLIMITED,
        max_running_jobs: UNLIMITED,
        max_nodes_per_assoc: UNLIMITED,
        max_sched_jobs: UNLIMITED,
        max_sched_nodes_per_assoc: UNLIMITED,
        max_sched_cores_per_assoc: UNLIMITED,
    };

    /// Returns the value of the queue limit that holds jobs under the name `limit`, or `None` if there is no such queue limit.
    pub fn cap(&self, limit: &str) -> Option<i64> {
        match limit {
            "max-run-jobs-queue" => Some(self.max_running_jobs),
            "max-sched-jobs-queue-limit" => Some(self.max_sched_jobs),
            "max-sched-nodes-queue-limit" => Some(self.max_sched_nodes_per_assoc),
            "max-sched-cores-queue-limit" => Some(self.max_sched_cores_per_assoc),
            "max-resources-queue" => Some(self.max_nodes_per_assoc),
            _ => None,
        }
    }
}
