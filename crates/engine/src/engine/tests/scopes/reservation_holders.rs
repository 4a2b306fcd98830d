// SPDX-License-Identifier: LGPL-3.0-only
//! Anti-starvation reservations: which overtaken jobs have one, and in which order they are released.
//! Rules: R15

use super::*;
use crate::accounts::Association;

/// Returns four jobs that fill a limit of four GPUs, and a job that requests all four and was overtaken as often as is allowed.
fn submit_overtaken(host: &mut Host) -> (Vec<JobId>, JobId) {
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(job(8, "A", 1)).unwrap()).collect();
    let large = host.submit(job(7, "A", 4)).unwrap();
    overtake(host, &mut running);
    assert_eq!(host.state(large), Some(State::Depend));
    (running, large)
}

fn overtake(host: &mut Host, running: &mut Vec<JobId>) {
    for _ in 0..OVERTAKEN {
        host.end(running.remove(0));
        running.push(host.submit(job(8, "A", 1)).unwrap());
    }
}

/// While the limits of its own association hold an overtaken job, no scope keeps headroom for it (plugin 9 #4).
#[test]
fn a_job_that_its_own_association_holds_has_no_reservation_against_others() {
    let mut host = site(vec![limit(bank("A"), None, "run-sched-gpus", 4)]);
    let (mut running, large) = submit_overtaken(&mut host);
    host.end(running.remove(0));
    let late = host.submit(job(8, "A", 1)).unwrap();
    assert_eq!(host.names(late), ["max-run-sched-gpus-bank"], "the rest limits the headroom is reserved");
    let narrow = Association { max_sched_jobs: Limit(0), ..association(7, "A") };
    host.event(Event::Associations(vec![AssociationRecord { fairshare: 0.2, ..record(narrow, "A") }]));
    host.end(running.remove(0));
    assert!(!host.engine.ledger().overtaken().keep_headroom_for(large));
    assert_eq!(host.state(late), Some(State::Sched));
    exact(&host);
}

/// The bank has headroom for the overtaken job, which its queue's limit holds: the bank keeps nothing for it (plugin 9 #1, #4).
#[test]
fn a_scope_with_headroom_keeps_nothing_from_the_same_association() {
    let limits =
        vec![limit(bank("A"), None, "run-sched-gpus", 4), limit(bank("A"), Some("q1"), "run-sched-gpus", 2)];
    let mut host = site(limits);
    let in_q1 = host.submit(job(8, "A", 2)).unwrap();
    let small = || HostJob::new(8).bank("A").queue("q2").gpus(1);
    let mut running: Vec<JobId> = (0..2).map(|_| host.submit(small()).unwrap()).collect();
    let claims = host.submit(job(7, "A", 2)).unwrap();
    for _ in 0..OVERTAKEN {
        host.end(running.remove(0));
        running.push(host.submit(small()).unwrap());
    }
    running.into_iter().for_each(|id| host.end(id));
    let later = host.submit(HostJob::new(7).bank("A").queue("q2").gpus(2)).unwrap();
    assert_eq!([claims, later].map(|id| host.state(id)), [Some(State::Depend), Some(State::Sched)]);
    host.end(in_q1);
    assert_eq!([claims, later].map(|id| host.state(id)), [Some(State::Sched); 2]);
    exact(&host);
}

#[test]
fn a_job_larger_than_a_lowered_cap_has_no_reservation() {
    let limits = |cap| vec![limit(bank("A"), None, "run-sched-gpus", cap)];
    let mut host = site(limits(4));
    let (mut running, large) = submit_overtaken(&mut host);
    push(&mut host, limits(3));
    host.end(running.remove(0));
    overtake(&mut host, &mut running);
    overtake(&mut host, &mut running);
    host.end(running.remove(0));
    let late = host.submit(job(8, "A", 1)).unwrap();
    assert_eq!((host.state(large), host.state(late)), (Some(State::Depend), Some(State::Sched)));
    exact(&host);
}

#[test]
fn a_job_of_urgency_0_has_no_anti_starvation_reservation() {
    for urgency in [0, 16] {
        let mut host = site(vec![limit(bank("A"), None, "run-sched-gpus", 4)]);
        let mut running: Vec<JobId> = (0..4).map(|_| host.submit(job(8, "A", 1)).unwrap()).collect();
        let large = host.submit(HostJob { urgency, ..job(7, "A", 4) }).unwrap();
        overtake(&mut host, &mut running);
        host.end(running.remove(0));
        assert_eq!(host.engine.ledger().overtaken().contains(large), urgency > 0);
        let late = host.submit(job(8, "A", 1)).unwrap();
        assert_eq!(host.state(late) == Some(State::Sched), urgency == 0);
        host.end(large);
        assert_eq!(host.state(late), Some(State::Sched));
        exact(&host);
    }
}

