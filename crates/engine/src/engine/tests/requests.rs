// SPDX-License-Identifier: LGPL-3.0-only
//! What is asked of Flux, event by event, and what is not: a call too many does no harm that could be seen later.
//! Rules: L8

use super::examples::{site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, queue, record};
use super::strict::rules;
use crate::accounts::{ConfigPatch, PolicyPart, RunningLimits, ZeroScore};
use crate::engine::{Effect, Engine, Event, Refusal, Settings, State, Step, Timer};
use crate::ids::{JobId, Limit};
use crate::limits::SizeError;
use crate::limits::{Demand, RULES, Resources};
use crate::standing::SitePart;

const ID: JobId = JobId(1);

fn has(effects: &[Effect], which: impl Fn(&Effect) -> bool) -> bool {
    effects.iter().any(which)
}

fn defers(effects: &[Effect]) -> bool {
    has(effects, |effect| matches!(effect, Effect::Arm(Timer::Turn)))
}

/// The answer within a loop that the engine began.
fn answer_priority_get(engine: &mut Engine, id: JobId, urgency: i64) -> Vec<Effect> {
    engine.step(Step::LoopBegins);
    engine.handle(NOW, Event::PriorityGet(id, urgency))
}

fn reads(effects: &[Effect]) -> bool {
    has(effects, |effect| matches!(effect, Effect::ReadEventlog(_)))
}

/// An engine that knows user 7, who may run one job, and was shown a job of his in `state` as at a reload.
fn shown(state: State, change: impl FnOnce(&mut HostJob)) -> (Engine, HostJob) {
    let mut engine = Engine::small();
    let mut one = association(7, "A");
    one.max_running_jobs = Limit(1);
    engine.handle(NOW, Event::Associations(vec![record(one, "A")]));
    let mut job = HostJob { state, bank: Some("A".to_owned()), ..HostJob::new(7) };
    job.project = Some("*".to_owned());
    change(&mut job);
    engine.handle(NOW, Event::New(Host::facts(ID, &job)));
    (engine, job)
}

#[test]
fn a_replayed_job_that_declares_dependencies_is_subscribed_while_it_may_be_kept() {
    for (state, has_dependencies, wanted) in [
        (State::New, true, true),
        (State::Depend, true, true),
        (State::Depend, false, false),
        (State::Priority, true, false),
        (State::Run, true, false),
    ] {
        let mut engine = Engine::small();
        let effects = engine.handle(NOW, Event::Created { id: ID, state, has_dependencies });
        assert_eq!(has(&effects, |e| matches!(e, Effect::Subscribe(_))), wanted, "{state:?}");
    }
}

#[test]
fn a_job_that_others_let_go_needs_no_pass_unless_we_hold_it_too() {
    for (limit, is_held) in [(2, false), (1, true)] {
        let mut host = site(|a| a.max_sched_jobs = Limit(limit));
        submit(&mut host, 1);
        let kept = host.submit(HostJob::new(7).after("afterany:1")).unwrap();
        assert_eq!(host.engine.ledger().job(kept).unwrap().is_held(), is_held);
        let effects =
            host.engine.handle(NOW, Event::Dependency { id: kept, name: "afterany:1", added: false });
        assert_eq!(defers(&effects), is_held);
    }
}

#[test]
fn a_job_shown_in_priority_is_moved_on_by_id_and_one_in_sched_is_not() {
    for (state, is_moved) in [(State::Priority, true), (State::Sched, false)] {
        let (mut engine, _) = shown(state, |_| ());
        engine.handle(NOW, Event::Timer(Timer::Turn));
        let effects = answer_priority_get(&mut engine, ID, 16);
        assert!(has(&effects, |e| matches!(e, Effect::SetPriority(50_000))), "{effects:?}");
        assert_eq!(defers(&effects), is_moved, "{state:?}");
    }
}

