// SPDX-License-Identifier: LGPL-3.0-only
//! Anti-starvation reservations: the scopes that have them, the jobs that hold them, and when they end.
//! Rules: R14, R15

use super::super::why::explain_job;
use super::*;

/// Returns a host with `limits`, and with associations of users 7 and 9 to 12 in bank B.
fn make_site_with_users_in_bank_b(limits: Vec<SiteLimit>) -> Host {
    let mut host = make_site(limits);
    host.send_event(Event::Associations(
        (9..=12).map(|user| record_with_fairshare(user, "B", 0.5)).collect(),
    ));
    host
}

fn gpu_limit(target: Target, cap: i64) -> SiteLimit {
    limit(target, None, "run-sched-gpus", cap)
}

/// Submits `OVERTAKEN` + 2 jobs. Each job starts and ends before the next job is submitted. The first `OVERTAKEN`
/// jobs are not held.
fn submit_overtaking_jobs(host: &mut Host, make: impl Fn() -> HostJob) {
    for nth in 0..OVERTAKEN + 2 {
        let id = host.submit(make()).unwrap();
        assert!(nth >= OVERTAKEN || host.state(id) == Some(State::Sched), "{nth}");
        host.start_job(id);
        host.end_job(id);
    }
}

fn list_states(host: &Host, ids: &[JobId]) -> Vec<State> {
    ids.iter().filter_map(|id| host.state(*id)).collect()
}

/// The limits are those of docs/reference.md: 16 GPUs per user, 96 per bank, and 4 for bank `small`.
#[test]
fn a_job_held_by_a_user_limit_does_not_stop_other_jobs_of_its_bank() {
    let mut host = make_site_with_users_in_bank_b(vec![
        gpu_limit(Target::EachUser, 16),
        gpu_limit(Target::EachBank, 96),
        gpu_limit(bank_target("B"), 4),
    ]);
    let large_job = host.submit(make_job(7, "A", 14)).unwrap();
    host.start_job(large_job);
    let wide_job = host.submit(make_job(7, "B", 4)).unwrap();
    assert_eq!(host.names(wide_job), ["max-run-sched-gpus-user"]);
    submit_overtaking_jobs(&mut host, || make_job(7, "A", 1));
    let others_jobs: Vec<JobId> = (9..=12).map(|user| host.submit(make_job(user, "B", 1)).unwrap()).collect();
    assert_eq!(
        list_states(&host, &others_jobs),
        [State::Sched; 4],
        "the bank is idle, and the user's limit holds the job"
    );
    // The headroom is reserved in the limit of the user, so that limit holds the other jobs of the user.
    let own_job = host.submit(make_job(7, "A", 1)).unwrap();
    assert_eq!(host.names(own_job), ["max-run-sched-gpus-user"]);
    let hold = explain_job(&host, own_job).holds.remove(0);
    assert_eq!((hold.kept_for, hold.used, hold.cap), (Some(wide_job), 14, 16));
    let text = format!(
        "14 of 16 running and scheduled gpus of user 7 over all banks are in use; this job takes 1; the remaining 2 are kept \
                        for job {wide_job}, which 100 jobs have overtaken"
    );
    assert_eq!(hold.text, text);
    assert_eq!(
        hold.frees.iter().map(|one| (one.id, one.state.as_ref())).collect::<Vec<_>>(),
        [(large_job, "run")]
    );
    // Now the user's limit has headroom, and the bank's limit holds the wide job. The reservation moves to
    // the bank, and the user's other job is released.
    host.end_job(large_job);
    assert_eq!(list_states(&host, &[wide_job, own_job]), [State::Depend, State::Sched]);
    host.end_job(others_jobs[0]);
    let late_job = host.submit(make_job(9, "B", 1)).unwrap();
    assert_eq!(explain_job(&host, late_job).holds.remove(0).kept_for, Some(wide_job));
    others_jobs.iter().for_each(|id| host.end_job(*id));
    assert_eq!(list_states(&host, &[wide_job, late_job]), [State::Sched, State::Depend]);
    host.end_job(wide_job);
    assert_eq!(host.state(late_job), Some(State::Sched));
    assert_counters_and_holds(&host);
}

