// SPDX-License-Identifier: LGPL-3.0-only
//! Examples of the release rule.
//! Rules: R2, R4, R5, R6, R9, R16

use super::host::Host;
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::{Association, AssociationRecord, Queue};
use crate::engine::{Engine, Event, State};
use crate::ids::{JobId, Limit};

pub fn make_site(change: impl FnOnce(&mut Association)) -> Host {
    site_of_fairshare(0.5, change)
}

pub fn site_of_fairshare(fairshare: f64, change: impl FnOnce(&mut Association)) -> Host {
    let mut one_association = association(7, "A");
    change(&mut one_association);
    Host::with_data(
        vec![AssociationRecord { fairshare, ..record(one_association, "A") }],
        vec![queue("q1"), queue("q2")],
    )
}

pub fn submit(host: &mut Host, nodes: u64) -> JobId {
    host.submit(HostJob::new(7).size(nodes, nodes)).unwrap()
}

/// Submits a job of user 7, and starts it if it is in SCHED.
pub fn start(host: &mut Host, nodes: u64) -> JobId {
    host.run_new_job(HostJob::new(7).size(nodes, nodes))
}

/// Returns a host in which user 7 may run one job, a running job of this user, and `N` held jobs.
pub fn make_host_with_held_jobs<const N: usize>() -> (Host, JobId, [JobId; N]) {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    let running_job = start(&mut host, 1);
    let held = [(); N].map(|()| submit(&mut host, 1));
    assert!(held.iter().all(|id| host.state(*id) == Some(State::Depend)));
    (host, running_job, held)
}

/// Checks that the counters of the engine equal its recount.
pub fn assert_no_drift(host: &Host) {
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}

