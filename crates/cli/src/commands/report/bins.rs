// SPDX-License-Identifier: LGPL-3.0-only
//! The usage of associations and banks in each half-life period, as the database stores it.
//!
//! This module also finds the level of the tree that lowers an association's fair-share most. It predicts when the usage of
//! this level is back at its share.

use serde::Serialize;

use super::data::Number;
use crate::commands::why;
use crate::outcome::Result;
use crate::site::input::Loaded;
use fairshare::{NodeId, Ranking, Tree};
use fairshare_accounting::pipeline::{Periods, StoredPeriods};
use fairshare_accounting::store::{Database, Pace};

/// A page contains at most this many usage values of banks. It has one value for each bank and period.
const MOST: usize = 1_000_000;
/// A page contains at most this many usage values of associations. It has one value for each association and period.
const MOST_OF_USERS: usize = 2_000_000;

/// The usage by period that the database stores. It includes the decay up to the last count of usage.
#[derive(Default)]
pub(super) struct Bins {
    /// For each association, its stored usage as pairs of period and usage. The present period is 0.
    of: Vec<Vec<(i64, f64)>>,
    /// For each association, the number of periods whose usage the database keeps. This includes periods without
    /// usage.
    pub(super) kept: Vec<u32>,
    /// When the present period began.
    began: f64,
    /// The decay of the database's usage.
    pub(super) pace: Option<Pace>,
}

/// Adds the sum of each bank in each row to the sums of the banks above it. A row has a sum for each bank of the tree.
pub(super) fn add_sums_to_parents(tree: &Tree, rows: &mut [Vec<f64>]) {
    let users = tree.leaves().len();
    // A bank comes before its children, so in reverse order each sum is complete before it is added to the parent.
    let order: Vec<NodeId> = tree.banks().collect();
    for row in rows {
        for bank in order.iter().rev() {
            let sum = row.get(bank.index() - users).copied().unwrap_or(0.0);
            let above = tree.parent(*bank).and_then(|above| row.get_mut(above.index() - users));
            if let Some(above) = above {
                *above += sum;
            }
        }
    }
}

/// Usage by bank and period, in the JSON document.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BankBins {
    /// When each period began, the present one first.
    from: Vec<Number>,
    /// Seconds in a period.
    length: Number,
    /// For each period and bank, the usage of all associations below the bank, without decay.
    banks: Vec<Vec<Number>>,
    /// For each period and association, the stored usage, with decay up to the last count. Empty if the page would be too large.
    users: Vec<Vec<Number>>,
}

impl Bins {
    /// Reads the usage of the database. Leaves out associations that were added or removed after the tree was read.
    pub(super) fn read(mut database: Database, loaded: &Loaded, now: f64) -> Result<Bins> {
        let (tree, Some(pace)) = (&loaded.tree, loaded.pace) else { return Ok(Bins::default()) };
        let snapshot = database.snapshot()?;
        // Period 0 of the database was current at the last count of usage. It may have ended since.
        let began = StoredPeriods::read(&snapshot, now)
            .map_or_else(|_| pace.next_boundary(now) - pace.period, |stored| stored.start(0));
        let pace = Pace { due: StoredPeriods::count_due_boundaries(&snapshot, now), ..pace };
        let mut of = vec![Vec::new(); tree.leaves().len()];
        let mut oldest = vec![None; of.len()];
        let mut take = |user: &str, bank: &str, period: i64, usage: f64| {
            let Some(at) = tree.leaf(user, bank).map(NodeId::index) else { return };
            if let Some(oldest) = oldest.get_mut(at) {
                *oldest = (*oldest).max(Some(period));
            }
            let of = of.get_mut(at);
            if let Some(of) = of.filter(|_| usage != 0.0 && usage.is_finite() && period >= 0) {
                of.push((period, usage));
            }
        };
        snapshot.visit_usage_bins(None, &mut |user, bank, bin| take(user, bank, bin.period, bin.usage))?;
        of.iter_mut().for_each(|of| of.sort_by_key(|(period, _)| *period));
        let kept: Vec<u32> = oldest.into_iter().map(|oldest| pace.for_rows(oldest).periods).collect();
        let pace = Pace { longest: kept.iter().copied().max().unwrap_or(0), ..pace };
        Ok(Bins { of, kept, began, pace: Some(pace) })
    }

