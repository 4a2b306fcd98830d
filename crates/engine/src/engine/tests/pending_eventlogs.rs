// SPDX-License-Identifier: LGPL-3.0-only
//! After a reload, eventlogs are unread for some time. Meanwhile no limit may be exceeded, even if jobs are
//! submitted, start and end.

use super::examples::assert_no_drift;
use super::host::Host;
use super::site::{HostJob, association, make_record_with_one_job_limit, queue, record};
use crate::accounts::{Association, Cap, Queue, SiteLimit, Target};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit};
use State::{Depend, Priority, Sched};

fn push_data(host: &mut Host, association: &Association, queue: &Queue) {
    host.send_event(Event::Queues(vec![queue.clone()]));
    host.send_event(Event::Associations(vec![record(association.clone(), "A")]));
}

fn reload_plugin(host: &mut Host, association: &Association, queue: &Queue, never_answered: &[JobId]) {
    let mut engine = Engine::with_small_batches();
    engine.handle(host.now, Event::Queues(vec![queue.clone()]));
    engine.handle(host.now, Event::Associations(vec![record(association.clone(), "A")]));
    host.never_answered = never_answered.iter().copied().collect();
    host.replay_jobs(true, engine);
}

fn deliver_eventlog(host: &mut Host, id: JobId) {
    let log = host.jobs[&id].log.clone();
    host.send_event(Event::Eventlog(id, Some(log)));
}

fn list_states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

/// Four jobs with one node each depend on another job, which ends before the eventlogs of the four jobs are
/// read. The queue allows one node.
#[test]
fn the_dependents_of_one_job_do_not_exceed_a_cap_while_their_eventlogs_are_unread() {
    let (own, narrow) = (association(7, "A"), Queue { max_nodes_per_assoc: Limit(1), ..queue("q1") });
    for is_readable in [true, false] {
        let mut host = Host::new();
        push_data(&mut host, &own, &narrow);
        let jobs =
            [(); 4].map(|()| host.submit(HostJob::new(7).queue("q1").blocked_by("afterany:1")).unwrap());
        host.has_job_list = false;
        if is_readable {
            reload_plugin(&mut host, &own, &narrow, &jobs);
        } else {
            host.unreadable = jobs.into();
            reload_plugin(&mut host, &own, &narrow, &[]);
        }
        for id in jobs {
            host.remove_dependency(id, "afterany:1");
        }
        host.run_until_idle();
        assert_eq!(list_states(&host, &jobs), [Priority; 4], "no scan runs before the eventlogs are read");
        host.unreadable.clear();
        jobs.into_iter().for_each(|id| deliver_eventlog(&mut host, id));
        assert_eq!(list_states(&host, &jobs), [Sched, Priority, Priority, Priority], "{is_readable}");
        host.start_job(jobs[0]);
        host.end_job(jobs[0]);
        assert_eq!(list_states(&host, &jobs[1..]), [Sched, Priority, Priority]);
        assert_no_drift(&host);
    }
}

/// The eventlog of this job cannot be read. A job past DEPEND has no dependencies, so the engine must not keep the
/// job in PRIORITY.
#[test]
fn a_job_released_by_another_plugin_before_its_eventlog_was_read_goes_to_sched() {
    let (own, wide) = (association(7, "A"), queue("q1"));
    let mut host = Host::new();
    push_data(&mut host, &own, &wide);
    let id = host.submit(HostJob::new(7).queue("q1").blocked_by("afterany:1")).unwrap();
    host.has_job_list = false;
    host.unreadable = [id].into();
    reload_plugin(&mut host, &own, &wide, &[]);
    host.unblock(id, "afterany:1");
    assert_eq!(host.state(id), Some(Priority));
    host.fire_retry_timer();
    assert_eq!(host.state(id), Some(Sched));
    assert!(crate::engine::hand_over(&host.engine.view(), None, 9).is_some(), "no eventlog is awaited");
    assert_no_drift(&host);
}

/// The eventlog shows whether a job in SCHED was held and so has a reservation. Until it is read, the engine assumes a reservation.
#[test]
fn a_job_in_sched_keeps_a_reservation_until_its_eventlog_is_read() {
    let (own, wide) = (Association { max_running_jobs: Limit(1), ..association(7, "A") }, queue("q1"));
    for was_held in [true, false] {
        let mut host = Host::new();
        push_data(&mut host, &own, &wide);
        let first_job = host.submit(HostJob::new(7)).unwrap();
        if was_held {
            host.start_job(first_job);
        }
        let second_job = host.submit(HostJob::new(7)).unwrap();
        assert_eq!(host.state(second_job), Some(if was_held { Depend } else { Sched }));
        host.end_job(first_job);
        assert_eq!(host.state(second_job), Some(Sched));
        reload_plugin(&mut host, &own, &wide, &[second_job]);
        let third_job = host.submit(HostJob::new(7)).unwrap();
        assert_eq!(host.state(third_job), Some(Depend), "{was_held}");
        deliver_eventlog(&mut host, second_job);
        // A job that was never held has no reservation, so the new job goes to SCHED as well.
        assert_eq!(host.state(third_job), Some(if was_held { Depend } else { Sched }));
        assert_no_drift(&host);
    }
}

