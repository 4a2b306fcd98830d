// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the order of job starts with a simple reference search. Also checks the fair-shares of jobs whose usage was charged.

use proptest::prelude::*;
use std::collections::HashMap;

use super::*;
use crate::standing::turns::compute_fairshares_in_turn;
use fairshare::{ChargedFairshares, Tree};

/// Makes the test data: two users with equal shares and equal usages.
fn make_fairshare_state_with_equal_users(policy: Policy) -> Standing {
    let mut site_of_two = site(policy);
    site_of_two.associations.truncate(2);
    for leaf in &mut site_of_two.associations {
        leaf.usage = Some(1e6);
    }
    let mut standing = standing(site_of_two);
    standing.refresh(T0);
    standing
}

/// Starts all jobs, and returns their associations in the order of the starts. `cost` computes the usage to charge for a
/// job. Its arguments are the association and the number of jobs that the association has started before.
fn start_all(mut turns: Turns, mut cost: impl FnMut(NodeId, usize) -> f64) -> Vec<NodeId> {
    let mut taken: HashMap<NodeId, usize> = HashMap::new();
    let mut next = |leaf| {
        let number = taken.entry(leaf).or_default();
        *number += 1;
        cost(leaf, *number - 1)
    };
    std::iter::from_fn(|| turns.take(&mut next)).collect()
}

#[test]
fn jobs_of_two_equal_users_start_alternately() {
    for policy in [Policy::WeightedWalk, Policy::FairTree, Policy::Pbs] {
        let standing = make_fairshare_state_with_equal_users(policy);
        let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
        let turns =
            Turns::new(tree, ranking, tree.leaves().map(|leaf| (leaf, 1_000))).expect("it has levels");
        let order = start_all(turns, |_, _| 3_600.0);
        assert_eq!(order.len(), 2_000);
        assert!(order.windows(2).all(|pair| pair[0] != pair[1]), "{policy}");
    }
    let standing = make_fairshare_state_with_equal_users(Policy::Classic);
    assert!(Turns::new(standing.tree().expect("pushed"), standing.ranking().expect("pushed"), []).is_none());
}

#[test]
fn under_formula_policies_the_turns_of_two_equal_users_alternate() {
    for policy in [Policy::Classic, Policy::DepthOblivious, Policy::Pbs] {
        let standing = make_fairshare_state_with_equal_users(policy);
        let mut charged =
            ChargedFairshares::new(standing.tree().expect("pushed"), standing.ranking().expect("ranked"));
        let fairshares = [0, 1].map(|at| {
            let (leaf, factor) =
                (standing.node(Index(at)).expect("a leaf"), standing.scale().expect("pushed").factor(T0));
            compute_fairshares_in_turn(&mut charged, leaf, &[3_600.0; 1_000], factor)
        });
        assert_eq!(fairshares[0], fairshares[1], "{policy}");
        assert!(fairshares[0].windows(2).all(|pair| pair[0] > pair[1]), "{policy}");
        assert_eq!(fairshares[0][0], standing.fairshare(Index(0)));
    }
}

#[test]
fn costs_of_an_association_are_charged_in_order() {
    let standing = make_fairshare_state_with_equal_users(Policy::FairTree);
    let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
    let turns = Turns::new(tree, ranking, tree.leaves().map(|leaf| (leaf, 4))).expect("it has levels");
    let mut numbers_of: HashMap<NodeId, Vec<usize>> = HashMap::new();
    start_all(turns, |leaf, number| {
        numbers_of.entry(leaf).or_default().push(number);
        60.0
    });
    assert!(
        numbers_of.len() == 2 && numbers_of.values().all(|numbers| numbers == &[0, 1, 2, 3]),
        "{numbers_of:?}"
    );
}

#[test]
fn associations_without_a_target_are_equally_deserving() {
    for usages in [[0.0, 5.0], [5.0, 0.0], [-0.0, 0.0], [0.0, -0.0]] {
        for shares in [0, 1] {
            let mut without_targets = site(Policy::FairTree);
            without_targets.associations.truncate(2);
            for (leaf, usage) in without_targets.associations.iter_mut().zip(usages) {
                (leaf.usage, leaf.shares) = (Some(usage), shares);
            }
            let mut standing = standing(without_targets);
            standing.refresh(T0);
            let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
            let mut turns = Turns::new(tree, ranking, tree.leaves().map(|leaf| (leaf, 1))).expect("levels");
            let wanted = usize::from(shares == 1 && usages[0] > usages[1]);
            assert_eq!(turns.take(|_| 1.0), standing.node(Index(wanted as u32)), "{usages:?} {shares}");
        }
    }
}

