// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of anti-starvation reservations: which overtaken jobs have a reservation, and in which order overtaken jobs
//! are released.
//! Rules: R15

use super::*;
use crate::accounts::Association;

/// Submits four jobs that fill a limit of four GPUs, and a large job of four GPUs. Then `OVERTAKEN` jobs
/// overtake the large job. Returns the four jobs that are in SCHED at the end, and the large job.
fn submit_overtaken(host: &mut Host) -> (Vec<JobId>, JobId) {
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
    let large_job = host.submit(make_job(7, "A", 4)).unwrap();
    submit_overtaking_jobs(host, &mut running);
    assert_eq!(host.state(large_job), Some(State::Depend));
    (running, large_job)
}

/// Ends `OVERTAKEN` jobs of `running` one after another, and adds a new job of user 8 to `running` after each end.
fn submit_overtaking_jobs(host: &mut Host, running: &mut Vec<JobId>) {
    for _ in 0..OVERTAKEN {
        host.end_job(running.remove(0));
        running.push(host.submit(make_job(8, "A", 1)).unwrap());
    }
}

/// Otherwise the plugin would subscribe to no more overtaken jobs after many such jobs.
#[test]
fn the_subscription_to_an_overtaken_job_that_was_held_in_priority_ends_when_it_runs() {
    let mut host = Host::new();
    let urgent_job = || HostJob { urgency: 20, ..make_job(8, "A", 1) };
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(urgent_job()).unwrap()).collect();
    let large_job = host.submit(make_job(7, "A", 4)).unwrap();
    push_limits(&mut host, vec![limit(bank_target("A"), None, "run-sched-gpus", 4)]);
    host.send_event(Event::Reprioritize);
    assert_eq!(host.state(large_job), Some(State::Priority));
    submit_overtaking_jobs(&mut host, &mut running);
    assert!(host.subscribed.contains(&large_job));
    running.into_iter().for_each(|id| host.end_job(id));
    host.start_job(large_job);
    assert_eq!(host.state(large_job), Some(State::Run));
    assert!(!host.subscribed.contains(&large_job));
    assert_counters_and_holds(&host);
}

/// While a limit of the job's own association holds the job, the job cannot use headroom of a scope. So no scope keeps
/// headroom for the job.
#[test]
fn a_job_held_by_its_own_association_loses_its_headroom_reservation() {
    let mut host = make_site(vec![limit(bank_target("A"), None, "run-sched-gpus", 4)]);
    let (mut running_job, large) = submit_overtaken(&mut host);
    host.end_job(running_job.remove(0));
    let late_job = host.submit(make_job(8, "A", 1)).unwrap();
    assert_eq!(host.names(late_job), ["max-run-sched-gpus-bank"], "the headroom is reserved");
    host.send_event(Event::Associations(vec![AssociationRecord {
        fairshare: 0.2,
        ..record(Association { max_sched_jobs: Limit(0), ..association(7, "A") }, "A")
    }]));
    host.end_job(running_job.remove(0));
    assert!(!host.engine.ledger().overtaken().is_headroom_kept_for(large));
    assert_eq!(host.state(late_job), Some(State::Sched));
    assert_counters_and_holds(&host);
}