/// A reservation holds a smaller job as well, so the answer does not suggest a smaller one.
#[test]
fn the_explanation_of_a_job_held_by_a_reservation_suggests_no_smaller_job() {
    let mut host = site(vec![limit(bank("A"), None, "run-sched-gpus", 4)]);
    let (mut running, _) = submit_overtaken(&mut host);
    running.drain(..2).for_each(|id| host.end(id));
    let late = host.submit(job(8, "A", 2)).unwrap();
    let explanation = super::super::why::why(&host, late);
    assert!(explanation.holds[0].kept_for.is_some() && explanation.holds[0].used < explanation.holds[0].cap);
    assert!(explanation.helps.iter().all(|help| help.code != "smaller"), "{:?}", explanation.helps);
}

/// The first overtaken job goes first even if the newer job has the higher priority or place, or priorities have changed.
#[test]
fn the_job_that_was_overtaken_first_is_released_first() {
    for priorities_change in [false, true] {
        let mut host = site(vec![limit(bank("root"), None, "run-sched-gpus", 4)]);
        let mut running: Vec<JobId> = (0..4).map(|_| host.submit(job(8, "A", 1)).unwrap()).collect();
        let older = host.submit(job(9, "C", 4)).unwrap();
        overtake(&mut host, &mut running);
        host.end(running.remove(0));
        assert!(host.engine.ledger().overtaken().contains(older));
        // Its association comes first in the order. It is overtaken after the older job's release.
        let newer = host.submit(job(7, "B", 4)).unwrap();
        if priorities_change {
            host.event(Event::Associations(vec![with_fairshare(7, "B", 0.99)]));
        }
        running.into_iter().for_each(|id| host.end(id));
        assert_eq!([older, newer].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
        host.end(older);
        assert_eq!(host.state(newer), Some(State::Sched));
        exact(&host);
    }
}

/// The limits of its association hold the job whatever headroom the scope has, so a reservation would only delay other jobs.
#[test]
fn a_job_that_its_own_limits_hold_is_not_overtaken() {
    let mut host = site(vec![limit(bank("A"), None, "run-sched-gpus", 4)]);
    let narrow = Association { max_nodes: Limit(3), ..association(7, "A") };
    host.event(Event::Associations(vec![AssociationRecord { fairshare: 0.2, ..record(narrow, "A") }]));
    let own = host.submit(job(7, "A", 0)).unwrap();
    host.start(own);
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(job(8, "A", 1)).unwrap()).collect();
    let beyond = host.submit(job(7, "A", 4).size(3, 3)).unwrap();
    let within = host.submit(job(7, "A", 4)).unwrap();
    overtake(&mut host, &mut running);
    overtake(&mut host, &mut running);
    host.end(running.remove(0));
    assert!(![beyond, within].iter().any(|id| host.engine.ledger().overtaken().contains(*id)));
    let late = host.submit(job(8, "A", 1)).unwrap();
    assert_eq!(host.state(late), Some(State::Sched));
    exact(&host);
}

/// Both jobs are of one user, in two banks, and come under the user's limit. The first overtaken goes first even after priorities
/// have changed.
#[test]
fn the_first_overtaken_of_two_jobs_under_one_user_limit_is_released_first() {
    for priorities_change in [false, true] {
        let limits = ["A", "B"].map(|name| limit(bank(name), None, "run-sched-gpus", 4));
        let own = limit(Target::User(UserId(7)), None, "run-sched-gpus", 4);
        let mut host = site(limits.into_iter().chain([own]).collect());
        host.event(Event::Associations(vec![with_fairshare(9, "B", 0.9)]));
        let mut running = ["A", "B"].map(|name| {
            let user = if name == "A" { 8 } else { 9 };
            (0..4).map(|_| host.submit(job(user, name, 1)).unwrap()).collect::<Vec<JobId>>()
        });
        let [older, newer] = ["A", "B"].map(|name| host.submit(job(7, name, 4)).unwrap());
        for (user, name, at) in [(8, "A", 0), (9, "B", 1)] {
            for _ in 0..OVERTAKEN {
                host.end(running[at].remove(0));
                running[at].push(host.submit(job(user, name, 1)).unwrap());
            }
            host.end(running[at].remove(0));
        }
        assert!([older, newer].iter().all(|id| host.engine.ledger().overtaken().contains(*id)));
        if priorities_change {
            host.event(Event::Associations(vec![with_fairshare(7, "B", 0.3)]));
        }
        for at in [0, 1] {
            running[at].iter().for_each(|id| host.end(*id));
        }
        assert_eq!([older, newer].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
        host.end(older);
        assert_eq!(host.state(newer), Some(State::Sched));
        exact(&host);
    }
}