#[test]
fn what_was_noted_of_a_job_goes_with_it() {
    let (mut engine, _) = shown(State::Priority, |_| ());
    engine.handle(NOW, Event::Timer(Timer::Turn));
    assert!(defers(&engine.handle(NOW, Event::PriorityGet(ID, 16))), "its price is due");
    engine.handle(NOW, Event::Inactive(ID));
    let effects = engine.handle(NOW, Event::Timer(Timer::Turn));
    assert!(!has(&effects, |e| matches!(e, Effect::AskUrgency(_))), "{effects:?}");
}

#[test]
fn a_job_in_cleanup_counts_as_running_while_it_has_resources() {
    for (start, running) in [(true, 1), (false, 0)] {
        let mut host = site(|_| ());
        let id = submit(&mut host, 1);
        host.start(id);
        let mut job = host.jobs[&id].clone();
        job.state = State::Cleanup;
        let mut facts = Host::facts(id, &job);
        if !start {
            facts.resources = Resources::None;
        }
        let mut engine = Engine::small();
        engine.handle(NOW, Event::Associations(vec![record(association(7, "A"), "A")]));
        assert!(!engine.view().is_replaying());
        engine.handle(NOW, Event::New(facts));
        assert!(engine.view().is_replaying() && engine.view().knows(id));
        let of = engine.book().find(crate::ids::UserId(7), None).unwrap();
        assert_eq!(engine.ledger().usage(of).unwrap().total.charged.run.jobs(), running);
        engine.handle(NOW, Event::Timer(Timer::Turn));
        assert!(!engine.view().is_replaying());
    }
}

#[test]
fn eventlogs_of_jobs_that_were_submitted_to_us_are_never_read() {
    let mut host = Host::new();
    host.submit(HostJob::new(7)).unwrap();
    let mut one = association(7, "A");
    one.max_running_jobs = Limit(1);
    let records = || vec![record(one.clone(), "A")];
    assert!(!reads(&host.engine.handle(NOW, Event::Associations(records()))));
    // Shown before there were data, it has a history that we don't know.
    let mut engine = Engine::small();
    let job = HostJob { state: State::Sched, ..HostJob::new(7) };
    engine.handle(NOW, Event::New(Host::facts(ID, &job)));
    engine.handle(NOW, Event::Timer(Timer::Turn));
    assert!(reads(&engine.handle(NOW, Event::Associations(records()))));
}

#[test]
fn parts_of_a_policy_take_effect_when_they_are_committed() {
    let mut host = Host::new();
    let id = host.submit(HostJob::new(7)).unwrap();
    let part =
        PolicyPart { associations: Some(vec![record(association(7, "A"), "A")]), ..PolicyPart::default() };
    let floor = ConfigPatch { zero_score: Some(ZeroScore::Floor), ..ConfigPatch::default() };
    host.event(Event::PolicyBegin { keeps_config: false });
    host.event(Event::PolicyPart(part, SitePart::default()));
    host.event(Event::PolicyPart(PolicyPart { config: floor, ..PolicyPart::default() }, SitePart::default()));
    assert_eq!((host.state(id), host.engine.book().is_staging()), (Some(State::Priority), true));
    host.event(Event::PolicyCommit);
    assert_eq!(host.state(id), Some(State::Sched));
    assert_eq!(host.engine.book().config().zero_score, ZeroScore::Floor);
    host.event(Event::PolicyBegin { keeps_config: false });
    host.event(Event::PolicyAbort);
    assert!(!host.engine.book().is_staging());
}

#[test]
fn a_waiting_job_may_name_any_bank_without_a_word() {
    let mut host = Host::new();
    let id = host.submit(HostJob::new(7)).unwrap();
    host.force_update(id, None, Some("nowhere".to_owned()));
    assert_eq!(host.logged, Vec::<String>::new());
    let mut host = site(|_| ());
    let id = submit(&mut host, 1);
    host.force_update(id, None, Some("nowhere".to_owned()));
    assert_eq!(host.logged.len(), 1, "{:?}", host.logged);
}

