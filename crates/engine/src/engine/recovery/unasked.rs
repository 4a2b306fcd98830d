// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs in SCHED whose eventlogs the engine has not read after a reload or a restart. The engine does not need these
//! eventlogs while no limit on running jobs can be reached ([`is_in_reach`]). If such a limit could be reached after
//! a change, the engine reads the eventlogs before it gives headroom to another job.

use crate::accounts::AssociationId;
use crate::engine::{Effect, Recovery, Shared};
use crate::ids::{JobId, Limit, Measure, QueueName, Stage};
use crate::limits::{Job, Knowledge, Phase, Reservation};

impl Recovery {
    /// Requests the unread eventlogs of jobs that could now reach a limit. Considers the jobs of association `of`, or
    /// all jobs if `of` is `None`.
    pub fn request_noted_eventlogs(&mut self, shared: &mut Shared, of: Option<AssociationId>) -> Vec<Effect> {
        let first_key = of.map(|association| (association, None));
        let keys = match &first_key {
            Some(first_key) => self.unasked.range(first_key..),
            None => self.unasked.range(..),
        };
        let keys = keys.map(|(key, _)| key).take_while(|key| of.is_none_or(|of| key.0 == of));
        let due: Vec<_> =
            keys.filter(|(of, queue)| is_in_reach(shared, *of, queue.as_ref())).cloned().collect();
        let jobs: Vec<JobId> = due.iter().filter_map(|key| self.unasked.remove(key)).flatten().collect();
        let is_open = |job: &Job| {
            (job.phase, job.knowledge, job.reservation) == (Phase::Sched, Knowledge::Known, Reservation::None)
        };
        let open = jobs.into_iter().filter(|id| shared.ledger.job(*id).is_some_and(is_open)).collect();
        self.read_eventlogs(shared, open)
    }

    /// Notes that limits may have changed.
    pub fn mark_limits_changed(&mut self) {
        self.limits_moved = true;
    }

    /// If limits may have changed, requests the unread eventlogs of jobs that could now reach a limit. This function
    /// must run before each release scan, because these jobs may have reserved headroom.
    pub fn request_eventlogs_after_change(&mut self, shared: &mut Shared) -> Vec<Effect> {
        if std::mem::take(&mut self.limits_moved) {
            self.request_noted_eventlogs(shared, None)
        } else {
            Vec::new()
        }
    }

    /// Removes job `id` from the jobs with unread eventlogs. The job had `association` and `queue` when it was added.
    /// Returns true if the job was found.
    pub fn remove_deferred_eventlog(
        &mut self,
        id: JobId,
        association: Option<AssociationId>,
        queue: Option<&QueueName>,
    ) -> bool {
        if self.unasked.is_empty() {
            return false;
        }
        let Some(key) = association.map(|of| (of, queue.cloned())) else { return false };
        let Some(jobs) = self.unasked.get_mut(&key) else { return false };
        let was_there = jobs.remove(&id);
        if jobs.is_empty() {
            self.unasked.remove(&key);
        }
        was_there
    }
}

/// Returns true if the association's active jobs and its jobs in `queue` could reach a limit on running jobs. If they
/// cannot, no decision depends on the reservations of these jobs.
pub fn is_in_reach(shared: &Shared, association: AssociationId, queue: Option<&QueueName>) -> bool {
    if shared.book.association(association).is_none() {
        return false;
    }
    let active = shared.ledger.accounts().usage(association).active_jobs;
    if shared.ledger.accounts().are_running_jobs_in_scopes(association) {
        return true;
    }
    let is_in_reach = |measure: Measure, cap: Limit| match measure {
        Measure::Jobs => !cap.admits(active, 1),
        _ => !cap.is_unlimited(),
    };
    let limits = shared.limits().limits_in_records(association, queue);
    limits.iter().any(|it| it.amount.stage == Stage::Running && is_in_reach(it.amount.measure, it.limit))
}
