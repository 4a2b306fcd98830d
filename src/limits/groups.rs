// SPDX-License-Identifier: LGPL-3.0-only
//! Groups: jobs that count together under limits over scopes, across associations.
//!
//! A group is there from when the first association that belongs to it gets a job, and only where the site set a limit on
//! it. Which groups an association belongs to is worked out once, when the limits change or its first job comes.

use super::counts::{Counts, Tally};
use super::hold::Hold;
use super::job::{Footprint, Job};
use super::ledger::Ledger;
use super::line::SizedLine;
use super::place::{Claim, Key};
use super::scopes::{Row, rejection};
use super::size::Size;
use super::usage::Usage;
use crate::accounts::{AssociationId, Book, Cap, Caps, SiteLimit, SiteLimits, Target};
use crate::ids::{Amount, BankName, JobId, Limit, QueueName, UserId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names a group until the limits change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId(u32);

/// A cap on the jobs of a group, and what they use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meter {
    pub hold: Hold,
    pub amount: Amount,
    pub cap: Cap,
    /// By jobs that are charged, and by those to which it is promised.
    pub used: u64,
    /// The part of `used` that is reserved for released jobs.
    pub reserved: u64,
}

impl Meter {
    /// What a job uses of it.
    fn of(&self, footprint: Footprint) -> u64 {
        let Footprint { charged, reserved, .. } = footprint;
        Tally { charged, reserved }.used(self.amount.stage, self.amount.measure, self.cap.is_given)
    }

    /// What is reserved of it for a job.
    fn reserved_of(&self, footprint: Footprint) -> u64 {
        self.of(Footprint { charged: Counts::default(), ..footprint })
    }

    /// What is in use, by others than this job.
    fn used_but(&self, but: Option<Footprint>) -> u64 {
        self.used.saturating_sub(but.map_or(0, |footprint| self.of(footprint)))
    }
}

/// Jobs that count together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub target: Target,
    /// Only jobs of this queue.
    pub queue: Option<QueueName>,
    pub meters: Box<[Meter]>,
    /// Jobs that took room here, ever.
    pub taken: u64,
    /// Associations that wait for room here, by price, with the least that their held jobs ask for.
    pub line: SizedLine<Key>,
    /// The same by since when their first job is the first: by how many jobs had taken room then.
    pub since: BTreeSet<(u64, AssociationId)>,
    /// First jobs that were overtaken often enough: until they are let go, nobody else is who came later.
    pub claims: BTreeSet<Claim>,
    /// As of when the prices in line are.
    pub epoch: u64,
    /// Jobs whose eventlog is not read yet: until then its headroom is not known, and nobody who waits for it is let go.
    pub unread: usize,
}

impl Group {
    pub fn has(&self, queue: Option<&QueueName>) -> bool {
        self.queue.is_none() || self.queue.as_ref() == queue
    }

    /// What it leaves, by limit.
    pub fn left(&self, but: Option<&Job>) -> impl Iterator<Item = (Hold, Amount, u64)> {
        let but = but.map(Job::footprint);
        self.meters.iter().map(move |meter| {
            let left = meter.cap.limit.cap().saturating_sub(meter.used_but(but));
            (meter.hold, meter.amount, left)
        })
    }

    /// Whether one more job of `size` finds room, as far as that is known.
    pub fn fits(&self, size: Size) -> bool {
        self.unread == 0 && self.left(None).all(|(_, amount, left)| size.of(amount.measure) <= left)
    }

    /// Whether a job of `size` would find room if nobody else were there.
    pub fn could_fit(&self, size: Size) -> bool {
        self.meters.iter().all(|meter| meter.cap.limit.admits(0, size.of(meter.amount.measure)))
    }

    /// What is in use of a limit of it, reservations included, and the reservations alone.
    fn used(&self, amount: Amount) -> (u64, u64) {
        let meter = self.meters.iter().find(|meter| meter.amount == amount);
        meter.map_or((0, 0), |meter| (meter.used, meter.reserved))
    }

    fn apply(&mut self, footprint: Footprint, op: fn(u64, u64) -> u64) {
        for meter in &mut self.meters {
            meter.used = op(meter.used, meter.of(footprint));
            meter.reserved = op(meter.reserved, meter.reserved_of(footprint));
        }
    }
}

