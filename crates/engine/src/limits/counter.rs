// SPDX-License-Identifier: LGPL-3.0-only
//! Counters of limits, and the headroom that they leave to a job.
//!
//! Some limits have their caps in the records of associations and queues, others are limits over scopes. Every decision and every answer
//! reads both kinds as [`AppliedLimit`].

use super::counts::Tally;
use super::hold::{Hold, HoldSet};
use super::job::{Footprint, Job};
use super::ledger::{Account, LatestEnd, Ledger};
use super::overtaken::{Asker, OvertakenJob};
use super::scope::{LimitScope, ScopeId, ScopeIds};
use super::scope_rows::{ScopeRow, describe_limit_queue, queue_scope_limits, rejection};
use super::size::Size;
use super::table::Rule;
use crate::accounts::{AssociationId, Book, Cap, Scope, SiteLimit, Target, UNLIMITED_BUDGET};
use crate::ids::{Amount, BankName, JobId, Limit, Measure, QueueName, Stage, UserId};
use std::borrow::Cow;

/// A cap, and how much of it is in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counter {
    pub hold: Hold,
    pub amount: Amount,
    pub cap: Cap,
    /// The amount in use by jobs in SCHED and RUN. The sum over jobs without a time limit may exceed 64 bits.
    charged: u128,
    /// The amount reserved for released jobs.
    reserved: u128,
    /// The headroom that released jobs will reserve when their stopped queue starts.
    suspended: u128,
    /// The spent amount and the window of a budget. If the limit is not a budget, this field has its default value.
    pub account: BudgetAccount,
}

/// The amount that ended jobs have spent of a budget, and its window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetAccount {
    /// The charges of ended jobs, in unit-milliseconds.
    pub spent: u64,
    /// The start of the window and its end, which is excluded, in seconds since the epoch. A running job counts only if it started in the
    /// window.
    pub window: (f64, f64),
}

impl Default for BudgetAccount {
    fn default() -> BudgetAccount {
        BudgetAccount { spent: 0, window: (f64::NEG_INFINITY, f64::INFINITY) }
    }
}

fn saturate(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// Returns the amount that `limit` still allows if `used` is in use.
fn compute_headroom(amount: Amount, limit: Limit, used: u64) -> u64 {
    let is_unlimited = amount.is_budget() && limit == UNLIMITED_BUDGET;
    if is_unlimited { u64::MAX } else { limit.cap().saturating_sub(used) }
}

impl Counter {
    pub fn new(hold: Hold, amount: Amount, cap: Cap, tally: &Tally) -> Counter {
        let measured = tally.map(|amounts| amounts.amount(amount.measure));
        let (charged, reserved, suspended) = measured.get_amounts_counted_in_stage(amount.stage);
        let [charged, reserved, suspended] = [charged, reserved, suspended].map(u128::from);
        Counter { hold, amount, cap, charged, reserved, suspended, account: BudgetAccount::default() }
    }

    /// Sets the counter to 0.
    pub fn clear(&mut self) {
        (self.charged, self.reserved, self.suspended) = (0, 0, 0);
    }

    /// Returns the amount in use, including reservations and what ended jobs have spent.
    pub fn used(&self) -> u64 {
        saturate(self.charged.saturating_add(self.reserved)).saturating_add(self.account.spent)
    }

    pub fn headroom(&self) -> u64 {
        compute_headroom(self.amount, self.cap.limit, self.used())
    }

    /// Returns true if the headroom is too small for a job of `size`.
    pub fn lacks_headroom(&self, size: Size) -> bool {
        size.amount(self.amount) > self.headroom()
    }

    /// Returns true if an anti-starvation reservation for a job of `size` needs the headroom of this limit. A budget
    /// keeps no headroom for an overtaken job, because the job may never fit into the budget.
    pub fn is_reserved_for(&self, size: Size) -> bool {
        !self.amount.is_budget() && self.lacks_headroom(size)
    }

    /// Adds the amounts of a job if `is_in` is true, and subtracts them otherwise. Returns the sum of the amounts
    /// that the job uses and reserves.
    pub fn count_job(&mut self, footprint: &Footprint, is_in: bool) -> u64 {
        let op = if is_in { u128::saturating_add } else { u128::saturating_sub };
        let (charged, reserved, suspended) = footprint.amounts(self.amount, self.cap.is_given);
        let (from, until) = self.account.window;
        let is_here = footprint.start.is_none_or(|start| (from..until).contains(&start));
        let charged = if is_here { charged } else { 0 };
        self.charged = op(self.charged, charged.into());
        self.reserved = op(self.reserved, reserved.into());
        self.suspended = op(self.suspended, suspended.into());
        charged.saturating_add(reserved)
    }
}

/// A limit that applies to the jobs of an association in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppliedLimit<'a> {
    /// The counter of the limit. It excludes the amounts of the job that is tested.
    pub counter: Counter,
    /// The scope of the limit; `None` for a limit in the record of the association or of a queue.
    pub target: Option<&'a Target>,
    /// The queue whose jobs count; `None` for all queues.
    pub queue: Option<&'a QueueName>,
    /// The amount that the asking job uses and reserves already.
    own: u64,
    /// The overtaken job for which the scope keeps headroom, if any.
    kept_for: Option<JobId>,
}

