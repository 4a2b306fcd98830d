// SPDX-License-Identifier: LGPL-3.0-only
//! Compares results with numbers that were computed by hand: rankings, the usages of jobs, and the memory of trees.

use super::super::outlook::Overtake;
use super::super::policy::pbs;
use super::{make_site, make_tree};
use crate::*;
use std::cmp::Ordering;

fn rank_tree(tree: &Tree, policy: Policy) -> Ranking {
    tree.rank(policy, &Options::default()).expect("a ranking")
}

/// Ranks two users of one bank, who are given as (shares, usage). Returns the name of the worse user, and the shares or
/// the usage with which this user would come first.
fn find_overtake_of_two_users(
    policy: Policy,
    x: (u64, f64),
    y: (u64, f64),
) -> Option<(String, Option<u64>, Option<f64>)> {
    let users = format!("x A {} {}\ny A {} {}", x.0, x.1, y.0, y.1);
    let tree = make_tree("root - 1\nA root 1", &users);
    let leaf = |user| tree.leaf(user, "A").expect("leaf");
    let ranking = rank_tree(&tree, policy);
    let comparison = ranking.compare(&tree, leaf("x"), leaf("y")).expect("two leaves");
    let Overtake { node, shares, usage } = ranking.overtake(&comparison)?;
    Some((tree.name(node).to_owned(), shares, usage))
}

#[test]
fn overtake_returns_the_shares_and_usage_computed_by_hand() {
    let x = |shares, usage| Some(("x".to_owned(), shares, usage));
    for (own, other, wanted) in [
        // At first, x comes second. With 4 shares x would be tied with y, so x needs 5 shares to come first.
        // With a usage below 2, x would also come first.
        ((1, 8.0), (1, 2.0), x(Some(5), Some(2.0))),
        ((2, 8.0), (3, 2.0), x(Some(13), Some(2.0 * 2.0 / 3.0))),
        // If a user has no usage, no change of shares or usage puts another user first.
        ((1, 8.0), (1, 0.0), x(None, None)),
        ((2, 8.0), (3, 0.0), x(None, None)),
        // A user without shares cannot come first by a smaller usage.
        ((0, 8.0), (1, 2.0), x(Some(5), None)),
        ((0, 0.0), (1, 2.0), x(Some(1), None)),
        // Above 9e15, an f64 cannot represent every integer.
        (
            (1, 1.0),
            (8_999_999_999_999_999, 1.0),
            x(Some(9_000_000_000_000_000), Some(1.0 / 8_999_999_999_999_999.0)),
        ),
        ((1, 1.0), (9_000_000_000_000_000, 1.0), x(None, Some(1.0 / 9_000_000_000_000_000.0))),
        // In a tie, neither user is behind.
        ((1, 2.0), (2, 4.0), None),
    ] {
        for policy in [Policy::FairTree, Policy::WeightedWalk] {
            assert_eq!(find_overtake_of_two_users(policy, own, other), wanted, "{policy}: {own:?} {other:?}");
        }
        // `overtake` does not support formula policies.
        assert_eq!(find_overtake_of_two_users(Policy::Classic, own, other), None);
    }
    let swapped = find_overtake_of_two_users(Policy::FairTree, (1, 2.0), (1, 8.0));
    assert_eq!(swapped, Some(("y".to_owned(), Some(5), Some(2.0))));
}

#[test]
fn the_usage_that_matches_the_share_equals_values_computed_by_hand() {
    for (users, even) in [
        // x has a quarter of the shares. With a usage of 2, x also has a quarter of the usage.
        ("x A 1 9\ny A 3 6", Some(2.0)),
        ("x A 3 0\ny A 1 6", Some(18.0)),
        ("x A 1 9", None),
        ("x A 0 9\ny A 3 6", None),
        ("x A 1 9\ny A 3 0", None),
        ("x A parent 9\ny A 3 6", None),
    ] {
        let tree = make_tree("root - 1\nA root 1", users);
        let ranking = rank_tree(&tree, Policy::FairTree);
        let levels = ranking.explain(&tree, tree.leaf("x", "A").expect("leaf")).levels;
        let found = levels.last().and_then(Level::even_usage);
        assert_eq!(found.map(|usage| (usage * 1e9).round() / 1e9), even, "{users}");
    }
}

