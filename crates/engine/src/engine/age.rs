// SPDX-License-Identifier: LGPL-3.0-only
//! The age and size terms of the priority: since when each job is eligible, the reference time of all ages, and the
//! number of nodes of the site.
//!
//! The weights of both terms come from the push. If the push does not contain a weight, the configuration sets it
//! (`[fairshare] weights`); the default is 0. If `max-wait-behind` is set, the engine raises the weight of the age as
//! far as necessary, and ages have no maximum.
//!
//! After a reload or a restart, the eventlog of a job shows how long the job was eligible. The engine reads
//! the eventlog if the age has a weight. While the eventlog is not read, a job that is eligible now counts as
//! eligible since its submission.

use super::{Effect, JobFacts, Past, Shared, Timer, accrual, effect::reprioritize_all};
use crate::ids::JobId;
use crate::limits::{BlockState, Eligible, Job, Origin, Phase};
use crate::priority::{AGE, SIZE, URGENCY_HOLD, WeightedFactors, age_weight_for_wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A waiting job is listed in [`AgeSnapshot`] when its age reaches this fraction of `max-wait-behind`.
const NEAR: f64 = 0.75;
/// The maximum number of listed jobs.
const MAX_NEAR: usize = 20;

/// A pending job that has waited for three quarters of `max-wait-behind` or longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongWaitingJob {
    /// The job.
    pub id: JobId,
    /// How long the job has waited, in seconds.
    pub seconds: f64,
}

/// The settings and values of the age factor, for queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgeSnapshot {
    /// The reference time of all ages, in seconds since the epoch; `None` if the weight of the age is 0.
    pub reference: Option<f64>,
    /// The weight of the age, raised by `max-wait-behind` if that is set.
    pub weight: i64,
    /// The number of points by which a job's score grows in a day.
    pub per_day: f64,
    /// The number of nodes of the site; `None` if unknown.
    pub site_nodes: Option<u64>,
    /// `max-wait-behind` in seconds; `None` if it is not set.
    pub max_wait_behind: Option<f64>,
    /// The jobs near `max-wait-behind`, the longest wait first.
    #[serde(rename = "near_the_bound")]
    pub near: Vec<LongWaitingJob>,
    /// The number of all jobs that have waited at least 75 % of `max-wait-behind`.
    #[serde(rename = "near_the_bound_total")]
    pub near_total: usize,
}

/// Computes the weights of the terms from the settings and the push, and updates the reference time of ages. Returns
/// the previous weight of the age. The second value is true if the age had a weight and the new reference time changes
/// priorities.
pub fn compute_weights(shared: &mut Shared) -> (i64, bool) {
    let weighed_before = shared.weighed.weight(AGE);
    let configured = [(AGE, shared.settings.age_weight), (SIZE, shared.settings.size_weight)];
    let weighed = WeightedFactors::new(shared.weighed.factors(), &shared.book.tables().weights, &configured);
    let max_wait = shared.settings.max_wait_behind;
    shared.weighed = if max_wait > 0.0 {
        let guaranteed = age_weight_for_wait(weighed.spread(&shared.book), max_wait, shared.settings.age_max);
        weighed.with_weight(AGE, weighed.weight(AGE).max(guaranteed))
    } else {
        weighed
    };
    let has_moved = advance_age_reference_time(shared) && weighed_before != 0;
    shared.ledger.mark_priorities_changed();
    (weighed_before, has_moved)
}

/// Moves the reference time, for which all ages are computed, if the present time has reached it. Returns true if this
/// changes priorities.
pub fn advance_age_reference_time(shared: &mut Shared) -> bool {
    let has_cap = shared.settings.max_wait_behind <= 0.0;
    let moved = shared.ages.at_time(shared.now, shared.settings.age_max, has_cap);
    let changes_priorities = moved != shared.ages && shared.weighed.weight(AGE) != 0;
    shared.ages = moved;
    changes_priorities
}

/// Makes Flux ask for all priorities if the reference time of ages moved, or if a job has reached the maximum
/// age. Called while fair-share is not live.
pub fn reprioritize_if_ages_changed(shared: &mut Shared) -> Vec<Effect> {
    let moved = advance_age_reference_time(shared);
    let is_due = shared.weighed.weight(AGE) != 0
        && (moved || shared.ledger.jobs().any(|(_, job)| is_capped(shared, job)));
    if is_due { reprioritize_all() } else { Vec::new() }
}

/// Stores how long a pending job was eligible, computed from the events in `past`. For a running job, starts to count
/// usage at the time of the allocation instead.
pub fn store_eligible_time(shared: &mut Shared, id: JobId, past: &[(f64, Past)]) -> Vec<Effect> {
    if shared.ledger.job(id).is_some_and(|job| job.phase == Phase::Run) {
        let allocated = past.iter().rfind(|(_, what)| *what == Past::Allocated);
        return Vec::from_iter(allocated.and_then(|(when, _)| accrual::begin_accrual(shared, id, *when)));
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
        eligible = eligible.with_eligibility(urgency != URGENCY_HOLD && others.is_empty(), *when);
    }
    shared.ledger.set_eligible(id, eligible);
    if shared.subscriptions.names(id).is_some() {
        // Since the eventlog was read, callbacks may have reported events that are not in `past`.
        shared.ledger.update_age_eligibility(id, None, shared.now);
    }
    // The priority is posted by job id, which Flux does not accept for a job in DEPEND.
    let can_have_priority = |job: &Job| matches!(job.phase, Phase::Priority | Phase::Sched);
    let is_due = shared.weighed.weight(AGE) != 0 && shared.ledger.job(id).is_some_and(can_have_priority);
    if is_due { vec![Effect::AskUrgency(id)] } else { Vec::new() }
}

