// SPDX-License-Identifier: LGPL-3.0-only
//! The code that all formula policies share. It visits the tree from the root down, and computes the numbers
//! of each node from the numbers of its parent.

use super::sums::{Sums, ratio, value_at};
use super::tree::{Flags, NodeId, Tree};

/// The values that a formula computes for a node, and that the node's children need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InheritedFormulaValues {
    /// The target: the fraction of the site's shares to which the node is entitled.
    pub norm_shares: f64,
    /// The usage that the policy assigns to the node, as a fraction of the site's usage.
    pub effective_usage: f64,
}

/// The input of a formula for one node.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The node's fraction of the siblings' shares; `None` for a node with parent shares.
    pub part: Option<f64>,
    /// True if no sibling has shares.
    pub no_shares: bool,
    /// The node's fraction of the site's usage.
    pub norm_usage: f64,
    /// The usage of all siblings that have their own shares, this node included, as a fraction of the site's usage.
    pub siblings_norm_usage: f64,
    /// True if the bank under which the node competes is the root.
    pub below_root: bool,
    /// The values of the bank under which the node competes.
    pub parent: InheritedFormulaValues,
}

/// The formula of a policy.
pub trait Formula {
    /// Returns the [`InheritedFormulaValues`] of the root.
    fn root(&self) -> InheritedFormulaValues;
    /// Computes the [`InheritedFormulaValues`] of a node below the root.
    fn step(&self, step: &Step) -> InheritedFormulaValues;
    /// Computes the fair-share of a node from its [`InheritedFormulaValues`].
    fn factor(&self, numbers: InheritedFormulaValues) -> f64;
    /// Returns the absolute usage of a node.
    fn usage(&self, tree: &Tree, sums: &Sums, node: NodeId) -> f64 {
        sums.usage_of(tree, node)
    }
}

/// Fills `banks` with the numbers of each bank, top-down, and `factor` with the fair-share of each node.
pub(super) fn compute_all(
    formula: &dyn Formula,
    tree: &Tree,
    sums: &Sums,
    banks: &mut Vec<InheritedFormulaValues>,
    factor: &mut Vec<f64>,
) {
    banks.clear();
    banks.push(formula.root());
    let root_usage = formula.usage(tree, sums, tree.root());
    for node in tree.banks().skip(1) {
        let arena = Arena::new(sums, banks, root_usage, sums.find_bank_where_node_competes(tree, node));
        banks.push(formula.step(&arena.step(formula, tree, sums, node)));
    }
    factor.clear();
    factor.reserve(tree.len());
    for bank in 0..banks.len() as u32 {
        let arena = Arena::new(sums, banks, root_usage, sums.find_bank_where_children_compete(bank));
        let numbers = |leaf| formula.step(&arena.step(formula, tree, sums, NodeId(leaf)));
        factor.extend(tree.list_leaves_in_bank(bank).map(|leaf| formula.factor(numbers(leaf))));
    }
    factor.extend(banks.iter().map(|&numbers| formula.factor(numbers)));
}

/// Computes the [`InheritedFormulaValues`] of `node`. `banks` has the values of all banks.
pub(super) fn node_numbers(
    formula: &dyn Formula,
    tree: &Tree,
    sums: &Sums,
    banks: &[InheritedFormulaValues],
    node: NodeId,
) -> InheritedFormulaValues {
    match tree.bank_number(node) {
        Some(bank) => banks.get(bank as usize).copied().unwrap_or_default(),
        None => {
            let root_usage = formula.usage(tree, sums, tree.root());
            let arena = Arena::new(sums, banks, root_usage, sums.find_bank_where_node_competes(tree, node));
            formula.step(&arena.step(formula, tree, sums, node))
        }
    }
}

/// A change of the usage of an association.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UsageChange {
    /// The change of the node's own usage.
    pub own: f64,
    /// The change of the usage of all banks above the node.
    pub above: f64,
}

/// Returns the fair-share of the association at the end of `path` with the usage changed by `added`.
pub(super) fn charged_factor(
    formula: &dyn Formula,
    tree: &Tree,
    sums: &Sums,
    path: &[NodeId],
    added: UsageChange,
) -> f64 {
    let root_usage = formula.usage(tree, sums, tree.root()) + added.above;
    // The banks on the path, each with its computed values.
    let mut numbers_of_banks = vec![(0, formula.root())];
    let mut last = formula.root();
    for &node in path {
        let bank = sums.find_bank_where_node_competes(tree, node);
        let own_shares = !tree.flags(node).has(Flags::PARENT_SHARES);
        let siblings = value_at(&sums.usage, bank) + if own_shares { added.above } else { 0.0 };
        let numbers =
            numbers_of_banks.iter().rev().find(|(known, _)| *known == bank).map(|(_, numbers)| *numbers);
        let numbers = numbers.unwrap_or_default();
        let norm_usage = ratio(siblings, root_usage);
        let arena = Arena { norm_usage, numbers, ..Arena::new(sums, &[], root_usage, bank) };
        let mut step = arena.step(formula, tree, sums, node);
        let change = if tree.bank_number(node).is_some() { added.above } else { added.own };
        step.norm_usage = ratio(formula.usage(tree, sums, node) + change, root_usage);
        last = formula.step(&step);
        if let Some(bank) = tree.bank_number(node) {
            numbers_of_banks.push((bank, last));
        }
    }
    formula.factor(last)
}

/// The values that are the same for all children of a bank.
struct Arena {
    shares: f64,
    norm_usage: f64,
    root_usage: f64,
    below_root: bool,
    numbers: InheritedFormulaValues,
}

impl Arena {
    fn new(sums: &Sums, banks: &[InheritedFormulaValues], root_usage: f64, bank: u32) -> Arena {
        Arena {
            shares: value_at(&sums.shares, bank),
            norm_usage: ratio(value_at(&sums.usage, bank), root_usage),
            root_usage,
            below_root: bank == 0,
            numbers: banks.get(bank as usize).copied().unwrap_or_default(),
        }
    }

    fn step(&self, formula: &dyn Formula, tree: &Tree, sums: &Sums, node: NodeId) -> Step {
        let part = if tree.flags(node).has(Flags::PARENT_SHARES) {
            None
        } else if sums.is_left_out(tree, node) {
            Some(0.0)
        } else {
            let shares = tree.shares.get(node.index()).map_or(0.0, |&shares| shares as f64);
            Some(ratio(shares, self.shares))
        };
        Step {
            part,
            no_shares: self.shares == 0.0,
            norm_usage: ratio(formula.usage(tree, sums, node), self.root_usage),
            siblings_norm_usage: self.norm_usage,
            below_root: self.below_root,
            parent: self.numbers,
        }
    }
}

/// Returns 2^-exponent. The exponent is >= 0 and may be infinite.
pub(super) fn power_of_half(exponent: f64) -> f64 {
    // The exponent is NaN only after a division of 0 by 0, which denormal numbers can cause. The fair-share
    // must then be 0.
    if exponent.is_nan() { 0.0 } else { (-exponent).exp2() }
}
