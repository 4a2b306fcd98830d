// SPDX-License-Identifier: LGPL-3.0-only
//! Interleave under the model host: who would start next, by posted prices and ids, as a scheduler reads them.
//! Rules: F22

use super::FEW;
use super::host::Host;
use super::live::{accounts, leaf, live, tree};
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

/// Users from 10 on in bank A, with these usages.
fn site(policy: Policy, interleave: bool, usages: &[f64]) -> Host {
    let mut host = Host::new();
    let users = || (10..).take(usages.len());
    let mut all = accounts();
    all.associations = users().map(|user| record(association(user, "A"), "A")).collect();
    let leaves = users().zip(usages).map(|(user, usage)| leaf(user, "A", *usage, 0.0)).collect();
    host.engine.batches = Batches { ordered: 1_000_000, posted: 1_000_000, ..FEW };
    host.event(Event::Settings(Settings { interleave, ..Settings::default() }));
    host.event(Event::Policy(all, tree(policy, NOW, leaves)));
    host
}

/// Jobs in the order of a queue, with whose they are.
fn order(host: &Host) -> Vec<(JobId, u32)> {
    let mut jobs: Vec<_> = host.jobs.iter().map(|(id, job)| (Reverse(job.priority), *id, job.user)).collect();
    jobs.sort_unstable();
    jobs.into_iter().map(|(_, id, user)| (id, user)).collect()
}

fn many(host: &mut Host, user: u32, jobs: usize) {
    for _ in 0..jobs {
        host.submit(HostJob::new(user)).unwrap();
    }
}

fn explained(host: &Host) {
    for (id, job) in &host.jobs {
        let priced = host.engine.view().priced(*id).unwrap();
        assert_eq!(Some(i64::from(priced.posted.priority)), job.priority, "job {id}");
        assert_eq!(priced.exact.priority, priced.posted.priority, "job {id}: nothing lags");
        let term = priced.exact.terms().iter().find(|term| term.name == "fairshare");
        assert_eq!(priced.turn.map(|turn| turn.fairshare), term.map(|term| term.value), "job {id}");
    }
}

/// Without live fair-share the pushed number counts, whatever turns there were.
#[test]
fn turns_end_with_live_fair_share() {
    let off = |live| Event::Settings(Settings { live, ..Settings::default() });
    for (what, end) in [("live", off(false)), ("tree", Event::Policy(accounts(), SitePart::default()))] {
        let mut host = live(Policy::FairTree);
        host.event(Event::Settings(Settings { interleave: true, ..Settings::default() }));
        let early = [(); 2].map(|()| host.submit(HostJob::new(8)).unwrap());
        host.refresh(30.0);
        let [first, second] = early.map(|id| host.engine.view().priced(id).unwrap().exact.priority);
        assert_ne!(first, second);
        host.event(end);
        let late = host.submit(HostJob::new(8)).unwrap();
        for id in [early[0], early[1], late] {
            assert_eq!(host.jobs[&id].priority, Some(50_000), "{what}");
        }
    }
}

/// Where fair-share counts against a job, one in its turn has the higher sum; what holds it is its own.
#[test]
fn a_turn_frees_no_job_that_its_own_fair_share_holds() {
    let mut host = site(Policy::FairTree, true, &[0.0, 0.0]);
    host.event(Event::Queues(vec![Queue { priority: 400, ..queue("q1") }]));
    let ids = [10, 11, 10, 11].map(|user| host.submit(HostJob::new(user).queue("q1")).unwrap());
    host.refresh(30.0);
    let turns = ids.map(|id| host.engine.view().priced(id).unwrap().turn.unwrap().fairshare);
    assert!(turns.iter().any(|it| *it < 0.9), "{turns:?}");
    // The turns are of the last refresh until the next.
    for (factor, weight) in [("fairshare", -1_000), ("queue", 1)] {
        host.engine.handle(NOW, Event::Weights(vec![(factor.to_owned(), weight)]));
    }
    for id in ids {
        assert_eq!(host.engine.view().priced(id).unwrap().exact.priority, 0, "{turns:?}");
    }
}

