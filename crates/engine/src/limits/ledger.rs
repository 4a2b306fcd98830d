// SPDX-License-Identifier: LGPL-3.0-only
//! Live jobs and their counters.
//!
//! Invariant: every counter and index is a function of the live jobs. Jobs change only through [`Ledger::change`],
//! which takes the old job out of all of them and puts the new one in.

mod account;
mod excerpt;
mod until;

pub(super) use account::{Account, Class};
pub use excerpt::PlaceInLine;
pub(super) use until::Until;

use super::groups::{GroupId, Groups};
use super::in_vain::InVain;
use super::line::HeldLine;
use super::{Eligible, Job, Keepers, Phase, RULES, Rules, Settled, Size, Usage};
use crate::accounts::AssociationId;
use crate::ids::{JobId, JobMap, QueueName, UserId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A live job in the table. Flux asks for every price, in an order in which no job is near the one before: a price that holds is
/// found beside the id, without a look at the job, which is elsewhere in the memory.
#[derive(Clone, Debug)]
pub(super) struct Row {
    settled: Option<Settled>,
    pub(super) job: Box<Job>,
}

impl From<Job> for Row {
    fn from(job: Job) -> Self {
        Row { settled: None, job: Box::new(job) }
    }
}

/// Live jobs and their counters.
#[derive(Clone, Debug)]
pub struct Ledger {
    rules: Rules,
    pub(super) jobs: JobMap<Row>,
    /// Parallel to the book's associations from `first` on; grown on demand.
    pub(super) accounts: Vec<Account>,
    /// 0, but for an excerpt.
    first: usize,
    /// What counts together across associations.
    pub(super) groups: Groups,
    /// Associations in line whose place among others is to be worked out anew.
    pub(super) unplaced: BTreeSet<AssociationId>,
    pub(super) in_vain: InVain,
    /// Counts how often prices moved.
    pub(super) epoch: u64,
    pub(super) overtaken_so_far: u64,
    pub(super) newly_protected: Vec<JobId>,
    pub(super) lapsed: BTreeSet<AssociationId>,
    /// Jobs without association, by user.
    waiting: BTreeMap<UserId, BTreeSet<JobId>>,
    /// Associations with jobs in line: what a release for all has to look at.
    pub(super) in_line: BTreeSet<AssociationId>,
    /// Jobs whose eventlog is being read.
    unread: usize,
    /// Associations that took no part in a pass because of that.
    pub(super) put_off: BTreeSet<AssociationId>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger::new(RULES)
    }
}

impl Ledger {
    /// An empty ledger that holds jobs by `rules`.
    pub fn new(rules: Rules) -> Self {
        Ledger {
            rules,
            jobs: JobMap::default(),
            accounts: Vec::new(),
            first: 0,
            groups: Groups::default(),
            unplaced: BTreeSet::new(),
            in_vain: InVain::default(),
            epoch: 0,
            overtaken_so_far: 0,
            newly_protected: Vec::new(),
            lapsed: BTreeSet::new(),
            waiting: BTreeMap::new(),
            in_line: BTreeSet::new(),
            unread: 0,
            put_off: BTreeSet::new(),
        }
    }

