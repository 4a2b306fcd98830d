// SPDX-License-Identifier: LGPL-3.0-only
//! From what happened to fair-shares, in slices: cells, then one ranking, then what it changed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cell::Cell;
use super::{Index, Ranked, Standing};
use fairshare::accrual::{MAX_TIME, Scale, zero_negligible};

/// One association whose fair-share is another one now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Changed {
    /// Which. One that is gone has no cell any more.
    pub association: Index,
    /// What it had.
    pub before: Option<f64>,
    /// What it has.
    pub after: Option<f64>,
}

/// What a refresh did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refreshed {
    /// As of when.
    pub now: f64,
    /// How many associations were worked out.
    pub worked_out: usize,
    /// Whether the tree was ranked.
    pub ranked: bool,
    /// Every association with another fair-share.
    pub changed: Vec<Changed>,
}

/// What a refresh is at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Idle,
    /// The next of `list`.
    Cells(usize),
    Rank,
    /// The next leaf.
    Compare(usize),
}

/// What is to be done, and what is being done.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    stage: Stage,
    now: f64,
    list: Vec<u32>,
    done: Refreshed,
    moved: bool,
    /// The instant of the last refresh.
    last: Option<f64>,
    /// Everything has to be worked out.
    all: bool,
    /// Cells in which something happened.
    dirty: Vec<u32>,
    /// Cells in which something runs.
    live: Vec<u32>,
    /// When a cell in which nothing runs becomes negligible, in milliseconds.
    fading: BinaryHeap<Reverse<(i64, u32)>>,
    gone: Vec<Changed>,
}

impl Work {
    /// Something happened in a cell.
    pub fn changed(&mut self, cell: &mut Cell, at: u32) {
        if !cell.queued {
            cell.queued = true;
            self.dirty.push(at);
        }
        if cell.is_running() && !cell.live {
            cell.live = true;
            self.live.push(at);
        }
    }

    /// An association is no more.
    pub fn gone(&mut self, at: u32, before: Option<f64>) {
        if before.is_some() {
            self.gone.push(Changed { association: Index(at), before, after: None });
        }
    }

    /// How many cells are noted as running something, and how many as becoming negligible.
    #[cfg(test)]
    pub fn noted(&self) -> (usize, usize) {
        (self.live.len(), self.fading.len())
    }
}

impl Standing {
    /// A whole refresh at once.
    pub fn refresh(&mut self, now: f64) -> Refreshed {
        self.begin(now);
        loop {
            if let Some(refreshed) = self.step(usize::MAX) {
                return refreshed;
            }
        }
    }

    /// Begins a refresh, unless one is under way: that one is finished first.
    pub fn begin(&mut self, now: f64) {
        if self.work.stage == Stage::Idle && now.abs() <= MAX_TIME {
            self.open(now);
        }
    }

    /// Whether a refresh is under way.
    pub fn is_refreshing(&self) -> bool {
        self.work.stage != Stage::Idle
    }

    /// Goes on with a refresh: looks at so many jobs and associations at most (at one in any case), or ranks the tree. Gives
    /// what was done when all is, and at once if nothing was begun.
    pub fn step(&mut self, budget: usize) -> Option<Refreshed> {
        match self.work.stage {
            Stage::Idle => return Some(Refreshed { now: self.work.now, ..Refreshed::default() }),
            Stage::Cells(at) => self.work_out(at, budget),
            Stage::Rank => self.rank(),
            Stage::Compare(at) => self.compare(at, budget),
        }
        if self.work.stage != Stage::Idle {
            return None;
        }
        self.work.last = Some(self.work.now);
        let done = std::mem::take(&mut self.work.done);
        self.generation += u64::from(!done.changed.is_empty());
        Some(done)
    }

    /// After a push or a panic: everything is new, and a refresh that is under way is of no use any more.
    pub fn restart(&mut self) {
        self.work.all = true;
        self.work.fading.clear();
        for cell in &mut self.cells {
            cell.fades = false;
        }
        if self.work.stage != Stage::Idle {
            self.open(self.work.now);
        }
    }

    /// There is nothing to refresh any more.
    pub(super) fn leave_off(&mut self) {
        self.work.stage = Stage::Idle;
        self.work.all = true;
        self.work.fading.clear();
        self.work.gone.clear();
        self.work.done = Refreshed::default();
        for cell in &mut self.cells {
            cell.fades = false;
        }
    }

