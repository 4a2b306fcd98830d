// SPDX-License-Identifier: LGPL-3.0-only
//! Counters of limits, and the headroom that they leave to a job.
//!
//! Some limits have their caps in the records of associations and queues, others are limits over scopes. Every decision and every answer
//! reads both kinds as [`AppliedLimit`].

use super::counts::Tally;
use super::hold::{Hold, HoldSet};
use super::job::{Footprint, Job};
use super::ledger::{Account, LatestEnd, Ledger};
use super::overtaken::{Asker, Overtaken};
use super::scope::{LimitScope, ScopeId, ScopeToJoin, find_active_jobs_cap};
use super::scope_rows::{ScopeRow, rejection, show_queue};
use super::size::Size;
use crate::accounts::{AssociationId, Book, Cap, ScopeCaps, SiteLimit, Target};
use crate::ids::{Amount, BankName, JobId, Limit, Measure, QueueName, Stage, UserId};

/// A cap, and how much of it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    pub hold: Hold,
    pub amount: Amount,
    pub cap: Cap,
    /// The amount in use by jobs in SCHED and RUN.
    pub charged: u64,
    /// The amount reserved for released jobs.
    pub reserved: u64,
    /// The suspended reservations of released jobs in stopped queues.
    suspended: u64,
}

impl Counter {
    pub fn new(hold: Hold, amount: Amount, cap: Cap, tally: &Tally) -> Counter {
        let (charged, reserved) = tally.charged_and_reserved(amount, cap.is_given);
        Counter { hold, amount, cap, charged, reserved, suspended: tally.suspended_amount(amount) }
    }

    /// Sets the counter to 0.
    pub fn clear(&mut self) {
        (self.charged, self.reserved, self.suspended) = (0, 0, 0);
    }

    /// Returns the amount in use, including reservations.
    pub fn used(&self) -> u64 {
        self.charged.saturating_add(self.reserved)
    }

    pub fn headroom(&self) -> u64 {
        self.cap.limit.cap().saturating_sub(self.used())
    }

    /// Returns true if the headroom is too small for a job of `size`.
    pub fn lacks_headroom(&self, size: Size) -> bool {
        size.amount(self.amount.measure) > self.headroom()
    }

    /// Adds or subtracts the amounts of a job with `op`. Returns the amount that the job uses and reserves.
    pub fn count_job(&mut self, footprint: Footprint, op: fn(u64, u64) -> u64) -> u64 {
        let (charged, reserved, suspended) = footprint.amounts(self.amount, self.cap.is_given);
        (self.charged, self.reserved) = (op(self.charged, charged), op(self.reserved, reserved));
        self.suspended = op(self.suspended, suspended);
        charged.saturating_add(reserved)
    }
}

/// A limit that applies to the jobs of an association in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppliedLimit<'a> {
    /// The counter without the amount of the asking job.
    pub counter: Counter,
    /// The scope of the limit; `None` for a limit in the record of the association or of a queue.
    pub target: Option<&'a Target>,
    /// The queue whose jobs count; `None` for all queues.
    pub queue: Option<&'a QueueName>,
    /// The amount that the asking job uses and reserves already.
    own: u64,
    /// The overtaken job for which the scope keeps the headroom.
    kept_for: Option<JobId>,
}

impl<'a> AppliedLimit<'a> {
    pub fn new(counter: Counter, target: Option<&'a Target>, queue: Option<&'a QueueName>) -> Self {
        AppliedLimit { counter, target, queue, own: 0, kept_for: None }
    }

    /// Subtracts the amount of the asking job.
    fn without_job(mut self, footprint: Footprint) -> Self {
        self.own = self.counter.count_job(footprint, u64::saturating_sub);
        self
    }

    /// If `is_stopped` is true, the asking job is in a stopped queue, and suspended reservations count as reserved: Flux starts all jobs of
    /// a queue together when the queue starts.
    fn count_suspended(mut self, is_stopped: bool) -> Self {
        if is_stopped {
            let Counter { reserved, suspended, .. } = &mut self.counter;
            *reserved = reserved.saturating_add(std::mem::take(suspended));
        }
        self
    }

