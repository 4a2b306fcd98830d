// SPDX-License-Identifier: LGPL-3.0-only
//! What hourly pushes add to the content store for the sake of what is remembered, by policy.
//!
//! `GROWTH_ASSOCIATIONS=100000 GROWTH_PUSHES=168 cargo test --release growth:: -- --nocapture` prints the figures of a week.

use mf_priority::fairshare::{Association, Bank, Options, Policy, Shares, Site as Shape, Tree};
use serde_json::{Value, json};

use super::push::parts;
use super::{OWNER, SO, Site, association, topic};

const POLICIES: [Policy; 5] =
    [Policy::WeightedWalk, Policy::FairTree, Policy::Classic, Policy::DepthOblivious, Policy::Pbs];
const NOW: f64 = 1.7e9;

/// Processor time of this thread: what a turn costs, whoever else wants the processor.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) fills the structure.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn given(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A site with its database, in which every hour some have new jobs.
struct Database {
    policy: Policy,
    tree: Tree,
    usage: Vec<f64>,
    counted: Vec<f64>,
    hour: usize,
    seed: u64,
}

fn bank(user: usize) -> usize {
    user % 997 % 100
}

impl Database {
    fn new(many: usize, policy: Policy) -> Database {
        let bank_of = |name: String, parent: Option<&str>, shares| {
            let parent = parent.map(str::to_owned);
            Bank { name, parent, shares: Shares::Count(shares), usage: None }
        };
        let mut banks = vec![bank_of("root".to_owned(), None, 1)];
        banks.extend((0..100).map(|bank| bank_of(format!("bank{bank:03}"), Some("root"), 1 + bank % 7)));
        let associations = (0..many).map(|user| Association {
            user: format!("u{user:06}"),
            bank: format!("bank{:03}", bank(user)),
            shares: Shares::Count(1 + user as u64 % 9),
            usage: Some(0.0),
            active: true,
        });
        let shape = Shape { banks, associations: associations.collect() };
        let tree = Tree::build(&shape).unwrap();
        let mut it = Database {
            policy,
            tree,
            usage: vec![0.0; many],
            counted: vec![NOW - 1e6; many],
            hour: 0,
            seed: 0x9e37_79b9_7f4a_7c15,
        };
        for user in 0..many {
            it.usage[user] = it.random(1_000_000_000) as f64 / 7.0;
        }
        it
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    /// An hour: so many use something. At the end of a period all usages are halved.
    fn hour(&mut self, some: usize, is_boundary: bool) {
        self.hour += 1;
        if is_boundary {
            self.usage.iter_mut().for_each(|usage| *usage *= 0.5);
        }
        for _ in 0..some {
            let user = self.random(self.usage.len() as u64) as usize;
            self.usage[user] += self.random(3_600_000) as f64 / 3.0;
            self.counted[user] = NOW + 3600.0 * self.hour as f64 - self.random(3600) as f64 / 7.0;
        }
    }

    /// What `flux fairshare push` sends: usages, and the fair-shares that were reckoned of them.
    fn document(&mut self) -> Value {
        let leaves: Vec<_> = self.tree.leaves().collect();
        for leaf in &leaves {
            let user = self.tree.list_index(*leaf);
            self.tree.set_usage(*leaf, self.usage[user]).unwrap();
        }
        let ranking = self.tree.rank(self.policy, &Options::default()).unwrap();
        let mut records = vec![Value::Null; leaves.len()];
        for leaf in leaves {
            let user = self.tree.list_index(leaf);
            let place = json!({
                "fairshare": ranking.fairshare(leaf).unwrap(), "username": self.tree.name(leaf), "shares": 1 + user % 9,
                "usage": self.usage[user], "counted_until": self.counted[user], "max_nodes": user % 5,
            });
            records[user] = association(10_000 + user as u32, &format!("bank{:03}", bank(user)), place);
        }
        let root = json!({"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1});
        let banks = (0..100).map(|bank| {
            json!({"bank": format!("bank{bank:03}"), "priority": 0, "parent": "root", "shares": 1 + bank % 7, "active": 1})
        });
        json!({
            "associations": records, "queues": [], "projects": [{"project": "*"}],
            "banks": Value::from_iter([root].into_iter().chain(banks)), "priority_factors": [],
            "tree": {"policy": self.policy.to_string(), "at": NOW + 3600.0 * self.hour as f64, "half_life": 604_800,
                "node_weight": 1, "core_weight": 0, "gpu_weight": 0},
        })
    }
}

/// Carries out what is due, and says how long the longest turn took.
fn settle(site: &Site) -> f64 {
    let mut longest: f64 = 0.0;
    loop {
        let start = now();
        let is_more = site.host.step();
        longest = longest.max(now() - start);
        if !is_more {
            return longest;
        }
    }
}

fn push(site: &Site, document: &Value) {
    let call = |method: &str, payload: &Value| {
        let answer = site.host.request_now(&topic(method), Some(&payload.to_string()), OWNER).unwrap();
        serde_json::from_str::<Value>(&answer.unwrap()).unwrap()
    };
    let number = call("policy_begin", &json!({}))["push"].clone();
    for mut part in parts(document, 1000) {
        part["push"] = number.clone();
        call("policy_part", &part);
    }
    call("policy_commit", &json!({ "push": number }));
}

/// The fair-shares that associations were pushed with, as the plugin has them when it does not go by the tree.
fn fairshares(site: &Site) -> Vec<u64> {
    site.host.reload_config(&json!({"fairshare": {"live": false}})).unwrap();
    site.host.settle();
    let query = site.query();
    site.host.reload_config(&json!({})).unwrap();
    site.host.settle();
    let users = query["mf_priority_map"].as_array().unwrap();
    let banks = users.iter().flat_map(|user| user["banks"].as_array().unwrap());
    banks.map(|bank| bank["fairshare"].as_f64().unwrap().to_bits()).collect()
}

#[test]
fn a_push_adds_about_what_it_changes() {
    let (many, pushes) = (given("GROWTH_ASSOCIATIONS", 3_000), given("GROWTH_PUSHES", 12));
    let some = many.div_ceil(100);
    let mut over = Vec::new();
    for policy in POLICIES {
        let mut database = Database::new(many, policy);
        let site = Site::bare();
        push(&site, &database.document());
        settle(&site);
        let first = site.host.kvs_stored();
        let (mut longest, mut largest, mut smallest) = (0.0_f64, 0, u64::MAX);
        for hour in 0..pushes {
            // One boundary in a week.
            database.hour(some, hour == 167 / 2);
            push(&site, &database.document());
            let before = site.host.kvs_stored();
            // The first turns are those of the refresh, which any push begins: they are not what is asked here.
            longest = longest.max(settle(&site));
            let grown = site.host.kvs_stored() - before;
            (largest, smallest) = (largest.max(grown), smallest.min(grown));
        }
        let grown = site.host.kvs_stored() - first;
        let each = grown / pushes as u64;
        let before = fairshares(&site);
        site.host.remove(SO).unwrap();
        let start = now();
        site.host.load(&site.so.path(), None).unwrap();
        let turn = settle(&site);
        let load = now() - start;
        assert_eq!(fairshares(&site), before, "{policy}");
        println!(
            "{policy}: {many} associations, {pushes} pushes: first {first}, each {each} ({smallest} to {largest}), all {grown} bytes; \
             longest turn {:.1} ms, load {:.0} ms, of it longest turn {:.1} ms",
            longest * 1e3,
            load * 1e3,
            turn * 1e3
        );
        // A line has at most 80 bytes; twice that, the lists and the directories.
        let bound = pushes as u64 * (2 * 80 * some as u64 + 12_000) + if pushes > 83 { first } else { 0 };
        if grown >= bound {
            over.push(format!("{policy}: {grown} bytes, fewer than {bound} are expected"));
        }
    }
    assert!(over.is_empty(), "{over:?}");
}
