// SPDX-License-Identifier: LGPL-3.0-only
//! Tests which requests to Flux an event causes. No other test would fail because of a superfluous request.
//! Rules: L8, D7

use super::examples::{make_site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, make_engine_with_associations, queue, record};
use super::strict::running_limit_settings;
use crate::accounts::{Association, ConfigPatch, Queue, RunningLimits, SiteRecords, ZeroScore};
use crate::engine::{Effect, Engine, Event, Refusal, Settings, State, Step, Timer};
use crate::ids::{JobId, Limit};
use crate::limits::{Demand, RULES, Resources};
use crate::standing::SitePart;

const ID: JobId = JobId(1);

fn has_effect(effects: &[Effect], which: impl Fn(&Effect) -> bool) -> bool {
    effects.iter().any(which)
}

fn defers_work(effects: &[Effect]) -> bool {
    has_effect(effects, |effect| matches!(effect, Effect::Arm(Timer::ReactorTurn)))
}

/// Returns the effects of a priority request inside a loop that the engine requested.
fn answer_in_loop(engine: &mut Engine, id: JobId, urgency: i64) -> Vec<Effect> {
    engine.execute_step(Step::LoopBegins);
    engine.handle(NOW, Event::PriorityGet(id, urgency))
}

fn reads_eventlog(effects: &[Effect]) -> bool {
    has_effect(effects, |effect| matches!(effect, Effect::ReadEventlog(_)))
}

/// Returns an engine with a limit of one running job for user 7, and a job of this user. Flux reports the job to the
/// engine in `state`, as after a reload.
fn replay_job(state: State, change: impl FnOnce(&mut HostJob)) -> (Engine, HostJob) {
    let mut engine = Engine::with_small_batches();
    let one_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    engine.handle(NOW, Event::Associations(vec![record(one_association, "A")]));
    let mut job = HostJob { state, bank: Some("A".to_owned()), ..HostJob::new(7) };
    job.project = Some("*".to_owned());
    change(&mut job);
    engine.handle(NOW, Event::New(Host::facts(ID, &job)));
    (engine, job)
}

#[test]
fn the_engine_subscribes_to_a_replayed_job_that_its_dependencies_may_block() {
    for (state, has_dependencies, wanted) in [
        (State::New, true, true),
        (State::Depend, true, true),
        (State::Depend, false, false),
        (State::Priority, true, false),
        (State::Run, true, false),
    ] {
        let mut engine = Engine::with_small_batches();
        let effects = engine.handle(NOW, Event::Created { id: ID, state, has_dependencies });
        assert_eq!(has_effect(&effects, |e| matches!(e, Effect::Subscribe(_))), wanted, "{state:?}");
    }
}

#[test]
fn when_a_dependency_of_another_plugin_ends_only_held_jobs_are_scanned() {
    for (limit, is_held) in [(2, false), (1, true)] {
        let mut host = make_site(|a| a.max_sched_jobs = Limit(limit));
        submit(&mut host, 1);
        let blocked_job = host.submit(HostJob::new(7).blocked_by("afterany:1")).unwrap();
        assert_eq!(host.engine.ledger().job(blocked_job).unwrap().is_held(), is_held);
        let effects =
            host.engine.handle(NOW, Event::Dependency { id: blocked_job, name: "afterany:1", added: false });
        assert_eq!(defers_work(&effects), is_held);
    }
}

#[test]
fn a_replayed_job_in_priority_gets_its_priority_by_id_and_a_job_in_sched_does_not() {
    for (state, is_moved) in [(State::Priority, true), (State::Sched, false)] {
        let (mut engine, _) = replay_job(state, |_| ());
        engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
        let effects = answer_in_loop(&mut engine, ID, 16);
        assert!(has_effect(&effects, |e| matches!(e, Effect::SetPriority(50_000))), "{effects:?}");
        assert_eq!(defers_work(&effects), is_moved, "{state:?}");
    }
}

#[test]
fn a_due_priority_is_dropped_when_its_job_ends() {
    let (mut engine, _) = replay_job(State::Priority, |_| ());
    engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    assert!(defers_work(&engine.handle(NOW, Event::PriorityGet(ID, 16))), "its priority is due");
    engine.handle(NOW, Event::Inactive(ID));
    let effects = engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    assert!(!has_effect(&effects, |e| matches!(e, Effect::AskUrgency(_))), "{effects:?}");
}

#[test]
fn a_job_in_cleanup_counts_as_running_while_it_has_resources() {
    for (start, running) in [(true, 1), (false, 0)] {
        let mut host = make_site(|_| ());
        let id = host.run_new_job(HostJob::new(7).size(1, 1));
        let mut job = host.jobs[&id].clone();
        job.state = State::Cleanup;
        let mut facts = Host::facts(id, &job);
        if !start {
            facts.resources = Resources::None;
        }
        let mut engine = make_engine_with_associations(vec![record(association(7, "A"), "A")]);
        assert!(!engine.view().is_replaying());
        engine.handle(NOW, Event::New(facts));
        assert!(engine.view().is_replaying() && engine.view().has_job(id));
        let association = engine.book().find(crate::ids::UserId(7), None).unwrap();
        assert_eq!(engine.ledger().accounts().usage(association).total.run.jobs(), running);
        engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
        assert!(!engine.view().is_replaying());
    }
}

