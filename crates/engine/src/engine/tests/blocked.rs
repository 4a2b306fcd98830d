// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that other plugins block in DEPEND: the order of releases, and which job is released instead of a blocked job.
//! Rules: R4, R10

use super::examples::{assert_no_drift, make_site, start, submit};
use super::host::Host;
use super::site::{HostJob, association, make_engine_with_associations, queue, record};
use crate::accounts::{Association, Queue};
use crate::engine::{Event, State};
use crate::ids::{JobId, Limit};
use crate::limits::{BlockState, Eligible};

#[test]
fn a_job_that_is_not_blocked_is_released_before_a_blocked_job() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let blocked_job = host.submit(HostJob::new(7).blocked_by("begin-time:9999")).unwrap();
    let second_blocked_job = host.submit(HostJob::new(7).blocked_by("afterany:1")).unwrap();
    let next_job = submit(&mut host, 1);
    host.end_job(job_a);
    assert_eq!(host.names(blocked_job), ["begin-time:9999", "max-running-jobs-user-limit"]);
    assert_eq!(host.names(second_blocked_job), ["afterany:1", "max-running-jobs-user-limit"]);
    assert_eq!(
        host.state(next_job),
        Some(State::Sched),
        "the next job that is not blocked takes the headroom"
    );
    host.unblock(blocked_job, "begin-time:9999");
    host.start_job(next_job);
    assert_no_drift(&host);
}

#[test]
fn an_unblocked_job_is_released_before_later_jobs() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let blocked_job = host.submit(HostJob::new(7).blocked_by("begin-time:9999")).unwrap();
    let unblocked_job = host.submit(HostJob::new(7).blocked_by("begin-time:1")).unwrap();
    let later_job = submit(&mut host, 1);
    host.unblock(unblocked_job, "begin-time:1");
    assert_eq!(host.names(unblocked_job), ["max-running-jobs-user-limit"]);
    host.end_job(job_a);
    assert_eq!(host.states([unblocked_job, later_job]), [Some(State::Sched), Some(State::Depend)]);
    assert_eq!(host.names(blocked_job), ["begin-time:9999", "max-running-jobs-user-limit"]);
    assert_no_drift(&host);
}

#[test]
fn a_held_job_is_released_as_soon_as_it_is_unblocked() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let blocked_job = host.submit(HostJob::new(7).blocked_by("begin-time:9999")).unwrap();
    let unblocked_job = host.submit(HostJob::new(7).blocked_by("begin-time:1")).unwrap();
    host.end_job(job_a);
    assert_eq!(host.names(unblocked_job), ["begin-time:1", "max-running-jobs-user-limit"]);
    host.unblock(unblocked_job, "begin-time:1");
    assert_eq!(
        host.state(unblocked_job),
        Some(State::Sched),
        "all limits have headroom, and nothing blocks the job"
    );
    assert_eq!(host.names(blocked_job), ["begin-time:9999"]);
    host.remove_dependency(blocked_job, "begin-time:9999");
    assert_eq!(
        host.names(blocked_job),
        ["max-running-jobs-user-limit.2"],
        "another job has taken the headroom"
    );
    assert_no_drift(&host);
}

#[test]
fn dependencies_of_other_plugins_are_tracked_after_a_reload() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let blocked_job = host.submit(HostJob::new(7).blocked_by("begin-time:9999")).unwrap();
    let unblocked_job = host.submit(HostJob::new(7).blocked_by("begin-time:1")).unwrap();
    host.remove_dependency(unblocked_job, "begin-time:1");
    // The eventlog adds the dependency a second time. Flux ignores it, because a dependency of this name was removed
    // before.
    host.jobs.get_mut(&unblocked_job).unwrap().log.push(("begin-time:1".to_owned(), true));
    let limited_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    host.replay_jobs(true, make_engine_with_associations(vec![record(limited_association, "A")]));
    let later_job = submit(&mut host, 1);
    host.end_job(job_a);
    assert_eq!(host.states([unblocked_job, later_job]), [Some(State::Sched), Some(State::Depend)]);
    assert_eq!(
        host.names(blocked_job),
        ["begin-time:9999", "max-running-jobs-user-limit"],
        "no event without an effect"
    );
    assert_no_drift(&host);
}

