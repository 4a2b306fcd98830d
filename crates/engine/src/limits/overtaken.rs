// SPDX-License-Identifier: LGPL-3.0-only
//! Anti-starvation reservations: headroom that a limit scope keeps for a held job that was overtaken.
//!
//! A job is overtaken when [`OVERTAKEN`] other jobs have taken headroom in a scope since the job became the first held job of its
//! association there. While a scope keeps headroom, no other job becomes overtaken there. These rules say where headroom is kept:
//!
//! - A scope keeps headroom only while the overtaken job does not fit. Each limit that the job would exceed keeps its remaining headroom,
//!   which is less than the size of the job.
//! - A job that a budget holds has no reservation, because the job may never fit.
//! - If several scopes have too little headroom for the job, only the narrowest scope keeps headroom. The narrowest
//!   scope holds the job in any case, so the other scopes need not delay their jobs.
//! - The reservation ends when the job leaves, when its urgency becomes 0, or when its queue is stopped. The reservation is suspended while
//!   the limits of the job's own association hold the job.
//!
//! An older reservation takes precedence over a newer one.

use super::accounts::Accounts;
use super::held::HeldAssociations;
use super::job::{BlockState, Demand, Job};
use super::ledger::JobRow;
use super::scope::ScopeId;
use super::size::Size;
use crate::accounts::AssociationId;
use crate::ids::{JobId, JobMap, QueueName};
use std::collections::BTreeSet;

/// A waiting job becomes overtaken when this number of other jobs have taken headroom in the scope.
pub const OVERTAKEN: u64 = 100;

/// An overtaken job.
#[derive(Clone, Debug)]
pub(super) struct OvertakenJob {
    pub association: AssociationId,
    pub job: JobId,
    pub size: Size,
    queue: Option<QueueName>,
    /// True if the job has a priority above 0, and only limits over scopes hold the job. Otherwise, no scope keeps
    /// headroom for the job.
    is_active: bool,
    /// The scope that keeps headroom for the job now; `None` if no scope does.
    pub kept_in: Option<ScopeId>,
}

impl OvertakenJob {
    /// Returns true if every scope has headroom for the job.
    fn is_ready(&self) -> bool {
        self.is_active && self.kept_in.is_none()
    }

    /// Returns the scope that must keep headroom for the job: the narrowest scope in which the job does not fit. Returns `None` if the job
    /// fits in all scopes, or if it is not active.
    fn find_smallest_scope_without_headroom(&self, accounts: &Accounts) -> Option<ScopeId> {
        let scopes = || accounts.scopes_of(self.association, self.queue.as_ref()).filter(|_| self.is_active);
        // A job that lacks headroom in a budget may never fit.
        if scopes().any(|(_, scope)| scope.lacks_budget(self.size)) {
            return None;
        }
        scopes().find(|(_, scope)| scope.lacks_headroom(self.size)).map(|(id, _)| id)
    }

    /// Returns true if `asker` is this job. If `asker` has no job id, compares the association and the queue.
    fn matches(&self, asker: Asker<'_>) -> bool {
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
    /// The id of the job. `None` means that the question is about all jobs of `association` in `queue`.
    pub job: Option<JobId>,
}

impl Job {
    /// Returns true if a scope may keep headroom for the job: the job is held, no other plugin blocks it, and it would be scheduled.
    pub(super) fn may_be_protected(&self) -> bool {
        self.is_held()
            && self.block_state == BlockState::Unblocked
            && self.demand == Demand::ToRun
            && !self.is_queue_stopped
    }
}

/// The overtaken jobs, in the order in which they were overtaken.
#[derive(Clone, Debug, Default)]
pub struct OvertakenJobs {
    all: Vec<OvertakenJob>,
    newly_protected: Vec<JobId>,
    lapsed: BTreeSet<AssociationId>,
}

impl OvertakenJobs {
    /// Returns true if job `id` is overtaken.
    pub fn contains(&self, id: JobId) -> bool {
        self.all.iter().any(|it| it.job == id)
    }

