// SPDX-License-Identifier: LGPL-3.0-only
//! Stores all active jobs and their counters. A job is active from its submission until it is INACTIVE.
//!
//! Invariant: the counters and indexes depend only on the active jobs. A job changes only through [`Ledger::change`],
//! which updates all counters and indexes.

mod account;
mod excerpt;
mod latest_end;
mod recount;

pub(super) use account::{Account, Class};
pub use excerpt::PositionAmongJobs;
pub(super) use latest_end::LatestEnd;

use super::accounts::Accounts;
use super::held::HeldAssociations;
use super::overtaken::OvertakenJobs;
use super::scope::BudgetAccounts;
use super::{BlockState, CachedPriority, Eligible, Footprint, Job, Phase, Project, Rules};
use crate::accounts::{AssociationId, Book, Target};
use crate::ids::{Amount, BankName, JobId, JobMap, QueueName, UserId};
use fairshare::charging::ChargeHistory;
use std::collections::{BTreeMap, BTreeSet};

/// A job in the table. Flux asks for all priorities in an order in which successive jobs are far apart in memory. A
/// valid priority is therefore stored next to the id, so that the engine can read the priority without loading the
/// job.
#[derive(Clone, Debug)]
pub(super) struct JobRow {
    cached_priority: Option<CachedPriority>,
    pub(super) job: Box<Job>,
}

/// All active jobs and their counters.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    rules: Rules,
    jobs: JobMap<JobRow>,
    /// The counters of associations and of limit scopes.
    pub(super) accounts: Accounts,
    pub(super) held: HeldAssociations,
    pub(super) overtaken: OvertakenJobs,
    /// The stopped queues. `None` stands for the jobs of an instance without named queues.
    stopped: BTreeSet<Option<QueueName>>,
    /// The changes of charge factors; empty if there are no budgets.
    pub(super) charges: ChargeHistory,
    /// Jobs without an association, by user.
    waiting: BTreeMap<UserId, BTreeSet<JobId>>,
}

impl Ledger {
    /// Returns an empty ledger with the limits in `rules`.
    pub fn new(rules: Rules) -> Self {
        Ledger { rules, ..Ledger::default() }
    }

    /// Sets whether a queue is stopped. Returns true if this changes the state of the queue.
    pub fn set_stopped(&mut self, queue: Option<QueueName>, is_stopped: bool) -> bool {
        if is_stopped { self.stopped.insert(queue) } else { self.stopped.remove(&queue) }
    }

    /// Returns true if `queue` is stopped.
    pub fn is_stopped(&self, queue: Option<&QueueName>) -> bool {
        !self.stopped.is_empty() && self.stopped.contains(&queue.cloned())
    }

    /// Returns the stopped queues.
    pub fn stopped_queues(&self) -> &BTreeSet<Option<QueueName>> {
        &self.stopped
    }

