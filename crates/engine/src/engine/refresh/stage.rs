// SPDX-License-Identifier: LGPL-3.0-only
//! The stages of a refresh: fair-shares, then current priorities, then posts. Each stage runs in slices over
//! several reactor turns.

use super::{
    interleave::TurnComputation,
    posting::{Posts, PrioritySearch},
};
use crate::accounts::AssociationId;
use crate::engine::{
    AgeSnapshot, Effect, Recovery, Refresh, Shared, Step, Timer,
    age::{self, age_period},
    annotate,
    effect::reprioritize_all,
    priorities,
    refresh::{interleave, terms},
};
use crate::ids::{JobId, Word};
use crate::priority::AGE;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The work of one reactor turn, in units of one association or job. It takes a few milliseconds.
const SLICE: usize = 20_000;
/// The cost of computing a priority, in units of computing the fair-share of an association.
pub(super) const JOB_COST: usize = 10;
/// If a site has at most this many associations and jobs together, one reactor turn computes all fair-shares.
const SMALL: usize = 4_000;
/// Seconds from a panic to the next refresh, if refreshes are off.
const AFTER_PANIC: f64 = 30.0;

/// The stage of a refresh.
#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// Fair-shares are computed.
    Standing,
    /// The engine computes the priorities of jobs at the largest age. `has_changed` is true if a fair-share has
    /// changed. `after` is the job whose priority was computed last.
    CappedJobs { has_changed: bool, after: Option<JobId> },
    /// The engine computes the positions of jobs in their associations. Afterwards the engine computes all priorities.
    Turns(Box<TurnComputation>),
    /// The engine computes the priorities of the jobs of these associations. If the `bool` is false, the engine skips
    /// associations whose fair-share did not change. The `JobId` is the job whose priority was computed last.
    Priorities(VecDeque<AssociationId>, bool, Option<JobId>),
    /// The engine searches for jobs without a priority.
    PrioritySearch(PrioritySearch),
    /// The engine posts these priorities.
    Posting(Posts),
    /// Jobs are annotated. The `JobId` is the job that was annotated last.
    Annotations(Option<JobId>),
}

/// The result of a refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastRefresh {
    /// The time for which the refresh computed fair-shares, in seconds since the epoch.
    pub when: f64,
    /// The number of associations whose fair-share the refresh computed.
    pub worked_out: usize,
    /// Whether the refresh computed the fair-shares in the tree.
    pub ranked: bool,
    /// The number of associations whose fair-share changed.
    pub changed: usize,
    /// The number of posted priorities.
    pub touched: usize,
    /// The number of jobs whose posted priority is stale.
    pub lagging: usize,
    /// The number of jobs at the head of each queue that are in the correct order; `None` if all are.
    pub right_to: Option<usize>,
    /// How long the refresh took, in seconds. The plugin measures this time.
    pub seconds: Option<f64>,
}

/// The state of live fair-share in the answer to `query`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveSnapshot {
    /// The usage that a running job is charged for: `elapsed` or `committed`.
    pub accrual: Word,
    /// The settings and values of the age factor.
    pub ages: AgeSnapshot,
    /// The number of associations with usage or in the tree.
    pub associations: usize,
    /// The number of stored ended jobs.
    pub ended: usize,
    /// The number of pushes plus the number of refreshes that changed a fair-share.
    pub generation: u64,
    /// Whether jobs of different associations are interleaved.
    pub interleave: bool,
    /// The number of jobs whose posted priority is stale.
    pub lagging: usize,
    /// The last refresh that has ended.
    pub last: Option<LastRefresh>,
    /// Whether live fair-share is on.
    #[serde(rename = "on")]
    pub is_on: bool,
    /// The options of the ranking policy, if there is a tree.
    pub options: Option<BTreeMap<String, String>>,
    /// The number of jobs with a posted priority.
    pub pending: usize,
    /// The ranking policy of the tree, if there is a tree.
    pub policy: Option<Word>,
    /// The time between two refreshes, in seconds.
    pub refresh: f64,
    /// Whether a refresh is in progress.
    #[serde(rename = "refreshing")]
    pub is_refreshing: bool,
    /// The number of running jobs.
    pub running: usize,
}

