// SPDX-License-Identifier: LGPL-3.0-only
//! Refreshes: fair-shares as of now, then exact prices, then the posted order. Each in slices over reactor turns.

use super::super::{AgeSnapshot, Effect, Engine, Settings, Timer};
use super::Annotating;
use super::ended::Asking;
use super::interleave::Taking;
use super::posting::{Posts, Seeking};
use super::terms::Capped;
use crate::accounts::AssociationId;
use crate::engine::age;
use crate::engine::age::age_period;
use crate::engine::age::lacks_site_nodes;
use crate::engine::annotate;
use crate::engine::live::ended;
use crate::engine::live::posting::seek_unpriced;
use crate::engine::live::posting::seeks;
use crate::engine::live::prices;
use crate::engine::release;
use crate::engine::shared::Shared;
use crate::ids::{BankName, JobId, UserId};
use crate::priority::AGE;
use fairshare::{Options, Policy};
use std::collections::VecDeque;

/// Associations and jobs that are worked out in one turn: a few milliseconds.
const SLICE: usize = 20_000;
/// Pricing a job costs as much as working out so many.
pub(super) const JOB: usize = 10;
/// A site of so many is worked out in one turn, whatever the stage.
const SMALL: usize = 4_000;
/// Seconds after a panic until a site without refreshes has one.
const AFTER_PANIC: f64 = 30.0;

/// What a refresh is at.
#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// Fair-shares are worked out.
    Standing,
    /// Jobs at the end of their age are priced.
    Capped(Capped),
    /// Turns are worked out; then all are priced, or where the fair-share is another one.
    Turns(Box<Taking>),
    /// These associations' jobs are priced; all of them, or where the fair-share is another one. Of the first one those after a
    /// job are left.
    Pricing(VecDeque<AssociationId>, bool, Option<JobId>),
    /// Jobs are looked for that have no price.
    Seeking(Seeking),
    /// These are posted.
    Posting(Posts),
    /// Jobs are annotated.
    Annotating(Annotating),
}

/// What a refresh did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastRefresh {
    /// As of when.
    pub when: f64,
    /// Associations worked out.
    pub worked_out: usize,
    /// Whether the tree was ranked.
    pub ranked: bool,
    /// Associations with another fair-share.
    pub changed: usize,
    /// Prices posted.
    pub touched: usize,
    /// Jobs whose posted price is not the exact one.
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
    /// Jobs with a posted price.
    pub pending: usize,
    /// Of these, those whose exact price is another one.
    pub lagging: usize,
    /// The last refresh that was done.
    pub last: Option<LastRefresh>,
    /// Whether one is under way.
    pub is_refreshing: bool,
    /// How ages count.
    pub ages: AgeSnapshot,
}

/// What an association has used, as live fair-share has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Used {
    /// Whose.
    pub user: UserId,
    /// In which bank.
    pub bank: BankName,
    /// At the instant asked for; `None` for one that the tree does not know of, or without a tree.
    pub usage: Option<f64>,
    /// Its fair-share as of the last refresh, or what was pushed for it.
    pub fairshare: f64,
}

impl Engine {
    /// The settings are these from now on.
    pub(in crate::engine) fn set(&mut self, settings: Settings) -> Vec<Effect> {
        let was_live = self.shared.is_live();
        let before = std::mem::replace(&mut self.shared.settings, settings);
        let is_first = !std::mem::replace(&mut self.shared.live.began, true);
        if is_first {
            // Nothing was carried out of what a policy that was given at load asked for.
            (self.shared.live.asking, self.shared.live.is_armed) = (Asking::default(), false);
            self.shared.standing.remember_all(false);
        }
        if before == self.shared.settings && !(is_first && was_live) {
            let asked =
                if is_first { [self.arm_refresh(), lacks_site_nodes(&self.shared)] } else { [None, None] };
            return asked.into_iter().flatten().collect();
        }
        if !self.shared.settings.annotate {
            self.shared.annotations.clear();
        }
        self.shared.standing.set_mode(self.shared.settings.accrual);
        if before.accrual != self.shared.settings.accrual {
            self.note_other_accrual();
        }
        self.shared.book.set_configured_limits(self.shared.settings.limits.clone());
        self.shared.ledger.regroup(&self.shared.book);
        // A loop that began now would ask the other plugins only: this one is not in Flux's list yet. Flux asks for all prices by itself
        // when it has shown the jobs; after a restart the replay does, where a job is in PRIORITY.
        let is_loading = is_first && self.shared.ledger.is_empty();
        let mut effects = self.set_ages(&before, is_loading);
        if before.running != self.shared.settings.running {
            effects.extend(release::count_by_new_rules(&mut self.shared));
        }
        // Whoever may go by other limits goes at the end of a push, or of the loop that ends it. That begins in the next reactor turn: until
        // then Flux is at its cursor over its plugins, which any callback about a job moves.
        if before.limits != self.shared.settings.limits {
            self.shared.due.limits_moved = true;
            if self.shared.is_live() {
                self.shared.live.pushed = true;
            } else if !is_loading {
                self.shared.live.pushed = true;
                effects.push(Effect::Arm(Timer::Slice));
            }
        }
        if self.shared.is_live() {
            self.shared.live.reprice = true;
            self.shared.live.stale.request(self.shared.now);
            self.shared.live.is_armed = false;
            effects.extend(ended::ask_for_ended(&mut self.shared));
            effects.extend(self.arm_refresh());
            effects.extend(self.begin_refresh());
        } else if was_live {
            // By the pushed numbers again, all of them, as before.
            self.shared.live.stage = Stage::Idle;
            self.shared.live.pushed = true;
            effects.push(Effect::Arm(Timer::Slice));
        } else {
            effects.extend(self.arm_refresh());
        }
        effects
    }

