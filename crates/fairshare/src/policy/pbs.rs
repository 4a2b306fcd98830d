// SPDX-License-Identifier: LGPL-3.0-only
//! `pbs`: OpenPBS's `fairshare_factor`.
//!
//! Every node starts with a minimum usage (1 in OpenPBS's program, 0 in its published formula). Minimum usage is not
//! added to the banks above. A recorded usage equal to the minimum is not added either, because OpenPBS stores no such
//! record. F = 2^-(tree usage / perc). Both numbers are computed as in PP-718, but with 64 bits instead of 32.

use std::cmp::Ordering;

use super::{Policy, RankingPolicy};
use crate::formula::{Formula, InheritedFormulaValues, Step, power_of_half};
use crate::sums::{Sums, ratio};
use crate::tree::{Flags, NodeId, Tree};
use crate::walk::SiblingRule;
use crate::{NodeDetail, Options, Ranking, Shares};

impl Policy {
    /// OpenPBS's `fairshare_factor`.
    pub const Pbs: Policy = Policy(&Pbs);
}

/// The values that OpenPBS computes for a node. The fields have OpenPBS's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PbsDetail {
    /// The target: the node's fraction of the siblings' shares, multiplied by that of each bank above it.
    pub fairshare_perc: f64,
    /// Effective usage; a larger one lowers the priority.
    pub fairshare_tree_usage: f64,
    /// 2^-(tree usage / perc); 0 without shares.
    pub fairshare_factor: f64,
}

struct Pbs;

impl RankingPolicy for Pbs {
    fn name(&self) -> &'static str {
        "pbs"
    }

    fn formula(&self, options: &Options) -> Option<Box<dyn Formula>> {
        Some(Box::new(Rule { min_usage: options.pbs_min_usage }))
    }

    fn add_numbers(&self, tree: &Tree, ranking: &Ranking, node: NodeId, detail: &mut NodeDetail) {
        let rule = Rule { min_usage: ranking.options.pbs_min_usage };
        let numbers = ranking.add_formula_numbers(&rule, tree, node, detail);
        detail.norm_shares = norm_shares(tree, ranking, node);
        detail.pbs = Some(PbsDetail {
            fairshare_perc: numbers.norm_shares,
            fairshare_tree_usage: numbers.effective_usage,
            fairshare_factor: rule.factor(numbers),
        });
    }

    fn options(&self) -> &'static [&'static str] {
        &["pbs.min_usage"]
    }

    fn initial_usage(&self, options: &Options) -> Option<f64> {
        Some(options.pbs_min_usage)
    }

    fn usage(&self, tree: &Tree, ranking: &Ranking, node: NodeId) -> f64 {
        let rule = Rule { min_usage: ranking.options.pbs_min_usage };
        rule.usage(tree, &ranking.sums, node)
    }

    /// OpenPBS's own comparison uses quotients, also within a scheduling cycle.
    fn compares_quotients(&self) -> bool {
        true
    }

    fn target(&self, detail: &NodeDetail) -> f64 {
        detail.pbs.map_or(0.0, |pbs| pbs.fairshare_perc)
    }

    fn is_ordered_by_pbs_walk(&self) -> bool {
        true
    }

    fn table_columns(&self, _long: bool) -> &'static [&'static str] {
        &["fairshare_perc", "fairshare_tree_usage", "usage_over_perc", "walk"]
    }

    fn document_columns(&self) -> &'static [&'static str] {
        &["fairshare_perc", "fairshare_tree_usage", "fairshare_factor", "usage_over_perc", "walk"]
    }

    fn table_note(&self) -> Option<&'static str> {
        Some(
            "Place and FairShare follow the fairshare factor, 2^-(TreeUsage / Perc). Walk is the place in the order of \
             the scheduler itself, which without a formula compares Usage/Perc level by level: --sort pbs-walk shows it.",
        )
    }

    fn explain_factor(&self, detail: &NodeDetail, value: f64) -> String {
        match detail.pbs.filter(|pbs| pbs.fairshare_perc > 0.0) {
            Some(pbs) => format!(
                "fair-share {value:.6} = 2^-(tree usage {:.6} / target {:.6})",
                pbs.fairshare_tree_usage, pbs.fairshare_perc
            ),
            None if detail.shares == Shares::Count(0) => "fair-share 0: it has no shares".to_owned(),
            None => "fair-share 0: a bank above it has 0 shares".to_owned(),
        }
    }
}

/// Returns a node's fraction of the siblings' shares, or 0 if the bank above has no target.
fn norm_shares(tree: &Tree, ranking: &Ranking, node: NodeId) -> f64 {
    if tree.parent(node).is_none() {
        return 1.0;
    }
    let above = ranking.sums.find_bank_where_node_competes(tree, node) as usize;
    let has_target = ranking.numbers.get(above).is_some_and(|above| above.norm_shares != 0.0);
    let has_shares = has_target && !ranking.sums.is_left_out(tree, node);
    let shares = if has_shares { tree.shares(node).count() as f64 } else { 0.0 };
    ratio(shares, ranking.siblings(tree, node).0)
}

