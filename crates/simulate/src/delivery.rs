// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the share of each bank, and the core-seconds that it got while it had jobs.

use std::collections::{BTreeMap, HashMap};

use super::BankShares;
use fairshare_engine::ids::BankName;
use fairshare_engine::standing::{Bank, SitePart};

/// Returns the share of each bank's own associations in the whole site: the fraction of the shares right below the bank,
/// times the fractions of the bank and of the banks above among their siblings.
pub(super) fn bank_shares(site: &SitePart) -> BankShares {
    let mut below: BTreeMap<&BankName, f64> = BTreeMap::new();
    for bank in site.banks.iter().filter(|bank| bank.active) {
        if let Some(parent) = &bank.parent {
            *below.entry(parent).or_default() += bank.shares as f64;
        }
    }
    let mut own: BTreeMap<&BankName, f64> = BTreeMap::new();
    for leaf in site.associations.iter().filter(|leaf| leaf.active) {
        *own.entry(&leaf.bank).or_default() += leaf.shares as f64;
        *below.entry(&leaf.bank).or_default() += leaf.shares as f64;
    }
    let by_name: HashMap<&BankName, &Bank> = site.banks.iter().map(|bank| (&bank.name, bank)).collect();
    let share_of_site = |bank: &Bank| {
        // The jobs of the banks below do not count for this bank.
        let [own, all] = [&own, &below].map(|shares| shares.get(&bank.name).copied().unwrap_or(0.0));
        let mut share = if all > 0.0 { own / all } else { 0.0 };
        let mut at = Some(bank);
        // The engine rejects cycles, but this loop must end in any case.
        for _ in 0..by_name.len() {
            let Some((bank, parent)) = at.and_then(|bank| Some((bank, bank.parent.as_ref()?))) else { break };
            let all = below.get(parent).copied().unwrap_or(0.0);
            share *= if all > 0.0 && bank.active { bank.shares as f64 / all } else { 0.0 };
            at = by_name.get(parent).copied();
        }
        share
    };
    site.banks.iter().map(|bank| (bank.name.clone(), share_of_site(bank))).collect()
}

/// The usage of one bank, in core-seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// Core-seconds that the bank's jobs used.
    pub(super) own: f64,
    /// Core-seconds that the jobs of all banks used while this bank had jobs.
    pub(super) all: f64,
    active: u32,
    /// The core-seconds of all banks when this bank last changed from no jobs to one.
    since: f64,
}

/// Measures the use of cores over time.
#[derive(Debug, Default)]
pub(super) struct CoreUsageMeter {
    busy: u64,
    /// Core-seconds until `now`.
    total: f64,
    now: f64,
    banks: Vec<Delivered>,
}

impl CoreUsageMeter {
    pub(super) fn new(banks: usize, now: f64) -> CoreUsageMeter {
        CoreUsageMeter { now, banks: vec![Delivered::default(); banks], ..CoreUsageMeter::default() }
    }

    /// Advances the time.
    pub(super) fn advance_to(&mut self, now: f64) {
        self.total += self.busy as f64 * (now - self.now);
        self.now = now;
    }

    /// Records that the cluster accepted a job of a bank.
    pub(super) fn add_job(&mut self, bank: usize) {
        let total = self.total;
        let Some(bank) = self.banks.get_mut(bank) else { return };
        if bank.active == 0 {
            bank.since = total;
        }
        bank.active += 1;
    }

    /// Records the end of a job. The job belonged to `bank` and used `used` core-seconds.
    pub(super) fn remove_job(&mut self, bank: usize, used: f64) {
        let total = self.total;
        let Some(bank) = self.banks.get_mut(bank) else { return };
        bank.own += used;
        bank.active = bank.active.saturating_sub(1);
        if bank.active == 0 {
            bank.all += total - bank.since;
        }
    }

    pub(super) fn add_cores(&mut self, cores: u32) {
        self.busy += u64::from(cores);
    }

    pub(super) fn remove_cores(&mut self, cores: u32) {
        self.busy = self.busy.saturating_sub(cores.into());
    }

    /// Returns the core-seconds of all jobs, and the usage of each bank.
    pub(super) fn into_usage(mut self) -> (f64, Vec<Delivered>) {
        let total = self.total;
        for bank in self.banks.iter_mut().filter(|bank| bank.active > 0) {
            bank.all += total - bank.since;
        }
        (total, self.banks)
    }

    #[cfg(test)]
    pub(super) fn busy(&self) -> u64 {
        self.busy
    }
}
