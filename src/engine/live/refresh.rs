// SPDX-License-Identifier: LGPL-3.0-only
//! Refreshes: fair-shares as of now, then exact prices, then the posted order. Each in slices over reactor turns.

use super::super::{AgeSnapshot, Effect, Engine, PageWanted, Settings, Step, Timer};
use super::cost::{loops_for, posts_at_once};
use super::ended::Asking;
use super::interleave::Taking;
use super::shadow::{ShadowReport, Shadowing};
use crate::accounts::{Association, AssociationId};
use crate::fairshare::{Options, Policy};
use crate::ids::{BankName, JobId, UserId};
use crate::limits::Demand;
use crate::priority::order::Bounds;
use std::collections::VecDeque;

/// Associations and jobs that are worked out in one turn, and jobs that are priced: a few milliseconds.
const SLICE: usize = 20_000;
/// A site of so many is worked out in one turn, whatever the stage.
const SMALL: usize = 4_000;
/// So many jobs that lag are posted without asking whether it shows: what a rank rule changes at a refresh is below it.
const FEW: usize = 300;

/// What a refresh is at.
#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// Fair-shares are worked out.
    Standing,
    /// Turns are worked out; then all are priced, or where the fair-share is another one.
    Turns(Box<Taking>),
    /// These associations' jobs are priced; all of them, or where the fair-share is another one.
    Pricing(VecDeque<AssociationId>, bool),
    /// These are posted.
    Posting(VecDeque<JobId>),
    /// What the shadow policy makes of it.
    Shadow(Shadowing),
}

