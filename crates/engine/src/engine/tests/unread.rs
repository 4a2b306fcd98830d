// SPDX-License-Identifier: LGPL-3.0-only
//! While eventlogs are being read after a reload: limits hold, whatever happens meanwhile.

use super::examples::exact;
use super::host::Host;
use super::site::{HostJob, association, narrow, queue, record};
use crate::accounts::{Association, Cap, Queue, SiteLimit, Target};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit};
use State::{Depend, Priority, Sched};

fn data(host: &mut Host, association: &Association, queue: &Queue) {
    host.event(Event::Queues(vec![queue.clone()]));
    host.event(Event::Associations(vec![record(association.clone(), "A")]));
}

fn reload(host: &mut Host, association: &Association, queue: &Queue, never_answered: &[JobId]) {
    let mut engine = Engine::small();
    engine.handle(host.now, Event::Queues(vec![queue.clone()]));
    engine.handle(host.now, Event::Associations(vec![record(association.clone(), "A")]));
    host.never_answered = never_answered.iter().copied().collect();
    host.replay(true, engine);
}

fn read(host: &mut Host, id: JobId) {
    let log = host.jobs[&id].log.clone();
    host.event(Event::Eventlog(id, Some(log)));
}

fn states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

/// Four jobs of one node wait for another that ends before it is known which names they carry.
#[test]
fn one_dependency_passes_no_cap() {
    let (own, narrow) = (association(7, "A"), Queue { max_nodes_per_assoc: Limit(1), ..queue("q1") });
    for is_readable in [true, false] {
        let mut host = Host::new();
        data(&mut host, &own, &narrow);
        let jobs = [(); 4].map(|()| host.submit(HostJob::new(7).queue("q1").after("afterany:1")).unwrap());
        host.has_job_list = false;
        if is_readable {
            reload(&mut host, &own, &narrow, &jobs);
        } else {
            host.unreadable = jobs.into();
            reload(&mut host, &own, &narrow, &[]);
        }
        for id in jobs {
            host.remove_dependency(id, "afterany:1");
        }
        host.settle();
        assert_eq!(states(&host, &jobs), [Priority; 4], "nobody says that there is room");
        host.unreadable.clear();
        jobs.into_iter().for_each(|id| read(&mut host, id));
        assert_eq!(states(&host, &jobs), [Sched, Priority, Priority, Priority], "{is_readable}");
        host.start(jobs[0]);
        host.end(jobs[0]);
        assert_eq!(states(&host, &jobs[1..]), [Sched, Priority, Priority]);
        exact(&host);
    }
}

/// Held in PRIORITY its names are no matter any more: it does not wait for an eventlog that can't be read.
#[test]
fn who_was_let_go_before_anybody_could_read_it_is_not_forgotten() {
    let (own, wide) = (association(7, "A"), queue("q1"));
    let mut host = Host::new();
    data(&mut host, &own, &wide);
    let id = host.submit(HostJob::new(7).queue("q1").after("afterany:1")).unwrap();
    host.has_job_list = false;
    host.unreadable = [id].into();
    reload(&mut host, &own, &wide, &[]);
    host.remove_dependency(id, "afterany:1");
    host.settle();
    assert_eq!(host.state(id), Some(Priority));
    host.retry();
    assert_eq!(host.state(id), Some(Sched));
    assert!(crate::engine::hand_over(&host.engine.view(), None, 9).is_some(), "nobody is waited for");
    exact(&host);
}

/// Nobody knows whether a job in SCHED was released, and has a place to run.
#[test]
fn a_place_to_run_that_may_be_reserved_is_kept() {
    let (own, wide) = (Association { max_running_jobs: Limit(1), ..association(7, "A") }, queue("q1"));
    for was_held in [true, false] {
        let mut host = Host::new();
        data(&mut host, &own, &wide);
        let first = host.submit(HostJob::new(7)).unwrap();
        if was_held {
            host.start(first);
        }
        let second = host.submit(HostJob::new(7)).unwrap();
        assert_eq!(host.state(second), Some(if was_held { Depend } else { Sched }));
        host.end(first);
        assert_eq!(host.state(second), Some(Sched));
        reload(&mut host, &own, &wide, &[second]);
        let third = host.submit(HostJob::new(7)).unwrap();
        assert_eq!(host.state(third), Some(Depend), "{was_held}");
        read(&mut host, second);
        // One that was never held waits for its place in SCHED, as does whoever comes now.
        assert_eq!(host.state(third), Some(if was_held { Depend } else { Sched }));
        exact(&host);
    }
}

/// The room that somebody leaves is his who was held before the reload, though it is not known yet who that is.
#[test]
fn who_comes_meanwhile_goes_before_nobody_who_was_held() {
    for ends_before in [true, false] {
        let records = || Event::Associations(vec![narrow(7, "A")]);
        let mut host = Host::new();
        host.event(records());
        let first = host.submit(HostJob::new(7)).unwrap();
        host.start(first);
        let [held, other] = [(); 2].map(|()| host.submit(HostJob::new(7)).unwrap());
        let mut engine = Engine::small();
        engine.handle(host.now, records());
        host.never_answered = [held].into();
        host.replay(true, engine);
        assert_eq!(states(&host, &[held, other]), [Depend; 2]);
        if ends_before {
            host.end(first);
        }
        let next = host.submit(HostJob::new(7)).unwrap();
        assert_eq!(host.state(next), Some(if ends_before { Priority } else { Depend }));
        host.end(first);
        read(&mut host, held);
        let waits = host.state(next).unwrap();
        assert_eq!((states(&host, &[held, other]), waits == Sched), (vec![Sched, Depend], false));
        for id in [held, other] {
            host.start(id);
            host.end(id);
        }
        assert_eq!(host.state(next), Some(Sched), "its turn came");
        exact(&host);
    }
}

/// The same of a neighbour with whom the room is shared.
#[test]
fn a_neighbour_who_comes_meanwhile_goes_before_nobody_who_was_held() {
    let limit = SiteLimit {
        target: Target::Bank("A".into()),
        queue: None,
        amount: Amount::parse("run-jobs").unwrap(),
        cap: Cap { limit: Limit(1), is_given: false },
    };
    let settings = || Event::Settings(Settings { limits: vec![limit.clone()], ..Settings::default() });
    let both = || Event::Associations([7, 8].map(|user| record(association(user, "A"), "A")).into());
    let mut host = Host::new();
    [settings(), both()].into_iter().for_each(|event| host.event(event));
    let first = host.submit(HostJob::new(7)).unwrap();
    host.start(first);
    let held = host.submit(HostJob::new(7)).unwrap();
    let mut engine = Engine::small();
    for event in [settings(), both()] {
        engine.handle(host.now, event);
    }
    host.never_answered = [held].into();
    host.replay(true, engine);
    host.end(first);
    let next = host.submit(HostJob::new(8)).unwrap();
    assert_eq!(states(&host, &[held, next]), [Depend, Priority]);
    read(&mut host, held);
    assert_eq!(states(&host, &[held, next]), [Sched, Priority], "of one price the one that came first");
    host.start(held);
    host.end(held);
    assert_eq!(host.state(next), Some(Sched));
    exact(&host);
}
