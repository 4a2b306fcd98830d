// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that the callbacks about a job come in the order in which Flux makes them, from submission to end.

use fairshare_embedded::{Cred, State};
use serde_json::json;

use super::{Bench, PRIORITY, job};

/// Returns a script in which the probe answers each request for a priority with `priority`.
fn make_script_with_priority(priority: i64) -> serde_json::Value {
    json!({PRIORITY: [["priority", priority]], "job.priority.get": [["priority", priority]]})
}

#[test]
fn a_job_gets_the_callbacks_of_each_state_in_order() {
    let bench = Bench::new(make_script_with_priority(50));
    let id = bench.submit(1);
    assert_eq!(bench.state(id), State::Run);
    bench.host.finish(id);
    bench.host.settle();
    assert_eq!(
        bench.take_logged_topics(),
        [
            "create 1",
            "validate 1",
            "new 1",
            "state.depend 2",
            "state.priority 4",
            "state.sched 8",
            "state.run 16",
            "state.cleanup 32",
            "state.inactive 64",
            "inactive-add 64",
            "destroy 64"
        ]
    );
}

#[test]
fn all_jobs_of_a_batch_are_announced_before_the_first_enters_depend() {
    let bench = Bench::new(make_script_with_priority(50));
    bench.host.submit_batch(&[job(1), job(1)]);
    bench.host.settle();
    let topics = bench.take_logged_topics();
    assert_eq!(topics[..6], ["create 1", "validate 1", "new 1", "create 1", "validate 1", "new 1"]);
    assert_eq!(topics[6..9], ["state.depend 2", "state.priority 4", "state.sched 8"]);
}

#[test]
fn an_update_in_job_new_is_posted_before_depend() {
    let mut script = make_script_with_priority(1);
    script["job.new"] = json!([["update", "attributes.system.bank"]]);
    let bench = Bench::new(script);
    let id = bench.submit(1);
    assert_eq!(bench.take_logged_topics()[2..5], ["new 1", "update 1", "state.depend 2"]);
    assert_eq!(bench.host.job(id, |job| job.attribute("bank").map(str::to_string)).unwrap().unwrap(), "set");
}

#[test]
fn a_job_starts_before_the_removal_of_its_last_dependency_returns() {
    let mut script = make_script_with_priority(1);
    script["job.state.depend"] = json!([["hold", "name"]]);
    let bench = Bench::new(script);
    let id = bench.submit(1);
    assert_eq!(bench.state(id), State::Depend);
    assert_eq!(bench.take_log().last().unwrap(), "hold=0/0");
    bench.perform_step(json!(["release", "name", id])).unwrap();
    let log = bench.take_log();
    let sched_callback = log.iter().position(|line| line.starts_with("job.state.sched")).unwrap();
    let end_of_release = log.iter().position(|line| line == "release=0/0").unwrap();
    assert!(sched_callback < end_of_release, "{log:?}");
    assert_eq!(bench.state(id), State::Run);
}

#[test]
fn removing_another_jobs_dependency_in_a_callback_calls_the_plugin_recursively() {
    let mut script = make_script_with_priority(1);
    script["job.state.depend"] = json!([["hold", "name"]]);
    script["job.state.inactive"] = json!([["release", "name", 2 << 24]]);
    let bench = Bench::new(script);
    let a = bench.submit(1);
    let b = bench.submit(1);
    assert_eq!(b, 2 << 24);
    bench.take_log();
    bench.host.cancel(a, Cred::owner(1000)).unwrap();
    let log = bench.take_log();
    let nested_callback = format!("job.state.priority {b} 4 1");
    let at =
        log.iter().position(|line| *line == nested_callback).unwrap_or_else(|| panic!("not nested: {log:?}"));
    assert!(log[at..].contains(&"release=0/0".to_string()));
}

#[test]
fn a_new_urgency_sends_a_job_in_sched_through_priority() {
    let bench = Bench::new(make_script_with_priority(0));
    let id = bench.submit(1);
    assert_eq!(bench.state(id), State::Sched);
    bench.take_logged_topics();
    bench.host.set_urgency(id, 20, Cred::owner(1000)).unwrap();
    assert_eq!(bench.take_logged_topics(), ["state.priority 4", "state.sched 8"]);
    bench.host.set_urgency(id, 31, Cred::owner(1000)).unwrap();
    assert_eq!(bench.host.job(id, |job| job.priority), Some(4_294_967_295));
    assert_eq!(bench.state(id), State::Run);

    let bench = Bench::new(json!({"job.state.depend": [["hold", "name"]]}));
    let id = bench.submit(1);
    bench.take_logged_topics();
    bench.host.set_urgency(id, 0, Cred::guest(5001)).unwrap();
    assert!(bench.take_logged_topics().is_empty());
    assert!(bench.host.set_urgency(id, 17, Cred::guest(5001)).is_err());
    assert!(bench.host.set_urgency(id, 1, Cred::guest(5002)).is_err());
}

