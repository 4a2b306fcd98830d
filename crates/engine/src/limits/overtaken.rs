// SPDX-License-Identifier: LGPL-3.0-only
//! Anti-starvation reservations: headroom that a limit scope keeps for a held job that was overtaken.
//!
//! A job is overtaken when [`OVERTAKEN`] other jobs have taken headroom in a scope since it became the first job of its association that
//! waits there. From then on its scopes keep headroom for it, by three rules.
//!
//! - A scope keeps headroom only while it has none for the overtaken job: the limits that the job would exceed keep what they have left,
//!   which is less than the job's own size.
//! - Of several scopes without headroom for the job only the narrowest keeps any: no scope stands still for a job that another scope
//!   holds. The narrowest comes first, so that a job waits for its own user's other jobs before others wait for it.
//! - The reservation ends when the job leaves, when its urgency becomes 0, and when its queue is stopped. It rests while the limits of its
//!   own association hold the job.
//!
//! An older reservation takes precedence over a newer one.

use super::counter::Counter;
use super::groups::{Group, GroupId, Groups};
use super::job::{Demand, Job, Keepers};
use super::ledger::Ledger;
use super::size::Size;
use crate::accounts::{AssociationId, Book};
use crate::ids::{JobId, QueueName};
use std::collections::BTreeSet;

/// So many jobs may take headroom in a group before the first job of an association that waits there.
pub const OVERTAKEN: u64 = 100;

/// An overtaken job; the one that was overtaken first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Overtaken {
    number: u64,
    pub association: AssociationId,
    pub job: JobId,
    pub size: Size,
}

/// An overtaken job as its association knows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Protected {
    pub overtaken: Overtaken,
    queue: Option<QueueName>,
    /// Whether limits over scopes alone hold the job. Until then no scope keeps headroom for it.
    is_active: bool,
    /// The group that keeps headroom for it now.
    kept_in: Option<GroupId>,
}

impl Protected {
    /// Whether the job may go as far as its own reservation is concerned: every group has headroom for it.
    fn is_ready(&self) -> bool {
        self.is_active && self.kept_in.is_none()
    }
}

/// What a group keeps from a job, for jobs that were overtaken before `before`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept<'a> {
    keeps_for: &'a BTreeSet<Overtaken>,
    before: Option<Overtaken>,
}

impl Kept<'_> {
    /// The job for which the group keeps what the limit has left, if there is one.
    pub fn of(&self, meter: &Counter) -> Option<JobId> {
        let older = self.keeps_for.iter().take_while(|it| self.before.is_none_or(|before| **it < before));
        older.filter(|it| meter.lacks(it.size)).map(|it| it.job).next()
    }
}

/// Who asks for headroom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub association: AssociationId,
    pub queue: Option<&'a QueueName>,
    /// The job; `None` for any job of the association in that queue.
    pub job: Option<JobId>,
}

impl Job {
    /// Whether headroom may be kept for the job: the job is held, nobody else keeps it in DEPEND, and it would be scheduled.
    fn may_be_protected(&self) -> bool {
        self.is_held()
            && self.keepers == Keepers::NobodyElse
            && self.demand == Demand::ToRun
            && !self.is_queue_stopped
    }
}

impl Group {
    fn lacks(&self, size: Size) -> bool {
        self.meters.iter().any(|meter| meter.lacks(size))
    }
}

impl Groups {
    /// Of the groups that count a job of this size and queue, the narrowest that has no headroom for it.
    fn narrowest_without_headroom(
        &self,
        member_of: &[GroupId],
        queue: Option<&QueueName>,
        size: Size,
    ) -> Option<GroupId> {
        let lacks = |group: &Group| group.has(queue) && group.lacks(size);
        member_of.iter().copied().find(|id| self.get(*id).is_some_and(lacks))
    }

    fn set_kept_in(&mut self, overtaken: Overtaken, from: Option<GroupId>, to: Option<GroupId>) {
        if let Some(group) = from.and_then(|id| self.get_mut(id)) {
            group.keeps_for.remove(&overtaken);
        }
        if let Some(group) = to.and_then(|id| self.get_mut(id)) {
            group.keeps_for.insert(overtaken);
        }
    }
}

impl Ledger {
    /// Whether a job has been overtaken so often that its scopes keep headroom for it.
    pub fn is_overtaken(&self, id: JobId) -> bool {
        self.protected(id).is_some()
    }

    /// Whether a scope keeps headroom for the job now, so that others may go when the job leaves.
    pub fn keeps_headroom_for(&self, id: JobId) -> bool {
        self.protected(id).is_some_and(|it| it.kept_in.is_some())
    }

    fn protected(&self, id: JobId) -> Option<&Protected> {
        let association = self.job(id)?.association()?;
        self.account_of(association)?.waiting.protected.iter().find(|it| it.overtaken.job == id)
    }

