// SPDX-License-Identifier: LGPL-3.0-only
//! Tests unusual sites: very deep trees, a jump of the clock, a push during a refresh, and other plugins that fail. The
//! plugin must follow its rules and lose no job.

use fairshare_embedded::State;
use serde_json::{Value, json};

use super::{OWNER, Site, association, document, job, plugin, topic};
use crate::embedded::probe;

/// The number of records in one part of a push.
const PART_SIZE: usize = 1_000;
const YEAR: f64 = 365.0 * 86_400.0;

fn make_bank(name: &str, parent: &str) -> Value {
    json!({"bank": name, "priority": 0, "parent": parent, "shares": 1, "active": 1})
}

fn make_rule(policy: &str, at: f64) -> Value {
    json!({
        "policy": policy, "at": at, "half_life": 604_800, "node_weight": 1, "core_weight": 0, "gpu_weight": 0,
    })
}

fn make_leaf(user: u32, bank: &str, usage: f64) -> Value {
    let leaf = json!({"username": format!("u{user}"), "shares": 1, "usage": usage, "counted_until": 0.0,
        "def_bank": bank});
    association(user, bank, leaf)
}

/// Returns a document with `banks`, and with users 5001 and 5002 in bank `last`. The second user has usage.
fn make_document(policy: &str, at: f64, banks: Vec<Value>, last: &str) -> Value {
    let mut document = document();
    document["banks"] = banks.into();
    document["associations"] = json!([make_leaf(5001, last, 0.0), make_leaf(5002, last, 1e6)]);
    document["tree"] = make_rule(policy, at);
    document
}

/// Returns a document with banks root and A, and with both users in bank A.
fn make_small_tree(policy: &str, at: f64) -> Value {
    make_document(policy, at, vec![make_bank("root", ""), make_bank("A", "root")], "A")
}

