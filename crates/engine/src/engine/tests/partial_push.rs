// SPDX-License-Identifier: LGPL-3.0-only
//! A push in several requests after a reload or a restart. No replayed job may be released while limits are missing.

use super::examples::assert_no_drift;
use super::host::Host;
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::{Association, Cap, Queue, SiteLimit, Target};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit};
use crate::limits::OVERTAKEN;
use State::{Depend, Priority, Sched};

fn one_job_queue() -> Queue {
    Queue { max_running_jobs: Limit(1), ..queue("q1") }
}

fn make_job_in_queue() -> HostJob {
    HostJob::new(7).queue("q1")
}

fn records_event() -> Event<'static> {
    Event::Associations(vec![record(association(7, "A"), "A")])
}

fn list_states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

/// Pushes the queues, and sends the reprioritize that ends the push.
fn finish_push(host: &mut Host) {
    host.send_event(Event::Queues(vec![one_job_queue()]));
    host.send_event(Event::Reprioritize);
}

/// Returns a host in the middle of a push, with a running job, three held jobs and a job in no queue. Queue q1 allows one running job. The
/// plugin was reloaded (`is_reload`) or the job manager restarted, without data, and so far only the associations were pushed.
fn make_host_during_push(is_reload: bool) -> (Host, JobId, [JobId; 3], JobId) {
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![one_job_queue()]);
    let running_job = host.run_new_job(make_job_in_queue());
    let held = [(); 3].map(|()| host.submit(make_job_in_queue()).unwrap());
    let other_job = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(list_states(&host, &held), [Depend; 3]);
    host.replay_jobs(is_reload, Engine::with_small_batches());
    host.send_event(records_event());
    (host, running_job, held, other_job)
}

/// An action in the middle of the push. The arguments are the running job and the job without a queue.
type Action = fn(&mut Host, JobId, JobId);

#[test]
fn headroom_freed_during_a_push_releases_no_job_before_the_push_is_complete() {
    let end: Action = |host, running_job, _| host.end_job(running_job);
    let start: Action = |host, running_job, other_job| {
        host.start_job(other_job);
        host.end_job(running_job);
    };
    let move_job: Action = |host, running_job, other_job| {
        host.force_update(other_job, Some("q2".to_owned()), Some("A".to_owned()));
        host.end_job(running_job);
    };
    let set_urgency_0: Action = |host, running_job, other_job| {
        host.set_urgency(other_job, 0);
        host.end_job(running_job);
    };
    for is_reload in [true, false] {
        for (at, act) in [end, start, move_job, set_urgency_0].into_iter().enumerate() {
            let (mut host, running_job, held, other_job) = make_host_during_push(is_reload);
            act(&mut host, running_job, other_job);
            assert_eq!(list_states(&host, &held), [Depend; 3], "{is_reload} {at}");
            finish_push(&mut host);
            assert_eq!(list_states(&host, &held), [Sched, Depend, Depend], "{is_reload} {at}");
            assert_no_drift(&host);
        }
    }
}

#[test]
fn a_job_that_starts_or_moves_during_a_push_releases_no_job() {
    let start: Action = |host, _, other_job| host.start_job(other_job);
    let move_job: Action =
        |host, _, other_job| host.force_update(other_job, Some("q2".to_owned()), Some("A".to_owned()));
    for (at, act) in [start, move_job].into_iter().enumerate() {
        let (mut host, running_job, held, other_job) = make_host_during_push(true);
        act(&mut host, running_job, other_job);
        assert_eq!(list_states(&host, &held), [Depend; 3], "{at}");
        finish_push(&mut host);
        assert_eq!(list_states(&host, &held), [Depend; 3], "{at}");
        host.end_job(running_job);
        assert_eq!(list_states(&host, &held), [Sched, Depend, Depend], "{at}");
        assert_no_drift(&host);
    }
}

