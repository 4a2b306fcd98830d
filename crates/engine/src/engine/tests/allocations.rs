// SPDX-License-Identifier: LGPL-3.0-only
//! The allocation of a job, which the ledger stores next to the requested size, and the times of its start and end.

use super::examples::{assert_no_drift, make_site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, OWNER, association, make_engine_with_associations, record};
use crate::engine::answers::{AssociationFilter, Open};
use crate::engine::updates::find_bank_added_to_jobspec;
use crate::engine::{Effect, Engine, Event, JobFacts, Past, State, Timer, answers};
use crate::ids::{JobId, Limit, UserId};
use crate::limits::{Allocation, Phase, Project, Resources};

fn allocation_of(host: &Host, id: JobId) -> Option<Allocation> {
    host.engine.ledger().job(id).and_then(|job| job.allocation.as_deref().copied())
}

/// An allocation that is larger than any request of these tests.
const LARGE_ALLOCATION: Allocation =
    Allocation { nodes: 4, cores: 64, gpus: 8, start: Some(NOW), expiration: Some(NOW + 60.0) };

#[test]
fn a_job_with_a_larger_allocation_counts_with_its_requested_size() {
    let mut host = make_site(|a| a.max_nodes = Limit(2));
    let id = submit(&mut host, 1);
    assert_eq!(allocation_of(&host, id), None);
    host.engine.handle(NOW, Event::Run(id, Resources::Allocated(LARGE_ALLOCATION)));
    assert_eq!(allocation_of(&host, id), Some(LARGE_ALLOCATION));
    let next_job = submit(&mut host, 1);
    assert!(host.names(next_job).is_empty(), "one node of two is taken");
    assert_no_drift(&host);
}

#[test]
fn a_job_without_a_start_in_r_starts_at_its_run_event() {
    let mut host = make_site(|_| ());
    let id = submit(&mut host, 1);
    let without_start = Allocation { start: None, ..LARGE_ALLOCATION };
    host.engine.handle(NOW + 7.5, Event::Run(id, Resources::Allocated(without_start)));
    assert_eq!(allocation_of(&host, id).unwrap().start, Some(NOW + 7.5));
}

#[test]
fn an_unreadable_r_is_logged_and_the_job_counts_as_running() {
    let unreadable = || Resources::Unreadable("a rank is named twice".to_owned());
    for (resources, text) in [(unreadable(), "a rank is named twice"), (Resources::None, "there is none")] {
        let mut host = make_site(|_| ());
        let id = submit(&mut host, 1);
        let effects = host.engine.handle(NOW, Event::Run(id, resources));
        let wanted = format!("job {id}: unable to read its R ({text})");
        assert!(matches!(effects.as_slice(), [Effect::Log(_, shown), ..] if *shown == wanted), "{effects:?}");
        let running = answers::check(&host.engine.view()).running;
        assert_eq!((allocation_of(&host, id), running.jobs, running.unread), (None, 1, 1));
        assert_no_drift(&host);
    }
}

#[test]
fn a_replay_restores_the_allocation_of_a_running_job() {
    for is_reload in [true, false] {
        let mut host = make_site(|_| ());
        let id = host.run_new_job(HostJob::new(7).size(2, 8));
        let before = (allocation_of(&host, id), answers::check(&host.engine.view()).running);
        assert_eq!(before.0.unwrap().start, host.jobs[&id].started);
        assert_eq!(before.1.submitted, Some(host.jobs[&id].submitted));
        let shown = (before.1.nodes, before.1.cores, before.1.gpus, before.1.since);
        assert_eq!(shown, (2, 8, 0, host.jobs[&id].started));
        host.now += 1_000.0;
        host.replay_jobs(is_reload, make_engine_with_associations(vec![record(association(7, "A"), "A")]));
        assert_eq!(
            (allocation_of(&host, id), answers::check(&host.engine.view()).running),
            before,
            "reload {is_reload}"
        );
        host.end_job(id);
        assert_eq!(answers::check(&host.engine.view()).running.jobs, 0);
    }
}

#[test]
fn the_allocations_of_all_running_jobs_are_summed() {
    let mut host = make_site(|_| ());
    for (at, given) in
        [(9.0, LARGE_ALLOCATION), (2.0, Allocation { nodes: 1, cores: 2, gpus: 3, ..LARGE_ALLOCATION })]
    {
        let id = submit(&mut host, 1);
        let given = Allocation { start: Some(NOW + at), ..given };
        host.engine.handle(NOW + at, Event::Run(id, Resources::Allocated(given)));
    }
    let running = answers::check(&host.engine.view()).running;
    let shown = (running.jobs, running.nodes, running.cores, running.gpus, running.since);
    assert_eq!(shown, (2, 5, 66, 11, Some(NOW + 2.0)));
    let wanted =
        AssociationFilter { user: Some(UserId(7)), bank: None, after: None, most: 9, open: Open::Own };
    let page = answers::standings(&host.engine.view(), &wanted, host.now);
    let shown = page.associations.iter().map(|it| (it.jobs.running, it.jobs.nodes, it.jobs.cores));
    assert_eq!(shown.collect::<Vec<_>>(), [(2, 5, 66)], "the requests are smaller");
}

