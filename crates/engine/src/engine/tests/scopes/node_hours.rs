// SPDX-License-Identifier: LGPL-3.0-only
//! Limits on the node-hours of running jobs.
//! Rules: L32

use super::*;
use crate::engine::{Effect, Timer};

const HOUR: f64 = 3600.0;

fn make_limited_site(cap: i64) -> Host {
    make_site(vec![limit(bank_target("science"), None, "run-node-hours", cap)])
}

fn timed_job(user: u32, bank: &str, nodes: u64, hours: f64) -> HostJob {
    HostJob { duration: hours * HOUR, ..make_job(user, bank, 0).size(nodes, nodes) }
}

/// Lets time pass, and fires the timer that updates the time that running jobs have left.
fn advance(host: &mut Host, seconds: f64) {
    host.now += seconds;
    assert!(host.time_left_at.is_some(), "the timer is armed");
    host.run_until_idle();
}

fn node_hours_in_use(host: &Host) -> Option<u64> {
    host.engine.view().limits().scope_usages()[0].used
}

#[test]
fn a_held_job_starts_when_running_jobs_have_few_node_hours_left() {
    let mut host = make_limited_site(10);
    let first = host.submit(timed_job(7, "A", 4, 2.0)).unwrap();
    host.start_job(first);
    assert_eq!(node_hours_in_use(&host), Some(8));
    let waiting = host.submit(timed_job(8, "A", 2, 2.0)).unwrap();
    assert_eq!(host.names(waiting), ["max-run-node-hours-bank"]);
    // Jobs outside of the bank do not count.
    let other = host.submit(timed_job(9, "C", 8, 8.0)).unwrap();
    assert_eq!(host.state(other), Some(State::Sched));
    let note = crate::engine::annotate::annotation_text(&host.engine.view(), waiting);
    assert_eq!(note.as_deref(), Some("held: max-run-node-hours-bank 8/10"));
    let why = super::super::why::explain_job(&host, waiting);
    let hold = &why.holds[0];
    let text =
        "8 of 10 running node-hours of bank science and the banks below it are in use; this job takes 4";
    assert_eq!(hold.text, text);
    assert_eq!((hold.used, hold.cap, hold.needed, hold.frees[0].amount), (8, 10, 4, 8));
    advance(&mut host, 1700.0);
    assert_eq!((node_hours_in_use(&host), host.state(waiting)), (Some(7), Some(State::Depend)));
    let text =
        "6.109 of 10 running node-hours of bank science and the banks below it are in use; this job takes 4";
    assert_eq!(super::super::why::explain_job(&host, waiting).holds[0].text, text);
    advance(&mut host, 100.0);
    assert_eq!(host.state(waiting), Some(State::Sched));
    // A released job reserves node-hours for its whole time limit.
    assert_eq!(node_hours_in_use(&host), Some(10));
    host.start_job(waiting);
    host.end_job(first);
    assert_eq!(node_hours_in_use(&host), Some(4));
    assert_counters_and_holds(&host);
}

/// After a reload, running jobs count with the time that they have left.
#[test]
fn the_time_that_jobs_have_left_survives_a_reload() {
    let limits = || vec![limit(bank_target("science"), None, "run-node-hours", 10)];
    let mut host = make_site(limits());
    let first = host.submit(timed_job(7, "A", 4, 2.0)).unwrap();
    host.start_job(first);
    let waiting = host.submit(timed_job(8, "A", 2, 2.0)).unwrap();
    host.now += HOUR / 4.0;
    host.replay_jobs(true, Engine::new(super::super::site::OWNER));
    push_limits(&mut host, limits());
    assert_eq!(node_hours_in_use(&host), Some(7));
    assert_eq!(host.names(waiting), ["max-run-node-hours-bank"]);
    advance(&mut host, HOUR / 2.0);
    assert_eq!(host.state(waiting), Some(State::Sched));
    assert_counters_and_holds(&host);
}

#[test]
fn an_extended_time_limit_of_a_running_job_counts_at_once() {
    let mut host = make_limited_site(10);
    let first = host.submit(timed_job(7, "A", 2, 2.0)).unwrap();
    host.start_job(first);
    advance(&mut host, HOUR);
    assert_eq!(node_hours_in_use(&host), Some(2));
    host.jobs.get_mut(&first).unwrap().duration = 4.0 * HOUR;
    host.force_update(first, Some("q1".to_owned()), Some("A".to_owned()));
    assert_eq!(node_hours_in_use(&host), Some(6));
    assert_counters_and_holds(&host);
}