/// If banks are equal, their best associations are compared. If these are equal too, the first association in the tree starts a job.
#[test]
fn the_best_associations_of_equal_banks_are_compared() {
    let mut mixed = site(Policy::FairTree);
    mixed.banks = vec![bank("root", None, 1), bank("AA", Some("root"), 1), bank("AB", Some("root"), 1)];
    mixed.associations = [(1, "AA", 5.0), (2, "AB", 0.0), (3, "AB", 5.0), (9, "root", 5.0)]
        .map(|(user, bank, usage)| leaf(user, bank, usage, Watermark::default()))
        .into();
    let mut standing = standing(mixed);
    standing.refresh(T0);
    let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
    let mut turns = Turns::new(tree, ranking, tree.leaves().map(|leaf| (leaf, 1))).expect("it has levels");
    let best_leaves = [0, 1, 3].map(|at| standing.node(Index(at)).expect("a leaf"));
    assert_eq!(turns.take(|_| 1.0), best_leaves.into_iter().min(), "{best_leaves:?}");
    assert_eq!([1, 2].map(|at| turns.usage(standing.node(Index(at))?)), [Some(0.0), Some(5.0)]);
}

/// Returns a standing with forty users without usage, `users_per_bank` in each bank.
fn make_fairshare_state_with_idle_users(users_per_bank: u32) -> Standing {
    let mut idle_site = site(Policy::FairTree);
    let name = |user: u32| format!("bank{:02}", user / users_per_bank);
    idle_site.banks = vec![bank("root", None, 1)];
    idle_site
        .banks
        .extend((0..40).step_by(users_per_bank as usize).map(|user| bank(&name(user), Some("root"), 1)));
    idle_site.associations = (0..40).map(|user| leaf(user, &name(user), 0.0, Watermark::default())).collect();
    let mut standing = standing(idle_site);
    standing.refresh(T0);
    standing
}

/// Most users of a site may be equal because they have no usage. Comparing all equal users would be slow.
#[test]
fn the_search_compares_one_of_several_equal_users_but_all_equal_banks() {
    for (users_per_bank, compared) in [(40, 0), (1, 80), (10, 8)] {
        let standing = make_fairshare_state_with_idle_users(users_per_bank);
        let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
        let mut turns =
            Turns::new(tree, ranking, tree.leaves().map(|leaf| (leaf, 2))).expect("it has levels");
        assert_eq!(turns.take(|_| 1.0), tree.leaves().next());
        assert_eq!(turns.compared, compared, "{users_per_bank}");
    }
}

#[test]
fn each_comparison_of_equal_banks_counts_as_a_computation_step() {
    // The second start needs one comparison fewer, because the first bank has been charged.
    for (users_per_bank, budget, taken) in [(40, 40, 40), (1, 81, 1), (1, 82, 2), (1, 160, 2), (1, 161, 3)] {
        let standing = make_fairshare_state_with_idle_users(users_per_bank);
        let asked = (0..40).map(|user| (Index(user), vec![1.0, 1.0])).collect();
        let mut charging = Charging::new(&standing, asked, T0).expect("a tree");
        assert!(!charging.charge(&standing, budget));
        let turns: usize =
            charging.list_fairshares(&standing, 1e-6).iter().map(|(_, fairshares)| fairshares.len()).sum();
        assert_eq!(turns, taken, "{users_per_bank} {budget}");
    }
}

/// Returns the users in the order in which their jobs start, by the fair-shares of the jobs.
fn list_users_in_start_order(standing: &Standing, charging: Charging) -> Vec<u32> {
    let mut turns: Vec<(f64, u32)> = charging
        .list_fairshares(standing, 1e-6)
        .into_iter()
        .flat_map(|(index, fairshares)| fairshares.into_iter().map(move |fairshare| (fairshare, index.0)))
        .collect();
    turns.sort_by(|a, b| b.0.total_cmp(&a.0));
    turns.into_iter().map(|(_, index)| index).collect()
}

