// SPDX-License-Identifier: LGPL-3.0-only
//! Stores the posted priority of each pending job with its terms, so that an answer can explain the priority
//! exactly later.

mod changes;

pub use changes::{Change, Changes};

use crate::accounts::{AssociationId, ZeroScore};
use crate::engine::Turn;
use crate::ids::{JobId, QueueName};
use crate::priority::{
    AGE, AGE_OFFSET, Explanation, MAX_FACTORS, Outcome, PRIORITY_LIMIT, Pending, PendingJob, PriorityBounds,
    WeightedFactors,
    order::{Bounds, Plan},
};
use crate::standing::SiteChange;
use changes::{FairshareChanges, PushMarks};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// The weights of the terms. All priorities posted between two pushes share them.
#[derive(Clone, Debug)]
pub struct Weighing {
    pub weighed: WeightedFactors,
    pub zero: ZeroScore,
}

/// The inputs of a posted priority, except its terms.
#[derive(Clone, Copy, Debug)]
pub(super) struct PriorityContext {
    /// The association of the job.
    pub association: AssociationId,
    pub urgency: u8,
    /// The time, in seconds since the epoch.
    pub now: f64,
    pub weighed: WeightedFactors,
    pub zero: ZeroScore,
    /// The refresh that computed the fair-share.
    pub generation: u64,
    /// Whether the fair-share of the association is live.
    pub is_live: bool,
    /// Whether the setting `interleave` is on.
    pub interleaves: bool,
    /// Whether the job was submitted while the plugin was loaded.
    pub is_submission: bool,
    /// Whether the job was in PRIORITY without a priority until now.
    pub is_unprioritized: bool,
}

/// The inputs of a posted priority.
#[derive(Clone, Debug)]
pub struct Posted {
    /// The association of the job.
    pub association: AssociationId,
    /// When the priority was posted, in seconds since the epoch.
    pub when: f64,
    /// The refresh that computed the job's fair-share.
    pub generation: u64,
    /// True if the engine computed the job's fair-share (live), false if a push contained it.
    pub is_live: bool,
    /// The weights of its terms.
    pub weighing: Arc<Weighing>,
    values: [f64; MAX_FACTORS],
    /// The urgency from which the priority was computed.
    pub urgency: u8,
    /// True if the sum of the terms was lowered to the largest priority of the queue.
    is_lowered_in_queue: bool,
    /// The inputs that changed before this priority was posted.
    pub changes: Changes,
    /// The last change of an input other than usage, age and position, and the time when the priority for this change
    /// was posted. Set only if `changes` contains no such input.
    pub earlier: Option<(Changes, f64)>,
}

/// The plugin stores a `Posted` for each pending job, so its size is limited.
const _: () = assert!(size_of::<Posted>() <= 128);

impl Posted {
    /// Returns `posted`, the posted priority, with its terms.
    pub fn explanation(&self, posted: u32) -> Explanation {
        let Weighing { weighed, zero } = self.weighing.as_ref();
        let max = if self.is_lowered_in_queue { posted } else { PRIORITY_LIMIT };
        let bounds = PriorityBounds { zero: *zero, max };
        weighed.explain_values(i64::from(self.urgency), self.values, bounds)
    }
}

/// Returns the weight of each term that answers show.
pub fn list_shown_weights(weighed: &WeightedFactors) -> Vec<i64> {
    let weights = weighed.all().map(|(factor, weight)| (factor.name, weight));
    shown_terms(weights).map(|(_, weight)| weight).collect()
}

/// Returns the terms that answers show. An answer splits the age into two terms: the age, and an offset that is the
/// same for all jobs.
pub fn shown_terms<T: Copy>(
    terms: impl Iterator<Item = (&'static str, T)>,
) -> impl Iterator<Item = (&'static str, T)> {
    terms.flat_map(|(name, of)| {
        let offset = (name == AGE).then_some((AGE_OFFSET, of));
        std::iter::once((name, of)).chain(offset)
    })
}

/// The posted and the current priority of a job.
#[derive(Clone, Debug)]
pub struct JobPriorities<'a> {
    /// The inputs of the posted priority.
    pub noted: &'a Posted,
    /// The priority by which Flux schedules, with its terms as they were when it was posted.
    pub posted: Explanation,
    /// The current priority.
    pub exact: Explanation,
    /// The job's position in its association and the fair-share for this position, if jobs are interleaved. The current
    /// priority is computed from this fair-share.
    pub turn: Option<Turn>,
}

/// The pending jobs of one association.
#[derive(Clone, Debug, Default)]
struct Group {
    jobs: BTreeSet<JobId>,
    /// The fair-share from which the current priorities of these jobs were computed.
    fairshare: Option<f64>,
    /// Why the fair-share changed.
    moves: FairshareChanges,
}