#[test]
fn the_pbs_walk_returns_positions_and_the_association_ahead() {
    let tree = make_tree("root - 1\nA root 1", "a A 1 9\nb A 1 3\nc A 1 3\n!e A 1 0\nz A 0 0");
    let ranking = rank_tree(&tree, Policy::Pbs);
    let walk = ranking.pbs_walk(&tree).expect("pbs");
    let leaf = |user| tree.leaf(user, "A").expect("leaf");
    let seen = |user| (walk.place(leaf(user)), walk.just_ahead(leaf(user)).map(|node| tree.name(node)));
    assert_eq!(seen("b"), (Some(1), None));
    assert_eq!(seen("c"), (Some(1), None));
    assert_eq!(seen("a"), (Some(3), Some("c")));
    assert_eq!(seen("e"), (None, None));
    assert_eq!(walk.place(tree.bank("A").expect("bank")), None);
    // A user without a target is always last, even without usage.
    assert_eq!(ranking.usage_over_target(&tree, leaf("z")), Some(f64::INFINITY));
}

#[test]
fn compare_deserving_orders_pbs_nodes_by_usage_divided_by_target() {
    use Ordering::{Equal, Greater, Less};
    for (a, b, wanted) in [
        ((4.0, 2.0), (9.0, 3.0), Some(Less)),
        ((9.0, 3.0), (4.0, 2.0), Some(Greater)),
        ((4.0, 2.0), (2.0, 1.0), Some(Equal)),
        ((1.0, 4.0), (9.0, 0.5), Some(Less)),
        ((0.0, 0.0), (9.0, 3.0), Some(Greater)),
        ((9.0, 3.0), (0.0, 0.0), Some(Less)),
        ((0.0, 0.0), (1.0, 0.0), None),
    ] {
        assert_eq!(pbs::compare_usage_relative_to_target(a, b), wanted, "{a:?} {b:?}");
    }
}

#[test]
fn weights_that_differ_by_exactly_the_tolerance_are_no_tie() {
    let half = 0.5 + f64::EPSILON;
    let is_tie = |high, low| Policy::WeightedWalk.is_tie(high, low);
    assert!(!is_tie(half, 0.5), "a difference of exactly the tolerance is no tie");
    assert!(is_tie(0.5 + f64::EPSILON / 2.0, 0.5));
    assert!(is_tie(4.0 + 2.0 * f64::EPSILON, 4.0) && !is_tie(4.0 + 8.0 * f64::EPSILON, 4.0));
}

