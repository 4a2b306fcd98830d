// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the spent amounts of budgets from the records of ended jobs.
//!
//! Charges are whole unit-milliseconds, so their sum does not depend on the order of the records. A record counts
//! if its job ended at or before the time `counted_until` of its association, or if a push does not contain the
//! association. The plugin adds all other jobs, so each job counts once. Running jobs count in the rate, which is
//! an estimate.

use std::collections::{BTreeMap, HashMap};

use super::fetch::RunningJob;
use super::placing::AccountIndex;
use super::{Result, resources};
use crate::store::{Account, Deposit, EndedJob, Ledger, PolicyData, Snapshot, Which};
use fairshare::charging::{ChargeHistory, budget_charge, whole_milliseconds};
use fairshare::group_all;
use fairshare::periods::Resources;
use fairshare_protocol::records::budget::MAX_AMOUNT;
use fairshare_protocol::records::{BudgetRecord, BudgetUnit};

const DAY: f64 = 86_400.0;
/// The number of days over which the rate is computed.
const RATE_DAYS: i64 = 7;

/// The budgets of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// All budgets and all their windows, sorted by scope, name, unit and start. Users are given by name.
    pub all: Vec<BudgetRecord>,
    /// The amount that each budget in `all` has spent in the last 24 hours.
    pub last_day: Vec<i64>,
    /// Messages about records that do not count, and about budgets whose stored amount is larger than the amount
    /// computed from the records.
    pub notes: Vec<String>,
}

/// Returns the deposited amount less the spent amount.
pub fn left(budget: &BudgetRecord) -> i64 {
    budget.deposited.saturating_sub(budget.spent)
}

/// Returns true if `time`, in seconds since the epoch, is in the window of a budget.
pub fn contains(budget: &BudgetRecord, time: f64) -> bool {
    budget.start as f64 <= time && time < budget.end as f64
}

/// Returns true if the window of a budget includes `now` and the budget is used up.
pub fn is_used_up(budget: &BudgetRecord, now: f64) -> bool {
    contains(budget, now) && left(budget) <= 0
}

/// Returns the time, in seconds since the epoch, until which a budget lasts at its current rate, but at most the end of its window.
/// Returns `None` if the window does not include `now`, or if the budget is used up.
pub fn lasts_until(budget: &BudgetRecord, now: f64) -> Option<f64> {
    let end = || estimate_budget_end(left(budget), budget.rate, budget.end, now);
    contains(budget, now).then(end).flatten()
}

/// Returns the time, in seconds since the epoch, until which the amount `not_spent` lasts at `rate` per day,
/// but at most `end`, the end of the window. Returns `None` if nothing is left.
pub fn estimate_budget_end(not_spent: i64, rate: i64, end: i64, now: f64) -> Option<f64> {
    // If the rate is 0, the division returns infinity.
    (not_spent > 0).then(|| (now + not_spent as f64 / rate as f64 * DAY).min(end as f64))
}

