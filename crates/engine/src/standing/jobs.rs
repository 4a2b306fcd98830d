// SPDX-License-Identifier: LGPL-3.0-only
//! Starts and ends of jobs. A start or an end may be recorded repeatedly, and in any order.

use crate::ids::{BankName, JobId, QueueName, UserId};
use fairshare::periods::Resources;

/// A job that started.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The id, which is unique in the Flux instance.
    pub id: JobId,
    /// The user id of the job.
    pub user: UserId,
    /// The bank that the job is charged to.
    pub bank: BankName,
    /// The queue of the job.
    pub queue: Option<QueueName>,
    /// The allocated resources.
    pub ran_on: Resources,
    /// The start in seconds since the epoch.
    pub start: f64,
    /// The time limit in seconds; 0 for none.
    pub limit: f64,
}

/// A job that cannot be counted because its start or end is not a valid time.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("job {id} is not counted: expected a time in seconds since 1970, got {time}")]
pub struct InvalidJobTime {
    /// The id of the job.
    pub id: JobId,
    /// The invalid time.
    pub time: f64,
}