/// The norm shares, effective usage and fair-share of two users. One is inactive and excluded from sums.
#[test]
fn an_ignored_association_has_no_shares_and_no_usage() {
    let mut ignoring = Options::default();
    ignoring.set("inactive_usage=ignore").expect("an option");
    let tree = make_tree("root - 1\nA root 3\nB root 1", "x A 1 6\n!y A 3 2\nz B 2 4");
    let shown = |policy, options: &Options, user, bank| {
        let ranking = tree.rank(policy, options).expect("a ranking");
        assert_eq!(ranking.options(), options);
        let detail = ranking.detail(&tree, tree.leaf(user, bank).expect("leaf"));
        (detail.norm_shares, detail.effective_usage)
    };
    // Under `pbs`, the usage is 0 if the association is excluded from the sums.
    for (options, usage) in [(&Options::default(), 2.0), (&ignoring, 0.0)] {
        let ranking = tree.rank(Policy::Pbs, options).expect("a ranking");
        assert_eq!(ranking.usage(&tree, tree.leaf("y", "A").expect("leaf")), usage);
    }
    let all = Options::default();
    for (policy, options, user, bank, wanted) in [
        (Policy::FairTree, &all, "x", "A", (0.25, Some(0.75))),
        (Policy::FairTree, &all, "y", "A", (0.75, Some(0.25))),
        (Policy::FairTree, &ignoring, "x", "A", (1.0, Some(1.0))),
        (Policy::FairTree, &ignoring, "y", "A", (0.0, Some(0.0))),
        (Policy::Classic, &all, "z", "B", (0.25, Some(1.0 / 3.0))),
        // x has 1/2 of the site's usage, and A has 2/3. A has 3/4 of the site's shares, and x has 1/4 of the
        // shares in A.
        (Policy::Classic, &all, "x", "A", (0.1875, Some(0.5 + (2.0 / 3.0 - 0.5) * 0.25))),
        (Policy::Pbs, &all, "x", "A", (0.25, None)),
        (Policy::Pbs, &all, "y", "A", (0.75, None)),
        (Policy::Pbs, &ignoring, "x", "A", (1.0, None)),
        (Policy::Pbs, &ignoring, "y", "A", (0.0, None)),
    ] {
        let (shares, usage) = shown(policy, options, user, bank);
        assert!((shares - wanted.0).abs() < 1e-12, "{policy} {user}: {shares}");
        assert!(wanted.1.is_none_or(|wanted| (usage - wanted).abs() < 1e-12), "{policy} {user}: {usage}");
    }
}

/// Returns a tree without usage, in which one user has no shares.
fn make_tree_without_usage() -> Tree {
    make_tree("root - 1\nA root 1", "x A 0 0\ny A 1 0")
}

/// If all siblings lack shares, each gets the effective usage of the bank above.
#[test]
fn siblings_without_shares_have_the_usage_of_their_bank() {
    let tree = make_tree("root - 1\nA root 1\nB root 1", "v A 0 3\nw A 0 5\nz B 1 8");
    let ranking = rank_tree(&tree, Policy::Classic);
    let effective = |node| ranking.detail(&tree, node).effective_usage;
    let bank = effective(tree.bank("A").expect("bank"));
    assert_eq!(bank, 0.5);
    for user in ["v", "w"] {
        assert_eq!(effective(tree.leaf(user, "A").expect("leaf")), bank, "{user}");
    }
}

/// With `ties=slurm-program`, equal banks are visited one after the other, so all users of the first bank
/// come first. Otherwise the users of equal banks are compared with each other.
#[test]
fn with_ties_slurm_program_tied_banks_decide_the_order_of_users() {
    let tree = make_tree("root - 1\na root 1\nb root 1", "a1 a 1 2\na2 a 1 8\nb1 b 1 1\nb2 b 1 9");
    for (ties, decisive) in [("ties=documented", "a1"), ("ties=slurm-program", "a")] {
        let mut options = Options::default();
        options.set(ties).expect("an option");
        let ranking = tree.rank(Policy::FairTree, &options).expect("a ranking");
        let leaf = |user, bank| tree.leaf(user, bank).expect("leaf");
        let why = ranking.compare(&tree, leaf("a1", "a"), leaf("b1", "b")).expect("two leaves");
        assert_eq!(tree.name(why.decisive.0.node), decisive, "{ties}");
    }
}

#[test]
fn formula_policies_give_0_and_not_nan_without_shares() {
    for policy in [Policy::Classic, Policy::DepthOblivious] {
        let tree = make_tree("root - 1\nA root 1\nB root 0", "x A 0 0\ny A 1 5\nv B 0 0\nw B 0 0");
        let ranking = rank_tree(&tree, policy);
        for (user, bank) in [("x", "A"), ("v", "B"), ("w", "B")] {
            let leaf = tree.leaf(user, bank).expect("leaf");
            assert_eq!(ranking.fairshare(leaf), Some(0.0), "{policy} {user}");
        }
        let unused = make_tree_without_usage();
        let leaf = unused.leaf("x", "A").expect("leaf");
        assert_eq!(rank_tree(&unused, policy).fairshare(leaf), Some(0.0), "{policy}");
    }
}