    /// Overtaken jobs that are held, the one that was overtaken first before the others.
    pub fn overtaken(&self) -> Vec<JobId> {
        let accounts = self.accounts.iter().flat_map(|account| &account.waiting.protected);
        let all: BTreeSet<Overtaken> = accounts.map(|it| it.overtaken).collect();
        all.into_iter().map(|overtaken| overtaken.job).collect()
    }

    /// What a group keeps from who asks. From an overtaken job that every group has headroom for, nothing is kept for those that were
    /// overtaken later.
    pub(super) fn kept_from<'a>(&self, group: &'a Group, asker: Asker<'_>) -> Kept<'a> {
        let keeps_for = &group.keeps_for;
        let account = self.account_of(asker.association).filter(|_| !keeps_for.is_empty());
        let is_asker = |it: &&Protected| match asker.job {
            Some(id) => it.overtaken.job == id,
            None => it.queue.as_ref() == asker.queue,
        };
        let protected = account.map(|account| account.waiting.protected.iter()).into_iter().flatten();
        let before = protected.filter(|it| it.is_ready()).filter(is_asker).map(|it| it.overtaken).min();
        Kept { keeps_for, before }
    }

    /// An overtaken job of the association's groups that every group has headroom for, of those in `is_left`; it goes first.
    pub(super) fn ready_overtaken(
        &self,
        association: AssociationId,
        is_left: impl Fn(AssociationId) -> bool,
    ) -> Option<AssociationId> {
        let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        let overtaken = groups.flat_map(|group| &group.overtaken).filter(|it| is_left(it.association));
        let is_ready = |it: &&Overtaken| self.protected(it.job).is_some_and(Protected::is_ready);
        overtaken.filter(is_ready).min().map(|it| it.association)
    }

    /// Associations whose first job in a group has been overtaken since it was last looked at. While the group keeps headroom nobody is
    /// overtaken there.
    pub(super) fn newly_overtaken(&self, group: &Group) -> Option<AssociationId> {
        if !group.keeps_for.is_empty() {
            return None;
        }
        let late =
            group.since.iter().take_while(|(since, _)| group.taken.saturating_sub(*since) >= OVERTAKEN);
        let is_new = |association: &AssociationId| {
            group.overtaken.iter().all(|known| known.association != *association)
        };
        late.map(|(_, association)| *association).find(is_new)
    }

    /// Takes an association's overtaken jobs out of the groups, to be put back by [`protect`](Ledger::protect).
    pub(super) fn take_protected(&mut self, association: AssociationId) -> Vec<Protected> {
        let (groups, account) = self.groups_and_account(association);
        let Some(account) = account else { return Vec::new() };
        let protected = std::mem::take(&mut account.waiting.protected);
        for id in account.member_of.iter().flatten() {
            let Some(group) = groups.get_mut(*id).filter(|_| !protected.is_empty()) else { continue };
            for it in &protected {
                group.overtaken.remove(&it.overtaken);
                group.keeps_for.remove(&it.overtaken);
            }
        }
        protected
    }

    /// Protects the overtaken `jobs`, which come with the priorities that they would have: those in `former` as before, the others from
    /// now on.
    pub(super) fn protect(
        &mut self,
        book: &Book,
        association: AssociationId,
        jobs: &[(JobId, u32)],
        former: &[Protected],
    ) {
        for (id, priority) in jobs {
            let known = former.iter().find(|it| it.overtaken.job == *id);
            if let Some(protected) = self.protectable(book, association, (*id, *priority), known) {
                self.add_protected(association, protected);
            }
        }
        let now = |ledger: &Ledger, id| ledger.protected(id).and_then(|it| it.kept_in);
        let lapses = |it: &&Protected| it.kept_in.is_some() && now(self, it.overtaken.job) != it.kept_in;
        if former.iter().any(|it| lapses(&it)) {
            self.lapsed.insert(association);
        }
    }

    /// How a job is to be protected; `None` if it may not be. A job that is protected already stays so while its own limits hold it.
    fn protectable(
        &mut self,
        book: &Book,
        association: AssociationId,
        (id, priority): (JobId, u32),
        known: Option<&Protected>,
    ) -> Option<Protected> {
        let job = self.job(id).filter(|job| job.may_be_protected() && priority > 0)?;
        let (queue, size) = (job.queue.clone(), job.size);
        let own = self.own_room(book, association, queue.as_ref());
        let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        let could_fit = groups.filter(|group| group.has(queue.as_ref())).all(|group| group.could_fit(size));
        let is_active = own.exceeded(size).is_empty() && could_fit;
        if known.is_none() && !is_active {
            return None;
        }
        let number = known.map_or_else(
            || {
                self.overtaken_so_far += 1;
                self.newly_protected.push(id);
                self.overtaken_so_far
            },
            |known| known.overtaken.number,
        );
        Some(Protected {
            overtaken: Overtaken { number, association, job: id, size },
            queue,
            is_active,
            kept_in: None,
        })
    }

