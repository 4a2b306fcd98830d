// SPDX-License-Identifier: LGPL-3.0-only
//! The terms of age and size: since when a job counts as eligible, as of when ages are shown, how many nodes the site has.
//!
//! What they weigh is what the site pushed under their names, else what `[fairshare] weights` says, else nothing. A promise
//! (`max-wait-behind`) raises the weight of the age to what it takes, and ages have no end then.
//!
//! After a reload or a restart a job's eventlog tells how long it was eligible, where ages weigh anything; else, and until it is
//! read, all time since its submission counts if it is eligible now.

use super::{Effect, Past, Shared, Timer, accrual, effect::reprioritize_all};
use crate::ids::JobId;
use crate::limits::{Eligible, Job, Keepers, Origin, Phase};
use crate::priority::{AGE, SIZE, URGENCY_HOLD, WeightedFactors, age_weight_for_wait};
use std::collections::BTreeSet;

/// Near the bound of a promise is who has waited so much of it.
const NEAR: f64 = 0.75;
/// Most jobs that are listed.
const MOST_NEAR: usize = 20;

/// How ages count, for queries.
#[derive(Clone, Debug, PartialEq)]
pub struct AgeSnapshot {
    /// As of when ages are shown, in seconds since the epoch; `None` where they weigh nothing.
    pub reference: Option<f64>,
    /// What the age weighs, raised by a promise if there is one.
    pub weight: i64,
    /// What a job gains in a day.
    pub per_day: f64,
    /// Nodes of the site, once they are known.
    pub site_nodes: Option<u64>,
    /// Seconds for which nobody is to be overtaken by later jobs; `None` without a promise.
    pub promise: Option<f64>,
    /// Pending jobs that have waited for most of that, and longer, with the seconds: who waits longest comes first.
    pub near: Vec<(JobId, f64)>,
    /// How many such jobs there are.
    pub near_total: usize,
}

/// Computes the weights of what is set and pushed now. Returns the former weight of the age, and whether the common reference of all
/// ages moved while ages weighed something.
pub(super) fn weigh(shared: &mut Shared) -> (i64, bool) {
    let weighed_before = shared.weighed.weight(AGE);
    let configured = [(AGE, shared.settings.age_weight), (SIZE, shared.settings.size_weight)];
    let weighed = WeightedFactors::new(shared.weighed.factors(), shared.book.weights(), &configured);
    let wait = shared.settings.max_wait_behind;
    shared.weighed = if wait > 0.0 {
        let promised = age_weight_for_wait(weighed.spread(&shared.book), wait, shared.settings.age_max);
        weighed.with_weight(AGE, weighed.weight(AGE).max(promised))
    } else {
        weighed
    };
    let has_moved = move_reference(shared) && weighed_before != 0;
    shared.ledger.prices_moved();
    (weighed_before, has_moved)
}

/// Moves the common reference of ages on if it is reached. Then all priorities are others.
pub(super) fn move_reference(shared: &mut Shared) -> bool {
    let has_cap = shared.settings.max_wait_behind <= 0.0;
    let moved = shared.ages.at_time(shared.now, shared.settings.age_max, has_cap);
    let is_news = moved != shared.ages && shared.weighed.weight(AGE) != 0;
    shared.ages = moved;
    is_news
}

/// Where fair-share is not live: time has changed the priority of a job, or of all.
pub(super) fn ages_due(shared: &mut Shared) -> Vec<Effect> {
    let moved = move_reference(shared);
    let is_due = shared.weighed.weight(AGE) != 0
        && (moved || shared.ledger.jobs().any(|(_, job)| is_capped(shared, job)));
    if is_due { reprioritize_all() } else { Vec::new() }
}

/// Takes over from an eventlog how long a job was eligible.
pub(super) fn past(shared: &mut Shared, id: JobId, past: &[(f64, Past)]) -> Vec<Effect> {
    match shared.ledger.job(id).map(|job| job.phase) {
        None => return Vec::new(),
        Some(Phase::Run) => {
            let begun = past.iter().rfind(|(_, what)| *what == Past::Allocated);
            return begun
                .and_then(|(when, _)| accrual::begin_accrual(shared, id, *when))
                .into_iter()
                .collect();
        }
        Some(_) => {}
    }
    let rules = shared.ledger.rules();
    let (mut eligible, mut urgency, mut others) = (Eligible::For(0.0), URGENCY_HOLD, BTreeSet::new());
    let mut is_accepted = false;
    for (when, what) in past {
        match what {
            Past::Urgency(now) => urgency = *now,
            Past::Dependency(name, _) if rules.parse(name).is_some() => {}
            Past::Dependency(name, true) => {
                others.insert(name.as_str());
                if !is_accepted {
                    eligible = Eligible::For(0.0);
                }
            }
            Past::Accepted => is_accepted = true,
            Past::Allocated => {}
            Past::Dependency(name, false) => {
                others.remove(name.as_str());
            }
        }
        eligible = eligible.turned(urgency != URGENCY_HOLD && others.is_empty(), *when);
    }
    shared.ledger.aged(id, eligible);
    // Its priority is asked for again, by id; of one in DEPEND there is none.
    let has_price = |job: &Job| matches!(job.phase, Phase::Priority | Phase::Sched);
    let is_due = shared.weighed.weight(AGE) != 0 && shared.ledger.job(id).is_some_and(has_price);
    if is_due { vec![Effect::AskUrgency(id)] } else { Vec::new() }
}

