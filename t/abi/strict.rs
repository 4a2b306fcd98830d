// SPDX-License-Identifier: LGPL-3.0-only
//! Tests strict running limits, and jobs that are held in PRIORITY or SCHED, through the C interface: nested releases, reloads, and updates of the
//! job whose callback is running.

use fairshare_embedded::{State, Submission};
use serde_json::{Value, json};

use super::{OWNER, Site, association, document, job, make_dependent_job, queue};

/// Returns a site in which user 5001 may run two jobs, and a job of another user that fills the cluster.
fn make_site_with_full_cluster(settings: &Value) -> (Site, u64) {
    let mut site_document = document();
    site_document["associations"][0] = association(5001, "A", json!({"max_running_jobs": 2}));
    let site = Site::with(&site_document);
    site.host.reload_config(&json!({"fairshare": settings, "queues": {"q": {}, "r": {}}})).unwrap();
    let full = site.submit(&job(5002, 4));
    (site, full)
}

fn strict_configuration() -> Value {
    json!({"running-limits": "strict"})
}

fn list_states(site: &Site, jobs: &[u64]) -> Vec<State> {
    jobs.iter().map(|id| site.state(*id)).collect()
}

fn submit_five_jobs(site: &Site) -> Vec<u64> {
    let one: Submission = job(5001, 1);
    (0..5).map(|_| site.submit(&one)).collect()
}

use State::{Depend, Priority, Run, Sched};

#[test]
fn strict_running_limits_never_let_more_jobs_run_than_the_limit() {
    for (settings, waiting, wanted) in [
        (json!({}), [Sched; 5], [Run, Run, Run, Run, Sched]),
        (strict_configuration(), [Sched, Sched, Depend, Depend, Depend], [Run, Run, Depend, Depend, Depend]),
    ] {
        let (site, full) = make_site_with_full_cluster(&settings);
        let jobs = submit_five_jobs(&site);
        assert_eq!(list_states(&site, &jobs), waiting, "{settings}");
        site.check();
        site.finish(full);
        assert_eq!(list_states(&site, &jobs), wanted, "{settings}");
        site.check();
    }
}

#[test]
fn a_configuration_that_is_refused_changes_nothing() {
    let (site, _) = make_site_with_full_cluster(&strict_configuration());
    let queues = json!({"q": {}, "r": {}});
    let bad = json!({"running-limits": "upstream", "queues": {"s": {"running-limits": "strict"}}});
    let error = site.host.reload_config(&json!({"fairshare": bad, "queues": queues})).unwrap_err();
    assert!(error.contains("queues.s: no such queue; known are q, r"), "{error}");
    assert_eq!(site.query()["running_limits"], json!({"default": "strict", "queues": {}}));
    let of_queue = json!({"queues": {"q": {"running-limits": "strict"}}});
    site.host.reload_config(&json!({"fairshare": of_queue, "queues": queues})).unwrap();
    assert_eq!(site.query()["running_limits"], json!({"default": "upstream", "queues": {"q": "strict"}}));
}

#[test]
fn switching_strict_running_limits_off_releases_the_held_jobs() {
    let (site, _) = make_site_with_full_cluster(&strict_configuration());
    let jobs = submit_five_jobs(&site);
    site.host.reload_config(&json!({})).unwrap();
    site.host.settle();
    assert_eq!(
        list_states(&site, &jobs),
        [Sched, Sched, Sched, Sched, Depend],
        "each released job reserves headroom, so the last job stays held"
    );
    site.check();
}

#[test]
fn jobs_submitted_before_a_push_are_released_in_callbacks_of_other_jobs() {
    let site = Site::without_pushed_data();
    let jobs: Vec<u64> = (0..4).map(|_| site.submit(&job(5001, 1))).collect();
    assert_eq!(list_states(&site, &jobs), [Priority; 4]);
    site.push(&document());
    assert_eq!(list_states(&site, &jobs), [Run, Priority, Priority, Priority]);
    let held = site.association(5001, "A")["held_jobs"].clone();
    assert_eq!(held.as_object().unwrap().len(), 3);
    for (job, held) in held.as_object().unwrap() {
        assert_eq!(held["deps"], json!(["max-running-jobs-user-limit"]), "{job}");
    }
    for next in 1..4 {
        site.finish(jobs[next - 1]);
        assert_eq!(site.state(jobs[next]), Run);
        site.check();
    }
    let names: Vec<Value> = site
        .host
        .job(jobs[3], |job| job.eventlog.iter().map(|event| event["name"].clone()).collect())
        .unwrap();
    assert_eq!(names.iter().filter(|name| **name == "priority").count(), 1, "{names:?}");
    assert!(!names.contains(&json!("dependency-add")), "{names:?}");
}

