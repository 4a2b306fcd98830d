// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the priority of a job. Each function in this list calls the functions below it.
//!
//! ```text
//! explain               with interleave: uses the fair-share for the job's position in its association
//! └── explain_with_fairshare        adds up the terms for a given fair-share, by WeightedFactors::explain (priority/factor.rs)
//!     ├── fairshare     of the association: live, or as pushed
//!     └── age           of the job, as a fraction of `age-max`
//! ```

use super::{Shared, Turn};
use crate::accounts::AssociationId;
use crate::ids::{JobId, QueueName};
use crate::limits::Job;
use crate::priority::{Explanation, Outcome, PRIORITY_LIMIT, Subject};
use crate::standing::Index;

impl Shared {
    /// Returns the current priority of job `id` with its terms, or `None` if the job has no association with a fair-share.
    pub(super) fn explain(&self, id: JobId, job: &Job, urgency: i64) -> Option<Explanation> {
        let association = job.association()?;
        let own = self.explain_with_fairshare(job, urgency, self.fairshare(association)?)?;
        let Some(turn) = self.turn(id, association).filter(|_| own.is_decided_by_terms() && own.priority > 0)
        else {
            return Some(own);
        };
        // If interleave would make the priority 0, the priority without interleave applies.
        let in_turn = self.explain_with_fairshare(job, urgency, turn.fairshare)?;
        let is_none = matches!(in_turn.outcome, Outcome::HeldByScore | Outcome::Raised);
        Some(if is_none { own } else { in_turn })
    }

    /// Returns the priority that the job would have if jobs were not interleaved, or `None` if the job has no association
    /// with a fair-share.
    pub(super) fn priority_without_turn(&self, job: &Job, urgency: i64) -> Option<u32> {
        let fairshare = self.fairshare(job.association()?)?;
        Some(self.explain_with_fairshare(job, urgency, fairshare)?.priority)
    }

    /// Returns the priority that the job would have with the fair-share `fairshare`, or `None` if the job has
    /// no association.
    pub(super) fn explain_with_fairshare(
        &self,
        job: &Job,
        urgency: i64,
        fairshare: f64,
    ) -> Option<Explanation> {
        let subject = Subject {
            book: &self.book,
            association: self.book.association(job.association()?)?,
            fairshare,
            queue: job.queue.as_deref(),
            max_priority: self.max_priority(job.queue.as_ref()).unwrap_or(PRIORITY_LIMIT),
            urgency,
            nodes: job.size.nodes,
            site_nodes: self.site_nodes,
            age: self.age(job),
        };
        Some(self.weighed.explain(&subject))
    }

    /// Returns the lower of the settings `max-priority` of `queue` and of its parent queue. Returns `None` if neither
    /// queue has the setting.
    pub(super) fn max_priority(&self, queue: Option<&QueueName>) -> Option<u32> {
        let parent = queue.and_then(|queue| self.queues.parent(queue));
        let queues = [queue, parent].into_iter().flatten();
        queues.filter_map(|queue| self.settings.max_priorities.get(queue).copied()).min()
    }

    /// Returns the fair-share of an association: live, or as pushed if fair-share is not live.
    pub(super) fn fairshare(&self, id: AssociationId) -> Option<f64> {
        let live = self.is_live().then(|| self.find_live_fairshare_of_association(id)).flatten();
        live.or_else(|| self.book.fairshare(id))
    }

    /// Returns true if fair-share is live: usage accrues in the plugin, and priorities are updated.
    pub(super) fn is_live(&self) -> bool {
        self.settings.live && self.standing.tree().is_some()
    }

    /// Returns true if live fair-share is on and the tree contains association `id`.
    pub(super) fn has_live_fairshare(&self, id: AssociationId) -> bool {
        self.is_live() && self.find_live_fairshare_of_association(id).is_some()
    }

    fn find_live_fairshare_of_association(&self, id: AssociationId) -> Option<f64> {
        self.standing.fairshare(self.find_usage_entry(id)?)
    }

    /// Returns the usage entry of an association, or `None` if there is none.
    pub(super) fn find_usage_entry(&self, id: AssociationId) -> Option<Index> {
        let association = self.book.association(id)?;
        self.standing.find(association.user, &association.bank)
    }

    /// Returns the position of a pending job in its association, and the fair-share for this position. Returns `None`
    /// if interleave or live fair-share is off.
    pub(super) fn turn(&self, id: JobId, association: AssociationId) -> Option<Turn> {
        let is_on = self.settings.interleave && self.is_live();
        if is_on { self.turns.turn(id, association) } else { None }
    }

    /// Returns the age factor of a job for the reference time, which is the same time for all jobs.
    pub(super) fn age(&self, job: &Job) -> f64 {
        let since = job.eligible.since().unwrap_or(self.now - job.eligible.seconds(self.now));
        self.ages.value(since, self.now)
    }

    /// Returns the age of a job at `now`, as a fraction of `age-max`: at most 1, or unbounded with `max-wait-behind`.
    pub(super) fn age_without_offset(&self, job: &Job, now: f64) -> f64 {
        let age = job.eligible.seconds(now) / self.settings.age_max;
        if self.settings.max_wait_behind > 0.0 { age } else { age.min(1.0) }
    }

    /// Returns the current priority of job `id`, or `None` if the job is not pending. The stored urgency is up to date,
    /// because Flux reports each change of the urgency of a pending job.
    pub(super) fn current_priority(&self, id: JobId) -> Option<Explanation> {
        let (_, posted) = self.posted.pending().get(id)?;
        self.explain(id, self.ledger.job(id)?, i64::from(posted.urgency))
    }
}
