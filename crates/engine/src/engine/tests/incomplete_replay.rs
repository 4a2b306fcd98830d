// SPDX-License-Identifier: LGPL-3.0-only
//! Between what Flux shows and what is known: nobody goes before all are seen, and what can't be read keeps nobody waiting.

use super::examples::{exact, submit};
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

/// Of whom another's end would let one go, the first in line may be the one whose names are still to be read.
#[test]
fn an_end_before_all_were_seen_lets_nobody_go() {
    let mut engine = engine(Association { max_sched_jobs: Limit(1), ..association(7, "A") });
    let of = |state| HostJob { state, bank: Some("A".to_owned()), ..HostJob::new(7) };
    let shown = [(3, State::Sched), (2, State::Priority), (1, State::Depend)];
    for (id, state) in shown {
        engine.handle(NOW, Event::New(Host::facts(JobId(id), &of(state))));
    }
    // Asked for all prices, it has none: that is when it joins the line.
    engine.handle(NOW, Event::PriorityGet(JobId(2), 16));
    let held: Vec<JobId> =
        engine.ledger().jobs().filter(|(_, job)| job.is_held()).map(|(id, _)| id).collect();
    assert_eq!(held, [JobId(2)]);
    let effects = engine.handle(NOW, Event::Inactive(JobId(3)));
    let goes = |effect: &Effect| matches!(effect, Effect::AskUrgency(_) | Effect::Prioritize(..));
    assert!(!effects.iter().any(goes), "{effects:?}");
}

/// A job in SCHED whose eventlog can't be read is the last of its association that is waited for.
#[test]
fn who_is_in_sched_and_cannot_be_read_keeps_nobody_waiting() {
    for is_reload in [true, false] {
        let limits = |nodes| Association { max_nodes: Limit(nodes), ..association(7, "A") };
        let mut host = Host::with(vec![record(limits(3), "A")], Vec::new());
        let running = submit(&mut host, 2);
        host.start(running);
        let held = submit(&mut host, 2);
        let last = submit(&mut host, 1);
        assert_eq!((host.state(held), host.state(last)), (Some(State::Depend), Some(State::Sched)));
        // Raised, and nobody was told to look.
        host.event(Event::Associations(vec![record(limits(9), "A")]));
        assert_eq!(host.state(held), Some(State::Depend));
        host.unreadable = [last].into();
        host.replay(is_reload, engine(limits(9)));
        assert_eq!(host.state(held), Some(State::Sched), "reload: {is_reload}");
        exact(&host);
    }
}

/// What a job carries is what is shown, also when it would exceed something else by now.
#[test]
fn a_held_job_is_shown_with_the_names_that_it_carries() {
    let limits = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    let mut host = Host::with(vec![record(limits.clone(), "A")], Vec::new());
    let running = submit(&mut host, 1);
    host.start(running);
    let held = submit(&mut host, 1);
    let lowered = Association { max_running_jobs: Limit(9), max_sched_jobs: Limit(0), ..limits };
    host.event(Event::Associations(vec![record(lowered, "A")]));
    let shown = crate::engine::answers::snapshot(&host.engine.view()).associations[0].held.clone();
    let shown: Vec<_> = shown.into_iter().map(|job| (job.id, job.names)).collect();
    assert_eq!(shown, [(held, host.names(held))]);
    assert_eq!(host.names(held), ["max-running-jobs-user-limit"]);
}

/// For all we know it was released, and its place to run is its own.
#[test]
fn who_is_in_sched_and_cannot_be_read_keeps_its_place_to_run() {
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
        exact(&host);
    }
}

/// Flux asks about jobs in PRIORITY at plugin load, but not after a restart.
#[test]
fn prices_are_asked_for_after_a_replay_if_one_is_in_priority() {
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
