// SPDX-License-Identifier: LGPL-3.0-only
//! What the oracle knows of limits over scopes: whose jobs count together, and who comes first.

use super::*;
use crate::engine::Past;

impl Oracle {
    /// Whether jobs of `bank` count in `above`.
    pub(super) fn is_below(&self, bank: &BankName, above: &BankName) -> bool {
        let mut at = Some(bank);
        while let Some(bank) = at {
            if bank == above {
                return true;
            }
            at = self.parents.get(bank);
        }
        false
    }

    /// Whether a limit is on the jobs of an association, and not displaced by one that names it.
    pub(super) fn is_on(&self, limit: &SiteLimit, user: UserId, bank: &BankName) -> bool {
        let named = |target: Target| {
            let same = |other: &&SiteLimit| other.queue == limit.queue && other.amount == limit.amount;
            self.limits.iter().filter(same).any(|other| other.target == target)
        };
        match &limit.target {
            Target::Association(whose, at) => (*whose, at) == (user, bank),
            Target::EachAssociation => !named(Target::Association(user, bank.clone())),
            Target::Bank(above) => self.is_below(bank, above),
            Target::EachBank => {
                !self.parents.values().any(|above| above == bank) && !named(Target::Bank(bank.clone()))
            }
            Target::User(whose) => *whose == user,
            Target::EachUser => !named(Target::User(user)),
        }
    }

    /// Whether jobs of another association count together with those of this one under a limit.
    pub(super) fn counts_with(
        &self,
        limit: &SiteLimit,
        mine: (UserId, &BankName),
        theirs: (UserId, &BankName),
    ) -> bool {
        match &limit.target {
            Target::Association(..) | Target::EachAssociation | Target::EachBank if mine.1 != theirs.1 => {
                false
            }
            Target::Association(..) | Target::EachAssociation => mine.0 == theirs.0,
            Target::EachBank => true,
            Target::Bank(above) => self.is_below(theirs.1, above),
            Target::User(_) | Target::EachUser => mine.0 == theirs.0,
        }
    }

    /// Whether an eventlog is being read of a job that counts together with this one under a limit.
    pub(super) fn is_put_off(&self, jobs: &BTreeMap<JobId, HostJob>, job: &HostJob) -> bool {
        let Some(mine) = self.association(job).map(|mine| (mine.user, &mine.bank)) else { return false };
        let on = self.limits.iter().filter(|limit| self.is_on(limit, mine.0, mine.1) && is_in(limit, job));
        let unread = || self.unread.iter().filter_map(|id| jobs.get(id));
        let counts = |limit: &SiteLimit, other: &HostJob| {
            let theirs = self.association(other).map(|theirs| (theirs.user, &theirs.bank));
            is_in(limit, other) && theirs.is_some_and(|theirs| self.counts_with(limit, mine, theirs))
        };
        on.into_iter().any(|limit| unread().any(|other| counts(limit, other)))
    }

    /// Limits over scopes beyond which jobs run or are scheduled; of those on running jobs only if all that can run do.
    pub fn overfull(&self, jobs: &BTreeMap<JobId, HostJob>, is_eager: bool) -> Vec<String> {
        let mut overfull = Vec::new();
        for record in self.associations.values() {
            let mine = (record.association.user, &record.association.bank);
            for limit in self.limits.iter().filter(|limit| self.is_on(limit, mine.0, mine.1)) {
                let counts = |job: &&HostJob| {
                    let stage = match limit.amount.stage {
                        Stage::Running => is_eager && job.state == State::Run,
                        Stage::Scheduled => job.is_scheduled(),
                        Stage::RunningAndScheduled => job.state == State::Run || job.is_scheduled(),
                    };
                    let theirs = self.association(job).map(|theirs| (theirs.user, &theirs.bank));
                    stage
                        && is_in(limit, job)
                        && theirs.is_some_and(|theirs| self.counts_with(limit, mine, theirs))
                };
                let of = |job: &HostJob| match limit.amount.measure {
                    Measure::Jobs => 1,
                    Measure::Nodes => job.size.nodes,
                    Measure::Cores => job.size.cores,
                    Measure::Gpus => job.size.gpus,
                };
                let used: u64 = jobs.values().filter(counts).map(of).sum();
                if !limit.cap.limit.admits(used, 0) {
                    overfull.push(format!("{used} of {limit:?}"));
                }
            }
        }
        overfull
    }

    /// What places an association among those it shares limits with: the price of its first held job, and which that is.
    /// `None` where more than that decides it.
    pub(super) fn place(
        &self,
        jobs: &BTreeMap<JobId, HostJob>,
        whose: (UserId, &BankName),
    ) -> Option<(i64, JobId)> {
        let held: Vec<(&JobId, &HostJob)> = jobs
            .iter()
            .filter(|(_, job)| self.association(job).map(|a| (a.user, &a.bank)) == Some(whose))
            .filter(|(_, job)| self.is_in_line(job))
            .collect();
        let (first, head) = held.first()?;
        let is_plain = |(id, job): &(&JobId, &HostJob)| {
            job.queue == head.queue
                && !self.unknown.contains(id)
                && !self.is_put_off(jobs, job)
                && job.dependencies.iter().all(|name| is_ours(name))
        };
        // An urgency that changed in DEPEND is not known before the job is let go.
        let is_as_submitted =
            head.past.iter().filter(|(_, past)| matches!(past, Past::Urgency(_))).count() <= 1;
        if !held.iter().all(is_plain) || !is_as_submitted {
            return None;
        }
        let record = self.record(head)?;
        let queue = head.queue.as_ref().and_then(|queue| self.queues.get(queue)).map_or(0, |q| q.priority);
        let terms = self.weight.unwrap_or(100_000) as f64 * record.fairshare
            + (10_000 * queue + 1_000 * (head.urgency_at_first - 16)) as f64;
        let price = match head.urgency_at_first {
            0 => 0,
            31 => i64::from(u32::MAX),
            _ => (terms.round() as i64).max(0),
        };
        Some((-price, **first))
    }
}
