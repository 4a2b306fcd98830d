// SPDX-License-Identifier: LGPL-3.0-only
//! Counters of limits, and the headroom that they leave to a job.
//!
//! The limits in the records of associations and queues and the limits over scopes differ in where their caps come from. Every decision
//! and every answer reads both as [`Applied`].

use super::counts::Tally;
use super::hold::{Hold, HoldSet};
use super::job::{Footprint, Job};
use super::ledger::{Account, Ledger, Until};
use super::overtaken::{Asker, Overtaken};
use super::scope::{LimitScope, ScopeId, ScopeToJoin};
use super::scope_rows::{Row, rejection};
use super::size::Size;
use crate::accounts::{AssociationId, Book, Cap, ScopeCaps, SiteLimit, Target};
use crate::ids::{Amount, BankName, JobId, Limit, Measure, QueueName, UserId};

/// A cap, and how much of it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    pub hold: Hold,
    pub amount: Amount,
    pub cap: Cap,
    /// In use by jobs in SCHED and RUN.
    pub charged: u64,
    /// Reserved for released jobs.
    pub reserved: u64,
    /// Suspended reservations of released jobs in stopped queues.
    suspended: u64,
}

impl Counter {
    pub fn new(hold: Hold, amount: Amount, cap: Cap, tally: &Tally) -> Counter {
        let (charged, reserved) = tally.parts(amount, cap.is_given);
        Counter { hold, amount, cap, charged, reserved, suspended: tally.suspended_of(amount) }
    }

    /// Sets the counter to 0.
    pub fn clear(&mut self) {
        (self.charged, self.reserved, self.suspended) = (0, 0, 0);
    }

    /// Returns how much is in use, reservations included.
    pub fn used(&self) -> u64 {
        self.charged.saturating_add(self.reserved)
    }

    /// Returns the headroom.
    pub fn left(&self) -> u64 {
        self.cap.limit.cap().saturating_sub(self.used())
    }

    /// Returns true if the counter has no headroom for a job of `size`.
    pub fn lacks(&self, size: Size) -> bool {
        size.amount(self.amount.measure) > self.left()
    }

    /// Adds or subtracts a job by `op`, and returns how much the job counts as.
    pub fn apply(&mut self, footprint: Footprint, op: fn(u64, u64) -> u64) -> u64 {
        let (charged, reserved, suspended) = footprint.parts(self.amount, self.cap.is_given);
        (self.charged, self.reserved) = (op(self.charged, charged), op(self.reserved, reserved));
        self.suspended = op(self.suspended, suspended);
        charged.saturating_add(reserved)
    }
}

/// A limit that applies to the jobs of an association in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applied<'a> {
    /// The counter, without what the job itself counts as.
    pub counter: Counter,
    /// The jobs that count together; `None` for a limit in the record of the association or of a queue.
    pub target: Option<&'a Target>,
    /// The queue whose jobs count; `None` for all queues.
    pub queue: Option<&'a QueueName>,
    /// What the job itself counts as in the counter.
    own: u64,
    /// The overtaken job for which the scope keeps the headroom.
    kept_for: Option<JobId>,
}

impl<'a> Applied<'a> {
    pub fn new(counter: Counter, target: Option<&'a Target>, queue: Option<&'a QueueName>) -> Self {
        Applied { counter, target, queue, own: 0, kept_for: None }
    }

    /// Subtracts what a job counts as.
    fn without(mut self, footprint: Footprint) -> Self {
        self.own = self.counter.apply(footprint, u64::saturating_sub);
        self
    }

    /// Counts suspended reservations as reserved if the asking job is in a stopped queue. When the queue starts, Flux starts its jobs
    /// together.
    fn count_suspended(mut self, is_stopped: bool) -> Self {
        if is_stopped {
            let Counter { reserved, suspended, .. } = &mut self.counter;
            *reserved = reserved.saturating_add(std::mem::take(suspended));
        }
        self
    }

    /// Returns the overtaken job for which the scope keeps headroom from a job that needs the amount `needed`. The amount that the job
    /// counts as already is not kept from it.
    fn kept_from(&self, needed: u64) -> Option<JobId> {
        self.kept_for.filter(|_| self.own < needed)
    }

    fn is_exceeded_by(&self, size: Size) -> bool {
        let needed = size.amount(self.counter.amount.measure);
        self.kept_from(needed).is_some() || needed > self.counter.left()
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
            kept_for: self.kept_from(needed),
        }
    }
}

/// The limits for which a [`Room`] has space without a second allocation.
const ROOM: usize = 16;

/// The headroom that each limit leaves to one more job of an association in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room(Vec<(Hold, Measure, u64)>);

