// SPDX-License-Identifier: LGPL-3.0-only
//! Reservations of released jobs in a stopped queue: they lapse, and come back when the queue is started.
//! Rules: R7

use super::super::site::narrow;
use super::super::why::why;
use super::*;
use crate::accounts::{RunningLimits, RunningLimitsOf};
use std::collections::BTreeMap;

/// A job in q1 that was held and released by `limits`, and is not started; the next one, in q2, is held by its reservation.
fn released(limits: Vec<SiteLimit>, own: Option<AssociationRecord>, user: u32) -> (Host, JobId, JobId) {
    let mut host = site(limits);
    host.event(Event::Associations(own.into_iter().collect()));
    let first = host.submit(job(7, "A", 0).size(1, 4)).unwrap();
    host.start(first);
    let released = host.submit(job(7, "A", 0).size(1, 4)).unwrap();
    assert_eq!(host.state(released), Some(State::Depend));
    host.end(first);
    assert_eq!(host.state(released), Some(State::Sched));
    let next = host.submit(job(user, "A", 0).size(1, 4).queue("q2")).unwrap();
    assert_eq!(host.state(next), Some(State::Depend));
    (host, released, next)
}

fn shared() -> Vec<SiteLimit> {
    vec![limit(bank("science"), None, "run-cores", 4)]
}

#[test]
fn a_text_tells_what_runs_from_what_is_reserved() {
    let (mut host, first, next) = released(shared(), None, 8);
    let told = why(&host, next).holds.remove(0);
    let text = "0 of 4 running cores of bank science with all below it are in use, 4 are reserved for released jobs; this job takes 4";
    assert_eq!((told.text.as_str(), told.used, told.reserved), (text, 4, 4));
    assert_eq!(
        told.frees.iter().map(|one| (one.id, one.state.as_ref())).collect::<Vec<_>>(),
        [(first, "sched")]
    );
    host.start(first);
    let told = why(&host, next).holds.remove(0);
    let text = "4 of 4 running cores of bank science with all below it are in use; this job takes 4";
    assert_eq!((told.text.as_str(), told.used, told.reserved), (text, 4, 0));
    // A limit of the association's own record tells the same.
    let (host, _, next) = released(Vec::new(), Some(narrow(7, "A")), 7);
    let told = why(&host, next).holds.remove(0);
    let text = "0 of 1 running jobs of user 7 in bank A are in use, 1 are reserved for released jobs; this job takes 1";
    assert_eq!(told.text, text);
}

#[test]
fn a_reservation_lapses_while_the_queue_is_stopped() {
    for (limits, own, user) in [(shared(), None, 8), (Vec::new(), Some(narrow(7, "A")), 7)] {
        let (mut host, released, next) = released(limits, own, user);
        host.set_queue("q2", false);
        assert_eq!(host.state(next), Some(State::Depend), "another queue");
        host.set_queue("q2", true);
        host.set_queue("q1", false);
        assert_eq!([released, next].map(|id| host.state(id)), [Some(State::Sched); 2]);
        host.end(next);
        // Started again, the job reserves again.
        host.set_queue("q1", true);
        let last = host.submit(job(user, "A", 0).size(1, 4).queue("q2")).unwrap();
        assert_eq!(host.state(last), Some(State::Depend));
        host.start(released);
        host.end(released);
        assert_eq!(host.state(last), Some(State::Sched));
        exact(&host);
    }
}

/// When a queue starts, Flux starts its jobs together, before it calls the plugin.
#[test]
fn held_jobs_in_a_stopped_queue_are_released_as_the_limit_allows() {
    for (limits, own, user) in [(shared(), None, 8), (Vec::new(), Some(narrow(7, "A")), 7)] {
        let mut host = site(limits);
        host.event(Event::Associations(own.into_iter().collect()));
        let first = host.submit(job(7, "A", 0).size(1, 4)).unwrap();
        host.start(first);
        let held = [7, user].map(|user| host.submit(job(user, "A", 0).size(1, 4)).unwrap());
        host.set_queue("q1", false);
        host.end(first);
        let is_held = |id: &JobId, host: &Host| host.state(*id) == Some(State::Depend);
        let (waiting, released): (Vec<JobId>, Vec<JobId>) =
            held.into_iter().partition(|id| is_held(id, &host));
        assert_eq!((waiting.len(), released.len()), (1, 1));
        // Only jobs outside stopped queues can take the headroom of a suspended reservation.
        let outside = host.submit(job(user, "A", 0).size(1, 4).queue("q2")).unwrap();
        assert_eq!(host.state(outside), Some(State::Sched));
        host.end(outside);
        assert!(is_held(&waiting[0], &host));
        host.set_queue("q1", true);
        assert!(is_held(&waiting[0], &host));
        host.end(released[0]);
        assert_eq!(host.state(waiting[0]), Some(State::Sched));
        exact(&host);
    }
}

/// A queue may have been stopped before the plugin was loaded.
#[test]
fn a_reservation_lapses_in_a_stopped_queue_after_a_reload_and_a_restart() {
    for is_reload in [true, false] {
        for is_stopped in [true, false] {
            let (mut host, released, next) = released(shared(), None, 8);
            let mut engine = Engine::small();
            engine.handle(NOW, Event::Policy(policy(shared()), SitePart::default()));
            // The plugin that is replaced has not asked about queues since.
            host.stopped.extend(is_stopped.then(|| "q1".to_owned()));
            host.oracle.stopped = host.stopped.clone();
            host.replay(is_reload, engine);
            let wanted = if is_stopped { State::Sched } else { State::Depend };
            assert_eq!([released, next].map(|id| host.state(id)), [Some(State::Sched), Some(wanted)]);
            exact(&host);
        }
    }
}

/// A job that comes to a queue that is known to be stopped, or moves there or away from there.
#[test]
fn a_job_reserves_by_the_queue_that_it_is_in() {
    let (mut host, released, next) = released(shared(), None, 8);
    host.update(next, Some("q1"), None).unwrap();
    host.set_queue("q2", false);
    host.update(released, Some("q2"), None).unwrap();
    assert_eq!(host.state(next), Some(State::Sched), "it moved into the stopped queue");
    host.end(next);
    host.update(released, Some("q1"), None).unwrap();
    let last = host.submit(job(8, "A", 0).size(1, 4)).unwrap();
    assert_eq!(host.state(last), Some(State::Depend), "it moved out again");
    exact(&host);
}

/// Flux starts the jobs of a queue before anybody asks: by the strict rule they count in a stopped queue too.
#[test]
fn by_the_strict_rule_jobs_count_in_a_stopped_queue() {
    let (mut host, _, next) = released(shared(), None, 8);
    let running = RunningLimitsOf { others: RunningLimits::Strict, queues: BTreeMap::new() };
    host.event(Event::Settings(Settings { running, ..Settings::default() }));
    host.set_queue("q1", false);
    assert_eq!(host.state(next), Some(State::Depend));
    exact(&host);
}