/// One half-life after the push, the usages 10,000 and 12,000 have decayed to 5,000 and 6,000. So the first user may
/// start two jobs of 600 before the second user is first.
#[test]
fn charges_are_scaled_by_the_usage_decay_since_the_push() {
    let mut standing = make_fairshare_state_with_equal_users(Policy::FairTree);
    let mut pushed = site(Policy::FairTree);
    pushed.associations[0].usage = Some(10_000.0);
    pushed.associations[1].usage = Some(12_000.0);
    standing.push(pushed).expect("a site");
    standing.refresh(T0 + DAY);
    let asked = || vec![(Index(0), vec![600.0; 5]), (Index(1), vec![5_000.0, 1.0])];
    for (budget, calls) in [(1, 8), (2, 4), (7, 2), (8, 1), (100, 1)] {
        let mut charging = Charging::new(&standing, asked(), T0 + DAY).expect("a tree");
        let mut made_calls = 1;
        while !charging.charge(&standing, budget) {
            made_calls += 1;
        }
        assert_eq!(made_calls, calls, "{budget}");
        assert_eq!(list_users_in_start_order(&standing, charging), [0, 0, 1, 0, 0, 0, 1], "{budget}");
    }
}

#[test]
fn under_a_formula_policy_a_refresh_slice_handles_whole_associations() {
    let mut four = site(Policy::Classic);
    four.associations.push(leaf(4, "B", 9.0, Watermark::default()));
    let mut standing = standing(four);
    standing.refresh(T0);
    for (budget, calls) in [(1, 5), (6, 3), (9, 2), (12, 2), (13, 1)] {
        let asked = (0..4).map(|at| (Index(at), vec![60.0, 70.0])).collect();
        let mut charging = Charging::new(&standing, asked, T0).expect("a tree");
        let mut made_calls = 1;
        while !charging.charge(&standing, budget) {
            made_calls += 1;
        }
        assert_eq!(made_calls, calls, "{budget}");
        let lengths: Vec<usize> = charging
            .list_fairshares(&standing, 1e-6)
            .iter()
            .map(|(_, fairshares)| fairshares.len())
            .collect();
        assert_eq!(lengths, [2; 4]);
    }
}

