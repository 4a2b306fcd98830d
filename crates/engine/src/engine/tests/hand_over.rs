// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the return to flux-accounting's plugin. The engine predicts which held jobs flux-accounting's plugin will
//! end. Before the return, the event `Rest` removes our dependencies from held jobs.

use super::examples::{assert_no_drift, make_site, start, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, record};
use crate::accounts::Association;
use crate::engine::{Effect, Engine, Event, HandOverOutcome, JobsToHandOverPage, State, Timer};
use crate::ids::{JobId, Limit};
use serde_json::json;

fn list_job_outcomes(host: &Host) -> Vec<(JobId, HandOverOutcome)> {
    let page = crate::engine::hand_over(&host.engine.view(), None, 100).unwrap();
    page.jobs.into_iter().map(|job| (job.id, job.fate)).collect()
}

/// Returns a host, a running job that fills the limit, and a blocked job that the limit held in the past and then released.
fn make_host_with_released_but_blocked_job() -> (Host, JobId, JobId) {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    let first_job = start(&mut host, 1);
    let held_job = host.submit(HostJob::new(7).blocked_by("keep=x")).unwrap();
    host.end_job(first_job);
    assert!(host.names(held_job).iter().all(|name| name == "keep=x"), "our limit no longer holds the job");
    let running_job = start(&mut host, 1);
    (host, running_job, held_job)
}

/// Returns a host, a running job that fills the limit, and a job that the limit holds for the second time.
fn make_host_with_job_held_twice() -> (Host, JobId, JobId) {
    let (mut host, running, held_job) = make_host_with_released_but_blocked_job();
    host.remove_dependency(held_job, "keep=x");
    assert_eq!(host.names(held_job), ["max-running-jobs-user-limit.2"]);
    (host, running, held_job)
}

/// Returns a host with a running job that fills the limit, and a job that the limit holds.
fn make_host_with_held_job() -> (Host, JobId) {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    start(&mut host, 1);
    let held_job = submit(&mut host, 1);
    assert_eq!(host.names(held_job), ["max-running-jobs-user-limit"]);
    (host, held_job)
}

#[test]
fn flux_accountings_plugin_keeps_a_job_held_if_a_limit_holds_it_for_the_first_time() {
    let (host, held) = make_host_with_held_job();
    assert_eq!(list_job_outcomes(&host), [(held, HandOverOutcome::Held)]);
}

#[test]
fn the_reply_to_the_hand_over_request_has_the_documented_members() {
    let (host, held) = make_host_with_held_job();
    let page = crate::engine::hand_over(&host.engine.view(), None, 1).unwrap();
    let job = json!({
        "id": held.0, "userid": 7, "bank": "A", "queue": null, "urgency": null,
        "names": ["max-running-jobs-user-limit"], "kept": false, "fate": "held",
    });
    let document = json!({"jobs": [job], "next": held.0});
    assert_eq!(serde_json::to_value(&page).unwrap(), document);
    assert_eq!(serde_json::from_value::<JobsToHandOverPage>(document).unwrap(), page);
    assert_eq!(crate::engine::hand_over(&host.engine.view(), None, 2).unwrap().next, None);
}

#[test]
fn flux_accountings_plugin_ends_a_job_that_a_limit_holds_a_second_time() {
    let (host, _, held) = make_host_with_job_held_twice();
    assert_eq!(list_job_outcomes(&host), [(held, HandOverOutcome::Ended)]);
}

/// Only another plugin blocks the job. flux-accounting's plugin would add its dependency name again, and Flux ignores a name that was
/// removed once.
#[test]
fn flux_accounting_would_end_a_released_blocked_job_at_a_full_limit() {
    let (mut host, running_job, held) = make_host_with_released_but_blocked_job();
    assert_eq!(list_job_outcomes(&host), [(held, HandOverOutcome::Ended)]);
    let answer = crate::engine::hand_over(&host.engine.view(), None, 9).unwrap().jobs.remove(0);
    assert!(answer.is_kept && answer.names.is_empty());
    host.end_job(running_job);
    assert_eq!(list_job_outcomes(&host), [], "the job gets no name if the limit has headroom");
    let (host, _, held) = make_host_with_job_held_twice();
    assert_eq!(
        crate::engine::hand_over(&host.engine.view(), None, 9)
            .unwrap()
            .jobs
            .iter()
            .map(|job| job.is_kept)
            .collect::<Vec<_>>(),
        [false]
    );
    assert!(host.engine.view().can_rest(held));
}

/// Without our dependencies, a blocked job would stay in DEPEND until flux-accounting's plugin is loaded. That plugin
/// would add a dependency of the same name again. It would end the job, because it cannot remove this dependency.
#[test]
fn the_rest_request_keeps_the_dependencies_of_a_job_that_others_block() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    start(&mut host, 1);
    let held_job = host.submit(HostJob::new(7).blocked_by("keep=x")).unwrap();
    assert!(!host.engine.view().can_rest(held_job));
    host.send_event(Event::Rest(vec![held_job]));
    assert_eq!(host.names(held_job), ["keep=x", "max-running-jobs-user-limit"]);
    let answer = crate::engine::hand_over(&host.engine.view(), None, 9).unwrap().jobs.remove(0);
    assert!(answer.is_kept && answer.fate == HandOverOutcome::Held);
    host.remove_dependency(held_job, "keep=x");
    assert!(host.engine.view().can_rest(held_job));
    assert_no_drift(&host);
}

