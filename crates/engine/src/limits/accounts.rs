// SPDX-License-Identifier: LGPL-3.0-only
//! The accounts of all associations, and the limit scopes in which their jobs count too.

use super::ledger::{Account, Class};
use super::line::HeldLine;
use super::scope::{LimitScope, LimitScopes, ScopeId};
use super::{Job, PlaceInLine, Usage};
use crate::accounts::{AssociationId, Book};
use crate::ids::{JobId, QueueName, Stage};
use std::ops::Bound;
use std::sync::Arc;

/// The accounts of all associations, and the limit scopes in which their jobs count too.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Parallel to the book's associations from `first` on; grown on demand.
    all: Vec<Account>,
    /// 0, except in an excerpt.
    first: usize,
    pub(super) scopes: LimitScopes,
    /// Jobs whose eventlog is being read.
    pub(super) unread: u64,
}

impl Accounts {
    /// Returns the counters of an association.
    pub fn usage(&self, association: AssociationId) -> Option<&Usage> {
        self.get(association).map(|account| &account.usage)
    }

    /// Returns the number of active jobs of an association.
    pub fn active_jobs(&self, association: AssociationId) -> u64 {
        self.usage(association).map_or(0, |usage| usage.active_jobs)
    }

    /// Returns the jobs of an association in DEPEND and PRIORITY with ids above `after`, or all, in the order of their ids.
    pub fn before_sched(
        &self,
        association: AssociationId,
        after: Option<JobId>,
    ) -> impl Iterator<Item = JobId> + '_ {
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let account = self.get(association);
        account.into_iter().flat_map(move |account| account.before_sched.range(from).copied())
    }

    /// Returns the jobs of an association that limits count, each with the time when it ends at the latest, if that is known. The first to
    /// end comes first.
    pub fn counted(
        &self,
        association: AssociationId,
    ) -> impl DoubleEndedIterator<Item = (JobId, Option<f64>)> + '_ {
        let jobs = self.get(association).into_iter().flat_map(|account| account.counted.iter());
        jobs.map(|(until, id)| (*id, until.time()))
    }

    /// Returns the queue of the newest job of an association.
    pub fn latest_queue(&self, association: AssociationId) -> Option<&QueueName> {
        self.get(association)?.latest_queue.as_ref()
    }

    /// Returns true if eventlogs of jobs of the association are being read.
    pub fn is_unread(&self, association: AssociationId) -> bool {
        self.get(association).is_some_and(|account| account.unread > 0)
    }

    /// Returns true if eventlogs are being read of jobs that count together with those of an association in `queue`.
    pub fn shares_with_unread(&self, association: AssociationId, queue: Option<&QueueName>) -> bool {
        self.unread > 0 && self.scopes_of(association, queue).any(|(_, scope)| scope.unread > 0)
    }

    /// Returns true if limits over scopes count jobs of an association in a queue.
    pub fn counts_under_scopes(&self, association: AssociationId, queue: Option<&QueueName>) -> bool {
        self.scopes_of(association, queue).next().is_some()
    }

    /// Returns true if limits over scopes count the running jobs of an association.
    pub fn runs_under_scopes(&self, association: AssociationId) -> bool {
        let mut counters = self.all_scopes_of(association).flat_map(|(_, scope)| &scope.counters);
        counters.any(|counter| counter.amount.stage == Stage::Running)
    }

    /// Returns the number of held jobs of an association.
    pub fn held_count(&self, association: AssociationId) -> usize {
        self.lines(association).map(|(_, line)| line.len()).sum()
    }

    /// Returns the place of a job among the held jobs of its association, or `None` if it is not held.
    pub fn place_in_line(&self, id: JobId, job: &Job) -> Option<PlaceInLine> {
        let association = job.association().filter(|_| job.is_held())?;
        let before = self.lines(association).map(|(class, line)| match class.keepers.cmp(&job.keepers) {
            std::cmp::Ordering::Less => line.len(),
            std::cmp::Ordering::Equal => line.before(id),
            std::cmp::Ordering::Greater => 0,
        });
        Some(PlaceInLine { place: 1 + before.sum::<usize>(), of: self.held_count(association) })
    }
}