impl<'a> AppliedLimit<'a> {
    pub fn new(counter: Counter, target: Option<&'a Target>, queue: Option<&'a QueueName>) -> Self {
        AppliedLimit { counter, target, queue, own: 0, kept_for: None }
    }

    /// Subtracts the amounts in `footprint` from the counter.
    fn without_job(mut self, footprint: &Footprint) -> Self {
        self.own = self.counter.count_job(footprint, false);
        self
    }

    /// If the queue is stopped, counts suspended amounts as reserved. All jobs of the queue start together when the
    /// queue starts.
    fn count_if_suspended(mut self, is_stopped: bool) -> Self {
        if is_stopped {
            let Counter { reserved, suspended, .. } = &mut self.counter;
            *reserved = reserved.saturating_add(std::mem::take(suspended));
        }
        self
    }

    /// Returns the overtaken job whose headroom the asking job may not take. Returns `None` if the asking job already
    /// has the amount `needed`.
    fn find_blocking_overtaken_job(&self, needed: u64) -> Option<JobId> {
        self.kept_for.filter(|_| self.own < needed)
    }

    /// Returns the headroom that the limit leaves to one more job.
    fn headroom(&self) -> (Hold, Amount, u64) {
        let remaining = if self.kept_for.is_some() { 0 } else { self.counter.headroom() };
        (self.counter.hold, self.counter.amount, remaining)
    }

    fn would_job_size_exceed_limit(&self, size: Size) -> bool {
        let needed = size.amount(self.counter.amount);
        self.find_blocking_overtaken_job(needed).is_some() || needed > self.counter.headroom()
    }

    fn describe(&self, size: Size) -> Holding {
        let Counter { hold, amount, cap, reserved, .. } = self.counter;
        let needed = size.amount(amount);
        Holding {
            hold,
            amount,
            target: self.target.cloned(),
            queue: self.queue.cloned(),
            used: self.counter.used(),
            reserved: saturate(reserved),
            limit: cap.limit,
            is_given: cap.is_given,
            needed,
            kept_for: self.find_blocking_overtaken_job(needed),
        }
    }
}

/// The headroom that each limit leaves to one more job of an association in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headroom(Vec<(Hold, Amount, u64)>);

impl Headroom {
    /// Returns the limits that one more job of `size` would exceed. A larger job exceeds all of them too.
    pub fn exceeded(&self, size: Size) -> HoldSet {
        self.0
            .iter()
            .filter(|(_, amount, headroom)| size.amount(*amount) > *headroom)
            .map(|(hold, ..)| *hold)
            .collect()
    }
}

