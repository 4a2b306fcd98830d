// SPDX-License-Identifier: LGPL-3.0-only
//! If a weight, a share, a queue or a bank changes, the engine posts the new priorities at once. Priorities that are
//! stale only because usages or ages changed are posted after a push or a request, at most once an hour.

use super::{Refresh, stage::Stage};
use crate::accounts::AssociationId;
use crate::engine::{Effect, Shared, Timer};
use crate::ids::JobId;
use crate::limits::{Admission, Job, Phase};
use crate::priority::PRIORITY_MAX;
use crate::standing::SiteChange;

/// Seconds between two posts of stale priorities.
const PERIOD: f64 = 3_600.0;

/// Whether stale priorities are to be posted, and when they were posted last.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct StaleRefresh {
    /// True if the next posts must include stale priorities. The cause is a push, a request, or a change of the
    /// site's data or settings.
    pub is_due: bool,
    /// Whether Flux's present loop posts stale priorities.
    pub is_looping: bool,
    last: Option<f64>,
}

impl StaleRefresh {
    fn is_allowed(&self, now: f64) -> bool {
        self.last.is_none_or(|last| !(0.0..PERIOD).contains(&(now - last)))
    }

    /// Notes that a push or a request asks for current priorities.
    pub fn record_priority_request(&mut self, now: f64) {
        self.is_due |= self.is_allowed(now);
    }

    /// Records that the engine has chosen the priorities to post. `has_posts` is true if there are priorities to
    /// post, and `is_whole` is true if none were left out.
    pub fn record_post_plan(&mut self, now: f64, has_posts: bool, is_whole: bool) {
        if self.is_due && has_posts {
            self.last = Some(now);
        }
        self.is_due &= !is_whole;
    }
}

impl Refresh {
    /// Returns true if the job keeps its stale posted priority when Flux asks for all priorities. A stale priority is
    /// kept if only usages or ages changed, and if stale priorities were posted within the last hour.
    pub fn keeps_stale_priority(&mut self, shared: &mut Shared, id: JobId, urgency: i64) -> bool {
        if !shared.is_live() || self.loop_posts.is_some() {
            return false;
        }
        let Some((posted, association)) = find_settled_post(shared, id, urgency) else { return false };
        let is_admitted = |job: &Job| job.admission == Admission::Admitted(association);
        if !shared.ledger.job(id).is_some_and(is_admitted) {
            return false;
        }
        let Some(current) = shared.current_priority(id).map(|made| made.priority) else { return false };
        let is_special = |priority: u32| priority == 0 || priority == PRIORITY_MAX;
        if posted == current || is_special(posted) || is_special(current) {
            return false;
        }
        if self.stale.is_looping {
            self.stale.last = Some(shared.now);
            return false;
        }
        shared.posted.set_current_priority(id, current);
        shared.posted.note_change();
        true
    }

    /// If the job is at a wrong position of its queue, makes the engine correct the order in the next reactor turn.
    /// The jobs around it may have stale priorities.
    pub fn correct_queue_order(&mut self, shared: &mut Shared, id: JobId) -> Option<Effect> {
        let depth = shared.batches.ordered;
        // If the last refresh did not post enough priorities for a correct order, the next refresh posts the missing
        // priorities.
        let is_right = self.last.is_some_and(|last| last.right_to.is_none_or(|to| to >= depth));
        if !shared.is_live()
            || !is_right
            || self.is_misplaced
            || !shared.posted.pending().is_misplaced(id, depth)
        {
            return None;
        }
        self.is_misplaced = true;
        matches!(self.stage, Stage::Idle).then_some(Effect::Arm(Timer::Slice))
    }

    /// Notes that a push or the configuration changed the tree or its rules.
    pub fn record_site_change(&mut self, shared: &mut Shared, change: &SiteChange) {
        self.stale.is_due |= shared.posted.record_site_change(change);
    }

    /// Notes that Flux begins to ask for all priorities.
    pub fn note_flux_loop_start(&mut self, shared: &Shared) {
        self.stale.is_looping = self.stale.is_allowed(shared.now);
    }

    /// Allows the next posts to include stale priorities, because earlier posts may be lost.
    pub fn allow_stale_posts(&mut self) {
        self.stale.last = None;
    }

    /// Returns true if a refresh makes Flux ask for all priorities, but does not change the priority of job `id`.
    pub fn keeps_posted_priority(&self, shared: &Shared, id: JobId, urgency: i64) -> bool {
        self.loop_posts.as_ref().is_some_and(|loop_posts| !loop_posts.jobs.contains(&id))
            && find_settled_post(shared, id, urgency).is_some()
    }
}

/// Returns the posted priority of a job in SCHED, and the association for which it was computed. Returns `None` if the
/// urgency has changed since.
fn find_settled_post(shared: &Shared, id: JobId, urgency: i64) -> Option<(u32, AssociationId)> {
    let job = shared.ledger.job(id).filter(|job| job.phase == Phase::Sched);
    job.filter(|_| !shared.unprioritized.contains(&id))?;
    let (pending, posted) = shared.posted.pending().get(id)?;
    (i64::from(posted.urgency) == urgency).then_some((pending.posted, posted.association))
}

#[cfg(test)]
mod tests {
    use super::StaleRefresh;

    #[test]
    fn stale_priorities_are_posted_at_most_once_an_hour() {
        let mut stale = StaleRefresh::default();
        for (now, has_posts, is_whole, is_due, what) in [
            (1_000.0, false, true, true, "the first request"),
            (1_001.0, true, false, true, "the first request posted nothing"),
            (1_031.0, true, true, true, "the budget was too small"),
            (1_100.0, true, true, false, "within the hour"),
            (4_630.0, true, true, false, "a second before the hour ends"),
            (4_631.0, true, true, true, "an hour later"),
            (1_000.0, true, true, true, "the clock was set back"),
        ] {
            stale.record_priority_request(now);
            assert_eq!(stale.is_due, is_due, "{what}");
            stale.record_post_plan(now, has_posts, is_whole);
        }
    }
}