/// A job that moves into a bank takes headroom of the bank. A job that moves within the bank does not.
#[test]
fn jobs_that_move_into_a_scope_overtake_the_held_job() {
    for (from, is_overtaken) in [("A", true), ("B", false)] {
        let mut host = make_site_with_users_in_bank_b(vec![gpu_limit(bank_target("B"), 4)]);
        host.send_event(Event::Associations(vec![record_with_fairshare(9, "A", 0.5)]));
        host.run_new_job(make_job(10, "B", 2));
        let moved_job = host.submit(make_job(9, from, 1)).unwrap();
        let wide_job = host.submit(make_job(7, "B", 4)).unwrap();
        let mut moves = (0..2 * OVERTAKEN + 4).flat_map(|_| [("q2", "B"), ("q1", from)]);
        let is_rejected =
            moves.any(|(queue, bank)| host.update_job(moved_job, Some(queue), Some(bank)).is_err());
        let has_reservation = host.engine.ledger().overtaken().contains(wide_job);
        assert_eq!((is_rejected, has_reservation), (is_overtaken, is_overtaken), "from bank {from}");
        assert_counters_and_holds(&host);
    }
}

#[test]
fn a_job_held_by_a_limit_of_one_bank_does_not_stop_jobs_of_other_banks() {
    let mut host = make_site_with_users_in_bank_b(vec![
        limit(bank_target("root"), None, "run-jobs", 40),
        limit(bank_target("B"), None, "run-cores", 4),
    ]);
    let first_job = host.submit(make_job(7, "B", 0)).unwrap();
    host.start_job(first_job);
    let wide_job = host.submit(make_job(9, "B", 0).size(1, 4)).unwrap();
    assert_eq!(host.names(wide_job), ["max-run-cores-bank"]);
    submit_overtaking_jobs(&mut host, || make_job(7, "B", 0));
    let run = |host: &mut Host| {
        let id = host.submit(make_job(8, "A", 0)).unwrap();
        host.start_job(id);
        id
    };
    let running: Vec<JobId> = (1..40).map(|_| run(&mut host)).collect();
    assert_eq!(list_states(&host, &running), [State::Run; 39], "the site may run 40 jobs");
    // The site runs its 40 jobs. The limit of bank B holds the wide job, so the site reserves no headroom for it.
    let next_job = run(&mut host);
    assert_eq!(host.state(next_job), Some(State::Depend));
    host.end_job(running[0]);
    assert_eq!(host.state(next_job), Some(State::Sched));
    host.start_job(next_job);
    let small_job = host.submit(make_job(10, "B", 0)).unwrap();
    assert_eq!(
        explain_job(&host, small_job).holds.iter().map(|hold| hold.kept_for).collect::<Vec<_>>(),
        [None, Some(wide_job)]
    );
    host.end_job(first_job);
    assert_eq!(
        list_states(&host, &[wide_job, small_job]),
        [State::Sched, State::Depend],
        "the site keeps headroom for the wide job"
    );
    assert_counters_and_holds(&host);
}

/// Fills the four GPUs of bank A with jobs of user 8, and submits the held job `wide`. Further jobs of user 8 then
/// overtake `wide`. Returns the host, the three remaining jobs of user 8, which are in SCHED, and the id of `wide`.
fn submit_overtaken(limits: Vec<SiteLimit>, wide: HostJob) -> (Host, Vec<JobId>, JobId) {
    let mut host = make_site_with_users_in_bank_b(limits);
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
    let wide = host.submit(wide).unwrap();
    for _ in 0..OVERTAKEN {
        host.end_job(running.remove(0));
        running.push(host.submit(make_job(8, "A", 1)).unwrap());
    }
    host.end_job(running.remove(0));
    assert!(host.engine.ledger().overtaken().is_headroom_kept_for(wide));
    (host, running, wide)
}