    /// Returns true if a scope keeps headroom for job `id` now. When that job leaves, other held jobs may fit.
    pub fn is_headroom_kept_for(&self, id: JobId) -> bool {
        self.all.iter().any(|it| it.job == id && it.kept_in.is_some())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, OvertakenJob> {
        self.all.iter()
    }

    /// Returns the overtaken jobs for which scope `id` keeps headroom now.
    pub(super) fn kept_in(&self, id: ScopeId) -> impl Iterator<Item = &OvertakenJob> {
        self.all.iter().filter(move |it| it.kept_in == Some(id))
    }

    /// Returns the overtaken jobs that take precedence over `asker`. If `asker` is itself overtaken and fits in all its scopes, jobs that
    /// were overtaken later do not take precedence.
    pub(super) fn list_preceding(&self, asker: Asker<'_>) -> &[OvertakenJob] {
        let own = self.all.iter().position(|it| it.is_ready() && it.matches(asker));
        own.and_then(|own| self.all.get(..own)).unwrap_or(&self.all)
    }

    /// Returns the association whose overtaken job is released first. The job must fit in all its scopes. At least
    /// one of these scopes must count jobs of `association` too. Skips associations for which `is_left` returns
    /// false. Returns `None` if no overtaken job fits.
    pub(super) fn find_first_ready(
        &self,
        accounts: &Accounts,
        association: AssociationId,
        is_left: impl Fn(AssociationId) -> bool,
    ) -> Option<AssociationId> {
        let scope_ids = accounts.get(association).scope_ids();
        let is_shared = |it: &&OvertakenJob| {
            let mut scopes = accounts.scopes_of(it.association, it.queue.as_ref());
            scopes.any(|(id, _)| scope_ids.contains(&id))
        };
        let mut ready = self.all.iter().filter(|it| it.is_ready() && is_left(it.association));
        ready.find(is_shared).map(|it| it.association)
    }

    /// Protects an overtaken job if `is_active` is true, and otherwise suspends its protection. Returns true if anything changed. The
    /// caller then calls [`OvertakenJobs::update_reservations`].
    pub(super) fn protect_job(
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
        self.all.push(OvertakenJob { association, job: id, size, queue, is_active, kept_in: None });
        self.newly_protected.push(id);
        true
    }

    /// Decides for each overtaken job of `association` which scope keeps headroom. If `association` is `None`,
    /// decides this for all overtaken jobs. Removes jobs that have left, have moved, or would not be scheduled.
    /// Returns true if anything changed.
    pub(super) fn update_reservations(
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
            let remains = jobs.get(it.job).is_some_and(|JobRow { job, .. }| {
                job.may_be_protected()
                    && (job.association(), &job.queue, job.size) == (Some(it.association), &it.queue, it.size)
            });
            let kept_in = it.find_smallest_scope_without_headroom(accounts).filter(|_| remains);
            is_changed |= !remains || it.kept_in != kept_in;
            if it.kept_in.is_some() && it.kept_in != kept_in {
                self.lapsed.insert(it.association);
            }
            if !remains && held.all().contains(&it.association) {
                held.mark_positions_stale(it.association);
            }
            it.kept_in = kept_in;
            remains
        });
        is_changed
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// Returns the jobs that have become overtaken since the last call.
    pub fn take_newly_overtaken_jobs(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.newly_protected)
    }

    /// Returns the associations whose overtaken jobs have lost an anti-starvation reservation since the last call.
    /// Other held jobs of the scope may now fit.
    pub fn take_associations_with_freed_headroom(&mut self) -> BTreeSet<AssociationId> {
        std::mem::take(&mut self.lapsed)
    }

    /// Describes each overtaken job for which the wrong scope keeps headroom, with its association. A difference is a bug.
    pub(super) fn drift(&self, accounts: &Accounts) -> impl Iterator<Item = (AssociationId, String)> {
        let expected = self.all.iter().map(|it| (it, it.find_smallest_scope_without_headroom(accounts)));
        let wrong = expected.filter(|(it, kept_in)| it.kept_in != *kept_in);
        wrong.map(|(it, kept_in)| (it.association, format!("{it:?}: expected kept_in {kept_in:?}")))
    }
}
