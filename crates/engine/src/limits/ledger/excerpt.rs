// SPDX-License-Identifier: LGPL-3.0-only
//! Excerpts of the ledger, in which the code that releases jobs predicts when a held job goes.

use super::super::{Accounts, Size};
use super::{Account, Class, Job, Ledger};
use crate::accounts::AssociationId;
use crate::ids::{Amount, JobId, Measure, Stage};
use serde::{Deserialize, Serialize};

/// The place of a held job among the held jobs of its association, in the order of release; or that of a pending job in its scheduler
/// queue, by posted priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceInLine {
    /// 1 for the first.
    pub place: usize,
    /// The number of jobs with a place.
    pub of: usize,
}

impl Ledger {
    /// Returns the held jobs of the same association that may be released before `id`, or take the headroom that it needs: all jobs before
    /// it, and those after it that request less or have other names. Returns `None` if there are more than `most`.
    pub fn rivals(&self, id: JobId, most: usize) -> Option<Vec<JobId>> {
        let job = self.job(id)?;
        let own = Class::for_job(job);
        let mut rivals = Vec::new();
        let lines = self.accounts.lines(job.association()?).filter(|(class, _)| class.keepers <= own.keepers);
        for (class, line) in lines {
            let is_own = *class == own;
            let mut after = None;
            let is_less = |size: Size| size.nodes < job.size.nodes || size.cores < job.size.cores;
            while let Some(next) =
                line.next(after, |size| !is_own || after.is_none_or(|at| at < id) || is_less(size))
            {
                after = Some(next);
                if is_own && next >= id && self.job(next).is_some_and(|it| !is_less(it.size)) {
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

    /// Returns a ledger of one association with all of its counters, and with `jobs` as its only jobs. It contains no limits over scopes,
    /// because other associations use them too.
    pub fn excerpt(&self, association: AssociationId, jobs: impl Iterator<Item = JobId>) -> Ledger {
        let whole = self.accounts.get(association);
        let mut account = Account {
            usage: whole.map(|account| account.usage.clone()).unwrap_or_default(),
            unread: whole.map_or(0, |account| account.unread),
            ..Account::default()
        };
        let mut excerpt = Ledger::new(self.rules);
        for id in jobs {
            let Some(job) = self.job(id).filter(|job| job.association() == Some(association)) else {
                continue;
            };
            if job.is_held() {
                account.held.entry(Class::for_job(job)).or_default().insert(id, job.size);
            }
            excerpt.jobs.insert(id, job.clone().into());
        }
        excerpt.stopped = self.stopped.clone();
        excerpt.accounts = Accounts::with_one(association, account);
        excerpt
    }
}

impl Stage {
    /// Returns how much of `measure` a job counts as under limits on this stage. A suspended reservation counts if `counts_suspended` is
    /// true.
    pub fn taken(self, job: &Job, measure: Measure, counts_suspended: bool) -> u64 {
        let (amount, tally) = (Amount { stage: self, measure }, job.footprint().tally);
        let (charged, reserved) = tally.parts(amount, false);
        let suspended = if counts_suspended { tally.suspended_of(amount) } else { 0 };
        charged.saturating_add(reserved).saturating_add(suspended)
    }
}
