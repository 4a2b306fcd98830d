// SPDX-License-Identifier: LGPL-3.0-only
//! Restarts and reloads with jobs in each state. Before and afterwards, the counters must equal the counts of
//! the host's jobs.

use fairshare_embedded::{Order, Shape, State, Submission};
use serde_json::json;

use super::random::assert_counts_equal_host;
use super::{OWNER, SO, Site, document, job, job_in};

/// Submits six jobs: a running job, a held job, a held and blocked job, a job in SCHED, a job in SCHED at urgency 0, and a blocked job.
fn submit_job_in_each_state(site: &Site) -> Vec<u64> {
    let run = site.submit(&job(5001, 4));
    let held = site.submit(&job(5001, 1));
    let mut both = job(5001, 1);
    both.jobspec["attributes"]["system"]["dependencies"] = json!([{"scheme": "afterany", "value": run}]);
    let both = site.submit(&both);
    let sched = site.submit(&job_in(5002, "B", 2));
    let mut zero = job(5002, 1);
    zero.urgency = 0;
    let zero = site.submit(&zero);
    let mut foreign = job(5003, 1);
    foreign.jobspec["attributes"]["system"]["dependencies"] = json!([{"scheme": "afterany", "value": sched}]);
    let foreign = site.submit(&foreign);
    let ids = vec![run, held, both, sched, zero, foreign];
    let states: Vec<State> = ids.iter().map(|&id| site.state(id)).collect();
    assert_eq!(states, [State::Run, State::Depend, State::Depend, State::Sched, State::Sched, State::Depend]);
    ids
}

/// Ends all jobs, and checks that all counters are 0.
fn end_all_jobs(site: &Site, ids: &[u64]) {
    for _ in 0..ids.len() {
        ids.iter().for_each(|&id| site.finish(id));
    }
    for &id in ids {
        let _ = site.host.cancel(id, OWNER);
    }
    for (userid, bank) in [(5001, "A"), (5002, "A"), (5002, "B"), (5003, "A")] {
        let counts = site.association(userid, bank);
        for key in ["cur_active_jobs", "cur_run_jobs", "cur_sched_jobs", "cur_nodes", "cur_cores"] {
            assert_eq!(counts[key], 0, "{userid}/{bank} {key}");
        }
        assert_eq!(counts["held_jobs"], json!({}));
    }
    assert_eq!(site.check()["jobs"], 0);
}

#[test]
fn counters_are_right_after_restarts_with_data() {
    for order in [Order::Ascending, Order::Descending] {
        let site = Site::new();
        let ids = submit_job_in_each_state(&site);
        assert_counts_equal_host(&site);
        for _ in 0..3 {
            let states: Vec<State> = ids.iter().map(|&id| site.state(id)).collect();
            site.host.restart(order).unwrap();
            site.host.settle();
            assert_counts_equal_host(&site);
            assert_eq!(ids.iter().map(|&id| site.state(id)).collect::<Vec<_>>(), states);
        }
        assert_eq!(site.errors(), Vec::<String>::new());
        end_all_jobs(&site, &ids);
    }
}

#[test]
fn counters_are_correct_if_the_push_follows_a_restart() {
    for order in [Order::Ascending, Order::Descending] {
        let site = Site::without_pushed_data();
        site.push(&document());
        let ids = submit_job_in_each_state(&site);
        site.host.restart(order).unwrap();
        site.host.settle();
        assert_eq!(site.errors(), Vec::<String>::new(), "a job that is waiting for data is not an error");
        assert_eq!(site.check()["waiting"], 6);
        site.push(&document());
        assert_counts_equal_host(&site);
        end_all_jobs(&site, &ids);
    }
}

#[test]
fn counters_are_right_after_reloads_with_and_without_data() {
    let site = Site::new();
    let ids = submit_job_in_each_state(&site);
    let before = site.query();
    for _ in 0..3 {
        site.host.remove(SO).unwrap();
        site.load(&document());
        let mut now = site.query();
        now["generation"] = before["generation"].clone();
        assert_eq!(
            now, before,
            "the first query after the load has the same counters, before the reactor runs"
        );
        site.host.settle();
        assert_counts_equal_host(&site);
        site.host.remove(SO).unwrap();
        site.host.load(&site.so.path(), None).unwrap();
        site.host.settle();
        site.check();
        site.push(&document());
        assert_counts_equal_host(&site);
    }
    assert_eq!(site.errors(), Vec::<String>::new());
    end_all_jobs(&site, &ids);
}

