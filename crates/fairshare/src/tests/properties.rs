// SPDX-License-Identifier: LGPL-3.0-only
//! Properties of any tree. Shares and usages are a few small numbers, so most levels have ties.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::reference;
use super::site::{Association, Bank, Site};
use crate::{InactiveUsage, NodeId, Options, Policy, Ranking, Shares, Ties, Tree};
use std::cmp::Ordering;

/// The policies whose fair-share is rank / N.
const RANK_POLICIES: [Policy; 2] = [Policy::WeightedWalk, Policy::FairTree];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// All shares are numbers, so every policy can rank the site.
    Counted,
    /// Some nodes have parent shares.
    WithParent,
}

fn any_shares(kind: Kind) -> BoxedStrategy<Shares> {
    let count = prop_oneof![Just(0), Just(1), Just(1), Just(2), Just(4), 0..10u64].prop_map(Shares::Count);
    match kind {
        Kind::Counted => count.boxed(),
        Kind::WithParent => prop_oneof![5 => count, 1 => Just(Shares::Parent)].boxed(),
    }
}

fn any_usage() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0), Just(0), Just(1), Just(2), Just(4), Just(8), 0..100u32].prop_map(f64::from)
}

fn any_site(kind: Kind) -> impl Strategy<Value = Site> {
    let own = prop_oneof![6 => Just(None), 1 => any_usage().prop_map(Some)];
    let banks = prop::collection::vec((any::<prop::sample::Index>(), any_shares(kind), own), 0..9);
    let recorded = prop_oneof![1 => Just(None), 9 => any_usage().prop_map(Some)];
    let leaf = (any::<prop::sample::Index>(), 0..6u8, any_shares(kind), recorded, prop::bool::weighted(0.9));
    (banks, prop::collection::vec(leaf, 1..28)).prop_map(|(banks, leaves)| {
        let mut site = Site::default();
        site.banks.push(Bank { name: "root".into(), parent: None, shares: Shares::Count(1), usage: None });
        for (number, (above, shares, usage)) in banks.into_iter().enumerate() {
            let parent = Some(site.banks[above.index(number + 1)].name.clone());
            // One bank has the same name as a user.
            let name = if number == 2 { "u3".into() } else { format!("b{}", 9 - number) };
            site.banks.push(Bank { name, parent, shares, usage });
        }
        let mut leaves: Vec<_> = leaves
            .into_iter()
            .map(|(above, user, shares, usage, active)| {
                let bank = site.banks[above.index(site.banks.len())].name.clone();
                Association { user: format!("u{user}"), bank, shares, usage, active }
            })
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        leaves.retain(|leaf| seen.insert((leaf.bank.clone(), leaf.user.clone())));
        site.associations = leaves;
        site
    })
}

pub(super) fn any_options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>(), prop_oneof![Just(0.0), Just(1.0)], prop_oneof![Just(1.0), Just(3.0)])
        .prop_map(|(ties, inactive, pbs_min_usage, dampening)| Options {
            ties: if ties { Ties::SlurmProgram } else { Ties::Documented },
            inactive_usage: if inactive { InactiveUsage::Ignore } else { InactiveUsage::Count },
            pbs_min_usage,
            dampening,
        })
}

/// Returns the policies that can rank a site of this kind.
pub(super) fn list_policies_for_kind(kind: Kind) -> impl Iterator<Item = Policy> {
    Policy::ALL
        .into_iter()
        .filter(move |policy| kind == Kind::Counted || ![Policy::WeightedWalk, Policy::Pbs].contains(policy))
}

fn rank_site(site: &Site, policy: Policy, options: &Options) -> (Tree, Ranking) {
    let tree = Tree::build(site).expect("a tree");
    let ranking = tree.rank(policy, options).expect("a ranking");
    (tree, ranking)
}

fn fairshares_by_name(tree: &Tree, ranking: &Ranking) -> BTreeMap<(String, String), f64> {
    let key = |node: NodeId| (tree.name(tree.parent(node).expect("bank")).into(), tree.name(node).into());
    tree.leaves().filter_map(|node| Some((key(node), ranking.fairshare(node)?))).collect()
}