    /// Returns the overtaken job for which the scope keeps headroom, if the asking job needs more than it already uses and reserves.
    fn reservation_against(&self, needed: u64) -> Option<JobId> {
        self.kept_for.filter(|_| self.own < needed)
    }

    fn is_exceeded_by(&self, size: Size) -> bool {
        let needed = size.amount(self.counter.amount.measure);
        self.reservation_against(needed).is_some() || needed > self.counter.headroom()
    }

    fn describe(&self, size: Size) -> Holding {
        let Counter { hold, amount, cap, reserved, .. } = self.counter;
        let needed = size.amount(amount.measure);
        Holding {
            hold,
            amount,
            target: self.target.cloned(),
            queue: self.queue.cloned(),
            used: self.counter.used(),
            reserved,
            limit: cap.limit,
            needed,
            kept_for: self.reservation_against(needed),
        }
    }
}

/// The number of limits for which a [`Headroom`] has space without a second allocation.
const HEADROOM_CAPACITY: usize = 16;

/// The headroom that each limit leaves to one more job of an association in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headroom(Vec<(Hold, Measure, u64)>);

impl<'a> FromIterator<AppliedLimit<'a>> for Headroom {
    fn from_iter<I: IntoIterator<Item = AppliedLimit<'a>>>(limits: I) -> Headroom {
        let remaining =
            |limit: &AppliedLimit<'_>| if limit.kept_for.is_some() { 0 } else { limit.counter.headroom() };
        let mut headroom = Headroom(Vec::with_capacity(HEADROOM_CAPACITY));
        headroom.0.extend(
            limits.into_iter().map(|it| (it.counter.hold, it.counter.amount.measure, remaining(&it))),
        );
        headroom
    }
}

impl Headroom {
    /// Returns the limits that one more job of `size` would exceed. A larger job exceeds all of them too.
    pub fn exceeded(&self, size: Size) -> HoldSet {
        self.0
            .iter()
            .filter(|(_, measure, headroom)| size.amount(*measure) > *headroom)
            .map(|(hold, ..)| *hold)
            .collect()
    }
}

/// A limit, the amount in use, and the amount that a job would add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The limit.
    pub hold: Hold,
    /// The jobs that the limit counts, and what is counted of each.
    pub amount: Amount,
    /// The scope of the limit; `None` for a limit in the record of the association or of a queue.
    pub target: Option<Target>,
    /// The queue whose jobs count; `None` for all queues.
    pub queue: Option<QueueName>,
    /// The amount in use, including reservations.
    pub used: u64,
    /// The part of `used` that is reserved for released jobs.
    pub reserved: u64,
    /// The cap.
    pub limit: Limit,
    /// The amount that the asking job would add; 0 if there is no asking job.
    pub needed: u64,
    /// The overtaken job for which the scope keeps the headroom.
    pub kept_for: Option<JobId>,
}

impl Holding {
    /// Returns how many jobs of the size of the asking job the limit has headroom for. Returns `u64::MAX` if the job does not count under
    /// the limit.
    pub fn count_fitting(&self) -> u64 {
        let count = || self.headroom().checked_div(self.needed).unwrap_or(u64::MAX);
        if self.kept_for.is_some() { 0 } else { count() }
    }

    fn headroom(&self) -> u64 {
        self.limit.cap().saturating_sub(self.used)
    }
}

/// A limit over a scope, and the amount in use.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeUsage {
    /// The limit.
    pub limit: SiteLimit,
    /// The amount in use, including reservations, in the unit of the cap. `None` for a limit on each association, bank, user or queue,
    /// because each has its own counter, and for a limit on one job.
    pub used: Option<u64>,
    /// The part of `used` that is reserved for released jobs.
    pub reserved: Option<u64>,
}

/// A limit on active jobs over a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveJobsLimit {
    target: Target,
    queue: Option<QueueName>,
    active: u64,
    cap: Limit,
}

