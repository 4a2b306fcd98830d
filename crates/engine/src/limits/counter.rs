// SPDX-License-Identifier: LGPL-3.0-only
//! Counters of limits, and the headroom that they leave to a job.
//!
//! The limits in the records of associations and queues and the limits over scopes differ in where their caps come from. Every decision
//! and every answer reads both as [`Applied`].

use super::counts::Tally;
use super::hold::{Hold, HoldSet};
use super::job::{Footprint, Job};
use super::ledger::{Account, Ledger, Until};
use super::overtaken::Asker;
use super::scope::{LimitScope, ScopeId};
use super::scope_rows::Row;
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
    pub fn new(hold: Hold, amount: Amount, cap: Cap, tally: Tally) -> Counter {
        let (charged, reserved) = tally.parts(amount, cap.is_given);
        Counter { hold, amount, cap, charged, reserved, suspended: tally.suspended_of(amount) }
    }

    /// Sets the counter to 0.
    pub fn clear(&mut self) {
        (self.charged, self.reserved, self.suspended) = (0, 0, 0);
    }

    /// Returns the counter for a job in a stopped queue. When the queue starts, Flux starts its jobs together, so the suspended reservations
    /// count.
    fn in_stopped_queue(self) -> Counter {
        Counter { reserved: self.reserved.saturating_add(self.suspended), suspended: 0, ..self }
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
        let (charged, reserved) = footprint.tally.parts(self.amount, self.cap.is_given);
        (self.charged, self.reserved) = (op(self.charged, charged), op(self.reserved, reserved));
        self.suspended = op(self.suspended, footprint.tally.suspended_of(self.amount));
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

    /// Counts the suspended reservations if the job is in a stopped queue.
    fn seen_from(self, is_stopped: bool) -> Self {
        if is_stopped { Applied { counter: self.counter.in_stopped_queue(), ..self } } else { self }
    }

    /// Returns the overtaken job for which the scope keeps headroom that `needed` would take. A job keeps what it has.
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

impl Ledger {
    /// Returns the limits in the records of an association and of `queue`. What `job` counts as is not counted.
    fn own_limits<'a>(
        &'a self,
        book: &'a Book,
        association: AssociationId,
        queue: Option<&'a QueueName>,
        job: Option<&'a Job>,
    ) -> impl Iterator<Item = Applied<'a>> {
        let job = job.filter(|job| job.association() == Some(association));
        let usage = self.usage(association);
        let limits = book.association(association).into_iter();
        limits.flat_map(move |record| self.rules().applied(book, record, queue, usage)).map(move |limit| {
            let counts = |job: &&Job| {
                book.site_limits().counts_in(limit.queue, job.queue.as_ref().map(QueueName::as_str))
            };
            job.filter(counts)
                .map_or(limit, |job| limit.without(job.footprint()))
                .seen_from(self.is_stopped(queue))
        })
    }

    /// Returns the limits over scopes that apply to the asker. What `job` counts as is not counted.
    fn shared_limits<'a>(
        &'a self,
        asker: Asker<'a>,
        job: Option<&'a Job>,
    ) -> impl Iterator<Item = Applied<'a>> {
        let theirs = job.and_then(Job::association).map(|theirs| self.member_of(theirs)).unwrap_or_default();
        self.scopes_of(asker.association, asker.queue).flat_map(move |(id, scope)| {
            let job = job.filter(|job| theirs.contains(&id) && scope.has(job.queue.as_ref()));
            scope.counters.iter().map(move |counter| {
                let limit = Applied::new(*counter, Some(&scope.target), scope.queue.as_ref());
                let limit = job.map_or(limit, |job| limit.without(job.footprint()));
                let limit = limit.seen_from(self.is_stopped(asker.queue));
                Applied { kept_for: self.kept_from(id, asker, counter), ..limit }
            })
        })
    }

    /// Returns the headroom that the records of an association and of `queue` leave to one more job.
    pub(super) fn own_headroom(
        &self,
        book: &Book,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> Room {
        self.own_limits(book, association, queue, None).collect()
    }

    /// Returns the headroom that all limits leave to one more job of `association` in `queue`.
    pub fn headroom(&self, book: &Book, association: AssociationId, queue: Option<&QueueName>) -> Room {
        let asker = Asker { association, queue, job: None };
        self.own_limits(book, association, queue, None).chain(self.shared_limits(asker, None)).collect()
    }

    fn exceeded_of(&self, book: &Book, asker: Asker<'_>, size: Size, without: Option<&Job>) -> HoldSet {
        let own = self.own_limits(book, asker.association, asker.queue, without);
        let all = own.chain(self.shared_limits(asker, without));
        all.filter(|limit| limit.is_exceeded_by(size)).map(|limit| limit.counter.hold).collect()
    }

    /// Returns the limits that one more job of `size` in `queue` would exceed in `association`.
    pub fn exceeded(
        &self,
        book: &Book,
        association: AssociationId,
        queue: Option<&QueueName>,
        size: Size,
    ) -> HoldSet {
        self.exceeded_of(book, Asker { association, queue, job: None }, size, None)
    }

    /// Returns the limits that a live job would exceed if it moved to another association or queue.
    pub fn exceeded_if_moved(
        &self,
        book: &Book,
        job: &Job,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> HoldSet {
        self.exceeded_of(book, Asker { association, queue, job: None }, job.size, Some(job))
    }

    /// Returns the limits that a held job would exceed. A held job counts in no counter of these limits.
    pub fn exceeded_by(&self, book: &Book, id: JobId) -> HoldSet {
        let Some(job) = self.job(id) else { return HoldSet::NONE };
        let Some(association) = job.association() else { return HoldSet::NONE };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        self.exceeded_of(book, asker, job.size, None)
    }

    /// Returns the limits of associations and queues that a job would exceed if there were no reservations.
    pub fn exceeded_by_charges(&self, book: &Book, job: &Job) -> HoldSet {
        let Some(association) = job.association() else { return HoldSet::NONE };
        let limits = self.own_limits(book, association, job.queue.as_ref(), None);
        let charged =
            limits.map(|limit| Applied { counter: Counter { reserved: 0, ..limit.counter }, ..limit });
        charged.filter(|limit| limit.is_exceeded_by(job.size)).map(|limit| limit.counter.hold).collect()
    }

    /// Returns the limits that hold a job, or would hold it if it were released now, in the order of their names. What the job counts as is
    /// not counted.
    pub fn holding(&self, book: &Book, id: JobId) -> Vec<Holding> {
        let Some((job, association)) = self.job(id).and_then(|job| Some((job, job.association()?))) else {
            return Vec::new();
        };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        let own = self.own_limits(book, association, asker.queue, Some(job));
        let all = own.chain(self.shared_limits(asker, Some(job)));
        let exceeded = all.filter(|limit| limit.is_exceeded_by(job.size));
        let mut holding: Vec<Holding> = exceeded.map(|limit| limit.describe(job.size)).collect();
        holding.sort_by_key(|one| one.hold);
        holding
    }

    /// Returns the limits in the records of an association and of `queue`, in the order of the table.
    pub fn pressures(
        &self,
        book: &Book,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> Vec<Holding> {
        let limits = self.own_limits(book, association, queue, None);
        limits.map(|limit| Holding { needed: 0, ..limit.describe(Size::ONE) }).collect()
    }

    /// Returns at most `most` jobs that a limit over a scope counts, each with the time when it ends at the latest, if that is known. The
    /// first to end comes first.
    pub fn counted_in_scope(
        &self,
        association: AssociationId,
        target: &Target,
        queue: Option<&QueueName>,
        most: usize,
    ) -> Vec<(JobId, Option<f64>)> {
        let is_it =
            |(_, scope): &(ScopeId, &LimitScope)| scope.target == *target && scope.queue.as_ref() == queue;
        let Some((scope, _)) = self.all_scopes_of(association).find(is_it) else { return Vec::new() };
        let is_member =
            |account: &&Account| account.member_of.iter().flatten().any(|member_of| *member_of == scope);
        let members = self.accounts.iter().filter(is_member);
        let jobs = members.flat_map(|account| account.counted.iter().copied());
        let counts_in =
            |job: &Job| self.scopes.limits().counts_in(queue, job.queue.as_ref().map(|queue| queue.as_str()));
        let is_here = |(_, id): &(Until, JobId)| queue.is_none() || self.job(*id).is_some_and(counts_in);
        let mut jobs: Vec<(Until, JobId)> = jobs.filter(is_here).take(most).collect();
        jobs.sort_unstable();
        jobs.into_iter().map(|(until, id)| (id, until.time())).collect()
    }

    /// Returns all limits over scopes as the site set them.
    pub fn scope_usages(&self) -> Vec<ScopeUsage> {
        let shown = |(target, queue, amount, cap): (&Target, Option<&QueueName>, Amount, Cap)| {
            let limit = SiteLimit { target: target.clone(), queue: queue.cloned(), amount, cap };
            let usage = self.usage_of(limit);
            match target.default_target() {
                None => ScopeUsage { used: None, reserved: None, ..usage },
                Some(_) => usage,
            }
        };
        self.scopes.limits().iter().map(shown).collect()
    }

    /// Returns the limits over scopes that count the jobs of a user in a bank.
    pub fn scope_usages_on(&self, user: UserId, bank: &BankName) -> Vec<(Hold, ScopeUsage)> {
        let of_target = |(target, queue, caps): (Target, Option<QueueName>, ScopeCaps)| {
            caps.into_iter().map(move |(amount, cap)| {
                let row = Row { scope: target.scope(queue.is_some()), amount };
                let limit = SiteLimit { target: target.clone(), queue: queue.clone(), amount, cap };
                (row.hold(), self.usage_of(limit))
            })
        };
        self.scopes.limits().limits_for(user, bank).into_iter().flat_map(of_target).collect()
    }

    fn usage_of(&self, limit: SiteLimit) -> ScopeUsage {
        let scope = self.scopes.find(&limit.target, limit.queue.as_ref()).into_iter();
        let counter = scope.flat_map(|scope| &scope.counters).find(|counter| counter.amount == limit.amount);
        let (used, reserved) = counter.map_or((0, 0), |counter| (counter.used(), counter.reserved));
        ScopeUsage { limit, used: Some(used), reserved: Some(reserved) }
    }
}
