// SPDX-License-Identifier: LGPL-3.0-only
//! Updates of a job's queue and bank: the updates that the plugin rejects, with their texts, and those that it always accepts.
//! Rules: L24

use super::host::Host;
use super::site::{HostJob, NOW, UNLIMITED, association, queue, record};
use super::strict::running_limit_settings;
use crate::accounts::{Association, Queue, RunningLimits};
use crate::engine::{Effect, Engine, Event, State, answers};
use crate::ids::{Limit, UserId};

#[test]
fn an_update_is_checked_against_the_new_queue_or_bank() {
    let b = Association { max_active_jobs: Limit(1), ..association(7, "B") };
    let c = Association { max_running_jobs: Limit(0), ..association(7, "C") };
    let d = Association { max_sched_jobs: Limit(0), ..association(7, "D") };
    let small_queue = Queue { max_sched_nodes_per_assoc: Limit(1), ..queue("q2") };
    let records = vec![record(association(7, "A"), "A"), record(b, "A"), record(c, "A"), record(d, "A")];
    let mut host = Host::with_data(records, vec![queue("q1"), small_queue, queue("q3")]);
    host.submit(HostJob::new(7).bank("B")).unwrap();
    let id = host.submit(HostJob::new(7).queue("q1").size(2, 2)).unwrap();
    let later = "is not allowed; try again later";
    for (queue, bank, text) in [
        (Some("q3"), None, "mf_priority: queue not valid for user: q3".to_owned()),
        (
            Some("q2"),
            None,
            format!("updating to queue q2 while it is already at max-sched-nodes-queue-limit limit {later}"),
        ),
        (None, Some("X"), "update_bank: cannot find flux-accounting entry for uid/bank: 7/X".to_owned()),
        (None, Some("B"), "new bank is already at max-active-jobs limit".to_owned()),
        (None, Some("C"), format!("updating to bank C while it is already at max-run-jobs limit {later}")),
        (
            None,
            Some("D"),
            format!("updating to bank D while it is already at max-sched-jobs-user-limit limit {later}"),
        ),
    ] {
        assert_eq!(host.update_job(id, queue, bank), Err(text));
    }
    assert_eq!(host.update_job(id, Some("unknown"), Some("A")), Ok(()));
    host.start_job(id);
    assert_eq!(
        host.update_job(id, None, Some("A")),
        Err("update of bank for running job not supported".to_owned())
    );
    assert_eq!(
        Host::new()
            .engine
            .handle(NOW, Event::UpdateBank { id, user: UserId(7), state: State::Sched, bank: "A" })
            .len(),
        1
    );
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

#[test]
fn an_update_of_queue_and_bank_is_checked_as_one_update() {
    let full_queue = Queue { max_sched_jobs: Limit(1), ..queue("q2") };
    let records = vec![record(association(7, "A"), "A"), record(association(7, "B"), "A")];
    let mut host = Host::with_data(records, vec![queue("q1"), full_queue]);
    host.submit(HostJob::new(7).bank("B").queue("q2")).unwrap();
    let id = host.submit(HostJob::new(7).queue("q1")).unwrap();
    let text = "updating to queue q2 while it is already at max-sched-jobs-queue-limit limit is not allowed; \
                try again later";
    assert_eq!(host.update_job(id, Some("q2"), Some("B")), Err(text.to_owned()));
    assert_eq!(host.update_job(id, Some("q2"), Some("A")), Ok(()), "its own bank has headroom");
    // Flux first validates each key alone, so the plugin checks bank B with the present queue q2. Two separate updates are accepted.
    assert!(host.update_job(id, Some("q1"), Some("B")).is_err());
    assert_eq!(host.update_job(id, Some("q1"), None), Ok(()));
    assert_eq!(host.update_job(id, None, Some("B")), Ok(()));
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

/// The release scan checks a held job later, so the update is accepted. A job that stays in its queue is not checked
/// again.
#[test]
fn an_update_of_a_held_job_or_to_the_same_queue_is_always_accepted() {
    let narrow_queue = |name: &str, cap| Queue { max_sched_jobs: Limit(cap), ..queue(name) };
    let records = vec![record(association(7, "A"), "A"), record(association(7, "B"), "A")];
    let mut host = Host::with_data(records, vec![narrow_queue("q1", 1), narrow_queue("q2", 1)]);
    for bank in ["A", "B"] {
        host.submit(HostJob::new(7).bank(bank).queue("q2")).unwrap();
    }
    let pending_job = host.submit(HostJob::new(7).queue("q1")).unwrap();
    let held_job = host.submit(HostJob::new(7).queue("q1")).unwrap();
    assert_eq!(host.states([pending_job, held_job]), [Some(State::Sched), Some(State::Depend)]);
    for bank in [None, Some("B")] {
        assert_eq!(host.update_job(held_job, Some("q2"), bank), Ok(()), "{bank:?}");
        assert_eq!(host.state(held_job), Some(State::Depend));
    }
    host.send_event(Event::Queues(vec![narrow_queue("q1", 0)]));
    assert_eq!(host.update_job(pending_job, Some("q1"), None), Ok(()));
    assert_eq!(host.state(pending_job), Some(State::Sched));
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

/// Under the default rule, two jobs may be in SCHED although only one of them may run.
#[test]
fn a_new_time_limit_does_not_apply_the_limits_of_the_queue_again() {
    let narrow_queue = Queue { max_running_jobs: Limit(1), ..queue("q1") };
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![narrow_queue]);
    let [running_job, pending_job] = [(); 2].map(|()| host.submit(HostJob::new(7).queue("q1")).unwrap());
    host.start_job(running_job);
    let priority = host.jobs[&pending_job].priority;
    for seconds in [7_200.0, 60.0] {
        assert_eq!(host.update_duration(pending_job, seconds), Ok(()));
        assert_eq!(
            (host.state(pending_job), host.jobs[&pending_job].priority),
            (Some(State::Sched), priority)
        );
    }
    assert_eq!(host.count_jobs(7, "A", State::Sched), 1);
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

#[test]
fn an_update_counts_only_running_jobs_for_a_limit_on_running_jobs() {
    let b = Association { max_running_jobs: Limit(1), ..association(7, "B") };
    let mut host = Host::with_data(vec![record(association(7, "A"), "A"), record(b, "A")], vec![queue("q1")]);
    let first_job = host.run_new_job(HostJob::new(7).bank("B"));
    let released_job = host.submit(HostJob::new(7).bank("B")).unwrap();
    assert_eq!(host.names(released_job), ["max-running-jobs-user-limit"]);
    let id = host.submit(HostJob::new(7)).unwrap();
    let text = "updating to bank B while it is already at max-run-jobs limit is not allowed; try again later";
    assert_eq!(host.update_job(id, None, Some("B")), Err(text.to_owned()));
    host.end_job(first_job);
    assert_eq!(host.state(released_job), Some(State::Sched));
    assert_eq!(host.update_job(id, None, Some("B")), Ok(()));
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

#[test]
fn an_unchecked_update_to_an_unknown_bank_is_logged_without_an_exception() {
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![queue("q1")]);
    let id = host.submit(HostJob::new(7)).unwrap();
    host.force_update(id, None, Some("lost".to_owned()));
    assert_eq!(host.state(id), Some(State::Sched));
    assert!(host.logged.iter().any(|line| line.contains("names bank \"lost\"")), "{:?}", host.logged);
    assert_eq!(host.count_jobs(7, "lost", State::Sched), 1);
    let bank = host.engine.ledger().job(id).and_then(|job| job.bank.clone()).unwrap();
    assert_eq!(bank.as_str(), "lost", "the bank in its jobspec");
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

/// Only the moved job had an unread eventlog in bank A. So the engine can check the other jobs of bank A after the
/// move, in a later reactor turn.
#[test]
fn a_job_that_moves_no_longer_delays_the_checks_of_jobs_in_its_old_bank() {
    let accounts = |running_job| {
        let narrow = |bank| Association { max_running_jobs: running_job, ..association(7, bank) };
        Event::Associations(vec![record(narrow("A"), "A"), record(narrow("B"), "A")])
    };
    let strict = || Event::Settings(running_limit_settings(RunningLimits::Strict, &[]));
    let mut host = Host::new();
    host.send_event(accounts(UNLIMITED));
    for bank in ["A", "B"] {
        host.run_new_job(HostJob::new(7).bank(bank));
    }
    let moved_job = host.submit(HostJob::new(7)).unwrap();
    let blocked_job = host.submit(HostJob::new(7).blocked_by("afterany:1")).unwrap();
    let mut engine = Engine::with_small_batches();
    for event in [strict(), accounts(Limit(1))] {
        host.oracle.apply_event(&event);
        engine.handle(NOW, event);
    }
    host.never_answered = [moved_job].into();
    host.replay_jobs(true, engine);
    assert_eq!(host.names(blocked_job), ["afterany:1"]);
    let job = HostJob { state: State::Priority, ..host.jobs[&moved_job].clone().bank("B") };
    let updated = host.clone().engine.handle(NOW, Event::Updated(Host::facts(moved_job, &job)));
    assert!(
        !updated.iter().any(|it| matches!(it, Effect::RemoveDependency(..) | Effect::Then(_))),
        "{updated:?}"
    );
    host.force_update(moved_job, None, Some("B".to_owned()));
    assert_eq!(host.names(blocked_job), ["afterany:1", "max-running-jobs-user-limit"]);
}
