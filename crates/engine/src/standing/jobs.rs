// SPDX-License-Identifier: LGPL-3.0-only
//! Starts and ends of jobs. Each may be recorded repeatedly, and in any order.

use std::fmt;

use super::Standing;
use crate::ids::{BankName, JobId, UserId};
use fairshare::periods::Resources;

/// A job that started.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Unique in the Flux instance.
    pub id: JobId,
    /// The user id of the job.
    pub user: UserId,
    /// The bank it is charged to.
    pub bank: BankName,
    /// The allocated resources.
    pub ran_on: Resources,
    /// The start in seconds since the epoch.
    pub start: f64,
    /// The time limit in seconds; 0 for none.
    pub limit: f64,
}

/// A job that cannot be counted because its start or end is not a valid time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadJob {
    /// The id of the job.
    pub id: JobId,
    /// The invalid time.
    pub time: f64,
}

impl fmt::Display for BadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} is not counted: expected a time in seconds since 1970, got {}", self.id, self.time)
    }
}

impl std::error::Error for BadJob {}

impl Standing {
    /// Records that a job runs. For a known job it updates the time limit. Returns an error if the start is not a valid time.
    pub fn started(&mut self, job: &Job) -> Result<(), BadJob> {
        self.table.started(job, self.weights())
    }

    /// Records that `job` ended at `end`, in seconds since the epoch. Returns an error if its start or `end` is not a valid time.
    pub fn ended(&mut self, job: &Job, end: f64) -> Result<(), BadJob> {
        self.table.ended(job, end, self.weights())
    }

    /// Records the end of a job that is known to run. Does nothing for any other id.
    pub fn record_end_of_running(&mut self, id: JobId, end: f64) -> Result<(), BadJob> {
        self.table.record_end_of_running(id, end)
    }

    /// Removes a running job: it never started, or this instance no longer has it.
    pub fn never_ran(&mut self, id: JobId) {
        self.table.never_ran(id);
    }

    /// Evicts ended jobs of the association of job `id`, for sites without refreshes.
    pub fn evict_ended_in_association_of(&mut self, id: JobId, now: f64) {
        if let Some(site) = &self.site {
            self.table.evict_ended_in_association_of(id, now, site.rule.half_life);
        }
    }
}
