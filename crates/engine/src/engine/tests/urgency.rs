// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs of urgency 0: they go when they may, and take no place to run from others.
//! Rules: R7, R8

use super::examples::{exact, site, submit};
use super::host::Host;
use super::site::{HostJob, NOW};
use crate::engine::{Effect, Event, Level, Refusal, State};
use crate::ids::{JobId, Limit};

#[test]
fn an_urgency_changed_while_held_does_not_let_all_go_at_once() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let held = [(); 5].map(|()| host.submit(HostJob { urgency: 0, ..HostJob::new(7) }).unwrap());
    for id in held {
        host.set_urgency(id, 16);
    }
    host.end(a);
    let states = held.map(|id| host.state(id) == Some(State::Sched));
    assert_eq!(states, [true, false, false, false, false]);
    exact(&host);
}

#[test]
fn a_released_job_of_urgency_0_lets_the_next_one_run() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let resting = submit(&mut host, 1);
    host.set_urgency(resting, 0);
    let next = submit(&mut host, 1);
    host.end(a);
    assert_eq!([resting, next].map(|id| host.state(id)), [Some(State::Sched); 2]);
    host.start(next);
    host.set_urgency(resting, 16);
    let later = submit(&mut host, 1);
    assert_eq!(host.names(later), ["max-running-jobs-user-limit"]);
    exact(&host);
}

/// Three jobs of 1, 3 and 1 nodes held in this order, the first and the last of `urgency`, behind one that runs. Three
/// nodes may run, two jobs be scheduled.
fn three_held(urgency: i64, kept_by: Option<&str>) -> (Host, JobId, [JobId; 3]) {
    let mut host = site(|a| (a.max_nodes, a.max_sched_jobs) = (Limit(3), Limit(2)));
    let running = submit(&mut host, 3);
    host.start(running);
    let held = [(1, urgency), (3, 16), (1, urgency)].map(|(nodes, urgency)| {
        let job = HostJob { urgency, ..HostJob::new(7).size(nodes, nodes) };
        host.submit(kept_by.into_iter().fold(job, HostJob::after)).unwrap()
    });
    (host, running, held)
}

#[test]
fn a_held_job_takes_a_place_to_run_by_its_present_urgency() {
    use State::{Depend, Sched};
    for (submitted, present, states) in [
        (0, 0, [Sched, Sched, Depend]),
        (16, 0, [Sched, Sched, Depend]),
        (0, 16, [Sched, Depend, Sched]),
        (16, 16, [Sched, Depend, Sched]),
    ] {
        let (mut host, running, held) = three_held(submitted, None);
        [held[0], held[2]].into_iter().for_each(|id| host.set_urgency(id, present));
        host.end(running);
        assert_eq!(held.map(|id| host.state(id)), states.map(Some), "{submitted}, then {present}");
        exact(&host);
    }
}

#[test]
fn a_job_of_urgency_0_that_others_keep_takes_no_place_in_its_pass() {
    let (mut host, running, held) = three_held(0, Some("begin-time:9999"));
    host.end(running);
    assert_eq!([held[0], held[1]].map(|id| host.names(id)), [["begin-time:9999"]; 2]);
    assert_eq!(host.names(held[2]), ["begin-time:9999", "max-resources-user-limit"]);
    exact(&host);
}

#[test]
fn flaw_27_a_job_whose_urgency_cannot_be_asked_reserves_all() {
    let (mut host, running, [first, ..]) = three_held(0, None);
    let effects = host.engine.handle(NOW, Event::Inactive(running));
    assert!(matches!(effects.first(), Some(Effect::AskUrgency(id)) if *id == first), "{effects:?}");
    let mut refuse = |why| host.engine.refused(Effect::AskUrgency(first), why);
    assert!(refuse(Refusal::Absent).is_empty(), "it is gone, and its end will be told");
    let told = refuse(Refusal::Other("out of memory".to_owned()));
    let [Effect::Log(Level::Error, text)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(*text, format!("job {first}: failed to look up its urgency: out of memory"));
    let reserved = host.engine.ledger().job(first).unwrap().footprint().tally.reserved;
    assert_eq!((reserved.sched.jobs(), reserved.run.nodes()), (1, 1));
    exact(&host);
}

/// It began to run before its turn to be asked came: it has no price any more.
#[test]
fn a_running_job_whose_urgency_is_told_gets_no_price() {
    let mut host = site(|_| ());
    let runs = submit(&mut host, 1);
    host.start(runs);
    let effects = host.engine.handle(NOW, Event::Urgency(runs, 16));
    assert!(effects.is_empty(), "{effects:?}");
}
