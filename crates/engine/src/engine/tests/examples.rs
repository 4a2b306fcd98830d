// SPDX-License-Identifier: LGPL-3.0-only
//! Examples of the release rule.
//! Rules: R2, R4, R5, R6, R9, R16

use super::host::Host;
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::{Association, AssociationRecord};
use crate::engine::{Engine, Event, State};
use crate::ids::{JobId, Limit};

pub fn site(change: impl FnOnce(&mut Association)) -> Host {
    site_of_fairshare(0.5, change)
}

pub fn site_of_fairshare(fairshare: f64, change: impl FnOnce(&mut Association)) -> Host {
    let mut one = association(7, "A");
    change(&mut one);
    Host::with(vec![AssociationRecord { fairshare, ..record(one, "A") }], vec![queue("q1"), queue("q2")])
}

pub fn submit(host: &mut Host, nodes: u64) -> JobId {
    host.submit(HostJob::new(7).size(nodes, nodes)).unwrap()
}

/// Returns a host where one job of user 7 may run, a running job, and `N` jobs that the limit holds.
pub fn host_with_held_jobs<const N: usize>() -> (Host, JobId, [JobId; N]) {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let running = submit(&mut host, 1);
    host.start(running);
    let held = [(); N].map(|()| submit(&mut host, 1));
    assert!(held.iter().all(|id| host.state(*id) == Some(State::Depend)));
    (host, running, held)
}

/// Checks that the counters of the engine equal its recount.
pub fn assert_no_drift(host: &Host) {
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}

