// SPDX-License-Identifier: LGPL-3.0-only
//! Data from the accounting database. It changes no job before the next reprioritize, only who is counted where.

use super::{Effect, Engine, Event};
use crate::accounts::{AssociationRecord, Book, Difference, Policy};
use crate::ids::JobId;
use crate::limits::{Job, Origin, Phase};

impl Engine {
    pub(super) fn associations(&mut self, records: Vec<AssociationRecord>) -> Vec<Effect> {
        let owner = self.owner;
        self.configure(|book| book.upsert(records, owner))
    }

    pub(super) fn policy(&mut self, policy: Policy) -> Vec<Effect> {
        self.replaced(|book| book.replace(policy))
    }

    pub(super) fn policy_commit(&mut self) -> Vec<Effect> {
        self.replaced(Book::commit)
    }

    fn replaced(&mut self, replace: impl FnOnce(&mut Book) -> Difference) -> Vec<Effect> {
        let mut effects = self.configure(|book| {
            replace(book);
        });
        effects.push(Effect::Then(Event::Reprioritize));
        effects
    }

    /// What shows only when a push is committed concerns no job.
    pub(super) fn stage(&mut self, change: impl FnOnce(&mut Book)) -> Vec<Effect> {
        change(&mut self.book);
        Vec::new()
    }

    pub(super) fn configure(&mut self, change: impl FnOnce(&mut Book)) -> Vec<Effect> {
        change(&mut self.book);
        self.attach_waiting()
    }

    /// Counts waiting jobs whose association has come. They stay where they are until their next priority.
    fn attach_waiting(&mut self) -> Vec<Effect> {
        let waiting: Vec<JobId> = self.ledger.waiting().collect();
        let mut unread = Vec::new();
        for id in waiting {
            let Some(job) = self.ledger.job(id) else { continue };
            let found = self.book.find(job.user, job.bank.as_ref().map(|b| b.as_str()));
            if found.is_none() {
                continue;
            }
            self.ledger.change(id, |job| job.association = found);
            // Whether a limit concerns it was not known when eventlogs were read.
            let was_pending = |job: &Job| {
                job.origin == Origin::Replayed && matches!(job.phase, Phase::Priority | Phase::Sched)
            };
            if self.ledger.job(id).is_some_and(|job| was_pending(job) && self.is_limited(job)) {
                unread.push(id);
            }
        }
        self.read_eventlogs_of(unread)
    }
}
