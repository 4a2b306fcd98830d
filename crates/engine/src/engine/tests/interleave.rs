// SPDX-License-Identifier: LGPL-3.0-only
//! The order in which a scheduler would start jobs under interleave. A scheduler sorts by posted priority and then by job id.
//! Rules: F22

use super::FEW;
use super::host::Host;
use super::live::{accounts, leaf, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::Queue;
use crate::engine::{Batches, Event, Settings};
use crate::ids::JobId;
use crate::standing::SitePart;
use fairshare::Policy;
use proptest::prelude::*;
use std::cmp::Reverse;

const POLICIES: [Policy; 5] =
    [Policy::WeightedWalk, Policy::FairTree, Policy::Classic, Policy::DepthOblivious, Policy::Pbs];

/// Returns a host with one user of bank A for each of `usages`. The first user is 10.
fn make_site(policy: Policy, interleave: bool, usages: &[f64]) -> Host {
    let mut host = Host::new();
    let users = || (10..).take(usages.len());
    let mut all_accounts = accounts();
    all_accounts.associations = users().map(|user| record(association(user, "A"), "A")).collect();
    let leaves = users().zip(usages).map(|(user, usage)| leaf(user, "A", *usage, 0.0)).collect();
    host.engine.batches = Batches { ordered: 1_000_000, posted: 1_000_000, ..FEW };
    host.send_event(Event::Settings(Settings { interleave, ..Settings::default() }));
    host.send_event(Event::Policy(all_accounts, tree(policy, NOW, leaves)));
    host
}

/// Returns all jobs with their users, in the order of the scheduler's queue.
fn jobs_in_queue_order(host: &Host) -> Vec<(JobId, u32)> {
    let mut jobs: Vec<_> = host.jobs.iter().map(|(id, job)| (Reverse(job.priority), *id, job.user)).collect();
    jobs.sort_unstable();
    jobs.into_iter().map(|(_, id, user)| (id, user)).collect()
}

fn submit_equal_jobs(host: &mut Host, user: u32, jobs: usize) {
    for _ in 0..jobs {
        host.submit(HostJob::new(user)).unwrap();
    }
}

/// Asserts that each posted priority is current, and that the explanation of each job shows the fair-share for the
/// job's position in its association.
fn assert_explained(host: &Host) {
    for (id, job) in &host.jobs {
        let priorities = host.engine.view().priorities_of(*id).unwrap();
        assert_eq!(Some(i64::from(priorities.posted.priority)), job.priority, "job {id}");
        assert_eq!(
            priorities.exact.priority, priorities.posted.priority,
            "job {id}: the priority is not stale"
        );
        let term = priorities.exact.terms().iter().find(|term| term.name == "fairshare");
        assert_eq!(priorities.turn.map(|turn| turn.fairshare), term.map(|term| term.value), "job {id}");
    }
}

/// Without live fair-share, all jobs of an association have the pushed fair-share.
#[test]
fn interleaving_ends_when_live_fair_share_is_turned_off() {
    let not_live = Event::Settings(Settings { live: false, ..Settings::default() });
    for (what, end) in [("live", not_live), ("tree", Event::Policy(accounts(), SitePart::default()))] {
        let mut host = make_host_with_live_fairshare(Policy::FairTree);
        host.send_event(Event::Settings(Settings { interleave: true, ..Settings::default() }));
        let early = [(); 2].map(|()| host.submit(HostJob::new(8)).unwrap());
        host.advance_time_and_refresh(30.0);
        let [first, second] = early.map(|id| host.engine.view().priorities_of(id).unwrap().exact.priority);
        assert_ne!(first, second);
        host.send_event(end);
        let late_job = host.submit(HostJob::new(8)).unwrap();
        for id in [early[0], early[1], late_job] {
            assert_eq!(host.jobs[&id].priority, Some(50_000), "{what}");
        }
    }
}

/// If the weight of fair-share is negative, a later position raises a job's score. But the score without interleave
/// decides whether the job is held.
#[test]
fn a_job_with_score_0_before_interleaving_is_not_released() {
    let mut host = make_site(Policy::FairTree, true, &[0.0, 0.0]);
    host.send_event(Event::Queues(vec![Queue { priority: 400, ..queue("q1") }]));
    let ids = [10, 11, 10, 11].map(|user| host.submit(HostJob::new(user).queue("q1")).unwrap());
    host.advance_time_and_refresh(30.0);
    let turns = ids.map(|id| host.engine.view().priorities_of(id).unwrap().turn.unwrap().fairshare);
    assert!(turns.iter().any(|it| *it < 0.9), "{turns:?}");
    // The positions of jobs in their associations do not change before the next refresh.
    for (factor, weight) in [("fairshare", -1_000), ("queue", 1)] {
        host.engine.handle(NOW, Event::Weights(vec![(factor.to_owned(), weight)]));
    }
    for id in ids {
        assert_eq!(host.engine.view().priorities_of(id).unwrap().exact.priority, 0, "{turns:?}");
    }
}

#[test]
fn jobs_of_two_equal_users_alternate() {
    for usage in [0.0, 1e6] {
        for policy in POLICIES {
            let mut host = make_site(policy, true, &[usage, usage]);
            for user in [10, 11] {
                submit_equal_jobs(&mut host, user, 100);
            }
            host.advance_time_and_refresh(30.0);
            let users: Vec<u32> = jobs_in_queue_order(&host).into_iter().map(|(_, user)| user).collect();
            assert!(users.windows(2).all(|pair| pair[0] != pair[1]), "{policy} {usage}: {users:?}");
            assert_explained(&host);
            let numbers: Vec<usize> = host
                .jobs
                .keys()
                .map(|id| host.engine.view().priorities_of(*id).unwrap().turn.unwrap().number)
                .collect();
            assert_eq!(numbers, (1..=100).chain(1..=100).collect::<Vec<usize>>());
        }
    }
}

#[test]
fn jobs_of_two_users_with_a_thousand_jobs_each_alternate() {
    let mut host = make_site(Policy::FairTree, true, &[1e6, 1e6]);
    for user in [10, 11] {
        submit_equal_jobs(&mut host, user, 1_000);
    }
    host.advance_time_and_refresh(30.0);
    let users: Vec<u32> = jobs_in_queue_order(&host).into_iter().map(|(_, user)| user).collect();
    assert_eq!(users.len(), 2_000);
    assert!(users.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn without_interleave_all_jobs_of_one_user_come_first() {
    let mut host = make_site(Policy::FairTree, false, &[1e6, 1e6]);
    for user in [10, 11] {
        submit_equal_jobs(&mut host, user, 20);
    }
    host.advance_time_and_refresh(30.0);
    let users: Vec<u32> = jobs_in_queue_order(&host).into_iter().map(|(_, user)| user).collect();
    assert_eq!(users, [[10; 20], [11; 20]].concat());
    assert_eq!(host.engine.view().priorities_of(JobId(1)).unwrap().turn, None);
}

#[test]
fn interleaving_ignores_jobs_at_urgency_0() {
    for policy in POLICIES {
        let mut host = make_site(policy, true, &[1e6, 1e6]);
        for _ in 0..5 {
            host.submit(HostJob { urgency: 0, ..HostJob::new(10) }).unwrap();
        }
        let own_job = host.submit(HostJob::new(10)).unwrap();
        let other_job = host.submit(HostJob::new(11)).unwrap();
        host.advance_time_and_refresh(30.0);
        assert_eq!(host.jobs[&own_job].priority, host.jobs[&other_job].priority, "{policy}");
        assert_eq!(host.engine.view().priorities_of(own_job).unwrap().turn.unwrap().number, 1);
        let held = host.engine.view().priorities_of(JobId(1)).unwrap();
        assert_eq!(
            held.turn.unwrap().number,
            1,
            "a job without a turn shows the last turn of its association"
        );
    }
}

/// Returns the value of the fair-share term of a job's current priority.
fn fairshare_term(host: &Host, id: JobId) -> f64 {
    let exact = host.engine.view().priorities_of(id).unwrap().exact;
    exact.terms().iter().find(|term| term.name == "fairshare").unwrap().value
}

/// The fair-share for a job's position is computed as if all earlier jobs of the association had run as requested.
#[test]
fn interleaving_charges_a_job_for_the_requests_of_earlier_pending_jobs() {
    for policy in [Policy::Classic, Policy::DepthOblivious] {
        for (duration, nodes, cost) in [(3_600.0, 2, 7_200.0), (0.0, 1, 86_400.0)] {
            let mut host = make_site(policy, true, &[1e5, 3e5]);
            host.submit(HostJob { duration, ..HostJob::new(10).size(nodes, nodes) }).unwrap();
            let second_job = host.submit(HostJob::new(10)).unwrap();
            host.advance_time_and_refresh(30.0);
            // Both usages have decayed equally since the push.
            let left = 0.5f64.powf((host.now - NOW) / 1_000.0);
            let mut charged = make_site(policy, false, &[1e5 + cost / left, 3e5]);
            let alone = charged.submit(HostJob::new(10)).unwrap();
            let (actual, wanted) = (fairshare_term(&host, second_job), fairshare_term(&charged, alone));
            assert!((actual - wanted).abs() < 1e-9, "{policy} {cost}: {actual} {wanted}");
        }
    }
}

/// If only one user has usage, more usage does not change this user's fair-share. So interleave lowers the fair-share
/// of each later job by a fixed step.
#[test]
fn interleaved_jobs_with_equal_fair_share_get_priorities_one_step_apart() {
    let mut host = make_site(Policy::Classic, true, &[1e6, 0.0]);
    submit_equal_jobs(&mut host, 10, 5);
    host.advance_time_and_refresh(30.0);
    let first = fairshare_term(&host, JobId(1));
    // The user has a quarter of the shares, and all usage.
    assert!((first - 0.5f64.powi(4)).abs() < 1e-9, "{first}");
    for (before, id) in (1..=5).map(JobId).enumerate() {
        let wanted = first - before as f64 * 1.001e-5;
        assert!((fairshare_term(&host, id) - wanted).abs() < 1e-12, "job {id}");
    }
}

#[test]
fn interleaving_ignores_the_old_bank_of_a_moved_job() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    host.send_event(Event::Settings(Settings { interleave: true, ..Settings::default() }));
    let [moving_job, stays] = [7, 7].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    host.advance_time_and_refresh(30.0);
    let number = |host: &Host, id| host.engine.view().priorities_of(id).unwrap().turn.unwrap().number;
    assert_eq!([moving_job, stays].map(|id| number(&host, id)), [1, 2]);
    host.update_job(moving_job, None, Some("B")).unwrap();
    host.send_event(Event::Reprioritize);
    host.advance_time_and_refresh(30.0);
    assert_eq!([moving_job, stays].map(|id| number(&host, id)), [1, 1]);
}

/// Until the next refresh, a moved job has the position and the fair-share of the last job in its new association. If
/// the new association has no other job, the moved job has no position.
#[test]
fn interleaving_puts_a_moved_job_last_in_its_new_bank() {
    for others in [0, 2] {
        let mut host = make_host_with_live_fairshare(Policy::FairTree);
        host.send_event(Event::Settings(Settings { interleave: true, ..Settings::default() }));
        let moving_job = host.submit(HostJob::new(7).bank("A")).unwrap();
        let there: Vec<JobId> =
            (0..others).map(|_| host.submit(HostJob::new(7).bank("B")).unwrap()).collect();
        host.advance_time_and_refresh(30.0);
        assert_eq!(
            host.engine.view().priorities_of(moving_job).unwrap().turn.map(|turn| turn.number),
            Some(1)
        );
        host.update_job(moving_job, None, Some("B")).unwrap();
        let last = there.last().and_then(|id| host.engine.view().priorities_of(*id).unwrap().turn);
        assert_eq!(last.map(|turn| turn.number), (others > 0).then_some(others));
        assert_eq!(host.engine.view().priorities_of(moving_job).unwrap().turn, last);
    }
}

#[test]
fn the_interleave_turns_of_a_user_follow_the_other_priority_terms() {
    let mut host = make_site(Policy::FairTree, true, &[1e6, 1e6]);
    let [late, urgent] =
        [16, 20].map(|urgency| host.submit(HostJob { urgency, ..HostJob::new(10) }).unwrap());
    host.submit(HostJob::new(11)).unwrap();
    host.advance_time_and_refresh(30.0);
    let number = |id| host.engine.view().priorities_of(id).unwrap().turn.unwrap().number;
    assert_eq!((number(urgent), number(late)), (1, 2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Interleave must not hold a job. Under a ranking policy with ranks, interleave must not change the priority of a
    /// user's only job.
    #[test]
    fn switching_interleave_off_restores_the_priorities_without_interleave(
        users in prop::collection::vec((prop_oneof![Just(0.0), 0.0..1e6f64], 0..6usize, 14..18i64), 2..6), policy in 0..5usize,
    ) {
        let policy = POLICIES[policy];
        let usages: Vec<f64> = users.iter().map(|(usage, ..)| *usage).collect();
        let [mut host, mut plain] = [true, false].map(|interleave| {
            let mut host = make_site(policy, interleave, &usages);
            for (user, (_, jobs, urgency)) in (10..).zip(&users) {
                for _ in 0..*jobs {
                    host.submit(HostJob { urgency: *urgency, ..HostJob::new(user) }).unwrap();
                }
            }
            host
        });
        host.advance_time_and_refresh(30.0);
        plain.advance_time_and_refresh(30.0);
        let alone = users.iter().all(|(_, jobs, _)| *jobs <= 1);
        for (id, job) in &host.jobs {
            let own = plain.jobs[id].priority;
            prop_assert_eq!(own == Some(0), job.priority == Some(0), "job {}", id);
            let keeps = alone && policy != Policy::Pbs;
            prop_assert!(!keeps || own == job.priority, "job {}", id);
        }
        host.send_event(Event::Settings(plain.engine.view().settings.clone()));
        for host in [&mut host, &mut plain] {
            host.engine.post_stale();
            host.advance_time_and_refresh(30.0);
        }
        for (id, job) in &host.jobs {
            prop_assert_eq!(job.priority, plain.jobs[id].priority, "job {}", id);
        }
    }
}
