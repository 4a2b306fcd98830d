// SPDX-License-Identifier: LGPL-3.0-only
//! Tests work that the engine defers to a later reactor turn, because Flux's loop runs or a push has not ended. Also
//! tests work that the engine must do only once.

use super::examples::{assert_no_drift, make_host_with_held_jobs, make_site, submit};
use super::host::Host;
use super::live::{accounts, leaf, tree};
use super::site::{
    HostJob, NOW, OWNER, association, make_engine_with_associations, make_record_with_one_job_limit, queue,
    record,
};
use crate::accounts::{Association, AssociationRecord, Queue};
use crate::engine::step::Step;
use crate::engine::{Effect, Engine, Event, Settings, State, Timer};
use crate::ids::{JobId, Limit, UserId};
use crate::limits::Candidates;
use State::{Depend, Priority, Sched};
use fairshare::Policy;

fn released_jobs(effects: &[Effect]) -> Vec<JobId> {
    effects
        .iter()
        .filter_map(|it| if let Effect::RemoveDependency(id, _) = it { Some(*id) } else { None })
        .collect()
}

fn run_reactor_turn(host: &mut Host) -> Vec<Effect> {
    host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn))
}

/// A job that ends during Flux's loop over all jobs frees headroom. The engine must release no job within the loop,
/// because this would move Flux's cursor.
#[test]
fn a_job_end_releases_no_job_during_flux_reprioritization() {
    let (mut host, running, [held]) = make_host_with_held_jobs();
    host.engine.execute_step(Step::LoopBegins);
    let mut effects = host.engine.handle(NOW, Event::Cleanup(running));
    effects.extend(host.engine.handle(NOW, Event::Inactive(running)));
    assert_eq!(released_jobs(&effects), []);
    host.engine.execute_step(Step::LoopEnded);
    assert_eq!(released_jobs(&run_reactor_turn(&mut host)), [held]);
}

#[test]
fn a_scan_of_all_associations_releases_no_job_during_flux_reprioritization() {
    let mut host = Host::with_data(
        vec![make_record_with_one_job_limit(7, "A"), make_record_with_one_job_limit(8, "A")],
        vec![],
    );
    let held = [7, 8].map(|user| {
        host.run_new_job(HostJob::new(user));
        host.submit(HostJob::new(user)).unwrap()
    });
    for user in [7, 8] {
        let event = Event::Associations(vec![record(association(user, "A"), "A")]);
        host.oracle.apply_event(&event);
        host.engine.handle(NOW, event);
    }
    host.engine.execute_step(Step::LoopBegins);
    let effects = host.engine.execute_step(Step::ScanAllHeld);
    assert_eq!(released_jobs(&effects), []);
    assert!(!effects.iter().any(|it| matches!(it, Effect::Then(Step::Scan(_)))), "{effects:?}");
    host.engine.execute_step(Step::LoopEnded);
    let effects = run_reactor_turn(&mut host);
    host.apply_effects(effects);
    host.run_until_idle();
    assert_eq!(host.states(held), [Some(Sched); 2]);
    assert_no_drift(&host);
}

/// When Flux first reports the job in PRIORITY, there is no limit. When Flux reports it again, a push has set a
/// limit, but the engine must not check it.
#[test]
fn a_job_in_priority_is_not_checked_again_if_flux_reports_priority_again() {
    let mut host = make_site(|_| ());
    let job = HostJob { bank: Some("A".to_owned()), project: Some("*".to_owned()), ..HostJob::new(7) };
    let id = JobId(77);
    host.engine.handle(NOW, Event::Created { id, state: State::New, has_dependencies: false });
    host.engine.handle(NOW, Event::Validate(Host::facts(id, &job)));
    host.engine.handle(NOW, Event::New(Host::facts(id, &job)));
    host.engine.handle(NOW, Event::Depend(id));
    let has_priority = |effects: &[Effect]| effects.iter().any(|it| matches!(it, Effect::SetPriority(_)));
    assert!(has_priority(&host.engine.handle(NOW, Event::Priority(id, 16))));
    host.engine.handle(NOW, Event::Associations(vec![make_record_with_one_job_limit(7, "A")]));
    assert!(has_priority(&host.engine.handle(NOW, Event::Priority(id, 16))));
}