impl<'a> FromIterator<Applied<'a>> for Room {
    fn from_iter<I: IntoIterator<Item = Applied<'a>>>(limits: I) -> Room {
        let left = |limit: &Applied<'_>| if limit.kept_for.is_some() { 0 } else { limit.counter.left() };
        let mut room = Room(Vec::with_capacity(ROOM));
        room.0.extend(limits.into_iter().map(|it| (it.counter.hold, it.counter.amount.measure, left(&it))));
        room
    }
}

impl Room {
    /// Returns the limits that one more job of `size` would exceed. A larger job never exceeds fewer.
    pub fn exceeded(&self, size: Size) -> HoldSet {
        self.0
            .iter()
            .filter(|(_, measure, left)| size.amount(*measure) > *left)
            .map(|(hold, ..)| *hold)
            .collect()
    }
}

/// A limit, the amount in use, and the amount that a job would add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The limit.
    pub hold: Hold,
    /// Which jobs the limit counts, and what of them.
    pub amount: Amount,
    /// Whose jobs count together; `None` for a limit in the record of the association or of a queue.
    pub target: Option<Target>,
    /// The queue whose jobs count; `None` for all queues.
    pub queue: Option<QueueName>,
    /// How much is in use, reservations included.
    pub used: u64,
    /// How much of that is reserved for released jobs.
    pub reserved: u64,
    /// The cap.
    pub limit: Limit,
    /// How much the job would add; 0 if no job is asked about.
    pub needed: u64,
    /// The overtaken job for which the scope keeps the headroom.
    pub kept_for: Option<JobId>,
}

impl Holding {
    /// Returns how many jobs like the asking one the limit lets go now; `u64::MAX` if the job needs nothing of it.
    pub fn fitting(&self) -> u64 {
        let left = self.limit.cap().saturating_sub(self.used);
        if self.kept_for.is_some() { 0 } else { left.checked_div(self.needed).unwrap_or(u64::MAX) }
    }
}

/// A limit over a scope, and the amount in use.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeUsage {
    /// The limit.
    pub limit: SiteLimit,
    /// How much is in use, reservations included. `None` for a limit on each association, bank or user: each has a counter.
    pub used: Option<u64>,
    /// How much of that is reserved for released jobs.
    pub reserved: Option<u64>,
}

/// Returns those of `limits` that one more job of `size` would exceed.
fn list_exceeded<'a>(limits: impl Iterator<Item = Applied<'a>>, size: Size) -> HoldSet {
    limits.filter(|limit| limit.is_exceeded_by(size)).map(|limit| limit.counter.hold).collect()
}

/// The limits, and how much of each the live jobs use.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    ledger: &'a Ledger,
    book: &'a Book,
}

