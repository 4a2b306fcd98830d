// SPDX-License-Identifier: LGPL-3.0-only
//! Copies a part of the ledger. The engine simulates releases in the copy, to predict when a held job is released.

use super::super::Size;
use super::{Class, Job, JobRow, Ledger};
use crate::accounts::AssociationId;
use crate::ids::{Amount, JobId};
use serde::{Deserialize, Serialize};

/// The position of a job in a list. A held job has a position among the held jobs of its association, in the order of
/// release. A pending job has a position in its scheduler queue, by posted priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PositionAmongJobs {
    /// The position: 1 for the first job.
    pub place: usize,
    /// The total number of jobs in the list.
    pub of: usize,
}

impl Ledger {
    /// Returns the held jobs of the association that compete with job `id` for headroom. A competing job may be
    /// released before job `id`, or may use headroom that job `id` needs. Returns `None` if there are more than
    /// `most`.
    pub fn rivals(&self, id: JobId, most: usize) -> Option<Vec<JobId>> {
        let job = self.job(id)?;
        let own = Class::for_job(job);
        let mut rivals = Vec::new();
        let lines = self
            .accounts
            .jobs_by_class(job.association()?)
            .filter(|(class, _)| class.block_state <= own.block_state);
        for (class, line) in lines {
            let is_own = *class == own;
            let mut after = None;
            let requests_less = |size: Size| size.nodes < job.size.nodes || size.cores < job.size.cores;
            while let Some(next) =
                line.find_next(after, |size| !is_own || after.is_none_or(|at| at < id) || requests_less(size))
            {
                after = Some(next);
                if is_own && next >= id && self.job(next).is_some_and(|it| !requests_less(it.size)) {
                    continue;
                }
                if rivals.len() == most {
                    return None;
                }
                rivals.push(next);
            }
        }
        Some(rivals)
    }

    /// Returns a copy of the ledger with the counters of one association, and with only the jobs in `jobs`. The copy
    /// has no limit scopes, because jobs of other associations count in the scopes too.
    pub fn excerpt(&self, association: AssociationId, jobs: impl Iterator<Item = JobId>) -> Ledger {
        let original = self.accounts.get(association);
        let mut excerpt = Ledger::new(self.rules);
        let (_, account) = excerpt.accounts.borrow_scopes_and_account(association);
        (account.usage, account.unread) = (original.usage.clone(), original.unread);
        for id in jobs {
            let Some(job) = self.job(id).filter(|job| job.association() == Some(association)) else {
                continue;
            };
            if job.is_held() {
                account.held.entry(Class::for_job(job)).or_default().insert(id, job.size);
            }
            excerpt.jobs.insert(id, JobRow { cached_priority: None, job: Box::new(job.clone()) });
        }
        excerpt.stopped = self.stopped.clone();
        excerpt
    }
}

impl Amount {
    /// Returns the amount that a job uses or reserves under a limit on this amount. If `is_given` is true, a running job
    /// counts with its allocated resources. Suspended reservations are included only if `counts_suspended` is true.
    pub fn sum_used_and_reserved(self, job: &Job, is_given: bool, counts_suspended: bool) -> u64 {
        let (charged, reserved, suspended) = job.footprint().amounts(self, is_given);
        let suspended = if counts_suspended { suspended } else { 0 };
        charged.saturating_add(reserved).saturating_add(suspended)
    }
}
