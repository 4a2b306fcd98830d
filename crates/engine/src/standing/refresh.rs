// SPDX-License-Identifier: LGPL-3.0-only
//! Updates usages and fair-shares in slices: usages first, then one ranking, then a comparison of fair-shares.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::usage::UsageEntry;
use super::{Index, Ranked, Standing};
use fairshare::accrual::{MAX_TIME, Scale, zero_negligible};

/// An association whose fair-share changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Changed {
    /// The association. The index is free if the association is gone.
    pub association: Index,
    /// The former fair-share.
    pub before: Option<f64>,
    /// The new fair-share.
    pub after: Option<f64>,
}

/// The result of a refresh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refreshed {
    /// The time of the refresh, in seconds since the epoch.
    pub now: f64,
    /// The number of associations whose usage was computed.
    pub worked_out: usize,
    /// True if the tree was ranked.
    pub ranked: bool,
    /// All associations whose fair-share changed.
    pub changed: Vec<Changed>,
}

/// The step of a refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Idle,
    /// Compute usages, from this index of `list` on.
    Usages(usize),
    Rank,
    /// Compare fair-shares, from this association on.
    Compare(usize),
}

/// The state of the refresh, and the input of the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct RefreshState {
    stage: Stage,
    now: f64,
    list: Vec<u32>,
    done: Refreshed,
    moved: bool,
    /// The time of the last refresh.
    last: Option<f64>,
    /// All usages must be computed.
    all: bool,
    /// Associations that changed.
    dirty: Vec<u32>,
    /// Associations with running jobs.
    live: Vec<u32>,
    /// The times, in milliseconds, at which usages without running jobs become negligible.
    fading: BinaryHeap<Reverse<(i64, u32)>>,
    gone: Vec<Changed>,
}

impl RefreshState {
    /// Schedules an association for the next refresh.
    pub fn mark_changed(&mut self, entry: &mut UsageEntry, at: u32) {
        if !entry.queued {
            entry.queued = true;
            self.dirty.push(at);
        }
        if entry.is_running() && !entry.live {
            entry.live = true;
            self.live.push(at);
        }
    }

    /// Stores that an association was removed, to report its former fair-share.
    pub fn note_removed(&mut self, at: u32, before: Option<f64>) {
        if before.is_some() {
            self.gone.push(Changed { association: Index(at), before, after: None });
        }
    }

    /// Returns the numbers of associations that are stored as running jobs and as becoming negligible.
    #[cfg(test)]
    pub fn count_stored(&self) -> (usize, usize) {
        (self.live.len(), self.fading.len())
    }
}

impl Standing {
    /// Does a whole refresh.
    pub fn refresh(&mut self, now: f64) -> Refreshed {
        self.begin(now);
        loop {
            if let Some(refreshed) = self.step(usize::MAX) {
                return refreshed;
            }
        }
    }

    /// Begins a refresh at `now`, unless one is in progress or `now` is out of range.
    pub fn begin(&mut self, now: f64) {
        if self.work.stage == Stage::Idle && now.abs() <= MAX_TIME {
            self.start(now);
        }
    }

    /// Returns true if a refresh is in progress.
    pub fn is_refreshing(&self) -> bool {
        self.work.stage != Stage::Idle
    }

