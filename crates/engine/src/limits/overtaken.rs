// SPDX-License-Identifier: LGPL-3.0-only
//! Anti-starvation reservations: headroom that a limit scope keeps for a held job that was overtaken.
//!
//! A job is overtaken when [`OVERTAKEN`] other jobs have taken headroom in a scope since it became the first job of its association that
//! waits there. While a scope keeps headroom, no other job becomes overtaken there. Three rules say where headroom is kept:
//!
//! - A scope keeps headroom only while it has none for the overtaken job: the limits that the job would exceed keep what they have left,
//!   which is less than the job's own size.
//! - Of several scopes without headroom for the job only the narrowest keeps any: no scope stands still for a job that another scope
//!   holds. The narrowest comes first, so that a job waits for its own user's other jobs before others wait for it.
//! - The reservation ends when the job leaves, when its urgency becomes 0, and when its queue is stopped. It is suspended while the limits
//!   of the job's own association hold the job.
//!
//! An older reservation takes precedence over a newer one.

use super::accounts::Accounts;
use super::held::HeldAssociations;
use super::job::{Demand, Job, Keepers};
use super::ledger::JobRow;
use super::scope::ScopeId;
use super::size::Size;
use crate::accounts::AssociationId;
use crate::ids::{JobId, JobMap, QueueName};
use std::collections::BTreeSet;

/// How many jobs may take headroom in a scope before the first job of an association that waits there.
pub const OVERTAKEN: u64 = 100;

/// An overtaken job.
#[derive(Clone, Debug)]
pub(super) struct Overtaken {
    pub association: AssociationId,
    pub job: JobId,
    pub size: Size,
    queue: Option<QueueName>,
    /// Whether the job has a priority, and limits over scopes alone hold it. Otherwise no scope keeps headroom for it.
    is_active: bool,
    /// The scope that keeps headroom for the job now.
    pub kept_in: Option<ScopeId>,
}

impl Overtaken {
    /// Returns true if every scope has headroom for the job.
    fn is_ready(&self) -> bool {
        self.is_active && self.kept_in.is_none()
    }

    /// Returns the scope that is to keep headroom for the job: the narrowest that has none for it.
    fn narrowest_without_headroom(&self, accounts: &Accounts) -> Option<ScopeId> {
        let mut scopes = accounts.scopes_of(self.association, self.queue.as_ref()).filter(|_| self.is_active);
        scopes.find(|(_, scope)| scope.lacks(self.size)).map(|(id, _)| id)
    }

    fn is_of(&self, asker: Asker<'_>) -> bool {
        asker.job.map_or_else(
            || (self.association, self.queue.as_ref()) == (asker.association, asker.queue),
            |id| self.job == id,
        )
    }
}

/// A job that asks for headroom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub association: AssociationId,
    pub queue: Option<&'a QueueName>,
    /// The job; `None` for any job of the association in that queue.
    pub job: Option<JobId>,
}

impl Job {
    /// Returns true if headroom may be kept for the job: it is held, no other plugin keeps it in DEPEND, and it would be scheduled.
    pub(super) fn may_be_protected(&self) -> bool {
        self.is_held()
            && self.keepers == Keepers::NobodyElse
            && self.demand == Demand::ToRun
            && !self.is_queue_stopped
    }
}

/// The overtaken jobs, in the order in which they were overtaken.
#[derive(Clone, Debug, Default)]
pub struct OvertakenJobs {
    all: Vec<Overtaken>,
    newly_protected: Vec<JobId>,
    lapsed: BTreeSet<AssociationId>,
}

impl OvertakenJobs {
    /// Returns true if a job was overtaken so often that its scopes keep headroom for it.
    pub fn contains(&self, id: JobId) -> bool {
        self.all.iter().any(|it| it.job == id)
    }