/// Otherwise a user could submit a job with a short time limit, and extend the time limit when the job is in SCHED.
#[test]
fn a_job_in_sched_is_held_if_its_extended_time_limit_exceeds_the_limit() {
    let mut host = make_limited_site(10);
    let first = host.submit(timed_job(7, "A", 3, 2.0)).unwrap();
    let extended = host.submit(timed_job(8, "A", 2, 2.0)).unwrap();
    host.start_job(first);
    assert_eq!(host.update_duration(extended, 3.0 * HOUR), Ok(()));
    assert_eq!((host.state(extended), host.jobs[&extended].priority), (Some(State::Sched), Some(0)));
    assert_counters_and_holds(&host);
    host.end_job(first);
    assert!(host.jobs[&extended].priority > Some(0), "the job is released");
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_without_a_time_limit_is_rejected_where_node_hours_are_limited() {
    let mut host = make_limited_site(10);
    let text = "job has no time limit; the limit of bank science on running jobs is 10 node-hours: set a time limit with -t";
    assert_eq!(host.submit(timed_job(7, "A", 1, 0.0)), Err(text.to_owned()));
    let text =
        "job size (12 node-hours) is greater than the limit of bank science on running jobs (10 node-hours)";
    assert_eq!(host.submit(timed_job(7, "A", 3, 4.0)), Err(text.to_owned()));
    host.submit(timed_job(9, "C", 1, 0.0)).unwrap();
}

/// If no limit counts the time that jobs have left, no timer is armed and no job is updated.
#[test]
fn the_time_left_is_updated_only_under_a_limit_that_counts_it() {
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-nodes", 10)]);
    let first = host.submit(timed_job(7, "A", 2, 2.0)).unwrap();
    host.start_job(first);
    host.now += HOUR;
    host.run_until_idle();
    assert_eq!(host.time_left_at, None);
    push_limits(&mut host, vec![limit(bank_target("C"), None, "run-node-hours", 10)]);
    advance(&mut host, HOUR / 2.0);
    assert_eq!(host.engine.view().ledger.job(first).unwrap().elapsed_ms, 0);
    push_limits(&mut host, vec![]);
    host.now += HOUR;
    host.run_until_idle();
    assert_eq!(host.time_left_at, None);
}

/// One turn updates 1,000 jobs at most.
#[test]
fn an_update_of_more_than_1000_jobs_continues_in_later_reactor_turns() {
    let mut host = make_limited_site(100_000);
    for _ in 0..1_200 {
        let id = host.submit(timed_job(7, "A", 1, 1.0)).unwrap();
        host.start_job(id);
    }
    assert!(node_hours_in_use(&host) > Some(100));
    advance(&mut host, HOUR);
    assert_eq!(node_hours_in_use(&host), Some(0));
    assert_counters_and_holds(&host);
}

/// Pushes that come more often than the updates must not postpone the updates.
#[test]
fn a_push_does_not_delay_the_update_of_the_time_left() {
    let limits = || vec![limit(bank_target("science"), None, "run-node-hours", 10)];
    let mut host = make_site(limits());
    let armed_at = host.time_left_at;
    assert!(armed_at > Some(host.now + 1.0), "{armed_at:?}");
    host.now += 1.0;
    push_limits(&mut host, limits());
    assert_eq!(host.time_left_at, armed_at);
}

/// A scan of all held jobs is expensive. So an update of the time left must not cause a scan that can release no job.
#[test]
fn an_update_of_the_time_left_scans_only_if_a_counter_fell_and_a_job_is_held() {
    for (has_held, passes, is_scanned) in
        [(false, HOUR, false), (true, 0.0, false), (true, HOUR / 4.0, true), (false, 0.0, false)]
    {
        let mut host = make_limited_site(10);
        let first = host.submit(timed_job(7, "A", 4, 2.0)).unwrap();
        host.start_job(first);
        if has_held {
            let held = host.submit(timed_job(8, "A", 2, 2.0)).unwrap();
            assert_eq!(host.names(held), ["max-run-node-hours-bank"]);
        }
        host.run_until_idle();
        host.engine.handle(host.now, Event::Timer(Timer::TimeLeft));
        host.now += passes;
        let effects = host.engine.handle(host.now, Event::Timer(Timer::TimeLeft));
        let is_timer = |effect: &Effect| matches!(effect, Effect::ArmIn(Timer::TimeLeft, _));
        let (timers, others): (Vec<_>, Vec<_>) = effects.into_iter().partition(is_timer);
        assert_eq!(
            (timers.len(), !others.is_empty()),
            (1, is_scanned),
            "held: {has_held}, {passes} s: {others:?}"
        );
    }
}