    /// The limits that hold jobs.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// A live job.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id).map(|row| &*row.job)
    }

    /// Live jobs by id, from the one that comes after `after`.
    pub fn jobs_after(&self, after: Option<JobId>) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.after(after).map(|(id, row)| (id, &*row.job))
    }

    /// How many jobs are alive.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// All live jobs by id.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs_after(None)
    }

    /// Jobs without association.
    pub fn waiting(&self) -> impl Iterator<Item = JobId> + '_ {
        self.waiting.values().flatten().copied()
    }

    /// Users who have jobs without association.
    pub fn waiting_users(&self) -> impl Iterator<Item = UserId> + '_ {
        self.waiting.keys().copied()
    }

    /// A user's jobs without association.
    pub fn waiting_of(&self, user: UserId) -> impl Iterator<Item = JobId> + '_ {
        self.waiting.get(&user).into_iter().flatten().copied()
    }

    /// Associations that have held jobs.
    pub fn in_line(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.in_line.iter().copied()
    }

    /// The counters of an association.
    pub fn usage(&self, association: AssociationId) -> Option<&Usage> {
        self.account_of(association).map(|account| &account.usage)
    }

    /// Jobs of an association in DEPEND and PRIORITY, held or not, by id.
    pub fn before_sched(&self, association: AssociationId) -> impl Iterator<Item = JobId> + '_ {
        let account = self.account_of(association);
        account.into_iter().flat_map(|account| account.before_sched.iter().copied())
    }

    /// The same from the one that comes after `after`.
    pub fn before_sched_after(
        &self,
        association: AssociationId,
        after: Option<JobId>,
    ) -> impl Iterator<Item = JobId> + '_ {
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let account = self.account_of(association);
        account.into_iter().flat_map(move |account| account.before_sched.range(from).copied())
    }

    /// Jobs of an association that limits count, each with when it ends at the latest, if anybody can say; who ends first
    /// comes first.
    pub fn counted(
        &self,
        association: AssociationId,
    ) -> impl DoubleEndedIterator<Item = (JobId, Option<f64>)> + '_ {
        let account = self.account_of(association);
        let jobs = account.into_iter().flat_map(|account| account.counted.iter());
        jobs.map(|(until, id)| (*id, until.time()))
    }

    /// The queue of the job that came last to the association.
    pub fn latest_queue(&self, association: AssociationId) -> Option<&QueueName> {
        self.account_of(association)?.latest_queue.as_ref()
    }

    /// Whether eventlogs of the association's jobs are still being read.
    pub fn is_unread(&self, association: AssociationId) -> bool {
        self.account_of(association).is_some_and(|account| account.unread > 0)
    }

    /// Whether any job's eventlog is still being read.
    pub fn has_unread(&self) -> bool {
        self.unread > 0
    }

    pub(super) fn classes(&self, association: AssociationId) -> Vec<Class> {
        let account = self.account_of(association);
        account.map(|account| account.held.keys().cloned().collect()).unwrap_or_default()
    }

    /// The lines of an association.
    pub(super) fn lines(&self, association: AssociationId) -> impl Iterator<Item = (&Class, &HeldLine)> {
        self.account_of(association).into_iter().flat_map(|account| &account.held)
    }

    pub(super) fn account_of(&self, association: AssociationId) -> Option<&Account> {
        self.accounts.get(association.index().checked_sub(self.first)?)
    }

    /// The groups in which the jobs of an association count too.
    pub(super) fn member_of(&self, association: AssociationId) -> &[GroupId] {
        self.account_of(association).and_then(|account| account.member_of.as_deref()).unwrap_or_default()
    }

    pub(super) fn groups_and_account(
        &mut self,
        association: AssociationId,
    ) -> (&mut Groups, Option<&mut Account>) {
        let Some(at) = association.index().checked_sub(self.first) else { return (&mut self.groups, None) };
        if self.accounts.len() <= at {
            self.accounts.resize_with(at + 1, Account::default);
        }
        (&mut self.groups, self.accounts.get_mut(at))
    }

    fn line(&self, association: AssociationId, class: &Class) -> Option<&HeldLine> {
        self.account_of(association)?.held.get(class)
    }

    pub(super) fn is_in_line(&self, association: AssociationId, class: &Class, id: JobId) -> bool {
        self.line(association, class).is_some_and(|line| line.contains(id))
    }

    pub(super) fn next_held(
        &self,
        association: AssociationId,
        class: &Class,
        after: Option<JobId>,
        is_right: impl FnMut(Size) -> bool,
    ) -> Option<JobId> {
        self.line(association, class)?.next(after, is_right)
    }

    /// Takes a job in.
    pub fn insert(&mut self, id: JobId, job: Job) {
        self.remove(id);
        self.deposit(id, &job);
        if let Some(account) = job.association().and_then(|association| self.account(association)) {
            account.latest_queue = job.queue.clone();
        }
        let association = job.association();
        self.jobs.insert(id, Row::from(job));
        self.protection_changed(id, None, association);
    }

    /// Changes a job, and with it every counter and index. `None` if it is not known.
    pub fn change<R>(&mut self, id: JobId, change: impl FnOnce(&mut Job) -> R) -> Option<R> {
        // The job stays in the map: whatever cuts this short, a recount finds every job.
        let mut job = self.job(id)?.clone();
        self.withdraw(id, &job);
        let was_idle = !self.groups.are_none() && job.footprint().is_idle();
        let former = job.association();
        let result = change(&mut job);
        self.deposit(id, &job);
        if was_idle {
            self.took_room(&job);
        }
        let association = job.association();
        if let Some(row) = self.jobs.get_mut(id) {
            row.settled = None;
            *row.job = job;
        }
        self.protection_changed(id, former, association);
        Some(result)
    }

    /// Notes a fair-share that was told; it is counted nowhere.
    pub fn annotate(&mut self, id: JobId, memo: Option<f64>) {
        if memo.is_some()
            && let Some(row) = self.jobs.get_mut(id)
        {
            row.job.memo = memo;
        }
    }

    /// A job's price holds until the job is changed, or is not to be relied on any more. It counts nowhere.
    pub fn settle(&mut self, id: JobId, price: Option<Settled>) {
        if let Some(row) = self.jobs.get_mut(id) {
            row.settled = price;
        }
    }

    /// The price of a job that was noted last, if it may hold still.
    pub fn settled(&self, id: JobId) -> Option<Settled> {
        self.jobs.get(id)?.settled
    }

    /// How long a job was eligible. It counts nowhere.
    pub fn aged(&mut self, id: JobId, eligible: Eligible) {
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

    /// Forgets a job.
    pub fn remove(&mut self, id: JobId) -> Option<Job> {
        let job = *self.jobs.remove(id)?.job;
        self.withdraw(id, &job);
        self.protection_changed(id, job.association(), None);
        Some(job)
    }

    fn account(&mut self, association: AssociationId) -> Option<&mut Account> {
        self.groups_and_account(association).1
    }

    fn took_room(&mut self, job: &Job) {
        let Some(association) = job.association().filter(|_| !job.footprint().is_idle()) else { return };
        let (groups, account) = self.groups_and_account(association);
        groups.took(account.and_then(|account| account.member_of.as_deref()).unwrap_or_default(), job);
    }

    fn deposit(&mut self, id: JobId, job: &Job) {
        self.look_anew();
        self.unread += usize::from(job.is_unread());
        let Some(association) = job.association() else {
            self.waiting.entry(job.user).or_default().insert(id);
            return;
        };
        let footprint = job.footprint();
        let (groups, account) = self.groups_and_account(association);
        let Some(account) = account else { return };
        account.deposit(id, job, footprint);
        let is_displaced = account.is_displaced_by(job, footprint);
        if let Some(member_of) = &account.member_of {
            groups.deposit(member_of, job, footprint);
        }
        if job.is_held() {
            self.in_line.insert(association);
        }
        if is_displaced {
            self.unplaced.insert(association);
        }
    }

    fn withdraw(&mut self, id: JobId, job: &Job) {
        self.look_anew();
        self.unread = self.unread.saturating_sub(usize::from(job.is_unread()));
        let Some(association) = job.association() else {
            if let Some(jobs) = self.waiting.get_mut(&job.user) {
                jobs.remove(&id);
                if jobs.is_empty() {
                    self.waiting.remove(&job.user);
                }
            }
            return;
        };
        let at = association.index().checked_sub(self.first);
        let Some(account) = at.and_then(|at| self.accounts.get_mut(at)) else { return };
        let footprint = job.footprint();
        let is_displaced = account.is_displaced_by(job, footprint);
        account.withdraw(id, job, footprint);
        if let Some(member_of) = &account.member_of {
            self.groups.withdraw(member_of, job, footprint);
        }
        if is_displaced {
            self.unplaced.insert(association);
        }
        if account.held.is_empty() {
            self.in_line.remove(&association);
            if account.waiting.is_nowhere() {
                self.unplaced.remove(&association);
            }
        }
    }
}

#[cfg(test)]
impl Ledger {
    /// Changes a job behind the counters' back.
    pub fn corrupt(&mut self, id: JobId, change: impl Fn(&mut Job)) {
        self.jobs.get_mut(id).into_iter().for_each(|row| change(&mut row.job));
    }

    /// Forgets the jobs, and not what they count as.
    pub(super) fn forget_jobs(&mut self) {
        self.jobs = JobMap::default();
    }

    /// Whether no association stands in the line of a group twice.
    pub fn stands_once(&self) -> bool {
        self.accounts.iter().all(|account| {
            let groups: BTreeSet<GroupId> = account.waiting.lines.iter().map(|(group, _)| *group).collect();
            groups.len() == account.waiting.lines.len()
        })
    }

    /// Whether there is no group, no membership, and nobody to be placed.
    pub fn keeps_nothing_for_scopes(&self) -> bool {
        let is_free = |account: &Account| account.member_of.is_none();
        self.groups.are_none() && self.unplaced.is_empty() && self.accounts.iter().all(is_free)
    }
}