#[test]
fn a_reload_keeps_jobs_held_in_priority() {
    let site = Site::without_pushed_data();
    let jobs: Vec<u64> = (0..3).map(|_| site.submit(&job(5001, 1))).collect();
    site.push(&document());
    site.host.remove(super::SO).unwrap();
    site.load(&document());
    site.host.settle();
    assert_eq!(list_states(&site, &jobs), [Run, Priority, Priority]);
    site.check();
    site.finish(jobs[0]);
    assert_eq!(list_states(&site, &jobs[1..]), [Run, Priority]);
    site.check();
}

#[test]
fn a_job_without_headroom_is_held_when_its_urgency_rises() {
    let (site, full) = make_site_with_full_cluster(&strict_configuration());
    let jobs = submit_five_jobs(&site);
    site.host.set_urgency(jobs[0], 0, OWNER).unwrap();
    assert_eq!(list_states(&site, &jobs), [Sched, Sched, Sched, Depend, Depend]);
    site.host.set_urgency(jobs[0], 16, OWNER).unwrap();
    let is_held = || site.association(5001, "A")["held_jobs"].get(jobs[0].to_string()).is_some();
    assert_eq!(list_states(&site, &jobs), [Sched, Sched, Sched, Depend, Depend]);
    assert!(is_held());
    site.check();
    site.finish(full);
    assert_eq!(list_states(&site, &jobs), [Sched, Run, Run, Depend, Depend]);
    assert!(is_held());
    site.finish(jobs[1]);
    assert_eq!(list_states(&site, &[jobs[0], jobs[3]]), [Run, Depend]);
    site.check();
}

/// Flux stores one requested jobspec update at a time, and posts it to the job whose callback returns next. The plugin
/// may have requested the update for another job.
#[test]
fn flux_does_not_post_the_bank_of_a_job_to_a_job_released_in_its_callback() {
    let site = Site::without_pushed_data();
    site.host
        .reload_config(&json!({"fairshare": strict_configuration(), "queues": {"q": {}, "r": {}}}))
        .unwrap();
    let first = site.submit(&job(5002, 1));
    let waits = site.submit(&Submission { userid: 5001, ..make_dependent_job(first) });
    let cap = |jobs: u32| association(5001, "A", json!({"max_running_jobs": jobs}));
    let mut one = document();
    one["associations"][0] = cap(1);
    site.push(&one);
    let runs = site.submit(&job(5001, 1));
    let held = site.submit(&Submission { urgency: 17, ..job(5001, 1) });
    assert_eq!(list_states(&site, &[first, waits, runs, held]), [Run, Depend, Run, Depend]);
    // The new records give jobs with urgency 16 the priority 0. When Flux asks for the priority of the released job
    // `waits`, the plugin frees the headroom that is reserved for this job.
    let mut poor = cap(2);
    poor["fairshare"] = json!(0);
    site.rpc("rec_update", &json!({"data": [poor]})).unwrap();
    site.rpc(
        "rec_q_update",
        &json!({"data": [queue("q", json!({"priority": 0})), queue("r", json!({"priority": 0}))]}),
    )
    .unwrap();
    site.finish(first);
    assert_eq!(list_states(&site, &[waits, held]), [Sched, Run]);
    let updates = |id| {
        let is_one = |event: &&Value| event["name"] == "jobspec-update";
        site.host.job(id, |job| job.eventlog.iter().filter(is_one).count()).unwrap()
    };
    assert_eq!([waits, held].map(updates), [1, 1], "each job gets its own update");
    site.check();
}
