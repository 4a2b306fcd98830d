// SPDX-License-Identifier: LGPL-3.0-only
//! What banks were promised, and what they got while they wanted any.

use std::collections::{BTreeMap, HashMap};

use super::Promised;
use fairshare::Shares;
use fairshare_engine::ids::BankName;
use fairshare_engine::standing::{Bank, SitePart};

/// Of each bank its part of the whole: the product of its part among its siblings and those of the banks above.
pub(super) fn promised(site: &SitePart) -> Promised {
    let count = |shares: Shares| match shares {
        Shares::Count(shares) => shares as f64,
        Shares::Parent => 0.0,
    };
    let mut below: BTreeMap<&BankName, f64> = BTreeMap::new();
    for bank in site.banks.iter().filter(|bank| bank.active) {
        if let Some(parent) = &bank.parent {
            *below.entry(parent).or_default() += count(bank.shares);
        }
    }
    for leaf in site.associations.iter().filter(|leaf| leaf.active) {
        *below.entry(&leaf.bank).or_default() += count(leaf.shares);
    }
    let by_name: HashMap<&BankName, &Bank> = site.banks.iter().map(|bank| (&bank.name, bank)).collect();
    let part = |bank: &Bank| {
        let mut part = 1.0;
        let mut at = Some(bank);
        // The engine has refused trees that go round; here nothing may hang on that.
        for _ in 0..by_name.len() {
            let Some((bank, parent)) = at.and_then(|bank| Some((bank, bank.parent.as_ref()?))) else { break };
            let all = below.get(parent).copied().unwrap_or(0.0);
            part *= if all > 0.0 && bank.active { count(bank.shares) / all } else { 0.0 };
            at = by_name.get(parent).copied();
        }
        part
    };
    site.banks.iter().map(|bank| (bank.name.clone(), part(bank))).collect()
}

/// What one bank got, in core-seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// Its jobs.
    pub(super) own: f64,
    /// All jobs while it wanted any.
    pub(super) all: f64,
    active: u32,
    /// What all had got when it began to want some.
    since: f64,
}

/// Cores in use over time.
#[derive(Debug, Default)]
pub(super) struct Meter {
    busy: u64,
    /// Core-seconds up to `now`.
    total: f64,
    now: f64,
    banks: Vec<Delivered>,
}

impl Meter {
    pub(super) fn new(banks: usize, now: f64) -> Meter {
        Meter { now, banks: vec![Delivered::default(); banks], ..Meter::default() }
    }

    /// Time goes on.
    pub(super) fn go_to(&mut self, now: f64) {
        self.total += self.busy as f64 * (now - self.now);
        self.now = now;
    }

    /// A job of a bank was taken.
    pub(super) fn wanted(&mut self, bank: usize) {
        let total = self.total;
        let Some(bank) = self.banks.get_mut(bank) else { return };
        if bank.active == 0 {
            bank.since = total;
        }
        bank.active += 1;
    }

    /// A job is gone, and had used so many core-seconds.
    pub(super) fn gone(&mut self, bank: usize, used: f64) {
        let total = self.total;
        let Some(bank) = self.banks.get_mut(bank) else { return };
        bank.own += used;
        bank.active = bank.active.saturating_sub(1);
        if bank.active == 0 {
            bank.all += total - bank.since;
        }
    }

    pub(super) fn start(&mut self, cores: u32) {
        self.busy += u64::from(cores);
    }

    pub(super) fn end(&mut self, cores: u32) {
        self.busy = self.busy.saturating_sub(cores.into());
    }

    /// Core-seconds of all, and what each bank got.
    pub(super) fn read(mut self) -> (f64, Vec<Delivered>) {
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