impl Site {
    /// Sends a request without running the reactor, and returns the answer.
    fn answer(&self, method: &str, payload: &Value) -> Value {
        let answer = self.host.request_now(&topic(method), Some(&payload.to_string()), OWNER);
        let text = answer.unwrap_or_else(|refused| panic!("{method}: {}", refused.text));
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Pushes as `flux fairshare push` does: first banks and associations in parts, then all other records. The reactor does not run in
    /// between.
    fn push_in_parts(&self, document: &Value) -> Value {
        let push = self.answer("policy_begin", &json!({}))["push"].clone();
        let mut rest = document.clone();
        rest["push"] = push.clone();
        for array in ["banks", "associations"] {
            let records = rest[array].take();
            rest[array] = json!([]);
            for part in records.as_array().unwrap().chunks(PART_SIZE) {
                self.answer("policy_part", &json!({"push": push, array: part}));
            }
        }
        self.answer("policy_part", &rest);
        self.answer("policy_commit", &json!({"push": push}))
    }

    /// Checks that the plugin logged no error, except that job-list does not answer.
    fn assert_no_errors(&self) {
        let mut errors = self.errors();
        errors.retain(|text| !text.contains("job-list does not answer"));
        assert_eq!(errors, Vec::<String>::new());
    }

    fn fairshare(&self, user: u32, bank: &str) -> f64 {
        self.association(user, bank)["fairshare"].as_f64().expect("an association has a fair-share")
    }
}

#[test]
fn a_tree_of_a_hundred_thousand_levels_is_ranked() {
    for policy in ["fair-tree", "pbs"] {
        let site = Site::without_pushed_data();
        let mut banks = vec![make_bank("root", "")];
        let name = |level: usize| if level == 0 { "root".to_owned() } else { format!("b{level}") };
        banks.extend((1..100_000).map(|level| make_bank(&name(level), &name(level - 1))));
        site.push_in_parts(&make_document(policy, site.host.now(), banks, "b99999"));
        site.host.advance(60.0);
        let (idle, user) = (site.fairshare(5001, "b99999"), site.fairshare(5002, "b99999"));
        assert!((0.0..=1.0).contains(&user) && user < idle && idle <= 1.0, "{policy}: {idle} and {user}");
        let id = site.submit(&job(5001, 1));
        assert_eq!(site.state(id), State::Run, "{policy}");
        site.host.advance(3600.0);
        site.finish(id);
        site.check();
        site.assert_no_errors();
    }
}

#[test]
fn a_year_that_passes_at_once_leaves_no_timer_stuck_and_no_usage_negative() {
    let site = Site::without_pushed_data();
    site.push_in_parts(&make_small_tree("fair-tree", site.host.now()));
    let running = site.submit(&job(5001, 1));
    site.host.advance(YEAR);
    let first = site.query()["live"]["last"]["when"].as_f64().expect("it was refreshed");
    site.host.advance(60.0);
    let second = site.query()["live"]["last"]["when"].as_f64().expect("it was refreshed");
    assert!(second > first && first >= site.host.now() - 200.0, "{first}, {second}");
    let usages = site.answer("standing", &json!({"all": true}));
    let usage = |user: u32| {
        let all = usages["associations"].as_array().expect("associations");
        let of = all.iter().find(|it| it["userid"] == user).unwrap_or_else(|| panic!("{usages}"));
        of["usage"].as_f64().expect("a usage")
    };
    // The usage of the second user has decayed to almost 0. The job of the first user ran for the whole year, so the
    // first user's usage has reached its maximum.
    assert!(usage(5002) >= 0.0 && usage(5002) < 1e-6, "{usages}");
    let full = 604_800.0 / 2f64.ln();
    assert!((usage(5001) / full - 1.0).abs() < 1e-6, "{usages}");
    site.finish(running);
    site.check();
}

#[test]
fn a_push_during_a_refresh_takes_effect() {
    let site = Site::without_pushed_data();
    // With this number of associations, a refresh takes several turns of the reactor.
    let banks = || vec![make_bank("root", ""), make_bank("A", "root")];
    let mut document = make_document("fair-tree", site.host.now(), banks(), "A");
    let others: Vec<Value> = (0..20_000).map(|user| make_leaf(10_000 + user, "A", f64::from(user))).collect();
    document["associations"].as_array_mut().unwrap().extend(others);
    site.push_in_parts(&document);
    let is_under_way = site.query()["live"]["last"].is_null();
    // The second push arrives before the refresh after the first push has ended, and reverses the order of the two users.
    document["associations"][0]["usage"] = json!(1e6);
    document["associations"][1]["usage"] = json!(0.0);
    site.push_in_parts(&document);
    assert!(is_under_way, "the refresh ended before the second push");
    site.host.advance(60.0);
    assert!(site.fairshare(5001, "A") < site.fairshare(5002, "A"));
    let [first, second] = [5001, 5002].map(|user| site.submit(&job(user, 4)));
    assert_eq!([site.state(first), site.state(second)], [State::Run, State::Sched]);
    site.finish(first);
    assert_eq!(site.state(second), State::Run);
    site.check();
    site.assert_no_errors();
}

#[test]
fn jobs_are_annotated_by_memos_that_are_in_no_eventlog() {
    let site = Site::empty(plugin());
    site.host.reload_config(&json!({"fairshare": {"annotate": true}})).unwrap();
    site.load(&document());
    let id = site.submit(&job(5002, 1));
    let standing = site.host.annotations(id).unwrap()["standing"].as_str().unwrap().to_owned();
    assert!(standing.starts_with("0."), "{standing}");
    let log = site.host.job(id, |job| job.eventlog.clone()).unwrap();
    assert!(!log.iter().any(|entry| entry.to_string().contains("standing")), "{log:?}");
    site.check();
}

/// The other plugin is loaded before or after ours, and fails in one of the callbacks about a job.
#[test]
fn another_plugin_that_fails_leaves_each_job_counted_once() {
    let mut scripts: Vec<(&str, Value)> = [
        "job.create",
        "job.validate",
        "job.new",
        "job.state.depend",
        "job.state.priority",
        "job.priority.get",
        "job.state.sched",
        "job.state.run",
        "job.state.cleanup",
        "job.state.inactive",
        "job.destroy",
    ]
    .map(|topic| (topic, json!([["fail"]])))
    .into();
    scripts.push(("job.validate", json!([["reject", "not today"]])));
    for (is_first, (topic, steps)) in
        [true, false].into_iter().flat_map(|first| scripts.iter().map(move |it| (first, it)))
    {
        let site = Site::empty(plugin());
        let load = || site.host.load(&probe(), Some(&json!({"script": {*topic: steps}}))).unwrap();
        is_first.then(load);
        site.load(&document());
        (!is_first).then(load);
        // One job runs and two jobs are held. The last job waits for free nodes, and Flux asks for its priority.
        let jobs = [job(5001, 1), job(5001, 1), job(5001, 1), job(5002, 4)];
        let ids: Vec<u64> = jobs.iter().filter_map(|job| site.host.submit(job).ok()).collect();
        site.host.reprioritize_all();
        assert_eq!(ids.is_empty(), ["job.validate", "job.create"].contains(topic), "{topic}");
        site.check();
        for id in &ids {
            let _ = site.host.cancel(*id, OWNER);
            site.finish(*id);
        }
        site.host.remove("probe.so").unwrap();
        for id in ids {
            let _ = site.host.cancel(id, OWNER);
            site.finish(id);
            assert_eq!(site.state(id), State::Inactive, "{topic}");
        }
        assert_eq!(site.check()["jobs"], 0, "{topic}");
        assert_eq!(site.association(5001, "A")["cur_active_jobs"], 0, "{topic}");
        let log: Vec<String> = site.host.take_log().into_iter().map(|line| line.text).collect();
        let step = format!("{}=", steps[0][0].as_str().unwrap());
        assert!(log.iter().any(|line| line.starts_with(&step)), "{topic} did not fail");
        assert!(!log.iter().any(|line| line.contains("panic")), "{topic}");
        let next = site.submit(&job(5001, 1));
        assert_eq!(site.state(next), State::Run, "{topic}");
        site.finish(next);
    }
}
