// SPDX-License-Identifier: LGPL-3.0-only
//! The results of a plugin's calls in each state of a job: dependencies, updates, exceptions, timers and services.

use fairshare_embedded::{Cred, State};
use serde_json::json;

use super::{Bench, PRIORITY};

/// Returns a job manager with a test plugin that holds each job in DEPEND.
fn make_bench_whose_probe_holds_jobs() -> Bench {
    Bench::new(json!({"job.state.depend": [["hold", "name"]], PRIORITY: [["priority", 1]]}))
}

#[test]
fn a_dependency_can_be_added_and_removed_once_and_only_in_depend() {
    let bench = make_bench_whose_probe_holds_jobs();
    let id = bench.submit(1);
    let perform_step = |step: serde_json::Value| {
        bench.take_log();
        let prefix = format!("{}=", step[0].as_str().unwrap());
        bench.perform_step(step).unwrap();
        bench.take_log().into_iter().find(|line| line.starts_with(&prefix)).unwrap()
    };
    assert_eq!(perform_step(json!(["hold", "name", id])), "hold=0/0");
    assert_eq!(perform_step(json!(["release", "other", id])), "release=-1/2");
    assert_eq!(perform_step(json!(["hold", "second", id])), "hold=0/0");
    assert_eq!(perform_step(json!(["release", "name", id])), "release=0/0");
    assert_eq!(bench.state(id), State::Depend);
    // A dependency of this name was removed before. Flux posts an event, but the name does not hold the job again.
    assert_eq!(perform_step(json!(["hold", "name", id])), "hold=0/0");
    assert_eq!(bench.host.job(id, |job| job.dependencies.clone()).unwrap(), ["second"]);
    assert_eq!(perform_step(json!(["release", "second", id])), "release=0/0");
    assert_eq!(bench.state(id), State::Run);
    assert_eq!(perform_step(json!(["hold", "third", id])), "hold=-1/22");
    assert_eq!(perform_step(json!(["release", "third", id])), "release=-1/22");
    assert_eq!(perform_step(json!(["release", "third", 99])), "release=-1/2");
    assert_eq!(perform_step(json!(["release", "third"])), "release=-1/2");
}

#[test]
fn a_queued_dependency_removal_that_fails_drops_the_later_events_of_the_job() {
    let script = json!({"job.state.depend": [["hold", "name"], ["release", "absent"], ["memo", "lost"]]});
    let bench = Bench::new(script);
    let id = bench.submit(1);
    assert!(bench.take_log().contains(&"release=0/0".to_string()));
    let events = bench.host.job(id, |job| job.eventlog.clone()).unwrap();
    let names: Vec<&str> = events.iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["submit", "validate", "dependency-add"]);
}

#[test]
fn flux_rejects_an_exception_in_job_new_and_for_inactive_jobs() {
    let bench = Bench::new(json!({"job.new": [["raise", "too early"]], PRIORITY: [["raise", "now"]]}));
    let id = bench.submit(1);
    assert!(bench.take_log().contains(&"raise=-1/22".to_string()));
    assert_eq!(bench.state(id), State::Inactive);
    bench.perform_step(json!(["raise", "late", id])).unwrap();
    assert_eq!(bench.take_log(), ["raise=-1/2"]);
}

#[test]
fn a_jobspec_update_fails_in_run_and_without_a_current_job() {
    let bench = Bench::new(json!({
        PRIORITY: [["priority", 0], ["update_id", "attributes.system.x"]],
        "job.state.sched": [["update", "nonsense.key"]],
        "job.state.run": [["update", "attributes.system.x"]],
    }));
    let id = bench.submit(1);
    assert!(bench.take_log().contains(&"update_id=-1/22".to_string()));
    bench.perform_step(json!(["update", "attributes.system.x", id])).unwrap();
    assert_eq!(bench.take_log(), ["update=-1/22"], "no current job in a service");
    bench.perform_step(json!(["update_id", "attributes.system.x", id])).unwrap();
    let topics: Vec<String> = bench.take_log().into_iter().filter(|line| line.starts_with("job.")).collect();
    assert_eq!(
        topics,
        [
            format!("job.update {id} 4 0"),
            format!("job.state.priority {id} 4 0"),
            format!("job.state.sched {id} 8 0")
        ]
    );
    bench.host.set_urgency(id, 31, Cred::owner(1000)).unwrap();
    assert!(bench.take_log().contains(&"update=-1/22".to_string()), "not in RUN");
    bench.perform_step(json!(["update_id", "attributes.system.x", id])).unwrap();
    assert_eq!(bench.take_log(), ["update_id=-1/22"]);
}

