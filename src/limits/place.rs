// SPDX-License-Identifier: LGPL-3.0-only
//! Where held jobs wait for room that many associations share.
//!
//! An association stands in the line of a group by the price its first held job would have; by id where prices are equal.
//! It stands only where it would be of use: not where its own limits hold all its jobs, and of several groups in which it
//! has held jobs only in one that alone holds them all, if there is such a one. So what a pass over a group looks at is who
//! goes, and who turns out to wait elsewhere. Prices in a line are worked out anew after they moved, when somebody looks.
//!
//! Nobody is overtaken for ever. From when a job is the first of its association in a group, at most [`OVERTAKEN`] jobs take
//! room there before it; then it has a claim on all groups it belongs to, and only those with older claims come before it:
//! whoever else waits or comes there takes none of what is left until the claim is met. A job has a claim only while
//! nothing but these groups holds it, and while it would find room if nobody else were there.

use super::groups::{Group, GroupId, Groups};
use super::in_vain::InVain;
use super::ledger::{Class, Ledger, Row};
use super::{Job, Keepers, Size, Walk};
use crate::accounts::{AssociationId, Book};
use crate::ids::{JobId, QueueName, Stage};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many jobs may take room in a group before the first job of an association that waits there.
pub const OVERTAKEN: u64 = 100;

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

/// A claim on room; the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    number: u64,
    pub association: AssociationId,
    pub head: JobId,
    pub size: Size,
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
    /// Its claim, which is the same in all groups that it is on.
    pub claim: Option<Claim>,
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
}

/// A held job before which no other of its association stands.
type Head = (Keepers, JobId);

