// SPDX-License-Identifier: LGPL-3.0-only
//! Tests events that happen while a new plugin reads the snapshot: the KVS stores the last commit of the removed plugin, a
//! job ends, or job-list answers.

use serde_json::{Value, json};

use super::job;
use super::remember::{make_site_with_ended_jobs, make_site_with_push, tree, usage_of};

/// Returns the [`tree`] of [`make_site_with_ended_jobs`] without decay, in which each user has `usage`. The usage of user 1000 includes the jobs that
/// ended by `until`.
fn tree_without_decay(usage: f64, until: f64) -> Value {
    let mut document = tree(3, |_| usage);
    document["tree"]["half_life"] = json!(0);
    document["associations"][0]["counted_until"] = json!(until);
    document
}

/// Flux makes commits in order, but a lookup does not wait for them. So a commit of the removed plugin could change the snapshot during the
/// read.
#[test]
fn a_snapshot_is_not_read_before_the_commits_of_the_removed_plugin() {
    let mut seen = [0, 0];
    for turns in 0..60 {
        let (site, ids) = make_site_with_ended_jobs();
        site.finish(ids[2]);
        site.host.advance(70.0);
        site.send_request_without_reactor("policy_update", &tree_without_decay(7.0, site.host.now()));
        (0..turns).for_each(|_| _ = site.host.step());
        site.reload_only(None);
        site.host.settle();
        let usage = usage_of(&site, 1000);
        // The plugin restores the last push. If the snapshot of that push is incomplete, the plugin restores the push before and the jobs that
        // ended after it.
        assert!(usage == 7.0 || usage > 300.0, "after {turns} turns: {usage}");
        seen[usize::from(usage == 7.0)] += 1;
        let more = site.submit(&job(1000, 1));
        site.host.advance(10.0);
        site.finish(more);
        site.host.advance(70.0);
        let usage = usage_of(&site, 1000);
        site.reload();
        assert!(site.has_data() && !site.has_logged("is refused"), "after {turns} turns");
        let shown = usage_of(&site, 1000);
        assert!(
            (shown - usage).abs() < 1e-9,
            "the usage after {turns} turns is {shown}, before the reload {usage}"
        );
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_job_that_ends_before_the_snapshot_is_read_is_added_to_the_next_snapshot() {
    let (site, ids) = make_site_with_ended_jobs();
    site.host.advance(70.0);
    site.reload_only(None);
    site.finish(ids[2]);
    site.host.settle();
    let before = usage_of(&site, 1000);
    assert!(before > 400.0, "{before}");
    site.host.advance(70.0);
    site.reload();
    assert_eq!(usage_of(&site, 1000), before);
}

/// In this test, job-list answers before the plugin has read the snapshot. Unlike the snapshot, the
/// answer lacks the GPUs and cores of the jobs. job-list never reports GPUs, and this answer has 0 cores.
#[test]
fn a_job_list_answer_before_the_snapshot_removes_no_data_of_the_snapshot() {
    let (site, ids) = make_site_with_ended_jobs();
    site.finish(ids[2]);
    let now = site.host.now();
    site.host.advance(70.0);
    let before = usage_of(&site, 1000);
    let ended = |id: u64, end: f64| json!({"id": id, "userid": 1000, "bank": "b0", "t_run": now - 150.0, "t_inactive": end, "nnodes": 1, "ncores": 0});
    let jobs =
        json!({"jobs": [ended(ids[2], now), ended(ids[1], now), ended(ids[0], now - 50.0)]}).to_string();
    site.host.set_response("job-list.list", Some(&jobs));
    site.reload_only(None);
    let push = &site.send_request_without_reactor("policy_begin", &json!({}))["push"];
    let mut part = tree_without_decay(0.0, 1.6e9);
    part["push"] = push.clone();
    site.send_request_without_reactor("policy_part", &part);
    site.send_request_without_reactor("policy_commit", &json!({"push": push}));
    site.host.settle();
    site.host.advance(2.0);
    let shown = usage_of(&site, 1000);
    assert!((shown - before).abs() < 1e-9, "{shown} {before}");
}

/// The job starts after the configuration got the factor, and before the next push. A running and an ended job keep the factor of their start.
#[test]
fn a_charge_factor_that_was_configured_after_the_push_survives_a_reload() {
    let site = make_site_with_push(&tree_without_decay(0.0, 1.6e9));
    let config = json!({"queues": {"q": {}}, "fairshare": {"queues": {"q": {"charge": 2}}}});
    site.host.reload_config(&config).unwrap();
    let [ended, _] = [(); 2].map(|()| site.submit(&job(1000, 1)));
    site.host.advance(100.0);
    site.finish(ended);
    site.host.advance(70.0);
    let before = usage_of(&site, 1000);
    site.reload();
    let shown = usage_of(&site, 1000);
    assert!((shown - before).abs() < 1e-9, "{shown} {before}");
}
