// SPDX-License-Identifier: LGPL-3.0-only
//! The rules B1 to B12, applied to the jobs of the host. No code of the engine is used.

use super::job_state::is_held_in_priority_or_sched;
use super::*;
use crate::accounts::Budget;
use crate::limits::Size;
use crate::standing::{Leaf, SitePart};
use std::sync::Arc;

/// An ended job.
#[derive(Clone, Debug)]
pub struct Record {
    id: JobId,
    pub user: UserId,
    pub bank: BankName,
    pub size: Size,
    pub ran: (f64, f64),
    pub limit: Option<f64>,
    queue: Option<String>,
    /// Whether the job ended after the last push. The push cannot include the job, even if the clock was set
    /// back.
    is_new: bool,
    /// Whether the plugin got the job from job-list, which reports no GPUs (F11).
    is_from_job_list: bool,
}

fn multiply(amount: u64, factor: f64) -> u64 {
    if factor == 1.0 { amount } else { (amount as f64 * factor).round() as u64 }
}

fn count(measure: Measure, size: Size) -> u64 {
    match measure {
        Measure::NodeTime => size.nodes,
        Measure::CoreTime => size.cores,
        Measure::GpuTime => size.gpus,
        _ => panic!("a budget counts a measure of time"),
    }
}

/// The budgets of the last push, and all ended jobs.
#[derive(Clone, Debug, Default)]
pub struct BudgetRules {
    pub budgets: Vec<Budget>,
    /// The times up to which the last push includes ended jobs, by association.
    watermarks: BTreeMap<(UserId, BankName), f64>,
    pub records: Arc<Vec<Record>>,
    /// The changes of queue q1's charge factor: the time of each change, and the new factor.
    pub charges: Vec<(f64, f64)>,
}

impl BudgetRules {
    pub fn apply_push(&mut self, site: &SitePart) {
        self.budgets = site.budgets.clone();
        let watermark = |leaf: &Leaf| Some(((leaf.user?, leaf.bank.clone()), leaf.counted.end()));
        self.watermarks = site.associations.iter().filter_map(watermark).collect();
        self.mark_all_records_old();
    }

    fn mark_all_records_old(&mut self) {
        Arc::make_mut(&mut self.records).iter_mut().for_each(|record| record.is_new = false);
    }

    /// After a restart, the engine knows only the times at which jobs ended. It asks job-list for the jobs that the snapshot lacks.
    pub fn restart(&mut self, saved: &BTreeSet<JobId>) {
        self.mark_all_records_old();
        let records = Arc::make_mut(&mut self.records).iter_mut();
        records.filter(|it| !saved.contains(&it.id)).for_each(|it| it.is_from_job_list = true);
    }

    pub fn add_record(&mut self, id: JobId, job: &HostJob, bank: BankName, end: f64) {
        let Some(start) = job.started else { return };
        let (user, size, limit) = (UserId(job.user), job.get_allocated_job_size(), job.limit);
        let queue = job.queue.clone();
        let ran = (start, end);
        let record =
            Record { id, user, bank, size, ran, limit, queue, is_new: true, is_from_job_list: false };
        Arc::make_mut(&mut self.records).push(record);
    }
}

impl BudgetRules {
    /// Returns the charge of an ended job (B4), in unit-milliseconds.
    pub fn charge(&self, record: &Record, measure: Measure) -> u64 {
        let (start, end) = record.ran;
        let seconds = record.limit.map_or(end - start, |limit| (end - start).min(limit));
        let product = count(measure, record.size) * (1000.0 * seconds.max(0.0)).round() as u64;
        multiply(product, self.factor(record.queue.as_deref(), start))
    }

    /// Returns the charge factor of jobs that start at `start`.
    fn factor(&self, queue: Option<&str>, start: f64) -> f64 {
        let changes = self.charges.iter().filter(|_| queue == Some("q1"));
        changes.take_while(|(since, _)| *since <= start).last().map_or(1.0, |(_, factor)| *factor)
    }

    /// Returns the charge of a job for its whole time limit (B6), with the charge factor at the start of the
    /// job. If the job has not started, the present factor applies.
    pub fn total_charge(&self, job: &HostJob, measure: Measure) -> u64 {
        const MOST: u64 = 1 << 50;
        let size = if job.state >= State::Run { job.get_allocated_job_size() } else { job.size };
        let milliseconds = if job.duration > 0.0 { (job.duration * 1000.0).ceil() } else { MOST as f64 };
        let product = count(measure, size).saturating_mul(milliseconds as u64);
        let start = job.started.filter(|_| job.state >= State::Run).unwrap_or(f64::INFINITY);
        multiply(product, self.factor(job.queue.as_deref(), start)).min(MOST)
    }
}

fn is_in(budget: &Budget, time: f64) -> bool {
    budget.start as f64 <= time && time < budget.end as f64
}

