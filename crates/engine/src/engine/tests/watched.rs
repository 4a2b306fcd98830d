// SPDX-License-Identifier: LGPL-3.0-only
//! Flux goes through all subscriptions of a plugin for each that is given back: there are few at a time. Nobody tells when others let go
//! the jobs beyond those, and yet none of them passes a limit, and none stays behind.
//! Rules: R11

use super::examples::{exact, site, submit};
use super::host::Host;
use super::past_depend::states;
use super::site::{HostJob, NOW, association, queue, record};
use super::why::why;
use crate::accounts::Association;
use crate::engine::tests::FEW;
use crate::engine::{Effect, Engine, Event, Refusal, Settings, State};
use crate::ids::{JobId, Limit};
use crate::limits::{Grant, Keepers};
use State::{Depend, Priority, Sched};

const AFTER: &str = "afterany:1";

fn dependent(host: &mut Host) -> JobId {
    host.submit(HostJob::new(7).after(AFTER)).unwrap()
}

/// As many as are watched, all of which wait for what never comes.
fn all_watched(change: impl FnOnce(&mut Association)) -> Host {
    let mut host = site(change);
    for _ in 0..FEW.subscribed {
        host.submit(HostJob::new(7).after("begin-time=9999999999")).unwrap();
    }
    assert_eq!(host.subscribed.len(), FEW.subscribed);
    host
}

/// They are let go in the same reactor turn.
fn let_go(host: &mut Host, jobs: &[JobId]) {
    jobs.iter().for_each(|id| host.remove_dependency(*id, AFTER));
    host.settle();
    exact(host);
    host.oracle.nobody_is_stranded(&host.jobs);
}

#[test]
fn who_is_not_watched_is_held_in_priority_when_it_is_let_go_and_finds_no_room() {
    for is_declared in [true, false] {
        let mut host = all_watched(|a| a.max_sched_jobs = Limit(1));
        let job = HostJob { declares: is_declared, ..HostJob::new(7).after(AFTER) };
        let kept = host.submit(job).unwrap();
        assert!(!host.subscribed.contains(&kept));
        let first = submit(&mut host, 1);
        assert_eq!(
            (states(&host, &[kept, first]), host.names(kept)),
            (vec![Depend, Sched], vec![AFTER.into()])
        );
        let_go(&mut host, &[kept]);
        assert_eq!(states(&host, &[kept, first]), [Priority, Sched], "declared: {is_declared}");
        host.start(first);
        assert_eq!(host.state(kept), Some(Sched));
        exact(&host);
    }
}

/// The limit was full when it came: nothing of ours is on it, which nobody would take off in time.
#[test]
fn who_is_not_watched_gets_no_name_and_goes_on_where_there_is_room() {
    let mut host = all_watched(|a| a.max_sched_jobs = Limit(1));
    let first = submit(&mut host, 1);
    let kept = dependent(&mut host);
    assert_eq!(host.names(kept), [AFTER]);
    host.start(first);
    let_go(&mut host, &[kept]);
    assert_eq!(host.state(kept), Some(Sched));
    // Nor where an update brings it into a full queue.
    let full = crate::accounts::Queue { max_sched_jobs: Limit(0), ..queue("q2") };
    host.event(Event::Queues(vec![queue("q1"), full]));
    let moved = dependent(&mut host);
    host.update(moved, Some("q2"), None).unwrap();
    assert_eq!(host.names(moved), [AFTER]);
    let_go(&mut host, &[moved]);
    assert_eq!(host.state(moved), Some(Priority));
    host.end(moved);
    assert_eq!(host.state(moved), None);
}

#[test]
fn of_many_dependents_of_one_job_one_goes_at_a_time() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let jobs: Vec<JobId> = (0..FEW.subscribed + 4).map(|_| dependent(&mut host)).collect();
    assert_eq!(host.subscribed.len(), FEW.subscribed);
    let_go(&mut host, &jobs);
    for id in &jobs {
        assert_eq!(
            (host.state(*id), host.count(7, "A", Sched)),
            (Some(Sched), 1),
            "job {id}: in their order"
        );
        host.start(*id);
    }
    assert!(host.subscribed.is_empty());
    exact(&host);
}

#[test]
fn who_comes_when_others_are_gone_is_watched_again() {
    let mut host = all_watched(|_| ());
    let beyond = dependent(&mut host);
    let watched = *host.subscribed.first().unwrap();
    host.end(watched);
    let next = dependent(&mut host);
    assert!(host.subscribed.contains(&next) && !host.subscribed.contains(&beyond));
    // Rejected, cancelled, or let go: of who was not watched nothing is given back.
    host.end(beyond);
    let refused = HostJob { bank: Some("unknown".into()), ..HostJob::new(7).after(AFTER) };
    assert!(host.submit(refused).is_err());
    let jobs: Vec<JobId> = host.jobs.keys().copied().collect();
    jobs.into_iter().for_each(|id| host.end(id));
    assert_eq!(host.engine.keeps(), []);
}

#[test]
fn what_is_told_of_who_is_not_watched_is_true() {
    let mut host = all_watched(|a| a.max_sched_jobs = Limit(1));
    let first = submit(&mut host, 1);
    let kept = dependent(&mut host);
    let told = why(&host, kept);
    let others: Vec<_> = told.others.iter().map(|it| (it.cause.as_ref(), it.name.clone())).collect();
    assert_eq!(others, [("dependency", None)], "{:?}", told.others);
    assert_eq!((told.is_held, told.holds.len(), told.release.reason.code.as_ref()), (false, 0, "free"));
    assert!(told.others[0].text.contains("by which name is not known"));
    let_go(&mut host, &[kept]);
    let told = why(&host, kept);
    let holds: Vec<&str> = told.holds.iter().map(|hold| hold.limit.as_ref()).collect();
    assert_eq!((told.is_held, holds, told.others.len()), (true, vec!["max-sched-jobs-user-limit"], 0));
    host.start(first);
    assert_eq!(host.state(kept), Some(Sched));
}

