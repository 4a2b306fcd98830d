// SPDX-License-Identifier: LGPL-3.0-only
//! What becomes of held jobs under flux-accounting's plugin, and jobs that are let rest for it.

use super::examples::{exact, site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, record};
use crate::accounts::Association;
use crate::engine::{Effect, Engine, Event, Fate, State, Timer};
use crate::ids::{JobId, Limit};

fn fates(host: &Host) -> Vec<(JobId, Fate)> {
    let page = crate::engine::hand_over(&host.engine.view(), None, 100).unwrap();
    page.into_iter().map(|job| (job.id, job.fate)).collect()
}

/// One job that runs where one may, and one that was held by the same limit and released, and that others keep.
fn let_go_and_kept() -> (Host, JobId, JobId) {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let first = submit(&mut host, 1);
    host.start(first);
    let held = host.submit(HostJob::new(7).after("keep=x")).unwrap();
    host.end(first);
    assert!(host.names(held).iter().all(|name| name == "keep=x"), "let go, as far as we are concerned");
    let taker = submit(&mut host, 1);
    host.start(taker);
    (host, taker, held)
}

/// One job that runs where one may, and one that is held a second time by the same limit.
fn held_twice() -> (Host, JobId, JobId) {
    let (mut host, taker, held) = let_go_and_kept();
    host.remove_dependency(held, "keep=x");
    assert_eq!(host.names(held), ["max-running-jobs-user-limit.2"]);
    (host, taker, held)
}

/// One job that runs where one may, and one that is held.
fn held_once() -> (Host, JobId) {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let first = submit(&mut host, 1);
    host.start(first);
    let held = submit(&mut host, 1);
    assert_eq!(host.names(held), ["max-running-jobs-user-limit"]);
    (host, held)
}

#[test]
fn a_plain_name_of_a_full_limit_is_held_on() {
    let (host, held) = held_once();
    assert_eq!(fates(&host), [(held, Fate::Held)]);
}

#[test]
fn a_name_that_was_used_up_ends_the_job() {
    let (host, _, held) = held_twice();
    assert_eq!(fates(&host), [(held, Fate::Ended)]);
}

/// Only others keep it, and that plugin would add its name once more, which holds nothing.
#[test]
fn who_was_let_go_and_is_kept_by_others_ends_where_its_limit_is_full() {
    let (mut host, taker, held) = let_go_and_kept();
    assert_eq!(fates(&host), [(held, Fate::Ended)]);
    let told = crate::engine::hand_over(&host.engine.view(), None, 9).unwrap().remove(0);
    assert!(told.is_kept && told.names.is_empty());
    host.end(taker);
    assert_eq!(fates(&host), [], "where there is room it is given no name");
    let (host, _, held) = held_twice();
    assert_eq!(
        crate::engine::hand_over(&host.engine.view(), None, 9)
            .unwrap()
            .iter()
            .map(|job| job.is_kept)
            .collect::<Vec<_>>(),
        [false]
    );
    assert!(host.engine.view().may_rest(held));
}

/// Without its names it would stay in DEPEND, where that plugin would add one once more, and end the job when it can't take it off.
#[test]
fn who_others_keep_too_does_not_rest_before_they_let_it_go() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let first = submit(&mut host, 1);
    host.start(first);
    let held = host.submit(HostJob::new(7).after("keep=x")).unwrap();
    assert!(!host.engine.view().may_rest(held));
    host.event(Event::Rest(vec![held]));
    assert_eq!(host.names(held), ["keep=x", "max-running-jobs-user-limit"]);
    let told = crate::engine::hand_over(&host.engine.view(), None, 9).unwrap().remove(0);
    assert!(told.is_kept && told.fate == Fate::Held);
    host.remove_dependency(held, "keep=x");
    assert!(host.engine.view().may_rest(held));
    exact(&host);
}

