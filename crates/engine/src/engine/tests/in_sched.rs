// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that are held in SCHED at priority 0. The scheduler may have allocated their resources before the hold.
//! Rules: L12, L16

use super::examples::{assert_no_drift, make_host_with_held_jobs, make_site, start, submit};
use super::host::Host;
use super::live::{accounts, leaves, tree};
use super::past_depend::{assert_counters_and_holds, list_states, list_whether_jobs_may_run};
use super::site::{HostJob, NOW, association, make_record_with_one_job_limit, queue, record};
use super::strict::running_limit_settings;
use super::why::explain_job;
use super::{FEW, SINGLE_POSTS};
use crate::accounts::{AssociationRecord, Cap, RunningLimits, SiteLimit, SiteRecords, Target};
use crate::engine::answers::JobFilter;
use crate::engine::{Engine, Event, State, answers};
use crate::ids::{Amount, JobId, Limit, Measure, Stage};
use crate::limits::Phase;
use crate::standing::SitePart;
use State::{Priority, Run, Sched};
use fairshare::Policy;

fn make_event_for_strict_limits() -> Event<'static> {
    Event::Settings(running_limit_settings(RunningLimits::Strict, &[]))
}

/// Returns a host with strict running limits where one job may run, a job with urgency 0, and the next job, for which the headroom is
/// reserved.
fn submit_urgency_0_job_and_job_with_reservation() -> (Host, [JobId; 2]) {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    host.send_event(make_event_for_strict_limits());
    let resting_job = submit(&mut host, 1);
    host.set_urgency(resting_job, 0);
    let next_job = submit(&mut host, 1);
    (host, [resting_job, next_job])
}

/// The scheduler allocated resources before the engine held the job. The job can still start, and then counts as running.
#[test]
fn a_job_held_in_sched_starts_if_its_resources_were_allocated_before() {
    let records = || vec![make_record_with_one_job_limit(7, "B"), record(association(7, "A"), "A")];
    let mut host = Host::with_data(records(), vec![queue("q1")]);
    let held = |host: &Host| host.engine.ledger().jobs().filter(|(_, job)| job.is_held()).count();
    host.send_event(make_event_for_strict_limits());
    let job_in_target_bank = host.submit(HostJob::new(7).bank("B")).unwrap();
    let moved_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.force_update(moved_job, None, Some("B".to_owned()));
    assert_eq!(
        (host.state(moved_job), host.jobs[&moved_job].priority, held(&host)),
        (Some(Sched), Some(0), 1)
    );
    let ids = Some(vec![moved_job]);
    let page = answers::jobs_page(
        &host.engine.view(),
        &JobFilter { after: None, ids, user: None, bank: None, queue: None, most: 9 },
        host.now,
    );
    assert_eq!(page.jobs.iter().map(|job| job.state.clone()).collect::<Vec<_>>(), ["sched"]);
    assert!(host.engine.view().is_held(moved_job) && !host.engine.view().is_held(job_in_target_bank));
    host.send_event(Event::Reprioritize);
    host.set_urgency(moved_job, 20);
    assert_eq!(
        (host.state(moved_job), host.jobs[&moved_job].priority, held(&host)),
        (Some(Sched), Some(0), 1)
    );
    let mut crossed = host.clone();
    crossed.start_held_job(moved_job);
    assert_eq!((crossed.state(moved_job), held(&crossed)), (Some(Run), 0));
    assert_no_drift(&crossed);
    for is_reload in [true, false] {
        let mut engine = Engine::with_small_batches();
        for event in [make_event_for_strict_limits(), Event::Queues(vec![queue("q1")])] {
            engine.handle(NOW, event);
        }
        host.replay_jobs(is_reload, engine);
        host.push(records());
        assert_eq!((host.jobs[&moved_job].is_held_in_sched, held(&host)), (true, 1), "{is_reload}");
    }
    host.start_job(job_in_target_bank);
    host.end_job(job_in_target_bank);
    assert!(host.jobs[&moved_job].priority > Some(0), "the job is released");
    host.start_job(moved_job);
    assert_no_drift(&host);
}

/// The scheduler has no request for the job, so only our limit holds it.
#[test]
fn why_does_not_say_that_a_job_held_in_sched_waits_for_resources() {
    let (mut host, [resting_job, next]) = submit_urgency_0_job_and_job_with_reservation();
    host.set_urgency(resting_job, 16);
    assert_eq!(list_whether_jobs_may_run(&host, &[resting_job, next]), [false, true]);
    let others = |id| explain_job(&host, id).others.iter().map(|it| it.cause.clone()).collect::<Vec<_>>();
    assert_eq!((others(resting_job), others(next)), (vec![], vec!["resources".into()]));
}