impl Budgets {
    /// Counts the records of jobs that ended at or before the time `counted_until` of their association in `data`.
    /// `now` is in seconds since the epoch. Without `data`, uses the data that a push would send now. The rates
    /// and `last_day` include the jobs in `running`.
    pub fn count(
        snapshot: &Snapshot<'_>,
        data: Option<&PolicyData>,
        running: &[RunningJob],
        now: f64,
    ) -> Result<Budgets> {
        let mut budgets: BTreeMap<_, BudgetRecord> = BTreeMap::new();
        for Deposit { budget, .. } in snapshot.list_deposits_in_force()? {
            let key = (budget.scope.clone(), budget.name.clone(), budget.unit, budget.start);
            let add_deposit = |known: &mut BudgetRecord| add(&mut known.deposited, budget.deposited);
            budgets.entry(key).and_modify(add_deposit).or_insert(budget);
        }
        let last_day = vec![0; budgets.len()];
        let mut budgets = Budgets { all: budgets.into_values().collect(), last_day, notes: Vec::new() };
        let Some(earliest) = budgets.all.iter().map(|budget| budget.start).min() else { return Ok(budgets) };
        let read;
        let data = match data {
            Some(data) => data,
            None => {
                read = snapshot.policy_data(now)?;
                &read
            }
        };
        let watermarks: HashMap<(&str, &str), f64> = (data.associations.iter())
            .filter_map(|it| Some(((it.username.as_deref()?, it.bank.as_str()), it.counted_until?)))
            .collect();
        let week = now - RATE_DAYS as f64 * DAY;
        let ledger = snapshot.read_accounts_for_recount(&mut |_| ())?;
        let targets = budgets.all.clone();
        let index = BudgetIndex::new(snapshot, &ledger, &targets)?;
        let charges = snapshot.charge_history()?;
        let mut unreadable = 0;
        let mut count_job = |job: EndedJob<'_>| {
            let (account, found) = index.find_budgets(&job);
            let Some(run) = ChargedRun::read(&job, &charges) else {
                unreadable += usize::from(!found.is_empty());
                return;
            };
            let key = account.map(|account| (account.user.as_str(), ledger.bank_name(account)));
            let watermark = key.and_then(|key| watermarks.get(&key)).copied().unwrap_or(f64::INFINITY);
            let seconds_since = |time: f64| (run.start + run.seconds).min(now) - run.start.max(time);
            for at in found {
                let both = budgets.all.get_mut(at).zip(budgets.last_day.get_mut(at));
                let Some((budget, last_day)) = both else { continue };
                add(&mut budget.rate, run.charge(budget.unit, seconds_since(week)));
                add(last_day, run.charge(budget.unit, seconds_since(now - DAY)));
                if job.running.is_none() && run.end <= watermark && contains(budget, run.start) {
                    add(&mut budget.spent, run.charge(budget.unit, run.seconds));
                }
            }
        };
        snapshot.ended_jobs(Which::EndedSince(week.min(earliest as f64)), &mut count_job)?;
        running.iter().for_each(|job| count_job(job.record_as_ended_at(now)));
        if unreadable > 0 {
            let text = format!(
                "budgets: {unreadable} job records have invalid resources or times and are not counted"
            );
            budgets.notes.push(text);
        }
        for budget in &mut budgets.all {
            budget.rate = (budget.rate + RATE_DAYS / 2) / RATE_DAYS;
            let stored = snapshot.read_spent_amount(budget)?.filter(|(stored, _)| *stored > budget.spent);
            if let Some((stored, true)) = stored {
                budget.spent = stored;
            } else if stored.is_some() {
                let BudgetRecord { scope, name, unit, .. } = &*budget;
                budgets.notes.push(format!(
                    "{scope} {name} has spent fewer {unit} according to the job records than an earlier sync stored: records were changed \
                     or removed; \"flux fairshare recount\" shows the difference, and --write stores the lower amount"
                ));
            }
        }
        Ok(budgets)
    }

    /// Stores the spent amounts. A later recount compares the records with them. Lowers an amount only if `can_lower` is true, so
    /// that the site notices a loss of records.
    pub fn store_spent_amounts(&self, snapshot: &Snapshot<'_>, can_lower: bool) -> Result<()> {
        if !self.all.is_empty() {
            snapshot.write_spent_amounts(&self.all, can_lower)?;
        }
        Ok(())
    }
}

/// Adds the budgets to the data of a push at the time `now`. Returns messages, for example about users without a
/// valid user id, whose budgets are not sent.
pub fn add_to_push(snapshot: &Snapshot<'_>, data: &mut PolicyData, now: f64) -> Result<Vec<String>> {
    let Budgets { all, mut notes, .. } = Budgets::count(snapshot, Some(data), &[], now)?;
    // The plugin rejects a push that has budgets but no tree: without the tree, the plugin can't tell which ended
    // jobs the spent amounts include.
    if data.tree.is_none() && !all.is_empty() {
        notes.push("budgets are not sent, because the banks and associations form no tree".to_owned());
        return Ok(notes);
    }
    let ids = snapshot.user_ids()?;
    // Users with different names may have the same id. The plugin rejects overlapping budgets of one id, so
    // only one name is sent.
    let mut owners: HashMap<(String, String), String> = HashMap::new();
    for budget in all {
        let BudgetRecord { scope, name, unit, .. } = &budget;
        let is_owner = |sent: &String| {
            owners.entry((scope.clone(), sent.clone())).or_insert_with(|| name.clone()) == name
        };
        match ids.name_by_id(scope, name).filter(is_owner) {
            Some(name) => data.budgets.push(BudgetRecord { name, ..budget }),
            None => notes.push(format!(
                "the budget of {scope} {name} in {unit} is not sent, because {name} does not exist or shares a user id"
            )),
        }
    }
    notes.dedup();
    Ok(notes)
}

/// Returns the start of a job, in seconds since the epoch, and its charge to a budget. Returns `None` if the database has no valid
/// record of the job, or if the budget does not count the job.
pub fn find_job_charge(
    snapshot: &Snapshot<'_>,
    budget: &BudgetRecord,
    id: u64,
) -> Result<Option<(f64, i64)>> {
    let ledger = snapshot.read_accounts_for_recount(&mut |_| ())?;
    let index = BudgetIndex::new(snapshot, &ledger, std::slice::from_ref(budget))?;
    let charges = snapshot.charge_history()?;
    let mut found = None;
    snapshot.ended_jobs(Which::Ids(&[id]), &mut |job| {
        let run = ChargedRun::read(&job, &charges).filter(|_| !index.find_budgets(&job).1.is_empty());
        found = run.map(|run| (run.start, run.charge(budget.unit, run.seconds)));
    })?;
    Ok(found)
}

