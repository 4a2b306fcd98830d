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
        self.reload_only(conf);
        self.host.settle();
    }

    /// Reloads the plugin without running the reactor.
    pub(super) fn reload_only(&self, conf: Option<&Value>) {
        self.host.remove(SO).unwrap();
        self.host.load(&self.so.path(), conf).expect("the plugin loads");
    }

    /// Sends a request of the owner without running the reactor, and returns the answer.
    pub(super) fn send_request_without_reactor(&self, method: &str, payload: &Value) -> Value {
        let topic = format!("job-manager.mf_priority.{method}");
        let answer = self.host.request_now(&topic, Some(&payload.to_string()), OWNER).unwrap();
        serde_json::from_str(&answer.unwrap_or_else(|| "null".to_owned())).unwrap()
    }

    /// Returns the pushed data: the query without the keys that change at each load or with time.
    pub(super) fn pushed_data(&self) -> Value {
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

    /// Takes the log, and returns true if a line contains `text`.
    pub(super) fn has_logged(&self, text: &str) -> bool {
        self.host.take_log().iter().any(|line| line.text.contains(text))
    }
}

/// Returns a document with a tree of `users` users in seven banks. `usage` returns the usage of each user.
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

/// Returns a site after a push of `document`.
pub(super) fn make_site_with_push(document: &Value) -> Site {
    make_site_with_plugin_and_push(plugin(), document)
}

/// Returns the site of [`make_site_with_push`] with another .so.
pub(super) fn make_site_with_plugin_and_push(so: &Path, document: &Value) -> Site {
    let site = Site::empty(so);
    site.host.load(&site.so.path(), None).expect("the plugin loads");
    site.ask("policy_update", document);
    site.host.settle();
    site
}

#[test]
fn a_pushed_site_document_is_in_force_again_after_a_reload_and_a_restart() {
    for document in [document(), tree(40, |user| f64::from(user) * 1.1), tree(700, f64::from)] {
        let site = make_site_with_push(&document);
        let before = site.pushed_data();
        site.reload();
        assert_eq!(site.pushed_data(), before);
        site.host.restart(Order::Descending).unwrap();
        site.host.settle();
        assert_eq!(site.pushed_data(), before);
        assert!(site.has_logged("restored the last push: "));
        site.check();
        assert_eq!(site.host.violations(), Vec::<String>::new());
    }
}

#[test]
fn a_restored_snapshot_is_written_unchanged() {
    let site = make_site_with_push(&tree(1200, f64::from));
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
    assert_eq!(
        site.host.kvs_written() - written,
        manifest,
        "only the manifest and the list of ended jobs are written again"
    );
}

#[test]
fn the_limit_holds_for_jobs_that_come_after_a_reload() {
    let mut document = document();
    document["associations"] = json!([association(5001, "A", json!({"max_running_jobs": 1}))]);
    let site = make_site_with_push(&document);
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
    let first_document = tree(300, f64::from);
    let other = tree(300, |user| f64::from(user) * 3.0);
    let site = make_site_with_push(&first_document);
    site.host.set_kvs_errors(Some(Errno(110)), None);
    site.ask("policy_update", &other);
    site.host.settle();
    site.host.set_kvs_errors(None, None);
    // For comparison, build a site in which the commit succeeds, and give the KVS values of that site to this host.
    let twin = make_site_with_push(&first_document);
    twin.ask("policy_update", &other);
    twin.host.settle();
    for key in site.host.kvs().keys() {
        site.host.kvs_put(key, None);
    }
    for (key, text) in twin.host.kvs() {
        site.host.kvs_put(&key, Some(&text));
    }
    site.ask("policy_update", &first_document);
    site.host.settle();
    let before = site.pushed_data();
    site.reload();
    assert!(!site.has_logged("is refused"));
    assert_eq!(site.pushed_data(), before);
}