#[test]
fn of_several_faults_the_first_is_told_whatever_the_size_is() {
    let mut engine = Engine::small();
    let mut one = association(7, "A");
    one.active = false;
    engine.handle(NOW, Event::Associations(vec![record(one, "A")]));
    let job = HostJob::new(7);
    let facts = crate::engine::JobFacts { size: Err(SizeError::NoCore), ..Host::facts(ID, &job) };
    let effects = engine.handle(NOW, Event::Validate(facts));
    let [Effect::Reject(text)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(text, "user/bank entry has been disabled from flux-accounting DB");
}

/// What Flux refuses about a job that is on its way out is no news; anything else is said once.
#[test]
fn a_refusal_is_told_where_it_is_news() {
    let name = RULES.parse("max-sched-jobs-user-limit").unwrap();
    let other = || Refusal::Other("no memory".to_owned());
    let rows: [(Effect, Refusal, Option<&str>); 13] = [
        (Effect::AddDependency(ID, name), Refusal::TooLate, None),
        (Effect::AddDependency(ID, name), Refusal::Absent, Some("failed to add dependency")),
        (Effect::AskUrgency(ID), Refusal::Absent, None),
        (Effect::AskUrgency(ID), other(), Some("failed to look up its urgency: no memory")),
        (Effect::Subscribe(ID), Refusal::Absent, None),
        (Effect::Subscribe(ID), other(), Some("failed to subscribe to its events: no memory")),
        (Effect::RemoveDependency(ID, name), Refusal::Absent, None),
        (Effect::RemoveDependency(ID, name), Refusal::TooLate, None),
        (Effect::Raise(ID, "x".to_owned()), Refusal::Absent, None),
        (Effect::Raise(ID, "x".to_owned()), Refusal::TooLate, Some("failed to raise exception 'x'")),
        (Effect::Prioritize(ID, 7), Refusal::Absent, None),
        (Effect::Prioritize(ID, 7), Refusal::TooLate, Some("failed to set its priority: not allowed")),
        (Effect::ReprioritizeAll, other(), Some("failed to reprioritize: no memory")),
    ];
    for (effect, why, wanted) in rows {
        let (mut engine, _) = shown(State::Depend, |_| ());
        let what = format!("{effect:?}, {why:?}");
        let told = engine.refused(effect, why);
        let text = match told.as_slice() {
            [] => None,
            [Effect::Log(_, text)] => Some(text.as_str()),
            _ => panic!("{what}: {told:?}"),
        };
        assert_eq!(text.is_some(), wanted.is_some(), "{what}: {text:?}");
        assert!(text.unwrap_or_default().contains(wanted.unwrap_or_default()), "{what}: {text:?}");
    }
}

#[test]
fn an_urgency_of_0_takes_no_place_to_run_from_the_beginning() {
    for (urgency, demand) in
        [(0, Demand::Resting), (1, Demand::ToRun), (16, Demand::ToRun), (31, Demand::ToRun)]
    {
        let (engine, _) = shown(State::Depend, |job| job.urgency = urgency);
        assert_eq!(engine.ledger().job(ID).unwrap().demand, demand, "{urgency}");
    }
}

#[test]
fn the_queue_of_the_latest_job_is_known() {
    let mut host = site(|_| ());
    let of = host.engine.book().find(crate::ids::UserId(7), None).unwrap();
    let latest = |host: &Host| host.engine.ledger().latest_queue(of).map(|queue| queue.as_str().to_owned());
    assert_eq!(latest(&host), None);
    for queue in ["q1", "q2"] {
        host.submit(HostJob::new(7).queue(queue)).unwrap();
        assert_eq!(latest(&host).as_deref(), Some(queue));
    }
}

#[test]
fn who_waits_for_data_is_known() {
    let mut host = Host::new();
    for user in [8, 7, 8] {
        host.submit(HostJob::new(user)).unwrap();
    }
    let waiting = |host: &Host| host.engine.ledger().waiting_users().map(|user| user.0).collect::<Vec<_>>();
    assert_eq!(waiting(&host), [7, 8]);
    host.event(Event::Associations(vec![record(association(7, "A"), "A")]));
    assert_eq!(waiting(&host), [8]);
}

/// A place to run is given up by who had one, and only by who is not to run.
#[test]
fn only_a_reserved_place_that_is_given_up_is_looked_at_by_others() {
    for (running, before, urgency, passes) in [
        (RunningLimits::Upstream, 16, 0, false),
        (RunningLimits::Strict, 16, 0, true),
        (RunningLimits::Strict, 0, 16, false),
    ] {
        let mut host = site(|a| a.max_running_jobs = Limit(1));
        host.event(Event::Settings(rules(running, &[])));
        let id = submit(&mut host, 1);
        host.set_urgency(id, before);
        let effects = answer_priority_get(&mut host.engine, id, urgency);
        assert_eq!(defers(&effects), passes, "{running:?}: {before} to {urgency}");
    }
}

/// Of a loop that others began nobody tells that it is over: what would be done in it is done in the next reactor turn.
#[test]
fn in_a_loop_of_others_nobody_is_let_go() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let [first, held] = [(); 2].map(|()| submit(&mut host, 1));
    let goes =
        |effects: &[Effect]| has(effects, |e| matches!(e, Effect::RemoveDependency(id, _) if *id == held));
    let mut tell = |event| host.engine.handle(NOW, event);
    assert_eq!([(); 2].map(|()| defers(&tell(Event::PriorityGet(first, 16)))), [true, false], "once");
    assert!(!goes(&tell(Event::Run(first, Resources::None))));
    assert!(goes(&tell(Event::Timer(Timer::Turn))));
}

