// SPDX-License-Identifier: LGPL-3.0-only
//! The account of each association, and all limit scopes. An account has the counters and indexes of one association.

use super::ledger::{Account, Class};
use super::line::HeldLine;
use super::scope::{BudgetAccounts, LimitScope, LimitScopes, ScopeId};
use super::{Footprint, Job, Phase, PositionAmongJobs, Usage};
use crate::accounts::{AssociationId, Book};
use crate::ids::{JobId, QueueName, Stage};
use rustc_hash::FxHashMap;
use std::ops::Bound;
use std::sync::Arc;

/// The account of each association, and all limit scopes.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// The account of each association that has had a job.
    all: FxHashMap<AssociationId, Account>,
    /// The account of all other associations.
    empty: Account,
    pub(super) scopes: LimitScopes,
    /// The number of jobs whose eventlog is being read.
    pub(super) unread: u64,
}

impl Accounts {
    /// Returns the counters of `association`.
    pub fn usage(&self, association: AssociationId) -> &Usage {
        &self.get(association).usage
    }

    /// Returns the jobs of an association in DEPEND and PRIORITY in the order of their ids. Begins after the id `after`, or with the first job.
    pub fn list_jobs_before_sched(
        &self,
        association: AssociationId,
        after: Option<JobId>,
    ) -> impl Iterator<Item = JobId> + '_ {
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.get(association).before_sched.range(from).copied()
    }

    /// Returns the counted jobs of `association`, each with the latest time at which the job can end. The time is
    /// `None` if it is unknown. The jobs are sorted by this time.
    pub fn counted_jobs(
        &self,
        association: AssociationId,
    ) -> impl DoubleEndedIterator<Item = (JobId, Option<f64>)> + '_ {
        self.get(association).counted.iter().map(|(end, id)| (*id, end.time()))
    }

    /// Returns the queue of the newest job of `association`, or `None` if there is no such job or it has no queue.
    pub fn latest_queue(&self, association: AssociationId) -> Option<&QueueName> {
        self.get(association).latest_queue.as_ref()
    }

    /// Returns true if the eventlog of a job of the association is unread.
    pub fn is_unread(&self, association: AssociationId) -> bool {
        self.get(association).unread > 0
    }

    /// Returns true if a job with an unread eventlog shares a limit scope with the association's jobs in `queue`.
    pub fn shares_unread_scope(&self, association: AssociationId, queue: Option<&QueueName>) -> bool {
        self.unread > 0 && self.scopes_of(association, queue).any(|(_, scope)| scope.unread > 0)
    }

    /// Returns true if limits over scopes count jobs of an association in a queue.
    pub fn is_counted_by_scopes(&self, association: AssociationId, queue: Option<&QueueName>) -> bool {
        self.scopes_of(association, queue).next().is_some()
    }

    /// Returns true if the job runs and a limit counts its remaining time.
    pub fn counts_time_left(&self, job: &Job) -> bool {
        let Some(association) = job.association().filter(|_| job.phase == Phase::Run) else { return false };
        let mut scopes = self.scopes_of(association, job.queue.as_ref());
        scopes.any(|(_, scope)| scope.counters.iter().any(|counter| counter.amount.counts_time_left()))
    }

    /// Returns every job that some limit counts.
    pub fn all_counted_jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.all.values().flat_map(|account| account.counted.iter().map(|(_, id)| *id))
    }

    /// Returns true if limits over scopes count the running jobs of an association.
    pub fn are_running_jobs_in_scopes(&self, association: AssociationId) -> bool {
        let mut counters = self.all_scopes_of(association).flat_map(|(_, scope)| &scope.counters);
        counters.any(|counter| counter.amount.stage == Stage::Running)
    }

    /// Returns the number of held jobs of an association.
    pub fn held_count(&self, association: AssociationId) -> usize {
        self.jobs_by_class(association).map(|(_, line)| line.len()).sum()
    }

    /// Returns the position of a job among the held jobs of its association, or `None` if the job is not held.
    pub fn find_position_of_held_job(&self, id: JobId, job: &Job) -> Option<PositionAmongJobs> {
        let association = job.association().filter(|_| job.is_held())?;
        let before = self.jobs_by_class(association).map(|(class, line)| {
            match class.block_state.cmp(&job.block_state) {
                std::cmp::Ordering::Less => line.len(),
                std::cmp::Ordering::Equal => line.count_members_below_id(id),
                std::cmp::Ordering::Greater => 0,
            }
        });
        Some(PositionAmongJobs { place: 1 + before.sum::<usize>(), of: self.held_count(association) })
    }
}

impl Accounts {
    /// Sets all counters to 0. Each association keeps its limit scopes.
    pub(super) fn with_zero_counters(mut self) -> Accounts {
        for account in self.all.values_mut() {
            *account = Account { scope_ids: account.scope_ids.take(), ..Account::default() };
        }
        Accounts { scopes: self.scopes.with_zero_counters(), unread: 0, ..self }
    }

