// SPDX-License-Identifier: LGPL-3.0-only
//! The data that the snapshot restores after a reload and a restart.

use std::collections::BTreeMap;
use std::path::Path;

use fairshare_embedded::{Errno, Order, State};
use serde_json::{Value, json};

use super::{OWNER, SO, Site, association, document, job, plugin, queue};

pub(super) const MANIFEST: &str = "mf_priority.remember.manifest";
pub(super) const ENDED: &str = "mf_priority.remember.ended";

impl Site {
    /// Reloads the plugin without data.
    pub(super) fn reload(&self) {
        self.reload_with(None);
    }

    fn reload_with(&self, conf: Option<&Value>) {
        self.load_again(conf);
        self.host.settle();
    }

    /// Reloads the plugin without playing a turn.
    pub(super) fn load_again(&self, conf: Option<&Value>) {
        self.host.remove(SO).unwrap();
        self.host.load(&self.so.path(), conf).expect("the plugin loads");
    }

    /// Sends a request of the owner without playing a turn.
    pub(super) fn now(&self, method: &str, payload: &Value) -> Value {
        let topic = format!("job-manager.mf_priority.{method}");
        let answer = self.host.request_now(&topic, Some(&payload.to_string()), OWNER).unwrap();
        serde_json::from_str(&answer.unwrap_or_else(|| "null".to_owned())).unwrap()
    }

    /// Returns the query without the counts of updates.
    pub(super) fn policy(&self) -> Value {
        let mut query = self.query();
        for key in ["generation", "updated", "age", "live"] {
            query.as_object_mut().unwrap().remove(key);
        }
        query
    }

    pub(super) fn has_data(&self) -> bool {
        self.host.settle();
        self.query()["mf_priority_map"].as_array().is_some_and(|users| !users.is_empty())
    }

    pub(super) fn said(&self, text: &str) -> bool {
        self.host.take_log().iter().any(|line| line.text.contains(text))
    }
}

