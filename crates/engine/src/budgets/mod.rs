// SPDX-License-Identifier: LGPL-3.0-only
//! Budgets: amounts of node-hours, core-hours or GPU-hours that a bank, an association or a user may spend in a window of time.
//!
//! [`Budgets`] stores the windows of the last push, and adds the charges of ended jobs that the push does not
//! include. Each budget is a limit over a scope ([`SiteLimit`]), and such limits hold jobs. The cap is the
//! deposited amount. The counter is the amount that ended jobs have spent ([`BudgetAccount`]) plus the amount
//! that released, scheduled and running jobs may use.

use crate::accounts::{Budget, Cap, ChangeCounts, SiteLimit, SiteLimits, Target, UNLIMITED_BUDGET};
use crate::ids::{Amount, JobId, Limit, Measure, Stage};
use crate::limits::{BudgetAccount, BudgetAccounts, ChargeFactor, Size};
use crate::standing::{EndedRun, Job};
use fairshare::{charging::whole_milliseconds, group_all};
use std::collections::{BTreeMap, BTreeSet};
use strum::EnumString;

/// The spent amount that the engine assumes while the balance is unknown. This amount exceeds the cap of every budget,
/// and fits into the 63 bits of an integer in Flux's JSON.
pub const UNKNOWN: u64 = 1 << 62;

/// How the plugin treats a job that does not fit into a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum BudgetMode {
    /// The plugin holds the job.
    #[default]
    Hold,
    /// The plugin rejects the job at submission. If an accepted job no longer fits, the plugin holds it.
    Reject,
    /// The plugin neither rejects nor holds the job.
    Warn,
}

/// A budget in one window, with the charges of ended jobs that the push does not include.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The budget as pushed.
    pub budget: Budget,
    charged: u64,
}

impl Window {
    /// Returns the charges of all ended jobs, in unit-milliseconds.
    pub fn spent(&self) -> u64 {
        self.budget.spent.unsigned_abs().saturating_add(self.charged)
    }

    /// Returns true if the window contains `start`. A job spends from the window in which it starts.
    pub fn contains(&self, start: f64) -> bool {
        (self.budget.start as f64..self.budget.end as f64).contains(&start)
    }

    /// Returns what the budget limits: node-hours, core-hours or GPU-hours of running and scheduled jobs.
    pub fn amount(&self) -> Amount {
        Amount { stage: Stage::RunningAndScheduled, measure: self.budget.measure }
    }
}

/// The budgets of the last push, and the amounts that jobs have spent since.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    /// The time windows of the budgets, by the target of the budget, such as a bank or a user, then by measure and start. Windows of
    /// the same target and measure do not overlap.
    windows: BTreeMap<Target, Vec<Window>>,
    /// The period around the time of the last computation in which no window starts or ends. `None` if the present
    /// windows must be computed.
    unchanged: Option<(f64, f64)>,
    mode: BudgetMode,
    /// True if all ended jobs that the push does not include are known. If false, the balance of every budget is
    /// unknown, and no job fits into a budget.
    is_complete: bool,
    /// Jobs that ended after the last push, although their usage counts as included in the push. The cause is a clock
    /// that was set back, or a push without the association of the job.
    late: BTreeSet<JobId>,
}

/// Returns the charge of an ended job to a budget that counts `measure`, in unit-milliseconds. Time beyond
/// the time limit is not charged.
fn compute_charge_of_run(run: &EndedRun, measure: Measure) -> u64 {
    let Job { ran_on, start, limit, .. } = run.ended.job;
    let limit = if limit > 0.0 { limit } else { f64::INFINITY };
    let charge_factor = ChargeFactor::new(run.charge_factor);
    let size = Size { charge_factor, ..Size::new(ran_on.nodes, ran_on.cores, ran_on.gpus) };
    size.charge(measure, whole_milliseconds((run.ended.end - start).min(limit)))
}

impl Budgets {
    /// Returns true if there are no budgets.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Returns what the plugin does with a job that does not fit.
    pub fn mode(&self) -> BudgetMode {
        self.mode
    }

    /// Returns all windows, by target, measure and start.
    pub fn windows(&self) -> impl Iterator<Item = &Window> {
        self.windows.values().flatten()
    }

    /// Returns the differences between these budgets and the budgets of a push. Spent amounts and rates,
    /// which change all the time, are not compared.
    pub fn compare(&self, next: &[Budget]) -> ChangeCounts {
        let deposit = |it: &Budget| ((it.target.clone(), it.measure, it.start), (it.end, it.deposited));
        let before = self.windows().map(|window| deposit(&window.budget)).collect();
        ChangeCounts::compare(&before, &next.iter().map(deposit).collect())
    }