/// If a refresh posted a priority above 0 for the held job, Flux would schedule the job.
#[test]
fn a_refresh_posts_no_priority_for_a_job_held_in_sched() {
    let mut all_accounts = accounts();
    let of_bank = all_accounts.associations.iter_mut().filter(|it| it.association == association(7, "B"));
    of_bank.for_each(|it| it.association.max_sched_jobs = Limit(1));
    let mut host = Host::new();
    host.send_event(Event::Policy(all_accounts, tree(Policy::FairTree, NOW, leaves())));
    let [_, running_job, pends, moved_job] =
        ["B", "A", "A", "A"].map(|bank| host.submit(HostJob::new(7).bank(bank)).unwrap());
    // This job takes precedence over the other jobs of user 7.
    host.submit(HostJob::new(8).bank("A")).unwrap();
    host.force_update(moved_job, None, Some("B".to_owned()));
    let read_jobs =
        |host: &Host| (host.state(moved_job), host.jobs[&moved_job].priority, host.jobs[&pends].priority);
    let before = read_jobs(&host);
    assert_eq!((before.0, before.1), (Some(Sched), Some(0)));
    host.start_job(running_job);
    host.advance_time_and_refresh(30.0);
    let after = read_jobs(&host);
    assert!(after.2 < before.2, "{after:?}");
    assert_eq!((after.0, after.1), (before.0, before.1));
    assert_counters_and_holds(&host);
}

/// An epilog may keep a cancelled job in CLEANUP, although the job never ran. The next held job must be
/// released meanwhile.
#[test]
fn a_cancelled_held_job_does_not_delay_the_next_held_job() {
    for is_in_priority in [false, true] {
        let (mut host, running_job, held_job) = make_host_with_held_jobs::<2>();
        if is_in_priority {
            host.jobs.get_mut(&held_job[0]).unwrap().state = Priority;
            host.replay_jobs(true, Engine::with_small_batches());
            host.push(vec![make_record_with_one_job_limit(7, "A")]);
        }
        host.jobs.get_mut(&held_job[0]).unwrap().state = State::Cleanup;
        let effects = host.engine.handle(NOW, Event::Cleanup(held_job[0]));
        host.apply_effects(effects);
        host.end_job(running_job);
        assert_eq!(host.state(held_job[1]), Some(Sched), "{is_in_priority}");
        assert!(host.subscribed.is_empty(), "{is_in_priority}");
        assert_eq!(answers::check(&host.engine.view()).drift, []);
    }
}

/// Flux itself sets the priority of an expedited job, so no answer can hold the job in SCHED.
#[test]
fn an_expedited_job_that_was_held_in_sched_is_released() {
    for first in [16, 31] {
        let (mut host, [waking_job, next_job]) = submit_urgency_0_job_and_job_with_reservation();
        host.set_urgency(waking_job, first);
        host.set_urgency(waking_job, 31);
        assert_eq!(list_states(&host, &[waking_job, next_job]), [Sched, Sched]);
        assert_eq!(host.jobs[&waking_job].priority, Some(i64::from(u32::MAX)), "{first}");
        assert!(!host.engine.view().is_held(waking_job), "{first}");
        host.start_job(waking_job);
        host.start_job(next_job);
        [waking_job, next_job].into_iter().for_each(|id| host.end_job(id));
        assert_counters_and_holds(&host);
    }
}

