// SPDX-License-Identifier: LGPL-3.0-only
//! Where held jobs wait for room that many associations share.
//!
//! An association stands in the line of a group by the price its first held job would have; by id where prices are equal.
//! It stands only where it would be of use: not where its own limits hold all its jobs, and of several groups in which it
//! has held jobs only in one that alone holds them all, if there is such a one. So what a pass over a group looks at is who
//! goes, and who turns out to wait elsewhere. Prices in a line are worked out anew after they moved, when somebody looks.
//!
//! No job is overtaken indefinitely: `overtaken.rs` says when groups keep headroom for a job.

use super::groups::{Group, GroupId, Groups};
use super::in_vain::InVain;
use super::ledger::{Class, Ledger, Row};
use super::overtaken::{OVERTAKEN, Protected};
use super::{Keepers, Size, Walk};
use crate::accounts::{AssociationId, Book};
use crate::ids::{JobId, QueueName, Stage};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    keepers: Keepers,
    price: Reverse<u32>,
    head: JobId,
    pub association: AssociationId,
}

impl Key {
    pub fn is_kept(self) -> bool {
        self.keepers == Keepers::Others
    }
}

/// How an association waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// In these lines.
    pub(super) lines: Vec<(GroupId, Key)>,
    /// Of each group its first job there, and how many had taken room when it became that.
    first: BTreeMap<GroupId, (JobId, u64)>,
    /// Its place among others, wherever they wait.
    pub key: Option<Key>,
    /// Its overtaken jobs.
    pub protected: Vec<Protected>,
}

impl Waiting {
    /// Whether it stands in no line.
    pub fn is_nowhere(&self) -> bool {
        self.lines.is_empty()
    }
}

/// Where an association is to stand, but for the prices that say before whom.
#[derive(Clone, Debug)]
pub struct Unplaced {
    association: AssociationId,
    /// Its first held job.
    first: Option<Head>,
    /// The groups for whose room it waits, each with the first of its held jobs there and the least that these ask for.
    lines: Vec<(GroupId, Head, Size)>,
    /// Its overtaken jobs.
    overtaken: Vec<JobId>,
}

/// A held job before which no other of its association stands.
type Head = (Keepers, JobId);

impl Unplaced {
    /// The held jobs whose prices decide it.
    pub fn heads(&self) -> BTreeSet<JobId> {
        let heads = self.first.iter().chain(self.lines.iter().map(|(_, head, _)| head));
        heads.map(|(_, id)| *id).chain(self.overtaken.iter().copied()).collect()
    }
}

impl Ledger {
    /// Makes an association known whose job is about to come: which limits over scopes it comes under.
    pub fn meet(&mut self, book: &Book, id: AssociationId) {
        if self.groups.are_none() {
            return;
        }
        let (groups, account) = self.groups_and_account(id);
        if let Some(account) = account.filter(|account| account.member_of.is_none())
            && let Some(association) = book.association(id)
        {
            let joined = groups.join(association.user, &association.bank);
            account.member_of = Some(groups.narrowest_first(&joined).into());
        }
    }

    /// Takes over the limits over scopes. Where they changed, all live jobs are counted anew.
    pub fn regroup(&mut self, book: &Book) {
        if Arc::ptr_eq(self.groups.limits(), book.site_limits()) {
            return;
        }
        let had_none = self.groups.are_none();
        self.groups = Groups::of_limits(book.site_limits());
        if had_none && self.groups.are_none() {
            return;
        }
        self.unplaced.clear();
        self.in_vain = InVain::default();
        for index in 0..self.accounts.len() {
            let Some(id) = AssociationId::from_index(index) else { continue };
            let Some(account) = self.accounts.get_mut(index) else { continue };
            (account.member_of, account.waiting) = (None, Waiting::default());
            if !account.is_idle() {
                self.meet(book, id);
            }
        }
        for Row { job, .. } in self.jobs.values() {
            if let Some(association) = job.association() {
                let account = self.accounts.get(association.index());
                let member_of = account.and_then(|account| account.member_of.as_deref());
                self.groups.deposit(member_of.unwrap_or_default(), job, job.footprint());
            }
        }
        self.place_all_anew();
    }

    /// Prices moved: those in line are to be worked out anew.
    pub fn prices_moved(&mut self) {
        self.epoch += 1;
    }

    /// What holds whom is to be worked out anew for all.
    pub fn place_all_anew(&mut self) {
        if !self.groups.are_none() {
            self.unplaced.extend(self.in_line.iter());
        }
    }