impl Tally {
    fn without(self, job: &Job) -> Tally {
        let footprint = job.footprint();
        Tally {
            charged: self.charged.minus(footprint.charged),
            reserved: self.reserved.minus(footprint.reserved),
        }
    }
}

/// All groups, and the limits they are of.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    limits: Arc<SiteLimits>,
    all: Vec<Group>,
    ids: BTreeMap<(Target, Option<QueueName>), GroupId>,
}

impl Groups {
    pub fn are_none(&self) -> bool {
        self.limits.is_empty()
    }

    /// Puts an association into the line of a group.
    pub fn line_up(&mut self, id: GroupId, key: Key, least: Size, since: u64) {
        if let Some(group) = self.get_mut(id) {
            group.since.insert((since, key.association));
            group.line.insert(key, least);
        }
    }

    /// Takes it out again.
    pub fn step_out(&mut self, id: GroupId, key: Key, since: Option<u64>) {
        if let Some(group) = self.get_mut(id) {
            group.line.remove(key);
            if let Some(since) = since {
                group.since.remove(&(since, key.association));
            }
        }
    }

    pub fn limits(&self) -> &Arc<SiteLimits> {
        &self.limits
    }

    pub fn of_limits(limits: &Arc<SiteLimits>) -> Groups {
        Groups { limits: Arc::clone(limits), ..Groups::default() }
    }

    /// The same groups without jobs.
    pub fn emptied(mut self) -> Groups {
        for group in &mut self.all {
            group.meters.iter_mut().for_each(|meter| (meter.used, meter.reserved) = (0, 0));
            group.line = SizedLine::default();
            group.unread = 0;
            group.since.clear();
            group.claims.clear();
        }
        self
    }

    /// Everybody who stands in line, group by group.
    pub fn lines(&self) -> impl Iterator<Item = (GroupId, Key)> {
        let all = self.all.iter().enumerate();
        all.flat_map(|(at, group)| group.line.ids().map(move |key| (GroupId(at as u32), key)))
    }

    /// The same as they are known by since when they stand there.
    pub fn since(&self) -> impl Iterator<Item = (GroupId, AssociationId)> {
        let all = self.all.iter().enumerate();
        all.flat_map(|(at, group)| group.since.iter().map(move |(_, id)| (GroupId(at as u32), *id)))
    }

    /// All claims.
    pub fn claims(&self) -> impl Iterator<Item = Claim> {
        self.all.iter().flat_map(|group| group.claims.iter().copied())
    }

    pub fn get(&self, id: GroupId) -> Option<&Group> {
        self.all.get(id.0 as usize)
    }

    pub fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.all.get_mut(id.0 as usize)
    }

    pub fn find(&self, target: &Target, queue: Option<&QueueName>) -> Option<&Group> {
        self.get(*self.ids.get(&(target.clone(), queue.cloned()))?)
    }

    /// The groups of an association.
    pub fn join(&mut self, user: UserId, bank: &BankName) -> Box<[GroupId]> {
        let limits = Arc::clone(&self.limits);
        let one = |(target, queue, caps): (Target, Option<QueueName>, Caps)| {
            let key = (target, queue);
            if let Some(id) = self.ids.get(&key) {
                return Some(*id);
            }
            let id = GroupId(u32::try_from(self.all.len()).ok()?);
            let scope = key.0.scope(key.1.is_some());
            let meter = |(amount, cap)| Meter {
                hold: Row { scope, amount }.hold(),
                amount,
                cap,
                used: 0,
                reserved: 0,
            };
            self.all.push(Group {
                target: key.0.clone(),
                queue: key.1.clone(),
                meters: caps.into_iter().map(meter).collect(),
                taken: 0,
                line: SizedLine::default(),
                since: BTreeSet::new(),
                claims: BTreeSet::new(),
                epoch: 0,
                unread: 0,
            });
            self.ids.insert(key, id);
            Some(id)
        };
        limits.on(user, bank).into_iter().filter_map(one).collect()
    }

    pub fn deposit(&mut self, groups: &[GroupId], job: &Job, footprint: Footprint) {
        if footprint.is_idle() && !job.is_unread() {
            return;
        }
        self.of_job(groups, job, |group| {
            group.apply(footprint, u64::saturating_add);
            group.unread += usize::from(job.is_unread());
        });
    }

    pub fn withdraw(&mut self, groups: &[GroupId], job: &Job, footprint: Footprint) {
        if footprint.is_idle() && !job.is_unread() {
            return;
        }
        self.of_job(groups, job, |group| {
            group.apply(footprint, u64::saturating_sub);
            group.unread = group.unread.saturating_sub(usize::from(job.is_unread()));
        });
    }

    /// A job took room.
    pub fn took(&mut self, groups: &[GroupId], job: &Job) {
        self.of_job(groups, job, |group| group.taken += 1);
    }

    fn of_job(&mut self, groups: &[GroupId], job: &Job, change: impl Fn(&mut Group)) {
        for id in groups {
            self.get_mut(*id).filter(|group| group.has(job.queue.as_ref())).into_iter().for_each(&change);
        }
    }
}

