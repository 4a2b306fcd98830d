// SPDX-License-Identifier: LGPL-3.0-only
//! Nested callbacks: when the plugin removes a dependency in the callback of one job, Flux calls the plugin about another job before the
//! removal returns.

use fairshare_embedded::{Order, Shape, State, Submission};
use serde_json::json;

use super::{OWNER, Site, association, document, job, queue, run_in_own_process};
use crate::embedded::probe;

fn list_events(site: &Site, id: u64) -> Vec<String> {
    let log = site.host.job(id, |job| job.eventlog.clone()).unwrap();
    log.iter().map(|event| event["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn the_callback_of_an_ended_job_starts_the_next_held_job() {
    let site = Site::new();
    let first = site.submit(&job(5001, 1));
    let held: Vec<u64> = (0..5).map(|_| site.submit(&job(5001, 1))).collect();
    let mut running = first;
    for &next in &held {
        assert_eq!((site.state(running), site.state(next)), (State::Run, State::Depend));
        site.finish(running);
        site.check();
        assert_eq!((site.state(running), site.state(next)), (State::Inactive, State::Run));
        running = next;
    }
    site.finish(running);
    let counts = site.association(5001, "A");
    assert_eq!(
        [&counts["cur_active_jobs"], &counts["cur_run_jobs"], &counts["held_jobs"]],
        [&json!(0), &json!(0), &json!({})]
    );
}

#[test]
fn one_reprioritize_releases_many_jobs_in_nested_callbacks() {
    let site = Site::new();
    let first = site.submit(&job(5001, 1));
    let held: Vec<u64> = (0..50).map(|_| site.submit(&job(5001, 0))).collect();
    let mut raised = document();
    raised["associations"][0] = association(5001, "A", json!({}));
    site.push(&raised);
    for &id in &held {
        assert_ne!(site.state(id), State::Depend);
        let names = list_events(&site, id);
        assert_eq!(names.iter().filter(|name| *name == "dependency-remove").count(), 1, "{names:?}");
    }
    site.check();
    site.finish(first);
    site.check();
}

#[test]
fn a_job_cancelled_during_a_chain_of_releases_keeps_no_headroom() {
    let site = Site::new();
    let first = site.submit(&job(5001, 4));
    let held: Vec<u64> = (0..4).map(|_| site.submit(&job(5001, 1))).collect();
    site.host.cancel_without_running_reactor(held[0]);
    site.host.cancel_without_running_reactor(first);
    site.host.cancel_without_running_reactor(held[2]);
    site.host.settle();
    site.check();
    assert_eq!((site.state(held[1]), site.state(held[3])), (State::Run, State::Depend));
    site.finish(held[1]);
    assert_eq!(site.state(held[3]), State::Run);
}

#[test]
fn an_update_that_moves_a_job_releases_another() {
    let site = Site::new();
    let in_r = |userid| {
        let shape = Shape { nodes: 1, cores: 4, attributes: &[("queue", "r")], ..Shape::default() };
        Submission::simple(userid, &shape)
    };
    // Each association may run one job in queue r. The cluster is full, so the first job stays in SCHED.
    let blocking_job = site.submit(&job(5003, 2));
    let more = site.submit(&job(5002, 2));
    let first = site.submit(&in_r(5002));
    site.finish(more);
    assert_eq!(site.state(first), State::Run);
    let second = site.submit(&in_r(5002));
    assert_eq!(site.state(second), State::Depend);
    site.host.update(second, &[("attributes.system.queue", json!("q"))], OWNER).unwrap();
    site.check();
    assert_eq!(site.state(second), State::Run, "no limit of queue q holds the moved job");
    site.finish(first);
    site.finish(blocking_job);
    site.check();
}

#[test]
fn a_scan_releases_a_job_of_urgency_0_before_the_next_job() {
    let mut data = document();
    data["associations"][0] = association(5001, "A", json!({"max_nodes": 3, "max_sched_jobs": 2}));
    // The urgency of the first job is 0 at submission, or becomes 0 while the job is held.
    for at_submission in [true, false] {
        let site = Site::with(&data);
        let running = site.submit(&job(5001, 3));
        let of_urgency = |urgency| Submission { urgency, ..job(5001, 1) };
        let first = site.submit(&of_urgency(if at_submission { 0 } else { 16 }));
        let (large, last) = (site.submit(&job(5001, 3)), site.submit(&of_urgency(0)));
        if !at_submission {
            site.host.set_urgency(first, 0, OWNER).unwrap();
        }
        site.finish(running);
        let states = [first, large, last].map(|id| site.state(id));
        assert_eq!(states, [State::Sched, State::Run, State::Depend]);
        site.check();
        site.finish(large);
        [first, last].into_iter().for_each(|id| site.host.set_urgency(id, 16, OWNER).unwrap());
        site.host.settle();
        assert_eq!([first, last].map(|id| site.state(id)), [State::Run; 2]);
        site.check();
    }
}

#[test]
fn queue_limits_of_nodes_and_cores_are_kept_through_releases() {
    let mut data = document();
    data["queues"] = json!([queue("q", json!({"max_nodes_per_assoc": 2})), queue("r", json!({}))]);
    let site = Site::with(&data);
    let jobs: Vec<u64> = (0..6).map(|_| site.submit(&job(5002, 1))).collect();
    let in_use = |site: &Site| {
        let usage = site.association(5002, "A")["queue_usage"]["q"].clone();
        usage["cur_nodes"].as_i64().unwrap() + usage["cur_sched_nodes"].as_i64().unwrap()
    };
    for &id in &jobs {
        assert!(in_use(&site) <= 2);
        site.check();
        if site.state(id) == State::Run {
            site.finish(id);
        }
    }
    assert!(jobs.iter().all(|&id| site.state(id) == State::Inactive));
    assert_eq!(in_use(&site), 0);
}

#[test]
fn the_first_turn_after_a_reload_releases_held_jobs() {
    for order in [Order::Ascending, Order::Descending] {
        let site = Site::new();
        let first = site.submit(&job(5001, 1));
        let held: Vec<u64> = (0..3).map(|_| site.submit(&job(5001, 1))).collect();
        site.host.remove(super::SO).unwrap();
        site.finish(first);
        let mut raised = document();
        raised["associations"][0] = association(5001, "A", json!({}));
        site.load(&raised);
        site.host.settle();
        site.check();
        assert!(held.iter().all(|&id| site.state(id) == State::Run), "flaw 39");
        site.host.restart(order).unwrap();
        site.host.settle();
        site.check();
        assert_eq!(site.association(5001, "A")["cur_run_jobs"], 3);
    }
}

#[test]
fn jobs_that_end_at_their_release_do_not_overflow_the_stack() {
    run_in_own_process("nested::each_of_3000_released_jobs_ends");
}

#[test]
#[ignore = "run by its sibling, in a process of its own: it would take down all others"]
fn each_of_3000_released_jobs_ends() {
    const HELD: usize = 3000;
    let mut one_at_a_time = document();
    one_at_a_time["associations"][0] = association(5001, "A", json!({"max_sched_jobs": 1}));
    let site = Site::with(&one_at_a_time);
    let _full = site.submit(&job(5002, 4));
    let first = site.submit(&job(5001, 1));
    let held: Vec<u64> = (0..HELD).map(|_| site.submit(&job(5001, 1))).collect();
    assert!(held.iter().all(|&id| site.state(id) == State::Depend));
    // Another plugin ends each job that reaches PRIORITY.
    site.host.load(&probe(), Some(&json!({"script": {"job.state.priority": [["raise", "no"]]}}))).unwrap();
    site.host.cancel(first, OWNER).unwrap();
    site.host.settle();
    assert_eq!(held.iter().filter(|&&id| site.state(id) != State::Inactive).count(), 0);
    site.check();
}

/// After a push, the priority of a released job becomes 0, so the plugin may release another job of the user. Flux asks
/// for priorities in a loop over all jobs. If the plugin released a job within this loop, Flux would lose its position
/// in the list of jobs.
#[test]
fn a_pushed_score_of_0_releases_the_next_job_after_fluxs_reprioritization() {
    let with_queue_r = |priority: i64| {
        let mut document = document();
        document["priority_factors"].as_array_mut().unwrap().push(json!({"factor": "queue", "weight": 1}));
        document["queues"][1] = queue("r", json!({"priority": priority}));
        document
    };
    let site = Site::with(&with_queue_r(1));
    let [running, others] = [job(5001, 1), job(5002, 3)].map(|job| site.submit(&job));
    let whole = Shape { nodes: 4, cores: 4, attributes: &[("queue", "r")], ..Shape::default() };
    let [first, next] = [Submission::simple(5001, &whole), job(5001, 1)].map(|job| site.submit(&job));
    site.finish(running);
    assert_eq!([first, next].map(|id| site.state(id)), [State::Sched, State::Depend]);
    site.push(&with_queue_r(-1_000_000));
    site.host.settle();
    assert_eq!(site.host.job(first, |job| job.priority), Some(0));
    assert_eq!([first, next].map(|id| site.state(id)), [State::Sched, State::Run]);
    site.check();
    site.finish(others);
    assert_eq!(site.state(first), State::Sched);
}

/// While Flux passes a configuration to its plugins, any callback about a job moves the cursor of Flux's loop over the plugins. So the plugin must
/// release jobs after that loop.
#[test]
fn flux_passes_a_configuration_once_although_the_plugin_releases_a_job() {
    let table =
        |jobs: u64| json!({"fairshare": {"limits": [{"scope": "user", "name": "*", "run-jobs": jobs}]}});
    let mut data = document();
    data["associations"][0] = association(5001, "A", json!({}));
    let site = Site::with(&data);
    assert_eq!(site.host.reload_config(&table(1)), Ok(1));
    site.host.settle();
    let [first, held] = [(); 2].map(|()| site.submit(&job(5001, 1)));
    assert_eq!([first, held].map(|id| site.state(id)), [State::Run, State::Depend]);
    assert_eq!(site.host.reload_config(&table(2)), Ok(1));
    site.host.settle();
    assert_eq!(site.state(held), State::Run);
    site.check();
}

/// Another plugin may request Flux's loop over all jobs. If a job starts during that loop, our plugin must release other jobs only after the loop.
#[test]
fn a_job_start_during_a_loop_over_all_jobs_releases_jobs_afterwards() {
    let mut data = document();
    data["associations"][0] = association(5001, "A", json!({"max_sched_jobs": 1}));
    let site = Site::with(&data);
    let _full = site.submit(&job(5002, 4));
    let [first, held] = [(); 2].map(|()| site.submit(&job(5001, 1)));
    assert_eq!([first, held].map(|id| site.state(id)), [State::Sched, State::Depend]);
    let script = json!({"job.priority.get": [["alloc", null, null, first]]});
    site.host.load(&probe(), Some(&json!({"script": script}))).unwrap();
    assert_eq!(site.state(first), State::Run);
    site.host.settle();
    assert_eq!(site.state(held), State::Sched);
    site.check();
}
