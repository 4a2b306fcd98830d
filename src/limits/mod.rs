// SPDX-License-Identifier: LGPL-3.0-only
//! What is going on: live jobs, what they occupy, and which of them are held.
//!
//! Invariant: every counter and index is a function of the live jobs. Jobs change only through [`Ledger::change`],
//! which takes the old job out of all of them and puts the new one in.
#![forbid(unsafe_code)]

mod hold;
mod job;
mod release;
mod size;
#[cfg(test)]
mod tests;
mod usage;

pub use hold::{Hold, HoldSet, Name, Names};
pub use job::{Footprint, Grant, Job, Origin, Phase};
pub use release::{Line, Released, Walk};
pub use size::{Kind, Size, SizeError, Vertex, measure};
pub use usage::{Counts, Tally, Usage};

use crate::accounts::{AssociationId, Book};
use crate::ids::{JobId, QueueName, UserId};
use std::collections::{BTreeMap, BTreeSet};

/// Held jobs that no limit can tell apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    queue: Option<QueueName>,
    size: Size,
    names: HoldSet,
    is_kept_by_others: bool,
}

impl Group {
    fn of(job: &Job) -> Group {
        Group {
            queue: job.queue.clone(),
            size: job.size,
            names: job.names.outstanding(),
            is_kept_by_others: job.is_kept_by_others,
        }
    }
}

/// One association's side of the ledger.
#[derive(Clone, Debug, Default)]
struct Account {
    usage: Usage,
    /// Held jobs in line. Groups keep a pass from looking at each of a thousand equal jobs.
    held: BTreeMap<Group, BTreeSet<JobId>>,
    /// Jobs we released that others still keep in DEPEND.
    blocked: BTreeSet<JobId>,
    /// The queue of the job that came last.
    latest_queue: Option<QueueName>,
    /// Jobs in DEPEND, held or not.
    in_depend: BTreeSet<JobId>,
    /// Replayed jobs whose eventlog is not read yet: until then headroom is not known, and nothing is released.
    unread: usize,
}

impl Account {
    fn deposit(&mut self, id: JobId, job: &Job) {
        self.usage.deposit(job);
        self.unread += usize::from(job.is_unread);
        if job.phase == Phase::Depend {
            self.in_depend.insert(id);
        }
        if job.is_held() {
            self.held.entry(Group::of(job)).or_default().insert(id);
        }
        if job.is_blocked_grant() {
            self.blocked.insert(id);
        }
    }

    fn withdraw(&mut self, id: JobId, job: &Job) {
        self.usage.withdraw(job);
        self.unread = self.unread.saturating_sub(usize::from(job.is_unread));
        if job.phase == Phase::Depend {
            self.in_depend.remove(&id);
        }
        if job.is_held() {
            let group = Group::of(job);
            if let Some(line) = self.held.get_mut(&group) {
                line.remove(&id);
                if line.is_empty() {
                    self.held.remove(&group);
                }
            }
        }
        if job.is_blocked_grant() {
            self.blocked.remove(&id);
        }
    }
}

/// Live jobs and their counters.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    jobs: BTreeMap<JobId, Job>,
    /// Parallel to the book's associations; grown on demand.
    accounts: Vec<Account>,
    waiting: BTreeSet<JobId>,
    /// Associations with jobs in line or blocked: what a release for all has to look at.
    in_line: BTreeSet<AssociationId>,
}