    /// Whether limits over scopes count the running jobs of an association.
    pub fn runs_under_scopes(&self, association: AssociationId) -> bool {
        let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        groups.flat_map(|group| &group.meters).any(|meter| meter.amount.stage == Stage::Running)
    }

    /// Associations whose place must be known before the walk goes on.
    pub fn unplaced(&mut self, book: &Book, walk: &Walk) -> Vec<Unplaced> {
        if self.is_alone(walk.association()) {
            return Vec::new();
        }
        let epoch = self.epoch;
        let (groups, account) = self.groups_and_account(walk.association());
        let member_of = account.and_then(|account| account.member_of.as_deref()).unwrap_or_default();
        let mut due = Vec::new();
        for id in member_of {
            let Some(group) = groups.get_mut(*id) else { continue };
            if std::mem::replace(&mut group.epoch, epoch) != epoch {
                due.extend(group.line.ids().map(|key| key.association));
            }
        }
        let member_of = self.member_of(walk.association()).iter().filter_map(|id| self.groups.get(*id));
        due.extend(member_of.filter_map(|group| self.newly_overtaken(group)));
        let mut all = std::mem::take(&mut self.unplaced);
        // They stand where they would be put.
        self.in_vain.passed_over.clear();
        all.extend(due);
        all.into_iter().map(|association| self.place_of(book, association)).collect()
    }

    /// Whether nobody waits for room that an association shares but itself, so that its place is no matter.
    fn is_alone(&self, association: AssociationId) -> bool {
        let mut groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        let mut unplaced = self.unplaced.iter().chain(&self.in_vain.passed_over);
        unplaced.all(|other| *other == association)
            && groups.all(|group| group.line.is_empty() && group.overtaken.is_empty())
    }

    fn place_of(&self, book: &Book, association: AssociationId) -> Unplaced {
        let line = |id: GroupId| {
            let group = self.groups.get(id)?;
            let in_group = self.lines(association).filter(|(class, _)| group.has(class.queue.as_ref()));
            let least = in_group.filter_map(|(_, line)| line.least()).reduce(Size::min_of)?;
            Some((id, self.head(association, Some(group))?, least))
        };
        let lines: Vec<_> = self.waits_in(book, association).into_iter().filter_map(line).collect();
        let first = if lines.is_empty() { None } else { self.head(association, None) };
        let overtaken = self.account_of(association).map(|account| account.waiting.protected.iter());
        let overtaken = overtaken.into_iter().flatten().map(|it| it.overtaken.job).collect();
        Unplaced { association, first, lines, overtaken }
    }

    /// The first held job of an association; of those that count in a group.
    fn head(&self, association: AssociationId, group: Option<&Group>) -> Option<Head> {
        let classes = self.lines(association);
        let classes = classes.filter(|(class, _)| group.is_none_or(|group| group.has(class.queue.as_ref())));
        classes.filter_map(|(class, line)| Some((class.keepers, line.ids().next()?))).min()
    }

    /// Puts an association where it waits, given the priorities of its first held jobs, in the midst of a walk, and protects those of its
    /// jobs that were overtaken.
    pub fn place(&mut self, book: &Book, walk: &mut Walk, unplaced: Unplaced, priorities: &[(JobId, u32)]) {
        let Unplaced { association, first, lines, overtaken } = unplaced;
        self.leave_lines(association);
        let former = self.take_protected(association);
        let priority = |job: JobId| {
            let found = priorities.iter().find(|(id, _)| *id == job);
            found.map_or(0, |(_, priority)| *priority)
        };
        let key = |(keepers, head): Head| Key { keepers, price: Reverse(priority(head)), head, association };
        let mut to_protect: BTreeSet<JobId> = overtaken.into_iter().collect();
        let (groups, account) = self.groups_and_account(association);
        let Some(account) = account else { return };
        account.waiting.key = first.map(key);
        let mut is_newly_overtaken = false;
        for (id, head, least) in lines {
            let (Some(group), key) = (groups.get_mut(id), key(head)) else { continue };
            let first = account.waiting.first.entry(id).or_insert((key.head, group.taken));
            if first.0 != key.head {
                *first = (key.head, group.taken);
            }
            if group.taken.saturating_sub(first.1) >= OVERTAKEN {
                is_newly_overtaken |= to_protect.insert(key.head);
            }
            groups.line_up(id, key, least, first.1);
            walk.lines_up(id, key);
            account.waiting.lines.push((id, key));
        }
        let to_protect: Vec<(JobId, u32)> = to_protect.into_iter().map(|id| (id, priority(id))).collect();
        self.protect(book, association, &to_protect, &former);
        let are_counted_anew = self.count_overtakes_anew(association);
        let protected = self.account_of(association).map(|account| account.waiting.protected.as_slice());
        if is_newly_overtaken || are_counted_anew || protected.unwrap_or_default() != former {
            self.look_anew();
        }
    }

