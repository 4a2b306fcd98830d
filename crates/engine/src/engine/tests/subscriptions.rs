// SPDX-License-Identifier: LGPL-3.0-only
//! The plugin subscribes to few jobs at a time, because Flux searches all subscriptions of a plugin when one of them
//! ends. No event reports when another plugin unblocks an unsubscribed job. Unsubscribed jobs must exceed no limit,
//! and none of them may stay held without a reason.
//! Rules: R11

use super::examples::{assert_no_drift, make_site, submit};
use super::host::Host;
use super::past_depend::list_states;
use super::site::{HostJob, NOW, association, make_engine_with_associations, queue, record};
use super::why::explain_job;
use crate::accounts::Association;
use crate::engine::tests::FEW;
use crate::engine::{Effect, Event, Refusal, Settings, State};
use crate::ids::{JobId, Limit};
use crate::limits::{BlockState, Reservation};
use State::{Depend, Priority, Sched};

const AFTER: &str = "afterany:1";

fn submit_dependent(host: &mut Host) -> JobId {
    host.submit(HostJob::new(7).blocked_by(AFTER)).unwrap()
}

/// Returns a host that has used all subscriptions for jobs whose dependencies are never satisfied.
fn use_all_subscriptions(change: impl FnOnce(&mut Association)) -> Host {
    let mut host = make_site(change);
    for _ in 0..FEW.subscribed {
        host.submit(HostJob::new(7).blocked_by("begin-time=9999999999")).unwrap();
    }
    assert_eq!(host.subscribed.len(), FEW.subscribed);
    host
}

/// Removes the dependencies of `jobs` in one reactor turn, and checks the counters.
fn satisfy_dependencies(host: &mut Host, jobs: &[JobId]) {
    jobs.iter().for_each(|id| host.remove_dependency(*id, AFTER));
    host.run_until_idle();
    assert_no_drift(host);
    host.oracle.check_no_job_is_stranded(&host.jobs);
}

#[test]
fn an_unsubscribed_job_is_held_in_priority_if_it_exceeds_a_limit_when_another_plugin_releases_it() {
    for is_declared in [true, false] {
        let mut host = use_all_subscriptions(|a| a.max_sched_jobs = Limit(1));
        let job = HostJob { has_declared_dependencies: is_declared, ..HostJob::new(7).blocked_by(AFTER) };
        let blocked_job = host.submit(job).unwrap();
        assert!(!host.subscribed.contains(&blocked_job));
        let first_job = submit(&mut host, 1);
        assert_eq!(
            (list_states(&host, &[blocked_job, first_job]), host.names(blocked_job)),
            (vec![Depend, Sched], vec![AFTER.into()])
        );
        satisfy_dependencies(&mut host, &[blocked_job]);
        assert_eq!(
            list_states(&host, &[blocked_job, first_job]),
            [Priority, Sched],
            "declared: {is_declared}"
        );
        host.start_job(first_job);
        assert_eq!(host.state(blocked_job), Some(Sched));
        assert_no_drift(&host);
    }
}

/// The limit is full when the job is submitted. The plugin adds no dependency, because no event would report when to remove it.
#[test]
fn an_unsubscribed_job_gets_no_dependency_and_goes_to_sched_if_there_is_headroom() {
    let mut host = use_all_subscriptions(|a| a.max_sched_jobs = Limit(1));
    let first_job = submit(&mut host, 1);
    let blocked_job = submit_dependent(&mut host);
    assert_eq!(host.names(blocked_job), [AFTER]);
    host.start_job(first_job);
    satisfy_dependencies(&mut host, &[blocked_job]);
    assert_eq!(host.state(blocked_job), Some(Sched));
    // If an unsubscribed job moves to a full queue, the plugin adds no dependency to the job either.
    let full_queue = crate::accounts::Queue { max_sched_jobs: Limit(0), ..queue("q2") };
    host.send_event(Event::Queues(vec![queue("q1"), full_queue]));
    let moved_job = submit_dependent(&mut host);
    host.update_job(moved_job, Some("q2"), None).unwrap();
    assert_eq!(host.names(moved_job), [AFTER]);
    satisfy_dependencies(&mut host, &[moved_job]);
    assert_eq!(host.state(moved_job), Some(Priority));
    host.end_job(moved_job);
    assert_eq!(host.state(moved_job), None);
}