fn compute_fairshares(site: &Site, policy: Policy, options: &Options) -> BTreeMap<(String, String), f64> {
    let (tree, ranking) = rank_site(site, policy, options);
    fairshares_by_name(&tree, &ranking)
}

fn set_ties_option_to_documented(options: Options) -> Options {
    Options { ties: Ties::Documented, ..options }
}

pub(super) fn any_kind() -> impl Strategy<Value = (Kind, Site)> {
    prop_oneof![Just(Kind::Counted), Just(Kind::WithParent)]
        .prop_flat_map(|kind| any_site(kind).prop_map(move |site| (kind, site)))
}

/// Returns the ranks of the active associations at or below a node.
fn list_ranks_at_or_below(tree: &Tree, ranking: &Ranking, node: NodeId) -> Vec<u32> {
    let mut found = Vec::new();
    let mut left = vec![node];
    while let Some(node) = left.pop() {
        found.extend(ranking.rank(node));
        left.extend(tree.children(node));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fair_shares_are_between_0_and_1_in_the_order_of_ranks((kind, site) in any_kind(), options in any_options()) {
        for policy in list_policies_for_kind(kind) {
            let (tree, ranking) = rank_site(&site, policy, &options);
            let n = ranking.ranked();
            prop_assert_eq!(n, site.associations.iter().filter(|leaf| leaf.active).count());
            prop_assert_eq!(ranking.order().len(), n);
            for node in tree.leaves().chain(tree.banks()) {
                let detail = ranking.detail(&tree, node);
                for part in [detail.norm_shares, detail.norm_usage] {
                    prop_assert!((0.0..=1.0).contains(&part), "{policy} {part}");
                }
                prop_assert!(detail.effective_usage >= 0.0, "{}", detail.effective_usage);
                if let Some(value) = detail.fairshare {
                    prop_assert!((0.0..=1.0).contains(&value), "{policy} {value}");
                }
                let is_ranked = !tree.is_bank(node) && tree.is_active(node);
                prop_assert_eq!(detail.rank.is_some(), is_ranked);
                prop_assert!(detail.rank.is_none_or(|rank| rank >= 1 && rank as usize <= n));
                prop_assert_eq!(detail.fairshare.is_some(), is_ranked || (tree.is_bank(node) && !policy.is_rank()));
            }
            // The order begins with the best association. A better association has a larger rank and a larger
            // fair-share.
            for pair in ranking.order().windows(2) {
                prop_assert!(ranking.rank(pair[0]) >= ranking.rank(pair[1]));
                prop_assert!(ranking.fairshare(pair[0]) >= ranking.fairshare(pair[1]));
            }
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_change_fair_shares(
        (kind, site) in any_kind(),
        (seed, options) in (any::<u64>(), any_options()),
    ) {
        let mut shuffled = site.clone();
        let mix = |at: usize| (at as u64 + 1).wrapping_mul(seed | 1).rotate_left(23);
        for at in (1..shuffled.banks.len()).rev() {
            shuffled.banks.swap(at, mix(at) as usize % (at + 1));
        }
        for at in (1..shuffled.associations.len()).rev() {
            shuffled.associations.swap(at, mix(at) as usize % (at + 1));
        }
        for policy in list_policies_for_kind(kind) {
            let options = set_ties_option_to_documented(options);
            let (tree, ranking) = rank_site(&site, policy, &options);
            let (other_tree, other) = rank_site(&shuffled, policy, &options);
            prop_assert_eq!(fairshares_by_name(&tree, &ranking), fairshares_by_name(&other_tree, &other), "{}", policy);
            let names = |tree: &Tree, order: &[NodeId]| -> Vec<String> {
                order.iter().map(|&node| tree.describe(node)).collect()
            };
            prop_assert_eq!(names(&tree, ranking.order()), names(&other_tree, other.order()));
        }
    }

    #[test]
    fn scaling_all_usages_does_not_change_fair_shares(
        (kind, site) in any_kind(),
        (options, scale) in (any_options(), prop_oneof![Just(2.0), Just(3.0), Just(1000.0), Just(2f64.powi(-40))]),
    ) {
        let mut scaled = site.clone();
        let usages = scaled.banks.iter_mut().map(|bank| &mut bank.usage);
        for usage in usages.chain(scaled.associations.iter_mut().map(|leaf| &mut leaf.usage)) {
            *usage = usage.map(|usage| usage * scale);
        }
        // The minimum usage does not scale with the recorded usages, so it is 0 here.
        let options = Options { pbs_min_usage: 0.0, ..options };
        for policy in list_policies_for_kind(kind) {
            prop_assert_eq!(compute_fairshares(&site, policy, &options), compute_fairshares(&scaled, policy, &options), "{}", policy);
        }
    }

    #[test]
    fn scaling_the_shares_of_siblings_does_not_change_fair_shares(
        // No node has parent shares, because the children of such a node would compete with nodes whose shares are
        // not scaled.
        site in any_site(Kind::Counted),
        (options, bank, scale) in (any_options(), any::<prop::sample::Index>(), 2..1000u64),
    ) {
        let mut scaled = site.clone();
        let above = site.banks[bank.index(site.banks.len())].name.clone();
        let banks = scaled.banks.iter_mut().filter(|bank| bank.parent.as_ref() == Some(&above));
        let leaves = scaled.associations.iter_mut().filter(|leaf| leaf.bank == above);
        for shares in banks.map(|bank| &mut bank.shares).chain(leaves.map(|leaf| &mut leaf.shares)) {
            if let Shares::Count(count) = shares {
                *count *= scale;
            }
        }
        for policy in Policy::ALL {
            prop_assert_eq!(compute_fairshares(&site, policy, &options), compute_fairshares(&scaled, policy, &options), "{}", policy);
        }
    }

    #[test]
    fn more_usage_never_raises_a_rank(
        mut site in any_site(Kind::Counted),
        (options, leaf, more) in (any_options(), any::<prop::sample::Index>(), 1..50u32),
    ) {
        let at = leaf.index(site.associations.len());
        site.associations[at].active = true;
        let mut busier = site.clone();
        let usage = &mut busier.associations[at].usage;
        *usage = Some(usage.unwrap_or(0.0) + f64::from(more));
        let key = (site.associations[at].bank.clone(), site.associations[at].user.clone());
        for policy in RANK_POLICIES {
            let options = set_ties_option_to_documented(options);
            let (before, after) = (compute_fairshares(&site, policy, &options), compute_fairshares(&busier, policy, &options));
            prop_assert!(after[&key] <= before[&key], "{policy} {key:?}: {} to {}", before[&key], after[&key]);
        }
    }

    #[test]
    fn more_shares_never_lower_a_rank(
        mut site in any_site(Kind::Counted),
        (options, leaf, more) in (any_options(), any::<prop::sample::Index>(), 1..50u64),
    ) {
        let at = leaf.index(site.associations.len());
        site.associations[at].active = true;
        let mut richer = site.clone();
        if let Shares::Count(count) = &mut richer.associations[at].shares {
            *count += more;
        }
        let key = (site.associations[at].bank.clone(), site.associations[at].user.clone());
        for policy in RANK_POLICIES {
            let options = set_ties_option_to_documented(options);
            let (before, after) = (compute_fairshares(&site, policy, &options), compute_fairshares(&richer, policy, &options));
            prop_assert!(after[&key] >= before[&key], "{policy} {key:?}: {} to {}", before[&key], after[&key]);
        }
    }

    /// If A outranks its sibling B, all associations below A outrank all below B.
    #[test]
    fn associations_of_a_better_bank_outrank_those_of_a_worse_sibling((kind, site) in any_kind(), options in any_options()) {
        for policy in list_policies_for_kind(kind).filter(|policy| policy.is_rank()) {
            let (tree, ranking) = rank_site(&site, policy, &set_ties_option_to_documented(options));
            for bank in tree.banks() {
                let siblings: Vec<NodeId> = tree.children(bank).collect();
                for (&a, &b) in siblings.iter().flat_map(|a| siblings.iter().map(move |b| (a, b))) {
                    let (Some(high), Some(low)) = (ranking.value(&tree, a), ranking.value(&tree, b)) else {
                        continue;
                    };
                    // The order of a bank with parent shares has no effect: its children compete in its place.
                    let vanishes = |node| tree.is_bank(node) && tree.shares(node) == Shares::Parent;
                    if high <= low * (1.0 + 1e-9) + 1e-9 || vanishes(a) || vanishes(b) {
                        continue;
                    }
                    let worst = list_ranks_at_or_below(&tree, &ranking, a).into_iter().min();
                    let best = list_ranks_at_or_below(&tree, &ranking, b).into_iter().max();
                    if let (Some(worst), Some(best)) = (worst, best) {
                        prop_assert!(worst > best, "{policy}: {} over {}", tree.describe(a), tree.describe(b));
                    }
                }
            }
        }
    }

    #[test]
    fn fair_shares_equal_those_of_the_reference((kind, site) in any_kind(), options in any_options()) {
        for policy in list_policies_for_kind(kind) {
            let ours = compute_fairshares(&site, policy, &options);
            let expected = reference::compute_fairshares(&site, policy, &options);
            prop_assert_eq!(ours.len(), expected.len());
            for (key, expected) in expected {
                let ours = ours[&key];
                let tolerance = if policy.is_rank() { 0.0 } else { 1e-12 };
                prop_assert!((ours - expected).abs() <= tolerance, "{policy} {key:?}: {ours}, expected {expected}");
            }
        }
    }

    #[test]
    fn a_tree_with_changed_usage_ranks_like_a_new_tree(
        (kind, site) in any_kind(),
        (options, leaf, usage, shares) in (any_options(), any::<prop::sample::Index>(), any_usage(), any_shares(Kind::Counted)),
    ) {
        let at = leaf.index(site.associations.len());
        let (user, bank) = (site.associations[at].user.clone(), site.associations[at].bank.clone());
        let mut changed = site.clone();
        changed.associations[at].usage = Some(usage);
        changed.associations[at].shares = shares;
        let mut tree = Tree::build(&site).expect("a tree");
        let mut ranking = Ranking::default();
        let node = tree.leaf(&user, &bank).expect("leaf");
        for policy in list_policies_for_kind(kind) {
            tree.rank_into(policy, &options, &mut ranking).expect("a ranking");
        }
        tree.set_usage(node, usage).expect("a usage");
        tree.set_shares(node, shares);
        for policy in list_policies_for_kind(kind) {
            tree.rank_into(policy, &options, &mut ranking).expect("a ranking");
            prop_assert_eq!(fairshares_by_name(&tree, &ranking), compute_fairshares(&changed, policy, &options));
        }
    }

    #[test]
    fn comparisons_of_associations_agree_with_their_ranks((kind, site) in any_kind(), options in any_options()) {
        for policy in list_policies_for_kind(kind) {
            let (tree, ranking) = rank_site(&site, policy, &set_ties_option_to_documented(options));
            for (a, b) in tree.leaves().flat_map(|a| tree.leaves().map(move |b| (a, b))) {
                let Some(why) = ranking.compare(&tree, a, b) else {
                    prop_assert_eq!(a, b);
                    continue;
                };
                if options.inactive_usage == InactiveUsage::Count {
                    for level in why.chains.0.levels.iter().skip(1) {
                        let (own, all) = (level.detail.usage, level.sibling_usage);
                        prop_assert!(own <= all * (1.0 + 1e-9), "{}: {own} of {all}", tree.describe(level.node));
                    }
                }
                prop_assert_eq!(why.chains.0.levels.last().map(|level| level.node), Some(a));
                let both = ranking.fairshare(a).zip(ranking.fairshare(b));
                let expected = both.map(|(one, other)| one.total_cmp(&other).reverse());
                prop_assert_eq!(why.verdict, expected);
                if !policy.is_rank() || !tree.is_active(a) || !tree.is_active(b) {
                    continue;
                }
                let (first, second) = (why.decisive.0.value.expect("value"), why.decisive.1.value.expect("value"));
                if first > second * (1.0 + 1e-9) + 1e-9 {
                    prop_assert_eq!(why.verdict, Some(Ordering::Less), "{} over {}", tree.describe(a), tree.describe(b));
                } else if second > first * (1.0 + 1e-9) + 1e-9 {
                    prop_assert_eq!(why.verdict, Some(Ordering::Greater));
                }
            }
        }
    }
}