/// A push by flux-accounting ends with the record of the instance owner, which comes after the reprioritize. If other
/// records follow, the owner's record does not end the push.
#[test]
fn an_owners_record_at_the_beginning_of_a_push_does_not_end_the_push() {
    let records =
        || vec![make_record_with_one_job_limit(OWNER.0, "A"), make_record_with_one_job_limit(8, "A")];
    let mut host = Host::with_data(records(), vec![]);
    let running_job = host.run_new_job(HostJob::new(OWNER.0));
    let held_job = host.submit(HostJob::new(OWNER.0)).unwrap();
    host.replay_jobs(true, Engine::with_small_batches());
    host.send_event(Event::Associations(vec![make_record_with_one_job_limit(OWNER.0, "A")]));
    host.send_event(Event::Associations(vec![make_record_with_one_job_limit(8, "A")]));
    host.send_event(Event::Associations(vec![make_record_with_one_job_limit(8, "A")]));
    host.end_job(running_job);
    assert_eq!(host.state(held_job), Some(Depend), "the push has not ended");
    host.send_event(Event::Reprioritize);
    assert_eq!(host.state(held_job), Some(Sched));
    assert_no_drift(&host);
}

#[test]
fn an_eventlog_is_read_once() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(2));
    let sched_job = submit(&mut host, 1);
    host.requested_reads = 0;
    host.replay_jobs(true, make_engine_with_associations(vec![make_record_with_one_job_limit(7, "A")]));
    assert_eq!((host.state(sched_job), host.requested_reads), (Some(Sched), 1), "a limit is in reach");
    submit(&mut host, 1);
    host.send_event(Event::Reprioritize);
    assert_eq!(host.requested_reads, 1);
}

/// Flux searches the list of all subscriptions when one ends, so the plugin keeps the list short.
#[test]
fn the_plugin_does_not_subscribe_to_a_job_that_only_the_plugin_holds_after_a_reload() {
    let (mut host, _, [held_job]) = make_host_with_held_jobs();
    host.replay_jobs(true, make_engine_with_associations(vec![make_record_with_one_job_limit(7, "A")]));
    assert_eq!((host.state(held_job), host.subscribed.len()), (Some(Depend), 0));
}

/// The answer to another request may come between two slices of the comparison, and must not end it.
#[test]
fn a_comparison_with_flux_ends_when_all_jobs_were_looked_up() {
    let mut host = make_site(|_| ());
    let ids: Vec<JobId> = (0..260).map(|_| submit(&mut host, 1)).collect();
    host.engine.handle(NOW, Event::Panicked(None));
    for slice in 0..2 {
        run_reactor_turn(&mut host);
        host.engine.handle(NOW, Event::Eventlog(ids[0], None));
        assert!(host.engine.view().needs_comparison(), "after slice {slice}");
    }
}

/// A job in DEPEND may move to a full queue, where a limit then holds the job. A job in a later state may not move to a full queue.
#[test]
fn a_job_in_depend_may_move_to_a_full_queue() {
    let full_queue = Queue { max_sched_jobs: Limit(1), ..queue("q2") };
    let records = vec![record(association(7, "A"), "A"), record(association(7, "B"), "A")];
    let mut host = Host::with_data(records, vec![queue("q1"), full_queue]);
    host.submit(HostJob::new(7).bank("B").queue("q2")).unwrap();
    let id = host.submit(HostJob::new(7).queue("q1").blocked_by("afterany:1")).unwrap();
    assert_eq!(host.update_job(id, Some("q2"), Some("B")), Ok(()));
    assert_eq!(host.names(id), ["afterany:1", "max-sched-jobs-queue-limit"]);
    assert_no_drift(&host);
}

/// After an update Flux itself asks for the priority, so the engine need not look up the urgency.
#[test]
fn a_job_update_in_priority_causes_no_lookup_of_the_urgency() {
    let (mut host, _, []) = make_host_with_held_jobs();
    let job = HostJob {
        bank: Some("A".to_owned()),
        project: Some("*".to_owned()),
        state: Priority,
        ..HostJob::new(7).queue("q1")
    };
    let id = JobId(77);
    host.engine.handle(NOW, Event::New(Host::facts(id, &job)));
    run_reactor_turn(&mut host);
    host.engine.handle(NOW, Event::Updated(Host::facts(id, &job.queue("q2"))));
    let effects = run_reactor_turn(&mut host);
    assert!(!effects.iter().any(|it| matches!(it, Effect::AskUrgency(_))), "{effects:?}");
}

/// While live fair-share is off, priorities come from pushed fair-shares, which have another scale. When live
/// fair-share is switched on, the engine must post all priorities again.
#[test]
fn all_priorities_are_posted_again_when_live_fair_share_is_enabled() {
    let mut host = Host::new();
    let leaves = vec![leaf(7, "A", 100.0, 0.0), leaf(8, "A", 300.0, 0.0)];
    host.send_event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves)));
    let ids = [7, 8].map(|user| host.submit(HostJob::new(user)).unwrap());
    host.advance_time_and_refresh(30.0);
    let live = |live| Event::Settings(Settings { live, ..Settings::default() });
    host.send_event(live(false));
    let pushed = [(7, 0.4), (8, 0.1)];
    let records = pushed
        .map(|(user, fairshare)| AssociationRecord { fairshare, ..record(association(user, "A"), "A") });
    host.push(records.into());
    assert_eq!(ids.map(|id| host.jobs[&id].priority), [Some(40_000), Some(10_000)]);
    host.send_event(live(true));
    host.advance_time_and_refresh(30.0);
    for id in ids {
        let priorities = host.engine.view().priorities_of(id).unwrap();
        assert_eq!(Some(i64::from(priorities.exact.priority)), host.jobs[&id].priority, "job {id}");
        assert_ne!(host.jobs[&id].priority, Some(40_000));
    }
}

