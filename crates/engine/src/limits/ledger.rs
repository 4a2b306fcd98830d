// SPDX-License-Identifier: LGPL-3.0-only
//! Live jobs and their counters.
//!
//! Invariant: every counter and index is a function of the live jobs. A job changes only through [`Ledger::change`], which takes the old
//! job out of all of them and puts the new one in.

mod account;
mod accounts;
mod excerpt;
mod recount;
mod until;

pub(super) use account::{Account, Class};
pub use accounts::Accounts;
pub use excerpt::PlaceInLine;
pub(super) use until::Until;

use super::overtaken::Overtaken;
use super::{CachedPriority, Eligible, Job, Keepers, Line, Phase, Project, RULES, Rules};
use crate::accounts::{AssociationId, Book};
use crate::ids::{BankName, JobId, JobMap, QueueName, UserId};
use std::collections::{BTreeMap, BTreeSet};

/// A live job in the table. Flux asks for all priorities in an order in which successive jobs are far apart in memory. A priority that is
/// still valid is next to the id, so that reading it does not touch the job.
#[derive(Clone, Debug)]
pub(super) struct JobRow {
    cached_priority: Option<CachedPriority>,
    pub(super) job: Box<Job>,
}

impl From<Job> for JobRow {
    fn from(job: Job) -> Self {
        JobRow { cached_priority: None, job: Box::new(job) }
    }
}

/// Live jobs and their counters.
#[derive(Clone, Debug)]
pub struct Ledger {
    rules: Rules,
    pub(super) jobs: JobMap<JobRow>,
    /// The counters of associations and of limit scopes.
    pub(super) accounts: Accounts,
    /// Associations whose places in the lines of scopes are to be computed.
    pub(super) unplaced: BTreeSet<AssociationId>,
    /// Associations in which a scan found no job that changes, and of which jobs. Nothing has changed since.
    pub(super) in_vain: BTreeMap<AssociationId, Line>,
    /// Those of them that a later scan skipped. If it had looked at them, their places would be computed again.
    pub(super) passed_over: Vec<AssociationId>,
    /// Overtaken jobs, in the order in which they were overtaken.
    pub(super) overtaken: Vec<Overtaken>,
    pub(super) newly_protected: Vec<JobId>,
    pub(super) lapsed: BTreeSet<AssociationId>,
    /// The stopped queues; `None` is the queue without a name.
    pub(super) stopped: BTreeSet<Option<QueueName>>,
    /// Jobs without an association, by user.
    waiting: BTreeMap<UserId, BTreeSet<JobId>>,
    /// Associations with held jobs.
    pub(super) in_line: BTreeSet<AssociationId>,
    /// Jobs whose eventlog is being read.
    unread: u64,
    /// Associations that took no part in a scan because of such jobs.
    pub(super) put_off: BTreeSet<AssociationId>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger::new(RULES)
    }
}

impl Ledger {
    /// Returns an empty ledger that holds jobs by `rules`.
    pub fn new(rules: Rules) -> Self {
        Ledger {
            rules,
            jobs: JobMap::default(),
            accounts: Accounts::default(),
            unplaced: BTreeSet::new(),
            in_vain: BTreeMap::new(),
            passed_over: Vec::new(),
            overtaken: Vec::new(),
            newly_protected: Vec::new(),
            lapsed: BTreeSet::new(),
            stopped: BTreeSet::new(),
            waiting: BTreeMap::new(),
            in_line: BTreeSet::new(),
            unread: 0,
            put_off: BTreeSet::new(),
        }
    }

    /// Notes that a queue was stopped or started. Returns true if the ledger did not know that.
    pub fn set_stopped(&mut self, queue: Option<QueueName>, is_stopped: bool) -> bool {
        if is_stopped { self.stopped.insert(queue) } else { self.stopped.remove(&queue) }
    }

    /// Returns true if a queue is stopped.
    pub fn is_stopped(&self, queue: Option<&QueueName>) -> bool {
        !self.stopped.is_empty() && self.stopped.contains(&queue.cloned())
    }