impl Unplaced {
    /// The held jobs whose prices decide it.
    pub fn heads(&self) -> BTreeSet<JobId> {
        self.first.iter().chain(self.lines.iter().map(|(_, head, _)| head)).map(|(_, id)| *id).collect()
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
            account.member_of = Some(groups.join(association.user, &association.bank));
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

    /// Whether others are kept from going because of this job.
    pub fn has_claim(&self, id: JobId) -> bool {
        let association = self.job(id).and_then(Job::association);
        association.and_then(|of| self.claim_of(of)).is_some_and(|claim| claim.head == id)
    }

    fn claim_of(&self, association: AssociationId) -> Option<Claim> {
        self.account_of(association)?.waiting.claim
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
            } else if group.claims.is_empty()
                && let Some((since, oldest)) = group.since.first()
                && group.taken.saturating_sub(*since) >= OVERTAKEN
            {
                due.push(*oldest);
            }
        }
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
            && groups.all(|group| group.line.is_empty() && group.claims.is_empty())
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
        Unplaced { association, first, lines }
    }

    /// The first held job of an association; of those that count in a group.
    fn head(&self, association: AssociationId, group: Option<&Group>) -> Option<Head> {
        let classes = self.lines(association);
        let classes = classes.filter(|(class, _)| group.is_none_or(|group| group.has(class.queue.as_ref())));
        classes.filter_map(|(class, line)| Some((class.keepers, line.ids().next()?))).min()
    }

    /// Puts an association where it waits, given the prices of its first held jobs, in the midst of a walk. Gives it back if it
    /// gave up a claim: then others may go who could not.
    pub fn place(
        &mut self,
        book: &Book,
        walk: &mut Walk,
        unplaced: Unplaced,
        prices: &[(JobId, u32)],
    ) -> Option<AssociationId> {
        let Unplaced { association, first, lines } = unplaced;
        let claim = self.claim_of(association);
        let former = self.leave_lines(association);
        let price = |head: JobId| {
            let found = prices.iter().find(|(id, _)| *id == head);
            found.map_or(0, |(_, price)| *price)
        };
        let key = |(keepers, head): Head| Key { keepers, price: Reverse(price(head)), head, association };
        let mut wanted = None;
        let (groups, account) = self.groups_and_account(association);
        let account = account?;
        account.waiting.key = first.map(key);
        for (id, head, least) in lines {
            let (Some(group), key) = (groups.get_mut(id), key(head)) else { continue };
            let first = account.waiting.first.entry(id).or_insert((key.head, group.taken));
            if first.0 != key.head {
                *first = (key.head, group.taken);
            }
            if group.taken.saturating_sub(first.1) >= OVERTAKEN {
                wanted = wanted.or(Some((key, id)));
            }
            groups.line_up(id, key, least, first.1);
            walk.lines_up(id, key);
            account.waiting.lines.push((id, key));
        }
        let is_claimed = wanted.is_some_and(|(key, id)| self.claim(book, key, id, former));
        if self.claim_of(association) != claim || (wanted.is_some() && !is_claimed) {
            self.look_anew();
        }
        (former.is_some() && !is_claimed).then_some(association)
    }

    /// Takes an association out of all lines, and its claim back; gives the number that had.
    fn leave_lines(&mut self, association: AssociationId) -> Option<(JobId, u64)> {
        let (groups, account) = self.groups_and_account(association);
        // Who stands in no line has no claim.
        let account = account.filter(|account| !account.waiting.is_nowhere())?;
        for (id, key) in std::mem::take(&mut account.waiting.lines) {
            groups.step_out(id, key, account.waiting.first.get(&id).map(|(_, since)| *since));
        }
        let claim = account.waiting.claim.take()?;
        for id in account.member_of.iter().flatten() {
            if let Some(group) = groups.get_mut(*id) {
                group.claims.remove(&claim);
            }
        }
        Some((claim.head, claim.number))
    }

    /// Lays claim to room for a job that was overtaken often enough in a group; or counts anew if it may not.
    fn claim(&mut self, book: &Book, key: Key, id: GroupId, former: Option<(JobId, u64)>) -> bool {
        let association = key.association;
        let head = self.job(key.head).map(|job| (job.queue.clone(), job.size));
        let Some((queue, size)) = head else { return false };
        let own = self.own_room(book, association, queue.as_ref());
        let of_head = |group: &&Group| group.has(queue.as_ref());
        let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        let is_theirs = own.exceeded(size).is_empty()
            && key.keepers == Keepers::NobodyElse
            && key.price.0 > 0
            && groups.filter(of_head).all(|group| group.could_fit(size));
        if !is_theirs {
            let (groups, account) = self.groups_and_account(association);
            if let (Some(group), Some(account)) = (groups.get_mut(id), account)
                && let Some(first) = account.waiting.first.get_mut(&id)
            {
                group.since.remove(&(first.1, association));
                first.1 = group.taken;
                group.since.insert((first.1, association));
            }
            return false;
        }
        self.claims_made += 1;
        let number =
            former.filter(|(head, _)| *head == key.head).map_or(self.claims_made, |(_, number)| number);
        let claim = Claim { number, association, head: key.head, size };
        let (groups, account) = self.groups_and_account(association);
        let Some(account) = account else { return false };
        account.waiting.claim = Some(claim);
        for id in account.member_of.iter().flatten() {
            if let Some(group) = groups.get_mut(*id).filter(|group| group.has(queue.as_ref())) {
                group.claims.insert(claim);
            }
        }
        true
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

    /// Whose turn it is in the groups of the walk's association, or its own, of those that were not looked at yet.
    pub(super) fn candidate(&self, walk: &mut Walk) -> Option<AssociationId> {
        let own = Some(walk.association()).filter(|own| !walk.was_tried(*own));
        let mut best = own.and_then(|own| self.account_of(own)?.waiting.key);
        for id in self.member_of(walk.association()) {
            let next = self.groups.get(*id).and_then(|group| self.next_in_group(*id, group, walk));
            best = best.into_iter().chain(next).min();
        }
        best.map(|key| key.association).or(own)
    }

    fn next_in_group(&self, id: GroupId, group: &Group, walk: &mut Walk) -> Option<Key> {
        if let Some(claim) = group.claims.first() {
            let key = self.account_of(claim.association)?.waiting.key?;
            return Some(key).filter(|_| group.fits(claim.size) && !walk.was_tried(claim.association));
        }
        let begun = walk.passed(id, group);
        let (mut after, mut looks) = (begun, 0);
        loop {
            let found = group.line.next(after, |least| {
                looks += 1;
                group.fits(least)
            });
            let is_passed = |key: &Key| walk.was_tried(key.association) || !walk.admits(key.is_kept());
            match found.filter(is_passed) {
                Some(key) => after = Some(key),
                None => {
                    walk.pass(id, group, after.filter(|_| after != begun), looks);
                    return found;
                }
            }
        }
    }
}