#[test]
fn one_free_slot_releases_one_job() {
    let mut host = make_site(|job_a| job_a.max_sched_jobs = Limit(2));
    let [job_a, job_b, job_c, job_d, job_e] = [(); 5].map(|()| {
        let id = submit(&mut host, 1);
        if host.engine.ledger().jobs().count() == 1 {
            host.start_job(id);
        }
        id
    });
    assert_eq!(host.names(job_d), ["max-sched-jobs-user-limit"]);
    host.start_job(job_b);
    assert_eq!(host.states([job_d, job_e]), [Some(State::Sched), Some(State::Depend)]);
    host.end_job(job_a);
    assert_eq!(host.state(job_e), Some(State::Depend));
    host.start_job(job_c);
    assert_eq!(host.state(job_e), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_job_loses_satisfied_dependencies_at_once_and_reserves_headroom_at_release() {
    let mut host = make_site(|job_a| (job_a.max_running_jobs, job_a.max_nodes) = (Limit(2), Limit(3)));
    let job_a = start(&mut host, 2);
    let job_b = start(&mut host, 1);
    let job_c = submit(&mut host, 2);
    assert_eq!(host.names(job_c), ["max-resources-user-limit", "max-running-jobs-user-limit"]);
    host.end_job(job_b);
    assert_eq!(host.names(job_c), ["max-resources-user-limit"]);
    // Job c has reserved nothing, so another job may take the free headroom.
    let job_d = submit(&mut host, 1);
    assert_eq!(host.state(job_d), Some(State::Sched));
    host.start_job(job_d);
    host.end_job(job_a);
    assert_eq!(host.state(job_c), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_job_stays_held_if_another_job_reserves_the_freed_headroom() {
    let mut host = make_site(|job_a| (job_a.max_running_jobs, job_a.max_nodes) = (Limit(2), Limit(3)));
    let job_a = start(&mut host, 2);
    let job_b = start(&mut host, 1);
    let job_c = submit(&mut host, 2);
    host.end_job(job_b);
    start(&mut host, 1);
    let job_e = submit(&mut host, 1);
    assert_eq!(host.names(job_e), ["max-resources-user-limit", "max-running-jobs-user-limit"]);
    host.end_job(job_a);
    // Job c takes the headroom that job a leaves. Job e stays held, because one node is in use and two nodes are
    // reserved.
    assert_eq!(host.state(job_c), Some(State::Sched));
    assert_eq!(host.state(job_e), Some(State::Depend));
    assert_no_drift(&host);
}

#[test]
fn the_reservation_of_a_blocked_job_counts_in_its_release_scan_only() {
    let mut host = make_site(|job_a| job_a.max_sched_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let job_b = submit(&mut host, 1);
    let job_c = host.submit(HostJob::new(7).blocked_by("afterany:a")).unwrap();
    let job_d = host.submit(HostJob::new(7).blocked_by("afterany:a")).unwrap();
    host.end_job(job_b);
    assert_eq!(host.names(job_c), ["afterany:a"]);
    assert_eq!(host.names(job_d), ["afterany:a", "max-sched-jobs-user-limit"]);
    host.remove_dependency(job_c, "afterany:a");
    host.remove_dependency(job_d, "afterany:a");
    host.end_job(job_a);
    assert_eq!(host.states([job_c, job_d]), [Some(State::Sched), Some(State::Depend)]);
    host.start_job(job_c);
    assert_eq!(host.state(job_d), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_blocked_job_is_checked_again_when_it_is_unblocked() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let job_b = submit(&mut host, 1);
    let job_c = host.submit(HostJob::new(7).blocked_by("afterany:x")).unwrap();
    host.end_job(job_b);
    assert_eq!(host.names(job_c), ["afterany:x"]);
    let job_d = submit(&mut host, 1);
    assert_eq!(host.state(job_d), Some(State::Sched));
    assert_eq!(host.names(job_c), ["afterany:x"], "no event while the job is blocked anyway");
    host.remove_dependency(job_c, "afterany:x");
    assert_eq!(host.state(job_c), Some(State::Depend));
    assert_eq!(host.names(job_c), ["max-sched-jobs-user-limit.2"]);
    host.end_job(job_d);
    assert_eq!(host.state(job_c), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn cores_are_reserved_within_a_release_scan() {
    let mut host = make_site(|job_a| job_a.max_cores = Limit(2));
    let [job_a, job_b, job_c] = [(); 3].map(|()| start(&mut host, 2));
    host.end_job(job_a);
    assert_eq!(host.states([job_b, job_c]), [Some(State::Sched), Some(State::Depend)]);
    assert_no_drift(&host);
}

#[test]
fn headroom_of_a_released_job_is_kept_until_it_runs() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let (job_b, job_c) = (submit(&mut host, 1), submit(&mut host, 1));
    host.end_job(job_a);
    host.send_event(Event::Reprioritize);
    assert_eq!(host.states([job_b, job_c]), [Some(State::Sched), Some(State::Depend)]);
    // A job at urgency 0 gives its reservation to the next job.
    host.set_urgency(job_b, 0);
    assert_eq!(host.state(job_c), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_small_job_overtakes_one_that_does_not_fit() {
    let mut host = make_site(|job_a| job_a.max_nodes = Limit(4));
    start(&mut host, 3);
    let job_b = submit(&mut host, 4);
    let job_x = start(&mut host, 1);
    let job_c = submit(&mut host, 1);
    host.end_job(job_x);
    assert_eq!(host.states([job_b, job_c]), [Some(State::Depend), Some(State::Sched)]);
    assert_no_drift(&host);
}

#[test]
fn a_limit_of_a_queue_holds_only_jobs_of_the_queue() {
    let full_queue = Queue { max_running_jobs: Limit(1), ..queue("q1") };
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![full_queue, queue("q2")]);
    host.run_new_job(HostJob::new(7).queue("q1"));
    let job_b = host.submit(HostJob::new(7).queue("q1")).unwrap();
    let job_c = host.run_new_job(HostJob::new(7).queue("q2"));
    assert_eq!(host.names(job_b), ["max-run-jobs-queue"]);
    host.end_job(job_c);
    assert_eq!(host.names(job_b), ["max-run-jobs-queue"]);
    host.update_job(job_b, Some("q2"), None).unwrap();
    assert_eq!(host.state(job_b), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_raised_limit_counts_at_the_next_reprioritize() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    start(&mut host, 1);
    let job_b = submit(&mut host, 1);
    let more_association = Association { max_running_jobs: Limit(2), ..association(7, "A") };
    host.send_event(Event::Associations(vec![record(more_association, "A")]));
    assert_eq!(host.state(job_b), Some(State::Depend));
    host.send_event(Event::Reprioritize);
    assert_eq!(host.state(job_b), Some(State::Sched));
}

#[test]
fn a_replay_restores_names_and_reservations() {
    for is_reload in [true, false] {
        for data_first in [true, false] {
            let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
            let job_a = start(&mut host, 1);
            let (job_b, job_c) = (submit(&mut host, 1), submit(&mut host, 1));
            host.end_job(job_a);
            assert_eq!(host.states([job_b, job_c]), [Some(State::Sched), Some(State::Depend)]);
            let limited_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
            let push = Event::Associations(vec![record(limited_association, "A")]);
            let mut engine = crate::engine::Engine::new(super::site::OWNER);
            if data_first {
                engine.handle(NOW, push.clone());
            }
            host.replay_jobs(is_reload, engine);
            if !data_first {
                host.send_event(push);
                host.send_event(Event::Reprioritize);
            }
            let what = format!("reload {is_reload}, data first {data_first}");
            assert_eq!(host.states([job_b, job_c]), [Some(State::Sched), Some(State::Depend)], "{what}");
            host.start_job(job_b);
            host.end_job(job_b);
            assert_eq!(host.state(job_c), Some(State::Sched), "{what}");
            assert_no_drift(&host);
        }
    }
}

/// Restarts the job manager without data, so that the job is in PRIORITY without a priority. The host still
/// stores the posted priority: Flux's loop leaves a job in PRIORITY if the answer equals the posted priority.
pub(super) fn restart_without_data(host: &mut Host, id: JobId) {
    let posted = host.jobs[&id].priority;
    host.replay_jobs(false, Engine::with_small_batches());
    host.jobs.get_mut(&id).unwrap().priority = posted;
}

#[test]
fn a_job_in_priority_moves_on_if_its_priority_is_unchanged() {
    let mut host = make_site(|_| ());
    let id = submit(&mut host, 1);
    assert_eq!((host.state(id), host.jobs[&id].priority), (Some(State::Sched), Some(50_000)));
    restart_without_data(&mut host, id);
    assert_eq!(host.state(id), Some(State::Priority));
    host.push(vec![record(association(7, "A"), "A")]);
    assert_eq!((host.state(id), host.jobs[&id].priority), (Some(State::Sched), Some(50_000)));
    assert_no_drift(&host);
}

#[test]
fn a_reservation_survives_a_reload_if_no_other_job_is_held() {
    for with_data in [true, false] {
        let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
        let job_a = start(&mut host, 1);
        let freed_job = submit(&mut host, 1);
        host.end_job(job_a);
        assert_eq!(host.state(freed_job), Some(State::Sched));
        let limited_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
        let data = || Event::Associations(vec![record(limited_association.clone(), "A")]);
        let mut engine = Engine::with_small_batches();
        if with_data {
            engine.handle(NOW, data());
        }
        host.replay_jobs(true, engine);
        if !with_data {
            host.send_event(data());
            host.send_event(Event::Reprioritize);
        }
        let next_job = submit(&mut host, 1);
        assert_eq!(host.names(next_job), ["max-running-jobs-user-limit"], "with data: {with_data}");
        assert_no_drift(&host);
    }
}

#[test]
fn a_blocked_job_is_held_by_each_limit_that_it_exceeds_in_its_new_queue() {
    let mut host = make_site(|job_a| job_a.max_nodes = Limit(1));
    let blocked_job = host.submit(HostJob::new(7).queue("q1").blocked_by("begin-time:9999")).unwrap();
    let job_a = start(&mut host, 1);
    assert_eq!(host.names(blocked_job), ["begin-time:9999"], "there was headroom at submission");
    host.update_job(blocked_job, Some("q2"), None).unwrap();
    assert_eq!(host.names(blocked_job), ["begin-time:9999", "max-resources-user-limit"]);
    host.end_job(job_a);
    assert_eq!(host.names(blocked_job), ["begin-time:9999"]);
    assert_no_drift(&host);
}
