// SPDX-License-Identifier: LGPL-3.0-only
//! What holds a job, and what is in use of limits over scopes, as people are shown it.

use super::counts::{Counts, Tally};
use super::groups::GroupId;
use super::hold::Hold;
use super::job::Job;
use super::ledger::{Ledger, Until};
use super::overtaken::Asker;
use super::scopes::Row;
use super::table::Counted;
use super::usage::Usage;
use crate::accounts::{AssociationId, Book, Cap, Caps, SiteLimit, Target};
use crate::ids::{Amount, BankName, JobId, Limit, QueueName, UserId};

impl Tally {
    pub(super) fn without(self, job: &Job) -> Tally {
        let footprint = job.footprint();
        Tally {
            charged: self.charged.minus(footprint.charged),
            reserved: self.reserved.minus(footprint.reserved),
        }
    }
}

/// A limit as it holds a job: what is in use, how much there may be, and what the job would add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The limit.
    pub hold: Hold,
    /// What of jobs it counts, and of which.
    pub amount: Amount,
    /// Whose jobs count together; `None`: those of the job's association, by its own record or its queue's.
    pub target: Option<Target>,
    /// Only jobs of this queue.
    pub queue: Option<QueueName>,
    /// What is in use and reserved.
    pub used: u64,
    /// Of that, what is reserved for released jobs.
    pub reserved: u64,
    /// The cap.
    pub limit: Limit,
    /// What the job would add.
    pub needed: u64,
    /// The overtaken job for which the scope keeps what is left.
    pub kept_for: Option<JobId>,
}

/// A limit over a scope with what is in use of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeUsage {
    /// The limit.
    pub limit: SiteLimit,
    /// What is in use, reservations included. `None` for a limit on each: that is as many limits as there are.
    pub used: Option<u64>,
    /// The reservations of released jobs.
    pub reserved: Option<u64>,
}

impl Ledger {
    /// The limits that hold a job now, or would if it were to be let go now, of all scopes, in the order of their names. What
    /// it has itself does not count.
    pub fn holding(&self, book: &Book, id: JobId) -> Vec<Holding> {
        let Some((job, association)) = self.job(id).and_then(|job| Some((job, job.association()?))) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        let none = Usage::default();
        let usage = self.usage(association).unwrap_or(&none);
        if let Some(limits) = book.association(association) {
            let counted = self.rules().counted(book, limits, job.queue.as_ref(), usage);
            all.extend(counted.map(|Counted { hold, rule, queue, tally, measure, limit }| {
                let tally = tally.without(job);
                Holding {
                    hold,
                    amount: Amount { stage: rule.stage, measure },
                    target: None,
                    queue: queue.map(|queue| queue.name.clone()),
                    used: tally.used(rule.stage, measure, false),
                    reserved: Tally { charged: Counts::default(), ..tally }.used(rule.stage, measure, false),
                    limit,
                    needed: job.size.of(measure),
                    kept_for: None,
                }
            }));
        }
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        let footprint = job.footprint();
        let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        for group in groups.filter(|group| group.has(job.queue.as_ref())) {
            let kept = self.kept_from(group, asker);
            all.extend(group.meters.iter().map(|meter| {
                let needed = job.size.of(meter.amount.measure);
                let has_it = meter.used_by(footprint) >= needed;
                Holding {
                    hold: meter.hold,
                    amount: meter.amount,
                    target: Some(group.target.clone()),
                    queue: group.queue.clone(),
                    used: meter.used_but(Some(footprint)),
                    reserved: meter.reserved.saturating_sub(meter.parts_of(footprint).1),
                    limit: meter.cap.limit,
                    needed,
                    kept_for: kept.of(meter).filter(|_| !has_it),
                }
            }));
        }
        all.retain(|one| {
            one.needed > 0 && (one.kept_for.is_some() || !one.limit.admits(one.used, one.needed))
        });
        all.sort_by_key(|one| one.hold);
        all
    }

    /// Jobs that a limit over a scope of the association counts, at most `most`, each with when it ends at the latest, if that is known; the
    /// first to end comes first.
    pub fn counted_in_scope(
        &self,
        association: AssociationId,
        target: &Target,
        queue: Option<&QueueName>,
        most: usize,
    ) -> Vec<(JobId, Option<f64>)> {
        let is_it = |id: &&GroupId| {
            let group = self.groups.get(**id);
            group.is_some_and(|group| group.target == *target && group.queue.as_ref() == queue)
        };
        let Some(scope) = self.member_of(association).iter().find(is_it) else { return Vec::new() };
        let members =
            self.accounts.iter().filter(|account| account.member_of.iter().flatten().any(|id| id == scope));
        let jobs = members.flat_map(|account| account.counted.iter().copied());
        let counts_in =
            |job: &Job| self.groups.limits().counts_in(queue, job.queue.as_ref().map(|queue| queue.as_str()));
        let is_here = |(_, id): &(Until, JobId)| queue.is_none() || self.job(*id).is_some_and(counts_in);
        let mut jobs: Vec<(Until, JobId)> = jobs.filter(is_here).take(most).collect();
        jobs.sort_unstable();
        jobs.into_iter().map(|(until, id)| (id, until.time())).collect()
    }

    /// All limits over scopes as they were set.
    pub fn scope_usages(&self) -> Vec<ScopeUsage> {
        let shown = |(target, queue, amount, cap): (&Target, Option<&QueueName>, Amount, Cap)| {
            let is_each = target.each().is_none();
            let used = (!is_each)
                .then(|| self.groups.find(target, queue).map_or((0, 0), |group| group.used(amount)));
            let limit = SiteLimit { target: target.clone(), queue: queue.cloned(), amount, cap };
            ScopeUsage {
                limit,
                used: used.map(|(used, _)| used),
                reserved: used.map(|(_, reserved)| reserved),
            }
        };
        self.groups.limits().iter().map(shown).collect()
    }

    /// The limits over scopes under which the jobs of a user in a bank come, each on whoever it counts them with.
    pub fn scope_usages_on(&self, user: UserId, bank: &BankName) -> Vec<(Hold, ScopeUsage)> {
        let of_target = |(target, queue, caps): (Target, Option<QueueName>, Caps)| {
            let scope = target.scope(queue.is_some());
            let group = self.groups.find(&target, queue.as_ref());
            caps.into_iter().map(move |(amount, cap)| {
                let (used, reserved) = group.map_or((0, 0), |group| group.used(amount));
                let limit = SiteLimit { target: target.clone(), queue: queue.clone(), amount, cap };
                let usage = ScopeUsage { limit, used: Some(used), reserved: Some(reserved) };
                (Row { scope, amount }.hold(), usage)
            })
        };
        self.groups.limits().on(user, bank).into_iter().flat_map(of_target).collect()
    }
}