impl Accounts {
    /// Returns the accounts of an excerpt: that of one association, which belongs to no scope.
    pub(super) fn with_one(association: AssociationId, account: Account) -> Accounts {
        Accounts { all: vec![account], first: association.index(), ..Accounts::default() }
    }

    /// Returns the same accounts and scopes without jobs.
    pub(super) fn emptied(self) -> Accounts {
        let emptied = |account: Account| Account { member_of: account.member_of, ..Account::default() };
        let all = self.all.into_iter().map(emptied).collect();
        Accounts { all, first: self.first, scopes: self.scopes.emptied(), unread: 0 }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (AssociationId, &Account)> {
        let accounts = (self.first..).zip(&self.all);
        accounts.filter_map(|(index, account)| Some((AssociationId::from_index(index)?, account)))
    }

    pub(super) fn get(&self, association: AssociationId) -> Option<&Account> {
        self.all.get(association.index().checked_sub(self.first)?)
    }

    /// Returns the scopes, and the account of an association.
    pub(super) fn entry(&mut self, association: AssociationId) -> (&mut LimitScopes, Option<&mut Account>) {
        let Some(at) = association.index().checked_sub(self.first) else { return (&mut self.scopes, None) };
        if self.all.len() <= at {
            self.all.resize_with(at + 1, Account::default);
        }
        (&mut self.scopes, self.all.get_mut(at))
    }

    /// Returns the held jobs of an association by class.
    pub(super) fn lines(&self, association: AssociationId) -> impl Iterator<Item = (&Class, &HeldLine)> {
        self.get(association).into_iter().flat_map(|account| &account.held)
    }

    /// Returns the held jobs of one class of an association.
    pub(super) fn line(&self, association: AssociationId, class: &Class) -> Option<&HeldLine> {
        self.get(association)?.held.get(class)
    }

    /// Returns the ids of the scopes of an association, the narrowest first.
    pub(super) fn member_of(&self, association: AssociationId) -> &[ScopeId] {
        self.get(association).map(Account::member_of).unwrap_or_default()
    }

    /// Returns the scopes that count jobs of an association, the narrowest first.
    pub(super) fn all_scopes_of(
        &self,
        association: AssociationId,
    ) -> impl Iterator<Item = (ScopeId, &LimitScope)> {
        self.member_of(association).iter().filter_map(|id| Some((*id, self.scopes.get(*id)?)))
    }

    /// Returns the scopes that count jobs of an association in `queue`, the narrowest first.
    pub(super) fn scopes_of(
        &self,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> impl Iterator<Item = (ScopeId, &LimitScope)> {
        self.all_scopes_of(association).filter(move |(_, scope)| scope.has(queue))
    }

    /// Stores the limit scopes of an association that is about to get a job, and creates missing scopes.
    pub(super) fn assign_scopes(&mut self, book: &Book, id: AssociationId) {
        if self.scopes.are_none() {
            return;
        }
        let (scopes, account) = self.entry(id);
        if let Some(account) = account.filter(|account| account.member_of.is_none())
            && let Some(association) = book.association(id)
        {
            account.member_of = Some(scopes.join(association.user, &association.bank));
        }
    }

    /// Takes over the limits over scopes. Returns true if all live jobs must be counted again in the scopes.
    pub(super) fn regroup(&mut self, book: &Book) -> bool {
        if Arc::ptr_eq(self.scopes.limits(), book.site_limits()) {
            return false;
        }
        let had_none = self.scopes.are_none();
        self.scopes = self.scopes.with_limits(book.site_limits());
        if had_none && self.scopes.are_none() {
            return false;
        }
        for index in self.first..self.first + self.all.len() {
            let Some(id) = AssociationId::from_index(index) else { continue };
            let (_, Some(account)) = self.entry(id) else { continue };
            (account.member_of, account.waiting) = Default::default();
            if !account.is_idle() {
                self.assign_scopes(book, id);
            }
        }
        true
    }
}