    /// Returns the tables of limits.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Returns job `id`, or `None` if the ledger does not contain it.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id).map(|row| &*row.job)
    }

    /// Returns the jobs of the ledger in the order of their ids. Returns only jobs with ids above `after`, if `after`
    /// is given.
    pub fn jobs_after(&self, after: Option<JobId>) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.jobs_after(after).map(|(id, row)| (id, &*row.job))
    }

    /// Returns the number of jobs in the ledger.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Returns all jobs of the ledger in the order of their ids.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs_after(None)
    }

    /// Returns the jobs without an association, by user.
    pub fn waiting(&self) -> &BTreeMap<UserId, BTreeSet<JobId>> {
        &self.waiting
    }

    /// Returns the associations with held jobs.
    pub fn associations_with_held(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.held.all().iter().copied()
    }

    /// Returns the counters of associations and of limit scopes.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Returns true if any eventlog is being read.
    pub fn has_unread(&self) -> bool {
        self.accounts.unread > 0
    }

    /// Adds a job.
    pub fn insert(&mut self, id: JobId, mut job: Job) {
        self.remove(id);
        job.size = job.charged_size(&self.charges);
        let footprint = job.footprint();
        self.index_job(id, &job, &footprint, true);
        self.accounts.count_job(&footprint.with_zero_amounts(), &footprint);
        if let Some(association) = footprint.association {
            self.accounts.borrow_scopes_and_account(association).1.latest_queue.clone_from(&job.queue);
        }
        self.jobs.insert(id, JobRow { cached_priority: None, job: Box::new(job) });
        self.update_overtaken_jobs(None);
    }

    /// Changes a job, and updates all counters and indexes. Returns `None` if the job does not exist.
    pub fn change<R>(&mut self, id: JobId, change: impl FnOnce(&mut Job) -> R) -> Option<R> {
        // The job stays in the map. If a panic interrupts this function, a recount still finds the job.
        let mut job = self.job(id)?.clone();
        let before = job.footprint();
        self.index_job(id, &job, &before, false);
        let result = change(&mut job);
        job.size = job.charged_size(&self.charges);
        let after = job.footprint();
        self.index_job(id, &job, &after, true);
        if before != after {
            self.accounts.count_job(&before, &after);
        }
        if !after.is_idle() {
            self.accounts.count_taken_headroom(&before, &after);
        }
        if let Some(row) = self.jobs.get_mut(id) {
            row.cached_priority = None;
            *row.job = job;
        }
        self.update_overtaken_jobs(None);
        Some(result)
    }

    /// Stores the fair-share that the plugin posted as a memo of the job. `None` changes nothing.
    pub fn store_posted_fairshare_memo(&mut self, id: JobId, memo: Option<f64>) {
        if memo.is_some()
            && let Some(row) = self.jobs.get_mut(id)
        {
            row.job.memo = memo;
        }
    }

    /// Stores that the jobspec of a job now names `bank`, the default bank, and the default project. No counter depends on these names.
    pub fn store_bank_added_to_jobspec(&mut self, id: JobId, bank: BankName) {
        if let Some(row) = self.jobs.get_mut(id) {
            (row.job.bank, row.job.project) = (Some(bank), Project::Checked);
        }
    }

    /// Stores the last computed priority of a job. `None` removes the stored priority. [`Ledger::change`] also
    /// removes the stored priority.
    pub fn cache_priority(&mut self, id: JobId, priority: Option<CachedPriority>) {
        if let Some(row) = self.jobs.get_mut(id) {
            row.cached_priority = priority;
        }
    }

    /// Returns the cached priority of job `id`. Returns `None` if no valid priority is cached.
    pub fn cached_priority(&self, id: JobId) -> Option<CachedPriority> {
        self.jobs.get(id)?.cached_priority
    }

    /// Sets the time for which a job has been eligible.
    pub fn set_eligible(&mut self, id: JobId, eligible: Eligible) {
        if let Some(row) = self.jobs.get_mut(id) {
            row.job.eligible = eligible;
        }
    }

    /// Sets whether the time from `now` on counts for the age of a job. It does not count at urgency 0, and not while another plugin blocks
    /// the job in DEPEND. `urgency` is `None` if the urgency has not changed.
    pub fn update_age_eligibility(&mut self, id: JobId, urgency: Option<i64>, now: f64) {
        let Some(row) = self.jobs.get_mut(id) else { return };
        let job = &mut row.job;
        let is_unblocked = job.phase > Phase::Depend || job.block_state == BlockState::Unblocked;
        // Flux reports no change of urgency in DEPEND.
        let is_wanted = urgency.unwrap_or(job.urgency) != 0;
        job.eligible = job.eligible.with_eligibility(is_unblocked && is_wanted, now);
    }

    /// Removes and returns job `id`. Returns `None` if the ledger does not contain the job.
    pub fn remove(&mut self, id: JobId) -> Option<Job> {
        let job = *self.jobs.remove(id)?.job;
        let footprint = job.footprint();
        self.index_job(id, &job, &footprint, false);
        self.accounts.count_job(&footprint, &footprint.with_zero_amounts());
        self.update_overtaken_jobs(None);
        Some(job)
    }

    /// Stores the limit scopes of an association that is about to get a job, and creates missing scopes.
    pub fn assign_scopes(&mut self, book: &Book, association: AssociationId) {
        self.accounts.assign_scopes(book, association);
    }

    /// Replaces the site's limits by the limits in `book`. If the limits changed, counts all jobs of the ledger
    /// again.
    pub fn apply_scope_limits(&mut self, book: &Book) {
        let accounts = self.accounts.scopes.accounts().clone();
        self.apply_budget_limits(book, accounts);
    }

    /// Replaces the site's limits by the limits in `book`, and all budget accounts by `accounts`. If the limits or
    /// the windows of budgets changed, counts all jobs of the ledger again.
    pub fn apply_budget_limits(&mut self, book: &Book, accounts: BudgetAccounts) {
        if !self.accounts.apply_scope_limits(book, accounts) {
            self.discard_scan_results();
            self.update_overtaken_jobs(None);
            return;
        }
        self.held.clear_all_position_marks();
        self.overtaken.clear();
        for job in self.jobs.values().map(|row| &row.job) {
            let Some(association) = job.association() else { continue };
            let (scopes, account) = self.accounts.borrow_scopes_and_account(association);
            if let Some(ids) = &account.scope_ids {
                let footprint = job.footprint();
                scopes.count_job(ids, &footprint.with_zero_amounts(), &footprint);
            }
        }
        self.request_all_position_updates();
    }

    /// Sets what ended jobs have spent of a budget, in unit-milliseconds.
    pub fn set_spent_amount(&mut self, target: Target, amount: Amount, spent: u64) {
        self.accounts.scopes.set_spent_amount(target, amount, spent);
        self.discard_scan_results();
        self.update_overtaken_jobs(None);
    }

    /// Sets the history of charge factors that budgets use. If the history changed, counts all jobs again.
    pub fn set_charges(&mut self, charges: ChargeHistory) {
        if self.charges != charges {
            self.charges = charges;
            let ids: Vec<JobId> = self.jobs().map(|(id, _)| id).collect();
            for id in ids {
                self.change(id, |_| ());
            }
        }
    }

    /// Drops the results of earlier [scans](super::ScanCursor), because a job or a limit has changed. Otherwise a
    /// scan would skip associations in which an earlier scan found no job to release.
    pub fn discard_scan_results(&mut self) {
        self.held.discard_scan_results();
    }

    /// Records that priorities have changed, so the order of all waiting lists is out of date. The next scan that needs a waiting list sorts it.
    pub fn mark_priorities_changed(&mut self) {
        self.accounts.scopes.mark_priorities_changed();
    }

    /// Marks the positions of all associations with held jobs as out of date, because limits may have changed.
    pub fn request_all_position_updates(&mut self) {
        if !self.accounts.scopes.has_no_limits() {
            self.held.mark_all_positions_outdated();
        }
    }

    /// Returns the associations that scans have left out since the last call because eventlogs were being read.
    pub fn take_associations_skipped_by_scans(&mut self) -> BTreeSet<AssociationId> {
        self.held.take_associations_skipped_by_scans()
    }

    /// Returns the jobs for which limit scopes keep headroom, because other jobs have overtaken them.
    pub fn overtaken(&self) -> &OvertakenJobs {
        &self.overtaken
    }

    /// Returns a mutable reference to the overtaken jobs.
    pub fn overtaken_jobs_mut(&mut self) -> &mut OvertakenJobs {
        &mut self.overtaken
    }

    /// Protects an overtaken job if `is_active` is true, and otherwise suspends its protection. Returns true if anything changed.
    pub(super) fn protect_job(&mut self, association: AssociationId, id: JobId, is_active: bool) -> bool {
        self.overtaken.protect_job(association, id, self.jobs.get(id).map(|row| &*row.job), is_active)
    }

    /// Decides again which scope keeps headroom for each overtaken job of `association`, or of all associations. Returns true if anything changed.
    pub(super) fn update_overtaken_jobs(&mut self, association: Option<AssociationId>) -> bool {
        self.overtaken.update_reservations(association, &self.jobs, &self.accounts, &mut self.held)
    }

    /// Adds a job with its `footprint` to all indexes if `is_in` is true, and removes it from them otherwise.
    fn index_job(&mut self, id: JobId, job: &Job, footprint: &Footprint, is_in: bool) {
        let op = if is_in { u64::saturating_add } else { u64::saturating_sub };
        self.discard_scan_results();
        self.accounts.unread = op(self.accounts.unread, u64::from(job.is_unread()));
        let Some(association) = job.association() else {
            let jobs = self.waiting.entry(job.user).or_default();
            set_membership(jobs, id, is_in);
            if jobs.is_empty() {
                self.waiting.remove(&job.user);
            }
            return;
        };
        let (_, account) = self.accounts.borrow_scopes_and_account(association);
        let was_held = !account.held.is_empty();
        account.index_job(id, job, footprint, is_in);
        let is_held = !account.held.is_empty();
        // The change of the job may move its association to different waiting lists.
        let is_displaced = !account.scope_ids().is_empty()
            && (was_held || is_held)
            && (job.is_held() || job.is_unread() || !footprint.is_idle());
        let needs_no_place = !is_held && account.waiting.is_in_no_line();
        if is_held != was_held {
            self.held.set_held(association, is_held);
        }
        if needs_no_place {
            self.held.clear_stale_position_mark(association);
        } else if is_displaced {
            self.held.mark_positions_stale(association);
        }
    }
}

/// Inserts `value` if `is_in` is true, and removes it otherwise.
pub(super) fn set_membership<T: Ord>(values: &mut BTreeSet<T>, value: T, is_in: bool) {
    if is_in {
        values.insert(value);
    } else {
        values.remove(&value);
    }
}

#[cfg(test)]
impl Ledger {
    /// Changes a job, but not the counters.
    pub fn change_job_without_counting(&mut self, id: JobId, change: impl Fn(&mut Job)) {
        self.jobs.get_mut(id).into_iter().for_each(|row| change(&mut row.job));
    }

    /// Removes all jobs, but does not change the counters.
    pub(super) fn drop_all_jobs(&mut self) {
        self.jobs = JobMap::default();
    }

    /// Returns true if there are no limit scopes, no association has scopes, and no position in a waiting list is out of date.
    pub fn has_no_scope_data(&self) -> bool {
        let has_no_scopes = |(_, account): (AssociationId, &Account)| account.scope_ids.is_none();
        self.accounts.scopes.has_no_limits()
            && self.held.unplaced().is_empty()
            && self.accounts.iter().all(has_no_scopes)
    }
}