/// Flux has not moved the released job yet. When the job is cancelled, its reservation must end at once.
#[test]
fn a_job_cancelled_just_after_its_release_frees_its_headroom() {
    let (mut host, running, [first, second]) = make_host_with_held_jobs();
    assert_eq!(released_jobs(&host.engine.handle(NOW, Event::Inactive(running))), [first]);
    host.engine.handle(NOW, Event::Cleanup(first));
    assert_eq!(released_jobs(&run_reactor_turn(&mut host)), [second]);
}

/// The engine checks the job's limits when it has read the job's eventlog. When the plugin that blocks the job
/// unblocks it, the job goes to SCHED at once.
#[test]
fn a_replayed_job_that_was_checked_is_not_checked_again() {
    let mut host = make_site(|_| ());
    let id = host.submit(HostJob::new(7).blocked_by("afterany:1")).unwrap();
    host.replay_jobs(true, Engine::with_small_batches());
    host.push(vec![record(association(7, "A"), "A")]);
    host.remove_dependency(id, "afterany:1");
    assert_eq!(host.state(id), Some(Sched));
}

/// An update of the jobspec sends a job in SCHED back to PRIORITY. So the engine must not update the jobspec
/// while Flux asks for the job's priority.
#[test]
fn missing_jobspec_keys_are_not_set_while_flux_asks_for_a_priority() {
    let posts =
        |effects: &[Effect]| effects.iter().filter(|it| matches!(it, Effect::SetJobspec { .. })).count();
    let mut engine = Engine::with_small_batches();
    let id = JobId(77);
    let job = HostJob { state: Sched, priority: Some(16), ..HostJob::new(7) };
    engine.handle(NOW, Event::New(Host::facts(id, &job)));
    engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    engine.handle(NOW, Event::Associations(vec![record(association(7, "A"), "A")]));
    engine.execute_step(Step::LoopBegins);
    let effects_of_request = engine.handle(NOW, Event::PriorityGet(id, 16));
    engine.execute_step(Step::LoopEnded);
    assert_eq!(posts(&effects_of_request), 0, "{effects_of_request:?}");
    assert_eq!(posts(&engine.handle(NOW, Event::Timer(Timer::ReactorTurn))), 1);
}

#[test]
fn a_lowered_limit_does_not_cause_another_read_of_an_eventlog() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(2));
    let ids = [(); 2].map(|()| submit(&mut host, 1));
    let accounts = |running| {
        let one = Association { max_running_jobs: Limit(running), ..association(7, "A") };
        Event::Associations(vec![record(one, "A")])
    };
    let mut engine = Engine::with_small_batches();
    engine.handle(NOW, accounts(1));
    host.requested_reads = 0;
    host.replay_jobs(true, engine);
    assert_eq!((host.requested_reads, host.states(ids)), (2, [Some(Sched); 2]));
    for running in [9, 1] {
        host.send_event(accounts(running));
        host.send_event(Event::Reprioritize);
    }
    submit(&mut host, 1);
    assert_eq!(host.requested_reads, 2);
}

/// An epilog or another plugin may keep the job in CLEANUP. It then counts like a job that ran.
#[test]
fn a_job_that_is_cancelled_in_sched_counts_until_it_is_inactive() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let first_job = submit(&mut host, 1);
    let held_job = submit(&mut host, 1);
    assert_eq!((host.state(first_job), host.state(held_job)), (Some(Sched), Some(Depend)));
    host.engine.handle(NOW, Event::Cleanup(first_job));
    let effects = run_reactor_turn(&mut host);
    assert_eq!(released_jobs(&effects), []);
    assert_eq!(released_jobs(&host.engine.handle(NOW, Event::Inactive(first_job))), [held_job]);
}

/// A scan of all held jobs is larger than a scan of only the unblocked held jobs.
#[test]
fn a_deferred_scan_of_all_jobs_replaces_one_of_unblocked_jobs() {
    let host = make_site(|_| ());
    let id = host.engine.book().find(UserId(7), None).unwrap();
    for lines in [[Candidates::Unblocked, Candidates::All], [Candidates::All, Candidates::Unblocked]] {
        let mut engine = host.engine.clone();
        lines.iter().for_each(|line| drop(engine.due.schedule_scan(id, *line)));
        assert_eq!(engine.due.take_scans_for_reactor_turn()[&id], Candidates::All, "{lines:?}");
    }
}
