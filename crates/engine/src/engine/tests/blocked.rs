// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that other plugins keep in DEPEND as well: whose turn it is, and who may go in their stead.
//! Rules: R4, R10

use super::examples::{exact, site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, queue, record};
use crate::engine::{Engine, Event, State};
use crate::ids::{JobId, Limit};
use crate::limits::{Eligible, Keepers};

#[test]
fn a_job_kept_by_others_gives_way_to_one_that_nobody_keeps() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let kept = host.submit(HostJob::new(7).after("begin-time:9999")).unwrap();
    let also_kept = host.submit(HostJob::new(7).after("afterany:1")).unwrap();
    let next = submit(&mut host, 1);
    host.end(a);
    assert_eq!(host.names(kept), ["begin-time:9999", "max-running-jobs-user-limit"]);
    assert_eq!(host.names(also_kept), ["afterany:1", "max-running-jobs-user-limit"]);
    assert_eq!(host.state(next), Some(State::Sched), "its turn came, and nobody else can take it");
    host.remove_dependency(kept, "begin-time:9999");
    host.settle();
    host.start(next);
    exact(&host);
}

#[test]
fn a_job_that_others_let_go_is_not_passed_over() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let kept = host.submit(HostJob::new(7).after("begin-time:9999")).unwrap();
    let let_go = host.submit(HostJob::new(7).after("begin-time:1")).unwrap();
    let later = submit(&mut host, 1);
    host.remove_dependency(let_go, "begin-time:1");
    host.settle();
    assert_eq!(host.names(let_go), ["max-running-jobs-user-limit"]);
    host.end(a);
    assert_eq!([let_go, later].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
    assert_eq!(host.names(kept), ["begin-time:9999", "max-running-jobs-user-limit"]);
    exact(&host);
}

#[test]
fn a_job_that_only_we_hold_goes_as_soon_as_others_let_it_go() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let kept = host.submit(HostJob::new(7).after("begin-time:9999")).unwrap();
    let let_go = host.submit(HostJob::new(7).after("begin-time:1")).unwrap();
    host.end(a);
    assert_eq!(host.names(let_go), ["begin-time:1", "max-running-jobs-user-limit"]);
    host.remove_dependency(let_go, "begin-time:1");
    host.settle();
    assert_eq!(host.state(let_go), Some(State::Sched), "all limits have room, and nobody else keeps it");
    assert_eq!(host.names(kept), ["begin-time:9999"]);
    host.remove_dependency(kept, "begin-time:9999");
    assert_eq!(host.names(kept), ["max-running-jobs-user-limit.2"], "its place was taken meanwhile");
    exact(&host);
}

#[test]
fn what_others_keep_is_known_after_a_restart() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let kept = host.submit(HostJob::new(7).after("begin-time:9999")).unwrap();
    let let_go = host.submit(HostJob::new(7).after("begin-time:1")).unwrap();
    host.remove_dependency(let_go, "begin-time:1");
    // A restart adds it again; a name that was removed once holds nothing.
    host.jobs.get_mut(&let_go).unwrap().log.push(("begin-time:1".to_owned(), true));
    let mut limited = association(7, "A");
    limited.max_running_jobs = Limit(1);
    let mut engine = Engine::small();
    engine.handle(NOW, Event::Associations(vec![record(limited, "A")]));
    host.replay(true, engine);
    let later = submit(&mut host, 1);
    host.end(a);
    assert_eq!([let_go, later].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
    assert_eq!(host.names(kept), ["begin-time:9999", "max-running-jobs-user-limit"], "no event for nothing");
    exact(&host);
}

#[test]
fn a_job_kept_by_others_holds_nobody_back() {
    let mut host = site(|a| a.max_nodes = Limit(4));
    let a = submit(&mut host, 4);
    host.start(a);
    let kept = host.submit(HostJob::new(7).size(3, 3).after("begin-time:9999")).unwrap();
    let (large, small) = (submit(&mut host, 4), submit(&mut host, 1));
    host.end(a);
    assert_eq!((host.state(large), host.state(small)), (Some(State::Sched), Some(State::Depend)), "in turn");
    assert_eq!(host.names(kept), ["begin-time:9999", "max-resources-user-limit"], "no event for nothing");
    exact(&host);
}

