// SPDX-License-Identifier: LGPL-3.0-only
//! Two ranking policies that exist in this file only. They show which methods a new policy must implement.

use super::super::formula::{Formula, InheritedFormulaValues, Step, power_of_half};
use super::super::policy::RankingPolicy;
use super::super::sums::Sums;
use super::super::walk::SiblingRule;
use super::super::*;
use super::make_tree;
use std::cmp::Ordering;

/// Visits siblings by ascending usage and ignores shares.
struct LeastUsedFirstPolicy;

impl RankingPolicy for LeastUsedFirstPolicy {
    fn name(&self) -> &'static str {
        "least-used"
    }

    fn rank(&self, tree: &Tree, ranking: &mut Ranking) {
        ranking.rank_by_depth_first_visit(self, tree);
    }

    fn add_numbers(&self, tree: &Tree, ranking: &Ranking, node: NodeId, detail: &mut NodeDetail) {
        ranking.add_sibling_numbers(tree, node, detail);
        detail.weight = tree.parent(node).map(|_| 1.0 / ranking.recorded_usage(tree, node));
    }

    fn compares_quotients(&self) -> bool {
        false
    }

    fn is_tie(&self, high: f64, low: f64) -> bool {
        high == low
    }
}

impl SiblingRule for LeastUsedFirstPolicy {
    fn value(&self, tree: &Tree, sums: &Sums, node: NodeId, _: u32) -> f64 {
        1.0 / sums.usage_of(tree, node)
    }
}

/// F = 2^-(fraction of the site's usage).
struct UsageOnlyPolicy;

impl RankingPolicy for UsageOnlyPolicy {
    fn name(&self) -> &'static str {
        "usage-only"
    }

    fn formula(&self, _: &Options) -> Option<Box<dyn Formula>> {
        Some(Box::new(UsageOnlyPolicy))
    }
}

impl Formula for UsageOnlyPolicy {
    fn root(&self) -> InheritedFormulaValues {
        InheritedFormulaValues { norm_shares: 1.0, effective_usage: 1.0 }
    }

    fn step(&self, step: &Step) -> InheritedFormulaValues {
        InheritedFormulaValues { norm_shares: 1.0, effective_usage: step.norm_usage }
    }

    fn factor(&self, numbers: InheritedFormulaValues) -> f64 {
        power_of_half(numbers.effective_usage)
    }
}

fn example_tree() -> Tree {
    make_tree("root - 1\nA root 9\nB root 1", "a A 1 6\nb A 9 2\nc B 1 3\n!d B 1 1")
}

fn list_names(tree: &Tree, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|node| tree.name(*node).to_owned()).collect()
}

#[test]
fn a_new_ranking_policy_that_sorts_siblings_needs_only_one_source_file() {
    let (tree, policy, options) = (example_tree(), Policy(&LeastUsedFirstPolicy), Options::default());
    let ranking = tree.rank(policy, &options).expect("a ranking");
    // B used 4 and A used 8.
    assert_eq!(list_names(&tree, ranking.order()), ["c", "b", "a"]);
    let leaf = |user, bank| tree.leaf(user, bank).expect("leaf");
    let (a, c) = (leaf("a", "A"), leaf("c", "B"));
    assert_eq!((ranking.fairshare(c), ranking.place(a)), (Some(1.0), Some(3)));
    let why = ranking.compare(&tree, c, a).expect("two leaves");
    assert_eq!((why.verdict, why.fork.0.value, why.equal), (Some(Ordering::Less), Some(0.25), false));
    assert_eq!(ranking.overtake(&why), None, "no number of shares changes the order");
    assert_eq!(
        list_names(&tree, &ranking.walk(&tree).iter().map(|(node, _)| *node).collect::<Vec<_>>()),
        ["root", "B", "c", "d", "A", "b", "a"]
    );
    // With a usage of 8 for c, bank B has a usage of 9. Bank A has used less, so the users of A come first.
    assert_eq!(ChargedFairshares::new(&tree, &ranking).fairshare(c, 8.0), Some(1.0 / 3.0));
    assert_eq!((policy.to_string(), policy == Policy::FairTree), ("least-used".to_owned(), false));
    assert!(ranking.pbs_walk(&tree).is_none() && policy.table_columns(true).is_empty());
    assert!(Options::applies("inactive_usage", policy) && !Options::applies("ties", policy));
}

#[test]
fn a_new_ranking_policy_with_a_formula_needs_only_one_source_file() {
    let (mut tree, policy, options) = (example_tree(), Policy(&UsageOnlyPolicy), Options::default());
    let ranking = tree.rank(policy, &options).expect("a ranking");
    assert_eq!(list_names(&tree, ranking.order()), ["b", "c", "a"]);
    let a = tree.leaf("a", "A").expect("leaf");
    assert_eq!(ranking.fairshare(a), Some((-0.5f64).exp2()));
    let detail = ranking.detail(&tree, a);
    assert_eq!(
        policy.explain_factor(&detail, 0.5),
        "fair-share 0.500000 from effective usage 0.500000 against norm shares 1.000000"
    );
    let charged = ChargedFairshares::new(&tree, &ranking).fairshare(a, 12.0);
    tree.accrue(a, 12.0);
    assert_eq!(charged, tree.rank(policy, &options).expect("a ranking").fairshare(a));
    let parent = super::make_tree("root - 1", "u root parent 1");
    let error = parent.rank(policy, &options).expect_err("parent").to_string();
    assert!(error.contains("policy usage-only does not support shares \"parent\""), "{error}");
}