#[test]
fn many_dependents_of_one_job_are_released_one_at_a_time() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let jobs: Vec<JobId> = (0..FEW.subscribed + 4).map(|_| submit_dependent(&mut host)).collect();
    assert_eq!(host.subscribed.len(), FEW.subscribed);
    satisfy_dependencies(&mut host, &jobs);
    for id in &jobs {
        assert_eq!(
            (host.state(*id), host.count_jobs(7, "A", Sched)),
            (Some(Sched), 1),
            "job {id}: in the order of ids"
        );
        host.start_job(*id);
    }
    assert!(host.subscribed.is_empty());
    assert_no_drift(&host);
}

#[test]
fn the_plugin_subscribes_to_a_new_job_when_another_subscription_has_ended() {
    let mut host = use_all_subscriptions(|_| ());
    let beyond_job = submit_dependent(&mut host);
    let watched_job = *host.subscribed.first().unwrap();
    host.end_job(watched_job);
    let next = submit_dependent(&mut host);
    assert!(host.subscribed.contains(&next) && !host.subscribed.contains(&beyond_job));
    // The jobs below are cancelled, rejected or released. The model host fails if the plugin ends a subscription that does not exist.
    host.end_job(beyond_job);
    let refused = HostJob { bank: Some("unknown".into()), ..HostJob::new(7).blocked_by(AFTER) };
    assert!(host.submit(refused).is_err());
    let jobs: Vec<JobId> = host.jobs.keys().copied().collect();
    jobs.into_iter().for_each(|id| host.end_job(id));
    assert_eq!(host.engine.count_stored_jobs(), []);
}

#[test]
fn the_explanation_of_an_unsubscribed_job_is_correct() {
    let mut host = use_all_subscriptions(|a| a.max_sched_jobs = Limit(1));
    let first_job = submit(&mut host, 1);
    let blocked_job = submit_dependent(&mut host);
    let outcome = explain_job(&host, blocked_job);
    let others: Vec<_> = outcome.others.iter().map(|it| (it.cause.as_ref(), it.name.clone())).collect();
    assert_eq!(others, [("dependency", None)], "{:?}", outcome.others);
    assert_eq!(
        (outcome.is_held, outcome.holds.len(), outcome.release.reason.code.as_ref()),
        (false, 0, "free")
    );
    assert!(outcome.others[0].text.contains("the name of the dependency is unknown"));
    satisfy_dependencies(&mut host, &[blocked_job]);
    let outcome = explain_job(&host, blocked_job);
    let holds: Vec<&str> = outcome.holds.iter().map(|hold| hold.limit.as_ref()).collect();
    assert_eq!((outcome.is_held, holds, outcome.others.len()), (true, vec!["max-sched-jobs-user-limit"], 0));
    host.start_job(first_job);
    assert_eq!(host.state(blocked_job), Some(Sched));
}

#[test]
fn an_unsubscribed_job_does_not_age_while_another_plugin_blocks_it() {
    for is_declared in [true, false] {
        let mut host = use_all_subscriptions(|_| ());
        host.send_event(Event::Settings(Settings { age_weight: 1_000, ..Settings::default() }));
        let blocked = host
            .submit(HostJob { has_declared_dependencies: is_declared, ..HostJob::new(7).blocked_by(AFTER) })
            .unwrap();
        let age = |host: &Host| host.engine.ledger().job(blocked).unwrap().eligible.seconds(host.now);
        host.now += 1_000.0;
        assert!(age(&host) < 1.0, "{is_declared}: {}", age(&host));
        satisfy_dependencies(&mut host, &[blocked]);
        host.now += 1_000.0;
        assert!((1_000.0..1_001.0).contains(&age(&host)), "{is_declared}: {}", age(&host));
    }
}