impl<'a> Limits<'a> {
    /// Returns the limits in `book`, under which `ledger` counts the jobs.
    pub fn new(ledger: &'a Ledger, book: &'a Book) -> Limits<'a> {
        Limits { ledger, book }
    }

    /// Returns the limits in the records of an association and of `queue`. What `job` counts as is not counted.
    fn own(
        self,
        association: AssociationId,
        queue: Option<&QueueName>,
        job: Option<&'a Job>,
    ) -> impl Iterator<Item = Applied<'a>> {
        let job = job.filter(|job| job.association() == Some(association));
        let Limits { ledger, book } = self;
        let is_stopped = ledger.is_stopped(queue);
        let usage = ledger.accounts.usage(association);
        let record = book.association(association);
        let limits =
            record.map(|record| ledger.rules().applied(book, record, queue, usage)).unwrap_or_default();
        limits.into_iter().map(move |limit| {
            let counts = |job: &&Job| {
                book.site_limits().counts_in(limit.queue, job.queue.as_ref().map(QueueName::as_str))
            };
            job.filter(counts).map_or(limit, |job| limit.without(job.footprint())).count_suspended(is_stopped)
        })
    }

    /// Returns the limits over scopes that apply to the asker. What `job` counts as is not counted.
    fn over_scopes(self, asker: Asker<'a>, job: Option<&'a Job>) -> impl Iterator<Item = Applied<'a>> {
        let ledger = self.ledger;
        let theirs = job
            .and_then(Job::association)
            .map(|theirs| ledger.accounts.member_of(theirs))
            .unwrap_or_default();
        let (is_stopped, before) = (ledger.is_stopped(asker.queue), ledger.overtaken.before(asker));
        ledger.accounts.scopes_of(asker.association, asker.queue).flat_map(move |(id, scope)| {
            let job = job.filter(|job| theirs.contains(&id) && scope.has(job.queue.as_ref()));
            scope.counters.iter().map(move |counter| {
                let limit = Applied::new(*counter, Some(&scope.target), scope.queue.as_ref());
                let limit = job.map_or(limit, |job| limit.without(job.footprint()));
                let kept_for = before.iter().find(|it| it.kept_in == Some(id) && counter.lacks(it.size));
                Applied { kept_for: kept_for.map(|it| it.job), ..limit.count_suspended(is_stopped) }
            })
        })
    }

    /// Returns all limits that apply to the asker. What `job` counts as is not counted.
    fn all(self, asker: Asker<'a>, job: Option<&'a Job>) -> impl Iterator<Item = Applied<'a>> {
        self.own(asker.association, asker.queue, job).chain(self.over_scopes(asker, job))
    }

    /// Returns the headroom that the records of an association and of `queue` leave to one more job.
    pub(super) fn own_headroom(self, association: AssociationId, queue: Option<&QueueName>) -> Room {
        self.own(association, queue, None).collect()
    }

    /// Returns the headroom that all limits leave to one more job of `association` in `queue`.
    pub fn headroom(self, association: AssociationId, queue: Option<&QueueName>) -> Room {
        self.all(Asker { association, queue, job: None }, None).collect()
    }

    /// Returns the limits that a live job would exceed if it moved to another association or queue.
    pub fn exceeded_if_moved(
        self,
        job: &Job,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> HoldSet {
        list_exceeded(self.all(Asker { association, queue, job: None }, Some(job)), job.size)
    }

    /// Returns the limits that a held job would exceed. A held job counts in no counter of these limits.
    pub fn exceeded_by(self, id: JobId) -> HoldSet {
        let Some(job) = self.ledger.job(id) else { return HoldSet::NONE };
        let Some(association) = job.association() else { return HoldSet::NONE };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        list_exceeded(self.all(asker, None), job.size)
    }

    /// Returns true if limits over scopes alone hold a job for which headroom may be kept, and they could let it go.
    pub(super) fn is_held_by_scopes_alone(self, id: JobId) -> bool {
        let job = self.ledger.job(id).filter(|job| job.may_be_protected());
        let Some((job, association)) = job.and_then(|job| Some((job, job.association()?))) else {
            return false;
        };
        let queue = job.queue.as_ref();
        self.own_headroom(association, queue).exceeded(job.size).is_empty()
            && self.ledger.accounts.scopes_of(association, queue).all(|(_, scope)| scope.could_fit(job.size))
    }

    /// Returns the limits of associations and queues that a job would exceed if there were no reservations.
    pub fn exceeded_by_charges(self, job: &Job) -> HoldSet {
        let Some(association) = job.association() else { return HoldSet::NONE };
        let limits = self.own(association, job.queue.as_ref(), None);
        let charged =
            limits.map(|limit| Applied { counter: Counter { reserved: 0, ..limit.counter }, ..limit });
        list_exceeded(charged, job.size)
    }

    /// Returns the limits that hold a job, or would hold it if it were released now, in the order of their names. What the job counts as is
    /// not counted.
    pub fn holding(self, id: JobId) -> Vec<Holding> {
        let mut holding = self.ledger.job(id).map(|job| self.on_job(id, job)).unwrap_or_default();
        holding.retain(|limit| limit.fitting() == 0);
        holding
    }

    /// Returns the limits that apply to a job, in the order of their names. What the job counts as is not counted. The job need not be live.
    pub fn on_job(self, id: JobId, job: &Job) -> Vec<Holding> {
        let Some(association) = job.association() else { return Vec::new() };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        let mut limits: Vec<Holding> =
            self.all(asker, Some(job)).map(|limit| limit.describe(job.size)).collect();
        limits.extend(self.on_first_job(asker, job.size));
        limits.sort_by_key(|one| one.hold);
        limits
    }

    /// Returns the limits over scopes for a job of an association that is in no scope yet, because it has had no job.
    fn on_first_job(self, asker: Asker<'_>, size: Size) -> Vec<Holding> {
        let Limits { ledger, book } = self;
        let (accounts, limits) = (&ledger.accounts, book.site_limits());
        let is_member = accounts.get(asker.association).is_some_and(|account| account.member_of.is_some());
        let Some(record) = book.association(asker.association).filter(|_| !is_member) else {
            return Vec::new();
        };
        let (before, is_stopped) = (ledger.overtaken.before(asker), ledger.is_stopped(asker.queue));
        let mut found = Vec::new();
        for scope in accounts.scopes.scopes_to_join(record.user, &record.bank) {
            let ScopeToJoin { id, target, queue, counters } = scope;
            if !limits.counts_in(queue.as_ref(), asker.queue.map(QueueName::as_str)) {
                continue;
            }
            found.extend(counters.into_iter().map(|counter| {
                let is_kept = |it: &&Overtaken| id.is_some() && it.kept_in == id && counter.lacks(it.size);
                let kept_for = before.iter().find(is_kept).map(|it| it.job);
                let limit = Applied::new(counter, Some(&target), queue.as_ref());
                Applied { kept_for, ..limit.count_suspended(is_stopped) }.describe(size)
            }));
        }
        found
    }

    /// Returns the limits in the records of an association and of `queue`, in the order of the table.
    pub fn pressures(self, association: AssociationId, queue: Option<&QueueName>) -> Vec<Holding> {
        let limits = self.own(association, queue, None);
        limits.map(|limit| Holding { needed: 0, ..limit.describe(Size::ONE) }).collect()
    }

    /// Returns at most `most` jobs that a limit over a scope counts, each with the time when it ends at the latest, if that is known. The
    /// first to end comes first.
    pub fn counted_in_scope(
        self,
        association: AssociationId,
        target: &Target,
        queue: Option<&QueueName>,
        most: usize,
    ) -> Vec<(JobId, Option<f64>)> {
        let accounts = &self.ledger.accounts;
        let is_it =
            |(_, scope): &(ScopeId, &LimitScope)| scope.target == *target && scope.queue.as_ref() == queue;
        let Some((scope, _)) = accounts.all_scopes_of(association).find(is_it) else { return Vec::new() };
        let is_member = |account: &&Account| account.member_of().contains(&scope);
        let members = accounts.iter().map(|(_, account)| account).filter(is_member);
        let jobs = members.flat_map(|account| account.counted.iter().copied());
        let limits = accounts.scopes.limits();
        let counts_in = |job: &Job| limits.counts_in(queue, job.queue.as_ref().map(QueueName::as_str));
        let is_here =
            |(_, id): &(Until, JobId)| queue.is_none() || self.ledger.job(*id).is_some_and(counts_in);
        let mut jobs: Vec<(Until, JobId)> = jobs.filter(is_here).take(most).collect();
        jobs.sort_unstable();
        jobs.into_iter().map(|(until, id)| (id, until.time())).collect()
    }

    /// Returns all limits over scopes as the site set them.
    pub fn scope_usages(self) -> Vec<ScopeUsage> {
        let limits = self.ledger.accounts.scopes.limits().iter().map(|(target, queue, amount, cap)| {
            SiteLimit { target: target.clone(), queue: queue.cloned(), amount, cap }
        });
        limits.map(|limit| self.usage_of(limit)).collect()
    }

    /// Returns the limits over scopes that count the jobs of a user in a bank.
    pub fn scope_usages_on(self, user: UserId, bank: &BankName) -> Vec<(Hold, ScopeUsage)> {
        let of_target = |(target, queue, caps): (Target, Option<QueueName>, ScopeCaps)| {
            caps.into_iter().map(move |(amount, cap)| {
                let row = Row { scope: target.scope(queue.is_some()), amount };
                let limit = SiteLimit { target: target.clone(), queue: queue.clone(), amount, cap };
                (row.hold(), self.usage_of(limit))
            })
        };
        self.ledger.accounts.scopes.limits().limits_for(user, bank).into_iter().flat_map(of_target).collect()
    }

    fn usage_of(self, limit: SiteLimit) -> ScopeUsage {
        let scope = self.ledger.accounts.scopes.find(&limit.target, limit.queue.as_ref()).into_iter();
        let counter = scope.flat_map(|scope| &scope.counters).find(|counter| counter.amount == limit.amount);
        let (used, reserved) = counter.map_or((0, 0), |counter| (counter.used(), counter.reserved));
        let shown = |amount| limit.target.default_target().map(|_| amount);
        ScopeUsage { used: shown(used), reserved: shown(reserved), limit }
    }

    /// Returns the rejection of a job that is larger than a whole cap over a scope.
    pub fn rejection_over_scopes(
        self,
        association: AssociationId,
        queue: Option<&str>,
        size: Size,
    ) -> Option<String> {
        let Limits { ledger, book } = self;
        let limits = book.site_limits();
        let is_here = |of: Option<&QueueName>| limits.counts_in(of, queue);
        if ledger.accounts.get(association).is_some_and(|account| account.member_of.is_some()) {
            // This is faster than to look the limits up.
            let scopes = ledger.accounts.all_scopes_of(association).map(|(_, scope)| scope);
            return scopes.filter(|scope| is_here(scope.queue.as_ref())).find_map(|scope| {
                let of =
                    |it: &Counter| rejection(&scope.target, scope.queue.as_ref(), it.amount, it.cap, size);
                scope.counters.iter().find_map(of)
            });
        }
        let association = book.association(association)?;
        let on = limits.limits_for(association.user, &association.bank);
        on.iter().filter(|(_, of, _)| is_here(of.as_ref())).find_map(|(target, of, caps)| {
            caps.iter().find_map(|(amount, cap)| rejection(target, of.as_ref(), *amount, *cap, size))
        })
    }
}
