// SPDX-License-Identifier: LGPL-3.0-only
//! Tests predictions of a ranking: which shares or usage reverse the order of two associations. Also tests which usage
//! makes a node's fraction of the usage equal to its fraction of the shares. The tests change the tree and rank it
//! again.

use proptest::prelude::*;

use super::super::*;
use super::make_tree;
use std::cmp::Ordering;

#[test]
fn the_best_association_has_position_1_and_ties_share_a_position() {
    let tree = make_tree("root - 1\nA root 1", "a A 1 9\nb A 1 3\nc A 1 3\nd A 1 1\n!e A 1 0");
    let ranking = tree.rank(Policy::WeightedWalk, &Options::default()).expect("a ranking");
    let leaf = |user| tree.leaf(user, "A").expect("leaf");
    let ahead = |user| ranking.just_ahead(leaf(user)).map(|node| tree.name(node));
    let rows = [("d", Some(1), None, 0), ("b", Some(2), Some("d"), 1), ("c", Some(2), Some("d"), 1)];
    for (user, place, before, tied) in rows {
        let node = leaf(user);
        assert_eq!(
            (ranking.place(node), ahead(user), ranking.count_ties(node)),
            (place, before, tied),
            "{user}"
        );
    }
    assert_eq!((ranking.place(leaf("a")), ahead("a")), (Some(4), Some("c")));
    assert_eq!((ranking.place(leaf("e")), ahead("e"), ranking.count_ties(leaf("e"))), (None, None, 0));
}

/// An example from OpenPBS's documentation, with the users in the order of its scheduler.
#[test]
fn the_pbs_walk_compares_users_of_equal_groups() {
    let tree = make_tree(
        "root - 1\ng1 root 50\ng2 root 50",
        "a g1 10 49\nb g1 10 150\nc g2 10 100\nd g2 10 99\ns root 50 300",
    );
    let ranking = tree.rank(Policy::Pbs, &Options::default()).expect("a ranking");
    let walk = ranking.pbs_walk(&tree).expect("pbs");
    let place = |user, bank| walk.place(tree.leaf(user, bank).expect("leaf"));
    assert_eq!(
        [place("a", "g1"), place("d", "g2"), place("c", "g2"), place("b", "g1"), place("s", "root")],
        [Some(1), Some(2), Some(3), Some(4), Some(5)]
    );
    // b has the usage 150 and the target 1/6, so the quotient is 900.
    let b = tree.leaf("b", "g1").expect("leaf");
    assert_eq!(ranking.usage_over_target(&tree, b).map(f64::round), Some(900.0));
    assert!(tree.rank(Policy::Classic, &Options::default()).expect("a ranking").pbs_walk(&tree).is_none());
}

/// Generates two banks of two users. Whole numbers make ties common.
fn any_rows() -> impl Strategy<Value = Vec<(u64, f64)>> {
    prop::collection::vec((0u64..5, (0u32..6).prop_map(f64::from)), 6)
}

fn build_tree(rows: &[(u64, f64)]) -> Tree {
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None, true);
    let (banks, users) = rows.split_at(2);
    for (name, row) in ["A", "B"].iter().zip(banks) {
        builder.bank(name, Some("root"), Shares::Count(row.0), None, true);
    }
    for (at, row) in users.iter().enumerate() {
        let bank = if at < 2 { "A" } else { "B" };
        builder.association(&format!("u{at}"), bank, Shares::Count(row.0), Some(row.1 * 7.0), true);
    }
    builder.build().expect("a tree")
}

proptest! {
    /// With the shares or the usage that `overtake` returns, the association that was behind is ahead. With
    /// one share less, it is still behind.
    #[test]
    fn overtake_returns_the_shares_and_usage_that_put_an_association_ahead(rows in any_rows(), fair_tree in any::<bool>()) {
        let policy = if fair_tree { Policy::FairTree } else { Policy::WeightedWalk };
        let mut tree = build_tree(&rows);
        let rank = |tree: &Tree| tree.rank(policy, &Options::default()).expect("a ranking");
        let leaves: Vec<NodeId> = tree.leaves().collect();
        for (a, b) in leaves.iter().flat_map(|a| leaves.iter().map(move |b| (*a, *b))) {
            let ranking = rank(&tree);
            let Some(comparison) = ranking.compare(&tree, a, b) else { continue };
            let Some(change) = ranking.overtake(&comparison) else { continue };
            prop_assert_ne!(comparison.verdict, Some(Ordering::Equal));
            let behind = if comparison.verdict == Some(Ordering::Less) { b } else { a };
            let (front, own) = (if behind == a { b } else { a }, tree.shares(change.node));
            let is_ahead = |tree: &Tree| rank(tree).fairshare(behind) > rank(tree).fairshare(front);
            if let Some(shares) = change.shares {
                tree.set_shares(change.node, Shares::Count(shares));
                prop_assert!(is_ahead(&tree), "{} shares", shares);
                tree.set_shares(change.node, Shares::Count(shares - 1));
                let less = rank(&tree).compare(&tree, a, b);
                // If the banks are equal, their members are compared next, and either association may come
                // first.
                if less.is_some_and(|less| less.fork == less.decisive) {
                    prop_assert!(!is_ahead(&tree), "{} shares", shares - 1);
                }
                tree.set_shares(change.node, own);
            }
            // The usage of a bank is the sum of its users.
            let Some((usage, used)) = change.usage.zip(tree.own_usage(change.node)) else { continue };
            if tree.kind(change.node) == NodeKind::Association {
                tree.set_usage(change.node, usage * 0.999).expect("a usage");
                prop_assert!(is_ahead(&tree), "usage {}", usage);
                tree.set_usage(change.node, usage * 1.001).expect("a usage");
                prop_assert!(!is_ahead(&tree), "usage {}", usage);
                tree.set_usage(change.node, used).expect("a usage");
            }
        }
    }

    #[test]
    fn a_node_with_its_even_usage_has_a_level_fs_of_1(rows in any_rows()) {
        let mut tree = build_tree(&rows);
        let leaves: Vec<NodeId> = tree.leaves().collect();
        for leaf in leaves {
            let ranking = tree.rank(Policy::WeightedWalk, &Options::default()).expect("a ranking");
            let levels = ranking.explain(&tree, leaf).levels;
            let Some(usage) = levels.last().and_then(Level::even_usage) else { continue };
            let used = tree.own_usage(leaf).unwrap_or(0.0);
            tree.set_usage(leaf, usage).expect("a usage");
            let level = tree.rank(Policy::FairTree, &Options::default()).expect("a ranking").detail(&tree, leaf).level_fs;
            prop_assert!((level.unwrap_or(0.0) - 1.0).abs() < 1e-9, "{:?}", level);
            tree.set_usage(leaf, used).expect("a usage");
        }
    }
}
