// SPDX-License-Identifier: LGPL-3.0-only
//! Figures worked out by hand: what is shown of a node, what would change it, what a job counts, what is held in memory.

use super::super::outlook::Overtake;
use super::super::policy::pbs;
use super::{site, tree};
use crate::decay::{Decaying, decayed, interval};
use crate::*;
use proptest::prelude::*;
use std::cmp::Ordering;

fn rank(tree: &Tree, policy: Policy) -> Ranking {
    tree.rank(policy, &Options::default()).expect("a ranking")
}

/// What would put the one who is behind first, of two users of one bank given as (shares, usage).
fn overtake(policy: Policy, x: (u64, f64), y: (u64, f64)) -> Option<(String, Option<u64>, Option<f64>)> {
    let users = format!("x A {} {}\ny A {} {}", x.0, x.1, y.0, y.1);
    let tree = tree("root - 1\nA root 1", &users);
    let leaf = |user| tree.leaf(user, "A").expect("leaf");
    let ranking = rank(&tree, policy);
    let comparison = ranking.compare(&tree, leaf("x"), leaf("y")).expect("two leaves");
    let Overtake { node, shares, usage } = ranking.overtake(&comparison)?;
    Some((tree.name(node).to_owned(), shares, usage))
}

#[test]
fn what_would_put_the_one_behind_first() {
    let x = |shares, usage| Some(("x".to_owned(), shares, usage));
    for (own, other, wanted) in [
        // 4 times 8/2 is even, so one share more; or less than 2 * 1/1 used.
        ((1, 8.0), (1, 2.0), x(Some(5), Some(2.0))),
        ((2, 8.0), (3, 2.0), x(Some(13), Some(2.0 * 2.0 / 3.0))),
        // No usage beats who used nothing, nor do shares.
        ((1, 8.0), (1, 0.0), x(None, None)),
        ((2, 8.0), (3, 0.0), x(None, None)),
        // Without shares only shares help.
        ((0, 8.0), (1, 2.0), x(Some(5), None)),
        ((0, 0.0), (1, 2.0), x(Some(1), None)),
        // From 9e15 on there is no next number.
        (
            (1, 1.0),
            (8_999_999_999_999_999, 1.0),
            x(Some(9_000_000_000_000_000), Some(1.0 / 8_999_999_999_999_999.0)),
        ),
        ((1, 1.0), (9_000_000_000_000_000, 1.0), x(None, Some(1.0 / 9_000_000_000_000_000.0))),
        // A tie has nobody behind.
        ((1, 2.0), (2, 4.0), None),
    ] {
        for policy in [Policy::FairTree, Policy::WeightedWalk] {
            assert_eq!(overtake(policy, own, other), wanted, "{policy}: {own:?} {other:?}");
        }
        // All levels matter at once there.
        assert_eq!(overtake(Policy::Classic, own, other), None);
    }
    let swapped = overtake(Policy::FairTree, (1, 2.0), (1, 8.0));
    assert_eq!(swapped, Some(("y".to_owned(), Some(5), Some(2.0))));
}

#[test]
fn a_usage_is_even_where_its_part_is_that_of_the_shares() {
    for (users, even) in [
        // A quarter of the shares: a third of what the others used.
        ("x A 1 9\ny A 3 6", Some(2.0)),
        ("x A 3 0\ny A 1 6", Some(18.0)),
        ("x A 1 9", None),
        ("x A 0 9\ny A 3 6", None),
        ("x A 1 9\ny A 3 0", None),
        ("x A parent 9\ny A 3 6", None),
    ] {
        let tree = tree("root - 1\nA root 1", users);
        let ranking = rank(&tree, Policy::FairTree);
        let levels = ranking.explain(&tree, tree.leaf("x", "A").expect("leaf")).levels;
        let found = levels.last().and_then(Level::even_usage);
        assert_eq!(found.map(|usage| (usage * 1e9).round() / 1e9), even, "{users}");
    }
}

