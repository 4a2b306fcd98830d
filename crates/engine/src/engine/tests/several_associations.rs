// SPDX-License-Identifier: LGPL-3.0-only
//! Scans of several associations in one reactor turn. The scan of one association must not delay the scan of another.

use super::examples::assert_no_drift;
use super::host::Host;
use super::site::{HostJob, NOW, UNLIMITED, association, queue, record};
use crate::accounts::{Association, AssociationRecord, Queue};
use crate::engine::{Engine, Event, State};
use crate::ids::{JobId, Limit};
use State::{Depend, Sched};

fn make_records(most: Limit) -> Vec<AssociationRecord> {
    let limited_record = |user| record(Association { max_running_jobs: most, ..association(user, "A") }, "A");
    [7, 8, 9].map(limited_record).into()
}

fn one_job_queue(name: &str) -> Queue {
    Queue { max_running_jobs: Limit(1), ..queue(name) }
}

#[test]
fn a_push_releases_the_jobs_of_all_associations_in_one_reactor_turn() {
    let mut host = Host::with_data(make_records(Limit(1)), Vec::new());
    let held: Vec<JobId> = [7, 8, 9]
        .map(|user| {
            host.run_new_job(HostJob::new(user));
            host.submit(HostJob::new(user)).unwrap()
        })
        .into();
    assert!(held.iter().all(|id| host.state(*id) == Some(Depend)));
    for event in [Event::Associations(make_records(Limit(2))), Event::Reprioritize] {
        host.oracle.apply_event(&event);
        let effects = host.engine.handle(NOW, event);
        // `apply_effects` carries out the effects of this turn. It does not run the next turn.
        host.apply_effects(effects);
    }
    assert!(held.iter().all(|id| host.state(*id) == Some(Sched)), "{held:?}");
    host.run_until_idle();
    assert_no_drift(&host);
}

#[test]
fn a_scan_during_a_push_that_lowers_a_limit_counts_reservations() {
    let mut host = Host::with_data(make_records(UNLIMITED), vec![one_job_queue("q1"), one_job_queue("q2")]);
    let [running_job, held_job] = [(); 2].map(|()| host.run_new_job(HostJob::new(7).queue("q1")));
    let [ending_job, released_job] = [(); 2].map(|()| host.run_new_job(HostJob::new(7).queue("q2")));
    host.end_job(ending_job);
    assert_eq!((host.state(released_job), host.state(held_job)), (Some(Sched), Some(Depend)));
    let mut engine = Engine::with_small_batches();
    for event in
        [Event::Associations(make_records(UNLIMITED)), Event::Queues(vec![one_job_queue("q1"), queue("q2")])]
    {
        host.oracle.apply_event(&event);
        engine.handle(NOW, event);
    }
    host.replay_jobs(true, engine);
    host.send_event(Event::Associations(make_records(Limit(1))));
    host.end_job(running_job);
    host.run_until_idle();
    assert_eq!((host.state(released_job), host.state(held_job)), (Some(Sched), Some(Depend)));
    host.send_event(Event::Reprioritize);
    assert_no_drift(&host);
}

#[test]
fn jobs_are_checked_when_the_last_job_with_unread_eventlog_moves_away() {
    let mut host = Host::with_data(
        [make_records(UNLIMITED), vec![record(association(7, "B"), "A")]].concat(),
        vec![queue("q1")],
    );
    let staying_job = host.submit(HostJob::new(7).bank("A").blocked_by("keep=x")).unwrap();
    let moving_job = host.submit(HostJob::new(7).bank("A").blocked_by("keep=y")).unwrap();
    host.never_answered.insert(moving_job);
    let mut engine = Engine::with_small_batches();
    let none = [make_records(Limit(0)), vec![record(association(7, "B"), "A")]].concat();
    for event in [Event::Associations(none), Event::Queues(vec![queue("q1")])] {
        host.oracle.apply_event(&event);
        engine.handle(NOW, event);
    }
    host.replay_jobs(true, engine);
    assert_eq!(host.names(staying_job), ["keep=x"]);
    host.force_update(moving_job, None, Some("B".to_owned()));
    host.run_until_idle();
    assert_eq!(host.names(staying_job), ["keep=x", "max-running-jobs-user-limit"]);
}
