// SPDX-License-Identifier: LGPL-3.0-only
//! Groups: jobs that count together under limits over scopes, across associations.
//!
//! A group is there from when the first association that belongs to it gets a job, and only where the site set a limit on
//! it. Which groups an association belongs to is worked out once, when the limits change or its first job comes.

use super::counter::Counter;
use super::counts::Tally;
use super::job::{Footprint, Job};
use super::ledger::Ledger;
use super::line::SizedLine;
use super::overtaken::Overtaken;
use super::place::Key;
use super::scopes::{Row, rejection};
use super::size::Size;
use crate::accounts::{AssociationId, Book, Caps, SiteLimits, Target};
use crate::ids::{BankName, QueueName, UserId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names a group until the limits change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId(u32);

/// Jobs that count together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub target: Target,
    /// Only jobs of this queue and of its virtual queues.
    pub queue: Option<QueueName>,
    /// The virtual queues of the queue.
    pub virtual_queues: Box<[QueueName]>,
    pub meters: Box<[Counter]>,
    /// Jobs that took room here, ever.
    pub taken: u64,
    /// Associations that wait for room here, by price, with the least that their held jobs ask for.
    pub line: SizedLine<Key>,
    /// The same by since when their first job is the first: by how many jobs had taken room then.
    pub since: BTreeSet<(u64, AssociationId)>,
    /// Overtaken jobs that count here.
    pub overtaken: BTreeSet<Overtaken>,
    /// Those for which the group keeps headroom now.
    pub keeps_for: BTreeSet<Overtaken>,
    /// As of when the prices in line are.
    pub epoch: u64,
    /// Jobs whose eventlog is not read yet: until then its headroom is not known, and nobody who waits for it is let go.
    pub unread: usize,
}

impl Group {
    pub fn has(&self, queue: Option<&QueueName>) -> bool {
        self.queue.is_none()
            || self.queue.as_ref() == queue
            || queue.is_some_and(|queue| self.virtual_queues.contains(queue))
    }

    /// Whether there is headroom for one more job of `size`, as far as that is known.
    pub fn fits(&self, size: Size) -> bool {
        self.unread == 0 && !self.meters.iter().any(|meter| meter.lacks(size))
    }

    /// Whether a job of `size` would take headroom that the group keeps for an overtaken job.
    pub fn keeps_from(&self, size: Size) -> bool {
        let takes = |meter: &&Counter| size.of(meter.amount.measure) > 0;
        let is_kept = |meter: &Counter| self.keeps_for.iter().any(|it| meter.lacks(it.size));
        !self.keeps_for.is_empty() && self.meters.iter().filter(takes).any(is_kept)
    }

    /// Whether a job of `size` would find room if nobody else were there.
    pub fn could_fit(&self, size: Size) -> bool {
        self.meters.iter().all(|meter| meter.cap.limit.admits(0, size.of(meter.amount.measure)))
    }

    fn apply(&mut self, footprint: Footprint, op: fn(u64, u64) -> u64) {
        for counter in &mut self.meters {
            counter.apply(footprint, op);
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
            group.meters.iter_mut().for_each(|meter| (meter.charged, meter.reserved) = (0, 0));
            group.line = SizedLine::default();
            group.unread = 0;
            group.since.clear();
            group.overtaken.clear();
            group.keeps_for.clear();
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

    /// The overtaken jobs of each group.
    pub fn overtaken(&self) -> BTreeSet<(GroupId, Overtaken)> {
        self.each(|group| &group.overtaken)
    }

    /// Those for which each group keeps headroom.
    pub fn kept_for(&self) -> BTreeSet<(GroupId, Overtaken)> {
        self.each(|group| &group.keeps_for)
    }

    fn each(&self, of: impl Fn(&Group) -> &BTreeSet<Overtaken>) -> BTreeSet<(GroupId, Overtaken)> {
        let all = self.all.iter().enumerate();
        all.flat_map(|(at, group)| of(group).iter().map(move |it| (GroupId(at as u32), *it))).collect()
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
            let meter =
                |(amount, cap)| Counter::new(Row { scope, amount }.hold(), amount, cap, Tally::default());
            self.all.push(Group {
                target: key.0.clone(),
                virtual_queues: key
                    .1
                    .iter()
                    .flat_map(|queue| limits.virtual_queues(queue.as_str()))
                    .cloned()
                    .collect(),
                queue: key.1.clone(),
                meters: caps.into_iter().map(meter).collect(),
                taken: 0,
                line: SizedLine::default(),
                since: BTreeSet::new(),
                overtaken: BTreeSet::new(),
                keeps_for: BTreeSet::new(),
                epoch: 0,
                unread: 0,
            });
            self.ids.insert(key, id);
            Some(id)
        };
        limits.on(user, bank).into_iter().filter_map(one).collect()
    }

    /// The same groups, the narrowest first: those of a user before those of banks, inner banks before outer ones.
    pub fn narrowest_first(&self, groups: &[GroupId]) -> Vec<GroupId> {
        let breadth = |id: &GroupId| {
            let group = self.get(*id)?;
            let is_bank = matches!(group.target, Target::Bank(_) | Target::EachBank);
            let inner = groups.iter().filter_map(|id| self.get(*id));
            let inner = inner.take_while(|other| other.target != group.target).count();
            Some((is_bank, inner, group.queue.is_none()))
        };
        let mut sorted = groups.to_vec();
        sorted.sort_by_key(breadth);
        sorted
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
        let is_here = |of: &Option<QueueName>| book.site_limits().counts_in(of.as_ref(), queue);
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