#[test]
fn a_job_kept_by_others_unknown_to_us_gives_way_in_the_next_turn() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let (kept, next) = (submit(&mut host, 1), submit(&mut host, 1));
    // No jobspec declares it, so we are told nothing of it.
    host.jobs.get_mut(&kept).unwrap().dependencies.insert("license".to_owned());
    host.end(a);
    assert_eq!(host.names(kept), ["license"]);
    assert_eq!(host.state(next), Some(State::Sched));
    exact(&host);
}

/// A site of one running job, with `kept` held by us and by a name that no jobspec declares.
fn undeclared() -> (Host, JobId, JobId) {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let running = submit(&mut host, 1);
    host.start(running);
    let kept = submit(&mut host, 1);
    let job = host.jobs.get_mut(&kept).unwrap();
    job.dependencies.insert("license".to_owned());
    job.log.push(("license".to_owned(), true));
    (host, running, kept)
}

#[test]
fn a_job_kept_by_an_undeclared_name_gains_no_name_with_every_job_that_ends() {
    let (mut host, mut running, kept) = undeclared();
    for _ in 0..5 {
        let next = submit(&mut host, 1);
        host.end(running);
        assert_eq!(host.state(next), Some(State::Sched));
        host.start(next);
        running = next;
    }
    let ours = host.jobs[&kept].log.iter().filter(|(name, _)| name.starts_with("max-")).count();
    assert_eq!(ours, 2, "added once and removed once: {:?}", host.jobs[&kept].log);
    host.remove_dependency(kept, "license");
    host.settle();
    assert_eq!(host.names(kept), ["max-running-jobs-user-limit.2"]);
    host.end(running);
    assert_eq!(host.state(kept), Some(State::Sched));
    exact(&host);
}

#[test]
fn an_undeclared_name_is_known_after_a_replay_and_its_end_is_seen() {
    for is_reload in [true, false] {
        let (mut host, running, kept) = undeclared();
        let mut limited = association(7, "A");
        limited.max_running_jobs = Limit(1);
        let mut engine = Engine::small();
        engine.handle(NOW, Event::Associations(vec![record(limited, "A")]));
        host.replay(is_reload, engine);
        let later = submit(&mut host, 1);
        assert!(host.engine.ledger().job(kept).unwrap().keepers == Keepers::Others, "reload {is_reload}");
        host.remove_dependency(kept, "license");
        host.settle();
        assert!(host.engine.ledger().job(kept).unwrap().keepers == Keepers::NobodyElse, "reload {is_reload}");
        host.end(running);
        assert_eq!([kept, later].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
        exact(&host);
    }
}

#[test]
fn a_job_that_stays_in_depend_without_a_name_of_ours_is_judged_when_it_is_let_go() {
    for declares in [true, false] {
        let mut host = site(|a| a.max_nodes = Limit(1));
        let kept =
            [(); 4].map(|()| host.submit(HostJob { declares, ..HostJob::new(7).after("license") }).unwrap());
        let running = submit(&mut host, 1);
        host.start(running);
        for id in kept {
            host.remove_dependency(id, "license");
        }
        host.settle();
        for id in kept {
            assert_eq!(host.names(id), ["max-resources-user-limit"], "declared: {declares}");
        }
        host.end(running);
        let states = kept.map(|id| host.state(id) == Some(State::Sched));
        assert_eq!(states, [true, false, false, false], "declared: {declares}");
        exact(&host);
    }
}

#[test]
fn dependents_of_one_job_do_not_all_pass_the_cap_of_their_queue() {
    let mut full = queue("q1");
    full.max_nodes_per_assoc = Limit(1);
    let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![full]);
    let four = [(); 4].map(|()| host.submit(HostJob::new(7).queue("q1").after("afterany:K")).unwrap());
    for id in four {
        host.remove_dependency(id, "afterany:K");
    }
    host.settle();
    assert_eq!(
        four.map(|id| host.state(id)),
        [State::Sched, State::Depend, State::Depend, State::Depend].map(Some)
    );
    assert_eq!(host.names(four[1]), ["max-resources-queue"]);
    for [ended, next] in [[four[0], four[1]], [four[1], four[2]]] {
        host.start(ended);
        host.end(ended);
        assert_eq!(host.state(next), Some(State::Sched));
    }
    exact(&host);
}

