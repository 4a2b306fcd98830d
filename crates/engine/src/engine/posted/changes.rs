// SPDX-License-Identifier: LGPL-3.0-only
//! Computes why a priority was posted: which inputs have changed since the previous priority of the job was
//! posted.
//!
//! The terms of both priorities are compared. A different weight, or a different priority of a queue or bank, is
//! a reason. The terms do not show why a fair-share changed. So for each association and each cause, such as usage,
//! the engine stores the last refresh in which this cause changed the fair-share.

use super::{Posted, PostedPriorities, PriorityContext};
use crate::ids::JobId;
use crate::priority::{AGE, Explanation, FAIRSHARE, Outcome, SIZE};
use strum::{IntoStaticStr, VariantArray};

/// An input that may have changed. Its name is the code in answers. Answers list the changes in this order. Changes of the job itself come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Change {
    /// The job was submitted, and had no priority before.
    Submitted,
    /// The first priority since the plugin was loaded or Flux restarted.
    Loaded,
    /// A push contained the association of a job that waited for data.
    Data,
    /// After the job had a priority, a limit held the job and released it again.
    Released,
    /// The job's urgency.
    Urgency,
    /// The job's jobspec.
    Jobspec,
    /// The weights of factors.
    #[strum(serialize = "weight")]
    Weights,
    /// How a score of 0 or less is treated (`zero-score`).
    ZeroScore,
    /// The largest priority in the job's queue (`max-priority`).
    MaxPriority,
    /// The priority of the job's queue.
    QueuePriority,
    /// The priority of the job's bank.
    BankPriority,
    /// Shares of banks or users in the tree.
    Shares,
    /// Banks or users of the tree.
    Members,
    /// The ranking policy or its options.
    Policy,
    /// How usage is counted.
    Accounting,
    /// Fair-share has become live, or is no longer live.
    Live,
    /// The pushed fair-share of the association.
    Fairshare,
    /// The number of nodes of the site.
    SiteNodes,
    /// The usage of associations.
    Usage,
    /// The job's position among the pending jobs of its association. It affects the priority only if `interleave` is
    /// on.
    Turn,
    /// The job's age.
    Age,
}

/// The inputs that changed before a priority was posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A bit for each [`Change`].
    set: u32,
    /// A bit for each factor whose weight changed.
    weights: u8,
    /// The urgency before the change.
    former_urgency: u8,
}

impl Changes {
    fn add(&mut self, change: Change) {
        self.set |= 1 << change as u32;
    }

    /// Returns true if nothing changed.
    pub fn is_empty(self) -> bool {
        self.set == 0
    }

    /// Returns true if `change` is in the set.
    pub fn contains(self, change: Change) -> bool {
        self.set & (1 << change as u32) != 0
    }

    /// Returns all changes in the set, the most important first.
    pub fn iter(self) -> impl Iterator<Item = Change> {
        Change::VARIANTS.iter().copied().filter(move |change| self.contains(*change))
    }

    /// Returns true if the weight of the factor at `index` in the table changed.
    pub fn has_weight(self, index: usize) -> bool {
        1u8.checked_shl(index as u32).is_some_and(|bit| self.weights & bit != 0)
    }

    /// Returns the urgency before the change; `None` if the urgency did not change.
    pub fn former_urgency(self) -> Option<u8> {
        self.contains(Change::Urgency).then_some(self.former_urgency)
    }

    /// Returns true if Flux posts the priority even if the priority is the same as before: the job is new, or
    /// its user changed the job.
    pub(super) fn is_caused_by_job(self) -> bool {
        self.iter().any(|change| change <= Change::Jobspec)
    }

    /// Returns true if all changes are of inputs that change all the time: usage, age, and the position in the
    /// association.
    pub(super) fn has_only_gradual_changes(self) -> bool {
        let gradual = [Change::Usage, Change::Turn, Change::Age];
        !self.is_empty() && self.iter().all(|change| gradual.contains(&change))
    }

    fn add_weight(&mut self, index: usize) {
        self.add(Change::Weights);
        self.weights |= 1u8.checked_shl(index as u32).unwrap_or(0);
    }
}

/// For each input in [`OF_PUSHES`], true if a push changed the input.
pub(super) type PushMarks = [bool; OF_PUSHES.len()];

/// For each cause, the last refresh in which this cause changed the fair-share of an association. `pushed` has the
/// causes in [`OF_PUSHES`], in the same order. `usage` has the last refresh in which only usage changed the fair-share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FairshareChanges {
    pushed: [u64; 4],
    usage: u64,
}

/// The reasons in the order of `FairshareChanges::pushed`.
const OF_PUSHES: [Change; 4] = [Change::Shares, Change::Members, Change::Policy, Change::Accounting];