#[test]
fn a_job_in_cleanup_counts_as_running_after_a_reload_and_ends_after_a_restart() {
    // The reactor does not run after the cancellation, so the job stays in CLEANUP.
    let site = Site::new();
    let run = site.submit(&job(5001, 1));
    let held = site.submit(&job(5001, 1));
    site.host.cancel_without_running_reactor(run);
    assert_eq!(site.state(run), State::Cleanup);
    site.host.remove(SO).unwrap();
    site.load(&document());
    assert_eq!(site.association(5001, "A")["cur_run_jobs"], 1, "flaw 38");
    assert_eq!(site.state(held), State::Depend);
    site.host.settle();
    assert_counts_equal_host(&site);
    assert_eq!((site.state(run), site.state(held)), (State::Inactive, State::Run));

    site.host.cancel_without_running_reactor(held);
    site.host.restart(Order::Ascending).unwrap();
    site.host.settle();
    assert_counts_equal_host(&site);
    assert_eq!(site.errors(), Vec::<String>::new(), "flaw 46");
}

#[test]
fn a_job_that_ends_while_the_plugin_is_removed_frees_its_headroom() {
    let site = Site::new();
    let ids = submit_job_in_each_state(&site);
    site.host.remove(SO).unwrap();
    site.finish(ids[0]);
    site.load(&document());
    site.host.settle();
    assert_counts_equal_host(&site);
    assert_ne!(site.state(ids[1]), State::Depend, "flaw 39");
    end_all_jobs(&site, &ids);
}

#[test]
fn a_dependency_that_is_not_committed_at_a_reload_is_removed_later() {
    let site = Site::new();
    let run = site.submit(&job(5001, 1));
    let after = |userid, other: u64| {
        let mut job = job(userid, 1);
        job.jobspec["attributes"]["system"]["dependencies"] = json!([{"scheme": "afterany", "value": other}]);
        site.submit(&job)
    };
    // The blocking job is in DEPEND, where it ends at once when it is cancelled.
    let other = after(5002, run);
    let other = after(5002, other);
    let blocked = after(5001, other);
    site.finish(run);
    // The job is released but blocked. Another job takes its headroom, so the blocked job is held again when
    // it is unblocked.
    let running = site.submit(&job(5001, 1));
    let names = |id| site.host.job(id, |job| job.dependencies.clone()).unwrap();
    assert_eq!(names(blocked).len(), 1, "{:?}", names(blocked));
    site.host.cancel(other, OWNER).unwrap();
    assert_eq!(names(blocked), ["max-running-jobs-user-limit.2"]);
    site.host.remove(SO).unwrap();
    site.load(&document());
    site.host.settle();
    assert_counts_equal_host(&site);
    site.finish(running);
    assert_eq!(site.state(blocked), State::Run, "{:?}", names(blocked));
    assert_eq!(site.errors(), Vec::<String>::new());
}

#[test]
fn jobs_that_are_accepted_and_not_committed_at_a_reload_are_counted() {
    let site = Site::new();
    let batch = site.host.submit_batch(&[job(5001, 1), job(5001, 1), job(5002, 1)]);
    let ids: Vec<u64> = batch.into_iter().map(Result::unwrap).collect();
    assert!(site.host.has_uncommitted());
    site.check();
    site.host.remove(SO).unwrap();
    site.load(&document());
    site.host.settle();
    assert_counts_equal_host(&site);
    end_all_jobs(&site, &ids);
}

#[test]
fn the_plugin_adds_the_default_bank_to_a_replayed_job_without_a_bank() {
    let site = Site::new();
    site.host.remove(SO).unwrap();
    let jobs: Vec<u64> = [5001, 5002, 5003]
        .iter()
        .map(|&userid| site.submit(&Submission::simple(userid, &Shape { nodes: 1, ..Shape::default() })))
        .collect();
    site.load(&document());
    site.host.settle();
    assert_counts_equal_host(&site);
    for id in jobs {
        let bank = site.host.job(id, |job| job.attribute("bank").map(str::to_string)).unwrap();
        assert_eq!(bank.as_deref(), Some("A"), "flaw 40");
    }
    site.check();
}

#[test]
fn during_load_the_plugin_requests_no_priority_before_flux_first_asks() {
    // During the load, Flux calls conf.update before it adds the plugin to its list. If the plugin requested priorities in this callback,
    // `.priority-default` would set them.
    let limits = json!({"limits": [{"scope": "user", "name": "*", "run-gpus": 3}]});
    for settings in
        [json!({"weights": {"size": 10}}), json!({"age-max": "2d", "weights": {"age": 10}}), limits]
    {
        let site = Site::with_priority_default();
        site.host.reload_config(&json!({"fairshare": settings, "queues": {"q": {}, "r": {}}})).unwrap();
        site.host.load(&site.so.path(), None).unwrap();
        site.push(&document());
        let [running, priced] = [4, 2].map(|nodes| site.submit(&job_in(5002, "B", nodes)));
        let reload = || {
            site.host.remove(SO).unwrap();
            site.host.load(&site.so.path(), None).unwrap();
            site.host.settle();
        };
        let seen = |id| (site.state(id), site.host.job(id, |job| job.priority).unwrap());
        let before = [running, priced].map(seen);
        reload();
        // After the reload, the plugin has no data.
        let waiting = site.submit(&job(5001, 1));
        reload();
        assert_eq!([running, priced].map(seen), before, "{settings}");
        assert_eq!(site.state(waiting), State::Priority, "{settings}");
    }
}
