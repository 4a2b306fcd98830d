// SPDX-License-Identifier: LGPL-3.0-only
//! Ranks very large trees, and trees with very large or very small shares and usages.

use super::make_tree;
use crate::*;

#[test]
fn extreme_shares_and_usages_give_valid_fair_shares() {
    let tree = make_tree(
        "root - 1\na root 18446744073709551615\nb root 18446744073709551615",
        "u a 18446744073709551615 1e298\nv a 18446744073709551615 5e-324\nw b 1 1e-300",
    );
    for policy in Policy::ALL {
        let ranking = tree.rank(policy, &Options::default()).expect("a ranking");
        for node in tree.leaves() {
            let value = ranking.fairshare(node).expect("ranked");
            assert!((0.0..=1.0).contains(&value), "{policy} {value}");
        }
        let detail = ranking.detail(&tree, tree.leaf("u", "a").expect("leaf"));
        assert!(detail.norm_shares == 0.5 || detail.norm_shares == 0.25, "{policy}: {}", detail.norm_shares);
    }
}

/// 100,000 levels with a user each. Ranking must not recurse, and must not need time for each pair of level and leaf.
#[test]
fn a_tree_of_100000_levels_is_ranked_without_recursion() {
    const DEPTH: usize = 100_000;
    for parent_shares in [false, true] {
        let mut builder = Builder::default();
        builder.bank("b0", None, Shares::Count(1), None, true);
        for level in 1..DEPTH {
            let shares = if parent_shares && level % 2 == 0 { Shares::Parent } else { Shares::Count(3) };
            builder.bank(&format!("b{level}"), Some(&format!("b{}", level - 1)), shares, None, true);
        }
        for level in 0..DEPTH {
            let usage = (level % 7) as f64;
            builder.association(
                &format!("u{level}"),
                &format!("b{level}"),
                Shares::Count(2),
                Some(usage),
                true,
            );
        }
        let tree = builder.build().expect("a tree");
        let (top, bottom) =
            (tree.leaf("u1", "b1").expect("leaf"), tree.leaf("u99999", "b99999").expect("leaf"));
        for policy in Policy::ALL {
            if parent_shares && [Policy::WeightedWalk, Policy::Pbs].contains(&policy) {
                continue;
            }
            let ranking = tree.rank(policy, &Options::default()).expect("a ranking");
            assert_eq!(ranking.ranked(), DEPTH);
            assert_eq!(ranking.walk(&tree).len(), 2 * DEPTH);
            let why = ranking.compare(&tree, top, bottom).expect("two leaves");
            assert_eq!(why.fork.0.node, top);
        }
        assert_eq!(tree.walk().last().map(|&(_, depth)| depth), Some(DEPTH));
    }
}

#[test]
fn a_bank_of_a_million_users_is_ranked() {
    const USERS: usize = 1_000_000;
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None, true);
    for user in 0..USERS {
        let usage = (user % 1000) as f64;
        builder.association(&format!("u{user}"), "root", Shares::Count(1), Some(usage), true);
    }
    let tree = builder.build().expect("a tree");
    let ranking = tree.rank(Policy::WeightedWalk, &Options::default()).expect("a ranking");
    // 1000 groups of 1000 equal users each.
    let idle = tree.leaf("u5000", "root").expect("leaf");
    assert_eq!(ranking.rank(idle), Some(1_000_000));
    assert_eq!(ranking.rank(tree.leaf("u1", "root").expect("leaf")), Some(999_000));
    assert_eq!(ranking.rank(tree.leaf("u999999", "root").expect("leaf")), Some(1000));
}

/// Tree, ranking and buffers of every policy need at most 100 bytes per leaf, without the text of the names.
#[test]
fn a_ranking_needs_at_most_100_bytes_of_memory_for_each_leaf() {
    const LEAVES: usize = 100_000;
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None, true);
    for bank in 0..1000 {
        builder.bank(&format!("b{bank}"), Some("root"), Shares::Count(bank), None, true);
    }
    for leaf in 0..LEAVES {
        let bank = format!("b{}", leaf % 1000);
        builder.association(&format!("user{leaf}"), &bank, Shares::Count(1), Some(leaf as f64), true);
    }
    let tree = builder.build().expect("a tree");
    let mut ranking = Ranking::default();
    for policy in Policy::ALL {
        tree.rank_into(policy, &Options::default(), &mut ranking).expect("a ranking");
    }
    let (columns, names) = tree.memory();
    assert!(names >= LEAVES * "user".len());
    let per_leaf = (columns + ranking.memory()) as f64 / LEAVES as f64;
    assert!(per_leaf <= 100.0, "{per_leaf} bytes per leaf");
    // A smaller number would mean that `Tree::memory` or `Ranking::memory` leaves out a column.
    assert!(per_leaf >= 45.0, "{per_leaf} bytes per leaf");
}