/// How many nodes the site has.
pub(super) fn told_site_nodes(shared: &mut Shared, nodes: Option<u64>) -> Vec<Effect> {
    let before = std::mem::replace(&mut shared.site_nodes, nodes.unwrap_or(0));
    // It could not be read, or nobody knows it yet.
    let mut effects = Vec::from_iter(lacks_site_nodes(shared).map(|_| Effect::Arm(Timer::Retry)));
    if shared.site_nodes != before && shared.weighed.weight(SIZE) != 0 {
        effects.extend(reprioritize_all());
    }
    effects
}

/// All priorities, if settings were replaced that they are made of.
pub(super) fn prices_due(shared: &mut Shared) -> Vec<Effect> {
    let are_due = std::mem::take(&mut shared.due.prices);
    reprioritize_if(shared, are_due)
}

/// How ages count now.
pub fn age_snapshot(shared: &Shared) -> AgeSnapshot {
    let weight = shared.weighed.weight(AGE);
    let wait = shared.settings.max_wait_behind;
    let promise = (wait > 0.0).then_some(wait);
    let mut near: Vec<(JobId, f64)> = Vec::new();
    if let Some(wait) = promise {
        near.extend(shared.ledger.jobs().filter_map(|(id, job)| {
            let since = job.eligible.since().filter(|_| matches!(job.phase, Phase::Priority | Phase::Sched));
            let seconds = shared.now - since?;
            (seconds >= NEAR * wait).then_some((id, seconds))
        }));
    }
    let near_total = near.len();
    near.sort_by(|(one, waited), (other, longer)| longer.total_cmp(waited).then(one.cmp(other)));
    near.truncate(MOST_NEAR);
    AgeSnapshot {
        reference: (weight != 0).then_some(shared.ages.reference()),
        weight,
        per_day: weight as f64 * 86_400.0 / shared.settings.age_max,
        site_nodes: (shared.site_nodes > 0).then_some(shared.site_nodes),
        promise,
        near,
        near_total,
    }
}

pub(super) fn reprioritize_if(shared: &Shared, are_others: bool) -> Vec<Effect> {
    if are_others && !shared.is_live() { reprioritize_all() } else { Vec::new() }
}

/// How many nodes the site has is asked where it counts and is not known.
pub(super) fn lacks_site_nodes(shared: &Shared) -> Option<Effect> {
    (shared.weighed.weight(SIZE) != 0 && shared.site_nodes == 0).then_some(Effect::ReadSiteNodes)
}

/// What a new job begins with.
pub(super) fn eligible_at_first(
    shared: &Shared,
    submitted: Option<f64>,
    keepers: Keepers,
    urgency: i64,
) -> Eligible {
    let on = keepers == Keepers::NobodyElse && urgency != URGENCY_HOLD;
    let since = submitted.unwrap_or(shared.now);
    if on { Eligible::Since(since) } else { Eligible::For(0.0) }
}

/// Where fair-share is not live: seconds after which ages are looked at, so that a job at the cap is never off by more than a
/// thousandth of the weight; 0 where ages weigh nothing.
pub(super) fn age_period(shared: &Shared) -> f64 {
    let is_of_use = shared.weighed.weight(AGE) != 0;
    if is_of_use { shared.settings.refresh.max(shared.settings.age_max / 1000.0) } else { 0.0 }
}

/// Where ages have come to count: asks for the eventlogs of replayed jobs, which were not followed from the beginning.
pub(super) fn read_pasts(shared: &Shared, is_replaying: bool, weighed_before: i64) -> Vec<Effect> {
    if weighed_before != 0 || shared.weighed.weight(AGE) == 0 || is_replaying {
        return Vec::new();
    }
    let is_pending = |job: &Job| {
        job.origin == Origin::Replayed && matches!(job.phase, Phase::Depend | Phase::Priority | Phase::Sched)
    };
    let pending = shared.ledger.jobs().filter(|(_, job)| is_pending(job));
    pending.map(|(id, _)| Effect::ReadEventlog(id)).collect()
}

/// Whether time alone changes the priority of a pending job: of one at the cap.
pub(super) fn is_capped(shared: &Shared, job: &Job) -> bool {
    let is_due = matches!(job.phase, Phase::Priority | Phase::Sched);
    is_due && job.eligible.since().is_some_and(|since| shared.ages.is_capped(since, shared.now))
}
