// SPDX-License-Identifier: LGPL-3.0-only
//! Refreshes: fair-shares as of now, then current priorities, then the posted order. Each in slices over reactor turns.

use super::{
    posting::{Posts, Seeking},
    terms::Capped,
    turns::Taking,
};
use crate::accounts::AssociationId;
use crate::engine::{
    AgeSnapshot, Effect, Recovery, Refresh, Settings, Shared, Step, Timer,
    age::{self, age_period},
    annotate::{self, Annotating},
    effect::reprioritize_all,
    priorities,
    refresh::{posting::seek_unpriced, terms, turns},
};
use crate::ids::{BankName, JobId, UserId};
use crate::priority::AGE;
use fairshare::{Options, Policy};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Associations and jobs that are computed in one turn: a few milliseconds.
const SLICE: usize = 20_000;
/// Pricing a job costs as much as working out so many.
pub(super) const JOB: usize = 10;
/// A site of so many is computed in one turn, whatever the stage.
const SMALL: usize = 4_000;
/// Seconds after a panic until a site without refreshes has one.
const AFTER_PANIC: f64 = 30.0;

/// What a refresh is at.
#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// Fair-shares are computed.
    Standing,
    /// Jobs at the end of their age are priced.
    Capped(Capped),
    /// Turns are computed; then all are priced, or where the fair-share is another one.
    Turns(Box<Taking>),
    /// These associations' jobs are priced; all of them, or where the fair-share is another one. Of the first one those after a
    /// job are left.
    Pricing(VecDeque<AssociationId>, bool, Option<JobId>),
    /// Jobs are looked for that have no priority.
    Seeking(Seeking),
    /// These are posted.
    Posting(Posts),
    /// Jobs are annotated.
    Annotating(Annotating),
}

/// What a refresh did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastRefresh {
    /// As of when.
    pub when: f64,
    /// Associations computed.
    pub worked_out: usize,
    /// Whether the tree was ranked.
    pub ranked: bool,
    /// Associations with another fair-share.
    pub changed: usize,
    /// Priorities posted.
    pub touched: usize,
    /// Jobs whose posted priority is not the exact one.
    pub lagging: usize,
    /// To which depth every queue is right; `None` for all of it.
    pub right_to: Option<usize>,
}

/// Live fair-share as a query shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveSnapshot {
    /// Whether it is on.
    pub is_on: bool,
    /// The settings in force.
    pub settings: Settings,
    /// The policy of the tree, with its options, if there is a tree.
    pub rule: Option<(Policy, Options)>,
    /// Counts refreshes that changed a fair-share, and pushes.
    pub generation: u64,
    /// Associations that have used anything or are in the tree, running jobs, ended jobs that are remembered.
    pub counts: (usize, usize, usize),
    /// Jobs with a posted priority.
    pub pending: usize,
    /// Of these, those whose current priority is another one.
    pub lagging: usize,
    /// The last refresh that was done.
    pub last: Option<LastRefresh>,
    /// Whether one is under way.
    pub is_refreshing: bool,
    /// How ages count.
    pub ages: AgeSnapshot,
}

/// What an association has used, as live fair-share has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Used {
    /// Whose.
    #[serde(rename = "userid")]
    pub user: UserId,
    /// In which bank.
    pub bank: BankName,
    /// At the instant asked for; `None` for one that the tree does not know of, or without a tree.
    pub usage: Option<f64>,
    /// Its fair-share as of the last refresh, or what was pushed for it.
    pub fairshare: f64,
}