/// Returns the start of the earliest window that ends after `now`, in seconds since the epoch. Returns infinity if there is no such window.
pub(super) fn find_earliest_start(snapshot: &Snapshot<'_>, now: f64) -> Result<f64> {
    let deposits = snapshot.list_deposits_in_force()?;
    let current = deposits.iter().filter(|deposit| deposit.budget.end as f64 > now);
    Ok(current.map(|deposit| deposit.budget.start as f64).fold(f64::INFINITY, f64::min))
}

fn add(sum: &mut i64, amount: i64) {
    *sum = sum.saturating_add(amount).clamp(-MAX_AMOUNT, MAX_AMOUNT);
}

/// The fields of a record from which its charge is computed.
struct ChargedRun {
    start: f64,
    end: f64,
    /// The run time, or the time limit if the job ran longer.
    seconds: f64,
    ran_on: Resources,
    /// The charge factor of the queue at the start.
    factor: f64,
}

impl ChargedRun {
    /// Reads the fields of a record. Returns `None` if R or the times are invalid. If R has no start, t_run
    /// is the start.
    fn read(job: &EndedJob<'_>, charges: &ChargeHistory) -> Option<ChargedRun> {
        let ((t_run, end), (ran_on, start)) = job.times.zip(resources::count_job(job))?;
        let start = start.unwrap_or(t_run);
        let terms = job.jobspec.map(resources::read_bank_queue_and_duration).unwrap_or_default();
        let limit = job.time_limit.or(terms.duration).filter(|limit| *limit > 0.0).unwrap_or(f64::INFINITY);
        let queue = terms.queue.as_deref().or(job.running.and_then(|(_, queue)| queue));
        let factor = charges.factor(queue, start);
        Some(ChargedRun { start, end, seconds: (end - start).min(limit), ran_on, factor })
    }

    /// Returns the charge for `seconds` of the run, in unit-milliseconds.
    fn charge(&self, unit: BudgetUnit, seconds: f64) -> i64 {
        let size = match unit {
            BudgetUnit::NodeHours => self.ran_on.nodes,
            BudgetUnit::CoreHours => self.ran_on.cores,
            BudgetUnit::GpuHours => self.ran_on.gpus,
        };
        i64::try_from(budget_charge(size, whole_milliseconds(seconds), self.factor)).unwrap_or(MAX_AMOUNT)
    }
}

/// Finds the budgets that count a job.
struct BudgetIndex<'a> {
    ledger: &'a Ledger,
    accounts: AccountIndex<'a>,
    /// Indices of budgets by scope and name.
    by_target: BTreeMap<(&'a str, &'a str), Vec<usize>>,
}

impl<'a> BudgetIndex<'a> {
    fn new(
        snapshot: &Snapshot<'_>,
        ledger: &'a Ledger,
        budgets: &'a [BudgetRecord],
    ) -> Result<BudgetIndex<'a>> {
        let mut accounts = AccountIndex::new(ledger);
        accounts.add_former_userids(&snapshot.former_userids(ledger)?);
        let target = |(at, budget): (usize, &'a BudgetRecord)| ((&*budget.scope, &*budget.name), at);
        let by_target = group_all(budgets.iter().enumerate().map(target));
        Ok(BudgetIndex { ledger, accounts, by_target })
    }

    /// Returns the association of a job, and the indices of the budgets that count the job. A job without an association counts in
    /// the budgets of the bank that it names.
    fn find_budgets(&self, job: &EndedJob<'_>) -> (Option<&'a Account>, Vec<usize>) {
        let mut found: Vec<usize> = Vec::new();
        let mut add_target = |scope: &str, name: &str| {
            found.extend(self.by_target.get(&(scope, name)).into_iter().flatten());
        };
        let account = self.accounts.find_account(job).and_then(|(at, _)| self.ledger.accounts.get(at));
        let mut bank = job.bank.and_then(|bank| self.accounts.banks.get(bank)).copied();
        if let Some(account) = account {
            bank = Some(account.bank);
            add_target("user", &account.user);
            add_target("association", &format!("{}/{}", account.user, self.ledger.bank_name(account)));
        }
        // Parents may form a cycle, which other commands report, so the loop has a limit.
        for _ in 0..self.ledger.banks.len() {
            let Some(above) = bank.and_then(|at| self.ledger.banks.get(at)) else { break };
            add_target("bank", &above.name);
            bank = above.parent;
        }
        found.sort_unstable();
        found.dedup();
        (account, found)
    }
}