#[test]
fn the_eventlog_of_a_job_that_the_engine_validated_is_never_read() {
    let mut host = Host::new();
    host.submit(HostJob::new(7)).unwrap();
    let one_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    let records = || vec![record(one_association.clone(), "A")];
    assert!(!reads_eventlog(&host.engine.handle(NOW, Event::Associations(records()))));
    // Flux replays this job before the first push. The engine has not validated the job, so it must read the
    // eventlog.
    let mut engine = Engine::with_small_batches();
    let job = HostJob { state: State::Sched, ..HostJob::new(7) };
    engine.handle(NOW, Event::New(Host::facts(ID, &job)));
    engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    assert!(reads_eventlog(&engine.handle(NOW, Event::Associations(records()))));
}

#[test]
fn a_staged_push_takes_effect_when_it_is_committed() {
    let mut host = Host::new();
    let id = host.submit(HostJob::new(7)).unwrap();
    let part = SiteRecords { associations: vec![record(association(7, "A"), "A")], ..SiteRecords::default() };
    let floor = ConfigPatch { zero_score: Some(ZeroScore::Floor), ..ConfigPatch::default() };
    host.send_event(Event::PolicyBegin { keeps_config: false });
    host.send_event(Event::PolicyPart(part, SitePart::default()));
    host.send_event(Event::PolicyPart(
        SiteRecords { config: floor, ..SiteRecords::default() },
        SitePart::default(),
    ));
    assert_eq!((host.state(id), host.engine.book().is_staging()), (Some(State::Priority), true));
    host.send_event(Event::PolicyCommit);
    assert_eq!(host.state(id), Some(State::Sched));
    assert_eq!(host.engine.book().config().zero_score, ZeroScore::Floor);
    host.send_event(Event::PolicyBegin { keeps_config: false });
    host.send_event(Event::PolicyAbort);
    assert!(!host.engine.book().is_staging());
}

#[test]
fn a_job_without_data_may_move_to_an_unknown_bank_without_a_log_line() {
    let mut host = Host::new();
    let id = host.submit(HostJob::new(7)).unwrap();
    host.force_update(id, None, Some("nowhere".to_owned()));
    assert_eq!(host.logged, Vec::<String>::new());
    let mut host = make_site(|_| ());
    let id = submit(&mut host, 1);
    host.force_update(id, None, Some("nowhere".to_owned()));
    assert_eq!(host.logged.len(), 1, "{:?}", host.logged);
}

#[test]
fn a_rejection_names_the_first_fault_whatever_the_size_of_the_job() {
    let mut engine = Engine::with_small_batches();
    let one_association = Association { active: false, ..association(7, "A") };
    engine.handle(NOW, Event::Associations(vec![record(one_association, "A")]));
    let job = HostJob::new(7);
    let facts = crate::engine::JobFacts {
        size: Err("resources have no core in a slot".to_owned()),
        ..Host::facts(ID, &job)
    };
    let effects = engine.handle(NOW, Event::Validate(facts));
    let [Effect::Reject(text)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(text, "user/bank entry has been disabled from flux-accounting DB");
}

#[test]
fn a_call_that_flux_refused_is_logged_unless_the_job_is_ending() {
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
        let (mut engine, _) = replay_job(State::Depend, |_| ());
        let what = format!("{effect:?}, {why:?}");
        let effects = engine.refused(effect, why);
        let text = match effects.as_slice() {
            [] => None,
            [Effect::Log(_, text)] => Some(text.as_str()),
            _ => panic!("{what}: {effects:?}"),
        };
        assert_eq!(text.is_some(), wanted.is_some(), "{what}: {text:?}");
        assert!(text.unwrap_or_default().contains(wanted.unwrap_or_default()), "{what}: {text:?}");
    }
}

#[test]
fn a_new_job_at_urgency_0_demands_no_headroom_to_run() {
    for (urgency, demand) in
        [(0, Demand::Resting), (1, Demand::ToRun), (16, Demand::ToRun), (31, Demand::ToRun)]
    {
        let (engine, _) = replay_job(State::Depend, |job| job.urgency = urgency);
        assert_eq!(engine.ledger().job(ID).unwrap().demand, demand, "{urgency}");
    }
}

#[test]
fn an_association_stores_the_queue_of_its_latest_job() {
    let mut host = make_site(|_| ());
    let association = host.engine.book().find(crate::ids::UserId(7), None).unwrap();
    let latest = |host: &Host| {
        host.engine.ledger().accounts().latest_queue(association).map(|queue| queue.as_str().to_owned())
    };
    assert_eq!(latest(&host), None);
    for queue in ["q1", "q2"] {
        host.submit(HostJob::new(7).queue(queue)).unwrap();
        assert_eq!(latest(&host).as_deref(), Some(queue));
    }
}

