// SPDX-License-Identifier: LGPL-3.0-only
//! Counts all usage from the records, and compares the result with the stored usage.

use std::collections::BTreeMap;

use super::fetch::RunningJob;
use super::{Periods, Result};
use super::{PipelineError, Plan, exact};
use crate::store::{Marks, Reason, Snapshot, StoreError, UsageChanges};

/// The result of a recount.
#[derive(Debug)]
pub struct Recount {
    /// The changes that store the recounted usage.
    pub plan: Plan,
    /// The associations whose stored usage or bins differ from the recount.
    pub associations: Vec<Difference>,
    /// The banks whose stored usage differs from the recount.
    pub banks: Vec<Difference>,
    /// The end of the oldest record, if the database may still store usage of older jobs. The database does not
    /// show whether older records were removed.
    pub records_since: Option<f64>,
}

/// An association or a bank whose stored usage differs from the recount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The index of the association or bank in the ledger.
    pub index: usize,
    /// The stored usage.
    pub stored: f64,
    /// The recounted usage.
    pub recounted: f64,
    /// True if the next sync with the usage rule `exact` stores the recounted usage.
    pub is_due: bool,
}

impl Recount {
    /// Counts all usage again with the usage rule `exact` at the time `now`, in seconds since the epoch. Uses the
    /// current half-life and decay for all job records.
    pub fn new(snapshot: &Snapshot<'_>, now: f64, progress: &mut dyn FnMut(u64)) -> Result<Recount> {
        snapshot.check_usage_schema()?;
        let next = plan_usage_changes_of_next_run(snapshot, now, progress)?;
        let plan = exact::plan_run(snapshot, now, true, progress)?;
        let associations = (0..plan.ledger.accounts.len())
            .filter_map(|index| compare_association(&plan, next.as_ref(), index))
            .collect();
        let banks = compare_banks(&plan, next.as_ref());
        Ok(Recount { plan, associations, banks, records_since: records_since(snapshot, now)? })
    }
}

/// Returns the user, the bank and the usage of each association after a change of the half-life to `half_life`
/// seconds at the time `now`. The change causes a recount of all records, and a new half-life period begins at `now`.
///
/// If `running` is given, returns the usage that the plugin would have after the next sync. This usage decays
/// continuously and includes the running jobs.
pub fn compute_usages_with_half_life(
    snapshot: &Snapshot<'_>,
    half_life: f64,
    now: f64,
    running: Option<&[RunningJob]>,
) -> Result<Vec<(String, String, f64)>> {
    snapshot.check_usage_schema()?;
    let settings = snapshot.usage_settings_with(half_life, now)?;
    // If no sync has stored its state, the next sync can't notice the new settings. Therefore this function requests
    // a recount.
    let (is_requested, credits) = (snapshot.marks()?.is_none(), snapshot.credits()?);
    let jobs = running.unwrap_or_default();
    // The run is one second later than `now`, because rounding could assign `now` to the period before.
    let plan = exact::plan_with(snapshot, settings, now + 1.0, is_requested, &credits, jobs, &mut |_| ())?;
    let ledger = &plan.ledger;
    let usages = ledger.accounts.iter().enumerate().filter_map(|(index, account)| {
        let bank = ledger.bank_name(account);
        let usage = match (&plan.marks, running) {
            (Some(marks), Some(_)) => marks.live_usage(Marks::key(&account.user, bank)).max(0.0),
            _ => get_usage_after_changes(&plan, &plan.changes, index)?,
        };
        Some((account.user.clone(), bank.to_owned(), usage))
    });
    Ok(usages.collect())
}