impl FairshareChanges {
    /// Notes that the fair-share of the association changed in the refresh `generation`. `pushed` says which causes in
    /// [`OF_PUSHES`] apply. If none applies, the cause is usage.
    pub fn note(&mut self, pushed: PushMarks, generation: u64) {
        if !pushed.contains(&true) {
            self.usage = generation;
        }
        for (mark, _) in self.pushed.iter_mut().zip(pushed).filter(|(_, is)| *is) {
            *mark = generation;
        }
    }
}

impl PostedPriorities {
    /// Returns the inputs that changed since the priority of job `id` was posted. `made` is the new priority.
    pub fn find_changes_since_post(&self, id: JobId, made: &Explanation, now: &PriorityContext) -> Changes {
        let mut changes = Changes::default();
        let Some((job, before)) = self.pending.get(id) else {
            changes.add(self.find_reason_of_first_priority(id, now));
            return changes;
        };
        if before.urgency != now.urgency {
            changes.add(Change::Urgency);
            changes.former_urgency = before.urgency;
        }
        let is_updated = before.association != now.association || self.updated.contains(&id);
        if is_updated {
            changes.add(Change::Jobspec);
        }
        let former = before.explanation(job.posted);
        if !former.is_decided_by_terms() || !made.is_decided_by_terms() {
            return changes;
        }
        let mut has_aged = false;
        let mut by_itself = None;
        for (index, (old, new)) in former.terms().iter().zip(made.terms()).enumerate() {
            if old.weight != new.weight && (old.value != 0.0 || new.value != 0.0) {
                changes.add_weight(index);
            }
            if old.value == new.value || (old.weight, new.weight) == (0, 0) {
                continue;
            }
            match new.name {
                AGE => has_aged = true,
                // If the jobspec was updated, the update explains the changes of all terms except the age.
                _ if is_updated => {}
                FAIRSHARE => by_itself = self.add_fairshare_changes(before, now, &mut changes),
                "queue" => changes.add(Change::QueuePriority),
                "bank" => changes.add(Change::BankPriority),
                // While the weight is 0, the plugin does not read the number of nodes. So the first number that it
                // reads is not a change of the site.
                SIZE if old.weight != 0 => changes.add(Change::SiteNodes),
                _ => {}
            }
        }
        if before.weighing.zero != now.zero && made.rounded <= 0.0 {
            changes.add(Change::ZeroScore);
        }
        // A priority above the maximum of its queue is lowered to the maximum. If the priority fell and is lowered now,
        // or rose and was lowered before, `max-priority` has changed, unless the job was updated.
        let [is_lower, is_higher] = [made.priority < former.priority, made.priority > former.priority];
        if !is_updated
            && (is_lower && made.outcome == Outcome::LoweredInQueue
                || is_higher && former.outcome == Outcome::LoweredInQueue)
        {
            changes.add(Change::MaxPriority);
        }
        // Usage and ages change all the time. They are given as a reason only if there is no other.
        if changes.is_empty()
            && let Some(change) = by_itself.or(has_aged.then_some(Change::Age))
        {
            changes.add(change);
        }
        changes
    }

    /// Returns the reason why a job without a posted priority gets one.
    fn find_reason_of_first_priority(&self, id: JobId, now: &PriorityContext) -> Change {
        match (self.held_again.contains(&id), now.is_submission, now.is_unprioritized) {
            (true, ..) => Change::Released,
            (_, true, true) => Change::Data,
            (_, true, false) => Change::Submitted,
            (_, false, _) => Change::Loaded,
        }
    }

    /// Adds to `changes` the changes by pushes that affected the fair-share since the priority was posted. Returns the
    /// usage or the position of the job. The caller uses the returned reason only if `changes` stays empty.
    fn add_fairshare_changes(
        &self,
        before: &Posted,
        now: &PriorityContext,
        changes: &mut Changes,
    ) -> Option<Change> {
        if now.is_live != before.is_live {
            changes.add(Change::Live);
            return None;
        }
        if !now.is_live {
            changes.add(Change::Fairshare);
            return None;
        }
        let moves = self.groups.get(&now.association).map(|group| group.moves).unwrap_or_default();
        // A refresh that is in progress may have computed new fair-shares, but not yet the priorities of all jobs.
        let marks = moves.pushed.map(|generation| generation > before.generation);
        let is_known = marks.contains(&true) || moves.usage > before.generation;
        let marks = if is_known { marks } else { self.site_change };
        OF_PUSHES.into_iter().zip(marks).filter(|(_, is)| *is).for_each(|(change, _)| changes.add(change));
        let is_turn = now.interleaves && moves.usage <= before.generation;
        Some(if is_turn { Change::Turn } else { Change::Usage })
    }
}