/// First the bank's limit holds the job that requests four GPUs, then the user's limit, then the bank's limit again.
/// Only the limit that holds the job reserves headroom for it.
#[test]
fn only_the_scope_that_holds_the_overtaken_job_reserves_headroom_for_it() {
    let limits = vec![gpu_limit(bank_target("A"), 4), gpu_limit(Target::User(UserId(7)), 4)];
    let (mut host, mut running_job, wide) = submit_overtaken(limits, make_job(7, "A", 4));
    let late_job = host.submit(make_job(8, "A", 1)).unwrap();
    assert_eq!(host.state(late_job), Some(State::Depend));
    let own_job = host.submit(make_job(7, "B", 1)).unwrap();
    assert_eq!(
        list_states(&host, &[own_job, late_job]),
        [State::Sched; 2],
        "the user's own limit holds the job now"
    );
    running_job.push(late_job);
    let own_late_job = host.submit(make_job(7, "B", 1)).unwrap();
    assert_eq!(explain_job(&host, own_late_job).holds.remove(0).kept_for, Some(wide));
    host.end_job(own_job);
    assert_eq!(
        host.state(own_late_job),
        Some(State::Sched),
        "the user's limit has headroom for the job again"
    );
    host.end_job(own_late_job);
    host.end_job(running_job.remove(0));
    let last_job = host.submit(make_job(8, "A", 1)).unwrap();
    assert_eq!(explain_job(&host, last_job).holds.remove(0).kept_for, Some(wide));
    running_job.into_iter().for_each(|id| host.end_job(id));
    assert_eq!(list_states(&host, &[wide, last_job]), [State::Sched, State::Depend]);
    assert_counters_and_holds(&host);
}

/// Flux reports the change of an urgency in DEPEND only to subscribers, so the plugin must be subscribed to the overtaken job.
#[test]
fn a_reservation_ends_when_the_urgency_becomes_0() {
    let (mut host, mut running_job, wide_job) =
        submit_overtaken(vec![gpu_limit(bank_target("A"), 4)], make_job(7, "A", 4));
    let late_job = host.submit(make_job(8, "A", 1)).unwrap();
    assert_eq!(host.state(late_job), Some(State::Depend));
    host.set_urgency(wide_job, 0);
    assert_eq!(host.state(late_job), Some(State::Sched));
    assert!(!host.engine.ledger().overtaken().contains(wide_job));
    // The job gets another reservation after it was overtaken `OVERTAKEN` times more.
    running_job.push(late_job);
    host.set_urgency(wide_job, 16);
    for _ in 0..=OVERTAKEN {
        host.end_job(running_job.remove(0));
        running_job.push(host.submit(make_job(8, "A", 1)).unwrap());
    }
    assert!(host.engine.ledger().overtaken().is_headroom_kept_for(wide_job));
    host.end_job(wide_job);
    assert_counters_and_holds(&host);
}

/// The urgency became 0 before the job was overtaken. The plugin was not subscribed to the job then.
#[test]
fn the_plugin_looks_up_the_urgency_of_an_overtaken_job() {
    let mut host = make_site_with_users_in_bank_b(vec![gpu_limit(bank_target("A"), 4)]);
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
    let wide_job = host.submit(make_job(7, "A", 4)).unwrap();
    host.set_urgency(wide_job, 0);
    for _ in 0..2 * OVERTAKEN {
        host.end_job(running.remove(0));
        running.push(host.submit(make_job(8, "A", 1)).unwrap());
        assert_eq!(host.state(running[3]), Some(State::Sched));
    }
    assert_counters_and_holds(&host);
}

/// Flux does not have the job any more, so Flux has no subscription to it either.
#[test]
fn an_overtaken_job_that_ended_in_a_panic_has_no_subscription() {
    let (mut host, _, wide) = submit_overtaken(vec![gpu_limit(bank_target("A"), 4)], make_job(7, "A", 4));
    host.engine.refused(crate::engine::Effect::LookUp(wide), crate::engine::Refusal::Absent);
    assert!(!host.engine.view().has_job(wide));
    assert!(host.engine.shared.subscriptions.end_subscription(wide).is_none());
}

#[test]
fn a_reservation_ends_when_the_queue_is_stopped() {
    let (mut host, _, wide) =
        submit_overtaken(vec![gpu_limit(bank_target("A"), 4)], make_job(7, "A", 4).queue("q2"));
    let late_job = host.submit(make_job(8, "A", 1)).unwrap();
    assert_eq!(host.state(late_job), Some(State::Depend));
    host.set_queue_started("q2", false);
    assert_eq!(host.state(late_job), Some(State::Sched));
    assert!(!host.engine.ledger().overtaken().contains(wide));
    host.set_queue_started("q2", true);
    assert_counters_and_holds(&host);
}