/// The posted priorities of all pending jobs, in the orders of the scheduler queues.
#[derive(Clone, Debug, Default)]
pub(super) struct PostedPriorities {
    pending: Pending<Posted>,
    /// Pending jobs by association.
    groups: BTreeMap<AssociationId, Group>,
    /// The kinds of changes that pushes made to the tree or its rules since the last refresh that computed all priorities.
    site_change: PushMarks,
    /// Pending jobs whose jobspec was updated since their priority was posted.
    updated: HashSet<JobId>,
    /// Jobs that already had a priority, and that limits hold again.
    held_again: HashSet<JobId>,
    /// The weights of the last posted priority.
    weighing: Option<Arc<Weighing>>,
    /// The former priorities of jobs whose new priorities are being posted, in case Flux refuses the new
    /// priorities.
    under_way: HashMap<JobId, (PendingJob, Posted)>,
    /// Whether priorities have changed since the last call of [`plan_posts`](PostedPriorities::plan_posts).
    has_changed: bool,
}

impl PostedPriorities {
    /// Returns the pending jobs with their posted and current priorities.
    pub fn pending(&self) -> &Pending<Posted> {
        &self.pending
    }

    /// Removes a job that is not pending any more.
    pub fn remove_job(&mut self, id: JobId) {
        self.under_way.remove(&id);
        self.updated.remove(&id);
        self.held_again.remove(&id);
        let Some(posted) = self.pending.remove(id) else { return };
        self.has_changed = true;
        self.remove_job_from_association(posted.association, id);
    }

    fn remove_job_from_association(&mut self, association: AssociationId, id: JobId) {
        if let Some(group) = self.groups.get_mut(&association) {
            group.jobs.remove(&id);
            if group.jobs.is_empty() {
                self.groups.remove(&association);
            }
        }
    }

    /// Puts each pending job into the order of the scheduler queue that `queue` names. The next refresh corrects the orders.
    pub fn reassign_queues(&mut self, queue: impl Fn(JobId) -> Option<QueueName>) {
        self.pending.reassign_queues(queue);
        self.has_changed = true;
    }

    /// Returns the priorities to post, within `bounds`. Returns none if no priority has changed since the last call.
    pub fn plan_posts(&mut self, bounds: Bounds) -> Plan {
        if !std::mem::take(&mut self.has_changed) {
            return Plan::default();
        }
        let plan = self.pending.plan(bounds);
        // One plan contains a limited number of posts. The next plan contains the remaining posts.
        self.has_changed |= plan.correct_depth.is_some();
        plan
    }

    /// Records that the order of the pending jobs must be checked before the next posts.
    pub fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Returns true if the order of the pending jobs must be checked before the next posts.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Drops the former priorities, because Flux has accepted all posts.
    pub fn drop_former_priorities(&mut self) {
        self.under_way.clear();
    }

    /// Marks all posted priorities as not comparable with current priorities. This is necessary if all current
    /// priorities may have changed by the same amount, because their order does not show this change.
    pub fn mark_priorities_incomparable(&mut self) {
        self.pending.mark_priorities_incomparable();
    }

    /// Stores the current priority of a pending job.
    pub fn set_current_priority(&mut self, id: JobId, priority: u32) {
        self.has_changed |= self.pending.set_current_priority(id, priority);
    }

    /// Returns the associations with pending jobs.
    pub fn associations(&self) -> Vec<AssociationId> {
        self.groups.keys().copied().collect()
    }

    /// Notes how a push changed the tree. Returns true if a refresh must compute all priorities because of a change of the tree.
    pub fn record_site_change(&mut self, change: &SiteChange) -> bool {
        let changes = [change.shares, change.members, change.policy, change.accounting];
        std::iter::zip(&mut self.site_change, changes).for_each(|(mark, is_new)| *mark |= is_new);
        self.site_change.contains(&true)
    }

    /// Notes that a refresh has computed all priorities.
    pub fn end_site_change(&mut self) {
        self.site_change = PushMarks::default();
    }

    /// Notes that the jobspec of a job was updated.
    pub fn mark_jobspec_updated(&mut self, id: JobId) {
        if self.pending.get(id).is_some() {
            self.updated.insert(id);
        }
    }

    /// Notes that limits hold a job that had a priority.
    pub fn mark_held_again(&mut self, id: JobId) {
        self.held_again.insert(id);
    }

    /// Returns the number of entries in all tables.
    #[cfg(test)]
    pub fn entry_count(&self) -> usize {
        self.pending.len()
            + self.groups.len()
            + self.under_way.len()
            + self.updated.len()
            + self.held_again.len()
    }

    /// Stores a priority that the engine returns in a callback of Flux. If the job is the first pending job of its association, also stores
    /// `fairshare` as the association's fair-share.
    pub fn store_answered_explanation(
        &mut self,
        id: JobId,
        queue: Option<&QueueName>,
        fairshare: Option<f64>,
        made: &Explanation,
        now: &PriorityContext,
    ) {
        let posted = self.make_record(id, made, now);
        self.updated.remove(&id);
        self.held_again.remove(&id);
        let job = PendingJob { id, posted: made.priority, current: made.priority, is_incomparable: false };
        let former = self.pending.put(queue, job, posted).map(|former| former.association);
        if former != Some(now.association) {
            if let Some(former) = former {
                self.remove_job_from_association(former, id);
            }
            let new = || Group { jobs: BTreeSet::new(), fairshare, moves: FairshareChanges::default() };
            self.groups.entry(now.association).or_insert_with(new).jobs.insert(id);
        }
        self.has_changed = true;
    }

