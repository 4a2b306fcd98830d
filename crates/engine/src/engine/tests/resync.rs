// SPDX-License-Identifier: LGPL-3.0-only
//! After a panic: what is compared with Flux, in which slices, how often it is tried, and what it leaves.

use super::examples::{exact, site, submit};
use super::host::Host;
use super::live::{accounts, leaf, leaves, live, tree};
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::Queue;
use crate::engine::{Effect, Engine, Event, Refusal, Settings, State, Timer};
use crate::ids::{JobId, Limit};
use fairshare::Policy;

/// Jobs that are looked up in one reactor turn.
const SLICE: usize = 250;

pub fn panics(host: &mut Host, id: Option<JobId>) -> Vec<Effect> {
    host.engine.handle(NOW, Event::Panicked(id))
}

fn look_ups(effects: &[Effect]) -> Vec<JobId> {
    effects.iter().filter_map(|e| if let Effect::LookUp(id) = e { Some(*id) } else { None }).collect()
}

/// Whether there is nothing to be done but to come back in the next turn.
fn is_only_defer(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Arm(Timer::Turn)])
}

fn says(effects: &[Effect], text: &str) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Log(_, said) if said.contains(text)))
}

#[test]
fn every_job_is_looked_up_once_a_slice_each_turn_then_all_prices_are_asked_for() {
    let mut host = site(|_| ());
    let ids: Vec<JobId> = (0..SLICE + 10).map(|_| submit(&mut host, 1)).collect();
    assert!(!host.engine.view().is_doubtful());
    assert!(is_only_defer(&panics(&mut host, None)));
    assert!(host.engine.view().is_doubtful());
    let turns: Vec<Vec<Effect>> =
        (0..2).map(|_| host.engine.handle(NOW, Event::Timer(Timer::Turn))).collect();
    let mut seen: Vec<JobId> = turns.iter().flat_map(|turn| look_ups(turn)).collect();
    assert_eq!(turns.iter().map(|turn| look_ups(turn).len()).collect::<Vec<_>>(), [SLICE, 10]);
    seen.sort();
    assert_eq!(seen, ids);
    let asks = |turn: &Vec<Effect>| turn.iter().any(|effect| matches!(effect, Effect::ReprioritizeAll));
    assert_eq!(turns.iter().map(asks).collect::<Vec<_>>(), [false, true]);
    assert!(turns.iter().all(|turn| matches!(turn.last(), Some(Effect::Arm(Timer::Turn)))));
}

/// What Flux has is not known before that.
#[test]
fn a_pass_that_was_asked_for_before_a_panic_waits_until_jobs_were_compared() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let [_, held] = [submit(&mut host, 1), submit(&mut host, 1)];
    host.event(Event::Associations(vec![record(association(7, "A"), "A")]));
    let effects = host.engine.handle(NOW, Event::Reprioritize);
    panics(&mut host, None);
    host.apply(effects);
    assert_eq!(host.state(held), Some(State::Depend));
    host.settle();
    assert_eq!(host.state(held), Some(State::Sched));
    exact(&host);
}

/// It may have come between the two halves of a change: who comes next is judged by counters that are right.
#[test]
fn counters_are_those_of_the_jobs_at_once() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let [first, second] = [submit(&mut host, 1), submit(&mut host, 1)];
    assert_eq!([first, second].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
    host.engine.ledger.corrupt(first, |job| job.phase = crate::limits::Phase::Run);
    assert!(!host.engine.ledger.drift().is_empty());
    panics(&mut host, Some(first));
    assert_eq!(host.engine.ledger.drift(), []);
}

#[test]
fn what_flux_has_is_taken_in_anew_and_what_it_lacks_is_forgotten() {
    let mut host = site(|a| a.max_sched_jobs = Limit(2));
    let [first, gone, held, kept] = [
        submit(&mut host, 1),
        submit(&mut host, 1),
        submit(&mut host, 1),
        host.submit(HostJob::new(7).after("afterany:1")).unwrap(),
    ];
    assert_eq!(host.state(held), Some(State::Depend));
    // Flux ended a job, started another, and nothing of it was told; and it has one that never was.
    host.jobs.remove(&gone);
    host.jobs.get_mut(&first).unwrap().state = State::Run;
    let effects = panics(&mut host, Some(JobId(999)));
    assert!(host.engine.view().knows(gone));
    host.apply(effects);
    host.settle();
    assert!(!host.engine.view().knows(gone) && !host.engine.view().knows(JobId(999)));
    assert_eq!(host.state(held), Some(State::Sched), "there is room now");
    assert!(!host.engine.view().is_doubtful() && !host.engine.view().is_replaying());
    // The job that others keep is still told about, once.
    assert!(host.subscribed.contains(&kept));
    host.remove_dependency(kept, "afterany:1");
    host.settle();
    assert_eq!(host.state(kept), Some(State::Sched));
    exact(&host);
}

