// SPDX-License-Identifier: LGPL-3.0-only
//! All counters worked out anew, and compared with those in use.

use super::Usage;
use super::ledger::{Account, Ledger};
use crate::accounts::AssociationId;
use std::collections::BTreeSet;

impl Ledger {
    /// Recounts everything from the jobs; what was there before is forgotten.
    pub fn recount(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        let mut fresh = Ledger::new(self.rules());
        fresh.groups = std::mem::take(&mut self.groups).emptied();
        (fresh.epoch, fresh.overtaken_so_far) = (self.epoch, self.overtaken_so_far);
        let member_of = self.accounts.iter_mut().map(|account| account.member_of.take());
        fresh.accounts = member_of.map(|member_of| Account { member_of, ..Account::default() }).collect();
        *self = fresh;
        for (id, row) in jobs.into_jobs() {
            self.insert(id, *row.job);
        }
    }

    /// Associations whose counters or lines differ from a recount, with what differs. Empty, always.
    pub fn drift(&self) -> Vec<(AssociationId, String)> {
        let mut fresh = self.clone();
        fresh.recount();
        let mut ids: BTreeSet<AssociationId> =
            self.jobs.values().filter_map(|row| row.job.association()).collect();
        ids.extend(self.in_line.iter());
        let mut drift = Vec::new();
        let empty = Account::default();
        for id in ids {
            let have = self.account_of(id).unwrap_or(&empty);
            let want = fresh.account_of(id).unwrap_or(&empty);
            if !have.usage.equals(&want.usage) {
                drift.push((id, format!("counters: have {:?}, recounted {:?}", have.usage, want.usage)));
            }
            for group in self.member_of(id) {
                let of = |ledger: &Ledger| ledger.groups.get(*group).map(|group| group.meters.clone());
                if of(self) != of(&fresh) {
                    drift.push((id, format!("{group:?}: have {:?}, recounted {:?}", of(self), of(&fresh))));
                }
            }
            if have.held != want.held || have.unread != want.unread {
                drift.push((id, "lines of held jobs".to_owned()));
            }
            if have.counted != want.counted || have.before_sched != want.before_sched {
                drift.push((id, "lists of jobs".to_owned()));
            }
        }
        // Who waits for room that is shared stands where its account says, and nowhere else.
        let accounts = self.accounts.iter().flat_map(|account| account.waiting.lines.iter().copied());
        let (said, stands): (BTreeSet<_>, BTreeSet<_>) = (accounts.collect(), self.groups.lines().collect());
        let wrong = said.symmetric_difference(&stands);
        drift.extend(
            wrong.map(|(group, key)| (key.association, format!("its place in the line of {group:?}"))),
        );
        let stands: BTreeSet<_> = stands.iter().map(|(group, key)| (*group, key.association)).collect();
        let since: BTreeSet<_> = self.groups.since().collect();
        let wrong = stands.symmetric_difference(&since);
        drift
            .extend(wrong.map(|(group, id)| (*id, format!("since when it stands in the line of {group:?}"))));
        drift.extend(self.protection_drift());
        // An association without live jobs must count nothing.
        let idle = |account: &Account| account.usage.equals(&Usage::default());
        let stale = |id: &AssociationId| self.account_of(*id).is_some_and(|a| !idle(a));
        let live: BTreeSet<AssociationId> =
            self.jobs.values().filter_map(|row| row.job.association()).collect();
        for index in 0..self.accounts.len() {
            let Some(id) = AssociationId::from_index(index) else { continue };
            if !live.contains(&id) && stale(&id) {
                drift.push((id, "counts without jobs".to_owned()));
            }
        }
        drift
    }
}
