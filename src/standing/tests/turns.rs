// SPDX-License-Identifier: LGPL-3.0-only
//! Turns, against a search through all associations before each; and what a job would stand at.

use proptest::prelude::*;

use super::*;
use crate::fairshare::Tree;

/// Two equal users, the first of whom has submitted all of his thousand jobs before the second.
fn two(policy: Policy) -> Standing {
    let mut two = site(policy);
    two.associations.truncate(2);
    for leaf in &mut two.associations {
        leaf.usage = Some(1e6);
    }
    let mut standing = standing(two);
    standing.refresh(T0);
    standing
}

#[test]
fn two_equal_users_take_turns() {
    for policy in [Policy::WeightedWalk, Policy::FairTree, Policy::Pbs] {
        let standing = two(policy);
        let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
        let turns =
            Turns::new(tree, ranking, tree.leaves().map(|leaf| (leaf, 1_000))).expect("it has levels");
        let order = turns.all(|_, _| 3_600.0);
        assert_eq!(order.len(), 2_000);
        assert!(order.windows(2).all(|pair| pair[0] != pair[1]), "{policy}");
    }
    let standing = two(Policy::Classic);
    assert!(Turns::new(standing.tree().expect("pushed"), standing.ranking().expect("pushed"), []).is_none());
}

/// Under the formula policies the numbers alone do it: equal for the k-th of each, less for the next.
#[test]
fn prices_of_two_equal_users_alternate_under_formulas() {
    for policy in [Policy::Classic, Policy::DepthOblivious, Policy::Pbs] {
        let standing = two(policy);
        let mut charged = standing.charged().expect("pushed");
        let prices = [0, 1].map(|at| {
            let costs = std::iter::repeat_n(3_600.0, 1_000);
            standing.fairshares_in_turn(&mut charged, Index(at), costs, T0)
        });
        assert_eq!(prices[0], prices[1], "{policy}");
        assert!(prices[0].windows(2).all(|pair| pair[0] > pair[1]), "{policy}");
        assert_eq!(prices[0][0], standing.fairshare(Index(0)));
    }
}

/// OpenPBS's comparison of two paths from the root, (usage, target) a level: which is more deserving.
fn compare(a: &[(f64, f64)], b: &[(f64, f64)]) -> std::cmp::Ordering {
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

    /// All leaves at one depth, where the comparison makes an order, and usages among which ties are seldom but for the first.
    #[test]
    fn the_next_is_the_most_deserving_of_all(
        rows in prop::collection::vec((0..3usize, 0..5u64, prop_oneof![Just(0.0), 0.0..1e4f64], 1..6usize), 1..12),
        costs in prop::collection::vec(1.0..5e3f64, 1..5), shares in prop::array::uniform3(0..4u64),
    ) {
        let mut site = site(Policy::Pbs);
        site.banks.push(bank("C", Some("root"), 1));
        for (row, shares) in site.banks.iter_mut().skip(1).zip(shares) {
            row.shares = Shares::Count(shares);
        }
        site.associations.clear();
        for (user, (of, shares, usage, _)) in rows.iter().enumerate() {
            let mut leaf = leaf(user as u32, ["A", "B", "C"][*of], *usage, Watermark::default());
            leaf.shares = Shares::Count(*shares);
            site.associations.push(leaf);
        }
        let mut standing = standing(site);
        standing.refresh(T0);
        let (tree, ranking) = (standing.tree().expect("pushed"), standing.ranking().expect("pushed"));
        let mut left: Vec<(NodeId, usize)> =
            tree.leaves().zip(rows.iter().cycle()).map(|(leaf, (.., jobs))| (leaf, *jobs)).collect();
        let mut turns = Turns::new(tree, ranking, left.iter().copied()).expect("it has levels");
        let mut usage: HashMap<NodeId, f64> = HashMap::new();
        let path = |leaf: NodeId, usage: &HashMap<NodeId, f64>, tree: &Tree| {
            let bank = tree.parent(leaf).expect("a bank");
            [bank, leaf].map(|node| {
                let detail = ranking.detail(tree, node);
                let more = usage.get(&node).copied().unwrap_or(0.0);
                (detail.usage + more, detail.pbs.expect("pbs").fairshare_perc)
            })
        };
        for cost in costs.iter().cycle().take(60) {
            let waiting: Vec<NodeId> = left.iter().filter(|(_, jobs)| *jobs > 0).map(|(leaf, _)| *leaf).collect();
            let ours = turns.next(*cost);
            let Some(chosen) = ours else {
                prop_assert!(waiting.is_empty());
                break;
            };
            prop_assert!(waiting.contains(&chosen));
            let chosen_path = path(chosen, &usage, tree);
            for other in waiting {
                let order = compare(&chosen_path, &path(other, &usage, tree));
                // Quotients that were added up in another order may differ in the last digit.
                let near = path(other, &usage, tree).iter().zip(&chosen_path).any(|(a, b)| {
                    let (a, b) = (a.0 / a.1, b.0 / b.1);
                    a != b && (a - b).abs() < 1e-9 * a.abs().max(1.0)
                });
                prop_assert!(order.is_le() || near, "{chosen:?} before {other:?}");
            }
            for (leaf, jobs) in &mut left {
                *jobs -= usize::from(*leaf == chosen);
            }
            *usage.entry(chosen).or_default() += cost;
            *usage.entry(tree.parent(chosen).expect("a bank")).or_default() += cost;
        }
    }
}
