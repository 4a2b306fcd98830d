// SPDX-License-Identifier: LGPL-3.0-only
//! Tests the comparison of two associations, and the values that `explain` returns for each level.

use super::super::*;
use super::{flux_example, make_tree};
use std::cmp::Ordering;

#[test]
fn compare_returns_the_tree_level_where_two_users_diverge_with_its_values() {
    let tree = flux_example();
    let ranking = tree.rank(Policy::FairTree, &Options::default()).expect("a ranking");
    let leaf = |user, bank| tree.leaf(user, bank).expect("leaf");
    let (ahead, behind) = (leaf("leaf.2.2", "account2"), leaf("leaf.1.3", "account1"));
    let why = ranking.compare(&tree, ahead, behind).expect("two leaves");
    assert_eq!((why.verdict, why.ancestor), (Some(Ordering::Less), tree.root()));
    assert_eq!((tree.name(why.fork.0.node), tree.name(why.fork.1.node)), ("account2", "account1"));
    assert_eq!(why.decisive, why.fork);
    let Level { sibling_shares, sibling_usage, value, detail, .. } = why.fork.0;
    assert_eq!((sibling_shares, sibling_usage), (1110.0, 133.0));
    assert_eq!((detail.shares, detail.usage), (Shares::Count(100), 11.0));
    assert_eq!(value, Some((100.0 / 1110.0) / (11.0 / 133.0)));
    let levels = ranking.explain(&tree, behind);
    assert_eq!(
        levels.levels.iter().map(|level| tree.name(level.node)).collect::<Vec<_>>(),
        ["root", "account1", "leaf.1.3"]
    );
    assert_eq!(levels.worst, Some(1));
    assert!(ranking.compare(&tree, ahead, ahead).is_none());
    assert!(ranking.compare(&tree, ahead, tree.root()).is_none());
}

#[test]
fn the_costliest_level_is_none_if_no_level_exceeds_its_share() {
    let tree = make_tree("root - 1\nphys root 1\nchem root 1", "ann phys 1 1\nben phys 1 2\ncleo chem 1 9");
    for policy in [Policy::FairTree, Policy::WeightedWalk] {
        let ranking = tree.rank(policy, &Options::default()).expect("a ranking");
        let worst = |user, bank| ranking.explain(&tree, tree.leaf(user, bank).expect("leaf")).worst;
        assert_eq!(worst("ann", "phys"), None, "{policy}");
        assert_eq!(worst("ben", "phys"), Some(2), "{policy}");
        assert_eq!(worst("cleo", "chem"), Some(1), "{policy}");
    }
}

#[test]
fn compare_descends_through_merged_banks() {
    let tree = make_tree("root - 1\na root 1\nb root 1", "a1 a 1 2\na2 a 1 8\nb1 b 1 1\nb2 b 1 9");
    let ranking = tree.rank(Policy::WeightedWalk, &Options::default()).expect("a ranking");
    let leaf = |user, bank| tree.leaf(user, bank).expect("leaf");
    let why = ranking.compare(&tree, leaf("a1", "a"), leaf("b1", "b")).expect("two leaves");
    assert_eq!(why.verdict, Some(Ordering::Greater));
    assert_eq!((tree.name(why.fork.0.node), tree.name(why.decisive.0.node)), ("a", "a1"));
}

/// Checks the node's fraction of the usage and the sum of the fractions at each level.
#[track_caller]
fn assert_usage_fractions(
    tree: &Tree,
    policy: Policy,
    options: &Options,
    user: (&str, &str),
    parts: &[(f64, f64)],
) {
    let ranking = tree.rank(policy, options).expect("a ranking");
    let levels = ranking.explain(tree, tree.leaf(user.0, user.1).expect("leaf")).levels;
    let figures: Vec<(f64, f64)> =
        levels.iter().skip(1).map(|level| (level.detail.usage, level.sibling_usage)).collect();
    assert_eq!(figures, parts, "{policy}");
}

#[test]
fn explain_divides_a_usage_by_the_displayed_usage_of_all_siblings() {
    let options = Options::default();
    let pbs = make_tree("root - 1\nA root 1", "x A 1 5\ny A 1 1");
    assert_usage_fractions(&pbs, Policy::Pbs, &options, ("x", "A"), &[(6.0, 6.0), (5.0, 6.0)]);
    assert_usage_fractions(&pbs, Policy::Pbs, &options, ("y", "A"), &[(6.0, 6.0), (1.0, 6.0)]);
    // The ranking's sum of usages excludes nodes with parent shares. The sum in the explanation includes
    // them.
    let parent = make_tree("root - 1\np root parent", "u p parent 9\nv root 1 3");
    assert_usage_fractions(&parent, Policy::Classic, &options, ("u", "p"), &[(9.0, 12.0)]);
    let ranking = pbs.rank(Policy::Pbs, &options).expect("a ranking");
    let counted = ["x", "y"].map(|user| ranking.counted_usage(&pbs, pbs.leaf(user, "A").expect("leaf")));
    assert_eq!(counted, [5.0, 0.0]);
}

#[test]
fn compare_has_no_verdict_for_an_unranked_association() {
    let tree = make_tree("root - 1\nA root 1\nC root 3", "a1 A 1 9\n!c1 C 1 1\n!c2 C 1 0");
    let leaf = |user, bank| tree.leaf(user, bank).expect("leaf");
    for policy in Policy::ALL {
        let ranking = tree.rank(policy, &Options::default()).expect("a ranking");
        for other in [leaf("a1", "A"), leaf("c1", "C")] {
            let why = ranking.compare(&tree, leaf("c2", "C"), other).expect("two leaves");
            assert_eq!(why.verdict, None, "{policy}");
        }
        let explained = ranking.explain(&tree, leaf("c2", "C"));
        assert_eq!((explained.worst, explained.levels.last().expect("leaf").value), (None, None));
    }
}

/// The policy treats weights that differ by one bit as equal.
#[test]
fn compare_treats_weights_within_the_tolerance_as_equal() {
    let tree = make_tree("root - 1\nb root 5", "u root 1 2\nv root 1 3\nw b 1 10");
    let ranking = tree.rank(Policy::WeightedWalk, &Options::default()).expect("a ranking");
    let leaf = |user, bank| tree.leaf(user, bank).expect("leaf");
    let why = ranking.compare(&tree, leaf("w", "b"), leaf("u", "root")).expect("two leaves");
    assert!(why.decisive.0.value > why.decisive.1.value);
    assert_eq!((why.verdict, why.equal), (Some(Ordering::Greater), true));
}
