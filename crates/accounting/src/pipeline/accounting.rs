// SPDX-License-Identifier: LGPL-3.0-only
//! Implements flux-accounting's rule: selects the records that `update-usage` counts as new, and computes the usage
//! that it stores.

use std::collections::HashMap;

use super::grouped::{CountedJob, JobGroups};
use super::periods::round5;
use super::update_usage::{Bin, Clock, NewJobs, NoBins};
use super::{PipelineError, Plan, Result, Rule, Tally, banks, resources};
use crate::store::{Bins, Ledger, Snapshot, UsageChanges, Which};

/// The user id of a record, and the index of its bank in [`Ledger::banks`].
type UserAndBank = (i64, usize);

/// All associations with one pair of user id and bank, which flux-accounting can't distinguish.
#[derive(Default)]
struct Group {
    number: u32,
    /// The end of the newest counted job, for each row of the factor table, including rows of removed users. A job
    /// counts once for each row whose end is earlier than the end of the job.
    newest: Vec<f64>,
}

pub(super) fn plan_run(snapshot: &Snapshot<'_>, now: f64, progress: &mut dyn FnMut(u64)) -> Result<Plan> {
    let settings = snapshot.usage_settings()?;
    let ledger = snapshot.ledger(progress)?;
    let bins = snapshot.bins(&ledger)?;
    let mut tally = Tally { ignored_credits: snapshot.credits()?.len(), ..Tally::default() };
    let names: HashMap<&str, usize> =
        ledger.banks.iter().enumerate().rev().map(|(at, bank)| (bank.name.as_str(), at)).collect();
    let groups = group_accounts(&ledger, &names);
    let mut jobs = Vec::new();
    snapshot.ended_jobs(Which::All, &mut |job| {
        let bank = job.bank.and_then(|bank| names.get(bank)).copied();
        let Some((bank, (started, ended))) = bank.zip(job.times) else { return };
        let Some(group) = groups.get(&(job.userid, bank)) else { return };
        let ignored = ledger.banks.get(bank).and_then(|bank| bank.ignore_older_than);
        if !ignored.is_some_and(|ignored| ended > ignored) || ended <= settings.reconfigured {
            return;
        }
        let factor_rows = group.newest.iter().filter(|newest| ended > **newest).count();
        if factor_rows == 0 {
            return;
        }
        tally.records += 1;
        let Some(ran_on) = job.r.and_then(resources::count) else {
            tally.unreadable_count += 1;
            return;
        };
        tally.counted += 1;
        let usage = round5(settings.weights.rate(ran_on) * (ended - started));
        let job = CountedJob { group: group.number, age: 0, ended, usage, continuous: usage };
        jobs.extend(std::iter::repeat_n(job, factor_rows));
    })?;
    let jobs = JobGroups::new(jobs);
    let clock = Clock { now, end: settings.period_end, half_life: settings.half_life, decay: settings.decay };
    let mut changes = UsageChanges::default();
    let mut usages = Vec::with_capacity(ledger.accounts.len());
    for (at, account) in ledger.accounts.iter().enumerate() {
        let group = groups.get(&(account.userid, account.bank));
        let new = sum_usage_of_jobs(group.map_or(&[], |group| jobs.jobs_in_group(group.number as usize)));
        let usage = update_account(clock, new, at, &ledger, &bins, &mut changes)?;
        let usage = usage.unwrap_or(account.usage);
        if usage != account.usage {
            changes.usages.push((at, usage));
        }
        if new.any && account.counted.is_some_and(|counted| counted.newest != Some(new.last)) {
            changes.newest.push((at, new.last));
        }
        usages.push(usage);
    }
    changes.banks = banks::list_usage_changes(&ledger, &usages, Rule::FluxAccounting)?;
    if clock.next_period_end() != clock.end {
        changes.period_end = Some(clock.next_period_end());
        tally.boundaries = 1;
    }
    Ok(Plan { ledger, bins, changes, marks: None, tally })
}

fn group_accounts(ledger: &Ledger, names: &HashMap<&str, usize>) -> HashMap<UserAndBank, Group> {
    let mut groups: HashMap<UserAndBank, Group> = HashMap::with_capacity(ledger.accounts.len());
    let removed = ledger.removed.iter().map(|(bank, counted)| Some((*names.get(bank.as_str())?, *counted)));
    let present = ledger.accounts.iter().map(|account| Some((account.bank, account.counted?)));
    for (bank, counted) in present.chain(removed).flatten() {
        let number = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let group = groups.entry((counted.userid, bank)).or_default();
        if group.newest.is_empty() {
            group.number = number;
        }
        // If the row's end of the newest counted job is invalid, the run counts no job for this row.
        group.newest.push(counted.newest.unwrap_or(f64::INFINITY));
    }
    groups
}

fn sum_usage_of_jobs(jobs: &[CountedJob]) -> NewJobs {
    let Some(last) = jobs.last() else { return NewJobs::default() };
    let usage = jobs.iter().fold(0.0, |sum, job| sum + job.usage);
    NewJobs { any: true, usage, last: last.ended }
}

/// Updates one association. Returns its new usage if it is to be stored, and adds its changed bins to `changes`.
fn update_account(
    clock: Clock,
    new: NewJobs,
    at: usize,
    ledger: &Ledger,
    bins: &Bins,
    changes: &mut UsageChanges,
) -> Result<Option<f64>> {
    let Some(account) = ledger.accounts.get(at) else { return Ok(None) };
    let stored = bins.by_account.get(at).map_or(&[][..], Vec::as_slice);
    let is_own = |userid| userid == account.userid;
    let bins = stored.iter();
    let bins = bins.map(|bin| Bin { period: bin.period, value: bin.value, own: is_own(bin.userid) });
    let mut new_bins: Vec<Bin> = bins.collect();
    let usage = clock.update_bins(&mut new_bins, new).map_err(|NoBins| PipelineError::NoBins {
        user: account.user.clone(),
        bank: ledger.bank_name(account).to_owned(),
    })?;
    for bin in new_bins {
        let stored_bin = stored.iter().find(|stored| stored.period == bin.period);
        if stored_bin.is_none_or(|before| before.value != bin.value) {
            changes.bins.push((at, bin.period, bin.value));
        }
    }
    Ok(usage)
}
