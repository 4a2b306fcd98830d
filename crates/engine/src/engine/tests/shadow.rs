// SPDX-License-Identifier: LGPL-3.0-only
//! The shadow policy, against a second site that really has it, and pairs counted one by one.

use super::host::Host;
use super::live::{accounts, leaf, leaves, tree};
use super::site::{HostJob, NOW, association, record};
use crate::engine::{Event, Settings};
use crate::ids::JobId;
use fairshare::Policy;
use proptest::prelude::*;

const POLICIES: [Policy; 5] =
    [Policy::WeightedWalk, Policy::FairTree, Policy::Classic, Policy::DepthOblivious, Policy::Pbs];

/// Users from 10 on, in A and B by turns, with these usages and jobs of these urgencies and queues.
fn site(policy: Policy, shadow: Option<Policy>, users: &[(f64, Vec<(i64, bool)>)]) -> Host {
    let mut host = Host::new();
    let key = |number: usize| (10 + number as u32, ["A", "B"][number % 2]);
    let mut all = accounts();
    all.associations =
        (0..users.len()).map(key).map(|(user, bank)| record(association(user, bank), bank)).collect();
    let leaves = users.iter().enumerate().map(|(number, (usage, _))| {
        let (user, bank) = key(number);
        leaf(user, bank, *usage, 0.0)
    });
    host.event(Event::Settings(Settings { shadow, ..Settings::default() }));
    host.event(Event::Policy(all, tree(policy, NOW, leaves.collect())));
    for (number, (_, jobs)) in users.iter().enumerate() {
        for (urgency, in_q2) in jobs {
            let job = HostJob { urgency: *urgency, ..HostJob::new(key(number).0) };
            host.submit(job.queue(if *in_q2 { "q2" } else { "q1" })).unwrap();
        }
    }
    host.refresh(30.0);
    host
}

fn exact(host: &Host) -> Vec<(JobId, Option<String>, u32)> {
    let price = |id: &JobId| host.engine.priced(*id).unwrap().exact.priority;
    host.jobs.iter().map(|(id, job)| (*id, job.queue.clone(), price(id))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_reports_what_the_other_policy_would_make_of_the_same_jobs(
        users in prop::collection::vec(
            (prop_oneof![Just(0.0), 0.0..1e5f64], prop::collection::vec((0..32i64, any::<bool>()), 0..4)), 2..7),
        policies in (0..5usize, 0..5usize),
    ) {
        let [mine, other] = [policies.0, policies.1].map(|at| POLICIES[at]);
        let host = site(mine, Some(other), &users);
        let really = site(other, None, &users);
        let report = host.engine.live_snapshot().shadow.expect("a report");
        let (mine_all, other_all) = (exact(&host), exact(&really));
        let (mut inversions, mut pairs) = (0, 0);
        for (at, one) in mine_all.iter().enumerate() {
            for (next, two) in mine_all.iter().enumerate().skip(at + 1) {
                if one.1 == two.1 {
                    pairs += 1;
                    // Of equal prices the earlier id goes first; these are in the order of ids.
                    let first = |list: &[(JobId, Option<String>, u32)]| list[at].2 >= list[next].2;
                    inversions += u64::from(first(&mine_all) != first(&other_all));
                }
            }
        }
        prop_assert_eq!((report.policy, report.fault, report.pending), (other, None, mine_all.len()));
        prop_assert_eq!((report.inversions, report.pairs), (inversions, pairs));
        // Who moves, by the ranks of the two sites.
        let ranks = |host: &Host| {
            let standing = &host.engine.standing;
            let (tree, ranking) = (standing.tree().unwrap(), standing.ranking().unwrap());
            tree.leaves().map(|leaf| ranking.rank(leaf).unwrap()).collect::<Vec<u32>>()
        };
        let (mine, other) = (ranks(&host), ranks(&really));
        let moved: Vec<u32> = mine.iter().zip(&other).map(|(a, b)| a.abs_diff(*b)).filter(|by| *by > 0).collect();
        prop_assert_eq!((report.associations, report.moved), (users.len(), moved.len()));
        prop_assert_eq!(report.movers.first().map(|(.., a, b)| a.abs_diff(*b)), moved.iter().max().copied());
        if mine == other {
            prop_assert!(report.tau.is_none_or(|tau| tau == 1.0));
        }
    }
}

#[test]
fn it_has_no_effect_and_is_gone_when_it_is_switched_off() {
    let users: Vec<(f64, Vec<(i64, bool)>)> =
        [0.0, 5e4, 1e3, 7e4].map(|usage| (usage, vec![(16, false), (16, true)])).into();
    let without = site(Policy::FairTree, None, &users);
    let mut host = site(Policy::FairTree, Some(Policy::Classic), &users);
    assert_eq!(exact(&host), exact(&without));
    assert_eq!(without.engine.live_snapshot().shadow, None);
    assert!(host.engine.live_snapshot().shadow.is_some());
    host.event(Event::Settings(Settings::default()));
    assert_eq!(host.engine.live_snapshot().shadow, None);
}

#[test]
fn it_is_of_the_tree_in_force_though_nobody_waits() {
    let mut host = site(Policy::FairTree, Some(Policy::Classic), &[(0.0, Vec::new()), (1e4, Vec::new())]);
    assert_eq!(host.engine.live_snapshot().shadow.unwrap().associations, 2);
    host.event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    host.refresh(30.0);
    assert_eq!(host.engine.live_snapshot().shadow.unwrap().associations, 3);
}

#[test]
fn it_is_not_worked_out_anew_while_nothing_moves() {
    let users = vec![(0.0, vec![(16, false)]), (1e4, vec![(16, false)])];
    let mut host = site(Policy::FairTree, Some(Policy::Classic), &users);
    let when = host.engine.live_snapshot().shadow.unwrap().when;
    host.refresh(30.0);
    assert_eq!(host.engine.live_snapshot().shadow.unwrap().when, when);
    let id = *host.jobs.keys().next().unwrap();
    host.start(id);
    host.refresh(30.0);
    assert!(host.engine.live_snapshot().shadow.unwrap().when > when);
}