/// Each event in `causes` moves a job from SCHED to PRIORITY. The job must return to SCHED, because the scheduler may
/// have allocated resources to it already.
#[test]
fn a_job_sent_back_to_priority_returns_to_sched_whatever_the_cause() {
    type Cause = (&'static str, fn(&mut Host, JobId, i64));
    let causes: [Cause; 6] = [
        ("an urgency change", |host, id, urgency| host.set_urgency(id, urgency)),
        ("a hold before", |host, id, urgency| {
            host.set_urgency(id, 0);
            let next_job = submit(host, 1);
            host.start_job(next_job);
            host.set_urgency(id, urgency);
        }),
        ("an update into a full bank", |host, id, urgency| {
            host.set_urgency(id, urgency);
            host.run_new_job(HostJob::new(7).bank("B"));
            host.force_update(id, None, Some("B".to_owned()));
        }),
        ("an update to a bank that no record names", |host, id, urgency| {
            host.set_urgency(id, urgency);
            host.force_update(id, None, Some("X".to_owned()));
        }),
        ("a weight that makes the score 0", |host, id, urgency| {
            host.push_weights(vec![("fairshare".to_owned(), 0)]);
            host.set_urgency(id, urgency);
        }),
        ("a reload without data", |host, id, urgency| {
            host.replay_jobs(true, Engine::with_small_batches());
            host.set_urgency(id, urgency);
            host.force_update(id, None, Some("B".to_owned()));
        }),
    ];
    for (cause, act) in causes {
        for running in [RunningLimits::Strict, RunningLimits::Upstream] {
            for urgency in [0, 1, 15, 16, 30, 31] {
                let records = || {
                    Event::Associations(vec![
                        make_record_with_one_job_limit(7, "A"),
                        make_record_with_one_job_limit(7, "B"),
                    ])
                };
                let mut host = Host::new();
                [Event::Settings(running_limit_settings(running, &[])), records()]
                    .into_iter()
                    .for_each(|it| host.send_event(it));
                let id = host.submit(HostJob::new(7).bank("A")).unwrap();
                act(&mut host, id, urgency);
                assert_eq!(host.state(id), Some(Sched), "{cause}, {running:?}, urgency {urgency}");
                let expected = match urgency {
                    0 => Some(0),
                    31 => Some(i64::from(u32::MAX)),
                    _ => host.jobs[&id].priority.filter(|posted| *posted < i64::from(u32::MAX)),
                };
                assert_eq!(host.jobs[&id].priority, expected, "{cause}, {running:?}, urgency {urgency}");
                host.send_event(records());
                host.send_event(Event::Reprioritize);
                assert_counters_and_holds(&host);
            }
        }
    }
}

/// Without data, a job keeps its posted priority. But when its urgency changes from 31, the job must not keep
/// the priority that Flux set at urgency 31.
#[test]
fn without_association_data_the_priority_set_at_urgency_31_is_dropped() {
    let mut host = make_site(|_| {});
    let id = submit(&mut host, 1);
    let posted = host.jobs[&id].priority;
    host.replay_jobs(true, Engine::with_small_batches());
    host.set_urgency(id, 10);
    assert_eq!(host.jobs[&id].priority, posted);
    host.set_urgency(id, 31);
    host.set_urgency(id, 16);
    assert_eq!(host.jobs[&id].priority, Some(0));
    host.push(vec![record(association(7, "A"), "A")]);
    assert_eq!(host.jobs[&id].priority, posted);
    assert_counters_and_holds(&host);
}

/// Flux would not schedule a job at urgency 0, so the engine need not hold it.
#[test]
fn a_job_at_urgency_0_is_not_held_when_another_job_takes_its_headroom() {
    let (mut host, [resting_job, next_job]) = submit_urgency_0_job_and_job_with_reservation();
    host.start_job(next_job);
    host.send_event(Event::Reprioritize);
    assert_eq!((host.state(resting_job), host.jobs[&resting_job].priority), (Some(Sched), Some(0)));
    assert!(!host.engine.ledger().job(resting_job).unwrap().is_held());
    assert_counters_and_holds(&host);
}

/// The restart sent the job to PRIORITY, so a limit holds the job there and not in SCHED. The engine answers Flux's
/// loop, or posts the priority by id if the loop would take too long.
#[test]
fn a_job_that_leaves_urgency_0_after_a_restart_is_held_in_priority() {
    for batches in [FEW, SINGLE_POSTS] {
        let settings = || Event::Settings(running_limit_settings(RunningLimits::Strict, &[]));
        let policy = || {
            let mut all = accounts();
            let own = |it: &&mut AssociationRecord| it.association == association(7, "A");
            all.associations.iter_mut().find(own).unwrap().association.max_running_jobs = Limit(1);
            Event::Policy(all, tree(Policy::FairTree, NOW, leaves()))
        };
        let mut host = Host::new();
        host.engine.batches = batches;
        [settings(), policy()].into_iter().for_each(|event| host.send_event(event));
        let resting_job = submit(&mut host, 1);
        host.set_urgency(resting_job, 0);
        let next_job = start(&mut host, 1);
        let mut engine = Engine::with_batches(batches);
        engine.handle(NOW, settings());
        host.replay_jobs(false, engine);
        assert_eq!(host.state(resting_job), Some(Priority), "without data the job has no priority");
        host.set_urgency(resting_job, 16);
        let loops = host.loops;
        host.send_event(policy());
        assert_eq!(host.loops > loops, batches == FEW);
        let job = host.engine.ledger().job(resting_job).unwrap();
        assert_eq!((host.state(resting_job), job.is_held(), job.is_in_sched), (Some(Priority), true, false));
        host.end_job(next_job);
        assert_eq!(list_whether_jobs_may_run(&host, &[resting_job]), [true], "{batches:?}");
        assert_counters_and_holds(&host);
    }
}

/// After the reload, the plugin may see the held job, in SCHED at priority 0, before or after the running job.
#[test]
fn a_job_held_in_sched_stays_held_after_a_reload_and_a_restart() {
    for is_reload in [true, false] {
        let (mut host, [late_job, running_job]) = submit_urgency_0_job_and_job_with_reservation();
        host.start_job(running_job);
        host.set_urgency(late_job, 16);
        let mut engine = Engine::with_small_batches();
        for event in [
            make_event_for_strict_limits(),
            Event::Associations(vec![make_record_with_one_job_limit(7, "A")]),
        ] {
            engine.handle(NOW, event);
        }
        host.replay_jobs(is_reload, engine);
        assert_eq!(
            (host.state(late_job), host.jobs[&late_job].priority),
            (Some(Sched), Some(0)),
            "{is_reload}"
        );
        assert!(host.engine.view().is_held(late_job));
        host.end_job(running_job);
        assert!(host.jobs[&late_job].priority > Some(0), "{is_reload}");
        assert_counters_and_holds(&host);
    }
}

/// Running limits are not strict. Bank B may run one job, and a released job that does not run yet has reserved this
/// headroom.
#[test]
fn a_job_that_moved_to_a_bank_with_a_reserved_slot_stays_held_after_a_reload() {
    let records = || vec![record(association(7, "A"), "A"), make_record_with_one_job_limit(7, "B")];
    let mut host = Host::with_data(records(), vec![queue("q1")]);
    let first_job = host.run_new_job(HostJob::new(7).bank("B"));
    let reserved_job = host.submit(HostJob::new(7).bank("B")).unwrap();
    host.end_job(first_job);
    let moved_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    assert_eq!(host.update_job(moved_job, None, Some("B")), Ok(()));
    assert_eq!((host.state(reserved_job), host.jobs[&moved_job].priority), (Some(Sched), Some(0)));
    let mut engine = Engine::with_small_batches();
    engine.handle(NOW, Event::Associations(records()));
    host.replay_jobs(true, engine);
    assert_eq!(host.jobs[&moved_job].priority, Some(0));
    host.start_job(reserved_job);
    host.end_job(reserved_job);
    assert!(host.jobs[&moved_job].priority > Some(0));
    assert_counters_and_holds(&host);
}

/// The test moves the job to SCHED in place of another plugin, which would give the job a priority.
#[test]
fn a_job_held_in_priority_counts_in_sched_if_another_plugin_moves_it_there() {
    let (mut host, running_job, [held_job]) = make_host_with_held_jobs();
    host.jobs.get_mut(&held_job).unwrap().state = Priority;
    host.replay_jobs(true, Engine::with_small_batches());
    host.push(vec![make_record_with_one_job_limit(7, "A")]);
    assert_eq!((host.state(held_job), host.state(running_job)), (Some(Priority), Some(Run)));
    let ids = Some(vec![held_job]);
    let page = answers::jobs_page(
        &host.engine.view(),
        &JobFilter { after: None, ids, user: None, bank: None, queue: None, most: 9 },
        host.now,
    );
    assert_eq!(page.jobs[0].state, "priority");
    host.engine.handle(NOW, Event::Sched(held_job));
    assert_eq!(host.engine.ledger().job(held_job).unwrap().phase, Phase::Sched);
}

/// The job is in SCHED at priority 0 because its score is 0. No limit holds it.
#[test]
fn a_job_with_the_score_0_is_not_held_after_a_reload() {
    for is_reload in [true, false] {
        let records = || Event::Associations(vec![record(association(7, "A"), "A")]);
        let weightless = || Event::Weights(vec![("fairshare".to_owned(), 0)]);
        let mut host = Host::new();
        [records(), weightless()].into_iter().for_each(|event| host.send_event(event));
        let resting_job = host.submit(HostJob { urgency: 15, ..HostJob::new(7) }).unwrap();
        assert_eq!((host.state(resting_job), host.jobs[&resting_job].priority), (Some(Sched), Some(0)));
        let mut engine = Engine::with_small_batches();
        for event in [records(), weightless()] {
            engine.handle(NOW, event);
        }
        host.replay_jobs(is_reload, engine);
        let job = host.engine.ledger().job(resting_job).unwrap();
        assert_eq!((job.phase, job.is_held()), (Phase::Sched, false), "{is_reload}");
        assert_counters_and_holds(&host);
    }
}

/// Returns a host and two jobs. Bank B allows one running job. The first job is the running job of user 8 in
/// B. The second job is of user 7, has moved to B, and is held in SCHED at priority 0.
fn make_host_with_job_held_by_bank(
    policy: impl Fn(Vec<AssociationRecord>, Option<i64>) -> Event<'static>,
) -> (Host, [JobId; 2]) {
    let mut host = Host::with_data(make_three_records(), vec![queue("q1")]);
    host.send_event(make_event_for_strict_limits());
    host.send_event(policy(make_three_records(), Some(1)));
    let running_job = host.submit(HostJob::new(8).bank("B")).unwrap();
    let held_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.force_update(held_job, None, Some("B".to_owned()));
    host.start_job(running_job);
    assert_eq!((host.state(held_job), host.jobs[&held_job].priority), (Some(Sched), Some(0)));
    (host, [running_job, held_job])
}

fn make_three_records() -> Vec<AssociationRecord> {
    [(7, "B"), (7, "A"), (8, "B")].map(|(user, bank)| record(association(user, bank), bank)).to_vec()
}

/// The last push has no record of the held job's association. If an earlier push had the record, the job is released
/// when its limits allow it. Otherwise the job waits for the record, and `why` shows this reason.
#[test]
fn a_job_held_in_sched_is_not_stranded_if_the_last_push_lacks_its_association() {
    for by_tree in [true, false] {
        let policy = |associations: Vec<AssociationRecord>, cap: Option<i64>| {
            let limit = |cap: i64| SiteLimit {
                target: Target::Bank("B".into()),
                queue: None,
                amount: Amount { stage: Stage::Running, measure: Measure::Jobs },
                cap: Cap { limit: Limit(cap), is_given: true },
            };
            let site = if by_tree { tree(Policy::Classic, NOW, leaves()) } else { SitePart::default() };
            let (queues, limits) = (vec![queue("q1")], cap.map(limit).into_iter().collect());
            let projects = vec!["*".into()];
            Event::Policy(
                SiteRecords { associations, queues, projects, limits, ..SiteRecords::default() },
                site,
            )
        };
        let rows = [None, Some(9)].into_iter().flat_map(|cap| {
            [(true, true), (true, false), (false, true), (false, false)].map(|(one, other)| (cap, one, other))
        });
        for (cap, is_reload, is_data_first) in rows {
            let what = format!("tree {by_tree}, cap {cap:?}, reload {is_reload}, data first {is_data_first}");
            for is_known in [true, false] {
                let (mut host, [running_job, held]) = make_host_with_job_held_by_bank(policy);
                let mut engine = Engine::with_small_batches();
                engine.handle(NOW, make_event_for_strict_limits());
                let known = if is_known { make_three_records() } else { make_three_records()[1..].to_vec() };
                if is_data_first {
                    engine.handle(NOW, policy(known.clone(), Some(1)));
                }
                host.replay_jobs(is_reload, engine);
                if !is_data_first {
                    host.send_event(policy(known, Some(1)));
                    host.run_until_idle();
                }
                assert_eq!(
                    (host.engine.view().is_held(held), host.jobs[&held].priority),
                    (is_known, Some(0)),
                    "{what}"
                );
                host.send_event(policy(make_three_records()[1..].to_vec(), cap));
                host.run_until_idle();
                if !is_known {
                    assert_eq!(explain_job(&host, held).others[0].cause, "association", "{what}");
                    host.send_event(policy(make_three_records(), cap));
                    host.run_until_idle();
                }
                assert!(host.jobs[&held].priority > Some(0) && !host.engine.view().is_held(held), "{what}");
                host.end_job(running_job);
                assert_eq!(answers::check(&host.engine.view()).drift, [], "{what}");
            }
        }
    }
}
