// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs at urgency 0 are released like other jobs, but reserve no headroom under limits on RUN.
//! Rules: R7, R8

use super::examples::{assert_no_drift, make_site, start, submit};
use super::host::Host;
use super::site::{HostJob, NOW};
use crate::engine::{Effect, Event, Level, Refusal, State};
use crate::ids::{JobId, Limit};

#[test]
fn jobs_whose_urgency_rose_while_held_are_released_one_by_one() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let held = [(); 5].map(|()| host.submit(HostJob { urgency: 0, ..HostJob::new(7) }).unwrap());
    for id in held {
        host.set_urgency(id, 16);
    }
    host.end_job(job_a);
    let states = held.map(|id| host.state(id) == Some(State::Sched));
    assert_eq!(states, [true, false, false, false, false]);
    assert_no_drift(&host);
}

#[test]
fn a_released_job_of_urgency_0_lets_the_next_job_run() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    let job_a = start(&mut host, 1);
    let at_urgency_0_job = submit(&mut host, 1);
    host.set_urgency(at_urgency_0_job, 0);
    let next_job = submit(&mut host, 1);
    host.end_job(job_a);
    assert_eq!(host.states([at_urgency_0_job, next_job]), [Some(State::Sched); 2]);
    host.start_job(next_job);
    host.set_urgency(at_urgency_0_job, 16);
    let later_job = submit(&mut host, 1);
    assert_eq!(host.names(later_job), ["max-running-jobs-user-limit"]);
    assert_no_drift(&host);
}

/// Returns a host, a running job, and three held jobs of 1, 3 and 1 nodes, of which the first and the last have `urgency`. Three nodes may be
/// in use, and two jobs may be in SCHED. The dependency `blocked_by`, if any, also blocks the held jobs.
fn submit_three_held(urgency: i64, blocked_by: Option<&str>) -> (Host, JobId, [JobId; 3]) {
    let mut host = make_site(|a| (a.max_nodes, a.max_sched_jobs) = (Limit(3), Limit(2)));
    let running_job = start(&mut host, 3);
    let held = [(1, urgency), (3, 16), (1, urgency)].map(|(nodes, urgency)| {
        let job = HostJob { urgency, ..HostJob::new(7).size(nodes, nodes) };
        host.submit(blocked_by.into_iter().fold(job, HostJob::blocked_by)).unwrap()
    });
    (host, running_job, held)
}

#[test]
fn the_current_urgency_of_a_held_job_decides_whether_it_reserves_headroom() {
    use State::{Depend, Sched};
    for (submitted, present, states) in [
        (0, 0, [Sched, Sched, Depend]),
        (16, 0, [Sched, Sched, Depend]),
        (0, 16, [Sched, Depend, Sched]),
        (16, 16, [Sched, Depend, Sched]),
    ] {
        let (mut host, running_job, held) = submit_three_held(submitted, None);
        [held[0], held[2]].into_iter().for_each(|id| host.set_urgency(id, present));
        host.end_job(running_job);
        assert_eq!(host.states(held), states.map(Some), "{submitted}, then {present}");
        assert_no_drift(&host);
    }
}

#[test]
fn a_blocked_job_of_urgency_0_reserves_no_headroom_to_run_in_a_scan() {
    let (mut host, running_job, held_job) = submit_three_held(0, Some("begin-time:9999"));
    host.end_job(running_job);
    assert_eq!([held_job[0], held_job[1]].map(|id| host.names(id)), [["begin-time:9999"]; 2]);
    assert_eq!(host.names(held_job[2]), ["begin-time:9999", "max-resources-user-limit"]);
    assert_no_drift(&host);
}

#[test]
fn flaw_27_if_the_urgency_lookup_fails_the_job_reserves_full_headroom() {
    let (mut host, running, [first, ..]) = submit_three_held(0, None);
    let effects = host.engine.handle(NOW, Event::Inactive(running));
    assert!(matches!(effects.first(), Some(Effect::AskUrgency(id)) if *id == first), "{effects:?}");
    let mut refuse = |why| host.engine.refused(Effect::AskUrgency(first), why);
    assert!(refuse(Refusal::Absent).is_empty(), "the job is gone, and Flux will report its end");
    let outcome = refuse(Refusal::Other("out of memory".to_owned()));
    let [Effect::Log(Level::Error, text)] = outcome.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(*text, format!("job {first}: failed to look up its urgency: out of memory"));
    let tally = host.engine.ledger().job(first).unwrap().footprint().tally();
    assert_eq!((tally.reserved_sched.jobs(), tally.reserved_run.nodes()), (1, 1));
    assert_no_drift(&host);
}

/// The job started while the engine waited for its urgency. Flux would refuse a priority for a running job.
#[test]
fn a_running_job_gets_no_priority_if_flux_reports_its_urgency_late() {
    let mut host = make_site(|_| ());
    let running_job = start(&mut host, 1);
    let effects = host.engine.handle(NOW, Event::Urgency(running_job, 16));
    assert!(effects.is_empty(), "{effects:?}");
}