#[test]
fn two_overtaken_jobs_of_an_association_have_reservations_in_two_scopes() {
    let in_queue = |queue| limit(bank_target("A"), Some(queue), "run-sched-gpus", 4);
    let mut host = make_site(vec![in_queue("q1"), in_queue("q2")]);
    let mut wide = Vec::new();
    for queue in ["q1", "q2"] {
        let small = || make_job(8, "A", 1).queue(queue);
        let mut running: Vec<JobId> = (0..4).map(|_| host.submit(small()).unwrap()).collect();
        wide.push(host.submit(make_job(7, "A", 4).queue(queue)).unwrap());
        for _ in 0..OVERTAKEN {
            host.end_job(running.remove(0));
            running.push(host.submit(small()).unwrap());
        }
        host.end_job(running.remove(0));
    }
    for (queue, wide) in ["q1", "q2"].into_iter().zip(&wide) {
        let late_job = host.submit(make_job(8, "A", 1).queue(queue)).unwrap();
        assert_eq!(explain_job(&host, late_job).holds.remove(0).kept_for, Some(*wide), "{queue}");
    }
    assert_counters_and_holds(&host);
}

/// The bank has a limit on GPUs, which holds the job, and a limit on jobs, which has headroom for it.
#[test]
fn a_limit_with_headroom_for_the_overtaken_job_reserves_no_headroom() {
    let limits = vec![gpu_limit(bank_target("A"), 4), limit(bank_target("A"), None, "run-sched-jobs", 40)];
    let (mut host, _, _) = submit_overtaken(limits, make_job(7, "A", 4));
    let [without, with_job] = [0, 1].map(|gpus| host.submit(make_job(8, "A", gpus)).unwrap());
    assert_eq!(list_states(&host, &[without, with_job]), [State::Sched, State::Depend]);
    assert_eq!(host.names(with_job), ["max-run-sched-gpus-bank"]);
    assert_counters_and_holds(&host);
}

/// Smaller jobs fill both banks. First the limit of the inner bank keeps headroom for the wide job, then the limit of
/// the outer bank does.
#[test]
fn a_job_that_two_nested_banks_hold_is_released_eventually() {
    let limits = vec![gpu_limit(bank_target("A"), 4), gpu_limit(bank_target("science"), 6)];
    let (mut host, mut running, wide_job) = submit_overtaken(limits, make_job(7, "A", 4));
    let mut outside_jobs: Vec<JobId> = (0..3).map(|_| host.submit(make_job(7, "B", 1)).unwrap()).collect();
    let mut ends = 0;
    while host.state(wide_job) == Some(State::Depend) {
        for ids in [&mut running, &mut outside_jobs] {
            if !ids.is_empty() {
                host.end_job(ids.remove(0));
            }
        }
        running.push(host.submit(make_job(8, "A", 1)).unwrap());
        outside_jobs.push(host.submit(make_job(7, "B", 1)).unwrap());
        ends += 1;
        assert!(ends < 20, "the job starves");
        assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
    }
    assert_counters_and_holds(&host);
}

/// Three GPUs are in use. Under a limit of 7, the overtaken job has headroom and so no reservation, and the
/// late job with the higher priority is released. Under a limit of 8, both jobs are released.
#[test]
fn a_raised_limit_releases_the_overtaken_job() {
    let (mut host, _, wide_job) = submit_overtaken(vec![gpu_limit(bank_target("A"), 4)], make_job(7, "A", 4));
    let late_job = host.submit(make_job(8, "A", 1)).unwrap();
    push_limits(&mut host, vec![gpu_limit(bank_target("A"), 7)]);
    assert_eq!(list_states(&host, &[late_job]), [State::Sched]);
    push_limits(&mut host, vec![gpu_limit(bank_target("A"), 8)]);
    assert_eq!(host.state(wide_job), Some(State::Sched));
    assert_counters_and_holds(&host);
}
