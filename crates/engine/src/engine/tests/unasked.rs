// SPDX-License-Identifier: LGPL-3.0-only
//! A place to run that was promised before a reload is kept, whenever a limit on what runs comes in reach.

use super::examples::{exact, site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, UNLIMITED, association, queue, record};
use crate::accounts::{Cap, Queue, SiteLimit, Target};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit};
use State::{Depend, Run, Sched};

fn records(max_running: Limit) -> Event<'static> {
    let mut one = association(7, "A");
    one.max_running_jobs = max_running;
    Event::Associations(vec![record(one, "A")])
}

fn states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

/// One may run, and one that was held goes when the one that ran ends; what `data` say it finds after a reload.
fn reloaded(job: impl Fn() -> HostJob, data: Vec<Event<'static>>) -> (Host, JobId) {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let running = host.submit(job()).unwrap();
    host.start(running);
    let freed = host.submit(job()).unwrap();
    host.end(running);
    assert_eq!(host.state(freed), Some(Sched));
    let mut engine = Engine::small();
    for event in data {
        host.oracle.learn(&event);
        engine.handle(NOW, event);
    }
    host.reads_asked = 0;
    host.replay(true, engine);
    (host, freed)
}

/// The same with nothing in reach.
fn unlimited() -> (Host, JobId) {
    let (host, freed) = reloaded(|| HostJob::new(7), vec![records(UNLIMITED)]);
    assert_eq!(host.reads_asked, 0);
    (host, freed)
}

fn narrow(name: &str) -> Queue {
    Queue { max_running_jobs: Limit(1), ..queue(name) }
}

#[test]
fn a_job_that_brings_a_limit_in_reach_finds_the_place_taken() {
    for is_reload in [true, false] {
        let mut host = site(|a| a.max_running_jobs = Limit(2));
        let [first, second, freed] = [(); 3].map(|()| {
            let id = submit(&mut host, 1);
            host.start(id);
            id
        });
        assert_eq!(states(&host, &[first, second, freed]), [Run, Run, Depend]);
        host.end(first);
        host.end(second);
        let mut engine = Engine::small();
        engine.handle(NOW, records(Limit(2)));
        host.replay(is_reload, engine);
        let next = submit(&mut host, 1);
        host.start(next);
        let last = submit(&mut host, 1);
        assert_eq!(states(&host, &[freed, next, last]), [Sched, Run, Depend], "{is_reload}");
        host.start(freed);
        host.end(next);
        assert_eq!(states(&host, &[freed, last]), [Run, Sched], "{is_reload}");
        exact(&host);
    }
}

#[test]
fn who_was_never_held_keeps_nobody_from_sched() {
    let mut host = site(|a| a.max_running_jobs = Limit(2));
    let waits = submit(&mut host, 1);
    let mut engine = Engine::small();
    engine.handle(NOW, records(Limit(2)));
    host.replay(true, engine);
    let others = [(); 3].map(|()| submit(&mut host, 1));
    assert_eq!(states(&host, &others), [Sched; 3]);
    assert_eq!(host.state(waits), Some(Sched));
    exact(&host);
}

#[test]
fn a_queue_that_comes_after_the_associations_holds_the_next() {
    let in_queue = || HostJob::new(7).queue("q1");
    let (mut host, freed) = reloaded(in_queue, Vec::new());
    host.event(records(UNLIMITED));
    host.event(Event::Queues(vec![narrow("q1")]));
    assert_eq!(host.reads_asked, 0);
    host.event(Event::Reprioritize);
    assert_eq!(host.reads_asked, 1);
    let next = host.submit(in_queue()).unwrap();
    assert_eq!(host.names(next), ["max-run-jobs-queue"]);
    host.start(freed);
    host.end(freed);
    assert_eq!(host.state(next), Some(Sched));
    exact(&host);
}

#[test]
fn a_limit_that_a_later_push_lowers_holds_the_next() {
    let (mut host, _) = unlimited();
    host.event(records(Limit(1)));
    assert_eq!(host.reads_asked, 0);
    for _ in 0..2 {
        host.event(Event::Reprioritize);
        assert_eq!(host.reads_asked, 1, "once");
    }
    let next = submit(&mut host, 1);
    assert_eq!(host.names(next), ["max-running-jobs-user-limit"]);
    exact(&host);
}

/// That is said when they let it go, whoever's eventlog was read meanwhile.
#[test]
fn whom_others_keep_is_not_held_by_a_later_push() {
    let mut host = site(|_| ());
    let others = host.submit(HostJob::new(7).after("keep=x")).unwrap();
    submit(&mut host, 1);
    let mut engine = Engine::small();
    engine.handle(NOW, records(UNLIMITED));
    host.replay(true, engine);
    host.event(records(Limit(0)));
    host.reads_asked = 0;
    host.event(Event::Reprioritize);
    assert_eq!((host.reads_asked, host.names(others)), (1, vec!["keep=x".to_owned()]));
    host.remove_dependency(others, "keep=x");
    assert_eq!(host.names(others), ["max-running-jobs-user-limit"]);
    exact(&host);
}

#[test]
fn a_limit_that_the_configuration_sets_holds_the_next() {
    let (mut host, _) = unlimited();
    let limit = SiteLimit {
        target: Target::User(crate::ids::UserId(7)),
        queue: None,
        amount: Amount::parse("run-jobs").unwrap(),
        cap: Cap { limit: Limit(1), is_given: false },
    };
    host.oracle.limits = vec![limit.clone()];
    host.event(Event::Settings(Settings { limits: vec![limit], ..Settings::default() }));
    assert_eq!(host.reads_asked, 1);
    let next = submit(&mut host, 1);
    assert_eq!(host.names(next), ["max-run-jobs-user"]);
    exact(&host);
}

#[test]
fn it_takes_its_place_with_it_where_it_moves() {
    let (mut host, freed) = unlimited();
    host.event(Event::Queues(vec![queue("q1"), narrow("q2")]));
    host.event(Event::Reprioritize);
    assert_eq!(host.reads_asked, 0);
    host.update(freed, Some("q2"), None).unwrap();
    assert_eq!(host.reads_asked, 1);
    let next = host.submit(HostJob::new(7).queue("q2")).unwrap();
    assert_eq!(host.names(next), ["max-run-jobs-queue"]);
    exact(&host);
}

#[test]
fn whoever_has_gone_is_not_kept_in_mind() {
    let (mut host, freed) = unlimited();
    host.update(freed, Some("q2"), None).unwrap();
    assert_eq!(host.engine.recovery.counts()[0], 1);
    host.end(freed);
    assert_eq!(host.engine.recovery.counts()[0], 0);
}