/// `why` predicts releases from the time limits of running jobs, so an update must change the stored time
/// limit.
#[test]
fn a_job_has_the_time_limit_of_its_last_update() {
    let mut host = make_site(|_| ());
    let id = submit(&mut host, 1);
    let longer = HostJob { duration: 7_200.0, ..host.jobs[&id].clone() };
    host.engine.handle(NOW, Event::Updated(Host::facts(id, &longer)));
    assert_eq!(host.engine.ledger().job(id).unwrap().time_limit(), Some(7_200.0));
}

/// The plugin adds the missing bank and project to a jobspec, and Flux reports this as an update. The engine
/// must recognize the update and not admit the job a second time.
#[test]
fn the_engine_recognizes_the_update_that_completes_a_jobspec() {
    let mut engine = Engine::with_small_batches();
    let of_a = association(7, "A");
    let project = of_a.def_project.as_ref().map(ToString::to_string);
    assert!(project.is_some());
    engine.handle(NOW, Event::Associations(vec![record(of_a, "A"), record(association(7, "B"), "A")]));
    let (id, submitted) = (JobId(1), HostJob { state: State::New, ..HostJob::new(7) });
    engine.handle(NOW, Event::Validate(Host::facts(id, &submitted)));
    let effects = engine.handle(NOW, Event::New(Host::facts(id, &submitted)));
    assert!(matches!(effects.as_slice(), [Effect::SetJobspec { bank: Some(_), project: Some(_), .. }]));
    let completed = HostJob { project, ..submitted.clone().bank("A") };
    for other in [
        submitted.clone(),
        completed.clone().bank("B"),
        completed.clone().queue("q"),
        completed.clone().size(2, 2),
        HostJob { duration: 7.0, ..completed.clone() },
        HostJob { project: None, ..completed.clone() },
    ] {
        assert_eq!(find_bank_added_to_jobspec(&engine.view(), &Host::facts(id, &other)), None, "{other:?}");
    }
    engine.handle(NOW, Event::Updated(Host::facts(id, &completed)));
    let job = engine.ledger().job(id).unwrap();
    assert_eq!((job.bank.as_deref(), &job.project), (Some("A"), &Project::Checked));
    let bank_of_repeat =
        |engine: &Engine| find_bank_added_to_jobspec(&engine.view(), &Host::facts(id, &completed));
    assert_eq!(bank_of_repeat(&engine), Some("A".into()));
    engine.handle(NOW, Event::Depend(id));
    assert_eq!(bank_of_repeat(&engine), None, "only for a job in NEW");
}

/// Replays a job in `state` with `resources` to an engine that has the job's association. Returns the engine, the id of
/// the job, and the effects.
fn replay_job(state: State, resources: Resources) -> (Engine, JobId, Vec<Effect>) {
    let mut engine = make_engine_with_associations(vec![record(association(7, "A"), "A")]);
    let (id, job) = (JobId(1), HostJob { state, ..HostJob::new(7) });
    let facts = JobFacts { resources, duration: 0.0, ..Host::facts(id, &job) };
    let effects = engine.handle(NOW, Event::New(facts));
    (engine, id, effects)
}

/// R of a job that bypassed the scheduler may have the start time 0, which the plugin passes on as `None`.
#[test]
fn the_eventlog_gives_the_start_of_a_replayed_job_without_a_start_in_r() {
    let start = |engine: &Engine, id| engine.ledger().job(id).unwrap().allocation.as_ref().unwrap().start;
    let without_start = || Resources::Allocated(Allocation { start: None, ..LARGE_ALLOCATION });
    for (past, wanted) in [(Some(vec![(NOW - 900.0, Past::Allocated)]), NOW - 900.0), (None, NOW + 1.0)] {
        let (mut engine, id, effects) = replay_job(State::Run, without_start());
        assert!(
            effects.iter().any(|it| matches!(it, Effect::ReadEventlog(read) if *read == id)),
            "{effects:?}"
        );
        assert_eq!(answers::check(&engine.view()).running.since, None);
        let is_read = past.is_some();
        past.into_iter().for_each(|past| drop(engine.handle(NOW + 1.0, Event::Past(id, past))));
        engine.handle(NOW + 1.0, Event::Eventlog(id, is_read.then(Vec::new)));
        assert_eq!(start(&engine, id), Some(wanted), "eventlog {is_read}");
        // If the start of the job is known, an event of the eventlog does not change it.
        engine.handle(NOW + 2.0, Event::Past(id, vec![(NOW - 1.0, Past::Allocated)]));
        assert_eq!(start(&engine, id), Some(wanted), "eventlog {is_read}");
    }
    let (_, _, effects) = replay_job(State::Run, Resources::Allocated(LARGE_ALLOCATION));
    assert!(!effects.iter().any(|it| matches!(it, Effect::ReadEventlog(_))), "{effects:?}");
}

