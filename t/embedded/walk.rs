// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the reprioritize loop, in which each lookup by id moves the cursor, and of subscriptions to job events. t/t0902-host-rules.t tests
//! the same rules in Flux.

use fairshare_embedded::{Cred, Shape, State, Submission};
use serde_json::{Value, json};

use super::{Bench, probe};

const PRIORITY_GET: &str = "job.priority.get";

/// Returns a job manager with a running job and `n` pending jobs, and the ids of the pending jobs in the order of submission. The test
/// plugin was loaded after the submissions, with `script`.
fn load_with_pending_jobs(n: usize, script: impl Fn(&[u64]) -> Value) -> (Bench, Vec<u64>) {
    let bench = Bench::new(json!({super::PRIORITY: [["priority", 1]]}));
    let whole_cluster = Submission::simple(5001, &Shape { nodes: 2, cores: 4, ..Shape::default() });
    let mut ids: Vec<u64> = (0..=n).map(|_| bench.host.submit(&whole_cluster).expect("accepted")).collect();
    ids.remove(0);
    bench.host.remove("probe.so").unwrap();
    bench.take_log();
    bench.host.load(&probe(), Some(&json!({"script": script(&ids)}))).unwrap();
    (bench, ids)
}

/// Removes the log lines of the probe, and returns the jobs whose priorities Flux requested, in order.
fn take_jobs_with_requested_priority(bench: &Bench) -> Vec<u64> {
    let lines = bench.take_log().into_iter().filter_map(|line| {
        let words = line.strip_prefix(PRIORITY_GET)?.trim_start().to_owned();
        words.split(' ').next()?.parse().ok()
    });
    lines.collect()
}

#[test]
fn the_loop_over_pending_jobs_visits_each_job_once_without_other_lookups() {
    let (bench, ids) = load_with_pending_jobs(
        4,
        |ids| json!({PRIORITY_GET: [["priority", 1], ["find", "", ids[2], ids[2]], ["memo", "x"]]}),
    );
    assert_eq!(take_jobs_with_requested_priority(&bench), ids.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(bench.host.violations(), Vec::<String>::new());
}

#[test]
fn each_call_about_another_job_in_the_reprioritize_loop_is_reported_as_a_violation() {
    for call in ["find", "subscribe", "unsubscribe", "memo", "hold", "release", "raise"] {
        let (bench, ids) = load_with_pending_jobs(
            4,
            |ids| json!({PRIORITY_GET: [["priority", 1], [call, "clean", ids[0], ids[3]]]}),
        );
        let visited = take_jobs_with_requested_priority(&bench);
        assert!(!visited.contains(&ids[1]) && !visited.contains(&ids[2]), "{call}: {visited:?}");
        let violations = bench.host.violations();
        assert!(
            violations[0].contains(&format!("of job {} in the reprioritize loop", ids[0])),
            "{violations:?}"
        );
    }
    for (call, argument) in [("update_id", json!("attributes.system.x")), ("reprioritize", json!(5))] {
        let (bench, ids) = load_with_pending_jobs(
            4,
            |ids| json!({PRIORITY_GET: [["priority", 1], [call, argument, ids[0], ids[3]]]}),
        );
        assert_eq!(
            take_jobs_with_requested_priority(&bench).iter().filter(|id| **id == ids[1]).count(),
            0,
            "{call}"
        );
        assert_eq!(bench.host.violations().len(), 1, "{call}: {:?}", bench.host.violations());
    }
}

#[test]
fn a_lookup_of_a_visited_job_makes_the_reprioritize_loop_visit_jobs_again() {
    let (bench, ids) = load_with_pending_jobs(
        3,
        |ids| json!({PRIORITY_GET: [["priority", 1], ["find", "", ids[2], ids[1]]]}),
    );
    let visited = take_jobs_with_requested_priority(&bench);
    assert_eq!(visited[..4], [ids[2], ids[1], ids[2], ids[1]]);
    let violations = bench.host.violations();
    assert!(violations.contains(&"the reprioritize loop would never end".to_string()), "{violations:?}");
}

#[test]
fn a_nested_reprioritize_loop_ends_the_outer_loop() {
    let (bench, ids) = load_with_pending_jobs(
        3,
        |ids| json!({PRIORITY_GET: [["priority", 1], ["reprioritize_all", "", ids[2], ids[1]]]}),
    );
    assert!(bench.host.violations().contains(&"a reprioritize loop in the reprioritize loop".to_string()));
    assert_eq!(take_jobs_with_requested_priority(&bench), [ids[2], ids[1]]);
}

#[test]
fn a_job_that_ends_in_a_reprioritize_loop_is_removed_after_the_loop() {
    let (bench, ids) = load_with_pending_jobs(
        3,
        |ids| json!({PRIORITY_GET: [["priority", 1], ["raise", "now", ids[2], ids[2]]]}),
    );
    // The loop visits all three jobs. Flux removes the ended job later, when the scheduler has confirmed the cancellation.
    assert_eq!(take_jobs_with_requested_priority(&bench).len(), 3);
    bench.host.settle();
    assert_eq!(bench.state(ids[2]), State::Inactive);
}

/// Changes the urgency of a job, and returns the number of events that the probe received.
fn count_urgency_events(bench: &Bench, id: u64) -> usize {
    bench.take_log();
    bench.host.set_urgency(id, 15, Cred::owner(1000)).unwrap();
    let topics =
        bench.take_log().into_iter().filter(|line| line.starts_with(&format!("job.event.urgency {id}")));
    topics.count()
}

#[test]
fn each_subscription_delivers_each_event_once() {
    let (bench, ids) = load_with_pending_jobs(
        2,
        |_| json!({PRIORITY_GET: [["priority", 1]], super::PRIORITY: [["priority", 1]]}),
    );
    let perform_step = |name: &str| bench.perform_step(json!([name, "", ids[0]])).map(drop).unwrap();
    assert_eq!(count_urgency_events(&bench, ids[0]), 0, "no plugin subscribed");
    perform_step("subscribe");
    assert_eq!((count_urgency_events(&bench, ids[0]), count_urgency_events(&bench, ids[1])), (1, 0));
    perform_step("subscribe");
    assert_eq!((count_urgency_events(&bench, ids[0]), bench.host.subscriptions()), (2, 2));
    perform_step("unsubscribe");
    assert_eq!((count_urgency_events(&bench, ids[0]), bench.host.subscriptions()), (1, 1));
    perform_step("unsubscribe");
    perform_step("unsubscribe");
    assert_eq!((count_urgency_events(&bench, ids[0]), bench.host.subscriptions()), (0, 0));
}

#[test]
fn a_subscription_outlives_its_job_but_not_the_plugin() {
    let (bench, ids) = load_with_pending_jobs(1, |_| json!({PRIORITY_GET: [["priority", 1]]}));
    bench.perform_step(json!(["subscribe", "", ids[0]])).unwrap();
    bench.host.cancel(ids[0], Cred::owner(1000)).unwrap();
    assert_eq!(bench.host.subscriptions(), 1, "the job is inactive, and not purged");
    bench.perform_step(json!(["unsubscribe", "", ids[0]])).unwrap();
    assert_eq!(bench.host.subscriptions(), 1, "Flux finds only active jobs");
    bench.host.remove("probe.so").unwrap();
    assert_eq!(bench.host.subscriptions(), 0);
}