    /// Returns true if a scope keeps headroom for the job now. Other jobs may go when the job leaves.
    pub fn keep_headroom_for(&self, id: JobId) -> bool {
        self.all.iter().any(|it| it.job == id && it.kept_in.is_some())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Overtaken> {
        self.all.iter()
    }

    /// Returns the overtaken jobs for which a scope keeps headroom now.
    pub(super) fn kept_in(&self, id: ScopeId) -> impl Iterator<Item = &Overtaken> {
        self.all.iter().filter(move |it| it.kept_in == Some(id))
    }

    /// Returns the overtaken jobs that take precedence over the asker. From an overtaken job for which every scope has headroom, nothing is
    /// kept for jobs that were overtaken later.
    pub(super) fn before(&self, asker: Asker<'_>) -> &[Overtaken] {
        let own = self.all.iter().position(|it| it.is_ready() && it.is_of(asker));
        own.and_then(|own| self.all.get(..own)).unwrap_or(&self.all)
    }

    /// Returns the association, of those in `is_left`, of the first overtaken job that shares a scope with `association` and for which
    /// every scope has headroom. This job goes first.
    pub(super) fn first_ready(
        &self,
        accounts: &Accounts,
        association: AssociationId,
        is_left: impl Fn(AssociationId) -> bool,
    ) -> Option<AssociationId> {
        let member_of = accounts.member_of(association);
        let is_shared = |it: &&Overtaken| {
            let mut scopes = accounts.scopes_of(it.association, it.queue.as_ref());
            scopes.any(|(id, _)| member_of.contains(&id))
        };
        let mut ready = self.all.iter().filter(|it| it.is_ready() && is_left(it.association));
        ready.find(is_shared).map(|it| it.association)
    }

    /// Protects an overtaken job if `is_active` is true, and otherwise suspends its protection. Returns true if anything changed. An
    /// [`update`](OvertakenJobs::update) follows.
    pub(super) fn protect(
        &mut self,
        association: AssociationId,
        id: JobId,
        job: Option<&Job>,
        is_active: bool,
    ) -> bool {
        if let Some(known) = self.all.iter_mut().find(|it| it.job == id) {
            return std::mem::replace(&mut known.is_active, is_active) != is_active;
        }
        let Some(job) = job.filter(|_| is_active) else { return false };
        let (size, queue) = (job.size, job.queue.clone());
        self.all.push(Overtaken { association, job: id, size, queue, is_active, kept_in: None });
        self.newly_protected.push(id);
        true
    }

    /// Updates which scope keeps headroom for each overtaken job, of one association or of all, and removes the jobs that have left, moved,
    /// or would not be scheduled. Returns true if anything changed.
    pub(super) fn update(
        &mut self,
        association: Option<AssociationId>,
        jobs: &JobMap<JobRow>,
        accounts: &Accounts,
        held: &mut HeldAssociations,
    ) -> bool {
        let mut is_changed = false;
        self.all.retain_mut(|it| {
            if association.is_some_and(|association| association != it.association) {
                return true;
            }
            let stays = jobs.get(it.job).is_some_and(|JobRow { job, .. }| {
                job.may_be_protected()
                    && (job.association(), &job.queue, job.size) == (Some(it.association), &it.queue, it.size)
            });
            let kept_in = it.narrowest_without_headroom(accounts).filter(|_| stays);
            is_changed |= !stays || it.kept_in != kept_in;
            if it.kept_in.is_some() && it.kept_in != kept_in {
                self.lapsed.insert(it.association);
            }
            if !stays && held.all().contains(&it.association) {
                held.place_later(it.association);
            }
            it.kept_in = kept_in;
            stays
        });
        is_changed
    }

    /// Removes all overtaken jobs.
    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// Returns the jobs that have become overtaken since the last call.
    pub fn take_newly_protected(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.newly_protected)
    }

    /// Returns the associations of overtaken jobs for which a scope has ceased to keep headroom since the last call. Other jobs may
    /// go.
    pub fn take_lapsed(&mut self) -> BTreeSet<AssociationId> {
        std::mem::take(&mut self.lapsed)
    }

    /// Returns each overtaken job for which another scope ought to keep headroom.
    pub(super) fn drift(&self, accounts: &Accounts) -> impl Iterator<Item = (AssociationId, String)> {
        let expected = self.all.iter().map(|it| (it, it.narrowest_without_headroom(accounts)));
        let wrong = expected.filter(|(it, kept_in)| it.kept_in != *kept_in);
        wrong.map(|(it, kept_in)| (it.association, format!("{it:?}: {kept_in:?} has no headroom")))
    }
}
