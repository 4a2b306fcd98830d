// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of pushes whose data arrive in any order, and of priorities that the engine computes from incomplete data.
//! Also tests jobs that Flux does not schedule.
//! Rules: R17, D2

use super::examples::{assert_no_drift, make_site, restart_without_data, site_of_fairshare, start, submit};
use super::host::Host;
use super::site::{
    HostJob, NOW, OWNER, UNLIMITED, association, make_engine_with_associations, queue, record,
};
use crate::accounts::{Association, AssociationRecord, Queue};
use crate::engine::{Engine, Event, State, Timer};
use crate::ids::{JobId, Limit};

/// Returns a host where one job may run. Two jobs were held while a third job ran. The third job has ended, so the
/// first of the two is released.
fn make_host_with_second_job_held() -> (Host, [JobId; 2]) {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    let running_job = start(&mut host, 1);
    let held = [submit(&mut host, 1), submit(&mut host, 1)];
    host.end_job(running_job);
    assert_eq!(host.states(held), [Some(State::Sched), Some(State::Depend)]);
    (host, held)
}

#[test]
fn a_job_whose_score_falls_to_0_gives_its_reservation_to_the_next_job() {
    let (mut host, [freed, next_job]) = make_host_with_second_job_held();
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), 0)]));
    assert_eq!(host.state(next_job), Some(State::Depend), "weights alone release no job");
    host.send_event(Event::Reprioritize);
    assert_eq!(host.jobs[&freed].priority, Some(0));
    assert_eq!(host.state(next_job), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_released_job_of_score_0_reserves_no_headroom_to_run() {
    let mut host = site_of_fairshare(0.0, |a| a.max_running_jobs = Limit(1));
    host.send_event(Event::Queues(vec![Queue { priority: 1, ..queue("q1") }, queue("q2")]));
    let running_job = host.run_new_job(HostJob::new(7).queue("q1"));
    let zero = submit(&mut host, 1);
    let next = host.submit(HostJob::new(7).queue("q1")).unwrap();
    host.end_job(running_job);
    assert_eq!(host.states([zero, next]), [Some(State::Sched); 2]);
    assert_eq!([zero, next].map(|id| host.jobs[&id].priority), [Some(0), Some(10_000)]);
    assert_no_drift(&host);
}

#[test]
fn a_job_updated_to_a_score_of_0_gives_its_reservation_to_the_next_job() {
    let mut host = site_of_fairshare(0.0, |a| a.max_running_jobs = Limit(1));
    host.send_event(Event::Queues(vec![Queue { priority: 1, ..queue("q1") }, queue("q2")]));
    let mut submit = || host.submit(HostJob::new(7).queue("q1")).unwrap();
    let [running_job, freed_job, next_job] = [submit(), submit(), submit()];
    host.start_job(running_job);
    // Only a job that was held has a reservation. The second and third jobs were never held.
    let [held_job, last_job] = [(); 2].map(|()| host.submit(HostJob::new(7).queue("q1")).unwrap());
    host.end_job(freed_job);
    host.end_job(next_job);
    host.end_job(running_job);
    assert_eq!(host.states([held_job, last_job]), [Some(State::Sched), Some(State::Depend)]);
    host.update_job(held_job, Some("q2"), None).unwrap();
    assert_eq!(host.jobs[&held_job].priority, Some(0));
    assert_eq!(host.state(last_job), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn the_site_data_in_force_at_posting_time_determine_the_priority() {
    let mut host = make_site(|_| ());
    let id = submit(&mut host, 1);
    restart_without_data(&mut host, id);
    host.send_event(Event::Associations(vec![record(association(7, "A"), "A")]));
    // The first part of another push comes between the reprioritize and the next reactor turn.
    let effects = host.engine.handle(NOW, Event::Reprioritize);
    host.apply_effects(effects);
    assert_eq!(host.state(id), Some(State::Priority));
    let better = AssociationRecord { fairshare: 0.75, ..record(association(7, "A"), "A") };
    host.engine.handle(NOW, Event::Associations(vec![better]));
    host.run_until_idle();
    assert_eq!((host.state(id), host.jobs[&id].priority), (Some(State::Sched), Some(75_000)));
    assert_no_drift(&host);
}

#[test]
fn a_priority_uses_the_urgency_at_the_moment_when_it_is_set() {
    let mut host = make_site(|_| ());
    let id = submit(&mut host, 1);
    restart_without_data(&mut host, id);
    host.send_event(Event::Associations(vec![record(association(7, "A"), "A")]));
    let effects = host.engine.handle(NOW, Event::Reprioritize);
    host.apply_effects(effects);
    host.jobs.get_mut(&id).unwrap().urgency = 20;
    host.run_until_idle();
    assert_eq!((host.state(id), host.jobs[&id].priority), (Some(State::Sched), Some(54_000)));
}

/// Reloads the plugin with data. Returns a job in SCHED and a held job. The held job is held for the second
/// time, so its dependency has the suffix `.2`. If `is_unreadable`, the eventlog of the held job cannot be
/// read.
fn replay_job_held_twice(is_unreadable: bool, has_job_list: bool) -> (Host, JobId, JobId) {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let first_job = submit(&mut host, 1);
    let held_job = host.submit(HostJob::new(7).blocked_by("begin-time:1")).unwrap();
    host.end_job(first_job);
    let second_job = submit(&mut host, 1);
    host.unblock(held_job, "begin-time:1");
    assert_eq!(host.names(held_job), ["max-sched-jobs-user-limit.2"]);
    if is_unreadable {
        host.unreadable.insert(held_job);
    }
    host.has_job_list = has_job_list;
    let limited_association = Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    host.replay_jobs(true, make_engine_with_associations(vec![record(limited_association, "A")]));
    (host, second_job, held_job)
}

#[test]
fn job_list_supplies_the_dependencies_if_an_eventlog_cannot_be_read() {
    let (mut host, second_job, held_job) = replay_job_held_twice(true, true);
    host.end_job(second_job);
    assert_eq!(host.state(held_job), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_job_whose_dependencies_are_unknown_stays_held_and_delays_no_other_job() {
    let (mut host, second_job, held_job) = replay_job_held_twice(true, false);
    assert!(host.logged.iter().any(|line| line.contains("eventlog can't be read")), "{:?}", host.logged);
    let next_job = submit(&mut host, 1);
    host.end_job(second_job);
    assert_eq!(host.names(held_job), ["max-sched-jobs-user-limit.2"]);
    assert_eq!(
        host.state(next_job),
        Some(State::Sched),
        "the scan skips the job whose dependencies are unknown"
    );
    host.fire_retry_timer();
    assert_eq!(host.logged.iter().filter(|line| line.contains("can't be read")).count(), 1, "logged once");
    host.unreadable.clear();
    host.fire_retry_timer();
    host.end_job(next_job);
    assert_eq!(host.state(held_job), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_dependency_name_is_not_reused_if_the_eventlog_cannot_be_read() {
    let mut host = make_site(|a| (a.max_sched_jobs, a.max_running_jobs) = (Limit(1), Limit(1)));
    let first_job = submit(&mut host, 1);
    let held_job = host.submit(HostJob::new(7).blocked_by("begin-time:1")).unwrap();
    host.end_job(first_job);
    assert_eq!(host.names(held_job), ["begin-time:1"], "the limit no longer holds the job");
    // The name without a suffix was removed from the job, so Flux does not accept this name again.
    host.unreadable.insert(held_job);
    let limited_association = Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    host.replay_jobs(true, make_engine_with_associations(vec![record(limited_association, "A")]));
    let second_job = submit(&mut host, 1);
    // After the reload, the engine cannot read which names were removed from the job. So it must use a name that the
    // job never had.
    host.remove_dependency(held_job, "begin-time:1");
    assert_eq!(host.names(held_job).len(), 1, "{:?}", host.names(held_job));
    host.end_job(second_job);
    assert_eq!(host.state(held_job), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn eventlogs_are_read_only_if_a_limit_is_within_reach() {
    let unlimited = UNLIMITED.0;
    // Each row has the limit on running jobs, the limit on nodes, the number of jobs in SCHED, and the expected number
    // of read eventlogs.
    for (max_running, max_nodes, jobs, read) in [
        (unlimited, unlimited, 5, 0),
        (7, unlimited, 5, 0),
        (6, unlimited, 5, 0),
        (5, unlimited, 5, 5),
        (1, unlimited, 5, 5),
        (unlimited, 1_000, 5, 5),
    ] {
        let mut host = make_site(|_| ());
        for _ in 0..jobs {
            submit(&mut host, 1);
        }
        let mut limited_association = association(7, "A");
        (limited_association.max_running_jobs, limited_association.max_nodes) =
            (Limit(max_running), Limit(max_nodes));
        host.requested_reads = 0;
        host.replay_jobs(true, make_engine_with_associations(vec![record(limited_association, "A")]));
        assert_eq!(host.requested_reads, read, "running {max_running}, nodes {max_nodes}, {jobs} jobs");
    }
}

#[test]
fn an_association_is_scanned_when_its_own_eventlogs_are_read() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    let running_job = [submit(&mut host, 1), submit(&mut host, 1)];
    host.start_job(running_job[0]);
    host.start_job(running_job[1]);
    let held_job = submit(&mut host, 1);
    let other_association = Association { max_running_jobs: Limit(0), ..association(8, "A") };
    let both = || vec![record(association(7, "A"), "A"), record(other_association.clone(), "A")];
    host.send_event(Event::Associations(vec![record(other_association.clone(), "A")]));
    let foreign_job = host.submit(HostJob::new(8)).unwrap();
    let mut engine = Engine::with_small_batches();
    host.oracle.apply_event(&Event::Associations(both()));
    engine.handle(NOW, Event::Associations(both()));
    host.never_answered.insert(foreign_job);
    host.replay_jobs(true, engine);
    assert_eq!(
        host.state(held_job),
        Some(State::Sched),
        "the limit was raised, and the eventlogs of its association are read"
    );
    assert_eq!(host.state(foreign_job), Some(State::Depend));
}

#[test]
fn an_owners_job_goes_to_sched_whether_the_owners_record_comes_first_or_last() {
    let owner = OWNER.0;
    let mine = || vec![record(Association { queues: [].into(), ..association(owner, "me") }, "me")];
    for bank in [None, Some("me")] {
        for record_first in [true, false] {
            let mut host = Host::new();
            let id = host.submit(HostJob { bank: bank.map(str::to_owned), ..HostJob::new(owner) }).unwrap();
            assert_eq!(host.state(id), Some(State::Priority));
            if record_first {
                host.send_event(Event::Associations(mine()));
            }
            // A push by flux-accounting sends the data of all users, then a reprioritize, and then the record of the
            // owner.
            host.send_event(Event::Queues(vec![queue("q1")]));
            host.push(vec![record(association(7, "A"), "A")]);
            if !record_first {
                assert_eq!(host.state(id), Some(State::Priority), "{bank:?}");
                host.send_event(Event::Associations(mine()));
            }
            assert_eq!(host.state(id), Some(State::Sched), "{bank:?}, record first: {record_first}");
            assert_eq!(host.jobs[&id].bank.as_deref(), Some("me"));
            host.fire_retry_timer();
            assert_eq!(host.exceptions, []);
            assert_no_drift(&host);
        }
    }
}

/// When the job manager restarts, Flux sends a job that was in SCHED to PRIORITY. flux-accounting pushes the owner's
/// record after the reprioritize. So the engine must not end the owner's job at the reprioritize.
#[test]
fn an_instance_owners_job_enters_sched_at_the_first_push_after_restart() {
    let owner = OWNER.0;
    let mine = || Event::Associations(vec![record(association(owner, "me"), "me")]);
    for bank in [None, Some("me")] {
        for is_reload in [true, false] {
            let mut host = Host::new();
            host.send_event(mine());
            let id = host.submit(HostJob { bank: bank.map(str::to_owned), ..HostJob::new(owner) }).unwrap();
            assert_eq!(host.state(id), Some(State::Sched));
            host.replay_jobs(is_reload, Engine::with_small_batches());
            host.push(vec![record(association(7, "A"), "A")]);
            host.send_event(mine());
            assert_eq!(host.state(id), Some(State::Sched), "{bank:?}, reload {is_reload}");
            assert_no_drift(&host);
        }
    }
}

#[test]
fn the_owners_job_gets_an_exception_if_its_bank_stays_unknown() {
    // flux-accounting's test t1012 runs as the instance owner, and requires that this job ends with an exception.
    let owner = OWNER.0;
    let mut host = Host::new();
    let id = host.submit(HostJob::new(owner).bank("nowhere")).unwrap();
    host.push(vec![record(association(owner, "A"), "A")]);
    assert_eq!(
        (host.state(id), host.exceptions.len()),
        (Some(State::Priority), 0),
        "the owner's record may still come"
    );
    host.now += 5.0;
    host.fire_retry_timer();
    let text = format!("cannot find user/bank or user/default bank entry for uid: {owner}");
    assert_eq!(host.exceptions, [(id, text)]);
}

#[test]
fn the_record_that_flux_accounting_creates_for_the_owner_allows_every_queue() {
    let owner = OWNER.0;
    let one_association = Association { queues: [].into(), ..association(owner, "me") };
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![queue("q1")]);
    host.send_event(Event::Associations(vec![record(one_association, "me")]));
    assert!(host.submit(HostJob::new(owner).queue("q1")).is_ok());
    // A user who is not the owner may use only the queues in their record. The record of user 8 has none.
    let none = Association { queues: [].into(), ..association(8, "A") };
    host.send_event(Event::Associations(vec![record(none, "A")]));
    let refused_job = host.submit(HostJob::new(8).queue("q1"));
    assert_eq!(refused_job, Err("queue \"q1\" not valid for user; valid queues for user: ".to_owned()));
}

#[test]
fn updated_records_release_no_job_before_the_next_reprioritize_request() {
    let mut host = Host::new();
    let id = host.submit(HostJob::new(7)).unwrap();
    host.push(vec![record(association(8, "A"), "A")]);
    host.send_event(Event::Associations(vec![record(association(7, "A"), "A")]));
    assert_eq!(host.state(id), Some(State::Priority));
    host.send_event(Event::Reprioritize);
    assert_eq!(host.state(id), Some(State::Sched));
}

#[test]
fn an_incomplete_push_neither_releases_nor_holds_a_job() {
    for is_reload in [true, false] {
        // One job may run in queue q1. The association itself has no limit.
        let one_queue = Queue { max_running_jobs: Limit(1), ..queue("q1") };
        let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![one_queue.clone()]);
        let job = || HostJob::new(7).queue("q1");
        let running_job = host.run_new_job(job());
        let held = [(); 3].map(|()| host.submit(job()).unwrap());
        let free_job = host.submit(HostJob::new(7).blocked_by("begin-time:9999")).unwrap();
        host.replay_jobs(is_reload, Engine::with_small_batches());
        // The associations arrive before the queues. Without the limits of queues, all held jobs could be released.
        let none = Association { max_nodes: Limit(1), ..association(7, "A") };
        host.send_event(Event::Associations(vec![record(none, "A")]));
        for id in held {
            assert_eq!(host.names(id), ["max-run-jobs-queue"], "reload {is_reload}");
        }
        assert_eq!(host.names(free_job), ["begin-time:9999"]);
        host.send_event(Event::Queues(vec![one_queue]));
        host.send_event(Event::Reprioritize);
        let states = host.states(held);
        assert_eq!(states, [Some(State::Depend); 3], "reload {is_reload}");
        assert_eq!(
            host.names(free_job),
            ["begin-time:9999", "max-resources-user-limit"],
            "the end of the push checks the job"
        );
        host.end_job(running_job);
        assert_eq!(held.map(|id| host.state(id) == Some(State::Sched)), [true, false, false]);
        assert_no_drift(&host);
    }
}

#[test]
fn the_project_of_a_waiting_job_is_checked_after_the_first_push() {
    // Each row has the project at submission, the project after an update before the data come, and whether the second project is valid.
    for (first, project, is_valid) in
        [("*", "*", true), ("secret", "secret", false), ("*", "secret", false), ("secret", "*", true)]
    {
        let mut host = Host::new();
        let id = host.submit(HostJob { project: Some(first.to_owned()), ..HostJob::new(7) }).unwrap();
        let updated = HostJob { project: Some(project.to_owned()), ..host.jobs[&id].clone() };
        host.engine.handle(NOW, Event::Updated(Host::facts(id, &updated)));
        host.jobs.insert(id, updated);
        host.send_event(Event::Projects(vec!["*".into(), "secret".into()]));
        host.push(vec![record(association(7, "A"), "A")]);
        if is_valid {
            assert_eq!(host.state(id), Some(State::Sched));
        } else {
            let text = "project \"secret\" not valid for user; valid projects for user: *";
            assert_eq!(host.exceptions, [(id, text.to_owned())]);
        }
        assert_no_drift(&host);
    }
}

#[test]
fn a_reactor_turn_without_jobs_to_recheck_has_no_effects() {
    let mut host = make_site(|_| ());
    for _ in 0..50 {
        submit(&mut host, 1);
    }
    assert!(host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn)).is_empty());
}