    /// Replaces all budgets by the budgets of a push. The caller then adds the charges of ended jobs.
    pub fn replace_all_budgets(&mut self, mut budgets: Vec<Budget>) {
        (self.unchanged, self.late) = Default::default();
        budgets.sort_by_key(|budget| (budget.measure, budget.start));
        let windows = budgets.into_iter().map(|budget| Window { budget, charged: 0 });
        self.windows = group_all(windows.map(|window| (window.budget.target.clone(), window)));
    }

    /// Sets the mode.
    pub fn set_mode(&mut self, mode: BudgetMode) {
        if self.mode != mode {
            (self.mode, self.unchanged) = (mode, None);
        }
    }

    /// Returns true if the present windows, the mode or `is_complete` changed since the last call of [`in_force`](Budgets::in_force).
    pub fn is_outdated(&self, now: f64, is_complete: bool) -> bool {
        let is_unchanged = self.unchanged.is_some_and(|(from, until)| (from..until).contains(&now));
        !(self.is_empty() || is_unchanged && self.is_complete == is_complete)
    }

    /// Returns a site limit for each budget, with the amount deposited at `now`. Also returns the amounts that ended
    /// jobs have spent. Outside of the windows of a budget, both amounts are 0. `is_complete` is true if all ended jobs
    /// are known.
    pub fn in_force(&mut self, now: f64, is_complete: bool) -> (Vec<SiteLimit>, BudgetAccounts) {
        self.is_complete = is_complete;
        self.unchanged = Some(find_interval(now, self.windows()));
        let all: Vec<&Window> = self.windows().collect();
        let target_and_amount = |window: &Window| (window.budget.target.clone(), window.amount());
        let budgets = all.chunk_by(|one, other| target_and_amount(one) == target_and_amount(other));
        let show = |windows: &[&Window]| {
            let key = target_and_amount(windows.first()?);
            let window = windows.iter().find(|window| window.contains(now));
            let deposited = Limit(window.map_or(0, |window| window.budget.deposited));
            let limit = if self.mode == BudgetMode::Warn { UNLIMITED_BUDGET } else { deposited };
            let (target, amount) = key.clone();
            // A running job spends its allocated resources, not the requested ones.
            let limit = SiteLimit { target, queue: None, amount, cap: Cap { limit, is_given: true } };
            let spent = window.map_or_else(|| self.known(0), |window| self.known(window.spent()));
            Some((limit, (key, BudgetAccount { spent, window: find_interval(now, windows.iter().copied()) })))
        };
        budgets.filter_map(show).unzip()
    }

    /// Returns `spent`, or [`UNKNOWN`] if some ended jobs are not known. In the mode "warn", always returns `spent`.
    fn known(&self, spent: u64) -> u64 {
        if self.is_complete || self.mode == BudgetMode::Warn { spent } else { UNKNOWN }
    }

    /// Removes the charges of all ended jobs that the push does not include.
    pub fn clear_charges(&mut self) {
        self.windows.values_mut().flatten().for_each(|window| window.charged = 0);
    }

    /// Notes that job `id` ended after the last push.
    pub fn record_late_end(&mut self, id: JobId) {
        self.late.insert(id);
    }

    /// If `is_in` is true, adds the charge of an ended job to the budgets that count the job; otherwise
    /// subtracts the charge. A job that the push includes has no charge. Returns the budgets whose window at
    /// `now` changed, with the amount that ended jobs have spent.
    pub fn charge_job(
        &mut self,
        limits: &SiteLimits,
        run: &EndedRun,
        is_in: bool,
        now: f64,
    ) -> Vec<(Target, Amount, u64)> {
        let op = if is_in { u64::saturating_add } else { u64::saturating_sub };
        let Job { id, user, ref bank, start, .. } = run.ended.job;
        let mut changed = Vec::new();
        if run.is_included && !self.late.contains(&id) {
            return changed;
        }
        for target in limits.targets_of(user, bank) {
            let windows = self.windows.get_mut(&target).into_iter().flatten();
            for window in windows.filter(|window| window.contains(start)) {
                window.charged = op(window.charged, compute_charge_of_run(run, window.budget.measure));
                let spent = window.contains(now).then(|| window.spent());
                changed.extend(spent.map(|spent| (target.clone(), window.amount(), spent)));
            }
        }
        changed.iter_mut().for_each(|(.., spent)| *spent = self.known(*spent));
        changed
    }
}

/// Returns the interval between two successive starts or ends of `windows` that contains `now`. The start is included.
fn find_interval<'a>(now: f64, windows: impl Iterator<Item = &'a Window>) -> (f64, f64) {
    let times = windows.flat_map(|window| [window.budget.start as f64, window.budget.end as f64]);
    times.fold((f64::NEG_INFINITY, f64::INFINITY), |(from, until), time| {
        if time <= now { (from.max(time), until) } else { (from, until.min(time)) }
    })
}

#[cfg(test)]
mod tests;