#[test]
fn a_fair_share_that_was_told_is_not_told_again_but_to_whom_the_call_was_about() {
    let mut host = site(|_| ());
    let [one, other] = [(); 2].map(|()| submit(&mut host, 1));
    let told = |host: &Host| [one, other].map(|id| host.jobs[&id].memos.len());
    assert_eq!(told(&host), [1, 1]);
    let effects = panics(&mut host, Some(one));
    host.apply(effects);
    host.settle();
    assert_eq!(told(&host), [2, 1]);
}

#[test]
fn a_job_that_ended_meanwhile_is_not_taken_in() {
    let mut host = site(|_| ());
    let [ended, other] = [(); 2].map(|()| submit(&mut host, 1));
    panics(&mut host, None);
    let asked = look_ups(&host.engine.handle(NOW, Event::Timer(Timer::Turn)));
    assert_eq!(asked.len(), 2);
    host.jobs.get_mut(&ended).unwrap().state = State::Inactive;
    for id in [ended, other] {
        let job = host.jobs[&id].clone();
        host.engine.handle(NOW, Event::Shown(Host::facts(id, &job)));
    }
    assert!(!host.engine.view().knows(ended) && host.engine.view().knows(other));
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}

#[test]
fn a_look_up_that_fails_leaves_the_job_as_it_is_believed_to_be() {
    let mut host = site(|_| ());
    let id = submit(&mut host, 1);
    panics(&mut host, None);
    let asked = host.engine.handle(NOW, Event::Timer(Timer::Turn));
    assert_eq!(look_ups(&asked), [id]);
    let told = host.engine.refused(Effect::LookUp(id), Refusal::Other("no memory".to_owned()));
    assert!(says(&told, &format!("job {id}: failed to look it up: no memory")));
    assert!(host.engine.view().knows(id));
    assert!(host.engine.refused(Effect::LookUp(id), Refusal::Absent).is_empty());
    assert!(!host.engine.view().knows(id));
}

#[test]
fn three_panics_in_a_row_are_answered_and_the_next_waits_for_a_request() {
    let mut host = site(|_| ());
    let id = submit(&mut host, 1);
    for _ in 0..3 {
        assert!(is_only_defer(&panics(&mut host, None)));
    }
    assert!(host.engine.handle(NOW, Event::TryAgain).is_empty(), "it is under way");
    let told = panics(&mut host, None);
    assert!(says(&told, "could not be compared with Flux"));
    assert_eq!(look_ups(&host.engine.handle(NOW, Event::Timer(Timer::Turn))), [], "given up");
    assert!(host.engine.view().is_doubtful());
    assert!(is_only_defer(&host.engine.handle(NOW, Event::TryAgain)));
    assert!(host.engine.handle(NOW, Event::TryAgain).is_empty(), "once");
    assert_eq!(look_ups(&host.engine.handle(NOW, Event::Timer(Timer::Turn))), [id]);
    // One more is one too many again.
    assert!(says(&panics(&mut host, None), "could not be compared"));
}

#[test]
fn without_a_panic_there_is_nothing_to_try_again() {
    let mut host = site(|_| ());
    submit(&mut host, 1);
    assert!(host.engine.handle(NOW, Event::TryAgain).is_empty());
    for _ in 0..3 {
        panics(&mut host, None);
        host.apply(vec![Effect::Arm(Timer::Turn)]);
        host.settle();
        assert!(!host.engine.view().is_doubtful(), "one that is answered is not one in a row");
    }
}

#[test]
fn giving_up_waits_for_no_eventlog() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let [_, held] = [(); 2].map(|()| submit(&mut host, 1));
    host.never_answered.insert(held);
    let mut limited = association(7, "A");
    limited.max_sched_jobs = Limit(1);
    let mut engine = Engine::small();
    engine.handle(NOW, Event::Associations(vec![record(limited, "A")]));
    host.replay(true, engine);
    assert!(host.engine.ledger().job(held).unwrap().is_unread() && host.engine.ledger().has_unread());
    for _ in 0..4 {
        panics(&mut host, None);
    }
    assert!(!host.engine.ledger().job(held).unwrap().is_unread() && !host.engine.ledger().has_unread());
}

