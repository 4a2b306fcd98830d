// SPDX-License-Identifier: LGPL-3.0-only
//! The budgets of the last push, with the amounts that jobs have spent and may still spend, for `query`,
//! `stats` and `standing`.

use super::super::View;
use super::standing::Open;
use crate::accounts::{AssociationId, Target};
use crate::budgets::Window;
use crate::ids::Word;
use crate::limits::Job;
use fairshare::charging::whole_milliseconds;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A budget in one window. All amounts are in unit-milliseconds: 3,600,000 are one node-hour, core-hour or GPU-hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BudgetShown {
    /// `association`, `bank` or `user`.
    pub scope: Word,
    /// The bank, the user id, or `USERID/BANK`.
    pub name: String,
    /// `node-hours`, `core-hours` or `gpu-hours`.
    pub unit: Word,
    /// The start of the window, in seconds since the epoch.
    pub start: i64,
    /// The end of the window, which is excluded.
    pub end: i64,
    /// True if the present time is in the window.
    pub in_force: bool,
    /// The sum of the deposits.
    pub deposited: i64,
    /// The amount that ended jobs were charged, plus the amount that running jobs have used so far; `None` if the
    /// caller may not see it.
    pub spent: Option<u64>,
    /// The amount that running and released jobs may still use; `None` if the caller may not see it.
    pub committed: Option<u64>,
    /// The average amount that jobs spent per day in the seven days before the push; `None` if the caller may
    /// not see it.
    pub rate: Option<i64>,
    /// False while the plugin is reading from job-list which ended jobs the push does not include. Then `spent` may be too small.
    pub complete: bool,
}

impl BudgetShown {
    fn new(window: &Window, now: f64, complete: bool) -> BudgetShown {
        let budget = &window.budget;
        BudgetShown {
            scope: Cow::Borrowed(budget.target.kind()),
            name: budget.target.name(),
            unit: Cow::Borrowed(budget.measure.name()),
            start: budget.start,
            end: budget.end,
            in_force: window.contains(now),
            deposited: budget.deposited,
            spent: Some(window.spent()),
            committed: Some(0),
            rate: Some(budget.rate),
            complete,
        }
    }

    /// If the job counts in the window, adds the amount that it has used so far, and the amount that it may still
    /// use.
    fn add_job(&mut self, job: &Job, window: &Window, now: f64) {
        let footprint = job.footprint();
        let (charged, reserved, _) = footprint.amounts(window.amount(), true);
        let counted = charged.saturating_add(reserved);
        if !window.contains(footprint.start.unwrap_or(now)) {
            return;
        }
        let used = footprint.start.map_or(0, |start| {
            footprint.given_size.charge(window.budget.measure, whole_milliseconds(now - start)).min(counted)
        });
        self.spent = self.spent.map(|spent| spent.saturating_add(used));
        self.committed = self.committed.map(|committed| committed.saturating_add(counted - used));
    }

    /// Returns the budget if its target is one of `targets`. `open` says which amounts the caller may see; the amounts
    /// that the caller may not see are `None`.
    pub(super) fn show_budget_of_targets(&self, targets: &[Target], open: Open) -> Option<BudgetShown> {
        let names = |target: &&Target| target.kind() == self.scope && target.name() == self.name;
        let is_open = open.shows_limit_use(targets.iter().find(names)?);
        Some(BudgetShown {
            spent: self.spent.filter(|_| is_open),
            committed: self.committed.filter(|_| is_open),
            rate: self.rate.filter(|_| is_open),
            ..self.clone()
        })
    }
}

/// Returns all budgets at `now`, by target, unit and start.
pub(super) fn list_budgets(view: &View<'_>, now: f64) -> Vec<BudgetShown> {
    let windows: Vec<_> = view.budgets.windows().collect();
    let mut shown: Vec<BudgetShown> =
        windows.iter().map(|window| BudgetShown::new(window, now, view.ended.is_done())).collect();
    if shown.is_empty() {
        return shown;
    }
    let find_windows = |association: AssociationId| -> Vec<bool> {
        let Some(record) = view.book.association(association) else { return Vec::new() };
        let targets: Vec<_> = view.book.site_limits().targets_of(record.user, &record.bank).collect();
        windows.iter().map(|window| targets.contains(&window.budget.target)).collect()
    };
    let mut pays: BTreeMap<AssociationId, Vec<bool>> = BTreeMap::new();
    for (_, job) in view.ledger.jobs() {
        let Some(association) = job.association() else { continue };
        let pays = pays.entry(association).or_insert_with(|| find_windows(association));
        for ((window, shown), _) in windows.iter().zip(&mut shown).zip(&*pays).filter(|(_, pays)| **pays) {
            shown.add_job(job, window, now);
        }
    }
    shown
}
