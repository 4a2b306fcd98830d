// SPDX-License-Identifier: LGPL-3.0-only
//! Reservations of released jobs are suspended in a stopped queue, and return when the queue is started.
//! Rules: R7

use super::super::site::make_record_with_one_job_limit;
use super::super::why::explain_job;
use super::*;
use crate::accounts::{RunningLimitSettings, RunningLimits};
use std::collections::BTreeMap;

/// Returns a host with a released job in q1 that has not started, and a job of `user` in q2 that the reservation of the first job holds.
fn submit_released_and_held(
    limits: Vec<SiteLimit>,
    own: Option<AssociationRecord>,
    user: u32,
) -> (Host, JobId, JobId) {
    let mut host = make_site(limits);
    host.send_event(Event::Associations(own.into_iter().collect()));
    let first_job = host.submit(make_job(7, "A", 0).size(1, 4)).unwrap();
    host.start_job(first_job);
    let released_job = host.submit(make_job(7, "A", 0).size(1, 4)).unwrap();
    assert_eq!(host.state(released_job), Some(State::Depend));
    host.end_job(first_job);
    assert_eq!(host.state(released_job), Some(State::Sched));
    let next_job = host.submit(make_job(user, "A", 0).size(1, 4).queue("q2")).unwrap();
    assert_eq!(host.state(next_job), Some(State::Depend));
    (host, released_job, next_job)
}

fn shared_limit() -> Vec<SiteLimit> {
    vec![limit(bank_target("science"), None, "run-cores", 4)]
}

#[test]
fn the_explanation_of_a_held_job_separates_reservations_from_running_jobs() {
    let (mut host, first_job, next) = submit_released_and_held(shared_limit(), None, 8);
    let hold = explain_job(&host, next).holds.remove(0);
    let text = "0 of 4 running cores of bank science and the banks below it are in use, 4 are reserved for \
                released jobs; this job takes 4";
    assert_eq!((hold.text.as_str(), hold.used, hold.reserved), (text, 4, 4));
    assert_eq!(
        hold.frees.iter().map(|one| (one.id, one.state.as_ref())).collect::<Vec<_>>(),
        [(first_job, "sched")]
    );
    host.start_job(first_job);
    let hold = explain_job(&host, next).holds.remove(0);
    let text = "4 of 4 running cores of bank science and the banks below it are in use; this job takes 4";
    assert_eq!((hold.text.as_str(), hold.used, hold.reserved), (text, 4, 0));
    // The text for a limit of one association has the same form as the text for a limit of a bank.
    let (host, _, next) =
        submit_released_and_held(Vec::new(), Some(make_record_with_one_job_limit(7, "A")), 7);
    let hold = explain_job(&host, next).holds.remove(0);
    let text = "0 of 1 running jobs of user 7 in bank A are in use, 1 are reserved for released jobs; this job takes 1";
    assert_eq!(hold.text, text);
}

#[test]
fn a_job_has_no_reservation_while_its_queue_is_stopped() {
    for (limits, own, user) in
        [(shared_limit(), None, 8), (Vec::new(), Some(make_record_with_one_job_limit(7, "A")), 7)]
    {
        let (mut host, released_job, next_job) = submit_released_and_held(limits, own, user);
        host.set_queue_started("q2", false);
        assert_eq!(host.state(next_job), Some(State::Depend), "the released job is in another queue");
        host.set_queue_started("q2", true);
        host.set_queue_started("q1", false);
        assert_eq!([released_job, next_job].map(|id| host.state(id)), [Some(State::Sched); 2]);
        host.end_job(next_job);
        // When the queue starts, the job has its reservation again.
        host.set_queue_started("q1", true);
        let last_job = host.submit(make_job(user, "A", 0).size(1, 4).queue("q2")).unwrap();
        assert_eq!(host.state(last_job), Some(State::Depend));
        host.start_job(released_job);
        host.end_job(released_job);
        assert_eq!(host.state(last_job), Some(State::Sched));
        assert_counters_and_holds(&host);
    }
}

