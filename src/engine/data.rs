// SPDX-License-Identifier: LGPL-3.0-only
//! Data from the accounting database. It changes no job before the next reprioritize, only who is counted where.

use super::{Effect, Engine, Event};
use crate::accounts::{AssociationRecord, Book, Policy};
use crate::ids::JobId;

impl Engine {
    pub(super) fn associations(&mut self, records: Vec<AssociationRecord>) -> Vec<Effect> {
        let owner = self.owner;
        self.configure(|book| book.upsert(records, owner))
    }

    pub(super) fn policy(&mut self, policy: Policy) -> Vec<Effect> {
        self.configure(|book| {
            book.replace(policy);
        });
        vec![Effect::Then(Event::Reprioritize)]
    }

    pub(super) fn configure(&mut self, change: impl FnOnce(&mut Book)) -> Vec<Effect> {
        change(&mut self.book);
        self.attach_waiting();
        Vec::new()
    }

    /// Counts waiting jobs whose association has come. They stay where they are until their next priority.
    fn attach_waiting(&mut self) {
        let waiting: Vec<JobId> = self.ledger.waiting().collect();
        for id in waiting {
            let Some(job) = self.ledger.job(id) else { continue };
            let found = self.book.find(job.user, job.bank.as_ref().map(|b| b.as_str()));
            if found.is_some() {
                self.ledger.change(id, |job| job.association = found);
            }
        }
    }
}