impl Oracle {
    /// Returns true if the budget counts the jobs of an association (B1).
    pub fn pays_for(&self, budget: &Budget, user: UserId, bank: &BankName) -> bool {
        match &budget.target {
            Target::Association(whose, at) => (*whose, at) == (user, bank),
            Target::User(whose) => *whose == user,
            Target::Bank(above) => self.is_bank_at_or_below(bank, above),
            _ => panic!("a budget has one target"),
        }
    }

    /// Returns the amount that ended jobs have spent in the window of `budget` (B3, B10).
    pub fn spent(&self, budget: &Budget) -> u64 {
        let watermark = |record: &Record| {
            let key = (record.user, record.bank.clone());
            self.budgets.watermarks.get(&key).copied().unwrap_or(f64::INFINITY)
        };
        let uncovered = self.budgets.records.iter().filter(|record| {
            self.pays_for(budget, record.user, &record.bank)
                && is_in(budget, record.ran.0)
                && !(record.is_from_job_list && budget.measure == Measure::GpuTime)
                && (record.is_new || record.ran.1 > watermark(record))
        });
        budget.spent as u64 + uncovered.map(|record| self.budgets.charge(record, budget.measure)).sum::<u64>()
    }

    /// Returns true if the job counts in budgets: from its entry into SCHED, or from its release, until its end (B6).
    pub fn is_committed(&self, id: JobId, job: &HostJob) -> bool {
        let was_scheduled = job.is_scheduled() || job.was_sched && job.state == State::Priority;
        let runs = matches!(job.state, State::Run | State::Cleanup) && job.started.is_some();
        runs || was_scheduled && !is_held_in_priority_or_sched(job) || self.is_released(id, job)
    }

    /// Returns the amount that all jobs except `asker` may use of `budget` in `window`. A running job counts
    /// in the window in which it started.
    fn committed(
        &self,
        jobs: &BTreeMap<JobId, HostJob>,
        budget: &Budget,
        window: Option<&Budget>,
        asker: Option<JobId>,
    ) -> u64 {
        let counts = |(id, job): &(&JobId, &HostJob)| {
            let Some(of) = self.association(job) else { return false };
            let starts_here = |start: f64| match window {
                Some(window) => is_in(window, start),
                // Without a current window, a started job counts if no window has begun or ended since the job
                // started.
                None => {
                    let windows = self.list_windows_of_budget(budget);
                    let boundaries = windows.iter().flat_map(|it| [it.start as f64, it.end as f64]);
                    boundaries.into_iter().all(|time| (time <= start) == (time <= self.now))
                }
            };
            Some(**id) != asker
                && self.is_committed(**id, job)
                && self.pays_for(budget, of.user, &of.bank)
                && job.started.filter(|_| job.state >= State::Run).is_none_or(starts_here)
        };
        jobs.iter().filter(counts).map(|(_, job)| self.budgets.total_charge(job, budget.measure)).sum()
    }

    fn list_windows_of_budget(&self, budget: &Budget) -> Vec<&Budget> {
        let key = (&budget.target, budget.measure);
        self.budgets.budgets.iter().filter(|it| (&it.target, it.measure) == key).collect()
    }

    /// Returns three amounts for each budget: the deposited amount, the amount that ended jobs have spent,
    /// and the amount that jobs except `asker` may use. If no window is in force, the first two amounts are 0
    /// (B5).
    pub fn balances(
        &self,
        jobs: &BTreeMap<JobId, HostJob>,
        asker: Option<JobId>,
    ) -> BTreeMap<(Target, Measure), (u64, u64, u64)> {
        let mut balances = BTreeMap::new();
        for budget in &self.budgets.budgets {
            let window = self.list_windows_of_budget(budget).into_iter().find(|it| is_in(it, self.now));
            let deposited = window.map_or(0, |window| u64::try_from(window.deposited).unwrap_or(0));
            let spent = window.map_or(0, |window| self.spent(window));
            let committed = self.committed(jobs, budget, window, asker);
            balances.insert((budget.target.clone(), budget.measure), (deposited, spent, committed));
        }
        balances
    }

    /// Returns the names of the budgets that job `id` does not fit into (B7).
    pub fn exceeded_budgets(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) -> Vec<String> {
        let job = &jobs[&id];
        let Some(of) = self.association(job).filter(|_| !self.budgets.budgets.is_empty()) else {
            return Vec::new();
        };
        let counts = |(target, _): &(Target, Measure)| {
            let is_same = |budget: &&Budget| budget.target == *target;
            self.budgets.budgets.iter().find(is_same).is_some_and(|it| self.pays_for(it, of.user, &of.bank))
        };
        let balances = self.balances(jobs, Some(id)).into_iter().filter(|(key, _)| counts(key));
        let exceeded = balances.filter(|((_, measure), (deposited, spent, committed))| {
            let needed = self.budgets.total_charge(job, *measure);
            needed > 0 && spent + committed + needed > *deposited
        });
        exceeded
            .map(|((target, measure), _)| format!("budget-{}-{}", measure.name(), target.kind()))
            .collect()
    }
}
