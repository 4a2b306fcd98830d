// SPDX-License-Identifier: LGPL-3.0-only
//! Updates usages and fair-shares in slices: usages first, then one ranking, then a comparison of fair-shares.

use super::table::UsageTable;
use super::{Index, Ranked, Standing};
use fairshare::accrual::{MAX_TIME, Scale, zero_negligible};

/// An association whose fair-share changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Changed {
    /// The association. If it was removed, another association may have this index already.
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

/// The stage that a refresh has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Idle,
    /// The refresh computes usages, and continues at this index of `list`.
    Usages(usize),
    Rank,
    /// The refresh compares fair-shares, and continues at this association.
    Compare(usize),
}

/// The progress of the refresh.
#[derive(Clone, Debug, Default)]
pub(super) struct RefreshState {
    stage: Stage,
    now: f64,
    list: Vec<u32>,
    done: Refreshed,
    moved: bool,
    /// The time of the last refresh.
    last: Option<f64>,
    /// True if all usages must be computed.
    all: bool,
}

impl Standing {
    /// Refreshes all usages and fair-shares in one call.
    pub fn refresh(&mut self, now: f64) -> Refreshed {
        self.begin_computation(now);
        loop {
            if let Some(refreshed) = self.compute_refresh_slice(usize::MAX) {
                return refreshed;
            }
        }
    }

    /// Begins a refresh at `now`, unless one is in progress or `now` is out of range.
    pub fn begin_computation(&mut self, now: f64) {
        if self.work.stage == Stage::Idle && now.abs() <= MAX_TIME {
            self.work.start(now, &mut self.usages, self.site.as_mut());
        }
    }

    /// Continues a refresh with at most `budget` jobs and associations, but at least one association, or ranks the
    /// whole tree. Returns `None` if the refresh is not complete yet.
    pub fn compute_refresh_slice(&mut self, budget: usize) -> Option<Refreshed> {
        let done = self.work.step(&mut self.usages, self.site.as_mut(), budget)?;
        self.generation += u64::from(!done.changed.is_empty());
        Some(done)
    }

    /// Makes the next refresh compute all usages, after a push or a panic. Restarts a refresh that is in progress.
    pub fn recompute_all(&mut self) {
        self.work.restart(&mut self.usages, self.site.as_mut());
    }
}

impl RefreshState {
    #[cfg(test)]
    pub fn is_in_progress(&self) -> bool {
        self.stage != Stage::Idle
    }

    fn step(
        &mut self,
        table: &mut UsageTable,
        site: Option<&mut Ranked>,
        budget: usize,
    ) -> Option<Refreshed> {
        match (self.stage, site) {
            (Stage::Idle, _) | (_, None) => return Some(Refreshed { now: self.now, ..Refreshed::default() }),
            (Stage::Usages(at), Some(site)) => self.update_usages(table, site, at, budget),
            (Stage::Rank, Some(site)) => self.rank(site),
            (Stage::Compare(at), Some(site)) => self.compare(table, site, at, budget),
        }
        if self.stage != Stage::Idle {
            return None;
        }
        self.last = Some(self.now);
        Some(std::mem::take(&mut self.done))
    }

    fn restart(&mut self, table: &mut UsageTable, site: Option<&mut Ranked>) {
        self.all = true;
        let (entries, agenda) = table.entries_mut();
        agenda.clear_negligible_times(entries);
        if self.stage != Stage::Idle {
            self.start(self.now, table, site);
        }
    }

    /// Cancels the refresh, because there is no tree.
    pub fn cancel(&mut self, table: &mut UsageTable) {
        self.stage = Stage::Idle;
        self.done = Refreshed::default();
        self.restart(table, None);
        table.entries_mut().1.take_removed_associations();
    }

