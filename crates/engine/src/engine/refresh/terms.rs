// SPDX-License-Identifier: LGPL-3.0-only
//! Computes priorities that change although no fair-share changed. After a change of weights or other settings, these
//! are the priorities of all jobs. Otherwise they are the priorities of jobs that have reached the maximum age.

use super::stage::JOB_COST;
use crate::engine::{Refresh, Shared, age::is_capped};
use crate::ids::{JobId, QueueName};
use crate::priority::AGE;
use fairshare::{Options, Policy};

/// The values that affect the priorities of all jobs. A change of these values can change all priorities by the same
/// amount, so that no job moves in its queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Terms {
    weights: Vec<i64>,
    /// The reference time of ages; `None` if the weight of the age is 0.
    reference: Option<f64>,
    queues: Vec<f64>,
    banks: Vec<f64>,
    rule: Option<(Policy, Options)>,
    interleave: bool,
    /// The virtual queues of each queue with a `max-priority`, which bounds the priorities of their jobs too.
    virtual_queues: Vec<Vec<QueueName>>,
}

impl Terms {
    fn differs_only_by_age(&self, other: &Terms) -> bool {
        *self == Terms { reference: self.reference, ..other.clone() }
    }
}

impl Refresh {
    /// If values that affect the priorities of all jobs have changed since the last refresh, this refresh computes
    /// all priorities again, and all posted priorities are marked as not comparable. If an admin changed the values,
    /// the refresh also posts stale priorities.
    pub fn handle_changed_priority_terms(&mut self, shared: &mut Shared) {
        let terms = collect_inputs_of_all_priorities(shared);
        if self.terms.as_ref() != Some(&terms) {
            let is_edited = self.terms.as_ref().is_none_or(|before| !before.differs_only_by_age(&terms));
            self.stale.is_due |= is_edited;
            self.terms = Some(terms);
            self.recomputes_all = true;
            shared.posted.mark_priorities_incomparable();
        }
    }
}

/// Computes the current priorities of jobs that have reached the maximum age. These priorities change with time. `left`
/// is the work that this reactor turn may still do; a check of one job costs 1. `after` is the job that was computed
/// last. Returns true if all jobs were checked.
pub fn update_capped_jobs(shared: &mut Shared, after: &mut Option<JobId>, left: &mut usize) -> bool {
    let ids: Vec<JobId> = shared.posted.pending().ids_after(*after).take(*left).collect();
    for id in ids {
        if *left == 0 {
            break;
        }
        (*left, *after) = (*left - 1, Some(id));
        if shared.ledger.job(id).is_some_and(|job| is_capped(shared, job)) {
            *left = left.saturating_sub(JOB_COST);
            if let Some(exact) = shared.current_priority(id) {
                shared.posted.set_current_priority(id, exact.priority);
            }
        }
    }
    *left > 0
}

fn collect_inputs_of_all_priorities(shared: &Shared) -> Terms {
    let list_virtual_queues =
        |queue: &QueueName| shared.book.site_limits().virtual_queues(queue).cloned().collect();
    Terms {
        weights: shared.weighed.all().map(|(_, weight)| weight).collect(),
        reference: (shared.weighed.weight(AGE) != 0).then_some(shared.ages.reference()),
        queues: shared.book.tables().queues.values().map(|queue| queue.priority as f64).collect(),
        banks: shared.book.tables().banks.values().copied().collect(),
        rule: shared.standing.rule().map(|rule| (rule.policy, rule.options)),
        interleave: shared.settings.interleave,
        virtual_queues: shared.settings.max_priorities.keys().map(list_virtual_queues).collect(),
    }
}
