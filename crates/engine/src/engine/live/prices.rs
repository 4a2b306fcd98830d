// SPDX-License-Identifier: LGPL-3.0-only
//! What was posted for each pending job, and by which terms: an explanation can be given later, to the unit.

use super::super::{Effect, Memo, View};
use super::changes::{Changes, Moves, Pushed};
use super::{Live, Turn};
use crate::accounts::{AssociationId, ZeroScore};
use crate::engine::live::changes::changes_since_posted;
use crate::engine::shared::Shared;
use crate::ids::JobId;
use crate::limits::{Job, Phase};
use crate::priority::{AGE, AGE_OFFSET, Explanation, FAIRSHARE, MAX_FACTORS, Priced, Weighed};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// A memo is not worth an event if the fair-share changed by less.
const MEMO_STEP: f64 = 1e-9;

/// By what terms are weighed: the same for all prices posted between two pushes.
#[derive(Clone, Debug)]
pub(super) struct Weighing {
    weighed: Weighed,
    pub zero: ZeroScore,
}

/// A posted price, by what made it.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub association: AssociationId,
    when: f64,
    /// Which refresh its fair-share is of.
    pub generation: u64,
    /// Whether its fair-share is live, and not what was pushed for the association.
    pub is_live: bool,
    pub weighing: Arc<Weighing>,
    values: [f64; MAX_FACTORS],
    pub urgency: u8,
    changes: Changes,
    /// The last change that somebody made, where what has changed since moves by itself, and when it was posted.
    earlier: Option<(Changes, f64)>,
}

/// A posted price by what made it, and the exact one as of the last refresh.
#[derive(Clone, Debug)]
pub struct Price {
    /// What Flux sorts by.
    pub posted: u32,
    /// What it should sort by.
    pub exact: u32,
    /// How the posted one came about.
    pub made: Explanation,
    /// The urgency that it was made with.
    pub urgency: u8,
    /// When it was posted.
    pub when: f64,
    weighing: Arc<Weighing>,
}

impl Price {
    /// What the terms weighed that people are shown, one weight for each.
    pub fn shown_weights(&self) -> Vec<i64> {
        shown(self.weighing.weighed.all().map(|(factor, weight)| (factor.name, weight)))
            .map(|(_, weight)| weight)
            .collect()
    }

    /// Two prices made by the same weights have the same.
    pub fn weighing_key(&self) -> usize {
        Arc::as_ptr(&self.weighing).addr()
    }
}

impl Posted {
    pub fn explanation(&self) -> Explanation {
        let Weighing { weighed, zero } = self.weighing.as_ref();
        weighed.recall(i64::from(self.urgency), &self.values, *zero)
    }
}

/// A price is being posted that is exact now.
pub(in crate::engine) fn note_price(shared: &mut Shared, id: JobId, urgency: i64, made: &Explanation) {
    let Some(association) = shared.ledger.job(id).and_then(Job::association) else { return };
    let posted = posted(shared, id, association, urgency, made);
    shared.live.updated.remove(&id);
    shared.live.held_again.remove(&id);
    let queue = shared.queues.scheduler_queue(shared.ledger.job(id).and_then(|job| job.queue.as_ref()));
    let priced = Priced { id, posted: made.priority, exact: made.priority, is_outdated: false };
    let former = shared.live.pending.put(queue, priced, posted).map(|former| former.association);
    if former != Some(association) {
        if let Some(former) = former {
            shared.live.groups.leave(former, id);
        }
        let fairshare = shared.fairshare(association);
        shared.live.groups.join(association, id, fairshare);
    }
    shared.live.moved = true;
}

fn posted(
    shared: &mut Shared,
    id: JobId,
    association: AssociationId,
    urgency: i64,
    made: &Explanation,
) -> Posted {
    let urgency = u8::try_from(urgency).unwrap_or(u8::MAX);
    let mut changes = changes_since_posted(shared, id, association, urgency, made);
    let (mut when, mut earlier) = (shared.now, None);
    if let Some((priced, before)) = shared.live.pending.get(id) {
        if changes.is_empty() || priced.posted == made.priority && !changes.is_of_job() {
            // Flux posts no number that is the same: the reason is that of the one it has.
            (changes, when, earlier) = (before.changes, before.when, before.earlier);
        } else if changes.is_gradual() {
            let made = (!before.changes.is_gradual()).then_some((before.changes, before.when));
            earlier = made.or(before.earlier);
        }
    }
    let zero = shared.book.config().zero_score;
    let same = |known: &&Arc<Weighing>| known.zero == zero && known.weighed.weighs_like(&shared.weighed);
    let weighing = match shared.live.weighing.as_ref().filter(same) {
        Some(known) => Arc::clone(known),
        None => {
            let new = Arc::new(Weighing { weighed: shared.weighed, zero });
            shared.live.weighing = Some(Arc::clone(&new));
            new
        }
    };
    Posted {
        association,
        when,
        generation: shared.standing.generation(),
        is_live: shared.is_live_for(association),
        weighing,
        values: made.values(),
        urgency,
        changes,
        earlier,
    }
}