/// A limit, the amount in use, and the amount that a job would add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The limit.
    pub hold: Hold,
    /// The amount that the limit counts.
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
    /// True if running jobs count with their allocated resources.
    pub is_given: bool,
    /// The amount that the asking job would add; 0 if there is no asking job.
    pub needed: u64,
    /// The overtaken job for which the scope keeps headroom, if any.
    pub kept_for: Option<JobId>,
}

impl Holding {
    /// Returns how many jobs of the size of the asking job the limit has headroom for. Returns `u64::MAX` if the job does not count under
    /// the limit.
    pub fn count_fitting_jobs(&self) -> u64 {
        self.headroom().checked_div(self.needed).unwrap_or(u64::MAX)
    }

    fn headroom(&self) -> u64 {
        if self.kept_for.is_some() { 0 } else { compute_headroom(self.amount, self.limit, self.used) }
    }
}

/// A limit that the site sets, with the amount in use.
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
    /// The association, bank, user or queue whose jobs the limit counts.
    pub target: Target,
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

    /// Returns the name of the limit, and how many jobs are active.
    pub fn describe(&self) -> String {
        let ActiveJobsLimit { target, queue, active, cap } = self;
        let (queue, most) = (describe_limit_queue(target, queue.as_ref()), cap.cap());
        format!("{}: {active} of {most} jobs of {target}{queue} are active now", self.name())
    }

    /// Returns the text that rejects a submission.
    pub fn rejection(&self) -> String {
        let ActiveJobsLimit { target, queue, active, cap } = self;
        let (queue, most) = (describe_limit_queue(target, queue.as_ref()), cap.cap());
        format!("{target}{queue} has max active jobs; {active} of {most}: wait until one of them ends")
    }
}

/// Returns the members of `limits` that one more job of `size` would exceed.
fn list_exceeded_limits<'a>(limits: impl Iterator<Item = AppliedLimit<'a>>, size: Size) -> HoldSet {
    limits.filter(|limit| limit.would_job_size_exceed_limit(size)).map(|limit| limit.counter.hold).collect()
}