#[test]
fn two_equal_users_alternate_whoever_came_first() {
    for usage in [0.0, 1e6] {
        for policy in POLICIES {
            let mut host = site(policy, true, &[usage, usage]);
            for user in [10, 11] {
                many(&mut host, user, 100);
            }
            host.refresh(30.0);
            let users: Vec<u32> = order(&host).into_iter().map(|(_, user)| user).collect();
            assert!(users.windows(2).all(|pair| pair[0] != pair[1]), "{policy} {usage}: {users:?}");
            explained(&host);
            let numbers: Vec<usize> = host
                .jobs
                .keys()
                .map(|id| host.engine.view().priced(*id).unwrap().turn.unwrap().number)
                .collect();
            assert_eq!(numbers, (1..=100).chain(1..=100).collect::<Vec<usize>>());
        }
    }
}

#[test]
fn a_thousand_each_alternate() {
    let mut host = site(Policy::FairTree, true, &[1e6, 1e6]);
    for user in [10, 11] {
        many(&mut host, user, 1_000);
    }
    host.refresh(30.0);
    let users: Vec<u32> = order(&host).into_iter().map(|(_, user)| user).collect();
    assert_eq!(users.len(), 2_000);
    assert!(users.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn without_it_one_goes_first_with_all() {
    let mut host = site(Policy::FairTree, false, &[1e6, 1e6]);
    for user in [10, 11] {
        many(&mut host, user, 20);
    }
    host.refresh(30.0);
    let users: Vec<u32> = order(&host).into_iter().map(|(_, user)| user).collect();
    assert_eq!(users, [[10; 20], [11; 20]].concat());
    assert_eq!(host.engine.view().priced(JobId(1)).unwrap().turn, None);
}

#[test]
fn held_and_zero_score_jobs_do_not_count() {
    for policy in POLICIES {
        let mut host = site(policy, true, &[1e6, 1e6]);
        for _ in 0..5 {
            host.submit(HostJob { urgency: 0, ..HostJob::new(10) }).unwrap();
        }
        let mine = host.submit(HostJob::new(10)).unwrap();
        let other = host.submit(HostJob::new(11)).unwrap();
        host.refresh(30.0);
        assert_eq!(host.jobs[&mine].priority, host.jobs[&other].priority, "{policy}");
        assert_eq!(host.engine.view().priced(mine).unwrap().turn.unwrap().number, 1);
        let held = host.engine.view().priced(JobId(1)).unwrap();
        assert_eq!(held.turn.unwrap().number, 1, "none of its own: with the last that has one");
    }
}

/// The fair-share by which the job is priced.
fn term(host: &Host, id: JobId) -> f64 {
    let exact = host.engine.view().priced(id).unwrap().exact;
    exact.terms().iter().find(|term| term.name == "fairshare").unwrap().value
}

/// A job stands where its association does on a site where what goes before it was used already.
#[test]
fn a_turn_costs_what_the_job_before_asks_for() {
    for policy in [Policy::Classic, Policy::DepthOblivious] {
        for (duration, nodes, cost) in [(3_600.0, 2, 7_200.0), (0.0, 1, 86_400.0)] {
            let mut host = site(policy, true, &[1e5, 3e5]);
            host.submit(HostJob { duration, ..HostJob::new(10).size(nodes, nodes) }).unwrap();
            let second = host.submit(HostJob::new(10)).unwrap();
            host.refresh(30.0);
            // Both usages have faded alike since the push.
            let left = 0.5f64.powf((host.now - NOW) / 1_000.0);
            let mut really = site(policy, false, &[1e5 + cost / left, 3e5]);
            let alone = really.submit(HostJob::new(10)).unwrap();
            let (ours, wanted) = (term(&host, second), term(&really, alone));
            assert!((ours - wanted).abs() < 1e-9, "{policy} {cost}: {ours} {wanted}");
        }
    }
}

/// Where only one has used anything, the formula says the same of all jobs: each price falls by one.
#[test]
fn turns_that_a_formula_takes_for_equal_are_one_apart() {
    let mut host = site(Policy::Classic, true, &[1e6, 0.0]);
    many(&mut host, 10, 5);
    host.refresh(30.0);
    let first = term(&host, JobId(1));
    // All that was used, at a quarter of the shares.
    assert!((first - 0.5f64.powi(4)).abs() < 1e-9, "{first}");
    for (before, id) in (1..=5).map(JobId).enumerate() {
        let wanted = first - before as f64 * 1.001e-5;
        assert!((term(&host, id) - wanted).abs() < 1e-12, "job {id}");
    }
}

#[test]
fn a_job_that_moved_to_another_bank_has_no_turn_in_the_former() {
    let mut host = live(Policy::FairTree);
    host.event(Event::Settings(Settings { interleave: true, ..Settings::default() }));
    let [moves, stays] = [7, 7].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    host.refresh(30.0);
    let number = |host: &Host, id| host.engine.view().priced(id).unwrap().turn.unwrap().number;
    assert_eq!([moves, stays].map(|id| number(&host, id)), [1, 2]);
    host.update(moves, None, Some("B")).unwrap();
    host.event(Event::Reprioritize);
    host.refresh(30.0);
    assert_eq!([moves, stays].map(|id| number(&host, id)), [1, 1]);
}

/// Until the next refresh it stands with the last of where it has come to; alone there, by the fair-share that counts there.
#[test]
fn a_job_that_moved_to_another_bank_stands_with_the_last_there() {
    for others in [0, 2] {
        let mut host = live(Policy::FairTree);
        host.event(Event::Settings(Settings { interleave: true, ..Settings::default() }));
        let moves = host.submit(HostJob::new(7).bank("A")).unwrap();
        let there: Vec<JobId> =
            (0..others).map(|_| host.submit(HostJob::new(7).bank("B")).unwrap()).collect();
        host.refresh(30.0);
        assert_eq!(host.engine.view().priced(moves).unwrap().turn.map(|turn| turn.number), Some(1));
        host.update(moves, None, Some("B")).unwrap();
        let last = there.last().and_then(|id| host.engine.view().priced(*id).unwrap().turn);
        assert_eq!(last.map(|turn| turn.number), (others > 0).then_some(others));
        assert_eq!(host.engine.view().priced(moves).unwrap().turn, last);
    }
}

#[test]
fn a_users_own_order_is_by_what_else_makes_a_price() {
    let mut host = site(Policy::FairTree, true, &[1e6, 1e6]);
    let [late, urgent] =
        [16, 20].map(|urgency| host.submit(HostJob { urgency, ..HostJob::new(10) }).unwrap());
    host.submit(HostJob::new(11)).unwrap();
    host.refresh(30.0);
    let number = |id| host.engine.view().priced(id).unwrap().turn.unwrap().number;
    assert_eq!((number(urgent), number(late)), (1, 2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Switched on and off again, nothing is left of it; who has one job, under a rank rule, is priced as ever; nobody is held by it.
    #[test]
    fn it_leaves_no_trace(
        users in prop::collection::vec((prop_oneof![Just(0.0), 0.0..1e6f64], 0..6usize, 14..18i64), 2..6), policy in 0..5usize,
    ) {
        let policy = POLICIES[policy];
        let usages: Vec<f64> = users.iter().map(|(usage, ..)| *usage).collect();
        let [mut host, mut plain] = [true, false].map(|interleave| {
            let mut host = site(policy, interleave, &usages);
            for (user, (_, jobs, urgency)) in (10..).zip(&users) {
                for _ in 0..*jobs {
                    host.submit(HostJob { urgency: *urgency, ..HostJob::new(user) }).unwrap();
                }
            }
            host
        });
        host.refresh(30.0);
        plain.refresh(30.0);
        let alone = users.iter().all(|(_, jobs, _)| *jobs <= 1);
        for (id, job) in &host.jobs {
            let own = plain.jobs[id].priority;
            prop_assert_eq!(own == Some(0), job.priority == Some(0), "job {}", id);
            let keeps = alone && policy != Policy::Pbs;
            prop_assert!(!keeps || own == job.priority, "job {}", id);
        }
        host.event(Event::Settings(plain.engine.view().live_snapshot().settings));
        for host in [&mut host, &mut plain] {
            host.engine.post_stale();
            host.refresh(30.0);
        }
        for (id, job) in &host.jobs {
            prop_assert_eq!(job.priority, plain.jobs[id].priority, "job {}", id);
        }
    }
}