#[test]
fn when_nothing_is_left_to_look_up_the_doubt_is_over() {
    for why in [Refusal::Absent, Refusal::Other("no memory".to_owned())] {
        let mut host = site(|_| ());
        let id = submit(&mut host, 1);
        panics(&mut host, None);
        assert_eq!(look_ups(&host.engine.handle(NOW, Event::Timer(Timer::Turn))), [id]);
        host.engine.refused(Effect::LookUp(id), why);
        assert!(host.engine.view().is_doubtful());
        host.engine.handle(NOW, Event::Timer(Timer::Turn));
        assert!(!host.engine.view().is_doubtful());
    }
}

/// Whether we are subscribed is not known: it is given back, and asked for again where it matters.
#[test]
fn a_subscription_is_made_sure_of() {
    for (state, has_dependencies, is_asked_for) in [
        (State::New, true, true),
        (State::New, false, false),
        (State::Depend, true, true),
        (State::Depend, false, false),
        (State::Sched, true, false),
    ] {
        let mut engine = Engine::small();
        let (id, mut job) = (JobId(1), HostJob::new(7));
        engine.handle(NOW, Event::Created { id, state: State::New, has_dependencies });
        engine.handle(NOW, Event::Validate(Host::facts(id, &job)));
        engine.handle(NOW, Event::New(Host::facts(id, &job)));
        engine.handle(NOW, Event::Panicked(Some(id)));
        engine.handle(NOW, Event::Timer(Timer::Turn));
        job.state = state;
        let effects = engine.handle(NOW, Event::Shown(Host::facts(id, &job)));
        let which = |effect: &Effect| match effect {
            Effect::Unsubscribe(of) => Some((*of, false)),
            Effect::Subscribe(of) => Some((*of, true)),
            _ => None,
        };
        let mut wanted = vec![(id, false)];
        wanted.extend(is_asked_for.then_some((id, true)));
        let asked: Vec<_> = effects.iter().filter_map(which).collect();
        assert_eq!(asked, wanted, "{state:?} {has_dependencies}");
    }
}

/// Flux takes no notice of a callback that fails, and goes on: no job passes a limit by that.
#[test]
fn a_callback_that_is_cut_short_lets_nobody_past_a_limit() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let first = submit(&mut host, 1);
    host.panics_at = Some(|event| matches!(event, Event::Depend(_)));
    let second = submit(&mut host, 1);
    assert!(host.panics_at.is_none() && !host.engine.view().is_doubtful());
    assert_eq!((host.state(first), host.state(second)), (Some(State::Sched), Some(State::Priority)));
    host.start(first);
    assert_eq!(host.state(second), Some(State::Sched));
    exact(&host);
    // Two that others let go.
    let narrow = Queue { max_nodes_per_assoc: Limit(1), ..queue("q1") };
    let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![narrow]);
    let jobs = [(); 2].map(|()| host.submit(HostJob::new(7).queue("q1").after("afterany:1")).unwrap());
    host.remove_dependency(jobs[0], "afterany:1");
    host.panics_at = Some(|event| matches!(event, Event::Dependency { .. }));
    host.remove_dependency(jobs[1], "afterany:1");
    host.settle();
    assert!(host.panics_at.is_none());
    assert_eq!(jobs.map(|id| host.state(id)), [Some(State::Sched), Some(State::Priority)]);
    host.end(jobs[0]);
    assert_eq!(host.state(jobs[1]), Some(State::Sched));
    exact(&host);
}

#[test]
fn who_comes_when_nothing_is_compared_any_more_goes_on_all_the_same() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    (0..4).for_each(|_| drop(panics(&mut host, None)));
    assert!(host.engine.view().is_doubtful());
    let jobs = [(); 2].map(|()| submit(&mut host, 1));
    assert_eq!(jobs.map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
    host.start(jobs[0]);
    assert_eq!(host.state(jobs[1]), Some(State::Sched));
    exact(&host);
}