#[test]
fn one_free_slot_releases_one_job() {
    let mut host = site(|a| a.max_sched_jobs = Limit(2));
    let [a, b, c, d, e] = [(); 5].map(|()| {
        let id = submit(&mut host, 1);
        if host.engine.ledger().jobs().count() == 1 {
            host.start(id);
        }
        id
    });
    assert_eq!(host.names(d), ["max-sched-jobs-user-limit"]);
    host.start(b);
    assert_eq!((host.state(d), host.state(e)), (Some(State::Sched), Some(State::Depend)));
    host.end(a);
    assert_eq!(host.state(e), Some(State::Depend));
    host.start(c);
    assert_eq!(host.state(e), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_job_loses_satisfied_names_at_once_but_reserves_only_when_it_is_released() {
    let mut host = site(|a| (a.max_running_jobs, a.max_nodes) = (Limit(2), Limit(3)));
    let a = submit(&mut host, 2);
    host.start(a);
    let b = submit(&mut host, 1);
    host.start(b);
    let c = submit(&mut host, 2);
    assert_eq!(host.names(c), ["max-resources-user-limit", "max-running-jobs-user-limit"]);
    host.end(b);
    assert_eq!(host.names(c), ["max-resources-user-limit"]);
    // Job c has not reserved the free slot.
    let d = submit(&mut host, 1);
    assert_eq!(host.state(d), Some(State::Sched));
    host.start(d);
    host.end(a);
    assert_eq!(host.state(c), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_job_stays_held_if_another_job_reserves_the_freed_headroom() {
    let mut host = site(|a| (a.max_running_jobs, a.max_nodes) = (Limit(2), Limit(3)));
    let a = submit(&mut host, 2);
    host.start(a);
    let b = submit(&mut host, 1);
    host.start(b);
    let c = submit(&mut host, 2);
    host.end(b);
    let d = submit(&mut host, 1);
    host.start(d);
    let e = submit(&mut host, 1);
    assert_eq!(host.names(e), ["max-resources-user-limit", "max-running-jobs-user-limit"]);
    host.end(a);
    // Job c takes the freed slot. The nodes are full (1 in use, 2 reserved), so e stays held.
    assert_eq!(host.state(c), Some(State::Sched));
    assert_eq!(host.state(e), Some(State::Depend));
    assert_no_drift(&host);
}

#[test]
fn the_reservation_of_a_blocked_job_counts_in_its_release_scan_only() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let b = submit(&mut host, 1);
    let c = host.submit(HostJob::new(7).after("afterany:a")).unwrap();
    let d = host.submit(HostJob::new(7).after("afterany:a")).unwrap();
    host.end(b);
    assert_eq!(host.names(c), ["afterany:a"]);
    assert_eq!(host.names(d), ["afterany:a", "max-sched-jobs-user-limit"]);
    host.remove_dependency(c, "afterany:a");
    host.remove_dependency(d, "afterany:a");
    host.end(a);
    assert_eq!((host.state(c), host.state(d)), (Some(State::Sched), Some(State::Depend)));
    host.start(c);
    assert_eq!(host.state(d), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_blocked_job_is_judged_again_when_it_is_unblocked() {
    let mut host = site(|a| a.max_sched_jobs = Limit(1));
    let b = submit(&mut host, 1);
    let c = host.submit(HostJob::new(7).after("afterany:x")).unwrap();
    host.end(b);
    assert_eq!(host.names(c), ["afterany:x"]);
    let d = submit(&mut host, 1);
    assert_eq!(host.state(d), Some(State::Sched));
    assert_eq!(host.names(c), ["afterany:x"], "no event while the job is blocked anyway");
    host.remove_dependency(c, "afterany:x");
    assert_eq!(host.state(c), Some(State::Depend));
    assert_eq!(host.names(c), ["max-sched-jobs-user-limit.2"]);
    host.end(d);
    assert_eq!(host.state(c), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn cores_are_reserved_within_a_release_scan() {
    let mut host = site(|a| a.max_cores = Limit(2));
    let [a, b, c] = [(); 3].map(|()| {
        let id = submit(&mut host, 2);
        host.start(id);
        id
    });
    host.end(a);
    assert_eq!((host.state(b), host.state(c)), (Some(State::Sched), Some(State::Depend)));
    assert_no_drift(&host);
}

#[test]
fn headroom_of_a_released_job_is_kept_until_it_runs() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let (b, c) = (submit(&mut host, 1), submit(&mut host, 1));
    host.end(a);
    host.event(Event::Reprioritize);
    assert_eq!((host.state(b), host.state(c)), (Some(State::Sched), Some(State::Depend)));
    // A job at urgency 0 gives its reservation to the next job.
    host.set_urgency(b, 0);
    assert_eq!(host.state(c), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_small_job_overtakes_one_that_does_not_fit() {
    let mut host = site(|a| a.max_nodes = Limit(4));
    let a = submit(&mut host, 3);
    host.start(a);
    let b = submit(&mut host, 4);
    let x = submit(&mut host, 1);
    host.start(x);
    let c = submit(&mut host, 1);
    host.end(x);
    assert_eq!((host.state(b), host.state(c)), (Some(State::Depend), Some(State::Sched)));
    assert_no_drift(&host);
}

#[test]
fn a_queue_holds_only_its_own_jobs() {
    let mut full = queue("q1");
    full.max_running_jobs = Limit(1);
    let mut host = Host::with(vec![record(association(7, "A"), "A")], vec![full, queue("q2")]);
    let a = host.submit(HostJob::new(7).queue("q1")).unwrap();
    host.start(a);
    let b = host.submit(HostJob::new(7).queue("q1")).unwrap();
    let c = host.submit(HostJob::new(7).queue("q2")).unwrap();
    host.start(c);
    assert_eq!(host.names(b), ["max-run-jobs-queue"]);
    host.end(c);
    assert_eq!(host.names(b), ["max-run-jobs-queue"]);
    // In the other queue the job is released.
    host.update(b, Some("q2"), None).unwrap();
    assert_eq!(host.state(b), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_raised_limit_counts_at_the_next_reprioritize() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let b = submit(&mut host, 1);
    let mut more = association(7, "A");
    more.max_running_jobs = Limit(2);
    host.event(Event::Associations(vec![record(more, "A")]));
    assert_eq!(host.state(b), Some(State::Depend));
    host.event(Event::Reprioritize);
    assert_eq!(host.state(b), Some(State::Sched));
}

#[test]
fn a_replay_restores_names_and_reservations() {
    for is_reload in [true, false] {
        for data_first in [true, false] {
            let mut host = site(|a| a.max_running_jobs = Limit(1));
            let a = submit(&mut host, 1);
            host.start(a);
            let (b, c) = (submit(&mut host, 1), submit(&mut host, 1));
            host.end(a);
            assert_eq!((host.state(b), host.state(c)), (Some(State::Sched), Some(State::Depend)));
            let mut limited = association(7, "A");
            limited.max_running_jobs = Limit(1);
            let push = Event::Associations(vec![record(limited, "A")]);
            let mut engine = crate::engine::Engine::new(super::site::OWNER);
            if data_first {
                engine.handle(NOW, push.clone());
            }
            host.replay(is_reload, engine);
            if !data_first {
                host.event(push);
                host.event(Event::Reprioritize);
            }
            let what = format!("reload {is_reload}, data first {data_first}");
            assert_eq!((host.state(b), host.state(c)), (Some(State::Sched), Some(State::Depend)), "{what}");
            host.start(b);
            host.end(b);
            assert_eq!(host.state(c), Some(State::Sched), "{what}");
            assert_no_drift(&host);
        }
    }
}

/// Restarts the job manager without data, so that the job is in PRIORITY without a priority. In the host the job keeps its posted priority.
/// Flux's loop leaves a job in PRIORITY if the answer equals that priority.
pub(super) fn restart_without_data(host: &mut Host, id: JobId) {
    let posted = host.jobs[&id].priority;
    host.replay(false, Engine::small());
    host.jobs.get_mut(&id).unwrap().priority = posted;
}

#[test]
fn a_job_in_priority_moves_on_if_its_priority_is_unchanged() {
    let mut host = site(|_| ());
    let id = submit(&mut host, 1);
    assert_eq!((host.state(id), host.jobs[&id].priority), (Some(State::Sched), Some(50_000)));
    restart_without_data(&mut host, id);
    assert_eq!(host.state(id), Some(State::Priority));
    host.event(Event::Associations(vec![record(association(7, "A"), "A")]));
    host.event(Event::Reprioritize);
    assert_eq!((host.state(id), host.jobs[&id].priority), (Some(State::Sched), Some(50_000)));
    assert_no_drift(&host);
}

#[test]
fn a_reservation_survives_a_reload_if_no_other_job_is_held() {
    for with_data in [true, false] {
        let mut host = site(|a| a.max_running_jobs = Limit(1));
        let a = submit(&mut host, 1);
        host.start(a);
        let freed = submit(&mut host, 1);
        host.end(a);
        assert_eq!(host.state(freed), Some(State::Sched));
        let mut limited = association(7, "A");
        limited.max_running_jobs = Limit(1);
        let data = || Event::Associations(vec![record(limited.clone(), "A")]);
        let mut engine = Engine::small();
        if with_data {
            engine.handle(NOW, data());
        }
        host.replay(true, engine);
        if !with_data {
            host.event(data());
            host.event(Event::Reprioritize);
        }
        let next = submit(&mut host, 1);
        assert_eq!(host.names(next), ["max-running-jobs-user-limit"], "with data: {with_data}");
        assert_no_drift(&host);
    }
}

#[test]
fn a_blocked_job_that_moves_is_held_by_each_limit_that_it_exceeds_then() {
    let mut host = site(|a| a.max_nodes = Limit(1));
    let blocked = host.submit(HostJob::new(7).queue("q1").after("begin-time:9999")).unwrap();
    let a = submit(&mut host, 1);
    host.start(a);
    assert_eq!(host.names(blocked), ["begin-time:9999"], "there was headroom at submission");
    host.update(blocked, Some("q2"), None).unwrap();
    assert_eq!(host.names(blocked), ["begin-time:9999", "max-resources-user-limit"]);
    host.end(a);
    assert_eq!(host.names(blocked), ["begin-time:9999"]);
    assert_no_drift(&host);
}