/// Lists the limits of a scope. For each limit, finds the overtaken job in `before` for which the limit keeps headroom.
fn list_limits_of_scope<'a>(
    id: Option<ScopeId>,
    scope: &'a LimitScope,
    before: &'a [OvertakenJob],
) -> impl Iterator<Item = AppliedLimit<'a>> {
    let kept = move || before.iter().filter(move |it| id.is_some() && it.kept_in == id);
    scope.counters.iter().map(move |counter| AppliedLimit {
        kept_for: kept().find(|it| counter.is_reserved_for(it.size)).map(|it| it.job),
        ..AppliedLimit::new(*counter, Some(&scope.target), scope.queue.as_ref())
    })
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

    /// Applies `convert` to each limit in the records of an association and of `queue`. The counters of these limits
    /// do not include `job`.
    fn list_record_limits<T>(
        self,
        association: AssociationId,
        queue: Option<&QueueName>,
        job: Option<&Job>,
        convert: impl Fn(AppliedLimit<'a>) -> T,
    ) -> Vec<T> {
        let job = job.filter(|job| job.association() == Some(association));
        let Limits { ledger, book } = self;
        let Some(record) = book.association(association) else { return Vec::new() };
        let (is_stopped, usage) = (ledger.is_stopped(queue), ledger.accounts.usage(association));
        ledger.rules().list_applied_limits(book, record, queue, usage, |limit| {
            let counts = |job: &&Job| book.site_limits().counts_in(None, limit.queue, job.queue.as_deref());
            let limit = job.filter(counts).map_or(limit, |job| limit.without_job(&job.footprint()));
            convert(limit.count_if_suspended(is_stopped))
        })
    }

    /// Lists the site's limits that apply to `asker`. If `job` is given, subtracts the amounts of this job from the
    /// counters.
    fn scope_limits(self, asker: Asker<'a>, job: Option<&'a Job>) -> impl Iterator<Item = AppliedLimit<'a>> {
        let ledger = self.ledger;
        let job_scopes = job
            .and_then(Job::association)
            .map(|association| ledger.accounts.get(association).scope_ids())
            .unwrap_or_default();
        let (is_stopped, before) = (ledger.is_stopped(asker.queue), ledger.overtaken.list_preceding(asker));
        ledger.accounts.scopes_of(asker.association, asker.queue).flat_map(move |(id, scope)| {
            let job = job.filter(|job| job_scopes.contains(&id) && scope.counts_queue(job.queue.as_ref()));
            list_limits_of_scope(Some(id), scope, before).map(move |limit| {
                job.map_or(limit, |job| limit.without_job(&job.footprint())).count_if_suspended(is_stopped)
            })
        })
    }

    /// Returns the counters of all limit scopes that apply to `asker`. Returns `None` if the counters alone do not
    /// show the headroom: there are overtaken jobs, or the queue of `asker` is stopped.
    fn find_deciding_counters(self, asker: Asker<'a>) -> Option<impl Iterator<Item = &'a Counter>> {
        let do_decide = self.ledger.overtaken.iter().next().is_none() && !self.ledger.is_stopped(asker.queue);
        let scopes = self.ledger.accounts.scopes_of(asker.association, asker.queue);
        do_decide.then(|| scopes.flat_map(|(_, scope)| &scope.counters))
    }

    /// Returns those scopes of an association that count its jobs in `queue`. `select` chooses one of the
    /// association's lists of scopes. If the association has had no job yet, some of its scopes may not exist yet and
    /// have no id.
    fn filter_counting_scopes(
        self,
        association: AssociationId,
        queue: Option<&'a QueueName>,
        select: fn(&ScopeIds) -> &[ScopeId],
    ) -> impl Iterator<Item = (Option<ScopeId>, Cow<'a, LimitScope>)> {
        let Limits { ledger, book } = self;
        let scopes = &ledger.accounts.scopes;
        let ids = ledger.accounts.get(association).scope_ids.as_deref();
        // Reading the stored scopes is faster than searching the limits.
        let joined = ids.into_iter().flat_map(select);
        let joined = joined.filter_map(|id| Some((Some(*id), Cow::Borrowed(scopes.get(*id)?))));
        let record = book.association(association).filter(|_| ids.is_none() && !scopes.has_no_limits());
        let unjoined =
            record.into_iter().flat_map(|record| scopes.list_scopes_to_join(record.user, &record.bank));
        joined.chain(unjoined).filter(move |(_, scope)| scope.counts_queue(queue))
    }

    /// Lists all limits that apply to `asker`. If `job` is given, subtracts the amounts of this job from the
    /// counters.
    fn all_limits(self, asker: Asker<'a>, job: Option<&'a Job>) -> impl Iterator<Item = AppliedLimit<'a>> {
        let of_records = self.list_record_limits(asker.association, asker.queue, job, |limit| limit);
        of_records.into_iter().chain(self.scope_limits(asker, job))
    }

    /// Returns the headroom that the records of an association and of `queue` leave to one more job.
    pub(super) fn record_headroom(self, association: AssociationId, queue: Option<&QueueName>) -> Headroom {
        Headroom(self.list_record_limits(association, queue, None, |limit| limit.headroom()))
    }

    /// Returns the headroom that all limits leave to one more job of `association` in `queue`.
    pub fn headroom(self, association: AssociationId, queue: Option<&QueueName>) -> Headroom {
        let asker = Asker { association, queue, job: None };
        let mut headroom = self.record_headroom(association, queue);
        match self.find_deciding_counters(asker) {
            Some(counters) => headroom.0.extend(counters.map(|it| (it.hold, it.amount, it.headroom()))),
            None => headroom.0.extend(self.scope_limits(asker, None).map(|it| it.headroom())),
        }
        let unjoined = self.list_scope_limits_of_first_job(asker, Size { gpus: 1, ..Size::ONE });
        headroom.0.extend(unjoined.iter().map(|limit| (limit.hold, limit.amount, limit.headroom())));
        headroom
    }

    /// Returns the limits that a live job would exceed if it moved to association `id` or another queue.
    pub fn exceeded_by_move(self, job: &Job, id: AssociationId, queue: Option<&QueueName>) -> HoldSet {
        let size = Job { queue: queue.cloned(), ..job.clone() }.charged_size(&self.ledger.charges);
        list_exceeded_limits(self.all_limits(Asker { association: id, queue, job: None }, Some(job)), size)
    }

    /// Returns the limits that a held job would exceed if it were released. The counters do not include a held job.
    pub fn exceeded_by(self, id: JobId) -> HoldSet {
        let Some(job) = self.ledger.job(id) else { return HoldSet::NONE };
        let Some(association) = job.association() else { return HoldSet::NONE };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        let lacks = |it: &Counter| it.lacks_headroom(job.size);
        let lacks_headroom = self.find_deciding_counters(asker).is_none_or(|mut all| all.any(lacks));
        let of_records = self.record_headroom(association, asker.queue).exceeded(job.size);
        let over_scopes = lacks_headroom.then(|| self.scope_limits(asker, None)).into_iter().flatten();
        of_records.or(list_exceeded_limits(over_scopes, job.size))
    }

    /// Returns true if limit scopes hold the job, but no limit in a record does, and if the job is small enough for
    /// each scope. A scope may then keep headroom for the job.
    pub(super) fn is_held_only_by_scopes(self, id: JobId) -> bool {
        let Some(job) = self.ledger.job(id).filter(|job| job.may_be_protected()) else { return false };
        let Some(association) = job.association() else { return false };
        let queue = job.queue.as_ref();
        self.record_headroom(association, queue).exceeded(job.size).is_empty()
            && self.ledger.accounts.scopes_of(association, queue).all(|(_, scope)| scope.could_fit(job.size))
    }

    /// Returns the limits in the records of the job's association and queue that the job would exceed if there were no reservations.
    pub fn find_limits_exceeded_without_reservations(self, job: &Job) -> HoldSet {
        let Some(association) = job.association() else { return HoldSet::NONE };
        let mut limits = self.list_record_limits(association, job.queue.as_ref(), None, |limit| limit);
        limits.iter_mut().for_each(|limit| limit.counter.reserved = 0);
        list_exceeded_limits(limits.into_iter(), job.size)
    }

    /// Returns the limits that hold a job, or would hold it if it were released now, in the order of [`Hold`]. Their counters do not include the job.
    pub fn holding(self, id: JobId) -> Vec<Holding> {
        let mut holding =
            self.ledger.job(id).map(|job| self.list_limits_on_job(id, Some(job), job)).unwrap_or_default();
        holding.retain(|limit| limit.count_fitting_jobs() == 0);
        holding
    }

    /// Returns the limits that apply to `job`, in the order of [`Hold`]. Their counters do not include `present`, the
    /// job before an update that changes it to `job`. `present` is `None` for a job that was never submitted.
    pub fn list_limits_on_job(self, id: JobId, present: Option<&Job>, job: &Job) -> Vec<Holding> {
        let Some(association) = job.association() else { return Vec::new() };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        let mut limits: Vec<Holding> =
            self.all_limits(asker, present).map(|limit| limit.describe(job.size)).collect();
        limits.extend(self.list_scope_limits_of_first_job(asker, job.size));
        limits.sort_by_key(|limit| limit.hold);
        limits
    }

    /// If an association has had no job yet, lists the limits over scopes that will apply to its first job.
    fn list_scope_limits_of_first_job(self, asker: Asker<'_>, size: Size) -> Vec<Holding> {
        let mut found = Vec::new();
        for (id, scope) in self.filter_counting_scopes(asker.association, asker.queue, |_| &[]) {
            let limits = list_limits_of_scope(id, &scope, self.ledger.overtaken.list_preceding(asker));
            let is_stopped = self.ledger.is_stopped(asker.queue);
            found.extend(limits.map(|limit| limit.count_if_suspended(is_stopped).describe(size)));
        }
        found
    }

    /// Returns the active jobs and the amounts of an association in all queues, without queues that are exempt from its limits.
    pub fn sum_usage_over_queues(self, association: AssociationId) -> (u64, Tally) {
        self.ledger.accounts.usage(association).without_exempt_queues(self.book.site_limits())
    }

    /// Returns how many more jobs in `queue` the cap on active jobs of an association admits.
    pub fn active_headroom(self, association: AssociationId, queue: Option<&str>) -> u64 {
        let is_counted = self.book.site_limits().counts_in(None, None, queue);
        let record = self.book.association(association).filter(|_| is_counted);
        record.map_or(u64::MAX, |it| it.active_headroom(self.sum_usage_over_queues(association).0))
    }

    /// Returns the limits that may newly apply to a job that moves from the queue `former` to `next`. These include budgets if `next` has a
    /// higher charge factor. Returns none if the queue stays the same.
    pub fn list_limits_on_move(self, former: Option<&QueueName>, next: Option<&QueueName>) -> HoldSet {
        if former == next {
            return HoldSet::NONE;
        }
        let [former, next] = [former, next].map(|queue| queue.map(QueueName::as_str));
        let [before, after] = [former, next].map(|queue| self.ledger.charges.factor(queue, f64::INFINITY));
        let exemptions: Vec<Scope> = self.book.site_limits().exemptions(former).collect();
        let counts_anew = |rule: &Rule| rule.is_of_queue() || exemptions.contains(&Scope::Association);
        self.ledger.rules().select_limits(counts_anew).or(queue_scope_limits(&exemptions, after > before))
    }

    /// Returns the limits in the records of an association and of `queue`, in the order of the table.
    pub fn limits_in_records(self, association: AssociationId, queue: Option<&QueueName>) -> Vec<Holding> {
        let describe = |limit: AppliedLimit<'a>| Holding { needed: 0, ..limit.describe(Size::ONE) };
        self.list_record_limits(association, queue, None, describe)
    }

    /// Returns at most `most` jobs that count in the scope of `target` and `queue`, sorted by their latest end. The second value is the latest
    /// end, if it is known.
    pub fn list_jobs_counted_in_scope(
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
        let is_member = |(_, account): &(AssociationId, &Account)| account.scope_ids().contains(&scope);
        let mut members: Vec<(AssociationId, &Account)> = accounts.iter().filter(is_member).collect();
        members.sort_unstable_by_key(|(id, _)| *id);
        let jobs = members.iter().flat_map(|(_, account)| account.counted.iter().copied());
        let limits = accounts.scopes.limits();
        let counts = |job: &Job| limits.counts_in(Some(target), queue, job.queue.as_deref());
        let is_here = |(_, id): &(LatestEnd, JobId)| self.ledger.job(*id).is_some_and(counts);
        let mut jobs: Vec<(LatestEnd, JobId)> = jobs.filter(is_here).take(most).collect();
        jobs.sort_unstable();
        jobs.into_iter().map(|(until, id)| (id, until.time())).collect()
    }

    /// Returns all limits over scopes that the site set, with the amounts in use.
    pub fn scope_usages(self) -> Vec<ScopeUsage> {
        self.ledger.accounts.scopes.limits().iter().map(|limit| self.find_scope_usage(limit)).collect()
    }

    /// Returns the limits over scopes that count the jobs of `user` in `bank`, each with its name and the amounts in use.
    pub fn list_scope_usages_of_user(self, user: UserId, bank: &BankName) -> Vec<(&'static str, ScopeUsage)> {
        let mut usages = Vec::new();
        for (target, queue, caps) in self.ledger.accounts.scopes.limits().list_limits_of_user(user, bank) {
            usages.extend(caps.iter().map(|(&amount, &cap)| {
                let row = ScopeRow { scope: target.scope(queue.is_some()), amount };
                let limit = SiteLimit { target: target.clone(), queue: queue.clone(), amount, cap };
                (row.name(), self.find_scope_usage(limit))
            }));
        }
        usages
    }

    fn find_scope_usage(self, limit: SiteLimit) -> ScopeUsage {
        let scope = self.ledger.accounts.scopes.find_scope(&limit);
        let mut counters = scope.into_iter().flat_map(|scope| &scope.counters);
        let counter = counters.find(|counter| counter.amount == limit.amount);
        let active = scope.map_or(0, |scope| scope.active_jobs);
        // A scope without live jobs may have no counter yet.
        let others =
            || active.saturating_add(self.ledger.accounts.scopes.account(&limit.target, limit.amount).spent);
        let (used, reserved) =
            counter.map_or_else(|| (others(), 0), |counter| (counter.used(), saturate(counter.reserved)));
        let has_counter = limit.amount.stage != Stage::OneJob && limit.target.default_target().is_some();
        let unit = if limit.amount.is_budget() { 1 } else { limit.amount.measure.cap_unit() };
        let shown = |amount: u64| has_counter.then(|| amount.div_ceil(unit));
        ScopeUsage { used: shown(used), reserved: shown(reserved), limit }
    }

    /// Returns the limits on active jobs that apply to a job that is new in `association` and `queue`. If the job is
    /// the live job `moved`, leaves out the limits that count `moved` already.
    pub fn active_jobs_limits(
        self,
        association: AssociationId,
        queue: Option<&QueueName>,
        moved: Option<&Job>,
    ) -> Vec<ActiveJobsLimit> {
        let accounts = &self.ledger.accounts;
        let moved_scopes = moved
            .and_then(|job| accounts.get(job.association()?).scope_ids.as_deref())
            .map(|scopes| &*scopes.active)
            .unwrap_or_default();
        let counts_moved = |id: Option<ScopeId>, scope: &LimitScope| {
            id.is_some_and(|id| moved_scopes.contains(&id))
                && moved.is_some_and(|job| scope.counts_queue(job.queue.as_ref()))
        };
        let scopes = self.filter_counting_scopes(association, queue, |ids| &ids.active);
        let to_limit = |(_, scope): (Option<ScopeId>, Cow<'_, LimitScope>)| {
            let cap = scope.active_jobs_cap()?;
            let (target, queue, active) = (scope.target.clone(), scope.queue.clone(), scope.active_jobs);
            Some(ActiveJobsLimit { target, queue, active, cap })
        };
        scopes.filter(|(id, scope)| !counts_moved(*id, scope)).filter_map(to_limit).collect()
    }

    /// Returns the first limit of [`Self::active_jobs_limits`] that admits no more jobs.
    pub fn find_full_active_jobs_limit(
        self,
        association: AssociationId,
        queue: Option<&QueueName>,
        moved: Option<&Job>,
    ) -> Option<ActiveJobsLimit> {
        self.active_jobs_limits(association, queue, moved).into_iter().find(|limit| limit.headroom() == 0)
    }

    /// Returns the rejection message if the job alone is larger than a limit of the site allows.
    pub fn find_scope_rejection(
        self,
        association: AssociationId,
        queue: Option<&QueueName>,
        size: Size,
    ) -> Option<String> {
        self.filter_counting_scopes(association, queue, |ids| &ids.all).find_map(|(_, scope)| {
            let mut caps = scope.caps.iter();
            caps.find_map(|(amount, cap)| rejection(&scope.target, scope.queue.as_ref(), *amount, *cap, size))
        })
    }
}