#[test]
fn usage_counted_at_a_pbs_level_excludes_the_initial_usage() {
    let tree = make_tree("root - 1\nA root 1\nB root 1", "x A 1 5\ny A 1 1\nz B 1 2");
    let ranking = rank_tree(&tree, Policy::Pbs);
    let counted = |user, bank| -> Vec<(f64, f64)> {
        let levels = ranking.explain(&tree, tree.leaf(user, bank).expect("leaf")).levels;
        levels.iter().map(|level| level.counted).collect()
    };
    // A usage of 1 is the initial usage of a new entity, which is not added to the sums.
    assert_eq!(counted("x", "A"), [(7.0, 7.0), (5.0, 7.0), (5.0, 5.0)]);
    assert_eq!(counted("y", "A"), [(7.0, 7.0), (5.0, 7.0), (0.0, 5.0)]);
    assert_eq!(counted("z", "B"), [(7.0, 7.0), (2.0, 7.0), (2.0, 2.0)]);
}

#[test]
fn the_tree_walk_sorts_siblings_by_value_with_unranked_nodes_last() {
    let tree = make_tree("root - 1\nA root 1", "a A 1 9\n!b A 1 0\nc A 1 3\nd A 1 5");
    let names: Vec<(&str, usize)> = rank_tree(&tree, Policy::WeightedWalk)
        .walk(&tree)
        .iter()
        .map(|(node, depth)| (tree.name(*node), *depth))
        .collect();
    assert_eq!(names, [("root", 0), ("A", 1), ("c", 2), ("d", 2), ("a", 2), ("b", 2)]);
}

#[test]
fn the_usage_per_second_of_a_job_multiplies_weights_and_resources() {
    use periods::{Resources, Weights};
    let weights = Weights { node: 3.0, core: 0.25, gpu: 5.0 };
    let ran_on = Resources { nodes: 2, cores: 8, gpus: 3 };
    assert_eq!(weights.rate(ran_on), 23.0);
    assert_eq!(Weights::default().rate(ran_on), 2.0);
}

#[test]
fn the_error_about_a_cycle_names_a_bank_on_the_cycle() {
    let site = make_site("root - 1\na b 1\nb c 1\nc b 1", "");
    let Err(TreeError::Cycle(name)) = Tree::build(&site) else { panic!("no cycle") };
    assert!(["b", "c"].contains(&&*name), "{name} only leads there");
}

#[test]
fn the_error_about_a_missing_bank_quotes_an_empty_name() {
    let mut builder = Builder::default();
    builder.bank("A", None, Shares::Count(1), None, true);
    builder.association("x", "A", Shares::Count(1), None, true);
    builder.association("y", "", Shares::Count(1), None, true);
    assert!(matches!(builder.build(), Err(TreeError::MissingBank(_, bank)) if bank.is_empty()));
}

#[test]
fn the_interner_finds_each_of_many_names() {
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None, true);
    for bank in 0..20 {
        builder.bank(&format!("b{bank}"), Some("root"), Shares::Count(bank), None, true);
    }
    for user in 0..3000u64 {
        builder.association(&format!("u{user}"), &format!("b{}", user % 20), Shares::Count(user), None, true);
    }
    let tree = builder.build().expect("a tree");
    for user in 0..3000u64 {
        let leaf = tree.leaf(&format!("u{user}"), &format!("b{}", user % 20)).expect("leaf");
        assert_eq!(tree.shares(leaf), Shares::Count(user));
    }
}

