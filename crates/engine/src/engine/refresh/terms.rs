// SPDX-License-Identifier: LGPL-3.0-only
//! Priorities that change for other reasons than a fair-share: those of all jobs at once, and those of jobs at the end of their age.

use super::stage::JOB;
use crate::engine::{Refresh, Shared, age::is_capped};
use crate::ids::JobId;
use crate::priority::AGE;
use fairshare::{Options, Policy};

/// What priorities have in common. Where it is another, they may all have moved alike, and their order does not show it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Terms {
    weights: Vec<i64>,
    /// As of when ages are shown, where they weigh anything.
    reference: Option<f64>,
    queues: Vec<f64>,
    banks: Vec<f64>,
    rule: Option<(Policy, Options)>,
    interleave: bool,
}

impl Terms {
    fn differs_by_age_alone(&self, other: &Terms) -> bool {
        *self == Terms { reference: self.reference, ..other.clone() }
    }
}

/// Jobs at the end of their age are priced: whether a fair-share has changed, and after which job it goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capped {
    pub has_changed: bool,
    pub after: Option<JobId>,
}

impl Refresh {
    /// Posted priorities are outdated if what they have in common is another than at the last refresh; all exact ones may be others.
    /// Where an admin changed it, the plan posts all of them: a priority of other weights is more than stale.
    pub(in crate::engine) fn outdate_prices(&mut self, shared: &mut Shared) {
        let terms = terms_in_common(shared);
        if self.terms.as_ref() != Some(&terms) {
            let is_edited = self.terms.as_ref().is_none_or(|before| !before.differs_by_age_alone(&terms));
            if is_edited {
                self.stale.require();
            }
            self.terms = Some(terms);
            self.reprice = true;
            shared.posted.mark_incomparable();
        }
    }

    /// Priorities are posted by pushed numbers: when fair-share comes to be live they don't compare with those posted then.
    pub(in crate::engine) fn forget_terms(&mut self, _shared: &mut Shared) {
        self.terms = None;
    }
}

/// Computes the current priorities of jobs that are as old as a job may be: these change as time goes on. `left` is what may be done, of
/// which looking at a job takes 1. Says how it goes on, unless all were looked at.
pub(in crate::engine) fn reprice_capped(shared: &mut Shared, at: Capped, left: &mut usize) -> Option<Capped> {
    let mut after = at.after;
    let ids: Vec<JobId> = shared.posted.ids_after(after).take(*left).collect();
    for id in ids {
        if *left == 0 {
            break;
        }
        (*left, after) = (*left - 1, Some(id));
        if shared.ledger.job(id).is_some_and(|job| is_capped(shared, job)) {
            *left = left.saturating_sub(JOB);
            reprice_job(shared, id);
        }
    }
    (*left == 0).then_some(Capped { after, ..at })
}

fn reprice_job(shared: &mut Shared, id: JobId) {
    let Some(exact) = shared.exact(id) else { return };
    shared.posted.set_current(id, exact.priority);
}

fn terms_in_common(shared: &Shared) -> Terms {
    Terms {
        weights: shared.weighed.all().map(|(_, weight)| weight).collect(),
        reference: (shared.weighed.weight(AGE) != 0).then_some(shared.ages.reference()),
        queues: shared.book.queues().map(|queue| queue.priority as f64).collect(),
        banks: shared.book.banks().map(|(_, priority)| priority).collect(),
        rule: shared.standing.rule(),
        interleave: shared.settings.interleave,
    }
}
