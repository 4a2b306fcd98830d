// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that start and end, for [`Standing`](crate::standing::Standing).
//!
//! A job counts from its R's start to when it became INACTIVE, as the accounting database counts it (t_inactive, which is
//! also what its watermarks are made of): until then its resources are its own.

use super::{Effect, Level, Shared};
use crate::ids::JobId;
use crate::limits::{self, Job, Phase};
use crate::standing;
use fairshare::periods::Resources;

/// Ended jobs that are remembered while they can't be given up: without a tree nothing says how they decay.
const MOST_ENDED: usize = 200_000;

/// A job runs, as far as is known where it counts.
pub(in crate::engine) fn accrues(shared: &mut Shared, id: JobId) -> Option<Effect> {
    let job = shared.ledger.job(id).filter(|job| job.phase == Phase::Run)?;
    job.association()?;
    let counted = counted_job(shared, id, job)?;
    unbelievable(shared.standing.started(&counted))
}

/// Counts the usage of a running job from `start` on, if its R has no start.
pub(in crate::engine) fn begin_accrual(shared: &mut Shared, id: JobId, start: f64) -> Option<Effect> {
    if !lacks_start(shared, id) {
        return None;
    }
    shared.ledger.change(id, |job| {
        if let Some(given) = job.allocation.as_mut() {
            given.start = Some(start);
        }
    });
    accrues(shared, id)
}

/// A job that ran is over.
pub(in crate::engine) fn accrued(shared: &mut Shared, id: JobId, job: &Job) -> Option<Effect> {
    if job.phase != Phase::Run {
        return None;
    }
    if shared.standing.tree().is_none() && shared.standing.counts().2 >= MOST_ENDED {
        shared.standing.never_ran(id);
        shared.ended.begin_again();
        return None;
    }
    let counted = counted_job(shared, id, job)?;
    let done = shared.standing.ended(&counted, shared.now);
    if done.is_ok() && shared.settings.remember {
        shared.news.note(counted, shared.now);
    }
    // Without refreshes nothing else gives up ended jobs between two pushes.
    if shared.settings.refresh <= 0.0 || !shared.settings.live {
        shared.standing.evict_ended_in_association_of(id, shared.now);
    }
    unbelievable(done)
}

/// A job is over, and when it ended nobody tells any more. The ledger may have forgotten it before its use was ended.
pub(in crate::engine) fn ended_unheard(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let known = shared.ledger.job(id).cloned();
    let told = known.and_then(|job| accrued(shared, id, &job));
    told.into_iter().chain(unbelievable(shared.standing.record_end_of_running(id, shared.now))).collect()
}

fn unbelievable(done: Result<(), standing::BadJob>) -> Option<Effect> {
    done.err().map(|bad| Effect::Log(Level::Error, bad.to_string()))
}

/// Whether the job runs and its R has no start.
pub(in crate::engine) fn lacks_start(shared: &Shared, id: JobId) -> bool {
    let job = shared.ledger.job(id).filter(|job| job.phase == Phase::Run);
    job.and_then(|job| job.allocation.as_deref()).is_some_and(|given| given.start.is_none())
}

fn counted_job(shared: &Shared, id: JobId, job: &Job) -> Option<standing::Job> {
    let given = job.allocation.as_deref()?;
    // Without a start in its R, a job counts from when it was first seen to run.
    let start = given.start.unwrap_or(shared.now);
    Some(standing::Job {
        id,
        user: job.user,
        bank: shared.bank_of(job.association()).or_else(|| job.bank.clone())?,
        ran_on: Resources { nodes: given.nodes, cores: given.cores, gpus: given.gpus },
        start,
        limit: given.expiration.map_or(0.0, |end| end - start),
    })
}

/// Returns the log line about a running job whose R cannot be read. Such a job is charged nothing for what it holds.
pub(in crate::engine) fn log_unread_resources(id: JobId, resources: &limits::Resources) -> Option<Effect> {
    let what = match resources {
        limits::Resources::Allocated(_) => return None,
        limits::Resources::None => "there is none",
        limits::Resources::Unreadable(what) => what,
    };
    Some(Effect::Log(Level::Error, format!("job {id}: unable to read its R ({what})")))
}

/// Takes over the expiration of a running job.
pub(super) fn take_expiration(shared: &mut Shared, id: JobId, expiration: Option<f64>) -> Vec<Effect> {
    shared.ledger.change(id, |job| {
        if let Some(given) = job.allocation.as_mut() {
            given.expiration = expiration;
        }
    });
    accrues(shared, id).into_iter().collect()
}