/// Headroom must go to a job that was held before the reload, even if the engine has not read yet which limits hold
/// the job.
#[test]
fn a_new_job_does_not_overtake_held_jobs_whose_eventlogs_are_unread() {
    for ends_before in [true, false] {
        let records = || Event::Associations(vec![make_record_with_one_job_limit(7, "A")]);
        let mut host = Host::new();
        host.send_event(records());
        let first_job = host.run_new_job(HostJob::new(7));
        let [held, other] = [(); 2].map(|()| host.submit(HostJob::new(7)).unwrap());
        let mut engine = Engine::with_small_batches();
        engine.handle(host.now, records());
        host.never_answered = [held].into();
        host.replay_jobs(true, engine);
        assert_eq!(list_states(&host, &[held, other]), [Depend; 2]);
        if ends_before {
            host.end_job(first_job);
        }
        let next_job = host.submit(HostJob::new(7)).unwrap();
        assert_eq!(host.state(next_job), Some(if ends_before { Priority } else { Depend }));
        host.end_job(first_job);
        deliver_eventlog(&mut host, held);
        let state_of_next = host.state(next_job).unwrap();
        assert_eq!(
            (list_states(&host, &[held, other]), state_of_next == Sched),
            (vec![Sched, Depend], false)
        );
        for id in [held, other] {
            host.start_job(id);
            host.end_job(id);
        }
        assert_eq!(host.state(next_job), Some(Sched), "the new job is released last");
        assert_no_drift(&host);
    }
}

fn limit_bank_to_one_running_job() -> Event<'static> {
    let limit = SiteLimit {
        target: Target::Bank("A".into()),
        queue: None,
        amount: Amount::parse("run-jobs").unwrap(),
        cap: Cap { limit: Limit(1), is_given: false },
    };
    Event::Settings(Settings { limits: vec![limit], ..Settings::default() })
}

fn push_two_users() -> Event<'static> {
    Event::Associations([7, 8].map(|user| record(association(user, "A"), "A")).into())
}

/// Until the eventlog of a job in SCHED is read, the engine assumes that the job has a reservation. Afterwards, a job
/// that was never held has none.
#[test]
fn a_replayed_job_is_held_when_the_eventlogs_of_jobs_under_the_same_limit_are_read() {
    for was_held in [true, false] {
        let mut host = Host::new();
        [limit_bank_to_one_running_job(), push_two_users()].into_iter().for_each(|it| host.send_event(it));
        let blocked_job = host.submit(HostJob::new(7).blocked_by("afterany:1")).unwrap();
        let first_job = host.submit(HostJob::new(8)).unwrap();
        if was_held {
            host.start_job(first_job);
        }
        let scheduled_job = host.submit(HostJob::new(8)).unwrap();
        host.end_job(first_job);
        assert_eq!(list_states(&host, &[blocked_job, scheduled_job]), [Depend, Sched]);
        let mut engine = Engine::with_small_batches();
        for event in [limit_bank_to_one_running_job(), push_two_users()] {
            engine.handle(host.now, event);
        }
        host.never_answered = [scheduled_job].into();
        host.replay_jobs(true, engine);
        assert_eq!(host.names(blocked_job), ["afterany:1"], "{was_held}");
        deliver_eventlog(&mut host, scheduled_job);
        let names = if was_held { vec!["afterany:1", "max-run-jobs-bank"] } else { vec!["afterany:1"] };
        assert_eq!(host.names(blocked_job), names);
        assert_no_drift(&host);
    }
}

/// The new job is of another association, and comes under the same limit on the bank as the held job.
#[test]
fn a_new_job_of_another_association_does_not_overtake_held_jobs_whose_eventlogs_are_unread() {
    let (settings, both) = (limit_bank_to_one_running_job, push_two_users);
    let mut host = Host::new();
    [settings(), both()].into_iter().for_each(|event| host.send_event(event));
    let first_job = host.run_new_job(HostJob::new(7));
    let held_job = host.submit(HostJob::new(7)).unwrap();
    let mut engine = Engine::with_small_batches();
    for event in [settings(), both()] {
        engine.handle(host.now, event);
    }
    host.never_answered = [held_job].into();
    host.replay_jobs(true, engine);
    host.end_job(first_job);
    let next_job = host.submit(HostJob::new(8)).unwrap();
    assert_eq!(list_states(&host, &[held_job, next_job]), [Depend, Priority]);
    deliver_eventlog(&mut host, held_job);
    assert_eq!(
        list_states(&host, &[held_job, next_job]),
        [Sched, Priority],
        "at equal priorities the earlier job goes first"
    );
    host.start_job(held_job);
    host.end_job(held_job);
    assert_eq!(host.state(next_job), Some(Sched));
    assert_no_drift(&host);
}