    /// Counts overtakes from now on where the first job of the association was overtaken, and no group may keep headroom for it. Says
    /// whether there is such a job.
    fn count_overtakes_anew(&mut self, association: AssociationId) -> bool {
        let (groups, account) = self.groups_and_account(association);
        let Some(account) = account else { return false };
        let mut is_any = false;
        for (id, key) in &account.waiting.lines {
            let Some(group) = groups.get_mut(*id) else { continue };
            let is_protected = group.overtaken.iter().any(|it| it.job == key.head);
            let Some(first) = account.waiting.first.get_mut(id).filter(|_| !is_protected) else { continue };
            if group.taken.saturating_sub(first.1) >= OVERTAKEN {
                group.since.remove(&(first.1, association));
                first.1 = group.taken;
                group.since.insert((first.1, association));
                is_any = true;
            }
        }
        is_any
    }

    /// Takes an association out of all lines.
    fn leave_lines(&mut self, association: AssociationId) {
        let (groups, account) = self.groups_and_account(association);
        let Some(account) = account else { return };
        for (id, key) in std::mem::take(&mut account.waiting.lines) {
            groups.step_out(id, key, account.waiting.first.get(&id).map(|(_, since)| *since));
        }
    }

    /// Whether eventlogs are being read of jobs that count together with those of an association in a queue.
    pub fn shares_with_unread(&self, association: AssociationId, queue: Option<&QueueName>) -> bool {
        let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        self.has_unread() && groups.filter(|group| group.has(queue)).any(|group| group.unread > 0)
    }

    /// The groups for whose room an association waits.
    fn waits_in(&self, book: &Book, association: AssociationId) -> Vec<GroupId> {
        let mut waits = Vec::new();
        if self.is_unread(association) {
            return waits;
        }
        for (Class { queue, .. }, line) in self.lines(association) {
            let own = self.own_room(book, association, queue.as_ref());
            if line.next(None, |size| own.exceeded(size).is_empty()).is_none() {
                continue;
            }
            let groups = self.member_of(association).iter().copied();
            let groups = groups.filter_map(|id| Some((id, self.groups.get(id)?)));
            let groups: Vec<_> = groups.filter(|(_, group)| group.has(queue.as_ref())).collect();
            let holds_all = |group: &Group| line.next(None, |size| group.fits(size)).is_none();
            match groups.iter().find(|(_, group)| holds_all(group)) {
                Some((id, _)) => waits.push(*id),
                None => waits.extend(groups.iter().map(|(id, _)| *id)),
            }
        }
        waits.sort_unstable();
        waits.dedup();
        waits
    }

    /// Whose turn it is in the groups of the walk's association, or its own, of those that were not looked at yet. An overtaken job that
    /// all its groups have headroom for goes first.
    pub(super) fn candidate(&self, walk: &mut Walk) -> Option<AssociationId> {
        if let Some(first) = self.ready_overtaken(walk.association(), |of| !walk.was_tried(of)) {
            return Some(first);
        }
        let own = Some(walk.association()).filter(|own| !walk.was_tried(*own));
        let mut best = own.and_then(|own| self.account_of(own)?.waiting.key);
        for id in self.member_of(walk.association()) {
            let next = self.groups.get(*id).and_then(|group| self.next_in_group(*id, group, walk));
            best = best.into_iter().chain(next).min();
        }
        best.map(|key| key.association).or(own)
    }

    fn next_in_group(&self, id: GroupId, group: &Group, walk: &mut Walk) -> Option<Key> {
        let begun = walk.passed(id, group);
        let (mut after, mut looks) = (begun, 0);
        loop {
            let found = group.line.next(after, |least| {
                looks += 1;
                group.fits(least) && !group.keeps_from(least)
            });
            let is_passed = |key: &Key| walk.was_tried(key.association) || !walk.admits(key.is_kept());
            match found.filter(is_passed) {
                Some(key) => after = Some(key),
                None => {
                    // What is kept for an overtaken job is others' when that has gone: nobody is passed for good because of it.
                    let upto = after.filter(|_| after != begun && group.keeps_for.is_empty());
                    walk.pass(id, group, upto, looks);
                    return found;
                }
            }
        }
    }
}
