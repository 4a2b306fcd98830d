// SPDX-License-Identifier: LGPL-3.0-only
//! A queue with its priority and its caps on each association.

use crate::ids::{Limit, QueueName};
use serde::{Deserialize, Serialize};

/// A queue, as pushed. The limits on each single job (`*_per_job`) are only shown, unless the setting `enforce-queue-shapes` is true.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// The name of the queue, as in Flux's configuration.
    pub name: QueueName,
    /// The minimum number of nodes of a job.
    pub min_nodes_per_job: i64,
    /// The maximum number of nodes of a job.
    pub max_nodes_per_job: i64,
    /// The maximum time limit of a job, in minutes; 0 or less means unlimited.
    pub max_time_per_job: i64,
    /// The value of the factor `queue`.
    pub priority: i64,
    /// Cap on an association's running jobs.
    pub max_running_jobs: Limit,
    /// Cap on the nodes of an association's running and scheduled jobs, and of each job.
    pub max_nodes_per_assoc: Limit,
    /// Cap on an association's jobs in SCHED.
    pub max_sched_jobs: Limit,
    /// Cap on the nodes of an association's jobs in SCHED.
    pub max_sched_nodes_per_assoc: Limit,
    /// Cap on the cores of an association's jobs in SCHED.
    pub max_sched_cores_per_assoc: Limit,
}