#[test]
fn a_push_with_flux_accounting_methods_removes_the_snapshot() {
    let site = Site::without_pushed_data();
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
    let site = make_site_with_push(&tree(10, f64::from));
    site.reload_with(Some(&json!({"config": document()})));
    let given = Site::new();
    assert_eq!(site.pushed_data(), given.pushed_data());
    assert!(site.host.kvs().contains_key(MANIFEST), "the snapshot stays for a load without a document");
}

#[test]
fn the_plugin_stores_no_snapshot_if_the_setting_remember_is_false() {
    let site = make_site_with_push(&document());
    site.reload_with(Some(&json!({"remember": false})));
    assert!(!site.has_data());
    assert_eq!(site.host.kvs(), BTreeMap::new());
    site.ask("policy_update", &document());
    site.host.settle();
    assert_eq!(site.host.kvs(), BTreeMap::new());
}

#[test]
fn a_push_takes_precedence_over_a_snapshot_that_is_read_later() {
    let site = make_site_with_push(&tree(500, f64::from));
    site.reload_only(None);
    let other = document();
    site.send_request_without_reactor("policy_update", &other);
    site.host.settle();
    let fresh = make_site_with_push(&other);
    assert_eq!(site.pushed_data(), fresh.pushed_data());
    site.reload();
    assert_eq!(site.pushed_data(), fresh.pushed_data());
}

#[test]
fn the_snapshot_is_restored_after_an_aborted_push() {
    let site = make_site_with_push(&tree(500, f64::from));
    let before = site.pushed_data();
    site.reload_only(None);
    let begun = site.send_request_without_reactor("policy_begin", &json!({}));
    site.host.settle();
    assert!(!site.has_data());
    site.send_request_without_reactor("policy_abort", &json!({"push": begun["push"]}));
    site.host.advance(2.0);
    assert_eq!(site.pushed_data(), before);
}

#[test]
fn a_write_that_fails_leaves_the_previous_snapshot() {
    let site = make_site_with_push(&tree(300, f64::from));
    let before = site.pushed_data();
    site.host.set_kvs_errors(Some(Errno(28)), None);
    site.ask("policy_update", &document());
    site.host.settle();
    assert!(site.has_logged("can't be saved"));
    site.host.set_kvs_errors(None, None);
    site.reload();
    assert_eq!(site.pushed_data(), before);
}

#[test]
fn an_interrupted_snapshot_write_leaves_the_previous_snapshot() {
    // Each round removes the plugin after `commits` commits.
    let mut seen = (false, false);
    for commits in 0..7 {
        let site = make_site_with_push(&tree(1200, f64::from));
        let before = site.pushed_data();
        let next = tree(1200, |user| f64::from(user) + 1.0);
        site.send_request_without_reactor("policy_update", &next);
        let after = site.pushed_data();
        site.host.run_reactor_up_to_commit_limit(commits);
        site.reload();
        let found = site.pushed_data();
        assert!(found == before || found == after, "after {commits} commits");
        seen.0 |= found == before;
        seen.1 |= found == after;
    }
    assert_eq!(seen, (true, true));
}

/// Returns a site with a tree that counts node seconds without decay, and three jobs of user 1000, of which two have ended.
pub(super) fn make_site_with_ended_jobs() -> (Site, Vec<u64>) {
    let mut document = tree(3, |_| 0.0);
    document["tree"]["half_life"] = json!(0);
    let site = make_site_with_push(&document);
    let ids: Vec<u64> = (0..3).map(|_| site.submit(&job(1000, 1))).collect();
    site.host.advance(100.0);
    site.finish(ids[0]);
    site.host.advance(50.0);
    site.finish(ids[1]);
    (site, ids)
}

pub(super) fn usage_of(site: &Site, user: u32) -> f64 {
    site.ask("standing", &json!({"user": user}))["associations"][0]["usage"].as_f64().expect("a usage")
}

