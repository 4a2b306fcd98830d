// SPDX-License-Identifier: LGPL-3.0-only
//! Incomplete replays: no job is released before Flux has shown all jobs, and an unreadable eventlog delays no other job.

use super::examples::{assert_no_drift, start, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, make_engine_with_associations, record};
use crate::accounts::Association;
use crate::engine::{Effect, Engine, Event, State, Timer};
use crate::ids::{JobId, Limit};

fn make_engine_with_limits(limits: Association) -> Engine {
    make_engine_with_associations(vec![record(limits, "A")])
}

/// Flux may not have shown all jobs yet, or an eventlog may be unread. So the engine cannot determine which
/// held job must be released first.
#[test]
fn a_job_that_ends_during_a_replay_releases_no_job() {
    let mut engine = make_engine_with_limits(Association { max_sched_jobs: Limit(1), ..association(7, "A") });
    let job_in = |state| HostJob { state, bank: Some("A".to_owned()), ..HostJob::new(7) };
    let shown = [(3, State::Sched), (2, State::Priority), (1, State::Depend)];
    for (id, state) in shown {
        engine.handle(NOW, Event::New(Host::facts(JobId(id), &job_in(state))));
    }
    // This request checks the limits of the job, which has no priority yet, so the job is held.
    engine.handle(NOW, Event::PriorityGet(JobId(2), 16));
    let held: Vec<JobId> =
        engine.ledger().jobs().filter(|(_, job)| job.is_held()).map(|(id, _)| id).collect();
    assert_eq!(held, [JobId(2)]);
    let effects = engine.handle(NOW, Event::Inactive(JobId(3)));
    let is_release = |effect: &Effect| matches!(effect, Effect::AskUrgency(_) | Effect::Prioritize(..));
    assert!(!effects.iter().any(is_release), "{effects:?}");
}

/// The engine scans an association only after it has read the eventlog of the association's job in SCHED. If the
/// eventlog cannot be read, the engine must scan the association anyway.
#[test]
fn an_unreadable_job_in_sched_makes_no_other_job_wait() {
    for is_reload in [true, false] {
        let limits = |nodes| Association { max_nodes: Limit(nodes), ..association(7, "A") };
        let mut host = Host::with_data(vec![record(limits(3), "A")], Vec::new());
        start(&mut host, 2);
        let held_job = submit(&mut host, 2);
        let last_job = submit(&mut host, 1);
        assert_eq!(host.states([held_job, last_job]), [Some(State::Depend), Some(State::Sched)]);
        // The push raises the limit, and no reprioritize follows.
        host.send_event(Event::Associations(vec![record(limits(9), "A")]));
        assert_eq!(host.state(held_job), Some(State::Depend));
        host.unreadable = [last_job].into();
        host.replay_jobs(is_reload, make_engine_with_limits(limits(9)));
        assert_eq!(host.state(held_job), Some(State::Sched), "reload: {is_reload}");
        assert_no_drift(&host);
    }
}

/// A push has changed the limits since the job was held. The answer must show the job's dependencies in Flux, and not
/// the limits that the job exceeds now.
#[test]
fn a_held_job_is_shown_with_the_dependencies_that_it_has() {
    let limits = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    let mut host = Host::with_data(vec![record(limits.clone(), "A")], Vec::new());
    start(&mut host, 1);
    let held_job = submit(&mut host, 1);
    let lowered = Association { max_running_jobs: Limit(9), max_sched_jobs: Limit(0), ..limits };
    host.send_event(Event::Associations(vec![record(lowered, "A")]));
    let shown = crate::engine::answers::snapshot(&host.engine.view()).users[0].banks[0].held_jobs.clone();
    let shown: Vec<_> = shown.into_iter().map(|(id, job)| (id, job.deps)).collect();
    assert_eq!(shown, [(held_job, host.names(held_job))]);
    assert_eq!(host.names(held_job), ["max-running-jobs-user-limit"]);
}

/// The eventlog would show whether the job was held and released. Without it, the engine assumes that the job has a reservation.
#[test]
fn an_unreadable_job_in_sched_keeps_its_reservation() {
    for is_reload in [true, false] {
        let limits = || Association { max_running_jobs: Limit(1), ..association(7, "A") };
        let mut host = Host::with_data(vec![record(limits(), "A")], Vec::new());
        let first_job = start(&mut host, 1);
        let [released_job, held_job] = [(); 2].map(|()| submit(&mut host, 1));
        host.end_job(first_job);
        assert_eq!(host.states([released_job, held_job]), [Some(State::Sched), Some(State::Depend)]);
        host.unreadable = [released_job].into();
        host.replay_jobs(is_reload, make_engine_with_limits(limits()));
        assert_eq!(host.state(held_job), Some(State::Depend), "reload: {is_reload}");
        host.end_job(released_job);
        assert_eq!(host.state(held_job), Some(State::Sched));
        assert_no_drift(&host);
    }
}

/// After a restart, Flux does not ask for the priorities of jobs in PRIORITY. So the engine must make Flux ask for all
/// priorities.
#[test]
fn a_replay_requests_all_priorities_if_a_job_is_in_priority() {
    use State::{Depend, Priority, Run, Sched};
    for (states, asks) in [
        (&[Priority][..], true),
        (&[Priority, Sched], true),
        (&[Sched, Priority], true),
        (&[Sched, Depend], false),
        (&[Run], false),
    ] {
        let mut engine = make_engine_with_limits(association(7, "A"));
        for (id, state) in states.iter().enumerate() {
            let job = HostJob { state: *state, bank: Some("A".to_owned()), ..HostJob::new(7) };
            engine.handle(NOW, Event::New(Host::facts(JobId(id as u64 + 1), &job)));
        }
        let effects = engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
        let asks_for_priorities = effects.iter().any(|effect| matches!(effect, Effect::ReprioritizeAll));
        assert_eq!(asks_for_priorities, asks, "{states:?}");
    }
}