    /// Returns the decay of the usage of association `leaf`, or `None` without the bins of a database.
    pub(super) fn find_usage_decay(&self, leaf: NodeId) -> Option<Pace> {
        let pace = self.pace?;
        Some(Pace { periods: self.kept.get(leaf.index()).copied().unwrap_or(pace.periods), ..pace })
    }

    /// Returns the bins of association `leaf`: pairs of period and usage.
    pub(super) fn association_bins(&self, leaf: NodeId) -> &[(i64, f64)] {
        self.of.get(leaf.index()).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the usage by period that the page shows, or `None` if no usage is recorded.
    pub(super) fn document(&self, tree: &Tree) -> Option<BankBins> {
        let pace = self.pace?;
        let last = self.of.iter().flatten().map(|(period, _)| *period).max()?;
        let all = usize::try_from(last).ok()?.saturating_add(1);
        let banks = tree.banks().len();
        let periods = all.min((MOST / banks.max(1)).max(1));
        let mut sums = vec![vec![0.0; banks]; periods];
        let place = |bank: NodeId| bank.index() - self.of.len();
        // With a decay factor of 0, the usage before a boundary can't be restored.
        let kept = |period: i64| pace.factor.powi(i32::try_from(period).unwrap_or(i32::MAX));
        for (leaf, bins) in tree.leaves().zip(&self.of) {
            for (period, usage) in bins {
                let cell = usize::try_from(*period)
                    .ok()
                    .and_then(|period| sums.get_mut(period))
                    .zip(tree.parent(leaf));
                if let Some(cell) = cell.and_then(|(row, bank)| row.get_mut(place(bank))) {
                    let kept = kept(*period);
                    *cell += if kept > 0.0 { usage / kept } else { 0.0 };
                }
            }
        }
        add_sums_to_parents(tree, &mut sums);
        let users = if all.saturating_mul(self.of.len()) > MOST_OF_USERS {
            Vec::new()
        } else {
            self.user_columns(all)
        };
        let anchor = Periods::new(self.began, pace.period)?;
        Some(BankBins {
            from: (0..periods).map(|period| Number(anchor.start(-(period as i64)))).collect(),
            length: Number(pace.period),
            banks: sums.into_iter().map(|row| row.into_iter().map(Number).collect()).collect(),
            users,
        })
    }

    fn user_columns(&self, periods: usize) -> Vec<Vec<Number>> {
        let of = |period: usize, bins: &[(i64, f64)]| {
            let found = bins.iter().filter(|bin| bin.0 == period as i64);
            Number(found.map(|(_, usage)| usage).sum())
        };
        (0..periods).map(|period| self.of.iter().map(|bins| of(period, bins)).collect()).collect()
    }
}

/// The decay of usage: by `half_life` in seconds if it is given, or else by the periods of the database.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsageDecayRule {
    pub(super) half_life: Option<f64>,
    pub(super) pace: Option<Pace>,
}

/// The level that lowers an association's fair-share most, and when the usage of this level is back at its share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// The level.
    pub(super) lost: NodeId,
    /// The usage at which the level would have used exactly its share. `None` if no such usage exists.
    pub(super) even_usage: Option<f64>,
    /// Seconds until the usage of the level has decayed to `even_usage`, if no user of the level adds usage. `None` if
    /// this never happens or is unknown.
    pub(super) even_in: Option<f64>,
}

/// Returns the level that lowers the fair-share of `leaf` most, or `None` if no level has used more than its share.
pub(super) fn find_level_that_lowers_fairshare_most(
    tree: &Tree,
    ranking: &Ranking,
    leaf: NodeId,
    recorded: &Bins,
    forgetting: UsageDecayRule,
    now: f64,
) -> Option<Outlook> {
    // A policy that computes fair-shares with a formula does not compare usage with a share. An explanation would only
    // cost time, because it visits all siblings.
    if !ranking.policy().is_rank() {
        return None;
    }
    let explanation = ranking.explain(tree, leaf);
    let level = why::find_level_that_costs_most(&explanation)?;
    let used = level.detail.usage;
    let even_usage = level.even_usage().filter(|even| *even < used);
    let (own, bins) = (level.node == leaf, recorded.association_bins(leaf));
    let new = [(0, used)];
    let bins = if own && !bins.is_empty() { bins } else { &new };
    let pace = if own { recorded.find_usage_decay(leaf) } else { forgetting.pace.map(Pace::for_bank) };
    let even_in =
        even_usage.and_then(|even| why::find_time_below(forgetting.half_life, pace, now, even, bins));
    Some(Outlook { lost: level.node, even_usage, even_in })
}