/// The plugin added dependencies to these jobs before the reload. Afterwards it cannot subscribe to all of them. The
/// engine handles a job without a subscription as if no other plugin blocked the job.
#[test]
fn an_unsubscribed_held_job_is_not_stranded_after_a_reload() {
    let own_association = || Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    for are_blocked in [true, false] {
        let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
        let first_job = submit(&mut host, 1);
        let undeclared = || HostJob { has_declared_dependencies: false, ..HostJob::new(7).blocked_by(AFTER) };
        let held: Vec<JobId> = (0..FEW.subscribed + 3).map(|_| host.submit(undeclared()).unwrap()).collect();
        let last_job = submit(&mut host, 1);
        host.replay_jobs(true, make_engine_with_associations(vec![record(own_association(), "A")]));
        assert_eq!(host.subscribed.len(), FEW.subscribed);
        let block_state = |host: &Host, id: &JobId| host.engine.ledger().job(*id).unwrap().block_state;
        let beyond_jobs: Vec<JobId> =
            held.iter().copied().filter(|id| !host.subscribed.contains(id)).collect();
        assert!(beyond_jobs.iter().all(|id| block_state(&host, id) == BlockState::Unblocked));
        if !are_blocked {
            beyond_jobs.iter().for_each(|id| host.remove_dependency(*id, AFTER));
        }
        host.start_job(first_job);
        if are_blocked {
            // The scan removed our dependencies, but the jobs stayed in DEPEND. So the engine marks them as blocked.
            assert_eq!(host.state(last_job), Some(Sched));
            let is_blocked = |id: &JobId| {
                let job = host.engine.ledger().job(*id).unwrap();
                (job.reservation, job.block_state) == (Reservation::Blocked, BlockState::Blocked)
                    && host.names(*id) == [AFTER]
            };
            assert!(beyond_jobs.iter().all(is_blocked));
            satisfy_dependencies(&mut host, &beyond_jobs);
            assert_eq!(list_states(&host, &beyond_jobs), vec![Priority; beyond_jobs.len()]);
            host.start_job(last_job);
        }
        for id in &beyond_jobs {
            assert_eq!(host.state(*id), Some(Sched), "blocked: {are_blocked}");
            host.start_job(*id);
        }
        assert_no_drift(&host);
        host.oracle.check_no_job_is_stranded(&host.jobs);
    }
}

#[test]
fn a_job_whose_subscription_flux_refuses_is_checked_when_another_plugin_releases_it() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let first_job = submit(&mut host, 1);
    let id = JobId(77);
    let mut engine = host.engine.clone();
    engine.handle(NOW, Event::Created { id, state: State::New, has_dependencies: true });
    engine.refused(Effect::Subscribe(id), Refusal::Other("no memory".to_owned()));
    let job = HostJob { bank: Some("A".into()), project: Some("*".into()), ..HostJob::new(7) };
    engine.handle(NOW, Event::Validate(Host::facts(id, &job)));
    engine.handle(NOW, Event::New(Host::facts(id, &job)));
    let held = engine.handle(NOW, Event::Depend(id));
    assert!(!held.iter().any(|effect| matches!(effect, Effect::AddDependency(..))), "{held:?}");
    let outcome = engine.handle(NOW, Event::Priority(id, 16));
    assert!(outcome.iter().any(|effect| matches!(effect, Effect::PriorityUnavailable)), "{outcome:?}");
    assert!(!outcome.iter().any(|effect| matches!(effect, Effect::Unsubscribe(_))), "{outcome:?}");
    assert_eq!(host.state(first_job), Some(Sched));
}

/// The comparison with Flux renews subscriptions, and must again subscribe to no more jobs than are allowed.
#[test]
fn after_a_panic_unsubscribed_jobs_are_checked_when_another_plugin_releases_them() {
    let mut host = use_all_subscriptions(|a| a.max_sched_jobs = Limit(1));
    let jobs: Vec<JobId> = (0..3).map(|_| submit_dependent(&mut host)).collect();
    let first_job = submit(&mut host, 1);
    let effects = host.engine.handle(host.now, Event::Panicked(None));
    host.apply_effects(effects);
    host.run_until_idle();
    assert!(!host.engine.view().needs_comparison());
    assert_eq!(host.subscribed.len(), FEW.subscribed);
    satisfy_dependencies(&mut host, &jobs);
    assert_eq!(list_states(&host, &jobs), [Priority; 3]);
    for id in jobs.iter().chain([&first_job]) {
        host.end_job(*id);
    }
    assert_no_drift(&host);
    let others_jobs: Vec<JobId> = host.jobs.keys().copied().collect();
    others_jobs.into_iter().for_each(|id| host.end_job(id));
    assert_eq!(host.engine.count_stored_jobs(), []);
}
