// SPDX-License-Identifier: LGPL-3.0-only
//! Finds the association of a job: its user in the bank that the job names, or in the user's default bank if the job
//! names none.

use std::collections::HashMap;

use super::resources;
use crate::store::{EndedJob, Ledger};

/// Indices of associations by the fields of a job.
pub(super) struct AccountIndex<'a> {
    pub(super) banks: HashMap<&'a str, usize>,
    by_user: HashMap<(i64, usize), usize>,
    defaults: HashMap<i64, usize>,
    ledger: &'a Ledger,
}

impl<'a> AccountIndex<'a> {
    /// Builds the indices. If several associations have the same user id and bank, the last one counts, as in the
    /// plugin.
    pub(super) fn new(ledger: &'a Ledger) -> AccountIndex<'a> {
        let accounts = || ledger.accounts.iter().enumerate();
        let defaults = accounts().filter(|(_, account)| account.is_default);
        AccountIndex {
            banks: ledger.banks.iter().enumerate().rev().map(|(at, bank)| (bank.name.as_str(), at)).collect(),
            by_user: accounts().map(|(at, account)| ((account.userid, account.bank), at)).collect(),
            defaults: defaults.map(|(at, account)| (account.userid, at)).collect(),
            ledger,
        }
    }

    /// Adds user ids that associations had before. If an association of the bank has the user id now, jobs with
    /// this id belong to that association. A user id that several associations had is skipped.
    pub(super) fn add_former_userids(&mut self, former: &[(i64, usize)]) {
        let mut by_user: HashMap<(i64, usize), Option<usize>> = HashMap::new();
        let mut defaults: HashMap<i64, Option<usize>> = HashMap::new();
        for (userid, at) in former {
            let Some(account) = self.ledger.accounts.get(*at) else { continue };
            let keep_if_same = |index: &mut Option<usize>| *index = index.filter(|index| index == at);
            by_user.entry((*userid, account.bank)).and_modify(keep_if_same).or_insert(Some(*at));
            if account.is_default {
                defaults.entry(*userid).and_modify(keep_if_same).or_insert(Some(*at));
            }
        }
        for (key, at) in by_user.into_iter().filter_map(|(key, at)| Some((key, at?))) {
            self.by_user.entry(key).or_insert(at);
        }
        for (userid, at) in defaults.into_iter().filter_map(|(userid, at)| Some((userid, at?))) {
            self.defaults.entry(userid).or_insert(at);
        }
    }

    /// Returns the index of the job's association in the ledger, and true if the job names no bank and counts in the
    /// default bank.
    pub(super) fn find_account(&self, job: &EndedJob<'_>) -> Option<(usize, bool)> {
        let jobspec_bank = job.jobspec.filter(|_| job.bank.is_none()).and_then(resources::read_bank);
        match job.bank.or(jobspec_bank.as_deref()) {
            None | Some("") => self.defaults.get(&job.userid).map(|at| (*at, true)),
            Some(bank) => {
                let bank = *self.banks.get(bank)?;
                self.by_user.get(&(job.userid, bank)).map(|at| (*at, false))
            }
        }
    }
}