impl Ledger {
    /// A live job.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// All live jobs by id.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().map(|(id, job)| (*id, job))
    }

    /// Jobs without association.
    pub fn waiting(&self) -> impl Iterator<Item = JobId> + '_ {
        self.waiting.iter().copied()
    }

    /// Associations that have held jobs or grants blocked by others.
    pub fn in_line(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.in_line.iter().copied()
    }

    /// The counters of an association.
    pub fn usage(&self, association: AssociationId) -> Option<&Usage> {
        self.accounts.get(association.index()).map(|account| &account.usage)
    }

    /// Jobs of an association in DEPEND, held or not, by id.
    pub fn in_depend(&self, association: AssociationId) -> impl Iterator<Item = JobId> + '_ {
        self.accounts
            .get(association.index())
            .into_iter()
            .flat_map(|account| account.in_depend.iter().copied())
    }

    /// The queue of the job that came last to the association.
    pub fn latest_queue(&self, association: AssociationId) -> Option<&QueueName> {
        self.accounts.get(association.index())?.latest_queue.as_ref()
    }

    /// Jobs an association was granted that others still keep in DEPEND.
    pub fn blocked(&self, association: AssociationId) -> Vec<JobId> {
        self.accounts
            .get(association.index())
            .map(|a| a.blocked.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Whether eventlogs of the association's jobs are still being read.
    pub fn is_unread(&self, association: AssociationId) -> bool {
        self.accounts.get(association.index()).is_some_and(|a| a.unread > 0)
    }

    /// Takes a job in.
    pub fn insert(&mut self, id: JobId, job: Job) {
        self.remove(id);
        self.deposit(id, &job);
        if let Some(account) = job.association.and_then(|association| self.account(association)) {
            account.latest_queue = job.queue.clone();
        }
        self.jobs.insert(id, job);
    }

    /// Changes a job, and with it every counter and index. `None` if it is not known.
    pub fn change<R>(&mut self, id: JobId, change: impl FnOnce(&mut Job) -> R) -> Option<R> {
        // The job stays in the map: whatever cuts this short, a recount finds every job.
        let mut job = self.jobs.get(&id)?.clone();
        self.withdraw(id, &job);
        let result = change(&mut job);
        self.deposit(id, &job);
        if let Some(slot) = self.jobs.get_mut(&id) {
            *slot = job;
        }
        Some(result)
    }

    /// Notes a fair-share that was told; it is counted nowhere.
    pub fn annotate(&mut self, id: JobId, memo: Option<f64>) {
        if memo.is_some()
            && let Some(job) = self.jobs.get_mut(&id)
        {
            job.memo = memo;
        }
    }

    /// Forgets a job.
    pub fn remove(&mut self, id: JobId) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        self.withdraw(id, &job);
        Some(job)
    }

    fn account(&mut self, association: AssociationId) -> Option<&mut Account> {
        if self.accounts.len() <= association.index() {
            self.accounts.resize_with(association.index() + 1, Account::default);
        }
        self.accounts.get_mut(association.index())
    }

    fn deposit(&mut self, id: JobId, job: &Job) {
        match job.association {
            None => {
                self.waiting.insert(id);
            }
            Some(association) => {
                if let Some(account) = self.account(association) {
                    account.deposit(id, job);
                }
                if job.is_held() || job.is_blocked_grant() {
                    self.in_line.insert(association);
                }
            }
        }
    }

    fn withdraw(&mut self, id: JobId, job: &Job) {
        match job.association {
            None => {
                self.waiting.remove(&id);
            }
            Some(association) => {
                let Some(account) = self.accounts.get_mut(association.index()) else { return };
                account.withdraw(id, job);
                if account.held.is_empty() && account.blocked.is_empty() {
                    self.in_line.remove(&association);
                }
            }
        }
    }

    /// The limits that a job of `size` in `queue` would exceed in `association`, given what is charged and reserved.
    /// The job itself must not be counted there.
    pub fn exceeded(
        &self,
        book: &Book,
        association: AssociationId,
        queue: Option<&QueueName>,
        size: Size,
    ) -> HoldSet {
        let Some(limits) = book.association(association) else { return HoldSet::NONE };
        let empty = Usage::default();
        let usage = self.usage(association).unwrap_or(&empty);
        let used = usage.total.total();
        let mut set = HoldSet::NONE;
        let mut require = |room: bool, hold: Hold| {
            if !room {
                set.insert(hold);
            }
        };
        if let Some(limits) = queue.and_then(|q| book.queue(q.as_str())) {
            let used = usage.in_queue(limits.name.as_str()).total();
            let charged = usage.in_queue(limits.name.as_str()).charged;
            // A released job that is not in SCHED yet reserves its nodes as scheduled ones, so they are counted once.
            let nodes = charged.run_nodes.saturating_add(used.sched_nodes);
            require(limits.max_running_jobs.admits(used.run_jobs, 1), Hold::RunJobsQueue);
            require(limits.max_sched_jobs.admits(used.sched_jobs, 1), Hold::SchedJobsQueue);
            require(
                limits.max_sched_nodes_per_assoc.admits(used.sched_nodes, size.nodes),
                Hold::SchedNodesQueue,
            );
            require(
                limits.max_sched_cores_per_assoc.admits(used.sched_cores, size.cores),
                Hold::SchedCoresQueue,
            );
            require(limits.max_nodes_per_assoc.admits(nodes, size.nodes), Hold::ResourcesQueue);
        }
        let resources = limits.max_nodes.admits(used.run_nodes, size.nodes)
            && limits.max_cores.admits(used.run_cores, size.cores);
        require(limits.max_running_jobs.admits(used.run_jobs, 1), Hold::RunningJobsUser);
        require(limits.max_sched_jobs.admits(used.sched_jobs, 1), Hold::SchedJobsUser);
        require(resources, Hold::ResourcesUser);
        set
    }

    /// The limits that keep `id` where it is, as if it held nothing itself.
    pub fn exceeded_by(&self, book: &Book, id: JobId) -> HoldSet {
        let Some(job) = self.jobs.get(&id) else { return HoldSet::NONE };
        let Some(association) = job.association else { return HoldSet::NONE };
        self.exceeded(book, association, job.queue.as_ref(), job.size)
    }

    /// Recounts everything from the jobs; what was there before is forgotten.
    pub fn recount(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        *self = Ledger::default();
        for (id, job) in jobs {
            self.insert(id, job);
        }
    }

    /// Associations whose counters or lines differ from a recount, with what differs. Empty, always.
    pub fn drift(&self) -> Vec<(AssociationId, String)> {
        let mut fresh = self.clone();
        fresh.recount();
        let mut ids: BTreeSet<AssociationId> = self.jobs.values().filter_map(|j| j.association).collect();
        ids.extend(self.in_line.iter());
        let mut drift = Vec::new();
        let empty = Account::default();
        for id in ids {
            let have = self.accounts.get(id.index()).unwrap_or(&empty);
            let want = fresh.accounts.get(id.index()).unwrap_or(&empty);
            if !have.usage.equals(&want.usage) {
                drift.push((id, format!("counters: have {:?}, recounted {:?}", have.usage, want.usage)));
            }
            if have.held != want.held || have.blocked != want.blocked || have.unread != want.unread {
                drift.push((id, "lines of held jobs".to_owned()));
            }
        }
        // An association without live jobs must count nothing.
        let idle = |account: &Account| account.usage.equals(&Usage::default());
        let stale = |id: &AssociationId| self.accounts.get(id.index()).is_some_and(|a| !idle(a));
        let live: BTreeSet<AssociationId> = self.jobs.values().filter_map(|j| j.association).collect();
        for index in 0..self.accounts.len() {
            let Some(id) = AssociationId::from_index(index) else { continue };
            if !live.contains(&id) && stale(&id) {
                drift.push((id, "counts without jobs".to_owned()));
            }
        }
        drift
    }

    /// Users who have a replayed job in DEPEND: their jobs' eventlogs decide who is released.
    pub fn users_with_replayed_holds(&self) -> BTreeSet<UserId> {
        let replayed = |job: &&Job| job.origin == Origin::Replayed && job.phase == Phase::Depend;
        self.jobs.values().filter(replayed).map(|job| job.user).collect()
    }
}
