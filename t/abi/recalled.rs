// SPDX-License-Identifier: LGPL-3.0-only
//! Events while a snapshot is read: commits of the previous plugin, ended jobs, and answers of job-list.

use serde_json::{Value, json};

use super::job;
use super::remember::{tree, used, with_history};

/// Returns the [`tree`] of [`with_history`] with usages that are counted up to a time.
fn without_decay(usage: f64, until: f64) -> Value {
    let mut document = tree(3, |_| usage);
    document["tree"]["half_life"] = json!(0);
    document["associations"][0]["counted_until"] = json!(until);
    document
}

/// Flux makes commits in order, but a lookup does not wait for them. So a commit from before a reload may change data that are read after it.
#[test]
fn a_record_is_not_read_while_the_plugin_before_still_changes_it() {
    let mut seen = [0, 0];
    for turns in 0..60 {
        let (site, ids) = with_history();
        site.finish(ids[2]);
        site.host.advance(70.0);
        site.now("policy_update", &without_decay(7.0, site.host.now()));
        (0..turns).for_each(|_| _ = site.host.step());
        site.load_again(None);
        site.host.settle();
        let usage = used(&site, 1000);
        // The push, or the previous push with later jobs if the push was incomplete.
        assert!(usage == 7.0 || usage > 300.0, "after {turns} turns: {usage}");
        seen[usize::from(usage == 7.0)] += 1;
        let more = site.submit(&job(1000, 1));
        site.host.advance(10.0);
        site.finish(more);
        site.host.advance(70.0);
        let usage = used(&site, 1000);
        site.reload();
        assert!(site.has_data() && !site.said("is refused"), "after {turns} turns");
        let shown = used(&site, 1000);
        assert!((shown - usage).abs() < 1e-9, "after {turns} turns: {shown} {usage}");
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_job_that_ends_before_the_snapshot_is_read_is_written_with_it() {
    let (site, ids) = with_history();
    site.host.advance(70.0);
    site.load_again(None);
    site.finish(ids[2]);
    site.host.settle();
    let before = used(&site, 1000);
    assert!(before > 400.0, "{before}");
    site.host.advance(70.0);
    site.reload();
    assert_eq!(used(&site, 1000), before);
}

/// job-list answers before the snapshot is read, and has fewer data of a job: never GPUs, and here no cores.
#[test]
fn an_earlier_answer_of_job_list_removes_no_data_of_the_snapshot() {
    let (site, ids) = with_history();
    site.finish(ids[2]);
    let now = site.host.now();
    site.host.advance(70.0);
    let before = used(&site, 1000);
    let ended = |id: u64, end: f64| json!({"id": id, "userid": 1000, "bank": "b0", "t_run": now - 150.0, "t_inactive": end, "nnodes": 1, "ncores": 0});
    let jobs =
        json!({"jobs": [ended(ids[2], now), ended(ids[1], now), ended(ids[0], now - 50.0)]}).to_string();
    site.host.set_response("job-list.list", Some(&jobs));
    site.load_again(None);
    let push = &site.now("policy_begin", &json!({}))["push"];
    let mut part = without_decay(0.0, 1.6e9);
    part["push"] = push.clone();
    site.now("policy_part", &part);
    site.now("policy_commit", &json!({"push": push}));
    site.host.settle();
    site.host.advance(2.0);
    let shown = used(&site, 1000);
    assert!((shown - before).abs() < 1e-9, "{shown} {before}");
}