    /// Stores that the current priority of a pending job is being posted by job id. Returns false if this priority is
    /// posted already.
    pub fn store_posted_explanation(&mut self, id: JobId, made: &Explanation, now: &PriorityContext) -> bool {
        let posted = self.make_record(id, made, now);
        self.pending.set_current_priority(id, made.priority);
        let Some(before) = self.pending.set_posted_priority(id, made.priority, posted) else { return false };
        let is_other = before.0.posted != made.priority;
        if is_other {
            self.under_way.insert(id, before);
        }
        is_other
    }

    /// Removes a priority that Flux refused, and restores the former priority if the job is still pending. Returns
    /// true if a refresh posted the priority. The caller then makes the next refresh post it again.
    pub fn restore_former_priority(&mut self, id: JobId, is_pending: bool) -> bool {
        let of_refresh = self.under_way.remove(&id);
        let is_of_refresh = of_refresh.is_some();
        match of_refresh {
            Some((before, posted)) if is_pending => {
                self.has_changed = true;
                self.pending.restore_posted_priority(before, posted);
            }
            _ => self.remove_job(id),
        }
        is_of_refresh
    }

    /// Begins to compute the current priorities of an association's jobs. Returns false if this is not
    /// necessary, because no job of the association is pending, or because the fair-share has not changed and
    /// `always` is false.
    pub fn begin_association(
        &mut self,
        association: AssociationId,
        fairshare: Option<f64>,
        generation: u64,
        always: bool,
    ) -> bool {
        let Some(group) = self.groups.get_mut(&association) else { return false };
        let is_other = group.fairshare != fairshare;
        if is_other {
            group.moves.note(self.site_change, generation);
        }
        // The next refresh compares with this value, so it notices a change that happens during this refresh.
        group.fairshare = fairshare;
        always || is_other
    }

    /// Returns the record of a priority: its inputs, and why it differs from the posted priority.
    fn make_record(&mut self, id: JobId, made: &Explanation, now: &PriorityContext) -> Posted {
        let mut changes = self.find_changes_since_post(id, made, now);
        let (mut when, mut earlier) = (now.now, None);
        if let Some((job, before)) = self.pending.get(id) {
            if changes.is_empty() || job.posted == made.priority && !changes.is_caused_by_job() {
                // Flux does not post a priority that equals the posted priority. So the posted priority keeps
                // its reason.
                (changes, when, earlier) = (before.changes, before.when, before.earlier);
            } else if changes.has_only_gradual_changes() {
                let made =
                    (!before.changes.has_only_gradual_changes()).then_some((before.changes, before.when));
                earlier = made.or(before.earlier);
            }
        }
        Posted {
            association: now.association,
            when,
            generation: now.generation,
            is_live: now.is_live,
            weighing: self.share_term_weights(now),
            values: made.values(),
            urgency: now.urgency,
            is_lowered_in_queue: made.outcome == Outcome::LoweredInQueue,
            changes,
            earlier,
        }
    }

    /// Returns the present weights. Priorities with the same weights share one record.
    fn share_term_weights(&mut self, now: &PriorityContext) -> Arc<Weighing> {
        let has_same_weights =
            |known: &&Arc<Weighing>| known.zero == now.zero && known.weighed.has_equal_weights(&now.weighed);
        if let Some(known) = self.weighing.as_ref().filter(has_same_weights) {
            return Arc::clone(known);
        }
        let new = Arc::new(Weighing { weighed: now.weighed, zero: now.zero });
        self.weighing = Some(Arc::clone(&new));
        new
    }

    /// Returns the urgency of a pending job that Flux reported last.
    pub fn urgency(&self, id: JobId) -> Option<i64> {
        self.pending.get(id).map(|(_, posted)| i64::from(posted.urgency))
    }

    /// Returns the pending jobs of association `id` by ascending job id, from the one after `after`.
    pub fn pending_jobs_of(&self, id: AssociationId, after: Option<JobId>) -> impl Iterator<Item = JobId> {
        let from = (after.map_or(Unbounded, Excluded), Unbounded);
        self.groups.get(&id).into_iter().flat_map(move |group| group.jobs.range(from).copied())
    }

    /// Returns the number of pending jobs of an association, except for jobs of priority 0, which do not run.
    pub fn pending_count(&self, association: AssociationId) -> usize {
        self.pending_jobs_of(association, None).filter(|id| self.posted_priority(*id) > Some(0)).count()
    }

    /// Returns the number of pending jobs, and how many of their posted priorities are stale.
    pub fn count_pending_and_stale(&self) -> (usize, usize) {
        (self.pending.len(), self.pending.stale_count())
    }

    /// Returns the posted priority of a pending job.
    pub fn posted_priority(&self, id: JobId) -> Option<u32> {
        self.pending.get(id).map(|(job, _)| job.posted)
    }

    /// Returns true if the posted priority was stale at the last refresh.
    pub fn is_stale(&self, id: JobId) -> bool {
        self.pending.get(id).is_some_and(|(job, _)| job.is_stale())
    }
}