#[test]
fn a_user_is_found_only_in_their_own_bank() {
    let mut tree = make_tree("root - 1\nA root 1\nB root 1\nC root 1", "a A 1\nx B 1 -0\ny B 1");
    let banks = |user| ["A", "B", "C"].map(|bank| tree.leaf(user, bank).is_some());
    assert_eq!(
        [banks("a"), banks("x"), banks("y")],
        [[true, false, false], [false, true, false], [false, true, false]]
    );
    assert!(!tree.is_empty() && tree.len() == 7);
    let (leaf, bank) = (tree.leaf("x", "B").expect("leaf"), tree.bank("B").expect("bank"));
    assert_eq!(tree.describe(leaf), "user \"x\" in bank \"B\"");
    assert_eq!(tree.describe(bank), "bank \"B\"");
    // Setting a flag twice leaves it set.
    for _ in 0..2 {
        tree.set_shares(bank, Shares::Parent);
        assert_eq!(tree.shares(bank), Shares::Parent);
    }
    assert_eq!(tree.own_usage(leaf).map(f64::is_sign_negative), Some(false), "built with -0");
    tree.set_usage(leaf, -0.0).expect("a usage");
    assert_eq!(tree.own_usage(leaf).map(f64::is_sign_negative), Some(false));
}

#[test]
fn each_option_applies_to_the_policies_that_use_it() {
    let mut options = Options::default();
    for setting in ["ties=slurm-program", "ties=documented", "inactive_usage=ignore", "inactive_usage=count"]
    {
        options.set(setting).expect("an option");
        let (name, value) = setting.split_once('=').expect("a setting");
        assert!(options.settings().contains(&(name, value.to_owned())), "{setting}: {options:?}");
    }
    for (name, policies) in [
        ("ties", &[Policy::FairTree][..]),
        ("pbs.min_usage", &[Policy::Pbs]),
        ("dampening", &[Policy::Classic, Policy::DepthOblivious]),
        ("inactive_usage", &Policy::ALL),
    ] {
        for policy in Policy::ALL {
            assert_eq!(Options::applies(name, policy), policies.contains(&policy), "{name} {policy}");
        }
    }
}

/// The sums need at least 48 bytes for each of the 3 banks. The ranking itself has two numbers of 4 bytes for each
/// of the 4 associations.
#[test]
fn memory_of_a_ranking_includes_all_its_buffers() {
    let tree = make_tree("root - 1\nA root 1\nB root parent", "a A 1 1\nb A 1 1\nc B 1 1\nd B 1 1");
    let ranking = rank_tree(&tree, Policy::FairTree);
    let (sums, visit) = (ranking.sums.memory(), ranking.visit.memory());
    assert!((3 * 48..=2 * 3 * 48).contains(&sums), "{sums}");
    // The visit needs a buffer for four entries of 16 bytes, and at least one frame of 16 bytes.
    assert!((4 * 16 + 16..=16 * 64).contains(&visit), "{visit}");
    let (own, nodes) = (ranking.memory() - sums - visit, tree.len());
    assert!((2 * 4 * 4..=nodes * 64).contains(&own), "{own}");
}

#[test]
fn accrue_limits_a_usage_to_the_valid_range() {
    let mut tree = make_tree("root - 1\nA root 1", "a A 1 1");
    let leaf = tree.leaf("a", "A").expect("leaf");
    for (accrued, wanted) in
        [(-0.0, 0.0f64), (-1.0, 0.0), (f64::NAN, 0.0), (f64::INFINITY, MAX_USAGE), (2.5, 2.5)]
    {
        tree.accrue(leaf, accrued);
        assert_eq!(tree.usage[leaf.index()].to_bits(), wanted.to_bits(), "{accrued}");
    }
}

/// The tree has 3 banks and 4 associations, so each column has 7 entries.
#[test]
fn memory_of_a_tree_includes_all_its_columns() {
    let tree = make_tree("root - 1\nA root 1\nB root 1", "a A 1 1\nb A 1 1\nc B 1 1\nd B 1 1");
    let words = 3 * 7 + 2 * (3 + 1) + 3;
    let names = "rootABabcd";
    let wanted = words * 4 + 7 * (8 + 8 + 1) + 7 * 4;
    assert_eq!(tree.memory(), (wanted, names.len()));
}