    /// Returns true if a queue is stopped, whichever.
    pub fn has_stopped_queue(&self) -> bool {
        !self.stopped.is_empty()
    }

    /// Returns the tables of limits.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Returns a live job.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id).map(|row| &*row.job)
    }

    /// Returns the live jobs with ids above `after`, or all, in the order of their ids.
    pub fn jobs_after(&self, after: Option<JobId>) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.after(after).map(|(id, row)| (id, &*row.job))
    }

    /// Returns the number of live jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns true if there is no live job.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns all live jobs in the order of their ids.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs_after(None)
    }

    /// Returns the jobs without an association, by user.
    pub fn waiting(&self) -> &BTreeMap<UserId, BTreeSet<JobId>> {
        &self.waiting
    }

    /// Returns the associations with held jobs.
    pub fn associations_with_held(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.in_line.iter().copied()
    }

    /// Returns the counters of associations and of limit scopes.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Returns true if any eventlog is being read.
    pub fn has_unread(&self) -> bool {
        self.unread > 0
    }

    /// Adds a job.
    pub fn insert(&mut self, id: JobId, job: Job) {
        self.remove(id);
        self.count(id, &job, true);
        let account = job.association().and_then(|association| self.accounts.entry(association).1);
        account.into_iter().for_each(|account| account.latest_queue.clone_from(&job.queue));
        self.jobs.insert(id, JobRow::from(job));
        self.update_overtaken(None);
    }

    /// Changes a job, and with it every counter and index. Returns `None` if the job does not exist.
    pub fn change<R>(&mut self, id: JobId, change: impl FnOnce(&mut Job) -> R) -> Option<R> {
        // The job stays in the map: if a panic interrupts this, a recount finds every job.
        let mut job = self.job(id)?.clone();
        self.count(id, &job, false);
        let was_idle = job.footprint().is_idle();
        let result = change(&mut job);
        self.count(id, &job, true);
        if was_idle
            && !job.footprint().is_idle()
            && let Some(association) = job.association()
        {
            let (scopes, account) = self.accounts.entry(association);
            scopes.note_taken(account.map(|account| account.member_of()).unwrap_or_default(), &job);
        }
        if let Some(row) = self.jobs.get_mut(id) {
            row.cached_priority = None;
            *row.job = job;
        }
        self.update_overtaken(None);
        Some(result)
    }

    /// Records the fair-share that a memo has posted.
    pub fn annotate(&mut self, id: JobId, memo: Option<f64>) {
        if memo.is_some()
            && let Some(row) = self.jobs.get_mut(id)
        {
            row.job.memo = memo;
        }
    }

    /// Stores the bank of a job whose jobspec got the default bank and project. No counter depends on them.
    pub fn complete_jobspec(&mut self, id: JobId, bank: BankName) {
        if let Some(row) = self.jobs.get_mut(id) {
            (row.job.bank, row.job.project) = (Some(bank), Project::Judged);
        }
    }

    /// Records the priority of a job, or `None` if it is no longer valid. A change of the job removes it too.
    pub fn cache_priority(&mut self, id: JobId, priority: Option<CachedPriority>) {
        if let Some(row) = self.jobs.get_mut(id) {
            row.cached_priority = priority;
        }
    }

    /// Returns the priority of a job that was recorded last, if it can still be valid.
    pub fn cached_priority(&self, id: JobId) -> Option<CachedPriority> {
        self.jobs.get(id)?.cached_priority
    }

    /// Sets the time for which a job has been eligible.
    pub fn set_eligible(&mut self, id: JobId, eligible: Eligible) {
        if let Some(row) = self.jobs.get_mut(id) {
            row.job.eligible = eligible;
        }
    }

    /// Notes whether the time from `now` on counts for the age of a job: in DEPEND if no other plugin is known to keep the job, and
    /// at an urgency other than 0. `urgency` is `None` if it has not changed.
    pub fn note_eligible(&mut self, id: JobId, urgency: Option<i64>, now: f64) {
        let Some(row) = self.jobs.get_mut(id) else { return };
        let job = &mut row.job;
        let is_alone = job.phase > Phase::Depend || job.keepers == Keepers::NobodyElse;
        let is_wanted = urgency.map_or(job.eligible_when_alone(), |urgency| urgency != 0);
        job.eligible = job.eligible.turned(is_alone && is_wanted, now);
    }

    /// Removes a job.
    pub fn remove(&mut self, id: JobId) -> Option<Job> {
        let job = *self.jobs.remove(id)?.job;
        self.count(id, &job, false);
        self.update_overtaken(None);
        Some(job)
    }

    /// Determines the limit scopes of an association to which a job is about to come.
    pub fn find_scopes_of(&mut self, book: &Book, association: AssociationId) {
        self.accounts.find_scopes_of(book, association);
    }

    /// Takes over the limits over scopes. If they changed, all live jobs are counted again.
    pub fn regroup(&mut self, book: &Book) {
        if !self.accounts.regroup(book) {
            return;
        }
        self.unplaced.clear();
        self.overtaken.clear();
        self.in_vain.clear();
        self.passed_over.clear();
        for job in self.jobs.values().map(|row| &row.job) {
            let Some(association) = job.association() else { continue };
            let (scopes, account) = self.accounts.entry(association);
            let member_of = account.map(|account| account.member_of()).unwrap_or_default();
            scopes.count(member_of, job, job.footprint(), u64::saturating_add);
        }
        self.recompute_all_places();
    }

    /// Puts a job into all counters and indexes, or takes it out of them.
    fn count(&mut self, id: JobId, job: &Job, is_in: bool) {
        let op = if is_in { u64::saturating_add } else { u64::saturating_sub };
        self.note_any_change();
        self.unread = op(self.unread, u64::from(job.is_unread()));
        let Some(association) = job.association() else {
            let jobs = self.waiting.entry(job.user).or_default();
            set(jobs, id, is_in);
            if jobs.is_empty() {
                self.waiting.remove(&job.user);
            }
            return;
        };
        let footprint = job.footprint();
        let (scopes, account) = self.accounts.entry(association);
        let Some(account) = account else { return };
        let was_held = !account.held.is_empty();
        account.count(id, job, footprint, is_in);
        let is_held = !account.held.is_empty();
        let member_of = account.member_of();
        scopes.count(member_of, job, footprint, op);
        // The association may have to wait elsewhere.
        let is_displaced = !member_of.is_empty()
            && (was_held || is_held)
            && (job.is_held() || job.is_unread() || !footprint.is_idle());
        let is_gone = !is_held && account.waiting.has_no_place();
        if is_held != was_held {
            set(&mut self.in_line, association, is_held);
        }
        if is_gone {
            self.unplaced.remove(&association);
        } else if is_displaced {
            self.unplaced.insert(association);
        }
    }
}

/// Puts a value into a set, or takes it out.
fn set<T: Ord>(values: &mut BTreeSet<T>, value: T, is_in: bool) {
    if is_in {
        values.insert(value);
    } else {
        values.remove(&value);
    }
}

#[cfg(test)]
impl Ledger {
    /// Changes a job without its counters.
    pub fn corrupt(&mut self, id: JobId, change: impl Fn(&mut Job)) {
        self.jobs.get_mut(id).into_iter().for_each(|row| change(&mut row.job));
    }

    /// Removes all jobs without their counters.
    pub(super) fn forget_jobs(&mut self) {
        self.jobs = JobMap::default();
    }

    /// Returns true if there is no limit scope, no membership, and no association to place.
    pub fn keeps_nothing_for_scopes(&self) -> bool {
        let is_free = |(_, account): (AssociationId, &Account)| account.member_of.is_none();
        self.accounts.scopes().are_none() && self.unplaced.is_empty() && self.accounts.iter().all(is_free)
    }
}