/// Compares two paths from the root as OpenPBS does. Each level has a usage and a target. `Less` means more deserving.
fn compare_paths(a: &[(f64, f64)], b: &[(f64, f64)]) -> std::cmp::Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (a.1 > 0.0, b.1 > 0.0) {
            (false, false) => return std::cmp::Ordering::Equal,
            (false, true) => return std::cmp::Ordering::Greater,
            (true, false) => return std::cmp::Ordering::Less,
            (true, true) => (a.0 / a.1).partial_cmp(&(b.0 / b.1)).expect("numbers"),
        };
        if order.is_ne() {
            return order;
        }
    }
    std::cmp::Ordering::Equal
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// All leaves have the same depth, because paths of different lengths cannot be ordered. Usages are random, so two are equal only if they are 0.
    #[test]
    fn the_next_turn_goes_to_the_most_deserving_association(
        rows in prop::collection::vec((0..3usize, 0..5u64, prop_oneof![Just(0.0), 0.0..1e4f64], 1..6usize), 1..12),
        costs in prop::collection::vec(1.0..5e3f64, 1..5), shares in prop::array::uniform3(0..4u64),
    ) {
        let mut site = site(Policy::Pbs);
        site.banks.push(bank("C", Some("root"), 1));
        for (row, shares) in site.banks.iter_mut().skip(1).zip(shares) {
            row.shares = shares;
        }
        site.associations.clear();
        for (user, (bank_index, shares, usage, _)) in rows.iter().enumerate() {
            let mut leaf = leaf(user as u32, ["A", "B", "C"][*bank_index], *usage, Watermark::default());
            leaf.shares = *shares;
            site.associations.push(leaf);
        }
        let mut standing = standing(site);
        standing.refresh(T0);
        let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
        let mut remaining: Vec<(NodeId, usize)> =
            tree.leaves().zip(rows.iter().cycle()).map(|(leaf, (.., jobs))| (leaf, *jobs)).collect();
        let mut turns = Turns::new(tree, ranking, remaining.iter().copied()).expect("it has levels");
        let mut usage: HashMap<NodeId, f64> = HashMap::new();
        let path = |leaf: NodeId, usage: &HashMap<NodeId, f64>, tree: &Tree| {
            let bank = tree.parent(leaf).expect("a bank");
            [bank, leaf].map(|node| {
                let detail = ranking.detail(tree, node);
                let charged = usage.get(&node).copied().unwrap_or(0.0);
                (detail.usage + charged, detail.pbs.expect("pbs").fairshare_perc)
            })
        };
        for cost in costs.iter().cycle().take(60) {
            let pending: Vec<NodeId> = remaining.iter().filter(|(_, jobs)| *jobs > 0).map(|(leaf, _)| *leaf).collect();
            let Some(chosen) = turns.take(|_| *cost) else {
                prop_assert!(pending.is_empty());
                break;
            };
            prop_assert!(pending.contains(&chosen));
            let chosen_path = path(chosen, &usage, tree);
            for other in pending {
                let order = compare_paths(&chosen_path, &path(other, &usage, tree));
                // Sums in another order may differ in the last digit.
                let is_close = path(other, &usage, tree).iter().zip(&chosen_path).any(|(a, b)| {
                    let (a, b) = (a.0 / a.1, b.0 / b.1);
                    a != b && (a - b).abs() < 1e-9 * a.abs().max(1.0)
                });
                prop_assert!(order.is_le() || is_close, "{chosen:?} before {other:?}");
            }
            for (leaf, jobs) in &mut remaining {
                *jobs -= usize::from(*leaf == chosen);
            }
            *usage.entry(chosen).or_default() += cost;
            *usage.entry(tree.parent(chosen).expect("a bank")).or_default() += cost;
        }
    }

    /// Usages are small whole numbers, so ties occur on each level. If leaves are tied on all levels, the first leaf
    /// in the tree starts a job.
    #[test]
    fn ties_are_resolved_level_by_level(
        rows in prop::collection::vec((0..4usize, 0..3u32, 1..4usize), 1..10), costs in prop::collection::vec(1..3u32, 1..5),
    ) {
        let mut site = site(Policy::Pbs);
        for (name, above) in [("A1", "A"), ("A2", "A"), ("B1", "B"), ("B2", "B")] {
            site.banks.push(bank(name, Some(above), 1));
        }
        let make_leaf = |(user, (bank_index, usage, _)): (u32, &(usize, u32, usize))| {
            leaf(user, ["A1", "A2", "B1", "B2"][*bank_index], f64::from(*usage), Watermark::default())
        };
        site.associations = (0..).zip(&rows).map(make_leaf).collect();
        let mut standing = standing(site);
        standing.refresh(T0);
        let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
        let mut remaining: Vec<(NodeId, usize)> = (0..)
            .zip(&rows)
            .map(|(user, (.., jobs))| (standing.node(Index(user)).expect("a leaf"), *jobs))
            .collect();
        let mut turns = Turns::new(tree, ranking, remaining.iter().copied()).expect("it has levels");
        let mut charged: HashMap<NodeId, f64> = HashMap::new();
        let nodes = |leaf: NodeId| {
            let below = tree.parent(leaf).expect("a bank");
            [tree.parent(below).expect("a bank"), below, leaf]
        };
        for cost in costs.iter().cycle() {
            let path = |leaf: NodeId| {
                nodes(leaf).map(|node| {
                    let detail = ranking.detail(tree, node);
                    let usage = detail.usage + charged.get(&node).copied().unwrap_or(0.0);
                    (usage, detail.pbs.expect("pbs").fairshare_perc)
                })
            };
            let pending = remaining.iter().filter(|(_, jobs)| *jobs > 0).map(|(leaf, _)| *leaf);
            let best = pending.min_by(|a, b| compare_paths(&path(*a), &path(*b)).then(a.cmp(b)));
            prop_assert_eq!(turns.take(|_| f64::from(*cost)), best);
            let Some(best) = best else { break };
            for (leaf, jobs) in &mut remaining {
                *jobs -= usize::from(*leaf == best);
            }
            for node in nodes(best) {
                *charged.entry(node).or_default() += f64::from(*cost);
            }
        }
    }
}