/// The scheduler allocated resources while the job was in PRIORITY. The job starts as soon as it gets a priority.
#[test]
fn a_replayed_job_in_priority_that_has_its_resources_counts_as_running_and_gets_a_priority() {
    let (mut engine, id, _) = replay_job(State::Priority, Resources::Allocated(LARGE_ALLOCATION));
    let phase = |engine: &Engine| engine.ledger().job(id).unwrap().phase;
    assert_eq!((phase(&engine), answers::check(&engine.view()).running.jobs), (Phase::Run, 1));
    let effects = engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    assert!(effects.iter().any(|it| matches!(it, Effect::ReprioritizeAll)), "{effects:?}");
    let effects = engine.handle(NOW, Event::PriorityGet(id, 16));
    assert!(effects.iter().any(|it| matches!(it, Effect::SetPriority(_))), "{effects:?}");
    // Flux leaves a job in PRIORITY if its priority does not change.
    let effects = engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    assert!(effects.iter().any(|it| matches!(it, Effect::AskUrgency(_))), "{effects:?}");
    let effects = engine.handle(NOW, Event::Urgency(id, 16));
    assert!(effects.iter().any(|it| matches!(it, Effect::Prioritize(..))), "{effects:?}");
    engine.handle(NOW, Event::Sched(id));
    assert_eq!(phase(&engine), Phase::Run);
    engine.handle(NOW, Event::Cleanup(id));
    engine.handle(NOW, Event::Inactive(id));
    assert_eq!(
        (answers::check(&engine.view()).running.jobs, answers::check(&engine.view()).drift),
        (0, Vec::new())
    );
}

/// When the expiration of the instance changes, Flux also changes the expiration of each running job without
/// a time limit. Flux reports this change only to plugins that are subscribed to the job, so the engine
/// subscribes to one of these jobs.
#[test]
fn expirations_of_running_jobs_follow_the_expiration_of_the_instance() {
    let mut host = make_site(|_| ());
    let ids: Vec<JobId> = (0..4).map(|_| submit(&mut host, 1)).collect();
    let (limited, [first_job, second, third]) = (ids[3], [ids[0], ids[1], ids[2]]);
    for id in &ids {
        let job = host.jobs.get_mut(id).unwrap();
        job.duration = if *id == limited { 60.0 } else { 0.0 };
        let job = job.clone();
        host.engine.handle(NOW, Event::Updated(Host::facts(*id, &job)));
    }
    ids.iter().for_each(|id| host.start_job(*id));
    assert_eq!(host.subscribed.iter().collect::<Vec<_>>(), [&first_job]);
    let end = |host: &Host, id| allocation_of(host, id).unwrap().expiration;
    let extend = |host: &mut Host, limit: f64| {
        host.jobs.values_mut().filter(|job| job.duration == 0.0).for_each(|job| job.limit = Some(limit));
        host.send_event(Event::ResourcesUpdated);
    };
    extend(&mut host, 3600.0);
    let after = |host: &Host, id, limit: f64| host.jobs[&id].started.map(|start| start + limit);
    for id in [first_job, second, third] {
        assert_eq!(end(&host, id), after(&host, id, 3600.0));
    }
    let before = end(&host, limited);
    // When the subscribed job ends or gets a time limit of its own, the engine subscribes to another job.
    host.end_job(first_job);
    assert_eq!(host.subscribed.iter().collect::<Vec<_>>(), [&second]);
    let longer = HostJob { duration: 7200.0, ..host.jobs[&second].clone() };
    host.jobs.insert(second, longer.clone());
    let effects = host.engine.handle(NOW, Event::Updated(Host::facts(second, &longer)));
    host.apply_effects(effects);
    assert_eq!(host.subscribed.iter().collect::<Vec<_>>(), [&third]);
    extend(&mut host, 9000.0);
    assert_eq!(end(&host, second), after(&host, second, 7200.0));
    assert_eq!(end(&host, third), after(&host, third, 9000.0));
    assert_eq!(end(&host, limited), before);
    // After a reload, the engine subscribes to a running job again.
    host.subscribed.clear();
    host.replay_jobs(true, make_engine_with_associations(vec![record(association(7, "A"), "A")]));
    assert_eq!(host.subscribed.iter().collect::<Vec<_>>(), [&third]);
    ids.iter().for_each(|id| host.end_job(*id));
    assert!(host.subscribed.is_empty() && host.engine.count_stored_jobs().is_empty());
}

#[test]
fn the_wait_for_the_owners_record_starts_at_the_first_reprioritize_without_it() {
    let mut host = Host::new();
    let [one, other] = [0, 1].map(|_| host.submit(HostJob::new(OWNER.0).bank("nowhere")).unwrap());
    host.push(vec![record(association(OWNER.0, "A"), "A")]);
    host.now += 3.0;
    host.send_event(Event::Reprioritize);
    host.now += 2.0;
    let effects = host.engine.handle(host.now, Event::Timer(Timer::Retry));
    host.apply_effects(effects);
    assert_eq!(host.states([one, other]), [None, None]);
}
