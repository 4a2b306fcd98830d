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
    ledger: &'a Ledger,
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
            ledger,
        }
    }

    /// Also places jobs of user ids that associations had before. A user id that somebody has in the bank now is that of the present
    /// holder. Jobs of one that several had before have no place.
    pub(super) fn add_former(&mut self, former: &[(i64, usize)]) {
        let mut by_user: HashMap<(i64, usize), Option<usize>> = HashMap::new();
        let mut defaults: HashMap<i64, Option<usize>> = HashMap::new();
        for (userid, at) in former {
            let Some(account) = self.ledger.accounts.get(*at) else { continue };
            let only = |held: &mut Option<usize>| *held = held.filter(|held| held == at);
            by_user.entry((*userid, account.bank)).and_modify(only).or_insert(Some(*at));
            if account.is_default {
                defaults.entry(*userid).and_modify(only).or_insert(Some(*at));
            }
        }
        for (key, at) in by_user.into_iter().filter_map(|(key, at)| Some((key, at?))) {
            self.by_user.entry(key).or_insert(at);
        }
        for (userid, at) in defaults.into_iter().filter_map(|(userid, at)| Some((userid, at?))) {
            self.defaults.entry(userid).or_insert(at);
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