#[test]
fn a_job_past_depend_gets_no_name_where_it_moves() {
    for state in [State::Depend, State::Sched] {
        let mut host = site(|_| ());
        let mut full = queue("q2");
        full.max_sched_jobs = Limit(0);
        host.event(Event::Queues(vec![queue("q1"), full]));
        let job = HostJob::new(7).queue("q1");
        let job = if state == State::Depend { job.after("afterany:1") } else { job };
        let id = host.submit(job).unwrap();
        assert_eq!(host.state(id), Some(state));
        let mut moved = host.jobs[&id].clone();
        moved.queue = Some("q2".to_owned());
        moved.state = if state == State::Sched { State::Priority } else { state };
        let effects = host.engine.handle(NOW, Event::Updated(Host::facts(id, &moved)));
        let holds = has(&effects, |effect| matches!(effect, Effect::AddDependency(..)));
        assert_eq!(holds, state == State::Depend, "{state:?}");
    }
}

/// It was let go, and what it is let go by is on its way: its place is promised.
#[test]
fn a_job_that_is_being_let_go_gets_no_name_where_it_moves() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let first = submit(&mut host, 1);
    let held = host.submit(HostJob::new(7).queue("q1")).unwrap();
    host.jobs.remove(&first);
    let effects = host.engine.handle(NOW, Event::Inactive(first));
    assert!(has(&effects, |effect| matches!(effect, Effect::RemoveDependency(id, _) if *id == held)));
    let mut moved = host.jobs[&held].clone();
    moved.queue = Some("q2".to_owned());
    let effects = host.engine.handle(NOW, Event::Updated(Host::facts(held, &moved)));
    assert!(!has(&effects, |effect| matches!(effect, Effect::AddDependency(..))));
}

#[test]
fn an_annotation_is_not_given_again_before_it_changes() {
    let mut host = site(|_| ());
    host.event(Event::Settings(Settings { annotate: true, ..Settings::default() }));
    let id = submit(&mut host, 1);
    let notes = |host: &mut Host, urgency| {
        let effects = host.engine.handle(NOW, Event::PriorityGet(id, urgency));
        effects.iter().filter(|effect| matches!(effect, Effect::Annotate(..))).count()
    };
    // Another generation, of which the same price comes.
    host.event(Event::Associations(vec![record(association(7, "A"), "A")]));
    assert_eq!(notes(&mut host, 16), 0);
    assert_eq!(notes(&mut host, 17), 0, "another priority, and the same fair-share");
}
