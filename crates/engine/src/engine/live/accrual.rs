// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that start and end, for [`Standing`](crate::standing::Standing).
//!
//! A job counts from its R's start to when it became INACTIVE, as the accounting database counts it (t_inactive, which is
//! also what its watermarks are made of): until then its resources are its own.

use super::super::{Effect, Engine, Level};
use super::ended::Asking;
use crate::engine::View;
use crate::ids::JobId;
use crate::limits::{Job, Phase};
use crate::standing;
use fairshare::periods::Resources;

/// Ended jobs that are remembered while they can't be given up: without a tree nothing says how they decay.
const MOST_ENDED: usize = 200_000;

impl Engine {
    /// A job runs, as far as is known where it counts.
    pub(in crate::engine) fn accrues(&mut self, id: JobId) -> Option<Effect> {
        let job = self.ledger.job(id).filter(|job| job.phase == Phase::Run)?;
        job.association()?;
        let counted = counted_job(&self.view(), id, job)?;
        unbelievable(self.standing.started(&counted))
    }

    /// Counts the usage of a running job from `start` on, if its R has no start.
    pub(in crate::engine) fn begin_accrual(&mut self, id: JobId, start: f64) -> Option<Effect> {
        if !lacks_start(&self.view(), id) {
            return None;
        }
        self.ledger.change(id, |job| {
            if let Some(given) = job.allocation.as_mut() {
                given.start = Some(start);
            }
        });
        self.accrues(id)
    }

    /// A job that ran is over.
    pub(in crate::engine) fn accrued(&mut self, id: JobId, job: &Job) -> Option<Effect> {
        if job.phase != Phase::Run {
            return None;
        }
        if self.standing.tree().is_none() && self.standing.counts().2 >= MOST_ENDED {
            self.standing.never_ran(id);
            self.live.asking = Asking::default();
            return None;
        }
        let counted = counted_job(&self.view(), id, job)?;
        let done = self.standing.ended(&counted, self.now);
        if done.is_ok() && self.settings.remember {
            self.news.note(counted, self.now);
        }
        // Without refreshes nothing else gives up ended jobs between two pushes.
        if self.settings.refresh <= 0.0 || !self.settings.live {
            self.standing.give_up_beside(id, self.now);
        }
        unbelievable(done)
    }

    /// A job is over, and when it ended nobody tells any more. The ledger may have forgotten it before its use was ended.
    pub(in crate::engine) fn ended_unheard(&mut self, id: JobId) -> Vec<Effect> {
        let known = self.ledger.job(id).cloned();
        let told = known.and_then(|job| self.accrued(id, &job));
        told.into_iter().chain(unbelievable(self.standing.over(id, self.now))).collect()
    }
}

fn unbelievable(done: Result<(), standing::BadJob>) -> Option<Effect> {
    done.err().map(|bad| Effect::Log(Level::Error, bad.to_string()))
}

/// Whether the job runs and its R has no start.
pub(in crate::engine) fn lacks_start(view: &View<'_>, id: JobId) -> bool {
    let job = view.ledger.job(id).filter(|job| job.phase == Phase::Run);
    job.and_then(|job| job.allocation.as_deref()).is_some_and(|given| given.start.is_none())
}

fn counted_job(view: &View<'_>, id: JobId, job: &Job) -> Option<standing::Job> {
    let given = job.allocation.as_deref()?;
    // Without a start in its R, a job counts from when it was first seen to run.
    let start = given.start.unwrap_or(view.now);
    Some(standing::Job {
        id,
        user: job.user,
        bank: view.bank_of(job.association()).or_else(|| job.bank.clone())?,
        ran_on: Resources { nodes: given.nodes, cores: given.cores, gpus: given.gpus },
        start,
        limit: given.expiration.map_or(0.0, |end| end - start),
    })
}
