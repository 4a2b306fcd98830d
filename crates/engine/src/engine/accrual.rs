// SPDX-License-Identifier: LGPL-3.0-only
//! Reports the starts and ends of jobs to [`Standing`](crate::standing::Standing).
//!
//! A job accrues usage from the start time in its R until the job is INACTIVE. Until then, Flux gives the resources
//! of the job to no other job. The accounting database counts the same interval, so watermarks are compared with
//! `t_inactive`.

use super::{Effect, Level, Shared, budgets::charge_job_at_end};
use crate::ids::JobId;
use crate::limits::{self, Allocation, Job, Phase};
use crate::standing;
use fairshare::periods::Resources;

/// The largest number of ended jobs stored without a tree. Without a tree there is no half-life, so no job can be evicted.
const MAX_ENDED: usize = 200_000;

/// Records that a job in RUN has started, if its bank is known. Returns a log line if the start time is invalid.
pub fn record_start_of_job(shared: &mut Shared, id: JobId) -> Option<Effect> {
    let job = shared.ledger.job(id).filter(|job| job.phase == Phase::Run)?;
    job.association()?;
    let usage_job = make_usage_job(shared, id, job)?;
    log_bad_record(shared.standing.usages.track_start(&usage_job))
}

/// If the R of a running job has no start, counts the usage of the job from `start` on, in seconds since the epoch.
pub fn begin_accrual(shared: &mut Shared, id: JobId, start: f64) -> Option<Effect> {
    if !lacks_start(shared, id) {
        return None;
    }
    change_allocation(shared, id, |given| given.start = Some(start))
}

/// Records the end of a job that was in RUN. Returns a log line if [`Standing`](crate::standing::Standing) rejects the record.
pub fn record_end(shared: &mut Shared, id: JobId, job: &Job) -> Option<Effect> {
    if job.phase != Phase::Run {
        return None;
    }
    if shared.standing.tree().is_none() && shared.standing.usages.counts().2 >= MAX_ENDED {
        shared.standing.usages.remove_job_stored_as_running(id);
        shared.ended.restart_query();
        return None;
    }
    let usage_job = make_usage_job(shared, id, job)?;
    let now = shared.now;
    let result = charge_job_at_end(shared, id, |usages| usages.track_end(&usage_job, now));
    if result.is_ok() && shared.settings.remember {
        let queue = shared.standing.usages.charging().charged_queue(usage_job.queue.as_ref()).cloned();
        // Only budgets need the time limit of an ended job.
        let limit = if shared.budgets.is_empty() { 0.0 } else { usage_job.limit };
        shared.unsaved_ended.store_ended_job(standing::Job { queue, limit, ..usage_job }, now);
    }
    // While refreshes are off, only this call evicts ended jobs between two pushes.
    if let Some(half_life) = shared.standing.rule().map(|rule| rule.half_life)
        && (shared.settings.refresh <= 0.0 || !shared.settings.live)
    {
        shared.standing.usages.evict_ended_jobs_of_same_association(id, shared.now, half_life);
    }
    log_bad_record(result)
}

/// Records the end of a job at the present time, because no callback reported the end. The ledger may no longer have
/// the job.
pub fn record_unreported_end(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let last_record = shared.ledger.job(id).cloned();
    let logged = last_record.and_then(|job| record_end(shared, id, &job));
    let now = shared.now;
    let result = charge_job_at_end(shared, id, |usages| usages.record_end_of_running_job(id, now));
    logged.into_iter().chain(log_bad_record(result)).collect()
}

fn log_bad_record(done: Result<(), standing::InvalidJobTime>) -> Option<Effect> {
    done.err().map(|bad| Effect::Log(Level::Error, bad.to_string()))
}

/// Returns true if the job runs and its R has no start.
pub fn lacks_start(shared: &Shared, id: JobId) -> bool {
    let job = shared.ledger.job(id).filter(|job| job.phase == Phase::Run);
    job.and_then(|job| job.allocation.as_deref()).is_some_and(|given| given.start.is_none())
}

fn make_usage_job(shared: &Shared, id: JobId, job: &Job) -> Option<standing::Job> {
    let given = job.allocation.as_deref()?;
    // If R has no start, the job counts from the time when the engine first saw it run.
    let start = given.start.unwrap_or(shared.now);
    Some(standing::Job {
        id,
        user: job.user,
        bank: shared.bank_of_job(job)?,
        queue: job.queue.clone(),
        ran_on: Resources { nodes: given.nodes, cores: given.cores, gpus: given.gpus },
        start,
        limit: given.expiration.map_or(0.0, |end| end - start),
    })
}

/// Returns a log line if the R of a running job cannot be read. Such a job accrues no usage.
pub fn log_unreadable_allocation(id: JobId, resources: &limits::Resources) -> Option<Effect> {
    let reason = match resources {
        limits::Resources::Allocated(_) => return None,
        limits::Resources::None => "there is none",
        limits::Resources::Unreadable(reason) => reason,
    };
    Some(Effect::Log(Level::Error, format!("job {id}: unable to read its R ({reason})")))
}

/// Stores the expiration of a running job, in seconds since the epoch; `None` if the job may run indefinitely.
pub fn store_expiration(shared: &mut Shared, id: JobId, expiration: Option<f64>) -> Vec<Effect> {
    Vec::from_iter(change_allocation(shared, id, |given| given.expiration = expiration))
}

/// Changes the R of a job, and records the job's start again.
fn change_allocation(shared: &mut Shared, id: JobId, change: impl FnOnce(&mut Allocation)) -> Option<Effect> {
    shared.ledger.change(id, |job| job.allocation.as_deref_mut().map(change));
    record_start_of_job(shared, id)
}
