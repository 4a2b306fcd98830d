// SPDX-License-Identifier: LGPL-3.0-only
//! Strict running limits: no more jobs may be in SCHED than can run at once.
//! Rules: L18

use super::examples::{assert_no_drift, make_site, submit};
use super::host::Host;
use super::site::{HostJob, NOW};
use crate::accounts::{RunningLimitSettings, RunningLimits};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{JobId, Limit};

/// Returns settings with the rule `others` for running limits, and other rules for `queues`.
pub fn running_limit_settings(others: RunningLimits, queues: &[(&str, RunningLimits)]) -> Settings {
    let queues = queues.iter().map(|(queue, rule)| ((*queue).into(), *rule)).collect();
    Settings { running: RunningLimitSettings { others, queues }, ..Settings::default() }
}

fn strict_settings() -> Settings {
    running_limit_settings(RunningLimits::Strict, &[])
}

fn list_states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

fn submit_five_jobs(host: &mut Host) -> [JobId; 5] {
    [(); 5].map(|()| submit(host, 1))
}

use State::{Depend, Run, Sched};

#[test]
fn strict_running_limits_let_no_more_jobs_into_sched_than_may_run() {
    for (settings, wanted) in
        [(Settings::default(), [Sched; 5]), (strict_settings(), [Sched, Sched, Depend, Depend, Depend])]
    {
        let mut host = make_site(|a| a.max_running_jobs = Limit(2));
        host.send_event(Event::Settings(settings));
        let jobs = submit_five_jobs(&mut host);
        assert_eq!(list_states(&host, &jobs), wanted);
        assert_no_drift(&host);
    }
}

#[test]
fn a_job_in_sched_keeps_its_headroom_until_it_ends() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(2));
    host.send_event(Event::Settings(strict_settings()));
    let jobs = submit_five_jobs(&mut host);
    host.start_job(jobs[0]);
    assert_eq!(list_states(&host, &jobs), [Run, Sched, Depend, Depend, Depend]);
    host.end_job(jobs[1]);
    assert_eq!(list_states(&host, &jobs), [Run, Sched, Depend, Depend], "the next job by id is released");
    host.end_job(jobs[0]);
    assert_eq!(list_states(&host, &jobs), [Sched, Sched, Depend]);
    assert_no_drift(&host);
}

#[test]
fn strict_running_limits_also_count_nodes_and_cores() {
    let mut host = make_site(|a| (a.max_nodes, a.max_cores) = (Limit(4), Limit(5)));
    host.send_event(Event::Settings(strict_settings()));
    let [a, b, c] = [(3, 3), (2, 2), (1, 1)]
        .map(|(nodes, cores)| host.submit(HostJob::new(7).size(nodes, cores)).unwrap());
    assert_eq!(list_states(&host, &[a, b, c]), [Sched, Depend, Sched]);
    assert_no_drift(&host);
}

#[test]
fn each_queue_has_its_own_rule_for_running_limits() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    host.send_event(Event::Settings(running_limit_settings(
        RunningLimits::Upstream,
        &[("q1", RunningLimits::Strict)],
    )));
    let mut in_queue = |queue: &str| host.submit(HostJob::new(7).queue(queue)).unwrap();
    let jobs = ["q2", "q2", "q1", "q1", "q2"].map(&mut in_queue);
    // Running limits are strict only in queue q1. So the job of q1 in SCHED takes headroom, and the jobs of q2 in
    // SCHED do not.
    assert_eq!(list_states(&host, &jobs), [Sched, Sched, Sched, Depend, Depend]);
    assert_no_drift(&host);
}

#[test]
fn strict_running_limits_apply_to_new_jobs_and_their_end_releases_held_jobs_at_once() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(2));
    let jobs = submit_five_jobs(&mut host);
    host.send_event(Event::Settings(strict_settings()));
    assert_eq!(list_states(&host, &jobs), [Sched; 5], "jobs in SCHED stay there");
    let late_job = submit(&mut host, 1);
    assert_eq!(host.state(late_job), Some(Depend));
    assert_no_drift(&host);
    for id in &jobs[..3] {
        host.end_job(*id);
    }
    assert_eq!(host.state(late_job), Some(Depend), "two jobs in SCHED are still to run");
    host.send_event(Event::Settings(Settings::default()));
    assert_eq!(host.state(late_job), Some(Sched));
    assert_no_drift(&host);
}

#[test]
fn a_job_whose_urgency_becomes_0_gives_its_headroom_to_the_next_job() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    host.send_event(Event::Settings(strict_settings()));
    let [job_a, b] = [(); 2].map(|()| submit(&mut host, 1));
    assert_eq!(list_states(&host, &[job_a, b]), [Sched, Depend]);
    host.set_urgency(job_a, 0);
    assert_eq!(list_states(&host, &[job_a, b]), [Sched, Sched]);
    assert_no_drift(&host);
    // Job b now takes the headroom. Job a is at urgency 0, so the engine does not hold it.
    host.send_event(Event::Reprioritize);
    assert_eq!(list_states(&host, &[job_a, b]), [Sched, Sched]);
    assert_no_drift(&host);
}

#[test]
fn jobs_in_sched_count_after_a_reload_and_after_a_restart() {
    for is_reload in [true, false] {
        let mut host = make_site(|a| a.max_running_jobs = Limit(2));
        host.send_event(Event::Settings(strict_settings()));
        let jobs = submit_five_jobs(&mut host);
        let mut engine = Engine::with_small_batches();
        engine.handle(NOW, Event::Queues(Vec::new()));
        let records = crate::engine::associations_page(&host.engine.view(), None, 10, None)
            .into_iter()
            .map(|kept| kept.record)
            .collect();
        engine.handle(NOW, Event::Associations(records));
        engine.handle(NOW, Event::Settings(strict_settings()));
        host.replay_jobs(is_reload, engine);
        assert_eq!(list_states(&host, &jobs), [Sched, Sched, Depend, Depend, Depend], "reload: {is_reload}");
        let late_job = submit(&mut host, 1);
        assert_eq!(host.state(late_job), Some(Depend));
        host.end_job(jobs[0]);
        assert_eq!(list_states(&host, &jobs), [Sched, Sched, Depend, Depend]);
        assert_no_drift(&host);
    }
}