#[test]
fn a_promise_is_no_reason_to_hold_on() {
    // The place is promised to a job that others keep back from SCHED no longer, and has not run: theirs does not count it.
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let (released, held) = (submit(&mut host, 1), submit(&mut host, 1));
    host.end(a);
    assert_eq!(host.state(released), Some(State::Sched));
    assert_eq!(fates(&host), [(held, Fate::Stranded)]);
}

#[test]
fn who_rests_loses_its_names_though_the_limit_is_full_and_takes_no_place_to_run() {
    let (mut host, _, held) = held_twice();
    let effects = host.engine.handle(NOW, Event::Rest(vec![held]));
    let removed = effects.iter().filter_map(|effect| match effect {
        Effect::RemoveDependency(id, name) if *id == held => Some(name.to_string()),
        _ => None,
    });
    assert_eq!(removed.collect::<Vec<_>>(), ["max-running-jobs-user-limit.2"]);
    assert_eq!(fates(&host), []);
    let ledger = host.engine.ledger();
    let association = ledger.job(held).and_then(|job| job.association()).unwrap();
    assert_eq!(ledger.usage(association).unwrap().total.reserved.run.jobs(), 0);
}

#[test]
fn who_is_not_held_is_left_as_it_is() {
    let (mut host, taker, held) = held_twice();
    host.event(Event::Rest(vec![taker, JobId(4711)]));
    assert_eq!((host.state(taker), host.state(held)), (Some(State::Run), Some(State::Depend)));
    exact(&host);
}

/// Whether it was used up decides, not whether it is full.
#[test]
fn a_limit_that_became_full_later_ends_nobody_who_never_had_its_name() {
    let (mut host, held) = held_once();
    let mut lowered = association(7, "A");
    (lowered.max_running_jobs, lowered.max_nodes) = (Limit(1), Limit(1));
    host.engine.handle(NOW, Event::Associations(vec![record(lowered, "A")]));
    assert_eq!(host.names(held), ["max-running-jobs-user-limit"]);
    assert_eq!(fates(&host), [(held, Fate::Held)]);
}

/// As long as something is missing of what jobs carry, nobody says what becomes of them.
#[test]
fn nothing_is_said_before_all_names_are_known() {
    let fresh = || {
        let mut engine = Engine::small();
        let limits = Association { max_running_jobs: Limit(1), ..association(7, "A") };
        engine.handle(NOW, Event::Associations(vec![record(limits, "A")]));
        engine
    };
    let (mut host, held) = held_once();
    // One that runs was shown: others may follow.
    let mut engine = fresh();
    let running = host.jobs.values().find(|job| job.state == State::Run).unwrap();
    engine.handle(NOW, Event::New(Host::facts(JobId(1), running)));
    assert_eq!(crate::engine::hand_over(&engine.view(), None, 100), None, "being shown");
    engine.handle(NOW, Event::Timer(Timer::Turn));
    assert_eq!(crate::engine::hand_over(&engine.view(), None, 100), Some(Vec::new()));
    host.never_answered = [held].into();
    host.replay(true, fresh());
    assert_eq!(crate::engine::hand_over(&host.engine.view(), None, 100), None, "being read");
    host.never_answered.clear();
    (host.unreadable, host.has_job_list) = ([held].into(), false);
    host.replay(true, fresh());
    assert_eq!(crate::engine::hand_over(&host.engine.view(), None, 100), None, "unreadable");
    host.unreadable.clear();
    host.retry();
    assert_eq!(fates(&host), [(held, Fate::Held)]);
}

/// There that plugin holds nobody.
#[test]
fn who_waits_in_priority_would_go_on() {
    let mut host = Host::new();
    let jobs = [(); 2].map(|()| submit(&mut host, 1));
    let limits = Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    host.event(Event::Associations(vec![record(limits, "A")]));
    host.event(Event::Reprioritize);
    assert_eq!(jobs.map(|id| host.state(id)), [Some(State::Sched), Some(State::Priority)]);
    assert_eq!(fates(&host), [(jobs[1], Fate::Released)]);
}