#[test]
fn a_place_in_the_walk_of_pbs_and_who_is_just_ahead() {
    let tree = tree("root - 1\nA root 1", "a A 1 9\nb A 1 3\nc A 1 3\n!e A 1 0\nz A 0 0");
    let ranking = rank(&tree, Policy::Pbs);
    let walk = ranking.pbs_walk(&tree).expect("pbs");
    let leaf = |user| tree.leaf(user, "A").expect("leaf");
    let seen = |user| (walk.place(leaf(user)), walk.just_ahead(leaf(user)).map(|node| tree.name(node)));
    assert_eq!(seen("b"), (Some(1), None));
    assert_eq!(seen("c"), (Some(1), None));
    assert_eq!(seen("a"), (Some(3), Some("c")));
    assert_eq!(seen("e"), (None, None));
    assert_eq!(walk.place(tree.bank("A").expect("bank")), None);
    // Without a target nothing is small enough, not even nothing.
    assert_eq!(ranking.usage_over_target(&tree, leaf("z")), Some(f64::INFINITY));
}

#[test]
fn the_more_deserving_of_two_by_usage_and_target() {
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
        assert_eq!(pbs::more_deserving(a, b), wanted, "{a:?} {b:?}");
    }
}

#[test]
fn equal_weights_are_nearer_than_the_measure() {
    let half = 0.5 + f64::EPSILON;
    let is_tie = |high, low| Policy::WeightedWalk.rules().is_tie(high, low);
    assert!(!is_tie(half, 0.5), "the measure itself is too far");
    assert!(is_tie(0.5 + f64::EPSILON / 2.0, 0.5));
    assert!(is_tie(4.0 + 2.0 * f64::EPSILON, 4.0) && !is_tie(4.0 + 8.0 * f64::EPSILON, 4.0));
}

