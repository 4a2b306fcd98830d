// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the fair-shares that [`ChargedFairshares`] computes with the fair-shares of a full ranking.

use proptest::prelude::*;

use super::properties::{any_kind, any_options, list_policies_for_kind};
use crate::charged::is_near;
use crate::{Builder, ChargedFairshares, Options, Policy, Shares, Tree};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn charged_usage_gives_the_same_fair_share_as_a_full_ranking(
        (kind, site) in any_kind(), options in any_options(),
        charges in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0.0), Just(1.0), Just(8.0), 0.0..300.0f64]), 1..8),
    ) {
        let tree = Tree::build(&site).expect("a tree");
        for policy in list_policies_for_kind(kind) {
            let ranking = tree.rank(policy, &options).expect("a ranking");
            let mut charged = ChargedFairshares::new(&tree, &ranking);
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

#[test]
fn charging_associations_with_different_usages_needs_no_full_ranking() {
    let mut builder = Builder::default();
    builder.bank("b0", None, Shares::Count(1), None, true);
    for bank in 1..12u64 {
        let above = format!("b{}", bank / 3);
        builder.bank(&format!("b{bank}"), Some(&above), Shares::Count(bank), None, true);
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
        let mut charged = ChargedFairshares::new(&tree, &ranking);
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

/// The scale turns quotients into level values: at scale 1e6 a quotient of 1 has the level value 1e6.
#[test]
fn usage_quotients_count_as_near_if_their_level_values_could_tie() {
    for (a, b, scale, wanted) in [
        (0.0, 0.0, 1.0, true),
        (1.0, 1.0 + 1e-13, 1.0, true),
        (1.0, 1.0 + 1e-11, 1.0, false),
        // The tolerance is relative for large values and absolute for small ones.
        (1.0, 1.0 + 5e-13, 1e6, true),
        (1.0, 1.0 + 5e-12, 1e6, false),
        (1.0, 1.0 + 5e-12, 0.1, true),
        (1.0, 1.0 + 5e-11, 0.1, false),
        // `is_near` compares `scale` / a with `scale` / b. In the first row both quotients are above 1e17. In
        // the second row only one quotient is above 1e17.
        (1e-20, 2e-20, 1.0, true),
        (1e-18, 1e-16, 1.0, false),
        // A usage of 0 has an infinite quotient. `is_near` treats only quotients above 1e17 as equal to it.
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

/// Returns true if only a full ranking can compute the fair-share of user u1 after a charge of `usage`. The
/// inactive user u4 has the usage `unused`.
fn needs_ranking(usage: f64, unused: f64) -> bool {
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None, true);
    for (name, shares, used, is_active) in
        [("u1", 1, 900.0, true), ("u2", 1, 1000.0, true), ("u3", 2, 0.0, true), ("u4", 1, unused, false)]
    {
        builder.association(name, "root", Shares::Count(shares), Some(used), is_active);
    }
    let tree = builder.build().expect("a tree");
    let ranking = tree.rank(Policy::FairTree, &Options::default()).expect("a ranking");
    let mut charged = ChargedFairshares::new(&tree, &ranking);
    let first = tree.leaves().find(|leaf| tree.name(*leaf) == "u1").expect("the first");
    assert!(charged.fairshare(first, usage).is_some());
    charged.has_ranked()
}

/// Users u1 and u2 have twice the average usage per share, so both level values are about one half.
#[test]
fn values_within_a_tolerance_relative_to_sibling_usage_require_a_ranking() {
    for (apart, wanted) in [(0.0, true), (1.6e-12, true), (2.6e-12, false), (1e-9, false)] {
        assert_eq!(needs_ranking(1000.0 * (1.0 + apart), 0.0), wanted, "{apart}");
    }
}

#[test]
fn an_unranked_association_does_not_force_a_full_ranking() {
    assert!(!needs_ranking(500.0, 500.0));
}