impl Refresh {
    /// Records new settings. Returns true for the first settings after the load. Before the first settings, the plugin
    /// did not carry out requests to Flux.
    pub fn record_new_settings(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.began, true);
        self.period = self.period.filter(|_| !is_first);
        is_first
    }

    /// Makes a release scan of all associations follow the next refresh, because limits changed. If fair-share is not
    /// live, Flux asks for all priorities in the next reactor turn, and the scan follows.
    pub fn release_after_refresh(&mut self) -> Effect {
        self.needs_release_scan = true;
        Effect::Arm(Timer::Slice)
    }

    /// Begins a refresh with changed settings.
    pub fn restart_refresh(&mut self, shared: &mut Shared) -> Vec<Effect> {
        self.recomputes_all = true;
        self.stale.record_priority_request(shared.now);
        self.period = None;
        let mut effects = Vec::from_iter(self.arm_refresh_timer(shared));
        effects.extend(self.begin_refresh(shared));
        effects
    }

    /// Begins the refresh that a push or a request asks for. A release scan of all associations follows the refresh.
    fn refresh_on_request(&mut self, shared: &mut Shared, recovery: &Recovery) -> Vec<Effect> {
        (self.recomputes_all, self.needs_release_scan) = (true, true);
        self.stale.record_priority_request(shared.now);
        let mut effects = Vec::from_iter(self.begin_refresh(shared));
        // On a large site, the push has used up the time of this reactor turn.
        if is_small_site(shared) {
            effects.extend(self.continue_refresh(shared, recovery));
        }
        effects
    }

    /// Handles the timer of refreshes.
    pub fn handle_refresh_timer(&mut self, shared: &mut Shared, recovery: &Recovery) -> Vec<Effect> {
        self.period = None;
        let mut effects = Vec::from_iter(self.arm_refresh_timer(shared));
        if !shared.is_live() {
            effects.extend(age::reprioritize_if_ages_changed(shared));
        } else if matches!(self.stage, Stage::Idle) {
            effects.extend(self.begin_refresh(shared));
            effects.extend(self.continue_refresh(shared, recovery));
        }
        effects
    }

    /// Computes the next slice of a refresh.
    pub fn continue_refresh(&mut self, shared: &mut Shared, recovery: &Recovery) -> Vec<Effect> {
        if recovery.is_comparing() {
            // The comparison with Flux has not reached all jobs yet.
            return vec![Effect::Arm(Timer::Slice)];
        }
        if !shared.is_live() {
            self.stage = Stage::Idle;
            let due = std::mem::take(&mut self.needs_release_scan);
            return if due { self.post_all_priorities(shared, recovery) } else { Vec::new() };
        }
        let mut left = SLICE;
        let is_small = is_small_site(shared);
        loop {
            match &mut self.stage {
                Stage::Idle if !self.is_misplaced => return Vec::new(),
                Stage::Idle => {
                    self.is_correction = true;
                    return self.post_plan(shared, None);
                }
                Stage::Standing => {
                    if let Some(done) = shared.standing.compute_refresh_slice(left) {
                        let last = &mut self.posting;
                        (last.worked_out, last.ranked) = (done.worked_out, done.ranked);
                        last.changed = done.changed.len();
                        let all = std::mem::take(&mut self.recomputes_all);
                        let has_changed = !done.changed.is_empty();
                        self.stage = if all || shared.weighed.weight(AGE) == 0 {
                            self.begin_priorities(shared, all, has_changed)
                        } else {
                            Stage::CappedJobs { has_changed, after: None }
                        };
                    }
                    if !is_small && !matches!(self.stage, Stage::Turns(_)) {
                        break;
                    }
                }
                Stage::CappedJobs { has_changed, after } => {
                    if !terms::update_capped_jobs(shared, after, &mut left) {
                        break;
                    }
                    let has_changed = *has_changed;
                    self.stage = self.begin_priorities(shared, false, has_changed);
                }
                Stage::Turns(taking) => {
                    if !interleave::compute_slice_of_interleaving(shared, taking) {
                        break;
                    }
                    self.stage = Stage::Priorities(shared.posted.associations().into(), true, None);
                }
                Stage::Priorities(list, all, after) => {
                    let Some(association) = list.front().copied() else {
                        shared.posted.end_site_change();
                        if !self.must_search_jobs_without_priority(shared) {
                            return self.post_plan(shared, None);
                        }
                        self.stage = Stage::PrioritySearch(PrioritySearch::default());
                        continue;
                    };
                    let (computed, next) = priorities::update_association_priorities(
                        shared,
                        association,
                        *all,
                        *after,
                        left.div_ceil(JOB_COST),
                    );
                    *after = next;
                    if next.is_none() {
                        list.pop_front();
                    }
                    left = left.saturating_sub(1 + JOB_COST * computed);
                    if left == 0 {
                        break;
                    }
                }
                Stage::PrioritySearch(search) => {
                    let Some(found) = search.continue_search(shared) else { break };
                    return self.post_plan(shared, Some(found));
                }
                Stage::Posting(_) => return self.post_slice(shared),
                Stage::Annotations(after) => {
                    let (mut effects, last) = annotate::post_annotations_of_next_jobs(shared, *after);
                    match last {
                        Some(_) => self.stage = Stage::Annotations(last),
                        None => effects.extend(self.end_refresh()),
                    }
                    return effects;
                }
            }
        }
        vec![Effect::Arm(Timer::Slice)]
    }

    /// Recovers from a panic, which may have interrupted a refresh. The next refresh begins at its planned time, or
    /// one period from now if the planned time is past. It does not begin at once, because a refresh may have caused
    /// the panic.
    pub fn refresh_after_panic(&mut self, shared: &mut Shared) -> Option<Effect> {
        shared.standing.recompute_all();
        (self.stage, self.period, self.recomputes_all) = (Stage::Idle, None, true);
        let left = self.due - shared.now;
        self.arm_refresh_timer(shared);
        let Some(period) = self.period else {
            let is_lost = shared.is_live() && shared.settings.refresh <= 0.0;
            return is_lost.then_some(Effect::ArmIn(Timer::Refresh, AFTER_PANIC));
        };
        let delay = if left > 0.0 { left.min(period) } else { period };
        self.due = shared.now + delay;
        Some(Effect::ArmIn(Timer::Refresh, delay))
    }

    pub fn arm_refresh_timer(&mut self, shared: &mut Shared) -> Option<Effect> {
        let refresh = shared.settings.refresh;
        let period = if shared.is_live() { refresh } else { age_period(shared) };
        let arms = self.period != Some(period) && refresh > 0.0 && period > 0.0;
        if arms {
            (self.period, self.due) = (Some(period), shared.now + period);
        }
        arms.then_some(Effect::ArmIn(Timer::Refresh, period))
    }

    /// Begins a refresh. Abandons a refresh that is in progress.
    fn begin_refresh(&mut self, shared: &mut Shared) -> [Effect; 2] {
        shared.standing.begin_computation(shared.now);
        age::advance_age_reference_time(shared);
        self.handle_changed_priority_terms(shared);
        self.posting = LastRefresh { when: shared.now, ..LastRefresh::default() };
        self.is_correction = false;
        self.stage = Stage::Standing;
        // Flux's answer to `AskScheduler` comes too late for this refresh. The next refresh uses the answer.
        [Effect::AskScheduler, Effect::Arm(Timer::Slice)]
    }

    /// Begins to compute priorities after the fair-shares. If `all` is false, only jobs of associations with a
    /// changed fair-share get new priorities.
    fn begin_priorities(&mut self, shared: &mut Shared, all: bool, has_changed: bool) -> Stage {
        let moved = all || has_changed;
        if moved {
            shared.ledger.mark_priorities_changed();
        }
        let turns = if moved || shared.posted.has_changed() { interleave::begin_turns(shared) } else { None };
        if let Some(taking) = turns {
            return Stage::Turns(Box::new(taking));
        }
        let list = if moved { shared.posted.associations() } else { Vec::new() };
        Stage::Priorities(list.into(), all, None)
    }

    /// Makes a refresh or Flux's loop post all priorities. A release scan of all associations follows.
    pub fn post_all_priorities(&mut self, shared: &mut Shared, recovery: &Recovery) -> Vec<Effect> {
        shared.has_push_ended = true;
        if shared.is_live() {
            return self.refresh_on_request(shared, recovery);
        }
        age::advance_age_reference_time(shared);
        // Priorities are now posted from pushed fair-shares. They cannot be compared with priorities that were posted
        // while fair-share was live.
        self.terms = None;
        let mut effects = reprioritize_all();
        effects.push(Effect::Then(Step::ScanAllHeld));
        effects
    }
}

fn is_small_site(shared: &Shared) -> bool {
    let (entries, running, ended) = shared.standing.usages.counts();
    entries + running + ended <= SMALL
}
