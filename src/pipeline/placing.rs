// SPDX-License-Identifier: LGPL-3.0-only
//! Whose usage a job is: that of the association it names a bank for, else of its user's default bank.

use std::collections::HashMap;

use super::resources;
use crate::store::{EndedJob, Ledger};

/// Associations by what jobs tell of them.
pub(super) struct Placing<'a> {
    banks: HashMap<&'a str, usize>,
    by_user: HashMap<(i64, usize), usize>,
    defaults: HashMap<i64, usize>,
}

impl<'a> Placing<'a> {
    /// If several associations have one user id and one bank, jobs count in the last one, as in the plugin.
    pub(super) fn new(ledger: &'a Ledger) -> Placing<'a> {
        let accounts = || ledger.accounts.iter().enumerate();
        let defaults = accounts().filter(|(_, account)| account.is_default);
        Placing {
            banks: ledger.banks.iter().enumerate().rev().map(|(at, bank)| (bank.name.as_str(), at)).collect(),
            by_user: accounts().map(|(at, account)| ((account.userid, account.bank), at)).collect(),
            defaults: defaults.map(|(at, account)| (account.userid, at)).collect(),
        }
    }

    /// Whose it is, by its place in the ledger, and whether that is so because the job names no bank.
    pub(super) fn of(&self, job: &EndedJob<'_>) -> Option<(usize, bool)> {
        let named = job.jobspec.and_then(resources::bank);
        match job.bank.or(named.as_deref()) {
            None | Some("") => self.defaults.get(&job.userid).map(|at| (*at, true)),
            Some(bank) => {
                let bank = *self.banks.get(bank)?;
                self.by_user.get(&(job.userid, bank)).map(|at| (*at, false))
            }
        }
    }
}