/// The push in one message arrives before the plugin reads the ended jobs. The push in parts arrives while the plugin applies the snapshot.
#[test]
fn a_push_before_the_snapshot_is_applied_loses_no_ended_jobs() {
    for is_in_parts in [false, true] {
        let (site, ids) = make_site_with_ended_jobs();
        site.finish(ids[2]);
        site.host.advance(70.0);
        let before = usage_of(&site, 1000);
        assert!(before > 300.0, "{before}");
        let mut document = tree(3, |_| 0.0);
        document["tree"]["half_life"] = json!(0);
        site.reload_only(None);
        if is_in_parts {
            let push = &site.send_request_without_reactor("policy_begin", &json!({}))["push"];
            site.host.settle();
            assert!(!site.has_data());
            document["push"] = push.clone();
            site.send_request_without_reactor("policy_part", &document);
            site.send_request_without_reactor("policy_commit", &json!({"push": push}));
        } else {
            site.send_request_without_reactor("policy_update", &document);
        }
        site.host.settle();
        site.host.advance(2.0);
        let shown = usage_of(&site, 1000);
        assert!((shown - before).abs() < 1e-9, "{is_in_parts}: {shown} {before}");
        site.host.advance(70.0);
        site.reload();
        let shown = usage_of(&site, 1000);
        assert!((shown - before).abs() < 1e-9, "{is_in_parts}, after one more reload: {shown} {before}");
    }
}

/// Before the plugin reads the snapshot, a push has replaced all its data except the ended jobs. So the log must not ask for a push.
#[test]
fn reading_a_damaged_snapshot_after_a_push_logs_exactly_one_refusal() {
    let (site, _) = make_site_with_ended_jobs();
    site.host.advance(70.0);
    let key = site.host.kvs().into_keys().find(|key| key.contains(".jobs.")).unwrap();
    site.host.kvs_put(&key, Some("nothing of the kind"));
    site.reload_only(None);
    site.host.take_log();
    site.send_request_without_reactor("policy_update", &tree(3, |_| 0.0));
    site.host.settle();
    let log_lines: Vec<String> = site.host.take_log().into_iter().map(|line| line.text).collect();
    let refusals: Vec<_> = log_lines.iter().filter(|line| line.contains("is refused")).collect();
    assert!(refusals.len() == 1 && refusals[0].contains("job-list lists"), "{log_lines:?}");
    site.reload();
    assert!(site.has_data(), "the push has replaced the snapshot");
}

#[test]
fn usage_that_no_push_includes_survives_a_reload_and_a_restart() {
    let (site, ids) = make_site_with_ended_jobs();
    site.host.advance(70.0);
    let before = usage_of(&site, 1000);
    assert!(before > 300.0, "{before}");
    site.reload();
    let shown = usage_of(&site, 1000);
    assert!((shown - before).abs() < 1e-9, "{shown} {before}");
    // Another job ends after the reload. The plugin writes this job to the snapshot together with the earlier jobs.
    site.finish(ids[2]);
    site.host.advance(70.0);
    let before = usage_of(&site, 1000);
    site.host.restart(Order::Ascending).unwrap();
    site.host.settle();
    site.reload();
    let shown = usage_of(&site, 1000);
    assert!((shown - before).abs() < 1e-9, "{shown} {before}");
    // This push includes the usage of all ended jobs.
    let mut document = tree(3, |_| 7.0);
    document["associations"][0]["counted_until"] = json!(site.host.now());
    document["tree"]["half_life"] = json!(0);
    site.ask("policy_update", &document);
    site.host.settle();
    site.reload();
    assert!((usage_of(&site, 1000) - 7.0).abs() < 1e-9);
    assert!(
        !site.host.kvs().keys().any(|key| key.contains(".jobs.")),
        "jobs that a push covers are not kept"
    );
}

/// One write takes at most 2,000 ended jobs (`ENDED_BATCH`). If more jobs end in a minute, further writes must follow at once.
#[test]
fn most_ended_jobs_are_written_within_a_minute() {
    let site = make_site_with_push(&tree(3, f64::from));
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
    let before = usage_of(&site, 1000);
    site.reload();
    assert!((usage_of(&site, 1000) - before).abs() < 1e-6);
}
