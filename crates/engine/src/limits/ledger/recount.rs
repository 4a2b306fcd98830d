// SPDX-License-Identifier: LGPL-3.0-only
//! Recounts of all counters, and comparisons with those in use.

use super::{Account, Ledger};
use crate::accounts::AssociationId;
use std::collections::BTreeSet;

impl Ledger {
    /// Recounts all counters from the live jobs.
    pub fn recount(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        let mut fresh = Ledger::new(self.rules());
        fresh.accounts = std::mem::take(&mut self.accounts).emptied();
        fresh.stopped = std::mem::take(&mut self.stopped);
        *self = fresh;
        for (id, row) in jobs.into_jobs() {
            self.insert(id, *row.job);
        }
    }

    /// Returns each difference between the counters and a recount, with its association. A difference is a bug.
    pub fn drift(&self) -> Vec<(AssociationId, String)> {
        let mut fresh = self.clone();
        fresh.recount();
        let live: BTreeSet<AssociationId> =
            self.jobs.values().filter_map(|row| row.job.association()).collect();
        let mut drift = Vec::new();
        let empty = Account::default();
        for &id in live.union(self.held.all()) {
            let have = self.accounts.get(id).unwrap_or(&empty);
            let want = fresh.accounts.get(id).unwrap_or(&empty);
            if !have.usage.equals(&want.usage) {
                drift.push((id, format!("counters: have {:?}, recounted {:?}", have.usage, want.usage)));
            }
            for (scope, counted) in self.accounts.all_scopes_of(id) {
                let recounted = fresh.accounts.scopes.get(scope).map(|scope| &scope.counters);
                if recounted != Some(&counted.counters) {
                    drift.push((
                        id,
                        format!("{scope:?}: have {:?}, recounted {recounted:?}", counted.counters),
                    ));
                }
            }
            if have.held != want.held || have.unread != want.unread {
                drift.push((id, "lines of held jobs".to_owned()));
            }
            if have.counted != want.counted || have.before_sched != want.before_sched {
                drift.push((id, "lists of jobs".to_owned()));
            }
        }
        // The lines of scopes hold the associations that wait there, and no others.
        let places = || self.accounts.iter().flat_map(|(_, account)| account.waiting.places());
        let scopes = || self.accounts.scopes.iter();
        let said: BTreeSet<_> = places().map(|(scope, key, _)| (scope, key)).collect();
        let lines = scopes().flat_map(|(id, scope)| scope.line.ids().map(move |key| (id, key))).collect();
        let wrong = said.symmetric_difference(&lines);
        drift.extend(wrong.map(|(id, key)| (key.association, format!("its place in the line of {id:?}"))));
        let said: BTreeSet<_> = places().map(|(id, key, since)| (id, since, key.association)).collect();
        let lines = scopes().flat_map(|(id, scope)| scope.since.iter().map(move |it| (id, it.0, it.1)));
        let lines = lines.collect();
        let wrong = said.symmetric_difference(&lines);
        drift.extend(wrong.map(|(id, _, of)| (*of, format!("since when it waits in {id:?}"))));
        drift.extend(self.overtaken.drift(&self.accounts));
        // An association without live jobs must count nothing.
        let stale = self
            .accounts
            .iter()
            .filter(|(id, account)| !live.contains(id) && !account.usage.equals(&empty.usage));
        drift.extend(stale.map(|(id, _)| (id, "counts without jobs".to_owned())));
        drift
    }
}