    /// Returns the account of each association that has had a job, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (AssociationId, &Account)> {
        self.all.iter().map(|(id, account)| (*id, account))
    }

    pub(super) fn get(&self, association: AssociationId) -> &Account {
        self.all.get(&association).unwrap_or(&self.empty)
    }

    /// Borrows all limit scopes together with the account of `association`. Creates the account if it does not exist
    /// yet.
    pub(super) fn borrow_scopes_and_account(
        &mut self,
        association: AssociationId,
    ) -> (&mut LimitScopes, &mut Account) {
        (&mut self.scopes, self.all.entry(association).or_default())
    }

    /// Subtracts the amounts `before` of a job from the counters, and adds the amounts `after`.
    pub(super) fn count_job(&mut self, before: &Footprint, after: &Footprint) {
        if (before.association, &before.queue) != (after.association, &after.queue) {
            self.count_job(before, &before.with_zero_amounts());
            self.count_job(&after.with_zero_amounts(), after);
            return;
        }
        let Some(association) = after.association else { return };
        let (scopes, account) = self.borrow_scopes_and_account(association);
        account.usage.count_job(before, false);
        account.usage.count_job(after, true);
        if let Some(ids) = &account.scope_ids {
            scopes.count_job(ids, before, after);
        }
    }

    /// Counts a job that takes headroom in the scopes that count the footprint `after`, but did not count `before`.
    pub(super) fn count_taken_headroom(&mut self, before: &Footprint, after: &Footprint) {
        let stays = (before.association, &before.queue) == (after.association, &after.queue);
        let Some(id) = after.association.filter(|_| before.is_idle() || !stays) else { return };
        let counted = before.association.filter(|_| !before.is_idle()).into_iter();
        let counted = counted.flat_map(|id| self.scopes_of(id, before.queue.as_ref()));
        let counted: Vec<ScopeId> = counted.map(|(id, _)| id).collect();
        let (scopes, account) = self.borrow_scopes_and_account(id);
        let entered = account.scope_ids().iter().filter(|id| !counted.contains(id));
        scopes.update_scopes(entered, after, |scope| scope.taken += 1);
    }

    /// Returns the held jobs of an association by class.
    pub(super) fn jobs_by_class(
        &self,
        association: AssociationId,
    ) -> impl Iterator<Item = (&Class, &HeldLine)> {
        self.get(association).held.iter()
    }

    /// Returns the scopes that can hold jobs of an association, the narrowest first.
    pub(super) fn all_scopes_of(
        &self,
        association: AssociationId,
    ) -> impl Iterator<Item = (ScopeId, &LimitScope)> {
        self.get(association).scope_ids().iter().filter_map(|id| Some((*id, self.scopes.get(*id)?)))
    }

    /// Returns the scopes that can hold jobs of an association in `queue`, the narrowest first.
    pub(super) fn scopes_of(
        &self,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> impl Iterator<Item = (ScopeId, &LimitScope)> {
        self.all_scopes_of(association).filter(move |(_, scope)| scope.counts_queue(queue))
    }

    /// If the limit scopes of an association are not stored yet, creates and stores them.
    pub(super) fn assign_scopes(&mut self, book: &Book, id: AssociationId) {
        if self.scopes.has_no_limits() {
            return;
        }
        let (scopes, account) = self.borrow_scopes_and_account(id);
        if account.scope_ids.is_none()
            && let Some(association) = book.association(id)
        {
            account.scope_ids =
                Some(Box::new(scopes.find_or_add_scopes(association.user, &association.bank)));
        }
    }

    /// Takes over the site's limits from `book`, and the spent amounts and the windows of budgets from `accounts`.
    /// Returns true if the caller must count all live jobs again.
    pub(super) fn apply_scope_limits(&mut self, book: &Book, accounts: BudgetAccounts) -> bool {
        // If a budget changes, the limits change too. So only the limits and the budget windows are compared.
        let list_windows = |of: &BudgetAccounts| of.values().map(|it| it.window).collect::<Vec<_>>();
        if Arc::ptr_eq(self.scopes.limits(), book.site_limits())
            && list_windows(self.scopes.accounts()) == list_windows(&accounts)
        {
            for ((target, amount), account) in accounts {
                self.scopes.set_spent_amount(target, amount, account.spent);
            }
            return false;
        }
        let had_no_limits = self.scopes.has_no_limits();
        self.scopes = LimitScopes::with_limits(book.site_limits(), accounts);
        if had_no_limits && self.scopes.has_no_limits() {
            return false;
        }
        let mut ids: Vec<AssociationId> = self.all.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let (_, account) = self.borrow_scopes_and_account(id);
            (account.scope_ids, account.waiting) = Default::default();
            if !account.is_idle() {
                self.assign_scopes(book, id);
            }
        }
        true
    }
}
