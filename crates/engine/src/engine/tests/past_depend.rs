// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that are past DEPEND when limits come to concern them: they are held in PRIORITY, or in SCHED at
//! priority 0, in the same line as the others.
//! Rules: L16

use super::examples::{exact, site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, queue, record};
use super::strict::rules;
use crate::accounts::{AssociationRecord, RunningLimits};
use crate::engine::{Effect, Engine, Event, JobFacts, Settings, State};
use crate::ids::{JobId, Limit};
use State::{Depend, Priority, Run, Sched};

pub fn states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

/// Whether jobs, all of them in SCHED, may go on from there.
pub fn go(host: &Host, jobs: &[JobId]) -> Vec<bool> {
    assert!(jobs.iter().all(|id| host.state(*id) == Some(Sched)));
    jobs.iter().map(|id| host.jobs[id].is_scheduled()).collect()
}

fn limited(run: i64) -> AssociationRecord {
    let mut one = association(7, "A");
    (one.max_running_jobs, one.max_sched_jobs) = (Limit(run), Limit(2));
    record(one, "A")
}

pub fn settled(host: &Host) {
    exact(host);
    host.oracle.nobody_is_stranded(&host.jobs);
}

/// Three jobs that came before any data, in PRIORITY; then data by which two may be in SCHED.
fn before_a_push() -> (Host, [JobId; 3]) {
    let mut host = Host::new();
    let jobs = [(); 3].map(|()| submit(&mut host, 1));
    assert_eq!(states(&host, &jobs), [Priority; 3]);
    host.event(Event::Queues(vec![queue("q1"), queue("q2")]));
    host.event(Event::Associations(vec![limited(3)]));
    assert_eq!(states(&host, &jobs), [Priority; 3], "records alone move nobody");
    host.event(Event::Reprioritize);
    (host, jobs)
}

#[test]
fn jobs_from_before_a_push_go_as_far_as_there_is_room_and_in_order() {
    let (mut host, jobs) = before_a_push();
    assert_eq!(states(&host, &jobs), [Sched, Sched, Priority]);
    let late = submit(&mut host, 1);
    assert_eq!(host.state(late), Some(Depend));
    settled(&host);
    host.start(jobs[0]);
    assert_eq!(states(&host, &jobs), [Run, Sched, Sched], "before the one that came later");
    assert_eq!(host.state(late), Some(Depend));
    host.start(jobs[1]);
    assert_eq!(host.state(late), Some(Depend), "the third place to run is promised to the third");
    host.end(jobs[0]);
    assert_eq!(host.state(late), Some(Sched));
    settled(&host);
}

#[test]
fn who_waits_in_priority_is_shown_as_held_with_the_limit_that_holds_it() {
    let (host, jobs) = before_a_push();
    let held = crate::engine::answers::snapshot(&host.engine.view()).associations[0].held.clone();
    let shown: Vec<(JobId, Vec<String>)> = held.into_iter().map(|job| (job.id, job.names)).collect();
    assert_eq!(shown, [(jobs[2], vec!["max-sched-jobs-user-limit".to_owned()])]);
    let facts: JobFacts<'_> = Host::facts(jobs[2], &host.jobs[&jobs[2]]);
    let why = crate::engine::answers::why(&host.engine.view(), &facts, host.now).unwrap();
    assert!(why.is_held && why.carries.is_empty());
    let holds: Vec<&str> = why.holds.iter().map(|hold| hold.limit.as_ref()).collect();
    assert_eq!(holds, ["max-sched-jobs-user-limit"]);
    assert_eq!(why.line.map(|line| (line.place, line.of)), Some((1, 1)));
    let stats = crate::engine::answers::stats(
        &host.engine.view(),
        crate::engine::answers::Heading::new(&host.engine.view(), host.now, None),
    );
    let held: u64 = stats.held_by_limit.values().sum();
    assert_eq!(held, 1);
}