    fn open(&mut self, now: f64) {
        let Standing { work, site, cells, .. } = self;
        work.now = now;
        work.moved = false;
        // A refresh that begins anew has told nobody yet what it changed.
        let mut changed = std::mem::take(&mut work.done.changed);
        changed.append(&mut work.gone);
        work.done = Refreshed { now, changed, ..Refreshed::default() };
        work.list.clear();
        work.list.append(&mut work.dirty);
        let Some(site) = site else { return };
        // What was pushed stays the number it was: of two equal ones none becomes larger by a rounding.
        let early = now < site.rules.instant;
        let pushed = Scale::new(now.min(site.rules.instant), site.scale.half_life());
        let base = if early || site.scale.epoch() < site.rules.instant { pushed } else { site.scale };
        let scale = base.rebased(now).unwrap_or(base);
        work.all |= scale != site.scale;
        site.scale = scale;
        // Once what has happened lies in the future, nothing that was worked out holds. It is seldom: only clocks do that.
        let back = work.last.is_some_and(|last| now < last) || early;
        if work.all || back {
            work.list.clear();
            work.list.extend(0..cells.len() as u32);
            cells.iter_mut().for_each(Cell::unsettle);
            for &(bank, usage) in &site.own_usage {
                site.tree.accrue(bank, usage * site.scale.factor(site.rules.instant.min(now)));
            }
            work.moved = true;
        } else {
            work.live.retain(|&at| match cells.get_mut(at as usize) {
                Some(cell) if cell.is_running() => true,
                Some(cell) => {
                    cell.live = false;
                    false
                }
                None => false,
            });
            work.list.extend(work.live.iter().filter(|&&at| queue(cells, at)));
            let due = (now * 1e3) as i64;
            while let Some(&Reverse((when, at))) = work.fading.peek()
                && when <= due
            {
                work.fading.pop();
                if let Some(cell) = cells.get_mut(at as usize) {
                    cell.fades = false;
                }
                if queue(cells, at) {
                    work.list.push(at);
                }
            }
        }
        // A jump back leaves nothing behind, but what looked ahead from there has to be looked at once more.
        work.all = early;
        // An initial usage does not decay, so time alone can change the ranks.
        let initial_usage = site.rules.policy.initial_usage(&site.rules.options);
        let absolute = initial_usage.is_some_and(|usage| usage > 0.0);
        work.moved |= absolute && site.scale.half_life().seconds().is_some() && work.last != Some(now);
        work.stage = Stage::Cells(0);
    }

    fn work_out(&mut self, from: usize, budget: usize) {
        let (now, mut left, mut at) = (self.work.now, budget, from);
        while let Some(&number) = self.work.list.get(at) {
            let Some(cell) = self.cells.get_mut(number as usize) else { break };
            if at > from && cell.cost() > left {
                self.work.stage = Stage::Cells(at);
                return;
            }
            left = left.saturating_sub(cell.cost());
            at += 1;
            cell.queued = false;
            let Some(half_life) = self.site.as_ref().map(|site| site.scale.half_life()) else { return };
            self.give_up(number, now, half_life);
            let Standing { work, site: Some(site), cells, .. } = self else { return };
            let Ranked { rules, tree, scale, .. } = site;
            let Some(cell) = cells.get_mut(number as usize) else { break };
            let Some(leaf) = cell.leaf else { continue };
            let scaled = cell.scaled(now, rules.mode, scale);
            let scaled = if zero_negligible(scale.plain(scaled, now)) == 0.0 { 0.0 } else { scaled };
            work.moved |= tree.accrue(leaf, scaled);
            if !cell.is_settled() {
                // A part of it is yet to come.
                work.changed(cell, number);
            }
            if scaled > 0.0
                && !cell.fades
                && !cell.is_running()
                && let Some(when) = scale.negligible_from(scaled)
            {
                cell.fades = true;
                work.fading.push(Reverse(((when * 1e3).ceil() as i64, number)));
            }
        }
        self.work.done.worked_out = self.work.list.len();
        self.work.stage = if self.work.moved { Stage::Rank } else { Stage::Idle };
    }

    fn rank(&mut self) {
        let Some(site) = self.site.as_mut() else { return };
        let options = site.rules.options.scaled(site.scale.factor(self.work.now));
        // The push has made sure that the policy can rank this tree.
        self.work.done.ranked = site.tree.rank_into(site.rules.policy, &options, &mut site.ranking).is_ok();
        site.is_ranked |= self.work.done.ranked;
        self.work.stage = Stage::Compare(0);
    }

    fn compare(&mut self, from: usize, budget: usize) {
        let Standing { work, site, cells, .. } = self;
        let Some(site) = site else { return };
        // Looking at one costs far less than working it out.
        let until = from.saturating_add(budget.max(1).saturating_mul(4)).min(cells.len());
        for (number, cell) in cells.iter_mut().enumerate().take(until).skip(from) {
            let after = cell.leaf.and_then(|leaf| site.ranking.fairshare(leaf));
            if cell.fairshare != after {
                let association = Index(number as u32);
                work.done.changed.push(Changed { association, before: cell.fairshare, after });
                cell.fairshare = after;
            }
        }
        work.stage = if until < cells.len() { Stage::Compare(until) } else { Stage::Idle };
    }
}

/// Whether a cell is new to the list of what is worked out.
fn queue(cells: &mut [Cell], at: u32) -> bool {
    cells.get_mut(at as usize).is_some_and(|cell| !std::mem::replace(&mut cell.queued, true))
}