    /// A policy with a tree was put in force: prices follow from the refresh, and then whoever may go.
    pub(in crate::engine) fn pushed_tree(&mut self) -> Vec<Effect> {
        let mut effects = Vec::from_iter(ended::ask_for_ended(&mut self.shared));
        effects.extend(self.arm_refresh());
        effects.extend(self.refresh_on_request());
        effects
    }

    /// Begins the refresh that a push or a request asks for: then whoever may go goes.
    pub(in crate::engine) fn refresh_on_request(&mut self) -> Vec<Effect> {
        (self.shared.live.reprice, self.shared.live.pushed) = (true, true);
        self.shared.live.stale.request(self.shared.now);
        let mut effects = Vec::from_iter(self.begin_refresh());
        // Where it is much, the push itself is enough for one turn.
        if is_small_site(&self.shared) {
            effects.extend(self.go_on_refreshing());
        }
        effects
    }

    /// The timer of refreshes fired.
    pub(in crate::engine) fn refresh_due(&mut self) -> Vec<Effect> {
        self.shared.live.is_armed = false;
        let mut effects = Vec::from_iter(self.arm_refresh());
        if !self.shared.is_live() {
            effects.extend(age::ages_due(&mut self.shared));
        } else if matches!(self.shared.live.stage, Stage::Idle) {
            effects.extend(self.begin_refresh());
            effects.extend(self.go_on_refreshing());
        }
        effects
    }

    /// A panic may have cut a refresh short, and lost the timers of this one and of the next. It begins anew when the next was due, or a
    /// period later if that is over: not at once, since it may panic each time.
    pub(in crate::engine) fn refresh_after_panic(&mut self) -> Option<Effect> {
        self.shared.standing.restart();
        (self.shared.live.stage, self.shared.live.is_armed, self.shared.live.reprice) =
            (Stage::Idle, false, true);
        let (left, is_lost) = (
            self.shared.live.due - self.shared.now,
            self.shared.is_live() && self.shared.settings.refresh <= 0.0,
        );
        if self.arm_refresh().is_none() {
            return is_lost.then_some(Effect::ArmIn(Timer::Refresh, AFTER_PANIC));
        }
        let period = self.shared.live.period;
        let rest = if left > 0.0 { left.min(period) } else { period };
        self.shared.live.due = self.shared.now + rest;
        Some(Effect::ArmIn(Timer::Refresh, rest))
    }

    pub(in crate::engine) fn arm_refresh(&mut self) -> Option<Effect> {
        let refresh = self.shared.settings.refresh;
        let period = if self.shared.is_live() { refresh } else { age_period(&self.shared) };
        let is_another = !self.shared.live.is_armed || self.shared.live.period != period;
        let arms = is_another && refresh > 0.0 && period > 0.0;
        if arms {
            (self.shared.live.is_armed, self.shared.live.period, self.shared.live.due) =
                (true, period, self.shared.now + period);
        }
        arms.then_some(Effect::ArmIn(Timer::Refresh, period))
    }

    /// Begins a refresh; one that is under way begins anew.
    fn begin_refresh(&mut self) -> [Effect; 2] {
        self.shared.standing.begin(self.shared.now);
        age::move_reference(&mut self.shared);
        self.outdate_prices();
        self.shared.live.posting = LastRefresh { when: self.shared.now, ..LastRefresh::default() };
        self.shared.live.is_correction = false;
        self.shared.live.stage = Stage::Standing;
        // The answer serves the next refresh.
        [Effect::AskScheduler, Effect::Arm(Timer::Slice)]
    }

