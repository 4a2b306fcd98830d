// SPDX-License-Identifier: LGPL-3.0-only
//! Between the parts of a push after a reload or a restart: of replayed jobs nobody is released by half of what limits say.

use super::examples::exact;
use super::host::Host;
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::{Cap, Queue, SiteLimit, Target};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit};
use crate::limits::OVERTAKEN;
use State::{Depend, Priority, Sched};

fn narrow() -> Queue {
    Queue { max_running_jobs: Limit(1), ..queue("q1") }
}

fn in_queue() -> HostJob {
    HostJob::new(7).queue("q1")
}

fn records() -> Event<'static> {
    Event::Associations(vec![record(association(7, "A"), "A")])
}

fn states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

/// The rest of the push.
fn push_ends(host: &mut Host) {
    host.event(Event::Queues(vec![narrow()]));
    host.event(Event::Reprioritize);
}

/// In the queue one may run: one does, and three are held. Another job of theirs is in no queue. Then the plugin is replayed without
/// data, and of a push the associations have come.
fn half_pushed(is_reload: bool) -> (Host, JobId, [JobId; 3], JobId) {
    let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![narrow()]);
    let running = host.submit(in_queue()).unwrap();
    host.start(running);
    let held = [(); 3].map(|()| host.submit(in_queue()).unwrap());
    let other = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(states(&host, &held), [Depend; 3]);
    host.replay(is_reload, Engine::small());
    host.event(records());
    (host, running, held, other)
}

/// What happens before the queues have come.
type Amid = fn(&mut Host, JobId, JobId);

#[test]
fn whoever_makes_room_amid_a_push_releases_nobody_before_it_is_whole() {
    let ends: Amid = |host, running, _| host.end(running);
    let runs: Amid = |host, running, other| {
        host.start(other);
        host.end(running);
    };
    let moves: Amid = |host, running, other| {
        host.force_update(other, Some("q2".to_owned()), Some("A".to_owned()));
        host.end(running);
    };
    let rests: Amid = |host, running, other| {
        host.set_urgency(other, 0);
        host.end(running);
    };
    for is_reload in [true, false] {
        for (at, amid) in [ends, runs, moves, rests].into_iter().enumerate() {
            let (mut host, running, held, other) = half_pushed(is_reload);
            amid(&mut host, running, other);
            assert_eq!(states(&host, &held), [Depend; 3], "{is_reload} {at}");
            push_ends(&mut host);
            assert_eq!(states(&host, &held), [Sched, Depend, Depend], "{is_reload} {at}");
            exact(&host);
        }
    }
}

#[test]
fn a_job_that_starts_or_moves_amid_a_push_releases_nobody() {
    let starts: Amid = |host, _, other| host.start(other);
    let moves: Amid = |host, _, other| host.force_update(other, Some("q2".to_owned()), Some("A".to_owned()));
    for (at, amid) in [starts, moves].into_iter().enumerate() {
        let (mut host, running, held, other) = half_pushed(true);
        amid(&mut host, running, other);
        assert_eq!(states(&host, &held), [Depend; 3], "{at}");
        push_ends(&mut host);
        assert_eq!(states(&host, &held), [Depend; 3], "{at}");
        host.end(running);
        assert_eq!(states(&host, &held), [Sched, Depend, Depend], "{at}");
        exact(&host);
    }
}

#[test]
fn whom_others_let_go_amid_a_push_waits_until_it_is_whole() {
    for is_reload in [true, false] {
        let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![narrow()]);
        let jobs = [(); 4].map(|()| host.submit(in_queue().after("afterany:1")).unwrap());
        host.replay(is_reload, Engine::small());
        host.event(records());
        for id in jobs {
            host.remove_dependency(id, "afterany:1");
        }
        host.settle();
        assert_eq!(states(&host, &jobs), [Priority; 4], "{is_reload}: nobody knows the queue's limit");
        push_ends(&mut host);
        assert_eq!(states(&host, &jobs), [Sched, Priority, Priority, Priority], "{is_reload}");
        exact(&host);
    }
}

/// Data may come without a reprioritize for ever: who was submitted before them waits for one, and keeps nobody else waiting.
#[test]
fn records_alone_keep_nobody_waiting_who_came_after_them() {
    let mut host = Host::new();
    let waits = host.submit(HostJob::new(7)).unwrap();
    let mut one = association(7, "A");
    one.max_running_jobs = Limit(1);
    host.event(Event::Associations(vec![record(one, "A")]));
    let running = host.submit(HostJob::new(7)).unwrap();
    host.start(running);
    let held = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(states(&host, &[waits, held]), [Priority, Depend]);
    host.end(running);
    assert_eq!(states(&host, &[waits, held]), [Priority, Sched]);
    exact(&host);
}

/// Of a bank of two users four may run: of the first one does, and three of his are held by the queue's limit. Then the plugin is
/// replayed without data, and of a push the associations have come.
fn half_pushed_bank() -> (Host, JobId, [JobId; 3]) {
    let limits = vec![SiteLimit {
        target: Target::Bank("A".into()),
        queue: None,
        amount: Amount::parse("run-jobs").unwrap(),
        cap: Cap { limit: Limit(4), is_given: false },
    }];
    let settings = || Event::Settings(Settings { limits: limits.clone(), ..Settings::default() });
    let both = || Event::Associations([7, 8].map(|user| record(association(user, "A"), "A")).into());
    let mut host = Host::new();
    host.event(settings());
    host.event(both());
    push_ends(&mut host);
    let running = host.submit(in_queue()).unwrap();
    host.start(running);
    let held = [(); 3].map(|()| host.submit(in_queue()).unwrap());
    let mut engine = Engine::small();
    engine.handle(NOW, settings());
    host.replay(true, engine);
    host.event(both());
    (host, running, held)
}

/// Nor does a pass release them that begins at somebody who shares a limit with them.
#[test]
fn a_neighbour_amid_a_push_releases_nobody() {
    let (mut host, running, held) = half_pushed_bank();
    let theirs = [(); 3].map(|()| host.submit(HostJob::new(8)).unwrap());
    theirs.into_iter().for_each(|id| host.start(id));
    theirs.into_iter().for_each(|id| host.end(id));
    assert_eq!(states(&host, &held), [Depend; 3]);
    push_ends(&mut host);
    assert_eq!(states(&host, &held), [Depend; 3]);
    host.end(running);
    assert_eq!(states(&host, &held), [Sched, Depend, Depend]);
    exact(&host);
}

/// Nobody knows when the push is whole: until then who waits for it keeps no room from others, however often it is overtaken.
#[test]
fn who_waits_for_the_end_of_a_push_has_no_claim() {
    let (mut host, running, held) = half_pushed_bank();
    let one = |host: &mut Host| host.submit(HostJob::new(8)).unwrap();
    for _ in 0..=OVERTAKEN {
        let id = one(&mut host);
        host.start(id);
        host.end(id);
    }
    let next = one(&mut host);
    assert_eq!((host.state(next), states(&host, &held)), (Some(Sched), vec![Depend; 3]));
    push_ends(&mut host);
    host.end(running);
    assert_eq!(states(&host, &held), [Sched, Depend, Depend]);
    exact(&host);
}