/// Returns the document of a tree with `users` users in banks below a root, and with these usages.
pub(super) fn tree(users: u32, usage: impl Fn(u32) -> f64) -> Value {
    let bank = |user: u32| format!("b{}", user % 7);
    let associations: Vec<Value> = (0..users)
        .map(|user| {
            association(
                1000 + user,
                &bank(user),
                json!({
                    "username": format!("u{user}"), "shares": 1 + user % 5, "usage": usage(user),
                    "def_bank": bank(user), "counted_until": 1.6e9 + f64::from(user) / 3.0, "fairshare": f64::from(user) / 1e5,
                    "queues": "q", "max_nodes": 4 + user,
                }),
            )
        })
        .collect();
    let banks = (0..7).map(
        |n| json!({"bank": format!("b{n}"), "priority": n, "parent": "root", "shares": n + 1, "active": 1}),
    );
    let root = json!({"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1});
    json!({
        "associations": associations,
        "queues": [queue("q", json!({"priority": 3}))],
        "projects": [{"project": "*"}],
        "banks": Value::from_iter([root].into_iter().chain(banks)),
        "priority_factors": [{"factor": "queue", "weight": 7}],
        "config": {"zero_score": "floor"},
        "tree": {"policy": "fair-tree", "at": 1.7e9 - 10.0, "half_life": 604_800, "node_weight": 1,
            "core_weight": 0.25, "gpu_weight": 0, "options": {"ties": "slurm-program"}},
    })
}

pub(super) fn pushed(document: &Value) -> Site {
    pushed_into(plugin(), document)
}

/// Returns the same site with another .so.
pub(super) fn pushed_into(so: &Path, document: &Value) -> Site {
    let site = Site::empty(so);
    site.host.load(&site.so.path(), None).expect("the plugin loads");
    site.ask("policy_update", document);
    site.host.settle();
    site
}

#[test]
fn a_policy_is_in_force_again_after_a_reload_and_a_restart() {
    for document in [document(), tree(40, |user| f64::from(user) * 1.1), tree(700, f64::from)] {
        let site = pushed(&document);
        let before = site.policy();
        site.reload();
        assert_eq!(site.policy(), before);
        site.host.restart(Order::Descending).unwrap();
        site.host.settle();
        assert_eq!(site.policy(), before);
        assert!(site.said("restored the last push: "));
        site.check();
        assert_eq!(site.host.violations(), Vec::<String>::new());
    }
}

#[test]
fn a_restored_snapshot_is_written_unchanged() {
    let site = pushed(&tree(1200, f64::from));
    let before = site.host.kvs();
    site.reload();
    let written = site.host.kvs_written();
    site.ask("policy_update", &tree(1200, f64::from));
    site.host.settle();
    let texts = |mut kvs: BTreeMap<String, String>| {
        kvs.remove(MANIFEST);
        kvs
    };
    let manifest = (site.host.kvs()[MANIFEST].len() + site.host.kvs()[ENDED].len()) as u64;
    assert_eq!(texts(site.host.kvs()), texts(before));
    assert_eq!(site.host.kvs_written() - written, manifest, "only the lists are written again");
}

#[test]
fn the_limit_holds_for_jobs_that_come_after_a_reload() {
    let mut document = document();
    document["associations"] = json!([association(5001, "A", json!({"max_running_jobs": 1}))]);
    let site = pushed(&document);
    let first = site.submit(&job(5001, 1));
    site.reload();
    let later: Vec<u64> = (0..4).map(|_| site.submit(&job(5001, 1))).collect();
    site.host.settle();
    assert!(site.has_data());
    let states: Vec<State> = later.iter().map(|id| site.state(*id)).collect();
    assert_eq!((site.state(first), states), (State::Run, vec![State::Depend; 4]));
    site.check();
}

#[test]
fn a_commit_that_succeeded_but_was_reported_as_failed_is_overwritten() {
    let one = tree(300, f64::from);
    let other = tree(300, |user| f64::from(user) * 3.0);
    let site = pushed(&one);
    site.host.set_kvs_errors(Some(Errno(110)), None);
    site.ask("policy_update", &other);
    site.host.settle();
    site.host.set_kvs_errors(None, None);
    // The commit was made nevertheless.
    let twin = pushed(&one);
    twin.ask("policy_update", &other);
    twin.host.settle();
    for key in site.host.kvs().keys() {
        site.host.kvs_put(key, None);
    }
    for (key, text) in twin.host.kvs() {
        site.host.kvs_put(&key, Some(&text));
    }
    site.ask("policy_update", &one);
    site.host.settle();
    let before = site.policy();
    site.reload();
    assert!(!site.said("is refused"));
    assert_eq!(site.policy(), before);
}

#[test]
fn methods_of_flux_accounting_are_not_saved_and_remove_the_snapshot() {
    let site = Site::without_data();
    site.rpc("rec_update", &json!({"data": document()["associations"]})).unwrap();
    site.host.settle();
    assert_eq!(site.host.kvs(), BTreeMap::new());
    site.ask("policy_update", &document());
    site.host.settle();
    assert!(site.host.kvs().contains_key(MANIFEST));
    site.rpc("rec_update", &json!({"data": document()["associations"]})).unwrap();
    site.host.settle();
    assert_eq!(site.host.kvs(), BTreeMap::new());
    site.reload();
    assert!(!site.has_data());
}

#[test]
fn a_document_at_load_takes_precedence_over_the_snapshot() {
    let site = pushed(&tree(10, f64::from));
    site.reload_with(Some(&json!({"config": document()})));
    let given = Site::new();
    assert_eq!(site.policy(), given.policy());
    assert!(site.host.kvs().contains_key(MANIFEST), "it is there for when none is given");
}

#[test]
fn switched_off_nothing_is_kept() {
    let site = pushed(&document());
    site.reload_with(Some(&json!({"remember": false})));
    assert!(!site.has_data());
    assert_eq!(site.host.kvs(), BTreeMap::new());
    site.ask("policy_update", &document());
    site.host.settle();
    assert_eq!(site.host.kvs(), BTreeMap::new());
}

#[test]
fn a_push_that_comes_first_wins() {
    let site = pushed(&tree(500, f64::from));
    site.load_again(None);
    let other = document();
    site.now("policy_update", &other);
    site.host.settle();
    let fresh = pushed(&other);
    assert_eq!(site.policy(), fresh.policy());
    site.reload();
    assert_eq!(site.policy(), fresh.policy());
}

#[test]
fn a_push_that_begins_first_and_is_given_up_does_not_lose_it() {
    let site = pushed(&tree(500, f64::from));
    let before = site.policy();
    site.load_again(None);
    let begun = site.now("policy_begin", &json!({}));
    site.host.settle();
    assert!(!site.has_data());
    site.now("policy_abort", &json!({"push": begun["push"]}));
    site.host.advance(2.0);
    assert_eq!(site.policy(), before);
}

#[test]
fn a_write_that_fails_leaves_the_record_before_it() {
    let site = pushed(&tree(300, f64::from));
    let before = site.policy();
    site.host.set_kvs_errors(Some(Errno(28)), None);
    site.ask("policy_update", &document());
    site.host.settle();
    assert!(site.said("can't be saved"));
    site.host.set_kvs_errors(None, None);
    site.reload();
    assert_eq!(site.policy(), before);
}

#[test]
fn a_write_that_is_cut_short_leaves_the_record_before_it() {
    // In each round the plugin is removed one commit later.
    let mut seen = (false, false);
    for commits in 0..7 {
        let site = pushed(&tree(1200, f64::from));
        let before = site.policy();
        let next = tree(1200, |user| f64::from(user) + 1.0);
        site.now("policy_update", &next);
        let after = site.policy();
        site.host.settle_commits(commits);
        site.reload();
        let found = site.policy();
        assert!(found == before || found == after, "after {commits} commits");
        seen.0 |= found == before;
        seen.1 |= found == after;
    }
    assert_eq!(seen, (true, true));
}

/// Returns a site with one user, a tree that counts node seconds without decay, and ended jobs.
pub(super) fn with_history() -> (Site, Vec<u64>) {
    let mut document = tree(3, |_| 0.0);
    document["tree"]["half_life"] = json!(0);
    let site = pushed(&document);
    let ids: Vec<u64> = (0..3).map(|_| site.submit(&job(1000, 1))).collect();
    site.host.advance(100.0);
    site.finish(ids[0]);
    site.host.advance(50.0);
    site.finish(ids[1]);
    (site, ids)
}

pub(super) fn used(site: &Site, user: u32) -> f64 {
    site.ask("usages", &json!({"user": user}))["associations"][0]["usage"].as_f64().expect("a usage")
}

/// The push arrives before the ended jobs are read, or while the snapshot is applied.
#[test]
fn ended_jobs_of_the_snapshot_are_added_to_an_earlier_push() {
    for is_in_parts in [false, true] {
        let (site, ids) = with_history();
        site.finish(ids[2]);
        site.host.advance(70.0);
        let before = used(&site, 1000);
        assert!(before > 300.0, "{before}");
        let mut document = tree(3, |_| 0.0);
        document["tree"]["half_life"] = json!(0);
        site.load_again(None);
        if is_in_parts {
            let push = &site.now("policy_begin", &json!({}))["push"];
            site.host.settle();
            assert!(!site.has_data());
            document["push"] = push.clone();
            site.now("policy_part", &document);
            site.now("policy_commit", &json!({"push": push}));
        } else {
            site.now("policy_update", &document);
        }
        site.host.settle();
        site.host.advance(2.0);
        let shown = used(&site, 1000);
        assert!((shown - before).abs() < 1e-9, "{is_in_parts}: {shown} {before}");
        site.host.advance(70.0);
        site.reload();
        let shown = used(&site, 1000);
        assert!((shown - before).abs() < 1e-9, "{is_in_parts}, after one more reload: {shown} {before}");
    }
}

/// Only the ended jobs are lost then, because a push has brought data.
#[test]
fn a_damaged_record_is_refused_without_a_word_of_lost_data_where_a_push_came_first() {
    let (site, _) = with_history();
    site.host.advance(70.0);
    let key = site.host.kvs().into_keys().find(|key| key.contains(".jobs.")).unwrap();
    site.host.kvs_put(&key, Some("nothing of the kind"));
    site.load_again(None);
    site.host.take_log();
    site.now("policy_update", &tree(3, |_| 0.0));
    site.host.settle();
    let told: Vec<String> = site.host.take_log().into_iter().map(|line| line.text).collect();
    let refused: Vec<_> = told.iter().filter(|line| line.contains("is refused")).collect();
    assert!(refused.len() == 1 && refused[0].contains("job-list knows"), "{told:?}");
    site.reload();
    assert!(site.has_data(), "the push was written in its place");
}

#[test]
fn usage_that_no_push_covers_outlives_a_reload_and_a_restart() {
    let (site, ids) = with_history();
    site.host.advance(70.0);
    let before = used(&site, 1000);
    assert!(before > 300.0, "{before}");
    site.reload();
    let shown = used(&site, 1000);
    assert!((shown - before).abs() < 1e-9, "{shown} {before}");
    // Another job ends after the reload, and is written together with the earlier ones.
    site.finish(ids[2]);
    site.host.advance(70.0);
    let before = used(&site, 1000);
    site.host.restart(Order::Ascending).unwrap();
    site.host.settle();
    site.reload();
    let shown = used(&site, 1000);
    assert!((shown - before).abs() < 1e-9, "{shown} {before}");
    // This push covers all ended jobs.
    let mut document = tree(3, |_| 7.0);
    document["associations"][0]["counted_until"] = json!(site.host.now());
    document["tree"]["half_life"] = json!(0);
    site.ask("policy_update", &document);
    site.host.settle();
    site.reload();
    assert!((used(&site, 1000) - 7.0).abs() < 1e-9);
    assert!(
        !site.host.kvs().keys().any(|key| key.contains(".jobs.")),
        "jobs that a push covers are not kept"
    );
}

/// Jobs of the site end faster than 2,000 a minute.
#[test]
fn most_ended_jobs_are_written_within_a_minute() {
    let site = pushed(&tree(3, f64::from));
    site.host.advance(61.0);
    for _ in 0..5000 {
        let id = site.submit(&job(1000, 1));
        site.finish(id);
    }
    site.host.advance(61.0);
    let lines = || -> usize {
        let kvs = site.host.kvs();
        kvs.iter().filter(|(key, _)| key.contains(".jobs.")).map(|(_, text)| text.lines().count()).sum()
    };
    assert!(lines() >= 4000, "{}", lines());
    site.host.advance(61.0);
    assert!(lines() >= 5000, "{}", lines());
    let before = used(&site, 1000);
    site.reload();
    assert!((used(&site, 1000) - before).abs() < 1e-6);
}
