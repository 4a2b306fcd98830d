// SPDX-License-Identifier: LGPL-3.0-only
//! A push must write only the chunks of the snapshot that it changes, and the snapshot must be readable after any sequence of pushes. These
//! tests also measure how much hourly pushes add to the content store, for each ranking policy.
//!
//! `GROWTH_ASSOCIATIONS=100000 GROWTH_PUSHES=168 cargo test --release growth:: -- --nocapture` prints the
//! growth in a week of hourly pushes. [`a_week_of_syncs_prints_the_growth_of_the_content_store`] prints the growth in a week of `flux fairshare
//! sync`.

use std::collections::BTreeMap;

use fairshare::{Builder, Policy, Shares, Tree};
use fairshare_embedded::{Options, Order};
use serde_json::{Value, json};

use super::push::split_document;
use super::remember::{ENDED, MANIFEST, make_site_with_push, tree};
use super::{OWNER, SO, Site, association, job_in, plugin, topic};

const POLICIES: [Policy; 5] =
    [Policy::WeightedWalk, Policy::FairTree, Policy::Classic, Policy::DepthOblivious, Policy::Pbs];
const NOW: f64 = 1.7e9;

/// Returns the processor time of this thread, which does not depend on other processes.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) fills the structure.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the number in an environment variable, or `default`.
fn read_number_from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A database whose usages change each hour.
struct Database {
    policy: Policy,
    tree: Tree,
    usage: Vec<f64>,
    counted: Vec<f64>,
    hour: usize,
    /// The time of the usages, in seconds since the epoch.
    at: f64,
    half_life: f64,
    seed: u64,
}

fn bank_of_user(user: usize) -> usize {
    user % 997 % 100
}

