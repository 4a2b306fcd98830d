// SPDX-License-Identifier: LGPL-3.0-only
//! Stores the priorities that Flux gets, with their terms, and posts the memo that shows the fair-share to
//! the user.

use super::{Effect, Shared, posted::PriorityContext};
use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::{Job, Origin};
use crate::priority::{Explanation, FAIRSHARE};

/// The smallest change of a fair-share for which a memo is posted.
const MEMO_STEP: f64 = 1e-9;

/// Stores the current priority of a job as the answer to Flux.
pub fn store_answered_priority(shared: &mut Shared, id: JobId, urgency: i64, made: &Explanation) {
    let Some(job) = shared.ledger.job(id) else { return };
    let Some(association) = job.association() else { return };
    let urgency = u8::try_from(urgency).unwrap_or(u8::MAX);
    let context = priority_context(shared, id, job, (association, urgency));
    let is_new = shared.posted.pending().get(id).is_none_or(|(_, posted)| posted.association != association);
    let fairshare = if is_new { shared.fairshare(association) } else { None };
    let queue = shared.queues.scheduler_queue(job.queue.as_ref());
    shared.posted.store_answered_explanation(id, queue, fairshare, made, &context);
}

/// Stores that the current priority of a pending job is being posted by job id, and returns the priority. Returns `None` if this priority
/// is posted already.
pub fn store_posted_priority(shared: &mut Shared, id: JobId) -> Option<Explanation> {
    let current = shared.current_priority(id)?;
    let (_, before) = shared.posted.pending().get(id)?;
    let context = priority_context(shared, id, shared.ledger.job(id)?, (before.association, before.urgency));
    shared.posted.store_posted_explanation(id, &current, &context).then_some(current)
}

/// Computes the current priorities of at most `most` pending jobs of an association, beginning after job `after`.
/// Does nothing if the fair-share has not changed and `always` is false. Returns the number of computed priorities,
/// and the job after which the next call continues.
pub fn update_association_priorities(
    shared: &mut Shared,
    association: AssociationId,
    always: bool,
    after: Option<JobId>,
    most: usize,
) -> (usize, Option<JobId>) {
    let (fairshare, generation) = (shared.fairshare(association), shared.standing.generation());
    if after.is_none() && !shared.posted.begin_association(association, fairshare, generation, always) {
        return (0, None);
    }
    let jobs: Vec<JobId> = shared.posted.pending_jobs_of(association, after).take(most).collect();
    for id in &jobs {
        if let Some(current) = shared.current_priority(*id) {
            shared.posted.set_current_priority(*id, current.priority);
        }
    }
    shared.posted.note_change();
    (jobs.len(), jobs.last().copied().filter(|_| jobs.len() == most))
}

/// Returns the inputs of the job's priority other than its terms.
fn priority_context(
    shared: &Shared,
    id: JobId,
    job: &Job,
    (association, urgency): (AssociationId, u8),
) -> PriorityContext {
    PriorityContext {
        association,
        urgency,
        now: shared.now,
        weighed: shared.weighed,
        zero: shared.book.config().zero_score,
        generation: shared.standing.generation(),
        is_live: shared.has_live_fairshare(association),
        interleaves: shared.settings.interleave,
        is_submission: job.origin == Origin::Submitted,
        is_unprioritized: shared.unprioritized.contains(&id),
    }
}

/// Returns the memo with the fair-share of a priority that is about to be posted, unless the job has that memo already.
pub fn make_fairshare_memo(shared: &mut Shared, id: JobId, explanation: &Explanation) -> Option<Effect> {
    if !explanation.is_decided_by_terms() {
        return None;
    }
    let job = shared.ledger.job(id)?;
    let term = explanation.terms().iter().find(|term| term.name == FAIRSHARE);
    let fairshare = term.map(|term| term.value).or_else(|| shared.fairshare(job.association()?))?;
    if job.memo.is_some_and(|last| (last - fairshare).abs() < MEMO_STEP) {
        return None;
    }
    // The size of an eventlog in the KVS grows with the square of the number of its events (K21). So only the
    // first memo of live fair-share is posted to the eventlog.
    let is_volatile = shared.is_live() && job.memo.is_some();
    shared.ledger.store_posted_fairshare_memo(id, Some(fairshare));
    Some(if is_volatile { Effect::VolatileMemo(id, fairshare) } else { Effect::Memo(id, fairshare) })
}