#[test]
fn flux_accountings_plugin_does_not_count_reservations_of_other_jobs() {
    // A job in SCHED has reserved the headroom, but does not run yet. flux-accounting's plugin does not count that
    // job.
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let (released_job, held_job) = (submit(&mut host, 1), submit(&mut host, 1));
    host.end_job(job_a);
    assert_eq!(host.state(released_job), Some(State::Sched));
    assert_eq!(list_job_outcomes(&host), [(held_job, HandOverOutcome::Stranded)]);
}

#[test]
fn the_rest_request_removes_our_dependencies_and_reserves_no_headroom() {
    let (mut host, _, held) = make_host_with_job_held_twice();
    let effects = host.engine.handle(NOW, Event::Rest(vec![held]));
    let removed = effects.iter().filter_map(|effect| match effect {
        Effect::RemoveDependency(id, name) if *id == held => Some(name.to_string()),
        _ => None,
    });
    assert_eq!(removed.collect::<Vec<_>>(), ["max-running-jobs-user-limit.2"]);
    assert_eq!(list_job_outcomes(&host), []);
    let ledger = host.engine.ledger();
    let association = ledger.job(held).and_then(|job| job.association()).unwrap();
    assert_eq!(ledger.accounts().usage(association).total.reserved_run.jobs(), 0);
}

#[test]
fn removal_of_our_dependencies_ignores_running_and_unknown_jobs() {
    let (mut host, running_job, held_job) = make_host_with_job_held_twice();
    host.send_event(Event::Rest(vec![running_job, JobId(4711)]));
    assert_eq!(host.states([running_job, held_job]), [Some(State::Run), Some(State::Depend)]);
    assert_no_drift(&host);
}

/// flux-accounting's plugin ends a job that a limit holds if the job had the name of this limit before. A job that
/// never had the name does not end, even if the limit is full now.
#[test]
fn flux_accountings_plugin_ends_no_job_that_never_had_the_name_of_the_full_limit() {
    let (mut host, held_job) = make_host_with_held_job();
    let lowered = Association { max_running_jobs: Limit(1), max_nodes: Limit(1), ..association(7, "A") };
    host.engine.handle(NOW, Event::Associations(vec![record(lowered, "A")]));
    assert_eq!(host.names(held_job), ["max-running-jobs-user-limit"]);
    assert_eq!(list_job_outcomes(&host), [(held_job, HandOverOutcome::Held)]);
}

/// Whether flux-accounting's plugin ends a job depends on the job's dependencies. The engine reads the dependencies
/// from eventlogs. So the engine does not answer before it has read all eventlogs.
#[test]
fn the_hand_over_answer_waits_until_all_eventlogs_are_read() {
    let new_engine = || {
        let mut engine = Engine::with_small_batches();
        let limits = Association { max_running_jobs: Limit(1), ..association(7, "A") };
        engine.handle(NOW, Event::Associations(vec![record(limits, "A")]));
        engine
    };
    let (mut host, held) = make_host_with_held_job();
    // Flux has replayed one running job. The replay has not ended, so Flux may replay more jobs.
    let mut engine = new_engine();
    let running = host.jobs.values().find(|job| job.state == State::Run).unwrap();
    engine.handle(NOW, Event::New(Host::facts(JobId(1), running)));
    assert_eq!(crate::engine::hand_over(&engine.view(), None, 100), None, "the replay has not ended");
    engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    assert_eq!(crate::engine::hand_over(&engine.view(), None, 100), Some(JobsToHandOverPage::default()));
    host.never_answered = [held].into();
    host.replay_jobs(true, new_engine());
    assert_eq!(crate::engine::hand_over(&host.engine.view(), None, 100), None, "an eventlog is unread");
    host.never_answered.clear();
    (host.unreadable, host.has_job_list) = ([held].into(), false);
    host.replay_jobs(true, new_engine());
    assert_eq!(crate::engine::hand_over(&host.engine.view(), None, 100), None, "an eventlog cannot be read");
    host.unreadable.clear();
    host.fire_retry_timer();
    assert_eq!(list_job_outcomes(&host), [(held, HandOverOutcome::Held)]);
}

/// flux-accounting's plugin holds jobs in DEPEND only.
#[test]
fn flux_accountings_plugin_would_release_a_job_held_in_priority() {
    let mut host = Host::new();
    let jobs = [(); 2].map(|()| submit(&mut host, 1));
    host.push(vec![record(Association { max_sched_jobs: Limit(1), ..association(7, "A") }, "A")]);
    assert_eq!(host.states(jobs), [Some(State::Sched), Some(State::Priority)]);
    assert_eq!(list_job_outcomes(&host), [(jobs[1], HandOverOutcome::Released)]);
}
