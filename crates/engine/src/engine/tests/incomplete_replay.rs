// SPDX-License-Identifier: LGPL-3.0-only
//! Incomplete replays: no job is released before Flux has shown all jobs, and an unreadable job makes no other job
//! wait.

use super::examples::{assert_no_drift, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, record};
use crate::accounts::Association;
use crate::engine::{Effect, Engine, Event, State, Timer};
use crate::ids::{JobId, Limit};

fn engine(limits: Association) -> Engine {
    let mut engine = Engine::small();
    engine.handle(NOW, Event::Associations(vec![record(limits, "A")]));
    engine
}

/// The first held job may be one whose eventlog is still to be read.
#[test]
fn a_job_that_ends_during_a_replay_releases_no_job() {
    let mut engine = engine(Association { max_sched_jobs: Limit(1), ..association(7, "A") });
    let job_in = |state| HostJob { state, bank: Some("A".to_owned()), ..HostJob::new(7) };
    let shown = [(3, State::Sched), (2, State::Priority), (1, State::Depend)];
    for (id, state) in shown {
        engine.handle(NOW, Event::New(Host::facts(JobId(id), &job_in(state))));
    }
    // The job has no priority yet, and becomes held with this request.
    engine.handle(NOW, Event::PriorityGet(JobId(2), 16));
    let held: Vec<JobId> =
        engine.ledger().jobs().filter(|(_, job)| job.is_held()).map(|(id, _)| id).collect();
    assert_eq!(held, [JobId(2)]);
    let effects = engine.handle(NOW, Event::Inactive(JobId(3)));
    let goes = |effect: &Effect| matches!(effect, Effect::AskUrgency(_) | Effect::Prioritize(..));
    assert!(!effects.iter().any(goes), "{effects:?}");
}

/// The association waits for the eventlog of one job in SCHED, which cannot be read.
#[test]
fn an_unreadable_job_in_sched_makes_no_other_job_wait() {
    for is_reload in [true, false] {
        let limits = |nodes| Association { max_nodes: Limit(nodes), ..association(7, "A") };
        let mut host = Host::with(vec![record(limits(3), "A")], Vec::new());
        let running = submit(&mut host, 2);
        host.start(running);
        let held = submit(&mut host, 2);
        let last = submit(&mut host, 1);
        assert_eq!((host.state(held), host.state(last)), (Some(State::Depend), Some(State::Sched)));
        // The push raises the limit, and no reprioritize follows.
        host.event(Event::Associations(vec![record(limits(9), "A")]));
        assert_eq!(host.state(held), Some(State::Depend));
        host.unreadable = [last].into();
        host.replay(is_reload, engine(limits(9)));
        assert_eq!(host.state(held), Some(State::Sched), "reload: {is_reload}");
        assert_no_drift(&host);
    }
}

/// The limits that the job would exceed now do not matter.
#[test]
fn a_held_job_is_shown_with_the_dependencies_that_it_has() {
    let limits = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    let mut host = Host::with(vec![record(limits.clone(), "A")], Vec::new());
    let running = submit(&mut host, 1);
    host.start(running);
    let held = submit(&mut host, 1);
    let lowered = Association { max_running_jobs: Limit(9), max_sched_jobs: Limit(0), ..limits };
    host.event(Event::Associations(vec![record(lowered, "A")]));
    let shown = crate::engine::answers::snapshot(&host.engine.view()).users[0].banks[0].held_jobs.clone();
    let shown: Vec<_> = shown.into_iter().map(|(id, job)| (id, job.deps)).collect();
    assert_eq!(shown, [(held, host.names(held))]);
    assert_eq!(host.names(held), ["max-running-jobs-user-limit"]);
}

/// The job may have been released, so it keeps a reservation.
#[test]
fn an_unreadable_job_in_sched_keeps_its_reservation() {
    for is_reload in [true, false] {
        let limits = || Association { max_running_jobs: Limit(1), ..association(7, "A") };
        let mut host = Host::with(vec![record(limits(), "A")], Vec::new());
        let first = submit(&mut host, 1);
        host.start(first);
        let [released, held] = [(); 2].map(|()| submit(&mut host, 1));
        host.end(first);
        assert_eq!((host.state(released), host.state(held)), (Some(State::Sched), Some(State::Depend)));
        host.unreadable = [released].into();
        host.replay(is_reload, engine(limits()));
        assert_eq!(host.state(held), Some(State::Depend), "reload: {is_reload}");
        host.end(released);
        assert_eq!(host.state(held), Some(State::Sched));
        assert_no_drift(&host);
    }
}

/// At plugin load, Flux asks for the priorities of jobs in PRIORITY. After a restart it does not.
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
        let mut engine = engine(association(7, "A"));
        for (id, state) in states.iter().enumerate() {
            let job = HostJob { state: *state, bank: Some("A".to_owned()), ..HostJob::new(7) };
            engine.handle(NOW, Event::New(Host::facts(JobId(id as u64 + 1), &job)));
        }
        let effects = engine.handle(NOW, Event::Timer(Timer::Turn));
        let asked = effects.iter().any(|effect| matches!(effect, Effect::ReprioritizeAll));
        assert_eq!(asked, asks, "{states:?}");
    }
}