#[test]
fn a_job_unblocked_during_a_push_waits_until_the_push_is_complete() {
    for is_reload in [true, false] {
        let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![one_job_queue()]);
        let jobs = [(); 4].map(|()| host.submit(make_job_in_queue().blocked_by("afterany:1")).unwrap());
        host.replay_jobs(is_reload, Engine::with_small_batches());
        host.send_event(records_event());
        for id in jobs {
            host.remove_dependency(id, "afterany:1");
        }
        host.run_until_idle();
        assert_eq!(
            list_states(&host, &jobs),
            [Priority; 4],
            "{is_reload}: the limit of the queue is unknown"
        );
        finish_push(&mut host);
        assert_eq!(list_states(&host, &jobs), [Sched, Priority, Priority, Priority], "{is_reload}");
        assert_no_drift(&host);
    }
}

/// A site may push data and never send a reprioritize. Only a job that was submitted before the data waits
/// for the reprioritize, and this job must not delay other jobs.
#[test]
fn a_job_submitted_after_a_push_does_not_wait_for_a_reprioritize() {
    let mut host = Host::new();
    let waiting_job = host.submit(HostJob::new(7)).unwrap();
    let one_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    host.send_event(Event::Associations(vec![record(one_association, "A")]));
    let running_job = host.run_new_job(HostJob::new(7));
    let held_job = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(list_states(&host, &[waiting_job, held_job]), [Priority, Depend]);
    host.end_job(running_job);
    assert_eq!(list_states(&host, &[waiting_job, held_job]), [Priority, Sched]);
    assert_no_drift(&host);
}

/// Returns a host in the middle of a push. User 7 has a running job, and three jobs that the queue's limit
/// holds. Users 7 and 8 share a bank that allows four running jobs.
fn make_host_during_push_with_bank_limit() -> (Host, JobId, [JobId; 3]) {
    let limits = vec![SiteLimit {
        target: Target::Bank("A".into()),
        queue: None,
        amount: Amount::parse("run-jobs").unwrap(),
        cap: Cap { limit: Limit(4), is_given: false },
    }];
    let settings = || Event::Settings(Settings { limits: limits.clone(), ..Settings::default() });
    let both = || Event::Associations([7, 8].map(|user| record(association(user, "A"), "A")).into());
    let mut host = Host::new();
    host.send_event(settings());
    host.send_event(both());
    finish_push(&mut host);
    let running_job = host.run_new_job(make_job_in_queue());
    let held = [(); 3].map(|()| host.submit(make_job_in_queue()).unwrap());
    let mut engine = Engine::with_small_batches();
    engine.handle(NOW, settings());
    host.replay_jobs(true, engine);
    host.send_event(both());
    (host, running_job, held)
}

/// The end of a job of user 8 starts a scan of the whole bank. The scan must not release the held jobs of
/// user 7.
#[test]
fn a_job_of_another_user_in_the_bank_releases_no_job_during_a_push() {
    let (mut host, running_job, held) = make_host_during_push_with_bank_limit();
    let jobs_of_8 = [(); 3].map(|()| host.submit(HostJob::new(8)).unwrap());
    jobs_of_8.into_iter().for_each(|id| host.start_job(id));
    jobs_of_8.into_iter().for_each(|id| host.end_job(id));
    assert_eq!(list_states(&host, &held), [Depend; 3]);
    finish_push(&mut host);
    assert_eq!(list_states(&host, &held), [Depend; 3]);
    host.end_job(running_job);
    assert_eq!(list_states(&host, &held), [Sched, Depend, Depend]);
    assert_no_drift(&host);
}

/// The push may never end. So a job that waits for its end must not keep headroom from other jobs, however many overtake it.
#[test]
fn a_job_that_waits_for_the_end_of_a_push_has_no_anti_starvation_reservation() {
    let (mut host, running_job, held) = make_host_during_push_with_bank_limit();
    let submit_other = |host: &mut Host| host.submit(HostJob::new(8)).unwrap();
    for _ in 0..=OVERTAKEN {
        let id = submit_other(&mut host);
        host.start_job(id);
        host.end_job(id);
    }
    let next_job = submit_other(&mut host);
    assert_eq!((host.state(next_job), list_states(&host, &held)), (Some(Sched), vec![Depend; 3]));
    finish_push(&mut host);
    host.end_job(running_job);
    assert_eq!(list_states(&host, &held), [Sched, Depend, Depend]);
    assert_no_drift(&host);
}