/// Nothing of the time in which others keep it counts.
#[test]
fn who_is_not_watched_does_not_age_while_others_keep_it() {
    for is_declared in [true, false] {
        let mut host = all_watched(|_| ());
        host.event(Event::Settings(Settings { age_weight: 1_000, ..Settings::default() }));
        let kept = host.submit(HostJob { declares: is_declared, ..HostJob::new(7).after(AFTER) }).unwrap();
        let age = |host: &Host| host.engine.ledger().job(kept).unwrap().eligible.seconds(host.now);
        host.now += 1_000.0;
        assert!(age(&host) < 1.0, "{is_declared}: {}", age(&host));
        let_go(&mut host, &[kept]);
        host.now += 1_000.0;
        assert!((1_000.0..1_001.0).contains(&age(&host)), "{is_declared}: {}", age(&host));
    }
}

/// They carry names of ours from before. Whether others keep one of them nobody tells: it stands in line as if nobody did, and goes when
/// there is room.
#[test]
fn who_is_held_and_not_watched_after_a_reload_is_not_left_behind() {
    let own = || Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    for are_kept in [true, false] {
        let mut host = site(|a| a.max_sched_jobs = Limit(1));
        let first = submit(&mut host, 1);
        let undeclared = || HostJob { declares: false, ..HostJob::new(7).after(AFTER) };
        let held: Vec<JobId> = (0..FEW.subscribed + 3).map(|_| host.submit(undeclared()).unwrap()).collect();
        let last = submit(&mut host, 1);
        let mut engine = Engine::small();
        engine.handle(NOW, Event::Associations(vec![record(own(), "A")]));
        host.replay(true, engine);
        assert_eq!(host.subscribed.len(), FEW.subscribed);
        let keepers = |host: &Host, id: &JobId| host.engine.ledger().job(*id).unwrap().keepers;
        let beyond: Vec<JobId> = held.iter().copied().filter(|id| !host.subscribed.contains(id)).collect();
        assert!(beyond.iter().all(|id| keepers(&host, id) == Keepers::NobodyElse));
        if !are_kept {
            beyond.iter().for_each(|id| host.remove_dependency(*id, AFTER));
        }
        host.start(first);
        if are_kept {
            // Each had its turn and did not move; now all of them are up to others.
            assert_eq!(host.state(last), Some(Sched));
            let is_out = |id: &JobId| {
                let job = host.engine.ledger().job(*id).unwrap();
                (job.grant, job.keepers) == (Grant::Blocked, Keepers::Others) && host.names(*id) == [AFTER]
            };
            assert!(beyond.iter().all(is_out));
            let_go(&mut host, &beyond);
            assert_eq!(states(&host, &beyond), vec![Priority; beyond.len()]);
            host.start(last);
        }
        for id in &beyond {
            assert_eq!(host.state(*id), Some(Sched), "kept: {are_kept}");
            host.start(*id);
        }
        exact(&host);
        host.oracle.nobody_is_stranded(&host.jobs);
    }
}

/// As if there had been no room for it.
#[test]
fn whose_subscription_flux_refuses_is_judged_when_it_is_let_go() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let first = submit(&mut host, 1);
    let id = JobId(77);
    let mut engine = host.engine.clone();
    engine.handle(NOW, Event::Created { id, state: State::New, has_dependencies: true });
    engine.refused(Effect::Subscribe(id), Refusal::Other("no memory".to_owned()));
    let job = HostJob { bank: Some("A".into()), project: Some("*".into()), ..HostJob::new(7) };
    engine.handle(NOW, Event::Validate(Host::facts(id, &job)));
    engine.handle(NOW, Event::New(Host::facts(id, &job)));
    let held = engine.handle(NOW, Event::Depend(id));
    assert!(!held.iter().any(|effect| matches!(effect, Effect::AddDependency(..))), "{held:?}");
    let told = engine.handle(NOW, Event::Priority(id, 16));
    assert!(told.iter().any(|effect| matches!(effect, Effect::PriorityUnavailable)), "{told:?}");
    assert!(!told.iter().any(|effect| matches!(effect, Effect::Unsubscribe(_))), "{told:?}");
    assert_eq!(host.state(first), Some(Sched));
}

/// What Flux has is compared: who is past DEPEND is nothing more to be watched.
#[test]
fn after_a_panic_who_was_not_watched_is_judged_as_before() {
    let mut host = all_watched(|a| a.max_sched_jobs = Limit(1));
    let jobs: Vec<JobId> = (0..3).map(|_| dependent(&mut host)).collect();
    let first = submit(&mut host, 1);
    let effects = host.engine.handle(host.now, Event::Panicked(None));
    host.apply(effects);
    host.settle();
    assert!(!host.engine.view().is_doubtful());
    assert_eq!(host.subscribed.len(), FEW.subscribed);
    let_go(&mut host, &jobs);
    assert_eq!(states(&host, &jobs), [Priority; 3]);
    for id in jobs.iter().chain([&first]) {
        host.end(*id);
    }
    exact(&host);
    let others: Vec<JobId> = host.jobs.keys().copied().collect();
    others.into_iter().for_each(|id| host.end(id));
    assert_eq!(host.engine.keeps(), []);
}
