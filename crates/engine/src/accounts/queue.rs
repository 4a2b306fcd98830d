// SPDX-License-Identifier: LGPL-3.0-only
//! A queue's priority and the caps it puts on each association.

use crate::ids::{Limit, QueueName};

/// One queue, as pushed. The `*_per_job` values are carried and shown; flux-core's own policy enforces them.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
    /// Factor of the priority, weighted by the `queue` weight.
    pub priority: i64,
    /// Cap on running jobs of an association in this queue.
    pub max_running_jobs: Limit,
    /// Cap on nodes of an association's running and scheduled jobs, and of each job.
    pub max_nodes_per_assoc: Limit,
    /// Cap on an association's jobs in SCHED.
    pub max_sched_jobs: Limit,
    /// Cap on the nodes of an association's jobs in SCHED.
    pub max_sched_nodes_per_assoc: Limit,
    /// Cap on the cores of an association's jobs in SCHED.
    pub max_sched_cores_per_assoc: Limit,
    /// Shown only.
    pub min_nodes_per_job: i64,
    /// Shown only.
    pub max_nodes_per_job: i64,
    /// Shown only.
    pub max_time_per_job: i64,
}