#[test]
fn a_blocked_job_delays_no_other_job() {
    let mut host = make_site(|job_a| job_a.max_nodes = Limit(4));
    let job_a = start(&mut host, 4);
    let blocked_job = host.submit(HostJob::new(7).size(3, 3).blocked_by("begin-time:9999")).unwrap();
    let (large_job, small_job) = (submit(&mut host, 4), submit(&mut host, 1));
    host.end_job(job_a);
    assert_eq!(
        host.states([large_job, small_job]),
        [Some(State::Sched), Some(State::Depend)],
        "in the order of ids"
    );
    assert_eq!(
        host.names(blocked_job),
        ["begin-time:9999", "max-resources-user-limit"],
        "no event without an effect"
    );
    assert_no_drift(&host);
}

#[test]
fn if_a_job_has_an_undeclared_dependency_the_next_job_is_released_instead() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let (blocked_job, next_job) = (submit(&mut host, 1), submit(&mut host, 1));
    // The jobspec does not declare the dependency, so the plugin is not subscribed and gets no event about it.
    host.jobs.get_mut(&blocked_job).unwrap().dependencies.insert("license".to_owned());
    host.end_job(job_a);
    assert_eq!(host.names(blocked_job), ["license"]);
    assert_eq!(host.state(next_job), Some(State::Sched));
    assert_no_drift(&host);
}

/// Returns a host with one running job, and a held job that another plugin also blocks. The jobspec does not declare that dependency.
fn make_host_with_dependency() -> (Host, JobId, JobId) {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    let running_job = start(&mut host, 1);
    let blocked_job = submit(&mut host, 1);
    let job = host.jobs.get_mut(&blocked_job).unwrap();
    job.dependencies.insert("license".to_owned());
    job.log.push(("license".to_owned(), true));
    (host, running_job, blocked_job)
}

#[test]
fn no_dependency_is_added_to_a_blocked_job_when_other_jobs_end() {
    let (mut host, mut running_job, blocked_job) = make_host_with_dependency();
    for _ in 0..5 {
        let next_job = submit(&mut host, 1);
        host.end_job(running_job);
        assert_eq!(host.state(next_job), Some(State::Sched));
        host.start_job(next_job);
        running_job = next_job;
    }
    let events = host.jobs[&blocked_job].log.iter().filter(|(name, _)| name.starts_with("max-")).count();
    assert_eq!(events, 2, "added once and removed once: {:?}", host.jobs[&blocked_job].log);
    host.unblock(blocked_job, "license");
    assert_eq!(host.names(blocked_job), ["max-running-jobs-user-limit.2"]);
    host.end_job(running_job);
    assert_eq!(host.state(blocked_job), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_replay_restores_dependencies_absent_from_the_jobspec_and_their_removal() {
    for is_reload in [true, false] {
        let (mut host, running_job, blocked_job) = make_host_with_dependency();
        let limited_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
        host.replay_jobs(is_reload, make_engine_with_associations(vec![record(limited_association, "A")]));
        let later_job = submit(&mut host, 1);
        assert!(
            host.engine.ledger().job(blocked_job).unwrap().block_state == BlockState::Blocked,
            "reload {is_reload}"
        );
        host.unblock(blocked_job, "license");
        assert!(
            host.engine.ledger().job(blocked_job).unwrap().block_state == BlockState::Unblocked,
            "reload {is_reload}"
        );
        host.end_job(running_job);
        assert_eq!(host.states([blocked_job, later_job]), [Some(State::Sched), Some(State::Depend)]);
        assert_no_drift(&host);
    }
}

#[test]
fn a_blocked_job_that_no_limit_holds_is_checked_when_it_is_unblocked() {
    for has_declared_dependencies in [true, false] {
        let mut host = make_site(|a| a.max_nodes = Limit(1));
        let blocked = [(); 4].map(|()| {
            host.submit(HostJob { has_declared_dependencies, ..HostJob::new(7).blocked_by("license") })
                .unwrap()
        });
        let running_job = start(&mut host, 1);
        for id in blocked {
            host.remove_dependency(id, "license");
        }
        host.run_until_idle();
        for id in blocked {
            assert_eq!(host.names(id), ["max-resources-user-limit"], "declared: {has_declared_dependencies}");
        }
        host.end_job(running_job);
        let states = blocked.map(|id| host.state(id) == Some(State::Sched));
        assert_eq!(states, [true, false, false, false], "declared: {has_declared_dependencies}");
        assert_no_drift(&host);
    }
}

#[test]
fn jobs_that_wait_for_one_job_respect_the_limit_of_their_queue() {
    let full_queue = Queue { max_nodes_per_assoc: Limit(1), ..queue("q1") };
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![full_queue]);
    let four_job =
        [(); 4].map(|()| host.submit(HostJob::new(7).queue("q1").blocked_by("afterany:K")).unwrap());
    for id in four_job {
        host.remove_dependency(id, "afterany:K");
    }
    host.run_until_idle();
    assert_eq!(host.states(four_job), [State::Sched, State::Depend, State::Depend, State::Depend].map(Some));
    assert_eq!(host.names(four_job[1]), ["max-resources-queue"]);
    for [ended_job, next_job] in [[four_job[0], four_job[1]], [four_job[1], four_job[2]]] {
        host.start_job(ended_job);
        host.end_job(ended_job);
        assert_eq!(host.state(next_job), Some(State::Sched));
    }
    assert_no_drift(&host);
}

#[test]
fn limits_are_checked_when_the_last_dependency_of_other_plugins_is_removed() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    let blocked_job =
        host.submit(HostJob::new(7).blocked_by("begin-time:1").blocked_by("afterany:2")).unwrap();
    start(&mut host, 1);
    host.unblock(blocked_job, "afterany:2");
    assert_eq!(host.names(blocked_job), ["begin-time:1"]);
    host.remove_dependency(blocked_job, "begin-time:1");
    assert_eq!(host.names(blocked_job), ["max-running-jobs-user-limit"]);
    assert_no_drift(&host);
}

