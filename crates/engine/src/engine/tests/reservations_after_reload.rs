// SPDX-License-Identifier: LGPL-3.0-only
//! When a limit on running jobs could be reached, a reservation from before a reload must count at once.

use super::examples::{assert_no_drift, make_site, start, submit};
use super::host::Host;
use super::site::{HostJob, NOW, UNLIMITED, association, queue, record};
use crate::accounts::{Association, Cap, Queue, SiteLimit, Target};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit};
use State::{Depend, Run, Sched};

fn records_event(max_running: Limit) -> Event<'static> {
    let one_association = Association { max_running_jobs: max_running, ..association(7, "A") };
    Event::Associations(vec![record(one_association, "A")])
}

fn list_states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

/// Returns a host after a reload, and a job in SCHED. The job was held and released before the reload, when the limit
/// was one running job. The reloaded engine gets the events in `data`.
fn reload_with_data(job: impl Fn() -> HostJob, data: Vec<Event<'static>>) -> (Host, JobId) {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    let running_job = host.run_new_job(job());
    let released_job = host.submit(job()).unwrap();
    host.end_job(running_job);
    assert_eq!(host.state(released_job), Some(Sched));
    let mut engine = Engine::with_small_batches();
    for event in data {
        host.oracle.apply_event(&event);
        engine.handle(NOW, event);
    }
    host.requested_reads = 0;
    host.replay_jobs(true, engine);
    (host, released_job)
}

/// Returns the host and the job of [`reload_with_data`]. The reloaded engine has an association without
/// limits, so it reads no eventlog.
fn reload_without_limits() -> (Host, JobId) {
    let (host, released) = reload_with_data(|| HostJob::new(7), vec![records_event(UNLIMITED)]);
    assert_eq!(host.requested_reads, 0);
    (host, released)
}

fn one_job_queue(name: &str) -> Queue {
    Queue { max_running_jobs: Limit(1), ..queue(name) }
}

#[test]
fn the_engine_counts_old_reservations_once_a_new_job_approaches_the_limit() {
    for is_reload in [true, false] {
        let mut host = make_site(|a| a.max_running_jobs = Limit(2));
        let [first_job, second_job, released_job] = [(); 3].map(|()| start(&mut host, 1));
        assert_eq!(list_states(&host, &[first_job, second_job, released_job]), [Run, Run, Depend]);
        host.end_job(first_job);
        host.end_job(second_job);
        let mut engine = Engine::with_small_batches();
        engine.handle(NOW, records_event(Limit(2)));
        host.replay_jobs(is_reload, engine);
        let next_job = start(&mut host, 1);
        let last_job = submit(&mut host, 1);
        assert_eq!(
            list_states(&host, &[released_job, next_job, last_job]),
            [Sched, Run, Depend],
            "{is_reload}"
        );
        host.start_job(released_job);
        host.end_job(next_job);
        assert_eq!(list_states(&host, &[released_job, last_job]), [Run, Sched], "{is_reload}");
        assert_no_drift(&host);
    }
}

#[test]
fn a_job_that_was_never_held_has_no_reservation_after_a_reload() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(2));
    let waiting_job = submit(&mut host, 1);
    let mut engine = Engine::with_small_batches();
    engine.handle(NOW, records_event(Limit(2)));
    host.replay_jobs(true, engine);
    let others = [(); 3].map(|()| submit(&mut host, 1));
    assert_eq!(list_states(&host, &others), [Sched; 3]);
    assert_eq!(host.state(waiting_job), Some(Sched));
    assert_no_drift(&host);
}

#[test]
fn a_reservation_counts_under_a_queue_that_is_pushed_after_the_associations() {
    let in_queue = || HostJob::new(7).queue("q1");
    let (mut host, released_job) = reload_with_data(in_queue, Vec::new());
    host.send_event(records_event(UNLIMITED));
    host.send_event(Event::Queues(vec![one_job_queue("q1")]));
    assert_eq!(host.requested_reads, 0);
    host.send_event(Event::Reprioritize);
    assert_eq!(host.requested_reads, 1);
    let next_job = host.submit(in_queue()).unwrap();
    assert_eq!(host.names(next_job), ["max-run-jobs-queue"]);
    host.start_job(released_job);
    host.end_job(released_job);
    assert_eq!(host.state(next_job), Some(Sched));
    assert_no_drift(&host);
}

#[test]
fn a_reservation_counts_under_a_limit_that_a_later_push_lowers() {
    let (mut host, _) = reload_without_limits();
    host.send_event(records_event(Limit(1)));
    assert_eq!(host.requested_reads, 0);
    for _ in 0..2 {
        host.send_event(Event::Reprioritize);
        assert_eq!(host.requested_reads, 1, "once");
    }
    let next_job = submit(&mut host, 1);
    assert_eq!(host.names(next_job), ["max-running-jobs-user-limit"]);
    assert_no_drift(&host);
}