impl Ledger {
    /// The rejection of a job that asks for more than a whole cap over a scope.
    pub fn rejection_over_scopes(
        &self,
        book: &Book,
        association: AssociationId,
        queue: Option<&str>,
        size: Size,
    ) -> Option<String> {
        if self.groups.are_none() {
            return None;
        }
        let is_here = |of: &Option<QueueName>| of.as_ref().is_none_or(|of| Some(of.as_str()) == queue);
        if self.account_of(association).is_some_and(|account| account.member_of.is_some()) {
            let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
            let judge = |group: &Group| {
                let (target, of) = (&group.target, group.queue.as_ref());
                group.meters.iter().find_map(|meter| rejection(target, of, meter.amount, meter.cap, size))
            };
            return groups.filter(|group| is_here(&group.queue)).find_map(judge);
        }
        let association = book.association(association)?;
        let on = book.site_limits().on(association.user, &association.bank);
        on.iter().filter(|(_, of, _)| is_here(of)).find_map(|(target, of, caps)| {
            caps.iter().find_map(|(amount, cap)| rejection(target, of.as_ref(), *amount, *cap, size))
        })
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
    /// What is in use and promised.
    pub used: u64,
    /// The cap.
    pub limit: Limit,
    /// What the job would add.
    pub needed: u64,
    /// There may be room, and it is kept for a job that was overtaken too often.
    pub is_claimed: bool,
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
        let queue = job.queue.as_ref().and_then(|queue| book.queue(queue.as_str()));
        for (hold, rule) in self.rules().all() {
            let Some(limits) = book.association(association) else { continue };
            let of = queue.filter(|_| rule.is_of_queue());
            let tally = of.map_or(usage.total, |queue| usage.in_queue(queue.name.as_str())).without(job);
            all.extend(rule.caps_on(limits, queue).map(|(measure, limit)| Holding {
                hold,
                amount: Amount { stage: rule.stage, measure },
                target: None,
                queue: of.map(|queue| queue.name.clone()),
                used: tally.used(rule.stage, measure, false),
                limit,
                needed: job.size.of(measure),
                is_claimed: false,
            }));
        }
        let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        for group in groups.filter(|group| group.has(job.queue.as_ref())) {
            let is_claimed = self.is_claimed(group, association, job.queue.as_ref());
            all.extend(group.meters.iter().map(|meter| Holding {
                hold: meter.hold,
                amount: meter.amount,
                target: Some(group.target.clone()),
                queue: group.queue.clone(),
                used: meter.used_but(Some(job.footprint())),
                limit: meter.cap.limit,
                needed: job.size.of(meter.amount.measure),
                is_claimed,
            }));
        }
        all.retain(|one| one.needed > 0 && (one.is_claimed || !one.limit.admits(one.used, one.needed)));
        all
    }

    /// Whether the room of a group is kept from an association's jobs of a queue. While a claim stands, its room is kept from everybody
    /// but the job that has it: from other associations; from later jobs of its own, until there is room for it; and from those in other
    /// queues, which a pass might look at first.
    pub(super) fn is_claimed(
        &self,
        group: &Group,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> bool {
        group.claims.first().is_some_and(|claim| {
            let is_elsewhere = || self.job(claim.head).is_some_and(|head| head.queue.as_ref() != queue);
            claim.association != association || !group.fits(claim.size) || is_elsewhere()
        })
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