    fn add_protected(&mut self, association: AssociationId, mut protected: Protected) {
        let (groups, account) = self.groups_and_account(association);
        let Some(account) = account else { return };
        let member_of = account.member_of.as_deref().unwrap_or_default();
        if protected.is_active {
            let (overtaken, queue) = (protected.overtaken, protected.queue.as_ref());
            for id in member_of {
                if let Some(group) = groups.get_mut(*id).filter(|group| group.has(queue)) {
                    group.overtaken.insert(overtaken);
                }
            }
            let kept_in = groups.narrowest_without_headroom(member_of, queue, overtaken.size);
            groups.set_kept_in(overtaken, None, kept_in);
            protected.kept_in = kept_in;
        }
        account.waiting.protected.push(protected);
    }

    /// After a job came, went or changed: whether it is protected still, and which groups keep headroom for the overtaken jobs that share
    /// a limit with it.
    pub(super) fn protection_changed(
        &mut self,
        id: JobId,
        former: Option<AssociationId>,
        association: Option<AssociationId>,
    ) {
        if self.groups.are_none() {
            return;
        }
        if let Some(former) = former {
            self.end_protection(id, former);
        }
        let moved_from = former.filter(|former| Some(*former) != association);
        moved_from.into_iter().chain(association).for_each(|of| self.headroom_changed(of));
    }

    /// Where a group keeps no headroom any more, others may go.
    fn headroom_changed(&mut self, association: AssociationId) {
        let groups = self.member_of(association).iter().filter_map(|id| self.groups.get(*id));
        let touched: BTreeSet<Overtaken> = groups.flat_map(|group| group.overtaken.iter().copied()).collect();
        for overtaken in touched {
            let (groups, account) = self.groups_and_account(overtaken.association);
            let Some(account) = account else { continue };
            let member_of = account.member_of.as_deref().unwrap_or_default();
            let found = account.waiting.protected.iter_mut().find(|it| it.overtaken == overtaken);
            let Some(protected) = found else { continue };
            let queue = protected.queue.as_ref();
            let kept_in = groups.narrowest_without_headroom(member_of, queue, overtaken.size);
            let former = std::mem::replace(&mut protected.kept_in, kept_in);
            if former != kept_in {
                groups.set_kept_in(overtaken, former, kept_in);
                if former.is_some() {
                    self.lapsed.insert(overtaken.association);
                }
            }
        }
    }

    /// Ends the protection of a job that has left, moved to another queue, or won't be scheduled.
    fn end_protection(&mut self, id: JobId, association: AssociationId) {
        let known = self.account_of(association).map(|account| account.waiting.protected.iter());
        let Some(known) = known.and_then(|mut known| known.find(|it| it.overtaken.job == id)) else { return };
        let stays = self.job(id).is_some_and(|job| {
            let is_same = (&job.queue, job.size) == (&known.queue, known.overtaken.size);
            is_same && job.may_be_protected() && job.association() == Some(association)
        });
        if stays {
            return;
        }
        let mut protected = self.take_protected(association);
        let ended = protected.extract_if(.., |it| it.overtaken.job == id).any(|it| it.kept_in.is_some());
        for it in protected {
            self.add_protected(association, it);
        }
        if ended {
            self.lapsed.insert(association);
        }
        if self.in_line.contains(&association) {
            self.unplaced.insert(association);
        }
    }

    /// Jobs that have been protected since this was asked last.
    pub fn take_newly_protected(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.newly_protected)
    }

    /// Associations whose overtaken jobs no longer keep headroom where they did: others may go there.
    pub fn take_lapsed(&mut self) -> BTreeSet<AssociationId> {
        std::mem::take(&mut self.lapsed)
    }

    /// What is wrong with the protection of overtaken jobs: nothing, always.
    pub(super) fn protection_drift(&self) -> Vec<(AssociationId, String)> {
        let mut drift = Vec::new();
        let mut said = (BTreeSet::new(), BTreeSet::new());
        for account in &self.accounts {
            let member_of = account.member_of.as_deref().unwrap_or_default();
            for it in &account.waiting.protected {
                let Protected { overtaken, queue, is_active, kept_in } = it;
                let queue = queue.as_ref();
                let narrowest = self.groups.narrowest_without_headroom(member_of, queue, overtaken.size);
                if *kept_in != narrowest.filter(|_| *is_active) {
                    drift.push((overtaken.association, format!("{it:?}: {narrowest:?} has no headroom")));
                }
                let counts = |id: &&GroupId| self.groups.get(**id).is_some_and(|group| group.has(queue));
                let in_groups = member_of.iter().filter(counts).filter(|_| *is_active);
                said.0.extend(in_groups.map(|id| (*id, *overtaken)));
                said.1.extend(kept_in.map(|id| (id, *overtaken)));
            }
        }
        let wrong = said.0.symmetric_difference(&self.groups.overtaken()).copied().collect::<Vec<_>>();
        let kept = said.1.symmetric_difference(&self.groups.kept_for()).copied().collect::<Vec<_>>();
        let wrong = wrong.into_iter().chain(kept);
        drift.extend(wrong.map(|(group, it)| (it.association, format!("{it:?} in {group:?}"))));
        drift
    }
}
