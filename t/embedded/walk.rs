// SPDX-License-Identifier: LGPL-3.0-only
//! The reprioritize loop, whose cursor any lookup by id moves, and subscriptions to job events. t/t0902-host-rules.t tests the same
//! in Flux.

use fairshare_embedded::{Cred, Shape, State, Submission};
use serde_json::{Value, json};

use super::{Bench, probe};

const GET: &str = "job.priority.get";

/// Returns a bench with a running job and `n` pending jobs in the order of their submission, after a reload of a probe with `script`.
fn pending(n: usize, script: impl Fn(&[u64]) -> Value) -> (Bench, Vec<u64>) {
    let bench = Bench::new(json!({super::PRIORITY: [["priority", 1]]}));
    let whole = Submission::simple(5001, &Shape { nodes: 2, cores: 4, ..Shape::default() });
    let mut ids: Vec<u64> = (0..=n).map(|_| bench.host.submit(&whole).expect("accepted")).collect();
    ids.remove(0);
    bench.host.remove("probe.so").unwrap();
    bench.log();
    bench.host.load(&probe(), Some(&json!({"script": script(&ids)}))).unwrap();
    (bench, ids)
}

/// Returns the jobs whose priority was requested, in order.
fn visited(bench: &Bench) -> Vec<u64> {
    let lines = bench.log().into_iter().filter_map(|line| {
        let rest = line.strip_prefix(GET)?.trim_start().to_owned();
        rest.split(' ').next()?.parse().ok()
    });
    lines.collect()
}

#[test]
fn a_plugin_that_touches_no_other_job_visits_each_once() {
    let (bench, ids) =
        pending(4, |ids| json!({GET: [["priority", 1], ["find", "", ids[2], ids[2]], ["memo", "x"]]}));
    assert_eq!(visited(&bench), ids.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(bench.host.violations(), Vec::<String>::new());
}

#[test]
fn each_call_about_another_job_moves_the_cursor_and_is_a_violation() {
    for call in
        ["find", "posted", "subscribe", "unsubscribe", "memo", "aux", "aux_get", "hold", "release", "raise"]
    {
        let (bench, ids) = pending(4, |ids| json!({GET: [["priority", 1], [call, "clean", ids[0], ids[3]]]}));
        let seen = visited(&bench);
        assert!(!seen.contains(&ids[1]) && !seen.contains(&ids[2]), "{call}: {seen:?}");
        let violations = bench.host.violations();
        assert!(
            violations[0].contains(&format!("of job {} in the reprioritize loop", ids[0])),
            "{violations:?}"
        );
    }
    for (call, argument) in [("update_id", json!("attributes.system.x")), ("reprioritize", json!(5))] {
        let (bench, ids) =
            pending(4, |ids| json!({GET: [["priority", 1], [call, argument, ids[0], ids[3]]]}));
        assert_eq!(visited(&bench).iter().filter(|id| **id == ids[1]).count(), 0, "{call}");
        assert_eq!(bench.host.violations().len(), 1, "{call}: {:?}", bench.host.violations());
    }
}

#[test]
fn a_lookup_backwards_visits_again() {
    let (bench, ids) = pending(3, |ids| json!({GET: [["priority", 1], ["find", "", ids[2], ids[1]]]}));
    let seen = visited(&bench);
    assert_eq!(seen[..4], [ids[2], ids[1], ids[2], ids[1]]);
    let violations = bench.host.violations();
    assert!(violations.contains(&"the reprioritize loop would never end".to_string()), "{violations:?}");
}

#[test]
fn a_loop_in_the_loop_ends_it() {
    let (bench, ids) =
        pending(3, |ids| json!({GET: [["priority", 1], ["reprioritize_all", "", ids[2], ids[1]]]}));
    assert!(bench.host.violations().contains(&"a reprioritize loop in the reprioritize loop".to_string()));
    assert_eq!(visited(&bench), [ids[2], ids[1]]);
}

#[test]
fn a_job_that_ends_in_the_loop_ends_the_walk() {
    let (bench, ids) = pending(3, |ids| json!({GET: [["priority", 1], ["raise", "now", ids[2], ids[2]]]}));
    // The job leaves the scheduler's queue in a later turn.
    assert_eq!(visited(&bench).len(), 3);
    bench.host.settle();
    assert_eq!(bench.state(ids[2]), State::Inactive);
}

/// Changes the urgency of a job, and returns the number of events that the probe received.
fn count_urgency_events(bench: &Bench, id: u64) -> usize {
    bench.log();
    bench.host.set_urgency(id, 15, Cred::owner(1000)).unwrap();
    let topics = bench.log().into_iter().filter(|line| line.starts_with(&format!("job.event.urgency {id}")));
    topics.count()
}

#[test]
fn subscriptions_are_a_list_of_each_job() {
    let (bench, ids) = pending(2, |_| json!({GET: [["priority", 1]], super::PRIORITY: [["priority", 1]]}));
    let step = |name: &str| bench.step(json!([name, "", ids[0]])).map(drop).unwrap();
    assert_eq!(count_urgency_events(&bench, ids[0]), 0, "no plugin subscribed");
    step("subscribe");
    assert_eq!((count_urgency_events(&bench, ids[0]), count_urgency_events(&bench, ids[1])), (1, 0));
    step("subscribe");
    assert_eq!((count_urgency_events(&bench, ids[0]), bench.host.subscriptions()), (2, 2));
    step("unsubscribe");
    assert_eq!((count_urgency_events(&bench, ids[0]), bench.host.subscriptions()), (1, 1));
    step("unsubscribe");
    step("unsubscribe");
    assert_eq!((count_urgency_events(&bench, ids[0]), bench.host.subscriptions()), (0, 0));
}

#[test]
fn a_subscription_outlives_its_job_but_not_the_plugin() {
    let (bench, ids) = pending(1, |_| json!({GET: [["priority", 1]]}));
    bench.step(json!(["subscribe", "", ids[0]])).unwrap();
    bench.host.cancel(ids[0], Cred::owner(1000)).unwrap();
    assert_eq!(bench.host.subscriptions(), 1, "the job is inactive, and not purged");
    bench.step(json!(["unsubscribe", "", ids[0]])).unwrap();
    assert_eq!(bench.host.subscriptions(), 1, "too late: only active jobs are found");
    bench.host.remove("probe.so").unwrap();
    assert_eq!(bench.host.subscriptions(), 0);
}