/// The limit on queue q1 holds the overtaken job, and the limit on the bank has headroom for it. So another job of the association can take
/// the bank's headroom.
#[test]
fn a_scope_reserves_no_headroom_if_the_overtaken_job_fits_in_it() {
    let limits = vec![
        limit(bank_target("A"), None, "run-sched-gpus", 4),
        limit(bank_target("A"), Some("q1"), "run-sched-gpus", 2),
    ];
    let mut host = make_site(limits);
    let in_q1_job = host.submit(make_job(8, "A", 2)).unwrap();
    let small_facts = || HostJob::new(8).bank("A").queue("q2").gpus(1);
    let mut running: Vec<JobId> = (0..2).map(|_| host.submit(small_facts()).unwrap()).collect();
    let overtaken = host.submit(make_job(7, "A", 2)).unwrap();
    for _ in 0..OVERTAKEN {
        host.end_job(running.remove(0));
        running.push(host.submit(small_facts()).unwrap());
    }
    running.into_iter().for_each(|id| host.end_job(id));
    let later = host.submit(HostJob::new(7).bank("A").queue("q2").gpus(2)).unwrap();
    assert_eq!([overtaken, later].map(|id| host.state(id)), [Some(State::Depend), Some(State::Sched)]);
    host.end_job(in_q1_job);
    assert_eq!([overtaken, later].map(|id| host.state(id)), [Some(State::Sched); 2]);
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_larger_than_a_lowered_cap_has_no_reservation() {
    let limits = |cap| vec![limit(bank_target("A"), None, "run-sched-gpus", cap)];
    let mut host = make_site(limits(4));
    let (mut running_job, large_job) = submit_overtaken(&mut host);
    push_limits(&mut host, limits(3));
    host.end_job(running_job.remove(0));
    submit_overtaking_jobs(&mut host, &mut running_job);
    submit_overtaking_jobs(&mut host, &mut running_job);
    host.end_job(running_job.remove(0));
    let late_job = host.submit(make_job(8, "A", 1)).unwrap();
    assert_eq!((host.state(large_job), host.state(late_job)), (Some(State::Depend), Some(State::Sched)));
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_of_urgency_0_has_no_anti_starvation_reservation() {
    for urgency in [0, 16] {
        let mut host = make_site(vec![limit(bank_target("A"), None, "run-sched-gpus", 4)]);
        let mut running: Vec<JobId> = (0..4).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
        let large_job = host.submit(HostJob { urgency, ..make_job(7, "A", 4) }).unwrap();
        submit_overtaking_jobs(&mut host, &mut running);
        host.end_job(running.remove(0));
        assert_eq!(host.engine.ledger().overtaken().contains(large_job), urgency > 0);
        let late_job = host.submit(make_job(8, "A", 1)).unwrap();
        assert_eq!(host.state(late_job) == Some(State::Sched), urgency == 0);
        host.end_job(large_job);
        assert_eq!(host.state(late_job), Some(State::Sched));
        assert_counters_and_holds(&host);
    }
}

/// A reservation would also hold a smaller job. So the explanation must not suggest to request less.
#[test]
fn the_explanation_of_a_job_held_by_a_reservation_suggests_no_smaller_job() {
    let mut host = make_site(vec![limit(bank_target("A"), None, "run-sched-gpus", 4)]);
    let (mut running, _) = submit_overtaken(&mut host);
    running.drain(..2).for_each(|id| host.end_job(id));
    let late_job = host.submit(make_job(8, "A", 2)).unwrap();
    let explanation = super::super::why::explain_job(&host, late_job);
    assert!(explanation.holds[0].kept_for.is_some() && explanation.holds[0].used < explanation.holds[0].cap);
    assert!(explanation.helps.iter().all(|help| help.code != "smaller"), "{:?}", explanation.helps);
}

/// The newer job has the lower user id, and in the second case also the higher priority. The older overtaken
/// job must still be released first.
#[test]
fn the_job_that_was_overtaken_first_is_released_first() {
    for priorities_change in [false, true] {
        let mut host = make_site(vec![limit(bank_target("root"), None, "run-sched-gpus", 4)]);
        let mut running: Vec<JobId> = (0..4).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
        let older_job = host.submit(make_job(9, "C", 4)).unwrap();
        submit_overtaking_jobs(&mut host, &mut running);
        host.end_job(running.remove(0));
        assert!(host.engine.ledger().overtaken().contains(older_job));
        // In the list of associations, the association of the newer job comes first.
        let newer_job = host.submit(make_job(7, "B", 4)).unwrap();
        if priorities_change {
            host.send_event(Event::Associations(vec![record_with_fairshare(7, "B", 0.99)]));
        }
        running.into_iter().for_each(|id| host.end_job(id));
        assert_eq!(
            [older_job, newer_job].map(|id| host.state(id)),
            [Some(State::Sched), Some(State::Depend)]
        );
        host.end_job(older_job);
        assert_eq!(host.state(newer_job), Some(State::Sched));
        assert_counters_and_holds(&host);
    }
}

/// The limits of the association hold both jobs, even if the scope has headroom. A reservation would only delay other
/// jobs.
#[test]
fn a_job_that_its_own_limits_hold_is_not_overtaken() {
    let mut host = make_site(vec![limit(bank_target("A"), None, "run-sched-gpus", 4)]);
    host.send_event(Event::Associations(vec![AssociationRecord {
        fairshare: 0.2,
        ..record(Association { max_nodes: Limit(3), ..association(7, "A") }, "A")
    }]));
    let own_job = host.submit(make_job(7, "A", 0)).unwrap();
    host.start_job(own_job);
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
    let beyond_job = host.submit(make_job(7, "A", 4).size(3, 3)).unwrap();
    let within_job = host.submit(make_job(7, "A", 4)).unwrap();
    submit_overtaking_jobs(&mut host, &mut running);
    submit_overtaking_jobs(&mut host, &mut running);
    host.end_job(running.remove(0));
    assert!(![beyond_job, within_job].iter().any(|id| host.engine.ledger().overtaken().contains(*id)));
    let late_job = host.submit(make_job(8, "A", 1)).unwrap();
    assert_eq!(host.state(late_job), Some(State::Sched));
    assert_counters_and_holds(&host);
}

/// The two jobs are of one user in two banks, so the user's limit applies to both. The job that was overtaken
/// first must be released first, even after a push of other fair-shares.
#[test]
fn the_first_overtaken_of_two_jobs_under_one_user_limit_is_released_first() {
    for priorities_change in [false, true] {
        let limits = ["A", "B"].map(|name| limit(bank_target(name), None, "run-sched-gpus", 4));
        let own_limit = limit(Target::User(UserId(7)), None, "run-sched-gpus", 4);
        let mut host = make_site(limits.into_iter().chain([own_limit]).collect());
        host.send_event(Event::Associations(vec![record_with_fairshare(9, "B", 0.9)]));
        let mut running_job = ["A", "B"].map(|name| {
            let user = if name == "A" { 8 } else { 9 };
            (0..4).map(|_| host.submit(make_job(user, name, 1)).unwrap()).collect::<Vec<JobId>>()
        });
        let [older_job, newer_job] = ["A", "B"].map(|name| host.submit(make_job(7, name, 4)).unwrap());
        for (user, name, at) in [(8, "A", 0), (9, "B", 1)] {
            for _ in 0..OVERTAKEN {
                host.end_job(running_job[at].remove(0));
                running_job[at].push(host.submit(make_job(user, name, 1)).unwrap());
            }
            host.end_job(running_job[at].remove(0));
        }
        assert!([older_job, newer_job].iter().all(|id| host.engine.ledger().overtaken().contains(*id)));
        if priorities_change {
            host.send_event(Event::Associations(vec![record_with_fairshare(7, "B", 0.3)]));
        }
        for at in [0, 1] {
            running_job[at].iter().for_each(|id| host.end_job(*id));
        }
        assert_eq!(
            [older_job, newer_job].map(|id| host.state(id)),
            [Some(State::Sched), Some(State::Depend)]
        );
        host.end_job(older_job);
        assert_eq!(host.state(newer_job), Some(State::Sched));
        assert_counters_and_holds(&host);
    }
}
