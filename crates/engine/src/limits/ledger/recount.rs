// SPDX-License-Identifier: LGPL-3.0-only
//! Counts all jobs of the ledger again, and compares the result with the stored counters.

use super::super::Usage;
use super::Ledger;
use crate::accounts::AssociationId;
use std::collections::BTreeSet;

impl Ledger {
    /// Recounts all counters from the jobs in the ledger.
    pub fn recount(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        let mut fresh = Ledger::new(self.rules());
        fresh.accounts = std::mem::take(&mut self.accounts).with_zero_counters();
        (fresh.stopped, fresh.charges) =
            (std::mem::take(&mut self.stopped), std::mem::take(&mut self.charges));
        *self = fresh;
        for (id, row) in jobs.into_jobs() {
            self.insert(id, *row.job);
        }
    }

    /// Describes each difference between the counters and a recount, with its association. A difference is a bug.
    pub fn drift(&self) -> Vec<(AssociationId, String)> {
        let mut fresh = self.clone();
        fresh.recount();
        let live: BTreeSet<AssociationId> =
            self.jobs.values().filter_map(|row| row.job.association()).collect();
        let mut drift = Vec::new();
        for &id in live.union(self.held.all()) {
            let stored = self.accounts.get(id);
            let recounted = fresh.accounts.get(id);
            let (have, counted) = (&stored.usage, &recounted.usage);
            if !have.equals(counted) {
                drift.push((id, format!("counters: stored {have:?}, recounted {counted:?}")));
            }
            for scope in stored.scope_ids.iter().flat_map(|ids| &ids.all) {
                let count_jobs = |ledger: &Ledger| {
                    let scope = ledger.accounts.scopes.get(*scope)?;
                    Some((scope.active_jobs, scope.counters.clone()))
                };
                let (have, counted) = (count_jobs(self), count_jobs(&fresh));
                if have != counted {
                    drift.push((id, format!("{scope:?}: stored {have:?}, recounted {counted:?}")));
                }
            }
            if stored.held != recounted.held || stored.unread != recounted.unread {
                drift.push((id, "lists of held jobs".to_owned()));
            }
            if stored.counted != recounted.counted || stored.before_sched != recounted.before_sched {
                drift.push((id, "lists of jobs".to_owned()));
            }
        }
        // A waiting list must have exactly the associations that store a position in it.
        let places = || self.accounts.iter().flat_map(|(_, account)| account.waiting.places());
        let scopes = || self.accounts.scopes.iter();
        let from_accounts: BTreeSet<_> = places().map(|(scope, key, _)| (scope, key)).collect();
        let from_scopes =
            scopes().flat_map(|(id, scope)| scope.line.ids().map(move |key| (id, key))).collect();
        let wrong = from_accounts.symmetric_difference(&from_scopes);
        drift.extend(wrong.map(|(id, key)| (key.association, format!("position in waiting list {id:?}"))));
        let from_accounts: BTreeSet<_> =
            places().map(|(id, key, since)| (id, since, key.association)).collect();
        let from_scopes = scopes().flat_map(|(id, scope)| scope.since.iter().map(move |it| (id, it.0, it.1)));
        let from_scopes = from_scopes.collect();
        let wrong = from_accounts.symmetric_difference(&from_scopes);
        drift.extend(wrong.map(|(id, _, of)| (*of, format!("start of the wait in {id:?}"))));
        drift.extend(self.overtaken.drift(&self.accounts));
        // An association without jobs in the ledger must have counters of 0.
        let stale = self
            .accounts
            .iter()
            .filter(|(id, account)| !live.contains(id) && !account.usage.equals(&Usage::default()));
        drift.extend(stale.map(|(id, _)| (id, "counts without jobs".to_owned())));
        drift
    }
}
