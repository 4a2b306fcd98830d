// SPDX-License-Identifier: LGPL-3.0-only
//! Where an association would stand, against a ranking of the tree in which it does.

use proptest::prelude::*;

use super::properties::{any_kind, options, policies};
use crate::charged::is_near;
use crate::{Builder, Charged, Options, Policy, Shares, Tree};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stands_where_a_ranking_puts_it(
        (kind, site) in any_kind(), options in options(),
        charges in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0.0), Just(1.0), Just(8.0), 0.0..300.0f64]), 1..8),
    ) {
        let tree = Tree::build(&site).expect("a tree");
        for policy in policies(kind) {
            let ranking = tree.rank(policy, &options).expect("a ranking");
            let mut charged = Charged::new(&tree, &ranking);
            for (leaf, usage) in &charges {
                let leaves: Vec<_> = tree.leaves().collect();
                let leaf = *leaf.get(&leaves);
                let mut changed = tree.clone();
                changed.accrue(leaf, *usage);
                let expected = changed.rank(policy, &options).expect("a ranking").fairshare(leaf);
                let ours = charged.fairshare(leaf, *usage);
                prop_assert_eq!(ours.is_some(), expected.is_some());
                let off = (ours.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs();
                prop_assert!(off < 1e-12, "{policy} {}: {ours:?} {expected:?}", tree.describe(leaf));
            }
        }
    }
}

/// Where all usages are different, no tree is ranked to answer.
#[test]
fn a_place_is_looked_up() {
    let mut builder = Builder::default();
    builder.bank("b0", None, Shares::Count(1), None);
    for bank in 1..12u64 {
        let above = format!("b{}", bank / 3);
        builder.bank(&format!("b{bank}"), Some(&above), Shares::Count(bank), None);
    }
    for leaf in 0..300u64 {
        let usage = Some((leaf * leaf * 7_919 % 10_007) as f64 + 0.5);
        builder.association(
            &format!("u{leaf}"),
            &format!("b{}", leaf % 12),
            Shares::Count(1 + leaf % 7),
            usage,
            leaf % 9 > 0,
        );
    }
    let tree = builder.build().expect("a tree");
    for policy in Policy::ALL {
        let ranking = tree.rank(policy, &Options::default()).expect("a ranking");
        let mut charged = Charged::new(&tree, &ranking);
        for leaf in tree.leaves() {
            for factor in [0.3, 1.01, 2.7, 31.0] {
                let usage = tree.own_usage(leaf).expect("recorded") * factor;
                let mut changed = tree.clone();
                changed.accrue(leaf, usage);
                let expected = changed.rank(policy, &Options::default()).expect("a ranking").fairshare(leaf);
                let ours = charged.fairshare(leaf, usage);
                assert_eq!(ours.is_some(), expected.is_some());
                assert!(
                    (ours.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-12,
                    "{policy} {}",
                    tree.describe(leaf)
                );
            }
        }
        assert!(!charged.has_ranked(), "{policy}");
    }
}

/// Quotients of which level values are made: 1e6 of a quotient of 1 where the scale is that.
#[test]
fn quotients_are_near_whose_level_values_a_policy_might_take_for_equal() {
    for (a, b, scale, wanted) in [
        (0.0, 0.0, 1.0, true),
        (1.0, 1.0 + 1e-13, 1.0, true),
        (1.0, 1.0 + 1e-11, 1.0, false),
        // By their size where they are large, by 1 where they are small.
        (1.0, 1.0 + 5e-13, 1e6, true),
        (1.0, 1.0 + 5e-12, 1e6, false),
        (1.0, 1.0 + 5e-12, 0.1, true),
        (1.0, 1.0 + 5e-11, 0.1, false),
        // Both beyond all weights, one of them, or one of them just not.
        (1e-20, 2e-20, 1.0, true),
        (1e-18, 1e-16, 1.0, false),
        // Who has used nothing is near to next to nothing only.
        (0.0, 1e-18, 1.0, true),
        (0.0, 1.0, 1.0, false),
        (1.0, 0.0, 1.0, false),
        (1e-16, 1e-18, 1.0, false),
        (1.0, 0.5, 1e17, false),
        (0.5, 1.0, 1e17, false),
    ] {
        assert_eq!(is_near(a, b, scale), wanted, "{a} {b} {scale}");
    }
}

/// Whether a place has to be asked of a ranking: users with shares of 1, 1 and 2, of whom the second used 1,000, the third nothing, and one
/// out of use `unused`. The first is charged up to `usage`.
fn is_ranked_anew(usage: f64, unused: f64) -> bool {
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None);
    for (name, shares, used, is_active) in
        [("u1", 1, 900.0, true), ("u2", 1, 1000.0, true), ("u3", 2, 0.0, true), ("u4", 1, unused, false)]
    {
        builder.association(name, "root", Shares::Count(shares), Some(used), is_active);
    }
    let tree = builder.build().expect("a tree");
    let ranking = tree.rank(Policy::FairTree, &Options::default()).expect("a ranking");
    let mut charged = Charged::new(&tree, &ranking);
    let first = tree.leaves().find(|leaf| tree.name(*leaf) == "u1").expect("the first");
    assert!(charged.fairshare(first, usage).is_some());
    charged.has_ranked()
}

/// The level value of both would be a half: what all used, and what it is charged, by all shares, is half of what each has by its own.
#[test]
fn how_near_is_near_is_by_what_all_would_have_used() {
    for (apart, wanted) in [(0.0, true), (1.6e-12, true), (2.6e-12, false), (1e-9, false)] {
        assert_eq!(is_ranked_anew(1000.0 * (1.0 + apart), 0.0), wanted, "{apart}");
    }
}

#[test]
fn who_is_not_ranked_is_in_nobodys_way() {
    assert!(!is_ranked_anew(500.0, 500.0));
}
