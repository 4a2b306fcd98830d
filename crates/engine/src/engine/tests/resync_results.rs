// SPDX-License-Identifier: LGPL-3.0-only
//! What is found out when jobs are compared with Flux after a panic, and what can't be.

use super::examples::{exact, restarted_without_data};
use super::host::Host;
use super::resync;
use super::site::{HostJob, NOW, association, narrow, queue, record};
use crate::accounts::Association;
use crate::engine::{Effect, Event, Refusal, State, Timer};
use crate::ids::{JobId, Limit};

/// User 7 in A, where one job may be scheduled, and in B.
fn site() -> Host {
    let one = Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    Host::with(vec![record(one, "A"), record(association(7, "B"), "A")], vec![queue("q1")])
}

fn panics(host: &mut Host) {
    let effects = resync::panics(host, None);
    host.apply(effects);
}

/// A job comes as far as DEPEND, and no turn ends meanwhile.
fn comes_to_depend(host: &mut Host, facts: HostJob) -> JobId {
    let late = JobId(9_999);
    host.jobs.insert(late, HostJob { state: State::Depend, ..facts.clone() });
    for event in [Event::New(Host::facts(late, &facts)), Event::Depend(late)] {
        let effects = host.engine.handle(NOW, event);
        host.apply(effects);
    }
    late
}

/// Nobody heard of the move but Flux: who came before it was found out is held by a place that is free.
#[test]
fn who_was_held_by_what_was_wrong_goes_on() {
    let mut host = site();
    let moved = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.jobs.get_mut(&moved).unwrap().bank = Some("B".to_owned());
    panics(&mut host);
    let late = comes_to_depend(&mut host, HostJob::new(7).bank("A"));
    assert_eq!(host.names(late), ["max-sched-jobs-user-limit"]);
    host.settle();
    assert_eq!(host.state(late), Some(State::Sched));
    exact(&host);
}

/// A panic drops what was being read; who can't be looked up either is read again, or his association would wait for ever.
#[test]
fn a_job_that_cannot_be_looked_up_is_read_again() {
    let mut host = site();
    let jobs = [(); 2].map(|()| host.submit(HostJob::new(7).bank("A")).unwrap());
    host.never_answered = jobs.into();
    panics(&mut host);
    host.settle();
    let reads = |host: &mut Host, id| {
        let refused = Refusal::Other("out of memory".to_owned());
        let effects = host.engine.refused(Effect::LookUp(id), refused);
        effects.iter().any(|effect| matches!(effect, Effect::ReadEventlog(of) if *of == id))
    };
    assert!(!reads(&mut host, jobs[0]), "in SCHED, and no limit on what runs is in reach");
    assert!(reads(&mut host, jobs[1]), "held, and not known by which names");
}

/// A job that an urgency sent to PRIORITY, where its price turns out to be what it was, and Flux refuses it once.
#[test]
fn a_price_that_was_refused_once_is_given_again() {
    let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![queue("q1")]);
    let id = host.submit(HostJob::new(7)).unwrap();
    restarted_without_data(&mut host, id);
    assert_eq!(host.state(id), Some(State::Priority));
    host.refuse_prices = Some(Refusal::Other("out of memory".to_owned()));
    host.event(Event::Associations(vec![record(association(7, "A"), "A")]));
    host.event(Event::Reprioritize);
    assert_eq!(host.state(id), Some(State::Priority));
    let effects = host.engine.handle(host.now, Event::Timer(Timer::Retry));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Turn))));
    host.apply(effects);
    host.settle();
    assert_eq!(host.state(id), Some(State::Priority), "it is refused again");
    host.refuse_prices = None;
    host.retry();
    assert_eq!(host.state(id), Some(State::Sched));
    exact(&host);
    let effects = host.engine.handle(host.now, Event::Timer(Timer::Retry));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Turn))), "{effects:?}");
}

/// It came in the middle, and is compared with nothing; what others leave in the middle is kept for it.
#[test]
fn who_comes_while_jobs_are_compared_goes_when_that_is_over() {
    let mut host = Host::with(vec![narrow(7, "A"), record(association(8, "A"), "A")], vec![queue("q1")]);
    let runs = host.submit(HostJob::new(7)).unwrap();
    host.start(runs);
    (0..260).for_each(|_| drop(host.submit(HostJob::new(8))));
    panics(&mut host);
    let effects = host.engine.handle(NOW, Event::Timer(Timer::Turn));
    host.apply(effects);
    assert!(host.engine.view().is_doubtful());
    let late = comes_to_depend(&mut host, HostJob::new(7));
    assert_eq!(host.names(late), ["max-running-jobs-user-limit"]);
    host.jobs.remove(&runs);
    for event in [Event::Cleanup(runs), Event::Inactive(runs)] {
        let effects = host.engine.handle(NOW, event);
        host.apply(effects);
    }
    host.settle();
    assert_eq!(host.state(late), Some(State::Sched));
    exact(&host);
}