/// It carries no name that could be taken off.
#[test]
fn who_waits_in_priority_does_not_rest_on_request() {
    let (mut host, jobs) = before_a_push();
    assert!(!host.engine.view().may_rest(jobs[2]));
    assert!(host.engine.handle(NOW, Event::Rest(vec![jobs[2]])).is_empty(), "and is promised nothing");
    assert_eq!(states(&host, &jobs), [Sched, Sched, Priority]);
    host.end(jobs[0]);
    assert_eq!(host.state(jobs[2]), Some(Sched), "its turn came as before");
    settled(&host);
}

#[test]
fn an_end_frees_it_and_its_own_end_leaves_nothing() {
    let (mut host, jobs) = before_a_push();
    host.end(jobs[2]);
    host.end(jobs[0]);
    settled(&host);
    host.end(jobs[1]);
    assert_eq!(crate::engine::answers::check(&host.engine.view()).jobs, 0);
}

#[test]
fn one_that_is_not_to_run_takes_no_place_when_it_goes() {
    let (mut host, jobs) = before_a_push();
    host.set_urgency(jobs[2], 0);
    host.start(jobs[0]);
    let late = submit(&mut host, 1);
    assert_eq!(states(&host, &[jobs[2], late]), [Sched, Depend], "SCHED is full again");
    host.start(jobs[1]);
    assert_eq!(host.state(late), Some(Sched), "the third place to run is free");
    settled(&host);
}

#[test]
fn a_reload_and_a_restart_leave_them_where_they_are() {
    for is_reload in [true, false] {
        for data_first in [true, false] {
            let (mut host, jobs) = before_a_push();
            let mut engine = Engine::small();
            if data_first {
                engine.handle(NOW, Event::Associations(vec![limited(3)]));
            }
            host.replay(is_reload, engine);
            if !data_first {
                host.event(Event::Associations(vec![limited(3)]));
                host.event(Event::Reprioritize);
            }
            assert_eq!(states(&host, &jobs), [Sched, Sched, Priority], "{is_reload} {data_first}");
            settled(&host);
            host.end(jobs[1]);
            assert_eq!(states(&host, &jobs), [Sched, Sched], "{is_reload} {data_first}");
            settled(&host);
        }
    }
}

#[test]
fn an_update_that_nobody_asked_about_into_a_full_queue_is_held_in_sched() {
    let mut full = queue("q2");
    full.max_sched_jobs = Limit(1);
    let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![queue("q1"), full]);
    let mut in_queue = |queue: &str| host.submit(HostJob::new(7).queue(queue)).unwrap();
    let [a, b] = ["q2", "q1"].map(&mut in_queue);
    host.force_update(b, Some("q2".to_owned()), Some("A".to_owned()));
    assert_eq!(go(&host, &[a, b]), [true, false]);
    let id = host.engine.book().find(crate::ids::UserId(7), None).unwrap();
    assert_eq!(
        host.engine.ledger().usage(id).unwrap().total.charged.sched.jobs(),
        1,
        "its place is given up"
    );
    settled(&host);
    host.end(a);
    assert_eq!(go(&host, &[b]), [true]);
    settled(&host);
}

#[test]
fn an_update_to_where_there_is_room_releases_it() {
    let mut full = queue("q2");
    full.max_sched_jobs = Limit(1);
    let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![queue("q1"), full]);
    let mut in_queue = |queue: &str| host.submit(HostJob::new(7).queue(queue)).unwrap();
    let [a, b] = ["q2", "q1"].map(&mut in_queue);
    host.force_update(b, Some("q2".to_owned()), Some("A".to_owned()));
    assert_eq!(host.update(b, Some("q1"), None), Ok(()));
    assert_eq!(go(&host, &[a, b]), [true; 2]);
    settled(&host);
}