struct Rule {
    min_usage: f64,
}

impl Formula for Rule {
    fn root(&self) -> InheritedFormulaValues {
        InheritedFormulaValues { norm_shares: 1.0, effective_usage: 0.0 }
    }

    fn step(&self, step: &Step) -> InheritedFormulaValues {
        // The members of a group without a target have no target either.
        let part = if step.parent.norm_shares == 0.0 { 0.0 } else { step.part.unwrap_or(0.0) };
        let effective_usage = if step.below_root {
            step.norm_usage
        } else {
            step.norm_usage + (step.parent.effective_usage - step.norm_usage) * part
        };
        InheritedFormulaValues { norm_shares: part * step.parent.norm_shares, effective_usage }
    }

    fn factor(&self, numbers: InheritedFormulaValues) -> f64 {
        if numbers.norm_shares == 0.0 {
            0.0
        } else {
            power_of_half(numbers.effective_usage / numbers.norm_shares)
        }
    }

    /// Returns the recorded usage of an entity, which may be 0. The usage of a group is the minimum usage
    /// plus the recorded usage of its members. OpenPBS treats a group without members as an entity.
    fn usage(&self, tree: &Tree, sums: &Sums, node: NodeId) -> f64 {
        let recorded = sums.usage_of(tree, node);
        if tree.flags(node).has(Flags::USAGE_UNSET) {
            return self.min_usage + recorded;
        }
        match tree.bank_number(node) {
            None => recorded,
            Some(bank) if tree.is_childless(bank) => tree.own_usage(node).unwrap_or(0.0),
            Some(_) => self.min_usage + recorded,
        }
    }
}

/// Compares two nodes, each as (usage, perc), at one level of the pairwise comparison. Returns `Less` if `a`
/// is more deserving, and `None` if the comparison ends in a tie.
pub(crate) fn compare_usage_relative_to_target(a: (f64, f64), b: (f64, f64)) -> Option<Ordering> {
    match (a.1 > 0.0, b.1 > 0.0) {
        (false, false) => None,
        (false, true) => Some(Ordering::Greater),
        (true, false) => Some(Ordering::Less),
        (true, true) => Some((a.0 / a.1).total_cmp(&(b.0 / b.1))),
    }
}

impl Ranking {
    /// Returns the ranks that OpenPBS's scheduler gives the associations if it has no job sort formula: by usage / target, level by
    /// level from the root. Returns `None` if the policy is not `pbs`. If an association and a bank are equal siblings, the
    /// association has the same rank as the best association in the bank.
    pub fn pbs_walk(&self, tree: &Tree) -> Option<Ranking> {
        self.policy.is_ordered_by_pbs_walk().then(|| {
            let mut walk = self.clone();
            walk.clear_ranks(tree);
            walk.rank_by_depth_first_visit(&UsageOverTarget(self), tree);
            walk
        })
    }

    /// Returns usage / target, which OpenPBS compares; infinite without a target. `None` under another policy.
    pub fn usage_over_target(&self, tree: &Tree, node: NodeId) -> Option<f64> {
        if !self.policy.is_ordered_by_pbs_walk() {
            return None;
        }
        let detail = self.detail(tree, node);
        let target = self.policy.target(&detail);
        Some(if target > 0.0 { detail.usage / target } else { f64::INFINITY })
    }

    /// Compares two associations level by level, as OpenPBS's scheduler does. At each level, the node with the
    /// smaller usage divided by target comes first (`Less`). A node with the target 0 comes last. If both targets are
    /// 0, the associations are equal.
    /// The first level with different quotients decides the order. If the shorter path has no such level, the
    /// associations are equal. The comparison is not transitive for leaves at different depths. Returns `None` if the
    /// policy is not `pbs`.
    pub fn compare_by_pbs_walk(&self, tree: &Tree, first: NodeId, second: NodeId) -> Option<Ordering> {
        if !self.policy.is_ordered_by_pbs_walk() {
            return None;
        }
        let usage_and_target = |node: NodeId| {
            let detail = self.detail(tree, node);
            (detail.usage, self.policy.target(&detail))
        };
        for (a, b) in self.path(tree, first).into_iter().zip(self.path(tree, second)) {
            if a == b {
                continue;
            }
            match compare_usage_relative_to_target(usage_and_target(a), usage_and_target(b)) {
                Some(Ordering::Equal) => {}
                Some(decided) => return Some(decided),
                None => break,
            }
        }
        Some(Ordering::Equal)
    }
}

/// Sorts siblings as OpenPBS compares them: by usage / target.
struct UsageOverTarget<'a>(&'a Ranking);

impl SiblingRule for UsageOverTarget<'_> {
    fn value(&self, tree: &Tree, _: &Sums, node: NodeId, _: u32) -> f64 {
        let ratio = self.0.usage_over_target(tree, node).unwrap_or(f64::INFINITY);
        // A smaller quotient must give a larger value, so its bits are subtracted from the bits of infinity. A
        // subtraction of the quotients themselves would round.
        f64::from_bits(f64::INFINITY.to_bits().saturating_sub(ratio.to_bits()))
    }
}