/// When a queue starts, Flux may start all its jobs before it calls the plugin. So the engine must release
/// only the jobs that the limit allows.
#[test]
fn held_jobs_in_a_stopped_queue_are_released_up_to_the_limit() {
    for (limits, own, user) in
        [(shared_limit(), None, 8), (Vec::new(), Some(make_record_with_one_job_limit(7, "A")), 7)]
    {
        let mut host = make_site(limits);
        host.send_event(Event::Associations(own.into_iter().collect()));
        let first_job = host.submit(make_job(7, "A", 0).size(1, 4)).unwrap();
        host.start_job(first_job);
        let held = [7, user].map(|user| host.submit(make_job(user, "A", 0).size(1, 4)).unwrap());
        host.set_queue_started("q1", false);
        host.end_job(first_job);
        let is_held = |id: &JobId, host: &Host| host.state(*id) == Some(State::Depend);
        let (waiting_job, released_job): (Vec<JobId>, Vec<JobId>) =
            held.into_iter().partition(|id| is_held(id, &host));
        assert_eq!((waiting_job.len(), released_job.len()), (1, 1));
        let hold = explain_job(&host, waiting_job[0]).holds.remove(0);
        assert_eq!((hold.used, hold.reserved > 0), (hold.reserved, true));
        let frees = hold.frees.iter().map(|it| (it.id, it.amount, it.state.as_ref())).collect::<Vec<_>>();
        assert_eq!(frees, [(released_job[0], hold.reserved, "sched")]);
        // A job outside stopped queues can take the headroom of a suspended reservation. A job in a stopped queue
        // cannot.
        let outside_job = host.submit(make_job(user, "A", 0).size(1, 4).queue("q2")).unwrap();
        assert_eq!(host.state(outside_job), Some(State::Sched));
        host.end_job(outside_job);
        assert!(is_held(&waiting_job[0], &host));
        host.set_queue_started("q1", true);
        assert!(is_held(&waiting_job[0], &host));
        host.end_job(released_job[0]);
        assert_eq!(host.state(waiting_job[0]), Some(State::Sched));
        assert_counters_and_holds(&host);
    }
}

/// The queue was stopped before the plugin was loaded, so no event reports the stop.
#[test]
fn a_reservation_lapses_in_a_stopped_queue_after_a_reload_and_a_restart() {
    for is_reload in [true, false] {
        for is_stopped in [true, false] {
            let (mut host, released, next) = submit_released_and_held(shared_limit(), None, 8);
            let mut engine = Engine::with_small_batches();
            engine.handle(NOW, Event::Policy(policy(shared_limit()), SitePart::default()));
            host.stopped.extend(is_stopped.then(|| "q1".to_owned()));
            host.oracle.stopped = host.stopped.clone();
            host.replay_jobs(is_reload, engine);
            let wanted = if is_stopped { State::Sched } else { State::Depend };
            assert_eq!([released, next].map(|id| host.state(id)), [Some(State::Sched), Some(wanted)]);
            assert_counters_and_holds(&host);
        }
    }
}

/// The released job moves into a stopped queue and back.
#[test]
fn a_reservation_lapses_while_the_job_is_in_a_stopped_queue_and_returns_when_it_moves_out() {
    let (mut host, released_job, next_job) = submit_released_and_held(shared_limit(), None, 8);
    host.update_job(next_job, Some("q1"), None).unwrap();
    host.set_queue_started("q2", false);
    host.update_job(released_job, Some("q2"), None).unwrap();
    assert_eq!(host.state(next_job), Some(State::Sched), "the released job is in the stopped queue");
    host.end_job(next_job);
    host.update_job(released_job, Some("q1"), None).unwrap();
    let last_job = host.submit(make_job(8, "A", 0).size(1, 4)).unwrap();
    assert_eq!(host.state(last_job), Some(State::Depend), "the released job has its reservation again");
    assert_counters_and_holds(&host);
}

/// When a queue starts, Flux starts its jobs before it calls the plugin. Strict limits must not be exceeded even then.
#[test]
fn jobs_in_a_stopped_queue_count_if_running_limits_are_strict() {
    let (mut host, _, next_job) = submit_released_and_held(shared_limit(), None, 8);
    let running = RunningLimitSettings { others: RunningLimits::Strict, queues: BTreeMap::new() };
    host.send_event(Event::Settings(Settings { running, ..Settings::default() }));
    host.set_queue_started("q1", false);
    assert_eq!(host.state(next_job), Some(State::Depend));
    assert_counters_and_holds(&host);
}