#[test]
fn an_update_into_another_bank_meets_all_limits_there_and_one_that_stays_meets_none_anew() {
    let record_in = |bank: &str, most: i64| {
        let mut one = association(7, bank);
        one.max_sched_jobs = Limit(most);
        record(one, "A")
    };
    let mut host = Host::with(vec![record_in("A", 9), record_in("B", 1)], vec![queue("q1"), queue("q2")]);
    let mut in_bank = |bank: &str| host.submit(HostJob::new(7).queue("q1").bank(bank)).unwrap();
    let [a, b, c] = ["B", "A", "A"].map(&mut in_bank);
    host.force_update(b, Some("q1".to_owned()), Some("B".to_owned()));
    assert_eq!(go(&host, &[a, b, c]), [true, false, true], "bank B is full");
    settled(&host);
    host.event(Event::Associations(vec![record_in("A", 0), record_in("B", 1)]));
    host.force_update(c, Some("q2".to_owned()), Some("A".to_owned()));
    assert_eq!(go(&host, &[c]), [true], "what it has of its bank it keeps in another queue");
    host.end(a);
    assert_eq!(go(&host, &[b]), [true]);
    settled(&host);
}

#[test]
fn an_update_into_a_queue_with_another_rule_counts_by_it_at_once() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    host.event(Event::Settings(rules(RunningLimits::Upstream, &[("q2", RunningLimits::Strict)])));
    let mut in_queue = |queue: &str| host.submit(HostJob::new(7).queue(queue)).unwrap();
    let [b, a] = ["q1", "q2"].map(&mut in_queue);
    assert_eq!(go(&host, &[a, b]), [true; 2]);
    host.force_update(b, Some("q2".to_owned()), Some("A".to_owned()));
    assert_eq!(go(&host, &[a, b]), [true, false]);
    settled(&host);
    host.end(a);
    assert_eq!(go(&host, &[b]), [true]);
    settled(&host);
}

#[test]
fn by_the_strict_rule_a_job_that_wakes_finds_its_place_taken_and_waits() {
    for (settings, wanted) in
        [(Settings::default(), [true; 2]), (rules(RunningLimits::Strict, &[]), [false, true])]
    {
        let mut host = site(|a| a.max_running_jobs = Limit(1));
        host.event(Event::Settings(settings));
        let rests = submit(&mut host, 1);
        host.set_urgency(rests, 0);
        let next = submit(&mut host, 1);
        assert_eq!(go(&host, &[rests, next]), [true; 2]);
        host.set_urgency(rests, 16);
        assert_eq!(go(&host, &[rests, next]), wanted);
        host.end(next);
        assert_eq!(go(&host, &[rests]), [true]);
        settled(&host);
    }
}

/// The last of them is asked for its urgency, and then given its price.
#[test]
fn the_last_of_whom_flux_refuses_a_question_or_a_price_has_no_place_for_ever() {
    for is_price in [true, false] {
        let (mut host, jobs) = before_a_push();
        let why = Some(crate::engine::Refusal::Other("out of memory".to_owned()));
        *(if is_price { &mut host.refuse_prices } else { &mut host.refuse_asks }) = why;
        host.start(jobs[0]);
        assert_eq!(states(&host, &jobs), [Run, Sched, Priority]);
        let last = host.engine.ledger().job(jobs[2]).unwrap();
        assert!(last.is_held() && last.footprint().is_idle(), "{is_price}");
        (host.refuse_prices, host.refuse_asks) = (None, None);
        host.start(jobs[1]);
        assert_eq!(states(&host, &jobs), [Run, Run, Sched], "the next pass tries again: {is_price}");
        settled(&host);
    }
}

#[test]
fn by_the_strict_rule_a_job_whose_score_rises_too_late_is_held_in_sched() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    host.event(Event::Settings(rules(RunningLimits::Strict, &[])));
    host.event(Event::Weights(vec![("fairshare".to_owned(), 0)]));
    let rests = submit(&mut host, 1);
    let next = host.submit(HostJob { urgency: 17, ..HostJob::new(7) }).unwrap();
    assert_eq!(go(&host, &[rests, next]), [true; 2], "its score is 0");
    host.event(Event::Weights(vec![("fairshare".to_owned(), 100_000)]));
    host.event(Event::Reprioritize);
    assert_eq!(go(&host, &[rests, next]), [false, true]);
    settled(&host);
    host.end(next);
    assert_eq!(go(&host, &[rests]), [true]);
    settled(&host);
}

