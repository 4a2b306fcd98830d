// SPDX-License-Identifier: LGPL-3.0-only
//! The callbacks of a plugin at loads, removals and restarts with active jobs.

use fairshare_embedded::{Order, State};
use serde_json::{Value, json};

use super::{Bench, PRIORITY, job, probe};

/// Returns a job manager with four jobs, and the ids of the jobs. In the order of their ids, the jobs are in DEPEND, PRIORITY, SCHED and
/// RUN.
fn make_bench_with_all_states() -> (Bench, Vec<u64>) {
    let bench = Bench::empty();
    let submit_under_script = |script: Value| {
        bench.host.load(&probe(), Some(&json!({"script": script}))).unwrap();
        let id = bench.host.submit(&job(1)).unwrap();
        bench.host.remove("probe.so").unwrap();
        id
    };
    let ids = vec![
        submit_under_script(json!({"job.state.depend": [["hold", "name"]]})),
        submit_under_script(json!({PRIORITY: [["unavail"]]})),
        submit_under_script(json!({PRIORITY: [["priority", 0]]})),
        submit_under_script(json!({PRIORITY: [["priority", 5]]})),
    ];
    bench.take_log();
    (bench, ids)
}

#[test]
fn the_host_replays_all_jobs_to_a_loaded_plugin_in_the_configured_order() {
    let (bench, ids) = make_bench_with_all_states();
    let states: Vec<State> = ids.iter().map(|&id| bench.state(id)).collect();
    assert_eq!(states, [State::Depend, State::Priority, State::Sched, State::Run]);
    let conf = json!({"sort": "-state", "script": {"job.priority.get": [["priority", 0]]}});
    bench.host.load(&probe(), Some(&conf)).unwrap();
    let expected = [
        "create 16",
        "new 16",
        "create 8",
        "new 8",
        "create 4",
        "new 4",
        "create 2",
        "new 2",
        "state.depend 2",
        // The embedded loop visits the latest job first, as Flux's hash may do.
        "priority.get 8",
        "priority.get 4",
        "state.sched 8",
    ];
    assert_eq!(bench.take_logged_topics(), expected);
}

#[test]
fn a_wrong_sort_order_fails_the_load() {
    let bench = Bench::empty();
    let error = bench.host.load(&probe(), Some(&json!({"sort": "up"}))).unwrap_err();
    assert!(error.ends_with("probe.so: flux_plugin_init failed"), "{error}");
    assert_eq!(bench.host.plugin_aux_count(), 0);
}

#[test]
fn a_second_load_is_rejected() {
    let bench = Bench::new(json!({}));
    assert_eq!(bench.host.load(&probe(), None), Err("probe.so already loaded".to_string()));
}

#[test]
fn a_job_update_made_while_jobs_are_replayed_affects_the_next_job() {
    let bench = Bench::empty();
    bench.host.load(&probe(), Some(&json!({"script": {"job.state.depend": [["hold", "x"]]}}))).unwrap();
    let a = bench.submit(1);
    bench.host.remove("probe.so").unwrap();
    bench
        .host
        .load(&probe(), Some(&json!({"script": {"job.new": [["update", "attributes.system.bank"]]}})))
        .unwrap();
    let b = bench.host.submit_batch(&[job(1)]).remove(0).unwrap();
    let bank = |id| bench.host.job(id, |job| job.attribute("bank").map(str::to_string)).unwrap();
    assert_eq!((bank(a), bank(b).as_deref()), (None, Some("set")));
}

#[test]
fn a_restart_makes_the_callbacks_that_each_state_requires() {
    let (bench, ids) = make_bench_with_all_states();
    bench
        .host
        .load(
            &probe(),
            Some(&json!({"script": {PRIORITY: [["priority", 0]], "job.priority.get": [["unavail"]]}})),
        )
        .unwrap();
    bench.take_log();
    bench.host.restart(Order::Ascending).unwrap();
    let lines: Vec<String> = bench.take_log().into_iter().filter(|line| line.starts_with("job.")).collect();
    let topics_of = |id: u64| -> Vec<String> {
        let own_lines = lines.iter().filter(|line| line.contains(&format!(" {id} ")));
        own_lines.map(|line| line.split(' ').next().unwrap().trim_start_matches("job.").to_string()).collect()
    };
    assert_eq!(topics_of(ids[0]), ["create", "new"]);
    assert_eq!(topics_of(ids[1]), ["create", "new"]);
    assert_eq!(topics_of(ids[2]), ["create", "new", "state.priority", "state.sched"]);
    assert_eq!(topics_of(ids[3]), ["create", "new"]);
    assert_eq!(bench.host.job(ids[0], |job| job.dependencies.clone()).unwrap(), ["name"]);
    bench.host.finish(ids[3]);
    bench.host.settle();
    assert_eq!(bench.state(ids[3]), State::Inactive);
    assert_eq!(
        bench.take_logged_topics(),
        ["state.cleanup 32", "state.inactive 64", "inactive-add 64", "destroy 64"]
    );
    bench.host.restart(Order::Descending).unwrap();
    assert_eq!(
        bench.take_logged_topics().iter().filter(|line| line.ends_with(" 64")).count(),
        2,
        "inactive-add and destroy"
    );
}

#[test]
fn a_job_in_cleanup_ends_at_a_restart_without_create_and_new() {
    let bench = Bench::new(json!({PRIORITY: [["priority", 5]], "job.state.cleanup": [["fail"]]}));
    let id = bench.submit(1);
    // The reactor does not run after the cancellation, so the job stays in CLEANUP.
    bench.host.cancel_without_running_reactor(id);
    assert_eq!(bench.state(id), State::Cleanup);
    bench.take_log();
    bench.host.restart(Order::Ascending).unwrap();
    assert_eq!(bench.take_logged_topics(), ["state.inactive 64", "inactive-add 64", "destroy 64"]);
}

#[test]
fn the_dependency_callback_precedes_create_at_restart_and_follows_new_at_load() {
    let bench = Bench::new(json!({"job.dependency.probe": [["hold", "declared"]]}));
    let mut declared = job(1);
    declared.jobspec["attributes"]["system"]["dependencies"] = json!([{"scheme": "probe", "value": "x"}]);
    bench.host.submit(&declared).unwrap();
    assert_eq!(bench.take_logged_topics()[..4], ["create 1", "validate 1", "dependency.probe 1", "new 1"]);
    bench.host.restart(Order::Ascending).unwrap();
    assert_eq!(bench.take_logged_topics(), ["dependency.probe 2", "create 2", "new 2"]);
    bench.host.remove("probe.so").unwrap();
    bench.host.load(&probe(), None).unwrap();
    assert_eq!(bench.take_logged_topics(), ["create 2", "new 2", "dependency.probe 2", "state.depend 2"]);
}