impl ActiveJobsLimit {
    /// Returns the name of the limit.
    pub fn name(&self) -> &'static str {
        let amount = Amount { stage: Stage::Active, measure: Measure::Jobs };
        ScopeRow { scope: self.target.scope(self.queue.is_some()), amount }.name()
    }

    /// Returns how many more jobs the limit admits.
    pub fn headroom(&self) -> u64 {
        self.cap.cap().saturating_sub(self.active)
    }

    /// Returns the text that rejects a submission.
    pub fn rejection(&self) -> String {
        let ActiveJobsLimit { target, queue, active, cap } = self;
        let (queue, most) = (show_queue(target, queue.as_ref()), cap.cap());
        format!("{target}{queue} has max active jobs; {active} of {most}: wait until one of them ends")
    }
}

/// Returns the members of `limits` that one more job of `size` would exceed.
fn list_exceeded<'a>(limits: impl Iterator<Item = AppliedLimit<'a>>, size: Size) -> HoldSet {
    limits.filter(|limit| limit.is_exceeded_by(size)).map(|limit| limit.counter.hold).collect()
}

/// All limits, with the amounts that the live jobs use.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    ledger: &'a Ledger,
    book: &'a Book,
}

impl<'a> Limits<'a> {
    /// Combines the limits in `book` with the counters in `ledger`.
    pub fn new(ledger: &'a Ledger, book: &'a Book) -> Limits<'a> {
        Limits { ledger, book }
    }

    /// Returns the limits in the records of an association and of `queue`. The amounts of `job` are not counted.
    fn record_limits(
        self,
        association: AssociationId,
        queue: Option<&QueueName>,
        job: Option<&'a Job>,
    ) -> impl Iterator<Item = AppliedLimit<'a>> {
        let job = job.filter(|job| job.association() == Some(association));
        let Limits { ledger, book } = self;
        let is_stopped = ledger.is_stopped(queue);
        let usage = ledger.accounts.usage(association);
        let record = book.association(association);
        let limits =
            record.map(|record| ledger.rules().list_applied(book, record, queue, usage)).unwrap_or_default();
        limits.into_iter().map(move |limit| {
            let counts = |job: &&Job| {
                book.site_limits().counts_in(limit.queue, job.queue.as_ref().map(QueueName::as_str))
            };
            job.filter(counts)
                .map_or(limit, |job| limit.without_job(job.footprint()))
                .count_suspended(is_stopped)
        })
    }

    /// Returns the limits over scopes that apply to `asker`. The amounts of `job` are not counted.
    fn scope_limits(self, asker: Asker<'a>, job: Option<&'a Job>) -> impl Iterator<Item = AppliedLimit<'a>> {
        let ledger = self.ledger;
        let job_scopes = job
            .and_then(Job::association)
            .map(|association| ledger.accounts.scope_ids(association))
            .unwrap_or_default();
        let (is_stopped, before) = (ledger.is_stopped(asker.queue), ledger.overtaken.list_before(asker));
        ledger.accounts.scopes_of(asker.association, asker.queue).flat_map(move |(id, scope)| {
            let job = job.filter(|job| job_scopes.contains(&id) && scope.counts_queue(job.queue.as_ref()));
            scope.counters.iter().map(move |counter| {
                let limit = AppliedLimit::new(*counter, Some(&scope.target), scope.queue.as_ref());
                let limit = job.map_or(limit, |job| limit.without_job(job.footprint()));
                let kept_for =
                    before.iter().find(|it| it.kept_in == Some(id) && counter.lacks_headroom(it.size));
                AppliedLimit { kept_for: kept_for.map(|it| it.job), ..limit.count_suspended(is_stopped) }
            })
        })
    }

    /// Returns all limits that apply to `asker`. The amounts of `job` are not counted.
    fn all_limits(self, asker: Asker<'a>, job: Option<&'a Job>) -> impl Iterator<Item = AppliedLimit<'a>> {
        self.record_limits(asker.association, asker.queue, job).chain(self.scope_limits(asker, job))
    }

    /// Returns the headroom that the records of an association and of `queue` leave to one more job.
    pub(super) fn record_headroom(self, association: AssociationId, queue: Option<&QueueName>) -> Headroom {
        self.record_limits(association, queue, None).collect()
    }

    /// Returns the headroom that all limits leave to one more job of `association` in `queue`.
    pub fn headroom(self, association: AssociationId, queue: Option<&QueueName>) -> Headroom {
        let asker = Asker { association, queue, job: None };
        let mut headroom: Headroom = self.all_limits(asker, None).collect();
        let unjoined = self.limits_on_first_job(asker, Size { gpus: 1, ..Size::ONE });
        headroom.0.extend(unjoined.into_iter().map(|limit| {
            let amount = if limit.kept_for.is_some() { 0 } else { limit.headroom() };
            (limit.hold, limit.amount.measure, amount)
        }));
        headroom
    }

    /// Returns the limits that a live job would exceed if it moved to another association or queue.
    pub fn exceeded_if_moved(
        self,
        job: &Job,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> HoldSet {
        list_exceeded(self.all_limits(Asker { association, queue, job: None }, Some(job)), job.size)
    }

    /// Returns the limits that a held job would exceed. A held job is not counted under these limits.
    pub fn exceeded_by(self, id: JobId) -> HoldSet {
        let Some(job) = self.ledger.job(id) else { return HoldSet::NONE };
        let Some(association) = job.association() else { return HoldSet::NONE };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        list_exceeded(self.all_limits(asker, None), job.size)
    }

    /// Returns true if a scope may keep headroom for the job, only limits over scopes hold it, and the job fits into each cap of its scopes.
    pub(super) fn is_held_by_scopes_alone(self, id: JobId) -> bool {
        let job = self.ledger.job(id).filter(|job| job.may_be_protected());
        let Some((job, association)) = job.and_then(|job| Some((job, job.association()?))) else {
            return false;
        };
        let queue = job.queue.as_ref();
        self.record_headroom(association, queue).exceeded(job.size).is_empty()
            && self.ledger.accounts.scopes_of(association, queue).all(|(_, scope)| scope.could_fit(job.size))
    }

    /// Returns the limits in the records of the job's association and queue that the job would exceed if there were no reservations.
    pub fn exceeded_by_charges(self, job: &Job) -> HoldSet {
        let Some(association) = job.association() else { return HoldSet::NONE };
        let limits = self.record_limits(association, job.queue.as_ref(), None);
        let charged =
            limits.map(|limit| AppliedLimit { counter: Counter { reserved: 0, ..limit.counter }, ..limit });
        list_exceeded(charged, job.size)
    }

    /// Returns the limits that hold a job, or would hold it if it were released now, in the order of [`Hold`]. The amounts of the job are not
    /// counted.
    pub fn holding(self, id: JobId) -> Vec<Holding> {
        let mut holding = self.ledger.job(id).map(|job| self.limits_on_job(id, job)).unwrap_or_default();
        holding.retain(|limit| limit.count_fitting() == 0);
        holding
    }

    /// Returns the limits that apply to a job, in the order of [`Hold`]. The amounts of the job are not counted. The job need not be live.
    pub fn limits_on_job(self, id: JobId, job: &Job) -> Vec<Holding> {
        let Some(association) = job.association() else { return Vec::new() };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        let mut limits: Vec<Holding> =
            self.all_limits(asker, Some(job)).map(|limit| limit.describe(job.size)).collect();
        limits.extend(self.limits_on_first_job(asker, job.size));
        limits.sort_by_key(|limit| limit.hold);
        limits
    }

    /// Returns the limits over scopes that apply to a job of an association without scopes. The ledger assigns scopes with the first job.
    fn limits_on_first_job(self, asker: Asker<'_>, size: Size) -> Vec<Holding> {
        let Limits { ledger, book } = self;
        let (accounts, limits) = (&ledger.accounts, book.site_limits());
        let is_member = accounts.get(asker.association).is_some_and(|account| account.scope_ids.is_some());
        let Some(record) = book.association(asker.association).filter(|_| !is_member) else {
            return Vec::new();
        };
        let (before, is_stopped) = (ledger.overtaken.list_before(asker), ledger.is_stopped(asker.queue));
        let mut found = Vec::new();
        for scope in accounts.scopes.scopes_to_join(record.user, &record.bank) {
            let ScopeToJoin { id, target, queue, counters, .. } = scope;
            if !limits.counts_in(queue.as_ref(), asker.queue.map(QueueName::as_str)) {
                continue;
            }
            found.extend(counters.into_iter().map(|counter| {
                let is_kept =
                    |it: &&Overtaken| id.is_some() && it.kept_in == id && counter.lacks_headroom(it.size);
                let kept_for = before.iter().find(is_kept).map(|it| it.job);
                let limit = AppliedLimit::new(counter, Some(&target), queue.as_ref());
                AppliedLimit { kept_for, ..limit.count_suspended(is_stopped) }.describe(size)
            }));
        }
        found
    }

    /// Returns the limits in the records of an association and of `queue`, in the order of the table.
    pub fn limits_in_records(self, association: AssociationId, queue: Option<&QueueName>) -> Vec<Holding> {
        let limits = self.record_limits(association, queue, None);
        limits.map(|limit| Holding { needed: 0, ..limit.describe(Size::ONE) }).collect()
    }

    /// Returns at most `most` jobs that count in the scope of `target` and `queue`, sorted by their latest end. The second value is the latest
    /// end, if it is known.
    pub fn jobs_counted_in_scope(
        self,
        association: AssociationId,
        target: &Target,
        queue: Option<&QueueName>,
        most: usize,
    ) -> Vec<(JobId, Option<f64>)> {
        let accounts = &self.ledger.accounts;
        let is_wanted =
            |(_, scope): &(ScopeId, &LimitScope)| scope.target == *target && scope.queue.as_ref() == queue;
        let Some((scope, _)) = accounts.all_scopes_of(association).find(is_wanted) else { return Vec::new() };
        let is_member = |account: &&Account| account.scope_ids().contains(&scope);
        let members = accounts.iter().map(|(_, account)| account).filter(is_member);
        let jobs = members.flat_map(|account| account.counted.iter().copied());
        let limits = accounts.scopes.limits();
        let counts_in = |job: &Job| limits.counts_in(queue, job.queue.as_ref().map(QueueName::as_str));
        let is_here =
            |(_, id): &(LatestEnd, JobId)| queue.is_none() || self.ledger.job(*id).is_some_and(counts_in);
        let mut jobs: Vec<(LatestEnd, JobId)> = jobs.filter(is_here).take(most).collect();
        jobs.sort_unstable();
        jobs.into_iter().map(|(until, id)| (id, until.time())).collect()
    }

    /// Returns all limits over scopes that the site set, with the amounts in use.
    pub fn scope_usages(self) -> Vec<ScopeUsage> {
        let limits = self.ledger.accounts.scopes.limits().iter().map(|(target, queue, amount, cap)| {
            SiteLimit { target: target.clone(), queue: queue.cloned(), amount, cap }
        });
        limits.map(|limit| self.find_usage(limit)).collect()
    }

    /// Returns the limits over scopes that count the jobs of `user` in `bank`, each with its name and the amounts in use.
    pub fn scope_usages_on(self, user: UserId, bank: &BankName) -> Vec<(&'static str, ScopeUsage)> {
        let of_target = |(target, queue, caps): (Target, Option<QueueName>, ScopeCaps)| {
            caps.into_iter().map(move |(amount, cap)| {
                let row = ScopeRow { scope: target.scope(queue.is_some()), amount };
                let limit = SiteLimit { target: target.clone(), queue: queue.clone(), amount, cap };
                (row.name(), self.find_usage(limit))
            })
        };
        self.ledger.accounts.scopes.limits().limits_for(user, bank).into_iter().flat_map(of_target).collect()
    }

    fn find_usage(self, limit: SiteLimit) -> ScopeUsage {
        let scope = self.ledger.accounts.scopes.find_scope(&limit.target, limit.queue.as_ref());
        let mut counters = scope.into_iter().flat_map(|scope| &scope.counters);
        let counter = counters.find(|counter| counter.amount == limit.amount);
        let active =
            if limit.amount.stage == Stage::Active { scope.map_or(0, |it| it.active_jobs) } else { 0 };
        let (used, reserved) = counter.map_or((active, 0), |counter| (counter.used(), counter.reserved));
        let has_counter = limit.amount.stage != Stage::OneJob && limit.target.default_target().is_some();
        let shown = |amount: u64| has_counter.then(|| amount.div_ceil(limit.amount.measure.cap_unit()));
        ScopeUsage { used: shown(used), reserved: shown(reserved), limit }
    }

    /// Returns the limits on active jobs over scopes that count a new job of `association` in `queue`. `moved` is a live job that would
    /// move there. Limits that count it already are left out.
    fn active_jobs_limits(
        self,
        association: AssociationId,
        queue: Option<&QueueName>,
        moved: Option<&Job>,
    ) -> Vec<ActiveJobsLimit> {
        let Limits { ledger, book } = self;
        let accounts = &ledger.accounts;
        if accounts.scopes.has_no_limits() {
            return Vec::new();
        }
        if let Some(ids) = accounts.get(association).and_then(|account| account.scope_ids.as_deref()) {
            let own = moved.and_then(|job| accounts.get(job.association()?)?.scope_ids.as_deref());
            let counts_moved = |id: &ScopeId, scope: &LimitScope| {
                own.is_some_and(|own| own.active.contains(id))
                    && moved.is_some_and(|job| scope.counts_queue(job.queue.as_ref()))
            };
            let scopes = ids.active.iter().filter_map(|id| Some((id, accounts.scopes.get(*id)?)));
            let scopes = scopes.filter(|(id, scope)| scope.counts_queue(queue) && !counts_moved(id, scope));
            let to_limit = |(_, scope): (&ScopeId, &LimitScope)| {
                let (target, queue) = (scope.target.clone(), scope.queue.clone());
                Some(ActiveJobsLimit {
                    target,
                    queue,
                    active: scope.active_jobs,
                    cap: scope.active_jobs_cap()?,
                })
            };
            return scopes.filter_map(to_limit).collect();
        }
        let Some(record) = book.association(association) else { return Vec::new() };
        let counts_in =
            |of: Option<&QueueName>| book.site_limits().counts_in(of, queue.map(QueueName::as_str));
        let scopes = accounts.scopes.scopes_to_join(record.user, &record.bank);
        let to_limit = |it: ScopeToJoin| {
            let cap = find_active_jobs_cap(&it.caps)?;
            Some(ActiveJobsLimit { target: it.target, queue: it.queue, active: it.active_jobs, cap })
        };
        scopes.filter(|it| counts_in(it.queue.as_ref())).filter_map(to_limit).collect()
    }

    /// Returns the first limit on active jobs over a scope that admits no new job of `association` in `queue`. `moved` is a live job that
    /// would move there. It exceeds no limit under which it counts already.
    pub fn full_of_active_jobs(
        self,
        association: AssociationId,
        queue: Option<&QueueName>,
        moved: Option<&Job>,
    ) -> Option<ActiveJobsLimit> {
        self.active_jobs_limits(association, queue, moved).into_iter().find(|limit| limit.headroom() == 0)
    }

    /// Returns how many new jobs of `association` in `queue` the limits on active jobs over scopes admit.
    pub fn active_headroom(self, association: AssociationId, queue: Option<&QueueName>) -> u64 {
        let limits = self.active_jobs_limits(association, queue, None);
        limits.iter().map(ActiveJobsLimit::headroom).min().unwrap_or(u64::MAX)
    }

    /// Returns the text of the rejection if a job of `size` alone exceeds a cap over a scope.
    pub fn rejection_over_scopes(
        self,
        association: AssociationId,
        queue: Option<&str>,
        size: Size,
    ) -> Option<String> {
        let Limits { ledger, book } = self;
        let limits = book.site_limits();
        let is_here = |of: Option<&QueueName>| limits.counts_in(of, queue);
        if let Some(ids) = ledger.accounts.get(association).and_then(|account| account.scope_ids.as_deref()) {
            // Reading the assigned scopes is faster than searching the limits.
            let scopes = ids.all.iter().filter_map(|id| ledger.accounts.scopes.get(*id));
            return scopes.filter(|scope| is_here(scope.queue.as_ref())).find_map(|scope| {
                let queue = scope.queue.as_ref();
                let mut caps = scope.caps.iter();
                caps.find_map(|(amount, cap)| rejection(&scope.target, queue, *amount, *cap, size))
            });
        }
        let association = book.association(association)?;
        let on = limits.limits_for(association.user, &association.bank);
        on.iter().filter(|(_, of, _)| is_here(of.as_ref())).find_map(|(target, of, caps)| {
            caps.iter().find_map(|(amount, cap)| rejection(target, of.as_ref(), *amount, *cap, size))
        })
    }
}