    fn start(&mut self, now: f64, table: &mut UsageTable, site: Option<&mut Ranked>) {
        let (entries, agenda) = table.entries_mut();
        self.now = now;
        self.moved = false;
        // If a refresh is restarted, the new refresh also reports the changes that were found before the restart.
        let mut changed = std::mem::take(&mut self.done.changed);
        changed.append(&mut agenda.take_removed_associations());
        self.done = Refreshed { now, changed, ..Refreshed::default() };
        agenda.take_changed_associations(&mut self.list);
        let Some(site) = site else { return };
        // Usages are scaled relative to the time of the push. So a pushed usage keeps its exact value, and rounding
        // cannot make one of two equal usages larger.
        let early = now < site.rule.instant;
        let pushed = Scale::new(now.min(site.rule.instant), site.scale.half_life());
        let base = if early || site.scale.epoch() < site.rule.instant { pushed } else { site.scale };
        let scale = base.rebased(now).unwrap_or(base);
        self.all |= scale != site.scale;
        site.scale = scale;
        // If the clock went back, all usages must be computed again.
        let back = self.last.is_some_and(|last| now < last) || early;
        if self.all || back {
            self.list.clear();
            self.list.extend(0..entries.len() as u32);
            entries.iter_mut().for_each(|entry| entry.ended_sum = None);
            self.moved = true;
        } else {
            agenda.list_associations_due(entries, now, &mut self.list);
        }
        // A usage that was computed for a time before the push is invalid, so the next refresh computes all usages.
        self.all = early;
        // An initial usage does not decay, so time alone can change the ranks.
        let initial_usage = site.rule.policy.initial_usage(&site.rule.options);
        let absolute = initial_usage.is_some_and(|usage| usage > 0.0);
        self.moved |= absolute && site.scale.half_life().seconds().is_some() && self.last != Some(now);
        self.stage = Stage::Usages(0);
    }

    fn update_usages(&mut self, table: &mut UsageTable, site: &mut Ranked, from: usize, budget: usize) {
        let Ranked { mode, tree, scale, .. } = site;
        let (now, mut left, mut at) = (self.now, budget, from);
        while let Some(&number) = self.list.get(at) {
            let Some(entry) = table.entry_mut(number) else { break };
            if at > from && entry.cost() > left {
                self.stage = Stage::Usages(at);
                return;
            }
            left = left.saturating_sub(entry.cost());
            at += 1;
            entry.queued = false;
            table.evict_ended(number, now, scale.half_life());
            let (entries, agenda) = table.entries_mut();
            let Some(entry) = entries.get_mut(number as usize) else { break };
            let Some(leaf) = entry.leaf else { continue };
            let scaled = entry.scaled(now, *mode, scale);
            let scaled = if zero_negligible(scale.plain(scaled, now)) == 0.0 { 0.0 } else { scaled };
            self.moved |= tree.accrue(leaf, scaled);
            if entry.ended_sum.is_none() {
                // Some usage of the association begins after `now`, so the next refresh must compute the usage again.
                agenda.mark_usage_changed(entry, number);
            }
            if scaled > 0.0
                && !entry.fade_is_queued
                && !entry.is_running()
                && let Some(when) = scale.find_negligible_time(scaled)
            {
                agenda.schedule_negligible_usage(entry, number, when);
            }
        }
        self.done.worked_out = self.list.len();
        self.stage = if self.moved { Stage::Rank } else { Stage::Idle };
    }

    fn rank(&mut self, site: &mut Ranked) {
        let options = site.rule.options.scaled(site.scale.factor(self.now));
        // The push has checked that the policy can rank this tree.
        self.done.ranked = site.tree.rank_into(site.rule.policy, &options, &mut site.ranking).is_ok();
        site.is_ranked |= self.done.ranked;
        self.stage = Stage::Compare(0);
    }

    fn compare(&mut self, table: &mut UsageTable, site: &Ranked, from: usize, budget: usize) {
        let (entries, _) = table.entries_mut();
        // A comparison is much cheaper than the computation of a usage.
        let until = from.saturating_add(budget.max(1).saturating_mul(4)).min(entries.len());
        for (number, entry) in entries.iter_mut().enumerate().take(until).skip(from) {
            let after = entry.leaf.and_then(|leaf| site.ranking.fairshare(leaf));
            if entry.fairshare != after {
                let association = Index(number as u32);
                self.done.changed.push(Changed { association, before: entry.fairshare, after });
                entry.fairshare = after;
            }
        }
        self.stage = if until < entries.len() { Stage::Compare(until) } else { Stage::Idle };
    }
}