/// The timers of a refresh go with the call, and what it was at.
#[test]
fn a_refresh_that_is_cut_short_begins_anew_a_period_later() {
    for (users, refresh) in [(8, 30.0), (5_000, 30.0), (8, 0.0)] {
        let mut host = live(Policy::FairTree);
        let mut all = accounts();
        all.associations.extend((100..100 + users).map(|user| record(association(user, "A"), "A")));
        let many = leaves().into_iter().chain((100..100 + users).map(|user| leaf(user, "A", 1.0, 0.0)));
        host.event(Event::Settings(Settings { refresh, ..Settings::default() }));
        host.event(Event::Policy(all, tree(Policy::FairTree, NOW, many.collect())));
        let [runs, mine, other] = [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
        host.start(runs);
        host.now += 30.0;
        drop(host.engine.handle(host.now, Event::Timer(Timer::Refresh)));
        host.refresh_at = None;
        let effects = panics(&mut host, None);
        host.apply(effects);
        host.settle();
        assert_eq!(host.refresh_at, Some(host.now + 30.0), "{users} {refresh}");
        host.refresh(30.0);
        assert_eq!(host.engine.view().live_snapshot().last.unwrap().when, host.now);
        assert!(host.jobs[&mine].priority < host.jobs[&other].priority, "{users} {refresh}");
        assert_eq!(host.refresh_at.is_some(), refresh > 0.0);
    }
}

/// A panic elsewhere leaves the next refresh when it was due.
#[test]
fn a_panic_that_comes_often_does_not_put_refreshes_off() {
    let mut host = live(Policy::FairTree);
    let due = host.refresh_at.unwrap();
    host.now += 20.0;
    let effects = host.engine.handle(host.now, Event::Panicked(None));
    host.apply(effects);
    host.settle();
    assert_eq!(host.refresh_at, Some(due));
    // Nor does the next.
    host.now += 5.0;
    let effects = host.engine.handle(host.now, Event::Panicked(None));
    host.apply(effects);
    host.settle();
    assert_eq!(host.refresh_at, Some(due));
}

/// Of a job without an association nothing is waited for, and it may be the last that is read, or end.
#[test]
fn doubt_ends_with_a_job_of_nobodys_too() {
    for ends in [false, true] {
        let mut host = Host::new();
        let id = host.submit(HostJob::new(9).after("afterany:1")).unwrap();
        host.never_answered = [id].into();
        let effects = panics(&mut host, None);
        host.apply(effects);
        host.settle();
        assert!(host.engine.view().is_doubtful(), "its eventlog is being read");
        if ends {
            host.end(id);
        } else {
            let log = host.jobs[&id].log.clone();
            host.event(Event::Eventlog(id, Some(log)));
        }
        assert!(!host.engine.view().is_doubtful(), "{ends}");
    }
}

/// What others were asked for is not answered any more: it is asked for again, as often as where nobody answers.
#[test]
fn what_was_asked_for_is_asked_for_again() {
    let asks = |effects: &[Effect]| {
        effects.iter().filter(|effect| matches!(effect, Effect::ListEnded { .. })).count()
    };
    let mut engine = Engine::small();
    let pushed = engine.handle(NOW, Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    assert_eq!(asks(&pushed), 1);
    for time in 1..=12 {
        let effects = engine.handle(NOW, Event::Panicked(None));
        let gives_up = says(&effects, "job-list does not answer");
        assert_eq!(gives_up, time == 12, "{time}");
        assert_eq!(effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Retry))), !gives_up);
        assert_eq!(asks(&engine.handle(NOW, Event::Timer(Timer::Retry))), usize::from(!gives_up));
    }
    let weights = [("size".to_owned(), 10)].into();
    engine.handle(NOW, Event::Weights(weights));
    for is_known in [false, true] {
        let effects = engine.handle(NOW, Event::Panicked(None));
        let asks = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::ReadSiteNodes));
        assert!(!asks(&effects), "at once it would panic without end");
        assert_eq!(effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Retry))), !is_known);
        assert_eq!(asks(&engine.handle(NOW, Event::Timer(Timer::Retry))), !is_known);
        engine.handle(NOW, Event::SiteNodes(Some(4)));
    }
}

/// What would have told of its end is what was cut short; the ledger may have forgotten the job by then.
#[test]
fn a_job_whose_end_was_cut_short_runs_no_more() {
    for (is_cached, is_forgotten) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut host = live(Policy::FairTree);
        let id = host.submit(HostJob::new(7)).unwrap();
        host.start(id);
        assert_eq!(host.engine.view().live_snapshot().counts.1, 1);
        panics(&mut host, Some(id));
        if is_forgotten {
            host.engine.ledger.remove(id);
        }
        assert!(look_ups(&host.engine.handle(NOW, Event::Timer(Timer::Turn))).contains(&id));
        host.jobs.get_mut(&id).unwrap().state = State::Inactive;
        host.now += 10.0;
        if is_cached {
            let job = host.jobs[&id].clone();
            host.engine.handle(host.now, Event::Shown(Host::facts(id, &job)));
        } else {
            host.engine.refused(Effect::LookUp(id), Refusal::Absent);
        }
        assert_eq!(host.engine.view().live_snapshot().counts.1, 0, "{is_cached} {is_forgotten}");
        assert!(!host.engine.view().knows(id));
    }
}