/// Works out the exact prices of at most `most` of an association's pending jobs, from the one that comes after `after`, if its
/// fair-share is another one, or in any case. Says how many jobs that were, and after which one it goes on, if any are left.
pub(in crate::engine) fn reprice(
    shared: &mut Shared,
    association: AssociationId,
    always: bool,
    after: Option<JobId>,
    most: usize,
) -> (usize, Option<JobId>) {
    let fairshare = shared.fairshare(association);
    let (pushed, generation): (Pushed, u64) = (shared.live.site_change, shared.standing.generation());
    let Some(group) = shared.live.groups.0.get_mut(&association) else { return (0, None) };
    if after.is_none() {
        if !always && group.fairshare == fairshare {
            return (0, None);
        }
        if group.fairshare != fairshare {
            group.moves.note(pushed, generation);
        }
        // Should it change before all are priced, it differs from this at the next refresh.
        group.fairshare = fairshare;
    }
    let jobs: Vec<JobId> = shared.live.groups.jobs_after(association, after).take(most).collect();
    for id in &jobs {
        if let Some(exact) = shared.exact(*id) {
            shared.live.pending.set_exact(*id, exact.priority);
        }
    }
    shared.live.moved = true;
    (jobs.len(), jobs.last().copied().filter(|_| jobs.len() == most))
}

/// Notes that a pending job's exact price is posted by id.
pub(in crate::engine) fn touch(shared: &mut Shared, id: JobId) -> Option<Explanation> {
    let exact = shared.exact(id)?;
    let (_, before) = shared.live.pending.get(id)?;
    let (association, urgency) = (before.association, i64::from(before.urgency));
    let posted = posted(shared, id, association, urgency, &exact);
    shared.live.pending.set_exact(id, exact.priority);
    let before = shared.live.pending.set_posted(id, exact.priority, posted)?;
    if before.0.posted == exact.priority {
        return None;
    }
    shared.live.under_way.insert(id, before);
    Some(exact)
}

/// Flux refused to post a price. What it refused of a refresh is tried again at the next; who pends no more is forgotten.
/// Whether it was of a refresh.
pub(in crate::engine) fn not_posted(shared: &mut Shared, id: JobId, pends: bool) -> bool {
    shared.ledger.settle(id, None);
    let of_refresh = shared.live.under_way.remove(&id);
    let is_of_refresh = of_refresh.is_some();
    match of_refresh {
        Some((before, posted)) if pends => {
            shared.live.moved = true;
            shared.live.pending.take_back(before, posted);
        }
        _ => shared.live.forget(id),
    }
    is_of_refresh
}

/// Returns the memo with the fair-share of a priority that is about to be posted, unless the job has it already.
pub(in crate::engine) fn memo(shared: &mut Shared, id: JobId, explanation: &Explanation) -> Option<Effect> {
    if shared.settings.memo == Memo::Never || !explanation.is_by_terms() {
        return None;
    }
    let job = shared.ledger.job(id)?;
    let term = explanation.terms().iter().find(|term| term.name == FAIRSHARE);
    let fairshare = term.map(|term| term.value).or_else(|| shared.fairshare(job.association()?))?;
    if job.memo.is_some_and(|last| (last - fairshare).abs() < MEMO_STEP) {
        return None;
    }
    // An eventlog grows with the square of its events, so only the first memo of live fair-share is in it.
    let is_volatile = shared.is_live() && job.memo.is_some();
    shared.ledger.annotate(id, Some(fairshare));
    Some(if is_volatile { Effect::VolatileMemo(id, fairshare) } else { Effect::Memo(id, fairshare) })
}

/// The terms that people are shown, of those that the table has: behind the age what all ages have in common.
pub(in crate::engine) fn shown<T: Copy>(
    terms: impl Iterator<Item = (&'static str, T)>,
) -> impl Iterator<Item = (&'static str, T)> {
    terms.flat_map(|(name, of)| {
        let offset = (name == AGE).then_some((AGE_OFFSET, of));
        std::iter::once((name, of)).chain(offset)
    })
}

/// Both prices of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PricedJob {
    /// What Flux sorts by, with the terms as they were when it was posted.
    pub posted: Explanation,
    /// When that was, in seconds since the epoch.
    pub when: f64,
    /// Which generation of live fair-shares it was made of.
    pub generation: u64,
    /// What had changed when it was posted.
    pub changes: Changes,
    /// The last change that somebody made, where what has changed since moves by itself, and when it was posted.
    pub earlier: Option<(Changes, f64)>,
    /// The urgency that it was made with.
    pub urgency: u8,
    /// What it should sort by now.
    pub exact: Explanation,
    /// Its turn, where jobs interleave: the fair-share of `exact` is of this.
    pub turn: Option<Turn>,
}

/// Pending jobs of one association.
#[derive(Clone, Debug, Default)]
struct Group {
    jobs: BTreeSet<JobId>,
    /// The fair-share by which all their exact prices were worked out.
    fairshare: Option<f64>,
    /// Why that changed.
    moves: Moves,
}

/// Pending jobs by association.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups(BTreeMap<AssociationId, Group>);