    /// One slice of a refresh.
    pub(in crate::engine) fn go_on_refreshing(&mut self) -> Vec<Effect> {
        if self.recovery.is_comparing() {
            // What Flux has is not known.
            return vec![Effect::Arm(Timer::Slice)];
        }
        if !self.shared.is_live() {
            self.shared.live.stage = Stage::Idle;
            let due = std::mem::take(&mut self.shared.live.pushed);
            return if due { self.reprioritize() } else { Vec::new() };
        }
        let mut left = SLICE;
        let is_small = is_small_site(&self.shared);
        loop {
            match &mut self.shared.live.stage {
                Stage::Idle if !self.shared.live.is_misplaced => return Vec::new(),
                Stage::Idle => {
                    self.shared.live.is_correction = true;
                    return self.post_plan(None);
                }
                Stage::Standing => {
                    if let Some(done) = self.shared.standing.step(left) {
                        let last = &mut self.shared.live.posting;
                        (last.worked_out, last.ranked) = (done.worked_out, done.ranked);
                        last.changed = done.changed.len();
                        let all = std::mem::take(&mut self.shared.live.reprice);
                        let has_changed = !done.changed.is_empty();
                        self.shared.live.stage = if all || self.shared.weighed.weight(AGE) == 0 {
                            self.begin_pricing(all, has_changed)
                        } else {
                            Stage::Capped(Capped { has_changed, after: None })
                        };
                    }
                    if !is_small && !matches!(self.shared.live.stage, Stage::Turns(_)) {
                        break;
                    }
                }
                Stage::Capped(at) => {
                    let at = *at;
                    if let Some(next) = self.reprice_capped(at, &mut left) {
                        self.shared.live.stage = Stage::Capped(next);
                        break;
                    }
                    self.shared.live.stage = self.begin_pricing(false, at.has_changed);
                }
                Stage::Turns(_) => {
                    let Stage::Turns(taking) = std::mem::take(&mut self.shared.live.stage) else {
                        return Vec::new();
                    };
                    match self.take_turns(*taking) {
                        Some(taking) => {
                            self.shared.live.stage = Stage::Turns(Box::new(taking));
                            break;
                        }
                        None => {
                            self.shared.live.stage =
                                Stage::Pricing(self.shared.live.groups.all().into(), true, None)
                        }
                    }
                }
                Stage::Pricing(list, all, after) => {
                    let (all, after) = (*all, *after);
                    let Some(association) = list.front().copied() else {
                        self.shared.live.site_change = Default::default();
                        if !seeks(&self.shared) {
                            return self.post_plan(None);
                        }
                        self.shared.live.stage = Stage::Seeking(Seeking::default());
                        continue;
                    };
                    let (priced, next) =
                        prices::reprice(&mut self.shared, association, all, after, left.div_ceil(JOB));
                    if let Stage::Pricing(list, _, after) = &mut self.shared.live.stage {
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
                    match seek_unpriced(&self.shared, at) {
                        Ok(found) => return self.post_plan(Some(found)),
                        Err(next) => self.shared.live.stage = Stage::Seeking(next),
                    }
                    break;
                }
                Stage::Posting(_) => return self.post(),
                Stage::Annotating(at) => {
                    let (mut effects, next) = {
                        let at = *at;
                        annotate::annotate(&mut self.shared, at)
                    };
                    match next {
                        Some(next) => self.shared.live.stage = Stage::Annotating(next),
                        None => effects.extend(self.end_refresh()),
                    }
                    return effects;
                }
            }
        }
        vec![Effect::Arm(Timer::Slice)]
    }

    /// Fair-shares are known: all jobs are priced, or where the fair-share is another one.
    fn begin_pricing(&mut self, all: bool, has_changed: bool) -> Stage {
        let moved = all || has_changed;
        if moved {
            self.shared.ledger.prices_moved();
        }
        let turns = if moved || self.shared.live.moved { self.begin_turns() } else { None };
        if let Some(taking) = turns {
            return Stage::Turns(Box::new(taking));
        }
        let list = if moved { self.shared.live.groups.all() } else { Vec::new() };
        Stage::Pricing(list.into(), all, None)
    }
}

fn is_small_site(shared: &Shared) -> bool {
    let (cells, running, ended) = shared.standing.counts();
    cells + running + ended <= SMALL
}