/// Norm shares, effective usage and fair-share of two users, one of them inactive and not counted.
#[test]
fn figures_of_who_is_ignored_and_of_who_is_not() {
    let mut ignoring = Options::default();
    ignoring.set("inactive_usage=ignore").expect("an option");
    let tree = tree("root - 1\nA root 3\nB root 1", "x A 1 6\n!y A 3 2\nz B 2 4");
    let shown = |policy, options: &Options, user, bank| {
        let ranking = tree.rank(policy, options).expect("a ranking");
        assert_eq!(ranking.options(), options);
        let detail = ranking.detail(&tree, tree.leaf(user, bank).expect("leaf"));
        (detail.norm_shares, detail.effective_usage)
    };
    // OpenPBS has no usage of whom it does not count.
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
        // Half of 12 was used by x; three quarters of it belong to A, of which it has a quarter.
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

/// Nobody used anything, and one has no shares.
fn tree_of_nobody() -> Tree {
    tree("root - 1\nA root 1", "x A 0 0\ny A 1 0")
}

/// Where none of the siblings has shares, each has the usage of the bank above.
#[test]
fn siblings_without_shares_share_the_usage_above() {
    let tree = tree("root - 1\nA root 1\nB root 1", "v A 0 3\nw A 0 5\nz B 1 8");
    let ranking = rank(&tree, Policy::Classic);
    let effective = |node| ranking.detail(&tree, node).effective_usage;
    let bank = effective(tree.bank("A").expect("bank"));
    assert_eq!(bank, 0.5);
    for user in ["v", "w"] {
        assert_eq!(effective(tree.leaf(user, "A").expect("leaf")), bank, "{user}");
    }
}

/// Slurm's program visits equal banks in turn, so that they decide; else they are as one.
#[test]
fn equal_banks_decide_where_they_are_visited_in_turn() {
    let tree = tree("root - 1\na root 1\nb root 1", "a1 a 1 2\na2 a 1 8\nb1 b 1 1\nb2 b 1 9");
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
fn without_shares_a_formula_gives_nothing_and_never_nan() {
    for policy in [Policy::Classic, Policy::DepthOblivious] {
        let tree = tree("root - 1\nA root 1\nB root 0", "x A 0 0\ny A 1 5\nv B 0 0\nw B 0 0");
        let ranking = rank(&tree, policy);
        for (user, bank) in [("x", "A"), ("v", "B"), ("w", "B")] {
            let leaf = tree.leaf(user, bank).expect("leaf");
            assert_eq!(ranking.fairshare(leaf), Some(0.0), "{policy} {user}");
        }
        let unused = tree_of_nobody();
        let leaf = unused.leaf("x", "A").expect("leaf");
        assert_eq!(rank(&unused, policy).fairshare(leaf), Some(0.0), "{policy}");
    }
}

#[test]
fn what_counts_at_a_level_of_pbs_leaves_the_minimum_out() {
    let tree = tree("root - 1\nA root 1\nB root 1", "x A 1 5\ny A 1 1\nz B 1 2");
    let ranking = rank(&tree, Policy::Pbs);
    let counted = |user, bank| -> Vec<(f64, f64)> {
        let levels = ranking.explain(&tree, tree.leaf(user, bank).expect("leaf")).levels;
        levels.iter().map(|level| level.counted).collect()
    };
    // 1 is the usage that a new entity begins with, and is no usage.
    assert_eq!(counted("x", "A"), [(7.0, 7.0), (5.0, 7.0), (5.0, 5.0)]);
    assert_eq!(counted("y", "A"), [(7.0, 7.0), (5.0, 7.0), (0.0, 5.0)]);
    assert_eq!(counted("z", "B"), [(7.0, 7.0), (2.0, 7.0), (2.0, 2.0)]);
}

#[test]
fn nodes_go_by_value_those_without_a_rank_last() {
    let tree = tree("root - 1\nA root 1", "a A 1 9\n!b A 1 0\nc A 1 3\nd A 1 5");
    let names: Vec<(&str, usize)> = rank(&tree, Policy::WeightedWalk)
        .walk(&tree)
        .iter()
        .map(|(node, depth)| (tree.name(*node), *depth))
        .collect();
    assert_eq!(names, [("root", 0), ("A", 1), ("c", 2), ("d", 2), ("a", 2), ("b", 2)]);
}

#[test]
fn a_job_counts_by_each_weight_and_second() {
    use periods::{Resources, Weights};
    let weights = Weights { node: 3.0, core: 0.25, gpu: 5.0 };
    let ran_on = Resources { nodes: 2, cores: 8, gpus: 3 };
    assert_eq!(weights.usage(ran_on, 10.0), 230.0);
    assert_eq!(Weights::default().usage(ran_on, 10.0), 20.0);
}

proptest! {
    /// Against the decimal that is printed: exact, half to even.
    #[test]
    fn rounding_is_that_of_the_printed_number(whole in prop_oneof![-2_000_000_000_000i64..2_000_000_000_000, -9_000_000_000_000_000i64..9_000_000_000_000_000], steps in -4i64..5, scale in 0i32..7) {
        let tie = (whole as f64 + 0.5) / 1e5 / 10f64.powi(scale);
        let near = f64::from_bits(tie.to_bits().wrapping_add_signed(steps));
        for number in [near, near * 7.0, whole as f64, whole as f64 / 1e5] {
            prop_assert_eq!(periods::round5(number), format!("{number:.5}").parse::<f64>().unwrap(), "{}", number);
        }
    }
}

#[test]
fn numbers_that_have_no_decimals_stay() {
    for number in [f64::INFINITY, f64::NEG_INFINITY, 0.0, -3.0, 1e300, 4_503_599_627_370_497.0] {
        assert_eq!(periods::round5(number), number);
    }
    assert!(periods::round5(f64::NAN).is_nan());
}

#[test]
fn decay_at_its_edges() {
    // What is negligible is less than 1e-9, not 1e-9 itself.
    assert_eq!((decayed(1e-9, 0.0, None), decayed(9e-10, 0.0, None)), (1e-9, 0.0));
    assert_eq!((interval(1e-9, 0.0, 1.0, 1.0, None), interval(9e-10, 0.0, 1.0, 1.0, None)), (1e-9, 0.0));
    // A half-life of 0 forgets all that is over, and nothing of what is just used.
    assert_eq!(decayed(7.0, 0.0, Some(0.0)), 7.0);
    assert_eq!(interval(2.0, 0.0, 10.0, 10.0, Some(0.0)), 20.0);
    assert_eq!(interval(2.0, 0.0, 10.0, 20.0, Some(0.0)), 0.0);
    // A look back sees the present value.
    assert_eq!(Decaying { value: 8.0, since: 10.0 }.at(0.0, Some(5.0)), 8.0);
    // An addition of ten seconds ago has halved twice.
    let late = Decaying { value: 1.0, since: 30.0 }.add(8.0, 20.0, Some(5.0));
    assert_eq!(late, Decaying { value: 3.0, since: 30.0 });
}

#[test]
fn a_cycle_is_named_by_a_bank_that_is_on_it() {
    let site = site("root - 1\na b 1\nb c 1\nc b 1", "");
    let Err(TreeError::Cycle(name)) = Tree::build(&site) else { panic!("no cycle") };
    assert!(["b", "c"].contains(&&*name), "{name} only leads there");
}

#[test]
fn an_association_in_a_bank_without_a_name_is_missed_by_it() {
    let mut builder = Builder::default();
    builder.bank("A", None, Shares::Count(1), None);
    builder.association("x", "A", Shares::Count(1), None, true);
    builder.association("y", "", Shares::Count(1), None, true);
    assert!(matches!(builder.build(), Err(TreeError::MissingBank { bank, .. }) if bank.is_empty()));
}

#[test]
fn many_names_are_each_found_again() {
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None);
    for bank in 0..20 {
        builder.bank(&format!("b{bank}"), Some("root"), Shares::Count(bank), None);
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
fn a_user_is_found_in_his_own_bank_only() {
    let mut tree = tree("root - 1\nA root 1\nB root 1\nC root 1", "a A 1\nx B 1 -0\ny B 1");
    let banks = |user| ["A", "B", "C"].map(|bank| tree.leaf(user, bank).is_some());
    assert_eq!(
        [banks("a"), banks("x"), banks("y")],
        [[true, false, false], [false, true, false], [false, true, false]]
    );
    assert!(!tree.is_empty() && tree.len() == 7);
    let (leaf, bank) = (tree.leaf("x", "B").expect("leaf"), tree.bank("B").expect("bank"));
    assert_eq!(tree.describe(leaf), "user \"x\" in bank \"B\"");
    assert_eq!(tree.describe(bank), "bank \"B\"");
    // A mark that is set twice is set.
    for _ in 0..2 {
        tree.set_shares(bank, Shares::Parent);
        assert_eq!(tree.shares(bank), Shares::Parent);
    }
    assert_eq!(tree.own_usage(leaf).map(f64::is_sign_negative), Some(false), "built with -0");
    tree.set_usage(leaf, -0.0).expect("a usage");
    assert_eq!(tree.own_usage(leaf).map(f64::is_sign_negative), Some(false));
}

#[test]
fn options_are_set_by_name_and_concern_some_policies() {
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

/// Sums and scratch memory are counted too: of 3 banks at least 48 bytes each, of 4 associations rank and order.
#[test]
fn what_a_ranking_holds_is_counted() {
    let tree = tree("root - 1\nA root 1\nB root parent", "a A 1 1\nb A 1 1\nc B 1 1\nd B 1 1");
    let ranking = rank(&tree, Policy::FairTree);
    let (sums, visit) = (ranking.sums.memory(), ranking.visit.memory());
    assert!((3 * 48..=2 * 3 * 48).contains(&sums), "{sums}");
    // Four entries of 16 bytes were sorted, in frames of at least 16.
    assert!((4 * 16 + 16..=16 * 64).contains(&visit), "{visit}");
    let (own, nodes) = (ranking.memory() - sums - visit, tree.len());
    assert!((2 * 4 * 4..=nodes * 64).contains(&own), "{own}");
}

#[test]
fn what_no_usage_can_be_is_the_nearest_that_can() {
    let mut tree = tree("root - 1\nA root 1", "a A 1 1");
    let leaf = tree.leaf("a", "A").expect("leaf");
    for (accrued, wanted) in
        [(-0.0, 0.0f64), (-1.0, 0.0), (f64::NAN, 0.0), (f64::INFINITY, MAX_USAGE), (2.5, 2.5)]
    {
        tree.accrue(leaf, accrued);
        assert_eq!(tree.usage[leaf.index()].to_bits(), wanted.to_bits(), "{accrued}");
    }
}

/// Each column is counted: 3 banks and 4 associations are 7 nodes.
#[test]
fn what_a_tree_holds_is_counted() {
    let tree = tree("root - 1\nA root 1\nB root 1", "a A 1 1\nb A 1 1\nc B 1 1\nd B 1 1");
    let words = 3 * 7 + 2 * (3 + 1) + 3;
    let names = "rootABabcd";
    let wanted = words * 4 + 7 * (8 + 8 + 1) + 7 * 4;
    assert_eq!(tree.memory(), (wanted, names.len()));
}
