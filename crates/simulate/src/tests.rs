// SPDX-License-Identifier: LGPL-3.0-only
//! Simulations of generated sites: properties of any replay, and known results of queueing theory.

mod budgets;
mod properties;
mod queues;

use std::sync::atomic::AtomicU64;

use super::host::Host;
use super::{Party, Scenario, Scheduler, Trace};
use fairshare::accrual::HalfLife;
use fairshare::periods::Weights;
use fairshare::{self, Options};
use fairshare_engine::accounts::{Association, AssociationRecord, ConfigPatch, SiteRecords, ZeroScore};
use fairshare_engine::engine::Settings;
use fairshare_engine::ids::{BankName, Limit, UserId};
use fairshare_engine::standing::{Bank, Leaf, Rule, SitePart, Watermark};

const UNLIMITED: Limit = Limit(2_147_483_647);
/// Half-life in seconds.
const HALF_LIFE: f64 = 50_000.0;

/// Random numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number above 0, up to 1.
    fn fraction(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.fraction().ln()
    }

    fn generate_number_below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn make_owner_of_trace_job(user: u32, bank: &str) -> Party {
    Party { user: UserId(user), bank: bank.into(), queue: None }
}

/// Makes a scenario without limits from banks below the root (name, shares) and users (id, bank, shares).
fn make_scenario(cores: u64, banks: &[(&str, u64)], users: &[(u32, &str, u64)]) -> Scenario {
    let root: BankName = "root".into();
    let bank = |name: &str, parent: Option<&BankName>, shares| Bank {
        name: name.into(),
        parent: parent.cloned(),
        shares,
        active: true,
    };
    let associations = users.iter().map(|&(user, bank, _)| AssociationRecord {
        association: Association {
            user: UserId(user),
            bank: bank.into(),
            max_running_jobs: UNLIMITED,
            max_active_jobs: UNLIMITED,
            max_sched_jobs: UNLIMITED,
            max_nodes: UNLIMITED,
            max_cores: UNLIMITED,
            queues: [].into(),
            projects: [].into(),
            def_project: None,
            active: true,
        },
        fairshare: 0.5,
        def_bank: bank.into(),
    });
    let leaves = users.iter().map(|&(user, bank, shares)| Leaf {
        user: Some(UserId(user)),
        name: format!("user{user}").into(),
        bank: bank.into(),
        shares,
        active: true,
        usage: Some(0.0),
        counted: Watermark::through(0.0),
    });
    let rule = Rule {
        instant: 0.0,
        half_life: HalfLife::new(HALF_LIFE).unwrap(),
        reset: 2_419_200.0,
        weights: Weights { node: 0.0, core: 1.0, gpu: 0.0 },
        policy: fairshare::Policy::FairTree,
        options: Options::default(),
        replaces_all: false,
    };
    let below = banks.iter().map(|&(name, shares)| bank(name, Some(&root), shares));
    Scenario {
        policy: SiteRecords {
            associations: associations.collect(),
            config: ConfigPatch { zero_score: Some(ZeroScore::Floor), ..ConfigPatch::default() },
            ..SiteRecords::default()
        },
        site: SitePart {
            rule: Some(rule),
            banks: std::iter::once(bank("root", None, 1)).chain(below).collect(),
            associations: leaves.collect(),
            ..SitePart::default()
        },
        settings: Settings { remember: false, ..Settings::default() },
        scheduler: Scheduler::Fcfs,
        depth: usize::MAX,
        nodes: cores,
        cores,
    }
}

/// Sets all weights to 0, so that all jobs have the same priority and start in the order of submission.
fn remove_weights(mut scenario: Scenario) -> Scenario {
    let none = ["fairshare", "queue", "bank", "urgency"].map(|factor| (factor.to_owned(), 0));
    scenario.policy.weights = none.to_vec();
    scenario
}

/// Half of the site belongs to bank a, which has one user and bank c. The user has a quarter of this half.
#[test]
fn the_promised_share_of_a_bank_is_without_the_banks_below() {
    let mut site = make_scenario(4, &[("a", 1), ("b", 1)], &[(1, "a", 1), (2, "b", 5), (3, "c", 1)]).site;
    let (name, parent) = ("c".into(), Some("a".into()));
    site.banks.push(Bank { name, parent, shares: 3, active: true });
    let shares = super::delivery::bank_shares(&site);
    let shares: Vec<(&str, f64)> = shares.iter().map(|(bank, share)| (bank.as_str(), *share)).collect();
    assert_eq!(shares, [("a", 0.125), ("b", 0.5), ("c", 0.375), ("root", 0.0)]);
}

fn make_host(trace: &Trace, scenario: Scenario) -> Host<'_> {
    static DONE: AtomicU64 = AtomicU64::new(0);
    Host::new(trace, scenario, &DONE).unwrap()
}