/// Returns the changes of the next run without a recount. Returns `None` if that run would fail because of
/// the clock or a stored value.
fn plan_usage_changes_of_next_run(
    snapshot: &Snapshot<'_>,
    now: f64,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<UsageChanges>> {
    match exact::plan_run(snapshot, now, false, progress) {
        Ok(plan) => Ok(Some(plan.changes)),
        Err(
            PipelineError::ClockWentBack { .. }
            | PipelineError::Store(StoreError { reason: Reason::Value(_), .. }),
        ) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Compares the stored usage and bins of an association with the recount. Returns `None` if they are equal.
fn compare_association(plan: &Plan, next: Option<&UsageChanges>, index: usize) -> Option<Difference> {
    let stored = plan.ledger.accounts.get(index)?.usage;
    let recounted_bins = get_bins_after_changes(plan, &plan.changes, index);
    let recounted = get_usage_after_changes(plan, &plan.changes, index)?;
    let is_equal = |usage: f64, bins: &BTreeMap<i64, f64>| {
        is_close(usage, recounted) && are_close(bins, &recounted_bins)
    };
    let is_due = next.is_some_and(|next| {
        get_usage_after_changes(plan, next, index)
            .is_some_and(|usage| is_equal(usage, &get_bins_after_changes(plan, next, index)))
    });
    (!is_equal(stored, &get_bins_after_changes(plan, &UsageChanges::default(), index)))
        .then_some(Difference { index, stored, recounted, is_due })
}

/// Returns the banks whose stored usage differs from the recount.
fn compare_banks(plan: &Plan, next: Option<&UsageChanges>) -> Vec<Difference> {
    let compare = |&(index, recounted): &(usize, f64)| {
        let stored = plan.ledger.banks.get(index)?.usage;
        let mut next = next.into_iter().flat_map(|next| &next.banks);
        let is_due = next.any(|(at, usage)| *at == index && is_close(*usage, recounted));
        (!is_close(stored, recounted)).then_some(Difference { index, stored, recounted, is_due })
    };
    plan.changes.banks.iter().filter_map(compare).collect()
}

/// Returns the usage of an association as it is after `changes`.
fn get_usage_after_changes(plan: &Plan, changes: &UsageChanges, index: usize) -> Option<f64> {
    let found = changes.usages.binary_search_by_key(&index, |(at, _)| *at).ok();
    let changed = found.and_then(|found| changes.usages.get(found)).map(|(_, usage)| *usage);
    changed.or_else(|| plan.ledger.accounts.get(index).map(|account| account.usage))
}

/// Returns the bins of an association as they are after `changes`, the current period first.
pub(super) fn list_bins_after(plan: &Plan, changes: &UsageChanges, index: usize) -> Vec<f64> {
    get_bins_after_changes(plan, changes, index).into_values().collect()
}

/// Returns the bins of an association, by period, as they are after `changes`.
fn get_bins_after_changes(plan: &Plan, changes: &UsageChanges, index: usize) -> BTreeMap<i64, f64> {
    let dropped = changes.dropped.binary_search_by_key(&index, |(at, _)| *at).ok();
    let first_gone = dropped.and_then(|found| changes.dropped.get(found)).map(|(_, first)| *first);
    let stored = plan.bins.by_account.get(index).into_iter().flatten();
    let kept = stored.take_while(|bin| first_gone.is_none_or(|first| bin.period < first));
    let mut bins: BTreeMap<i64, f64> = kept.map(|bin| (bin.period, bin.value)).collect();
    let first = changes.bins.partition_point(|change| change.0 < index);
    let changed = changes.bins.iter().skip(first).take_while(|change| change.0 == index);
    bins.extend(changed.map(|(_, period, value)| (*period, *value)));
    bins
}

/// Returns the end time of the oldest record, if the database may still store usage of older jobs.
fn records_since(snapshot: &Snapshot<'_>, now: f64) -> Result<Option<f64>> {
    let settings = snapshot.usage_settings()?;
    let Some(periods) = Periods::new(settings.period_end, settings.half_life) else { return Ok(None) };
    let kept = (settings.reset_period / settings.half_life).ceil() as i64;
    let kept_since = periods.start(periods.index(now).saturating_add(1).saturating_sub(kept));
    Ok(snapshot.oldest_inactive()?.filter(|oldest| *oldest > kept_since))
}

/// Returns true if the numbers are equal except for rounding.
pub(super) fn is_close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-4 + 1e-9 * left.abs().max(right.abs())
}

/// Returns true if all bins are equal except for rounding. A missing bin equals an empty one.
fn are_close(left: &BTreeMap<i64, f64>, right: &BTreeMap<i64, f64>) -> bool {
    let value = |bins: &BTreeMap<i64, f64>, period| bins.get(period).copied().unwrap_or(0.0);
    left.keys().chain(right.keys()).all(|period| is_close(value(left, period), value(right, period)))
}