#[test]
fn the_engine_lists_users_whose_jobs_wait_for_a_push() {
    let mut host = Host::new();
    for user in [8, 7, 8] {
        host.submit(HostJob::new(user)).unwrap();
    }
    let waiting =
        |host: &Host| host.engine.ledger().waiting().keys().copied().map(|user| user.0).collect::<Vec<_>>();
    assert_eq!(waiting(&host), [7, 8]);
    host.send_event(Event::Associations(vec![record(association(7, "A"), "A")]));
    assert_eq!(waiting(&host), [8]);
}

/// Without strict running limits, the job has no reservation. With strict running limits, the job loses its
/// reservation when its urgency becomes 0.
#[test]
fn only_a_returned_reservation_starts_a_release_scan() {
    for (running, before, urgency, is_scanned) in [
        (RunningLimits::Upstream, 16, 0, false),
        (RunningLimits::Strict, 16, 0, true),
        (RunningLimits::Strict, 0, 16, false),
    ] {
        let mut host = make_site(|a| a.max_running_jobs = Limit(1));
        host.send_event(Event::Settings(running_limit_settings(running, &[])));
        let id = submit(&mut host, 1);
        host.set_urgency(id, before);
        let effects = answer_in_loop(&mut host.engine, id, urgency);
        assert_eq!(defers_work(&effects), is_scanned, "{running:?}: {before} to {urgency}");
    }
}

/// If the engine did not request a loop over all pending jobs, no event reports the end of the loop. So the engine
/// releases jobs in the next reactor turn.
#[test]
fn a_reprioritize_loop_of_flux_releases_no_job_before_the_next_reactor_turn() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let [first, held] = [(); 2].map(|()| submit(&mut host, 1));
    let is_released = |effects: &[Effect]| {
        has_effect(effects, |e| matches!(e, Effect::RemoveDependency(id, _) if *id == held))
    };
    let mut send = |event| host.engine.handle(NOW, event);
    assert_eq!(
        [(); 2].map(|()| defers_work(&send(Event::PriorityGet(first, 16)))),
        [true, false],
        "one request for the next turn"
    );
    assert!(!is_released(&send(Event::Run(first, Resources::None))));
    assert!(is_released(&send(Event::Timer(Timer::ReactorTurn))));
}

#[test]
fn moving_a_job_in_priority_to_a_full_queue_adds_no_dependency() {
    for state in [State::Depend, State::Sched] {
        let mut host = make_site(|_| ());
        host.send_event(Event::Queues(vec![queue("q1"), Queue { max_sched_jobs: Limit(0), ..queue("q2") }]));
        let job = HostJob::new(7).queue("q1");
        let job = if state == State::Depend { job.blocked_by("afterany:1") } else { job };
        let id = host.submit(job).unwrap();
        assert_eq!(host.state(id), Some(state));
        let mut moved_facts = host.jobs[&id].clone();
        moved_facts.queue = Some("q2".to_owned());
        moved_facts.state = if state == State::Sched { State::Priority } else { state };
        let effects = host.engine.handle(NOW, Event::Updated(Host::facts(id, &moved_facts)));
        let holds = has_effect(&effects, |effect| matches!(effect, Effect::AddDependency(..)));
        assert_eq!(holds, state == State::Depend, "{state:?}");
    }
}

/// The engine has released the job, but Flux has not removed the job's dependency yet.
#[test]
fn a_job_that_is_being_released_gets_no_dependency_when_its_queue_changes() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let first_job = submit(&mut host, 1);
    let held = host.submit(HostJob::new(7).queue("q1")).unwrap();
    host.jobs.remove(&first_job);
    let effects = host.engine.handle(NOW, Event::Inactive(first_job));
    assert!(has_effect(&effects, |effect| matches!(effect, Effect::RemoveDependency(id, _) if *id == held)));
    let mut moved_facts = host.jobs[&held].clone();
    moved_facts.queue = Some("q2".to_owned());
    let effects = host.engine.handle(NOW, Event::Updated(Host::facts(held, &moved_facts)));
    assert!(!has_effect(&effects, |effect| matches!(effect, Effect::AddDependency(..))));
}

#[test]
fn an_unchanged_annotation_is_not_posted_again() {
    let mut host = make_site(|_| ());
    host.send_event(Event::Settings(Settings { annotate: true, ..Settings::default() }));
    let id = submit(&mut host, 1);
    let notes = |host: &mut Host, urgency| {
        let effects = host.engine.handle(NOW, Event::PriorityGet(id, urgency));
        effects.iter().filter(|effect| matches!(effect, Effect::Annotate(..))).count()
    };
    // The push makes the engine compute the priority again, with the same result.
    host.send_event(Event::Associations(vec![record(association(7, "A"), "A")]));
    assert_eq!(notes(&mut host, 16), 0);
    assert_eq!(notes(&mut host, 17), 0, "another priority, and the same fair-share");
}
