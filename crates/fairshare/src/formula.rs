// SPDX-License-Identifier: LGPL-3.0-only
//! What the formula policies share: numbers handed down from the root, one step per level.

use super::sums::{Sums, ratio};
use super::tree::{Flags, NodeId, Tree};

/// What a node hands down to its children.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Numbers {
    /// The node's target: the part of the whole site that it was promised.
    pub norm_shares: f64,
    /// What the policy takes for its usage, as a part of the site's.
    pub effective_usage: f64,
}

/// All that a formula may look at for one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The part of the siblings' shares; `None` for a node that takes its parent's.
    pub part: Option<f64>,
    /// The siblings have no shares at all.
    pub no_shares: bool,
    /// The part of the site's usage.
    pub norm_usage: f64,
    /// That of all siblings that have shares of their own, itself included.
    pub siblings_norm_usage: f64,
    /// The node competes right below the root.
    pub below_root: bool,
    /// What the node above (that has shares of its own) handed down.
    pub parent: Numbers,
}

/// A policy made of a formula.
pub(super) trait Formula {
    /// The numbers of the root.
    fn root(&self) -> Numbers;
    /// The numbers of any other node.
    fn step(&self, step: &Step) -> Numbers;
    /// The fair-share made of a node's numbers.
    fn factor(&self, numbers: Numbers) -> f64;
    /// The usage of a node before it is made a part of the site's.
    fn usage(&self, tree: &Tree, sums: &Sums, node: NodeId) -> f64 {
        sums.usage_of(tree, node)
    }
}

/// Fills `banks` with each bank's numbers, top-down, and `factor` with each node's fair-share.
pub(super) fn run(
    formula: &impl Formula,
    tree: &Tree,
    sums: &Sums,
    banks: &mut Vec<Numbers>,
    factor: &mut Vec<f64>,
) {
    banks.clear();
    banks.push(formula.root());
    let root_usage = formula.usage(tree, sums, tree.root());
    for node in tree.banks().skip(1) {
        let arena = Arena::new(sums, banks, root_usage, sums.arena_of(tree, node));
        banks.push(formula.step(&arena.step(formula, tree, sums, node)));
    }
    factor.clear();
    factor.reserve(tree.len());
    for bank in 0..banks.len() as u32 {
        let arena = Arena::new(sums, banks, root_usage, sums.arena_below(bank));
        let numbers = |leaf| formula.step(&arena.step(formula, tree, sums, NodeId(leaf)));
        factor.extend(tree.leaves_in(bank).map(|leaf| formula.factor(numbers(leaf))));
    }
    factor.extend(banks.iter().map(|&numbers| formula.factor(numbers)));
}

/// The numbers of any node, from those of the banks.
pub(super) fn numbers(
    formula: &impl Formula,
    tree: &Tree,
    sums: &Sums,
    banks: &[Numbers],
    node: NodeId,
) -> Numbers {
    match tree.bank_number(node) {
        Some(bank) => banks.get(bank as usize).copied().unwrap_or_default(),
        None => {
            let root_usage = formula.usage(tree, sums, tree.root());
            let arena = Arena::new(sums, banks, root_usage, sums.arena_of(tree, node));
            formula.step(&arena.step(formula, tree, sums, node))
        }
    }
}

/// How much more an association has used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct More {
    /// In its own usage.
    pub own: f64,
    /// In what the banks above add up to.
    pub above: f64,
}

/// Returns the fair-share of the association at the end of `path` if it had used more.
pub(super) fn charged_factor(
    formula: &impl Formula,
    tree: &Tree,
    sums: &Sums,
    path: &[NodeId],
    more: More,
) -> f64 {
    formula.factor(along(formula, tree, sums, path, more))
}

/// The numbers of an association that has used more; `path` leads to it from right below the root.
fn along(formula: &impl Formula, tree: &Tree, sums: &Sums, path: &[NodeId], more: More) -> Numbers {
    let root_usage = formula.usage(tree, sums, tree.root()) + more.above;
    // The banks of the path that have shares of their own.
    let mut handed_down = vec![(0, formula.root())];
    let mut last = formula.root();
    for &node in path {
        let bank = sums.arena_of(tree, node);
        let own_shares = !tree.flags(node).has(Flags::PARENT_SHARES);
        let siblings = sums.usage.get(bank as usize).copied().unwrap_or(0.0);
        let siblings = if own_shares { siblings + more.above } else { siblings };
        let numbers = handed_down.iter().rev().find(|(known, _)| *known == bank).map(|(_, numbers)| *numbers);
        let arena = Arena {
            shares: sums.shares.get(bank as usize).copied().unwrap_or(0.0),
            norm_usage: ratio(siblings, root_usage),
            root_usage,
            below_root: bank == 0,
            numbers: numbers.unwrap_or_default(),
        };
        let mut step = arena.step(formula, tree, sums, node);
        let added = if tree.bank_number(node).is_some() { more.above } else { more.own };
        step.norm_usage = ratio(formula.usage(tree, sums, node) + added, root_usage);
        last = formula.step(&step);
        if let Some(bank) = tree.bank_number(node) {
            handed_down.push((bank, last));
        }
    }
    last
}

/// What is the same for all that compete below one bank.
struct Arena {
    shares: f64,
    norm_usage: f64,
    root_usage: f64,
    below_root: bool,
    numbers: Numbers,
}

impl Arena {
    fn new(sums: &Sums, banks: &[Numbers], root_usage: f64, bank: u32) -> Arena {
        let at = bank as usize;
        Arena {
            shares: sums.shares.get(at).copied().unwrap_or(0.0),
            norm_usage: ratio(sums.usage.get(at).copied().unwrap_or(0.0), root_usage),
            root_usage,
            below_root: bank == 0,
            numbers: banks.get(at).copied().unwrap_or_default(),
        }
    }

    fn step(&self, formula: &impl Formula, tree: &Tree, sums: &Sums, node: NodeId) -> Step {
        let part = if tree.flags(node).has(Flags::PARENT_SHARES) {
            None
        } else if sums.ignores(tree, node) {
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

/// 2^-exponent; the exponent is >= 0 and may be infinite.
pub(super) fn halved(exponent: f64) -> f64 {
    // 0 / 0 and the like, only reached from denormals, are no reason for a fair-share above 0.
    if exponent.is_nan() { 0.0 } else { (-exponent).exp2() }
}