#[test]
fn a_job_without_a_priority_leaves_priority_when_it_gets_one() {
    let bench = Bench::new(json!({PRIORITY: [["unavail"]], "job.priority.get": [["priority", 9]]}));
    let id = bench.submit(1);
    assert_eq!(bench.state(id), State::Priority);
    bench.perform_step(json!(["reprioritize", 5, id])).unwrap();
    assert_eq!((bench.state(id), bench.host.job(id, |job| job.priority)), (State::Run, Some(5)));
    bench.perform_step(json!(["reprioritize", 5, 77])).unwrap();
    assert!(bench.take_log().contains(&"reprioritize=-1/2".to_string()));

    let second = bench.submit(8);
    assert_eq!(bench.state(second), State::Priority);
    bench.perform_step(json!(["reprioritize_all"])).unwrap();
    assert_eq!(bench.host.job(second, |job| job.priority), Some(9));

    let bench = Bench::new(json!({PRIORITY: [["bad_priority"]]}));
    let id = bench.submit(1);
    assert_eq!(bench.state(id), State::Priority);
    let events = bench.host.job(id, |job| job.eventlog.clone()).unwrap();
    assert_eq!(events.last().unwrap()["context"]["type"], PRIORITY);
}

#[test]
fn an_unavailable_priority_of_a_job_in_sched_is_logged_as_a_bug() {
    let bench = Bench::new(json!({PRIORITY: [["priority", 0]], "job.priority.get": [["unavail"]]}));
    bench.submit(1);
    bench.host.reprioritize_all();
    assert!(
        bench
            .host
            .take_log()
            .iter()
            .any(|l| l.level == 3 && l.text.ends_with("BUG: plugin didn't return priority"))
    );
}

#[test]
fn timers_run_in_virtual_time() {
    let bench = Bench::new(json!({"timer": [["reprioritize_all"]]}));
    bench.perform_step(json!(["timer", 60])).unwrap();
    bench.take_log();
    bench.host.advance(59.0);
    assert!(bench.take_log().is_empty());
    bench.host.advance(2.0);
    assert_eq!(bench.take_log(), ["timer", "reprioritize_all=0/0"]);
    bench.perform_step(json!(["timer", 0])).unwrap();
    assert!(bench.take_log().contains(&"timer".to_string()));
    bench.host.remove("probe.so").unwrap();
    assert_eq!(bench.host.live_watchers(), 0);
    assert!(bench.host.violations().is_empty());
}

#[test]
fn a_timer_left_behind_is_a_violation() {
    let bench = Bench::new(json!({}));
    bench.perform_step(json!(["leak_timer", 60])).unwrap();
    bench.host.remove("probe.so").unwrap();
    assert_eq!(bench.host.violations(), ["probe.so: a timer left behind at removal"]);
    bench.host.advance(100.0);
}

#[test]
fn a_lookup_of_an_eventlog_returns_its_events_or_fails() {
    let bench = make_bench_whose_probe_holds_jobs();
    let id = bench.submit(1);
    bench.take_log();
    bench.perform_step(json!(["lookup", "", id])).unwrap();
    let log = bench.take_log();
    assert!(log[1].starts_with("lookup {") && log[1].contains("dependency-add"), "{log:?}");
    bench.perform_step(json!(["lookup", "", 12345])).unwrap();
    assert!(bench.take_log().contains(&"lookup failed 2".to_string()));
}

#[test]
fn a_subscriber_gets_the_events_of_a_job() {
    let bench = Bench::new(json!({"job.new": [["subscribe"]], PRIORITY: [["priority", 1]]}));
    bench.submit(1);
    let topics = bench.take_logged_topics();
    assert!(
        topics.contains(&"event.validate 2".to_string()) && topics.contains(&"event.alloc 16".to_string()),
        "{topics:?}"
    );
}

#[test]
fn a_service_rejects_invalid_requests_and_unauthorized_users() {
    let bench = Bench::new(json!({}));
    let owner = Cred::owner(1000);
    let request_error = |topic, payload, cred| bench.host.request(topic, payload, cred).unwrap_err();
    assert_eq!(request_error("job-manager.probe.do", None, owner).errno.0, 71);
    assert_eq!(request_error("job-manager.probe.do", Some("{"), owner).errno.0, 71);
    assert_eq!(request_error("job-manager.probe.do", Some("[]"), owner).errno.0, 71);
    assert_eq!(request_error("job-manager.probe.none", None, owner).errno.0, 38);
    let guest = request_error("job-manager.probe.do", None, Cred::guest(5001));
    assert_eq!((guest.errno.0, guest.text.as_str()), (1, "Request requires owner credentials"));
    let answer = bench.host.request("job-manager.probe.who", None, Cred::guest(5001)).unwrap();
    assert_eq!(answer.as_deref(), Some("{\"userid\":5001}"));
    assert!(bench.host.violations().is_empty());
}

#[test]
fn a_lookup_finds_an_existing_job_only() {
    let bench = make_bench_whose_probe_holds_jobs();
    let id = bench.submit(1);
    bench.take_log();
    bench.perform_step(json!(["find", "", id])).unwrap();
    bench.perform_step(json!(["find", "", 4711])).unwrap();
    assert_eq!(bench.take_log(), ["find=0/0", "find=-1/2"]);
}