impl Refresh {
    /// Notes that settings came. Returns true the first time: nobody heard what was asked for before.
    pub fn begin(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.began, true);
        self.is_armed &= !is_first;
        is_first
    }

    /// Has held jobs released when the next refresh is done, by other limits.
    pub fn release_when_done(&mut self) {
        self.pushed = true;
    }

    /// Begins to refresh by other settings.
    pub fn restart(&mut self, shared: &mut Shared) -> Vec<Effect> {
        self.reprice = true;
        self.stale.request(shared.now);
        self.is_armed = false;
        let mut effects = Vec::from_iter(self.arm_refresh(shared));
        effects.extend(self.begin_refresh(shared));
        effects
    }

    /// Ends refreshes: fair-share is not live any more. All priorities are asked for in the next reactor turn.
    pub fn stop(&mut self) -> Effect {
        self.stage = Stage::Idle;
        self.pushed = true;
        Effect::Arm(Timer::Slice)
    }

    /// A policy with a tree was put in force: priorities follow from the refresh, and then whoever may go.
    pub(in crate::engine) fn pushed_tree(&mut self, shared: &mut Shared, recovery: &Recovery) -> Vec<Effect> {
        let mut effects = Vec::from_iter(shared.ended.ask(&mut shared.standing, shared.now));
        effects.extend(self.arm_refresh(shared));
        effects.extend(self.refresh_on_request(shared, recovery));
        effects
    }

    /// Begins the refresh that a push or a request asks for: then whoever may go goes.
    pub(in crate::engine) fn refresh_on_request(
        &mut self,
        shared: &mut Shared,
        recovery: &Recovery,
    ) -> Vec<Effect> {
        (self.reprice, self.pushed) = (true, true);
        self.stale.request(shared.now);
        let mut effects = Vec::from_iter(self.begin_refresh(shared));
        // Where it is much, the push itself is enough for one turn.
        if is_small_site(shared) {
            effects.extend(self.go_on_refreshing(shared, recovery));
        }
        effects
    }

    /// The timer of refreshes fired.
    pub(in crate::engine) fn refresh_due(&mut self, shared: &mut Shared, recovery: &Recovery) -> Vec<Effect> {
        self.is_armed = false;
        let mut effects = Vec::from_iter(self.arm_refresh(shared));
        if !shared.is_live() {
            effects.extend(age::ages_due(shared));
        } else if matches!(self.stage, Stage::Idle) {
            effects.extend(self.begin_refresh(shared));
            effects.extend(self.go_on_refreshing(shared, recovery));
        }
        effects
    }

    /// One slice of a refresh.
    pub(in crate::engine) fn go_on_refreshing(
        &mut self,
        shared: &mut Shared,
        recovery: &Recovery,
    ) -> Vec<Effect> {
        if recovery.is_comparing() {
            // What Flux has is not known.
            return vec![Effect::Arm(Timer::Slice)];
        }
        if !shared.is_live() {
            self.stage = Stage::Idle;
            let due = std::mem::take(&mut self.pushed);
            return if due { self.reprioritize(shared, recovery) } else { Vec::new() };
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
                    if let Some(done) = shared.standing.step(left) {
                        let last = &mut self.posting;
                        (last.worked_out, last.ranked) = (done.worked_out, done.ranked);
                        last.changed = done.changed.len();
                        let all = std::mem::take(&mut self.reprice);
                        let has_changed = !done.changed.is_empty();
                        self.stage = if all || shared.weighed.weight(AGE) == 0 {
                            self.begin_pricing(shared, all, has_changed)
                        } else {
                            Stage::Capped(Capped { has_changed, after: None })
                        };
                    }
                    if !is_small && !matches!(self.stage, Stage::Turns(_)) {
                        break;
                    }
                }
                Stage::Capped(at) => {
                    let at = *at;
                    if let Some(next) = terms::reprice_capped(shared, at, &mut left) {
                        self.stage = Stage::Capped(next);
                        break;
                    }
                    self.stage = self.begin_pricing(shared, false, at.has_changed);
                }
                Stage::Turns(_) => {
                    let Stage::Turns(taking) = std::mem::take(&mut self.stage) else {
                        return Vec::new();
                    };
                    match turns::take_turns(shared, *taking) {
                        Some(taking) => {
                            self.stage = Stage::Turns(Box::new(taking));
                            break;
                        }
                        None => self.stage = Stage::Pricing(shared.posted.associations().into(), true, None),
                    }
                }
                Stage::Pricing(list, all, after) => {
                    let (all, after) = (*all, *after);
                    let Some(association) = list.front().copied() else {
                        shared.posted.end_site_change();
                        if !self.seeks(shared) {
                            return self.post_plan(shared, None);
                        }
                        self.stage = Stage::Seeking(Seeking::default());
                        continue;
                    };
                    let (priced, next) =
                        priorities::update_group(shared, association, all, after, left.div_ceil(JOB));
                    if let Stage::Pricing(list, _, after) = &mut self.stage {
                        *after = next;
                        if next.is_none() {
                            list.pop_front();
                        }
                    }
                    left = left.saturating_sub(1 + JOB * priced);
                    if left == 0 {
                        break;
                    }
                }
                Stage::Seeking(at) => {
                    let at = std::mem::take(at);
                    match seek_unpriced(shared, at) {
                        Ok(found) => return self.post_plan(shared, Some(found)),
                        Err(next) => self.stage = Stage::Seeking(next),
                    }
                    break;
                }
                Stage::Posting(_) => return self.post(shared),
                Stage::Annotating(at) => {
                    let (mut effects, next) = {
                        let at = *at;
                        annotate::annotate(shared, at)
                    };
                    match next {
                        Some(next) => self.stage = Stage::Annotating(next),
                        None => effects.extend(self.end_refresh(shared)),
                    }
                    return effects;
                }
            }
        }
        vec![Effect::Arm(Timer::Slice)]
    }

    /// A panic may have cut a refresh short, and lost the timers of this one and of the next. It begins again when the next was due, or a
    /// period later if that is over: not at once, since it may panic each time.
    pub(in crate::engine) fn refresh_after_panic(&mut self, shared: &mut Shared) -> Option<Effect> {
        shared.standing.restart();
        (self.stage, self.is_armed, self.reprice) = (Stage::Idle, false, true);
        let (left, is_lost) = (self.due - shared.now, shared.is_live() && shared.settings.refresh <= 0.0);
        if self.arm_refresh(shared).is_none() {
            return is_lost.then_some(Effect::ArmIn(Timer::Refresh, AFTER_PANIC));
        }
        let period = self.period;
        let rest = if left > 0.0 { left.min(period) } else { period };
        self.due = shared.now + rest;
        Some(Effect::ArmIn(Timer::Refresh, rest))
    }

    pub(in crate::engine) fn arm_refresh(&mut self, shared: &mut Shared) -> Option<Effect> {
        let refresh = shared.settings.refresh;
        let period = if shared.is_live() { refresh } else { age_period(shared) };
        let is_another = !self.is_armed || self.period != period;
        let arms = is_another && refresh > 0.0 && period > 0.0;
        if arms {
            (self.is_armed, self.period, self.due) = (true, period, shared.now + period);
        }
        arms.then_some(Effect::ArmIn(Timer::Refresh, period))
    }

    /// Begins a refresh; one that is under way begins again.
    fn begin_refresh(&mut self, shared: &mut Shared) -> [Effect; 2] {
        shared.standing.begin(shared.now);
        age::move_reference(shared);
        self.outdate_prices(shared);
        self.posting = LastRefresh { when: shared.now, ..LastRefresh::default() };
        self.is_correction = false;
        self.stage = Stage::Standing;
        // The answer serves the next refresh.
        [Effect::AskScheduler, Effect::Arm(Timer::Slice)]
    }

    /// Fair-shares are known: all jobs are priced, or where the fair-share is another one.
    fn begin_pricing(&mut self, shared: &mut Shared, all: bool, has_changed: bool) -> Stage {
        let moved = all || has_changed;
        if moved {
            shared.ledger.prices_moved();
        }
        let turns = if moved || shared.posted.has_changed() { turns::begin_turns(shared) } else { None };
        if let Some(taking) = turns {
            return Stage::Turns(Box::new(taking));
        }
        let list = if moved { shared.posted.associations() } else { Vec::new() };
        Stage::Pricing(list.into(), all, None)
    }

    /// New priorities for all, then whoever may go by the new data.
    pub(in crate::engine) fn reprioritize(
        &mut self,
        shared: &mut Shared,
        recovery: &Recovery,
    ) -> Vec<Effect> {
        shared.due.push_ended = true;
        if shared.is_live() {
            return self.refresh_on_request(shared, recovery);
        }
        age::move_reference(shared);
        self.forget_terms(shared);
        let mut effects = reprioritize_all();
        effects.push(Effect::Then(Step::ReleaseAll));
        effects
    }
}

fn is_small_site(shared: &Shared) -> bool {
    let (cells, running, ended) = shared.standing.counts();
    cells + running + ended <= SMALL
}