impl Database {
    fn new(many: usize, policy: Policy) -> Database {
        let mut builder = Builder::default();
        builder.bank("root", None, Shares::Count(1), None, true);
        for bank in 0..100 {
            let shares = Shares::Count(1 + bank % 7);
            builder.bank(&format!("bank{bank:03}"), Some("root"), shares, None, true);
        }
        for user in 0..many {
            let (name, bank) = (format!("u{user:06}"), format!("bank{:03}", bank_of_user(user)));
            builder.association(&name, &bank, Shares::Count(1 + user as u64 % 9), Some(0.0), true);
        }
        let tree = builder.build().unwrap();
        let mut it = Database {
            policy,
            tree,
            usage: vec![0.0; many],
            counted: vec![NOW - 1e6; many],
            hour: 0,
            at: NOW,
            half_life: 604_800.0,
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

    /// Advances the time by an hour, and gives `some` users more usage. If a period ends (`is_boundary`), halves all usages first.
    fn hour(&mut self, some: usize, is_boundary: bool) {
        self.hour += 1;
        self.at = NOW + 3600.0 * self.hour as f64;
        if is_boundary {
            self.usage.iter_mut().for_each(|usage| *usage *= 0.5);
        }
        for _ in 0..some {
            let user = self.random(self.usage.len() as u64) as usize;
            self.usage[user] += self.random(3_600_000) as f64 / 3.0;
            self.counted[user] = NOW + 3600.0 * self.hour as f64 - self.random(3600) as f64 / 7.0;
        }
    }

    /// Returns the document of `flux fairshare push`, with usages and the fair-shares computed from them.
    fn document(&mut self) -> Value {
        let leaves: Vec<_> = self.tree.leaves().collect();
        for leaf in &leaves {
            let user = self.tree.find_input_index(*leaf);
            self.tree.set_usage(*leaf, self.usage[user]).unwrap();
        }
        let ranking = self.tree.rank(self.policy, &fairshare::Options::default()).unwrap();
        let mut records = vec![Value::Null; leaves.len()];
        for leaf in leaves {
            let user = self.tree.find_input_index(leaf);
            let place = json!({
                "fairshare": ranking.fairshare(leaf).unwrap(), "username": self.tree.name(leaf), "shares": 1 + user % 9,
                "usage": self.usage[user], "counted_until": self.counted[user], "max_nodes": 100 + user % 5,
            });
            records[user] =
                association(10_000 + user as u32, &format!("bank{:03}", bank_of_user(user)), place);
        }
        let root = json!({"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1});
        let banks = (0..100).map(|bank| {
            json!({"bank": format!("bank{bank:03}"), "priority": 0, "parent": "root", "shares": 1 + bank % 7, "active": 1})
        });
        json!({
            "associations": records, "queues": [], "projects": [{"project": "*"}],
            "banks": Value::from_iter([root].into_iter().chain(banks)), "priority_factors": [],
            "tree": {"policy": self.policy.to_string(), "at": self.at, "half_life": self.half_life,
                "node_weight": 1, "core_weight": 0, "gpu_weight": 0},
        })
    }
}

/// Runs the reactor until it has nothing to do, and returns the processor time of its longest turn.
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
    for mut part in split_document(document, 1000) {
        part["push"] = number.clone();
        call("policy_part", &part);
    }
    call("policy_commit", &json!({ "push": number }));
}

/// Returns the pushed fair-shares of the associations, which the plugin uses without live fair-share.
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
fn a_push_adds_only_the_changed_chunks_to_the_content_store() {
    let (many, pushes) = (
        read_number_from_environment("GROWTH_ASSOCIATIONS", 3_000),
        read_number_from_environment("GROWTH_PUSHES", 12),
    );
    let some = many.div_ceil(100);
    let mut over = Vec::new();
    for policy in POLICIES {
        let mut database = Database::new(many, policy);
        let site = Site::without_pushed_data();
        push(&site, &database.document());
        settle(&site);
        let first = site.host.count_stored_kvs_bytes();
        let (mut longest, mut largest, mut smallest) = (0.0_f64, 0, u64::MAX);
        for hour in 0..pushes {
            // If the test pushes for a week, one period ends in the middle of the week.
            database.hour(some, hour == 167 / 2);
            push(&site, &database.document());
            let before = site.host.count_stored_kvs_bytes();
            longest = longest.max(settle(&site));
            let grown = site.host.count_stored_kvs_bytes() - before;
            (largest, smallest) = (largest.max(grown), smallest.min(grown));
        }
        let grown = site.host.count_stored_kvs_bytes() - first;
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
        // Each push changes usages in all chunks. One usage takes at most 40 bytes in a chunk, and the lists and directories take less than 24 kB.
        let bound = pushes as u64 * (40 * many as u64 + 24_000);
        if grown >= bound {
            over.push(format!("{policy}: {grown} bytes, fewer than {bound} are expected"));
        }
    }
    assert!(over.is_empty(), "{over:?}");
}

/// Prints how much the content store grows in a week in which jobs end and `flux fairshare sync` pushes usages with continuous decay. A push comes
/// every GROWTH_EVERY seconds, and GROWTH_ACTIVE percent of the associations have usage.
#[test]
#[ignore = "takes minutes"]
fn a_week_of_syncs_prints_the_growth_of_the_content_store() {
    let many = read_number_from_environment("GROWTH_ASSOCIATIONS", 2_000);
    let (hours, every) =
        (read_number_from_environment("GROWTH_HOURS", 168), read_number_from_environment("GROWTH_EVERY", 30));
    // In each step, the jobs of the previous step end, and the same number of jobs start.
    let step = every.min(30);
    let each = (read_number_from_environment("GROWTH_JOBS", 20_000) * step).div_ceil(86_400);
    let active = many * read_number_from_environment("GROWTH_ACTIVE", 100) / 100;
    let mut database = Database::new(many, Policy::WeightedWalk);
    database.half_life = read_number_from_environment("GROWTH_HALF_LIFE", 604_800) as f64;
    database.usage.iter_mut().skip(active).for_each(|usage| *usage = 0.0);
    let left = if database.half_life > 0.0 { (-(step as f64) / database.half_life).exp2() } else { 1.0 };
    let options = Options { nodes: 4 * each, priority_default: false, ..Options::default() };
    let site = Site::with_options(plugin(), options);
    site.host.load(&site.so.path(), None).expect("the plugin loads");
    database.at = site.host.now();
    push(&site, &database.document());
    settle(&site);
    let first = site.host.count_stored_kvs_bytes();
    let (mut before, mut seconds) = (first, 0);
    let mut running: Vec<(usize, u64)> = Vec::new();
    for hour in 1..=hours {
        while seconds < hour * 3600 {
            database.usage.iter_mut().for_each(|usage| *usage *= left);
            for (user, id) in running.drain(..) {
                site.finish(id);
                database.usage[user] += step as f64;
                database.counted[user] = site.host.now();
            }
            for _ in 0..each {
                let user = database.random(active as u64) as usize;
                running.push((
                    user,
                    site.submit(&job_in(10_000 + user as u32, &format!("bank{:03}", bank_of_user(user)), 1)),
                ));
            }
            if seconds % every == 0 {
                database.at = site.host.now();
                push(&site, &database.document());
            }
            site.host.advance(step as f64);
            seconds += step;
        }
        let stored = site.host.count_stored_kvs_bytes();
        println!("hour {hour}: {} kB", (stored - before) / 1000);
        before = stored;
    }
    println!(
        "{many} associations, of which {active} have usage; {each} jobs end every {step} s, a push every {every} s: first push {} kB, \
         {hours} hours {} kB",
        first / 1000,
        (before - first) / 1000
    );
    assert!(!site.has_logged("is refused"));
    site.reload();
    assert!(site.has_data());
}

#[test]
fn a_write_contains_only_the_changed_chunks() {
    let site = make_site_with_push(&tree(1500, f64::from));
    let all = site.host.kvs_written();
    let count = site.host.kvs().len();
    site.ask("policy_update", &tree(1500, |user| f64::from(user) + f64::from(u8::from(user == 1234))));
    site.host.settle();
    // Each push also writes the manifest and the list of ended jobs, because the pushed tree contains the
    // time of the push.
    let lists = || (site.host.kvs()[MANIFEST].len() + site.host.kvs()[ENDED].len()) as u64;
    let changed = site.host.kvs_written() - all - lists();
    assert!(
        changed < 12_000,
        "{changed} of {all} bytes were written instead of the usages of one group and the list of groups"
    );
    assert_eq!(site.host.kvs().len(), count, "each new chunk replaces an old chunk");
    // An added user changes only the chunks that contain this user.
    let mut more = tree(1500, |user| f64::from(user) + f64::from(u8::from(user == 1234)));
    more["associations"].as_array_mut().unwrap().insert(7, association(999, "b1", json!({})));
    let before = site.host.kvs_written();
    site.ask("policy_update", &more);
    site.host.settle();
    let changed = site.host.kvs_written() - before - lists();
    assert!(
        changed < 110_000,
        "{changed} of {all} bytes were written instead of one group and the list of groups"
    );
    site.ask("policy_update", &tree(1500, |user| f64::from(user) / 2.0));
    site.host.settle();
    assert_eq!(site.host.kvs().len(), count, "chunks of the previous snapshot are removed");
    let before = site.pushed_data();
    site.reload();
    assert_eq!(site.pushed_data(), before);
}

#[test]
fn a_snapshot_is_restored_as_written_after_any_series_of_earlier_snapshots() {
    let site = make_site_with_push(&tree(900, f64::from));
    for round in 1..30_u32 {
        let mut next =
            tree(900, |user| f64::from(user) + f64::from(if user % 31 < round % 7 { round } else { 0 }));
        // Some users are added, some removed, and some get other limits.
        next["associations"]
            .as_array_mut()
            .unwrap()
            .retain(|one| one["userid"].as_u64().unwrap() % 97 != u64::from(round));
        for one in next["associations"].as_array_mut().unwrap().iter_mut().skip(round as usize).step_by(150) {
            one["max_nodes"] = json!(round);
        }
        site.ask("policy_update", &next);
        site.host.settle();
        let before = site.pushed_data();
        if round % 3 == 0 {
            site.reload();
        } else if round % 5 == 0 {
            site.host.restart(Order::Ascending).unwrap();
            site.host.settle();
        }
        assert_eq!(site.pushed_data(), before, "{round}");
    }
    assert!(!site.has_logged("is refused"));
    site.check();
}

#[test]
fn if_live_fair_share_is_off_the_plugin_uses_pushed_fair_shares() {
    use fairshare::Policy;
    let policies =
        [Policy::WeightedWalk, Policy::FairTree, Policy::Classic, Policy::DepthOblivious, Policy::Pbs];
    let shown = |site: &Site| {
        site.host.reload_config(&json!({"fairshare": {"live": false}})).unwrap();
        site.host.settle();
        site.pushed_data()["mf_priority_map"].clone()
    };
    for policy in policies {
        for ties in ["documented", "slurm-program"] {
            let site = Site::without_pushed_data();
            let mut document = tree(70, |user| f64::from(user % 13));
            document["tree"]["at"] = json!(site.host.now());
            document["tree"]["policy"] = json!(policy.to_string());
            document["tree"]["options"] = json!({"ties": ties});
            document["associations"][3]["active"] = json!(0);
            site.ask("policy_update", &document);
            site.host.settle();
            // Half of the users have the fair-share of the tree. The other users have a fair-share set by hand, and
            // user 999 is not in the tree.
            let by_tree = site.query()["mf_priority_map"].clone();
            let own = by_tree
                .as_array()
                .unwrap()
                .iter()
                .map(|user| (user["userid"].clone(), user["banks"][0]["fairshare"].clone()));
            let own: BTreeMap<String, Value> =
                own.map(|(user, fairshare)| (user.to_string(), fairshare)).collect();
            for one in document["associations"].as_array_mut().unwrap() {
                let user = one["userid"].as_u64().unwrap();
                if user % 2 == 0 {
                    one["fairshare"] = own[&user.to_string()].clone();
                }
            }
            let extra = association(999, "b1", json!({"fairshare": 0.123}));
            document["associations"].as_array_mut().unwrap().push(extra);
            site.ask("policy_update", &document);
            site.host.settle();
            let before = shown(&site);
            let texts = site.host.kvs();
            let reckoned = |text: &String| text.lines().filter(|line| *line == "=").count();
            let fairshares: usize = texts.values().map(reckoned).sum();
            let is_reckoned = policy != Policy::FairTree || ties == "documented";
            assert_eq!(fairshares > 20, is_reckoned, "{policy} {ties}: {fairshares}");
            site.reload();
            assert!(!site.has_logged("is refused"), "{policy} {ties}");
            assert_eq!(shown(&site), before, "{policy} {ties}");
        }
    }
}