/// What a refresh did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastRefresh {
    /// As of when.
    pub when: f64,
    /// How long it took, over all turns.
    pub seconds: f64,
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
    /// What the shadow policy makes of it, if one is set and it was worked out.
    pub shadow: Option<ShadowReport>,
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
    /// What associations have used as of an instant, and where the next page begins.
    pub fn usages(&self, wanted: &PageWanted, now: f64) -> (Vec<Used>, Option<(UserId, BankName)>) {
        let first = wanted.user.map(|user| (user, String::new()));
        let after = wanted.after.as_ref().max(first.as_ref()).map(|(user, bank)| (*user, bank.as_str()));
        let is_wanted = |user: UserId| wanted.user.is_none_or(|only| only == user);
        let associations =
            self.book.associations(after).take_while(|(_, association)| is_wanted(association.user));
        let used = |(id, association): (AssociationId, &Association)| {
            let index = self.standing.find(association.user, &association.bank);
            Used {
                user: association.user,
                bank: association.bank.clone(),
                usage: index.and_then(|index| self.standing.usage(index, now)),
                fairshare: self.fairshare(id).unwrap_or_default(),
            }
        };
        let used: Vec<Used> = associations.take(wanted.most).map(used).collect();
        let next = used.last().filter(|_| used.len() == wanted.most);
        let next = next.map(|last| (last.user, last.bank.clone()));
        (used, next)
    }

    /// The settings are these from now on.
    pub(in crate::engine) fn set(&mut self, settings: Settings) -> Vec<Effect> {
        let was_live = self.is_live();
        let before = std::mem::replace(&mut self.settings, settings);
        let is_first = !std::mem::replace(&mut self.live.began, true);
        if is_first {
            self.live.asking = Asking::default();
        }
        if before == self.settings && !(is_first && was_live) {
            return Vec::new();
        }
        self.standing.set_mode(self.settings.accrual);
        self.book.set_configured_limits(self.settings.limits.clone());
        self.regroup();
        let mut effects = self.set_ages(&before);
        if before.running != self.settings.running {
            effects.extend(self.count_by_new_rules());
        }
        // Whoever may go by other limits goes at the end of a push, or of the loop that ends it.
        if before.limits != self.settings.limits {
            if self.is_live() {
                self.live.pushed = true;
            } else {
                effects.extend(self.reprioritize());
            }
        }
        if self.is_live() {
            self.live.reprice = true;
            self.live.is_armed = false;
            effects.extend(self.ask_for_ended());
            effects.extend(self.arm_refresh());
            effects.extend(self.begin_refresh());
        } else if was_live {
            // By the pushed numbers again, all of them, as before.
            self.live.stage = Stage::Idle;
            self.live.pushed = true;
            effects.push(Effect::Arm(Timer::Slice));
        } else {
            effects.extend(self.arm_refresh());
        }
        effects
    }

    /// A policy with a tree was put in force: prices follow from the refresh, and then whoever may go.
    pub(in crate::engine) fn pushed_tree(&mut self) -> Vec<Effect> {
        self.live.reprice = true;
        self.live.pushed = true;
        let mut effects = Vec::from_iter(self.ask_for_ended());
        effects.extend(self.arm_refresh());
        effects.extend(self.begin_refresh());
        // Where it is much, the push itself is enough for one turn.
        if self.is_small() {
            effects.extend(self.go_on_refreshing());
        }
        effects
    }

    /// The timer of refreshes fired.
    pub(in crate::engine) fn refresh_due(&mut self) -> Vec<Effect> {
        self.live.is_armed = false;
        let mut effects = Vec::from_iter(self.arm_refresh());
        if !self.is_live() {
            effects.extend(self.ages_due());
        } else if matches!(self.live.stage, Stage::Idle) {
            effects.extend(self.begin_refresh());
            effects.extend(self.go_on_refreshing());
        }
        effects
    }

    pub(in crate::engine) fn arm_refresh(&mut self) -> Option<Effect> {
        let refresh = self.settings.refresh;
        let period = if self.is_live() { refresh } else { self.age_period() };
        let is_another = !self.live.is_armed || self.live.period != period;
        let arms = is_another && refresh > 0.0 && period > 0.0;
        if arms {
            (self.live.is_armed, self.live.period) = (true, period);
        }
        arms.then_some(Effect::ArmIn(Timer::Refresh, period))
    }

    /// Begins a refresh; one that is under way begins anew.
    fn begin_refresh(&mut self) -> Option<Effect> {
        self.standing.begin(self.now);
        self.live.reprice |= self.move_reference();
        self.live.posting = LastRefresh { when: self.now, ..LastRefresh::default() };
        self.live.stage = Stage::Standing;
        Some(Effect::Arm(Timer::Slice))
    }

    /// One slice of a refresh.
    pub(in crate::engine) fn go_on_refreshing(&mut self) -> Vec<Effect> {
        if self.resync.is_on() {
            // What Flux has is not known.
            return vec![Effect::Arm(Timer::Slice)];
        }
        if !self.is_live() {
            self.live.stage = Stage::Idle;
            let due = std::mem::take(&mut self.live.pushed);
            return if due { self.reprioritize() } else { Vec::new() };
        }
        let mut left = SLICE;
        let is_small = self.is_small();
        loop {
            match &mut self.live.stage {
                Stage::Idle => return Vec::new(),
                Stage::Standing => {
                    if let Some(done) = self.standing.step(left) {
                        let last = &mut self.live.posting;
                        (last.worked_out, last.ranked) = (done.worked_out, done.ranked);
                        last.changed = done.changed.len();
                        let all = std::mem::take(&mut self.live.reprice);
                        if !all {
                            self.reprice_capped();
                        }
                        let moved = all || !done.changed.is_empty();
                        if moved {
                            self.ledger.prices_moved();
                        }
                        let turns = if moved || self.live.moved { self.begin_turns() } else { None };
                        if let Some(taking) = turns {
                            self.live.stage = Stage::Turns(Box::new(taking));
                            continue;
                        }
                        let list = if moved { self.live.groups.all() } else { Vec::new() };
                        self.live.stage = Stage::Pricing(list.into(), all);
                    }
                    if !is_small {
                        break;
                    }
                }
                Stage::Turns(_) => {
                    let Stage::Turns(taking) = std::mem::take(&mut self.live.stage) else {
                        return Vec::new();
                    };
                    match self.take_turns(*taking) {
                        Some(taking) => {
                            self.live.stage = Stage::Turns(Box::new(taking));
                            break;
                        }
                        None => self.live.stage = Stage::Pricing(self.live.groups.all().into(), true),
                    }
                }
                Stage::Pricing(list, all) => {
                    let all = *all;
                    let Some(association) = list.pop_front() else { return self.post_plan() };
                    left = left.saturating_sub(1 + 10 * self.reprice(association, all));
                    if left == 0 {
                        break;
                    }
                }
                Stage::Posting(_) => return self.post(),
                Stage::Shadow(_) => {
                    let Stage::Shadow(at) = std::mem::take(&mut self.live.stage) else { return Vec::new() };
                    match self.shadow_step(at) {
                        Some(next) => self.live.stage = Stage::Shadow(next),
                        None => return Vec::new(),
                    }
                    break;
                }
            }
        }
        vec![Effect::Arm(Timer::Slice)]
    }

    /// All exact prices are known: which to post.
    fn post_plan(&mut self) -> Vec<Effect> {
        let (depth, budget) = (self.settings.depth, self.settings.budget);
        let mut plan = Default::default();
        self.live.shadow_due |= self.live.moved;
        if std::mem::take(&mut self.live.moved) && self.live.pending.lagging() > 0 {
            plan = self.live.pending.plan(Bounds { depth, few: self.few(), budget });
            // What the budget left over is gone on with next time.
            self.live.moved |= plan.only_to.is_some();
        }
        let lagging = self.live.pending.lagging();
        let last = &mut self.live.posting;
        last.lagging = lagging.saturating_sub(plan.touch.len());
        last.right_to = plan.only_to.or((last.lagging > 0).then_some(depth));
        let mut touch: VecDeque<JobId> = plan.touch.into_iter().map(|(id, _)| id).collect();
        let mut effects = Vec::new();
        // Where the loop is needed in any case, what is posted in it costs least.
        let by_loop = std::mem::take(&mut self.live.pushed)
            || loops_for(self.live.pending.len(), touch.len(), self.settings.refresh);
        if by_loop {
            let touching = std::mem::take(&mut touch);
            self.live.posting.touched += touching.len();
            self.live.touching = Some(touching.into_iter().collect());
            effects.extend(Engine::reprioritize_all());
            effects.push(Effect::Then(Step::ReleaseAll));
        }
        self.live.stage = Stage::Posting(touch);
        effects.extend(self.post());
        effects
    }

    fn is_small(&self) -> bool {
        let (cells, running, ended) = self.standing.counts();
        cells + running + ended <= SMALL
    }

    fn few(&self) -> usize {
        #[cfg(test)]
        if let Some(few) = self.live.few {
            return few;
        }
        FEW
    }

    /// Posts the next prices, each as it is now.
    fn post(&mut self) -> Vec<Effect> {
        self.live.under_way.clear();
        let posts = posts_at_once(self.live.pending.len());
        let Stage::Posting(list) = &mut self.live.stage else { return Vec::new() };
        let now: Vec<JobId> = list.drain(..list.len().min(posts)).collect();
        let is_done = list.is_empty();
        let mut effects = Vec::new();
        for id in now {
            let urgency = self.urgency(id).unwrap_or_default();
            if self.ledger.job(id).is_some_and(|job| self.wakes_too_late(id, job, urgency)) {
                effects.push(self.send_round_later(id));
                continue;
            }
            let Some(made) = self.touch(id) else { continue };
            self.live.posting.touched += 1;
            effects.extend(self.memo(id, &made));
            effects.push(Effect::Prioritize(id, made.priority));
            effects.extend(self.rest(id, Demand::of_price(made.priority), Engine::pass_along));
        }
        if is_done {
            self.live.stage = Stage::Idle;
            if let Some(shadowing) = self.shadowing() {
                self.live.stage = Stage::Shadow(shadowing);
                effects.push(Effect::Arm(Timer::Slice));
            }
            self.live.posting.seconds = (self.now - self.live.posting.when).max(0.0);
            let (count, seconds, touched) = &mut self.live.totals;
            *count += 1;
            *seconds += self.live.posting.seconds;
            *touched += self.live.posting.touched as u64;
            self.live.last = Some(self.live.posting);
        } else {
            effects.push(Effect::Arm(Timer::Slice));
        }
        effects
    }
}