/// Between a push and its reprioritize they have their association, and no limit was asked yet.
#[test]
fn who_waits_for_its_first_price_is_not_shown_as_held() {
    let mut host = Host::new();
    let id = submit(&mut host, 1);
    let mut full = association(7, "A");
    full.max_sched_jobs = Limit(0);
    host.event(Event::Associations(vec![record(full, "A")]));
    let held = |host: &Host| crate::engine::answers::snapshot(&host.engine.view()).associations[0].held.len();
    assert_eq!((host.state(id), held(&host)), (Some(Priority), 0));
    host.event(Event::Reprioritize);
    assert_eq!((host.state(id), held(&host)), (Some(Priority), 1));
}

/// A restart found it in SCHED, and it was nobody's yet: as if the data had come then, it is not taken back.
#[test]
fn who_gets_its_first_association_by_an_update_stays_in_sched() {
    let mut host = site(|_| ());
    let id = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.jobs.get_mut(&id).unwrap().bank = Some("unknown".to_owned());
    let mut full = association(7, "A");
    full.max_sched_jobs = Limit(0);
    let mut engine = Engine::small();
    engine.handle(NOW, Event::Associations(vec![record(full, "A")]));
    host.replay(true, engine);
    assert_eq!(host.state(id), Some(Sched));
    host.force_update(id, None, Some("A".to_owned()));
    assert_eq!(host.state(id), Some(Sched));
    settled(&host);
}

/// Flux takes no dependency there any more.
#[test]
fn who_waits_in_priority_gets_no_name_where_it_moves() {
    let (mut host, jobs) = before_a_push();
    let mut moved = host.jobs[&jobs[2]].clone();
    moved.queue = Some("q2".to_owned());
    let effects = host.engine.handle(NOW, Event::Updated(Host::facts(jobs[2], &moved)));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::AddDependency(..))), "{effects:?}");
    host.jobs.insert(jobs[2], moved);
    host.end(jobs[0]);
    assert_eq!(host.state(jobs[2]), Some(Sched));
    settled(&host);
}

/// A restart finds it without its association: it waits in PRIORITY, and Flux calls nobody for a price when it moves.
#[test]
fn who_moves_from_a_bank_that_is_gone_to_one_with_room_goes_on() {
    for was_sched in [true, false] {
        let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![]);
        let id = if was_sched {
            host.submit(HostJob::new(7).bank("A")).unwrap()
        } else {
            let mut waiting = Host::new();
            std::mem::swap(&mut host.engine, &mut waiting.engine);
            host.submit(HostJob::new(7).bank("A")).unwrap()
        };
        let mut engine = Engine::small();
        engine.handle(NOW, Event::Associations(vec![record(association(7, "B"), "B")]));
        host.replay(false, engine);
        assert_eq!(host.state(id), Some(Priority), "{was_sched}");
        host.update(id, None, Some("B")).unwrap();
        assert_eq!(host.state(id), Some(Sched), "{was_sched}");
        settled(&host);
    }
}

/// It may have been between two reprioritizes when the plugin was loaded, and no push comes.
#[test]
fn who_is_in_priority_when_the_plugin_comes_with_its_data_goes_on() {
    for is_reload in [true, false] {
        let mut host = site(|_| ());
        let id = host.submit(HostJob { project: Some("*".into()), ..HostJob::new(7).bank("A") }).unwrap();
        host.jobs.get_mut(&id).unwrap().state = Priority;
        let mut engine = Engine::small();
        engine.handle(NOW, Event::Associations(vec![record(association(7, "A"), "A")]));
        host.replay(is_reload, engine);
        assert_eq!(host.state(id), Some(Sched), "{is_reload}");
        settled(&host);
    }
}