#[test]
fn urgency_0_forces_priority_0() {
    let bench = Bench::new(make_script_with_priority(7));
    let mut held = job(1);
    held.urgency = 0;
    let id = bench.host.submit(&held).unwrap();
    assert_eq!((bench.state(id), bench.host.job(id, |job| job.priority)), (State::Sched, Some(0)));
}

#[test]
fn an_update_sends_a_job_in_sched_through_priority_and_leaves_a_job_in_depend() {
    let bench = Bench::new(make_script_with_priority(0));
    let id = bench.submit(1);
    bench.take_logged_topics();
    let queue = [("attributes.system.queue", json!("gold"))];
    bench.host.update(id, &queue, Cred::guest(5001)).unwrap();
    assert_eq!(
        bench.take_logged_topics(),
        ["update.attributes.system.queue 8", "validate 8", "update 4", "state.priority 4", "state.sched 8"]
    );
    let bench = Bench::new(json!({"job.state.depend": [["hold", "name"]]}));
    let id = bench.submit(1);
    bench.take_logged_topics();
    bench.host.update(id, &queue, Cred::owner(1000)).unwrap();
    assert_eq!(bench.take_logged_topics(), ["update.attributes.system.queue 2", "validate 2", "update 2"]);
    let error = bench.host.update(id, &queue, Cred::owner(1000)).unwrap_err();
    assert_eq!(error.text, "job queue is already set to gold");
}

#[test]
fn an_update_of_an_unsupported_key_is_rejected() {
    let bench = Bench::empty();
    let id = bench.submit(1);
    let error = bench.host.update(id, &[("attributes.system.bank", json!("A"))], Cred::owner(1)).unwrap_err();
    assert_eq!(error.text, "update of attributes.system.bank not supported");
    let error = bench.host.update(id, &[("bank", json!("A"))], Cred::owner(1)).unwrap_err();
    assert_eq!(error.text, "one or more jobspec updates are invalid");
}

#[test]
fn a_job_that_is_cancelled_in_any_state_gets_the_same_callbacks() {
    let callbacks = ["state.cleanup 32", "state.inactive 64", "inactive-add 64", "destroy 64"];
    let scripts = [
        (json!({"job.state.depend": [["hold", "name"]]}), State::Depend),
        (json!({PRIORITY: [["unavail"]]}), State::Priority),
        (make_script_with_priority(0), State::Sched),
        (make_script_with_priority(1), State::Run),
    ];
    for (script, state) in scripts {
        let bench = Bench::new(script);
        let id = bench.submit(1);
        assert_eq!(bench.state(id), state);
        bench.take_logged_topics();
        bench.host.cancel(id, Cred::guest(5001)).unwrap();
        assert_eq!(bench.take_logged_topics(), callbacks, "cancelled in {state:?}");
    }
}

#[test]
fn a_rejected_job_is_destroyed() {
    let bench = Bench::new(json!({"job.validate": [["reject", "not today"]]}));
    assert_eq!(bench.host.submit(&job(1)), Err("not today".to_string()));
    assert_eq!(bench.take_logged_topics(), ["create 1", "validate 1", "destroy 1"]);
    assert!(bench.host.jobs().is_empty());
}

#[test]
fn the_cluster_starts_jobs_as_resources_become_free() {
    let bench = Bench::new(json!({PRIORITY: [["priority", 10]]}));
    let submit_with_duration = |seconds: f64| {
        let mut job = job(4);
        job.jobspec["attributes"]["system"]["duration"] = json!(seconds);
        bench.host.submit(&job).unwrap()
    };
    let ids: Vec<u64> = (0..3).map(|_| submit_with_duration(100.0)).collect();
    assert_eq!(
        ids.iter().map(|&id| bench.state(id)).collect::<Vec<_>>(),
        [State::Run, State::Run, State::Sched]
    );
    bench.host.advance(99.0);
    assert_eq!(bench.state(ids[2]), State::Sched);
    bench.host.advance(2.0);
    assert_eq!(bench.state(ids[2]), State::Run);
    let oversized = bench.submit(64);
    assert_eq!(bench.state(oversized), State::Inactive);
}

#[test]
fn a_job_with_afterany_starts_after_the_other_job_has_ended() {
    let bench = Bench::new(make_script_with_priority(1));
    let first = bench.submit(1);
    let mut second = job(1);
    second.jobspec["attributes"]["system"]["dependencies"] = json!([{"scheme": "afterany", "value": first}]);
    let second = bench.host.submit(&second).unwrap();
    assert_eq!(bench.state(second), State::Depend);
    bench.host.finish(first);
    bench.host.settle();
    assert_eq!(bench.state(second), State::Run);
    let mut unsupported = job(1);
    unsupported.jobspec["attributes"]["system"]["dependencies"] = json!([{"scheme": "never", "value": 1}]);
    assert_eq!(bench.host.submit(&unsupported), Err("dependency scheme \"never\" not supported".to_string()));
}