#[test]
fn one_of_several_names_of_others_that_goes_decides_nothing() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let kept = host.submit(HostJob::new(7).after("begin-time:1").after("afterany:2")).unwrap();
    let running = submit(&mut host, 1);
    host.start(running);
    host.remove_dependency(kept, "afterany:2");
    host.settle();
    assert_eq!(host.names(kept), ["begin-time:1"]);
    host.remove_dependency(kept, "begin-time:1");
    assert_eq!(host.names(kept), ["max-running-jobs-user-limit"]);
    exact(&host);
}

/// Flux carries out what is posted to the job of the running callback when that is over: whoever the same pass frees
/// after it is on the way before it, and has taken nothing of what was promised to it.
#[test]
fn a_job_that_its_own_update_frees_has_its_turn_before_those_that_came_later() {
    for (places, freed) in [(2, [true, true]), (1, [true, false])] {
        let mut host = site(|a| (a.max_running_jobs, a.max_sched_jobs) = (Limit(0), Limit(0)));
        let undeclared = || HostJob { declares: false, ..HostJob::new(7).after("license") };
        let earlier = submit(&mut host, 1);
        let kept = [(); 2].map(|()| host.submit(undeclared()).unwrap());
        let later = submit(&mut host, 1);
        let mut raised = association(7, "A");
        (raised.max_running_jobs, raised.max_sched_jobs) = (Limit(places), Limit(places));
        host.event(Event::Associations(vec![record(raised, "A")]));
        assert_eq!(
            [earlier, later].map(|id| host.state(id)),
            [Some(State::Depend); 2],
            "a push alone frees nobody"
        );
        host.update(earlier, Some("unknown"), None).unwrap();
        assert_eq!([earlier, later].map(|id| host.state(id) == Some(State::Sched)), freed, "{places} places");
        for id in kept {
            assert_eq!(host.state(id), Some(State::Depend));
        }
        exact(&host);
    }
}

#[test]
fn names_of_a_life_that_nobody_can_tell_of_are_not_used_again_in_the_next() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let kept = host.submit(HostJob::new(7).after("license 0")).unwrap();
    host.unreadable.insert(kept);
    for life in 1..4 {
        let mut limited = association(7, "A");
        limited.max_sched_jobs = Limit(1);
        let mut engine = Engine::small();
        engine.handle(NOW, Event::Associations(vec![record(limited, "A")]));
        host.replay(false, engine);
        let running = submit(&mut host, 1);
        // It is held for that one; the model host refuses a dead name.
        host.remove_dependency(kept, &format!("license {}", life - 1));
        host.settle();
        assert_eq!(host.names(kept).len(), 1, "{:?}", host.names(kept));
        let next = format!("license {life}");
        host.jobs.get_mut(&kept).unwrap().dependencies.insert(next.clone());
        host.end(running);
        assert_eq!(host.names(kept), [next]);
    }
    exact(&host);
}

/// Of one that was submitted to be held nobody says that it is wanted: its time does not count when others let it go.
#[test]
fn who_is_let_go_begins_to_age_unless_it_was_submitted_at_urgency_0() {
    for (urgency, counts) in [(16, true), (0, false)] {
        let mut host = site(|a| a.max_sched_jobs = Limit(0));
        let kept = host.submit(HostJob { urgency, ..HostJob::new(7).after("begin-time:1") }).unwrap();
        let since = |host: &Host| host.engine.ledger().job(kept).unwrap().eligible;
        assert!(matches!(since(&host), Eligible::For(_)), "{urgency}");
        host.remove_dependency(kept, "begin-time:1");
        host.settle();
        assert_eq!(host.names(kept), ["max-sched-jobs-user-limit"]);
        assert_eq!(matches!(since(&host), Eligible::Since(_)), counts, "{urgency}");
    }
}