/// Stores the number of nodes of the site; `None` if it cannot be read.
pub fn store_site_nodes(shared: &mut Shared, nodes: Option<u64>) -> Vec<Effect> {
    let before = std::mem::replace(&mut shared.site_nodes, nodes.unwrap_or(0));
    // If Flux cannot report the number, or the reply cannot be read, the engine asks again later.
    let mut effects = Vec::from_iter(ask_site_nodes(shared).map(|_| Effect::Arm(Timer::Retry)));
    if shared.site_nodes != before && shared.weighed.weight(SIZE) != 0 {
        effects.extend(reprioritize_all());
    }
    effects
}

/// Returns the settings and values of the age factor, for the answer to a query.
pub fn get_age_state_for_query(shared: &Shared) -> AgeSnapshot {
    let weight = shared.weighed.weight(AGE);
    let max_wait = shared.settings.max_wait_behind;
    let max_wait_behind = (max_wait > 0.0).then_some(max_wait);
    let mut near: Vec<LongWaitingJob> = Vec::new();
    if let Some(max_wait) = max_wait_behind {
        near.extend(shared.ledger.jobs().filter_map(|(id, job)| {
            let since = job.eligible.since().filter(|_| matches!(job.phase, Phase::Priority | Phase::Sched));
            let seconds = shared.now - since?;
            (seconds >= NEAR * max_wait).then_some(LongWaitingJob { id, seconds })
        }));
    }
    let near_total = near.len();
    near.sort_by(|one, other| other.seconds.total_cmp(&one.seconds).then(one.id.cmp(&other.id)));
    near.truncate(MAX_NEAR);
    AgeSnapshot {
        reference: (weight != 0).then_some(shared.ages.reference()),
        weight,
        per_day: weight as f64 * 86_400.0 / shared.settings.age_max,
        site_nodes: (shared.site_nodes > 0).then_some(shared.site_nodes),
        max_wait_behind,
        near,
        near_total,
    }
}

/// Makes Flux ask for all priorities if `has_changed` is true and fair-share is not live. If fair-share is live, a
/// refresh posts the changed priorities.
pub fn reprioritize_if_changed(shared: &Shared, has_changed: bool) -> Vec<Effect> {
    if has_changed && !shared.is_live() { reprioritize_all() } else { Vec::new() }
}

/// Asks for the number of nodes of the site, if the job size has a weight and the number is unknown.
pub fn ask_site_nodes(shared: &Shared) -> Option<Effect> {
    (shared.weighed.weight(SIZE) != 0 && shared.site_nodes == 0).then_some(Effect::ReadSiteNodes)
}

/// Returns whether a new job is eligible, and since when, in seconds since the epoch.
pub fn first_eligible_time(facts: &JobFacts<'_>, block_state: BlockState, now: f64) -> Eligible {
    let is_eligible = block_state == BlockState::Unblocked && facts.urgency != URGENCY_HOLD;
    if is_eligible { Eligible::Since(facts.submitted.unwrap_or(now)) } else { Eligible::For(0.0) }
}

/// Returns the seconds between two checks of ages while fair-share is not live, or 0 if the age has no weight. This
/// period is at least a thousandth of the maximum age.
pub fn age_period(shared: &Shared) -> f64 {
    let has_weight = shared.weighed.weight(AGE) != 0;
    if has_weight { shared.settings.refresh.max(shared.settings.age_max / 1000.0) } else { 0.0 }
}

/// If the age has a weight now and had none before, asks for the eventlogs of replayed pending jobs. The engine did not
/// observe these jobs from their submission on, and the eventlogs show how long the jobs have been eligible.
pub fn ask_for_eventlogs_of_age(shared: &Shared, is_replaying: bool, weighed_before: i64) -> Vec<Effect> {
    if weighed_before != 0 || shared.weighed.weight(AGE) == 0 || is_replaying {
        return Vec::new();
    }
    let is_pending = |job: &Job| {
        job.origin == Origin::Replayed && matches!(job.phase, Phase::Depend | Phase::Priority | Phase::Sched)
    };
    let pending = shared.ledger.jobs().filter(|(_, job)| is_pending(job));
    pending.map(|(id, _)| Effect::ReadEventlog(id)).collect()
}

/// Returns true if the job has reached the maximum age. The age term of such a job no longer grows, so its priority
/// falls as the common reference time comes closer.
pub fn is_capped(shared: &Shared, job: &Job) -> bool {
    let is_due = matches!(job.phase, Phase::Priority | Phase::Sched);
    is_due && job.eligible.since().is_some_and(|since| shared.ages.is_capped(since, shared.now))
}