impl Groups {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A job has come. If it is the first, its fair-share is that of the group.
    fn join(&mut self, association: AssociationId, id: JobId, fairshare: Option<f64>) {
        self.0
            .entry(association)
            .or_insert_with(|| Group { jobs: BTreeSet::new(), fairshare, moves: Moves::default() })
            .jobs
            .insert(id);
    }

    pub fn leave(&mut self, association: AssociationId, id: JobId) {
        if let Some(group) = self.0.get_mut(&association) {
            group.jobs.remove(&id);
            if group.jobs.is_empty() {
                self.0.remove(&association);
            }
        }
    }

    /// An association's pending jobs from the one that comes after `after`.
    pub fn jobs_after(
        &self,
        association: AssociationId,
        after: Option<JobId>,
    ) -> impl Iterator<Item = JobId> {
        let from = (after.map_or(Unbounded, Excluded), Unbounded);
        self.0.get(&association).into_iter().flat_map(move |group| group.jobs.range(from).copied())
    }

    /// Why the fair-share of an association changed.
    pub fn moves(&self, association: AssociationId) -> Moves {
        self.0.get(&association).map(|group| group.moves).unwrap_or_default()
    }

    /// All associations with pending jobs.
    pub fn all(&self) -> Vec<AssociationId> {
        self.0.keys().copied().collect()
    }
}

impl Live {
    /// Returns the urgency of a pending job, as Flux reported it last.
    pub(in crate::engine) fn urgency(&self, id: JobId) -> Option<i64> {
        self.pending.get(id).map(|(_, posted)| i64::from(posted.urgency))
    }

    /// Returns the pending jobs of an association by ascending id, from the one after `after`.
    pub(in crate::engine) fn pending_of(
        &self,
        association: AssociationId,
        after: Option<JobId>,
    ) -> impl Iterator<Item = JobId> {
        self.groups.jobs_after(association, after)
    }

    /// Returns the number of pending jobs of an association.
    pub(in crate::engine) fn pending_count(&self, association: AssociationId) -> usize {
        self.groups.0.get(&association).map_or(0, |group| group.jobs.len())
    }

    /// Returns the number of pending jobs, and how many of their posted priorities are stale.
    pub(in crate::engine) fn pending_and_stale(&self) -> (usize, usize) {
        (self.pending.len(), self.pending.lagging())
    }

    /// Returns the posted priority of a pending job, and its priority as of the last refresh.
    pub(in crate::engine) fn price_of(&self, id: JobId) -> Option<Price> {
        let (priced, posted) = self.pending.get(id)?;
        Some(Price {
            posted: priced.posted,
            exact: priced.exact,
            made: posted.explanation(),
            urgency: posted.urgency,
            when: posted.when,
            weighing: Arc::clone(&posted.weighing),
        })
    }

    /// Returns the posted priority of a pending job.
    pub(in crate::engine) fn posted_priority(&self, id: JobId) -> Option<u32> {
        self.pending.get(id).map(|(priced, _)| priced.posted)
    }

    /// Returns true if the posted priority was stale at the last refresh.
    pub(in crate::engine) fn is_stale(&self, id: JobId) -> bool {
        self.pending.get(id).is_some_and(|(priced, _)| priced.posted != priced.exact)
    }
}

impl Shared {
    /// Returns the current priority of a pending job. Flux reports each change of the urgency of such a job.
    pub(super) fn exact(&self, id: JobId) -> Option<Explanation> {
        let (_, posted) = self.live.pending.get(id)?;
        self.explain(id, self.ledger.job(id)?, i64::from(posted.urgency))
    }
}

impl View<'_> {
    /// Returns the posted priority of a pending job, and its current priority.
    pub fn priced(&self, id: JobId) -> Option<PricedJob> {
        let (_, posted) = self.live.pending.get(id)?;
        Some(PricedJob {
            posted: posted.explanation(),
            when: posted.when,
            generation: posted.generation,
            changes: posted.changes,
            earlier: posted.earlier,
            urgency: posted.urgency,
            exact: self.exact(id)?,
            turn: self.turn(id, posted.association),
        })
    }

    /// Returns at most `most` pending jobs by ascending id, from the one after `after`.
    pub fn pending_after(&self, after: Option<JobId>, most: usize) -> Vec<JobId> {
        self.live.pending.ids_after(after).take(most).collect()
    }

    /// Returns the posted priority of a pending job; `None` for any other job.
    pub fn posted_priority(&self, id: JobId) -> Option<u32> {
        self.live.posted_priority(id)
    }
}

/// Whether a job that Flux asks about in a refresh's own loop keeps the price it has.
pub(in crate::engine) fn keeps_price(shared: &Shared, id: JobId, urgency: i64) -> bool {
    let is_pending = || shared.ledger.job(id).is_some_and(|job| job.phase == Phase::Sched);
    let same = |(_, posted): (Priced, &Posted)| i64::from(posted.urgency) == urgency;
    shared.live.touching.as_ref().is_some_and(|touching| !touching.jobs.contains(&id))
        && is_pending()
        && !shared.unpriced.contains(&id)
        && shared.live.pending.get(id).is_some_and(same)
}