    /// Continues a refresh: reads at most `budget` jobs and associations, but at least one association, or ranks the tree.
    /// Returns the result when the refresh is complete, or at once if none is in progress.
    pub fn step(&mut self, budget: usize) -> Option<Refreshed> {
        match self.work.stage {
            Stage::Idle => return Some(Refreshed { now: self.work.now, ..Refreshed::default() }),
            Stage::Usages(at) => self.update_usages(at, budget),
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

    /// Makes the next refresh compute all usages, after a push or a panic. A refresh in progress starts again.
    pub fn restart(&mut self) {
        self.work.all = true;
        self.work.fading.clear();
        for entry in &mut self.entries {
            entry.fade_is_queued = false;
        }
        if self.work.stage != Stage::Idle {
            self.start(self.work.now);
        }
    }

    /// Cancels the refresh, because there is no tree.
    pub(super) fn cancel_refresh(&mut self) {
        self.work.stage = Stage::Idle;
        self.work.all = true;
        self.work.fading.clear();
        self.work.gone.clear();
        self.work.done = Refreshed::default();
        for entry in &mut self.entries {
            entry.fade_is_queued = false;
        }
    }

    fn start(&mut self, now: f64) {
        let Standing { work, site, entries, .. } = self;
        work.now = now;
        work.moved = false;
        // A refresh that starts again still has to report the changes that it found before.
        let mut changed = std::mem::take(&mut work.done.changed);
        changed.append(&mut work.gone);
        work.done = Refreshed { now, changed, ..Refreshed::default() };
        work.list.clear();
        work.list.append(&mut work.dirty);
        let Some(site) = site else { return };
        // The scale is based on the time of the push. A pushed usage then stays the same bit by bit, so rounding cannot make one
        // of two equal usages larger.
        let early = now < site.rule.instant;
        let pushed = Scale::new(now.min(site.rule.instant), site.scale.half_life());
        let base = if early || site.scale.epoch() < site.rule.instant { pushed } else { site.scale };
        let scale = base.rebased(now).unwrap_or(base);
        work.all |= scale != site.scale;
        site.scale = scale;
        // If the clock went back, all usages must be computed again.
        let back = work.last.is_some_and(|last| now < last) || early;
        if work.all || back {
            work.list.clear();
            work.list.extend(0..entries.len() as u32);
            entries.iter_mut().for_each(UsageEntry::clear_sum);
            for &(bank, usage) in &site.own_usage {
                site.tree.accrue(bank, usage * site.scale.factor(site.rule.instant.min(now)));
            }
            work.moved = true;
        } else {
            work.live.retain(|&at| match entries.get_mut(at as usize) {
                Some(entry) if entry.is_running() => true,
                Some(entry) => {
                    entry.live = false;
                    false
                }
                None => false,
            });
            work.list.extend(work.live.iter().filter(|&&at| mark_queued(entries, at)));
            let due = (now * 1e3) as i64;
            while let Some(&Reverse((when, at))) = work.fading.peek()
                && when <= due
            {
                work.fading.pop();
                if let Some(entry) = entries.get_mut(at as usize) {
                    entry.fade_is_queued = false;
                }
                if mark_queued(entries, at) {
                    work.list.push(at);
                }
            }
        }
        // A usage that was computed for a time before the push is invalid at the next refresh.
        work.all = early;
        // An initial usage does not decay, so time alone can change the ranks.
        let initial_usage = site.rule.policy.initial_usage(&site.rule.options);
        let absolute = initial_usage.is_some_and(|usage| usage > 0.0);
        work.moved |= absolute && site.scale.half_life().seconds().is_some() && work.last != Some(now);
        work.stage = Stage::Usages(0);
    }

    fn update_usages(&mut self, from: usize, budget: usize) {
        let (now, mut left, mut at) = (self.work.now, budget, from);
        while let Some(&number) = self.work.list.get(at) {
            let Some(entry) = self.entries.get_mut(number as usize) else { break };
            if at > from && entry.cost() > left {
                self.work.stage = Stage::Usages(at);
                return;
            }
            left = left.saturating_sub(entry.cost());
            at += 1;
            entry.queued = false;
            let Some(half_life) = self.site.as_ref().map(|site| site.scale.half_life()) else { return };
            self.evict_ended(number, now, half_life);
            let Standing { work, site: Some(site), entries, .. } = self else { return };
            let Ranked { mode, tree, scale, .. } = site;
            let Some(entry) = entries.get_mut(number as usize) else { break };
            let Some(leaf) = entry.leaf else { continue };
            let scaled = entry.scaled(now, *mode, scale);
            let scaled = if zero_negligible(scale.plain(scaled, now)) == 0.0 { 0.0 } else { scaled };
            work.moved |= tree.accrue(leaf, scaled);
            if !entry.has_ended_sum() {
                // A part of the usage begins later.
                work.mark_changed(entry, number);
            }
            if scaled > 0.0
                && !entry.fade_is_queued
                && !entry.is_running()
                && let Some(when) = scale.negligible_from(scaled)
            {
                entry.fade_is_queued = true;
                work.fading.push(Reverse(((when * 1e3).ceil() as i64, number)));
            }
        }
        self.work.done.worked_out = self.work.list.len();
        self.work.stage = if self.work.moved { Stage::Rank } else { Stage::Idle };
    }

    fn rank(&mut self) {
        let Some(site) = self.site.as_mut() else { return };
        let options = site.rule.options.scaled(site.scale.factor(self.work.now));
        // The push has checked that the policy can rank this tree.
        self.work.done.ranked = site.tree.rank_into(site.rule.policy, &options, &mut site.ranking).is_ok();
        site.is_ranked |= self.work.done.ranked;
        self.work.stage = Stage::Compare(0);
    }

    fn compare(&mut self, from: usize, budget: usize) {
        let Standing { work, site, entries, .. } = self;
        let Some(site) = site else { return };
        // A comparison is much cheaper than the computation of a usage.
        let until = from.saturating_add(budget.max(1).saturating_mul(4)).min(entries.len());
        for (number, entry) in entries.iter_mut().enumerate().take(until).skip(from) {
            let after = entry.leaf.and_then(|leaf| site.ranking.fairshare(leaf));
            if entry.fairshare != after {
                let association = Index(number as u32);
                work.done.changed.push(Changed { association, before: entry.fairshare, after });
                entry.fairshare = after;
            }
        }
        work.stage = if until < entries.len() { Stage::Compare(until) } else { Stage::Idle };
    }
}

/// Marks an association as scheduled; returns true if it was not scheduled before.
fn mark_queued(entries: &mut [UsageEntry], at: u32) -> bool {
    entries.get_mut(at as usize).is_some_and(|entry| !std::mem::replace(&mut entry.queued, true))
}
