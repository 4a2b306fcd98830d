// SPDX-License-Identifier: LGPL-3.0-only
//! Reads ended jobs from job-list.

use fairshare_engine::engine::EndedJob;
use fairshare_engine::ids::{JobId, UserId};
use serde_json::json;

/// The maximum time in seconds that Flux takes to store the R of a job before the job starts.
const LONGEST_STORE: f64 = 60.0;

/// FLUX_JOB_STATE_INACTIVE.
const INACTIVE: u32 = 64;

/// Returns the request for at most `most` jobs that ended after `since` and, if `before` is given, at or before
/// `before`. job-list lists the latest jobs first.
pub(super) fn build_list_request(since: f64, before: Option<f64>, most: usize) -> String {
    // Only inactive jobs have `t_inactive`, so a constraint on the state would change nothing. Each
    // constraint costs comparisons, and Flux stops after a million of them.
    let constraint = match before {
        Some(time) => json!({"t_inactive": [format!("<={time:?}")]}),
        None => json!({"states": [INACTIVE]}),
    };
    let attributes =
        ["userid", "bank", "queue", "t_run", "t_inactive", "nnodes", "ncores", "expiration", "duration"];
    json!({"max_entries": most, "since": since.max(0.0), "attrs": attributes, "constraint": constraint})
        .to_string()
}

/// Returns the jobs of a reply, or `None` if the reply cannot be read.
pub(super) fn read_jobs(reply: &str) -> Option<Vec<EndedJob>> {
    #[derive(serde::Deserialize)]
    struct Reply {
        jobs: Vec<Job>,
    }
    /// A job in job-list's reply. Members that do not apply to the job are absent: a job that never ran has no `t_run`.
    #[derive(serde::Deserialize)]
    struct Job {
        id: u64,
        userid: u32,
        bank: Option<String>,
        queue: Option<String>,
        t_run: Option<f64>,
        t_inactive: f64,
        #[serde(default)]
        nnodes: u64,
        #[serde(default)]
        ncores: u64,
        /// 0 without a time limit.
        #[serde(default)]
        expiration: f64,
        /// 0 without a time limit.
        #[serde(default)]
        duration: f64,
    }
    impl Job {
        /// Returns the start of the allocation and the end of the time limit, or `None` without a time limit. job-list
        /// does not report the start in R. Schedulers set the expiration in R to this start plus the time limit, unless
        /// the expiration of the instance is earlier. In that case the computed start is not plausible, and `t_run` is
        /// returned as the start.
        fn allocated(&self) -> Option<(f64, f64)> {
            let (start, t_run) = (self.expiration - self.duration, self.t_run?);
            let is_limited = self.expiration > 0.0 && self.duration > 0.0;
            let is_plausible = (0.0..LONGEST_STORE).contains(&(t_run - start));
            is_limited.then_some((if is_plausible { start } else { t_run }, self.expiration))
        }
    }
    let reply: Reply = serde_json::from_str(reply).ok()?;
    let job = |job: Job| EndedJob {
        id: JobId(job.id),
        user: UserId(job.userid),
        bank: job.bank.as_deref().map(Into::into),
        queue: job.queue.as_deref().map(Into::into),
        nodes: job.nnodes,
        cores: job.ncores,
        ran: job.t_run.map(|start| (start, job.t_inactive)),
        allocated: job.allocated(),
        end: job.t_inactive,
    };
    Some(reply.jobs.into_iter().map(job).collect())
}