/// While a callback of a job runs, Flux queues the removal of the job's dependencies. So a later job of the same scan
/// leaves DEPEND before the updated job. The later job must not take the headroom that is reserved for the updated job.
#[test]
fn a_job_released_by_its_own_update_reserves_headroom_before_later_jobs() {
    for (limit, released) in [(2, [true, true]), (1, [true, false])] {
        let mut host = make_site(|a| (a.max_running_jobs, a.max_sched_jobs) = (Limit(0), Limit(0)));
        let undeclared =
            || HostJob { has_declared_dependencies: false, ..HostJob::new(7).blocked_by("license") };
        let earlier_job = submit(&mut host, 1);
        let blocked = [(); 2].map(|()| host.submit(undeclared()).unwrap());
        let later = submit(&mut host, 1);
        let mut raised = association(7, "A");
        (raised.max_running_jobs, raised.max_sched_jobs) = (Limit(limit), Limit(limit));
        host.send_event(Event::Associations(vec![record(raised, "A")]));
        assert_eq!(
            host.states([earlier_job, later]),
            [Some(State::Depend); 2],
            "a push alone releases no job"
        );
        host.update_job(earlier_job, Some("unknown"), None).unwrap();
        assert_eq!(
            [earlier_job, later].map(|id| host.state(id) == Some(State::Sched)),
            released,
            "limit {limit}"
        );
        for id in blocked {
            assert_eq!(host.state(id), Some(State::Depend));
        }
        assert_no_drift(&host);
    }
}

#[test]
fn a_job_with_an_unreadable_eventlog_gets_an_unused_dependency_name() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let blocked_job = host.submit(HostJob::new(7).blocked_by("license 0")).unwrap();
    host.unreadable.insert(blocked_job);
    for life in 1..4 {
        let limited_association = Association { max_sched_jobs: Limit(1), ..association(7, "A") };
        host.replay_jobs(false, make_engine_with_associations(vec![record(limited_association, "A")]));
        let running_job = submit(&mut host, 1);
        // The running job takes the headroom, so the blocked job is held and needs a new dependency name. The
        // model host refuses a name that was removed once.
        host.unblock(blocked_job, &format!("license {}", life - 1));
        assert_eq!(host.names(blocked_job).len(), 1, "{:?}", host.names(blocked_job));
        let next = format!("license {life}");
        host.jobs.get_mut(&blocked_job).unwrap().dependencies.insert(next.clone());
        host.end_job(running_job);
        assert_eq!(host.names(blocked_job), [next]);
    }
    assert_no_drift(&host);
}

/// Flux does not report the urgency of a job in DEPEND. So the engine assumes that a job submitted at urgency 0 still has urgency 0.
#[test]
fn an_unblocked_job_begins_to_age_unless_it_was_submitted_at_urgency_0() {
    for (urgency, counts) in [(16, true), (0, false)] {
        let mut host = make_site(|a| a.max_sched_jobs = Limit(0));
        let blocked_job =
            host.submit(HostJob { urgency, ..HostJob::new(7).blocked_by("begin-time:1") }).unwrap();
        let since = |host: &Host| host.engine.ledger().job(blocked_job).unwrap().eligible;
        assert!(matches!(since(&host), Eligible::For(_)), "{urgency}");
        host.unblock(blocked_job, "begin-time:1");
        assert_eq!(host.names(blocked_job), ["max-sched-jobs-user-limit"]);
        assert_eq!(matches!(since(&host), Eligible::Since(_)), counts, "{urgency}");
    }
}