/// The push makes the engine read the eventlog of the blocked job. The engine must still check the job's
/// limits only when the other plugin unblocks the job.
#[test]
fn a_blocked_job_is_not_held_by_a_later_push() {
    let mut host = make_site(|_| ());
    let others_job = host.submit(HostJob::new(7).blocked_by("keep=x")).unwrap();
    submit(&mut host, 1);
    let mut engine = Engine::with_small_batches();
    engine.handle(NOW, records_event(UNLIMITED));
    host.replay_jobs(true, engine);
    host.send_event(records_event(Limit(0)));
    host.requested_reads = 0;
    host.send_event(Event::Reprioritize);
    assert_eq!((host.requested_reads, host.names(others_job)), (1, vec!["keep=x".to_owned()]));
    host.remove_dependency(others_job, "keep=x");
    assert_eq!(host.names(others_job), ["max-running-jobs-user-limit"]);
    assert_no_drift(&host);
}

#[test]
fn a_reservation_counts_under_a_limit_of_the_configuration() {
    let (mut host, _) = reload_without_limits();
    let limit = SiteLimit {
        target: Target::User(crate::ids::UserId(7)),
        queue: None,
        amount: Amount::parse("run-jobs").unwrap(),
        cap: Cap { limit: Limit(1), is_given: false },
    };
    host.oracle.limits = vec![limit.clone()];
    host.send_event(Event::Settings(Settings { limits: vec![limit], ..Settings::default() }));
    assert_eq!(host.requested_reads, 1);
    let next_job = submit(&mut host, 1);
    assert_eq!(host.names(next_job), ["max-run-jobs-user"]);
    assert_no_drift(&host);
}

#[test]
fn a_reservation_moves_with_its_job_to_another_queue() {
    let (mut host, released_job) = reload_without_limits();
    host.send_event(Event::Queues(vec![queue("q1"), one_job_queue("q2")]));
    host.send_event(Event::Reprioritize);
    assert_eq!(host.requested_reads, 0);
    host.update_job(released_job, Some("q2"), None).unwrap();
    assert_eq!(host.requested_reads, 1);
    let next_job = host.submit(HostJob::new(7).queue("q2")).unwrap();
    assert_eq!(host.names(next_job), ["max-run-jobs-queue"]);
    assert_no_drift(&host);
}

#[test]
fn an_ended_job_leaves_no_entry_for_its_eventlog() {
    let (mut host, released_job) = reload_without_limits();
    host.update_job(released_job, Some("q2"), None).unwrap();
    assert_eq!(host.engine.recovery.counts()[0], 1);
    host.end_job(released_job);
    assert_eq!(host.engine.recovery.counts()[0], 0);
}

/// Before the reload, q2 was a virtual queue of q1, and the limit of q1 held and released the job. After the reload, q2
/// becomes a virtual queue again.
#[test]
fn an_old_reservation_counts_when_a_queue_gets_a_parent_with_a_limit() {
    let parents = |parent: Option<&str>| {
        Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), parent.map(Into::into))])
    };
    let queues = || Event::Queues(vec![one_job_queue("q1"), queue("q2")]);
    let own_association = Association { max_sched_jobs: Limit(2), ..association(7, "A") };
    let records = || Event::Associations(vec![record(own_association.clone(), "A")]);
    let job = || HostJob::new(7).queue("q2");
    let mut host = Host::new();
    [parents(Some("q1")), queues(), records()].into_iter().for_each(|event| host.send_event(event));
    let running_job = host.run_new_job(job());
    let released_job = host.submit(job()).unwrap();
    assert_eq!(host.names(released_job), ["max-run-jobs-queue"]);
    host.end_job(running_job);
    assert_eq!(host.state(released_job), Some(Sched));
    let mut engine = Engine::with_small_batches();
    for event in [parents(None), queues(), records()] {
        host.oracle.apply_event(&event);
        engine.handle(NOW, event);
    }
    host.replay_jobs(true, engine);
    let other_job = host.submit(HostJob::new(7)).unwrap();
    let held = host.submit(job()).unwrap();
    assert_eq!(host.names(held), ["max-sched-jobs-user-limit"]);
    host.send_event(parents(Some("q1")));
    host.end_job(other_job);
    assert_eq!(host.state(held), Some(Depend));
    host.start_job(released_job);
    host.end_job(released_job);
    assert_eq!(host.state(held), Some(Sched));
    assert_no_drift(&host);
}
