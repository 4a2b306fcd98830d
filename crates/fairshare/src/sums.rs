// SPDX-License-Identifier: LGPL-3.0-only
//! Sums per bank: its usage, and the shares and usage of the nodes that compete under it.
// Indexing cannot panic: bank numbers come from the tree, and all columns have one entry per bank.
#![allow(clippy::indexing_slicing)]

#[cfg(test)]
use super::names::bytes;
use super::tree::{Flags, NodeId, Tree};
use super::{InactiveUsage, Options};

/// Columns with one entry per bank of a tree. Sums are computed in node order, so the order of the input does not
/// change rounding errors.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Usage of the bank and of all nodes below.
    pub total: Vec<f64>,
    /// The bank under which the children compete: the bank itself or, if it has `Shares::Parent`, the nearest bank
    /// above that has its own shares, or the root.
    pub arena: Vec<u32>,
    /// Sum of the shares of all nodes that compete under the bank.
    pub shares: Vec<f64>,
    /// Sum of the usage of all nodes that compete under the bank and have their own shares.
    pub usage: Vec<f64>,
    /// The number of ranked associations below each bank.
    pub ranked: Vec<u32>,
    /// Exact sums of `shares`, used only by [`Sums::fill`].
    exact: Vec<u128>,
    /// Flags of associations that all sums leave out.
    ignored: u8,
}

impl Sums {
    /// Computes the sums, bottom-up without recursion. If an association, or a bank without children, has
    /// exactly `initial_usage`, its usage is not added to the banks above.
    pub fn fill(&mut self, tree: &Tree, options: &Options, initial_usage: f64) {
        let banks = tree.bank_count();
        self.ignored = match options.inactive_usage {
            InactiveUsage::Ignore => Flags::INACTIVE,
            InactiveUsage::Count => 0,
        };
        for column in [&mut self.total, &mut self.shares, &mut self.usage] {
            column.clear();
            column.resize(banks, 0.0);
        }
        self.ranked.clear();
        self.ranked.resize(banks, 0);
        self.exact.clear();
        self.exact.resize(banks, 0);
        self.find_competing_banks(tree);
        for bank in (0..banks as u32).rev() {
            self.add_leaves(tree, bank, initial_usage);
            self.add_to_parent(tree, bank);
        }
        for (shares, exact) in self.shares.iter_mut().zip(&self.exact) {
            *shares = *exact as f64;
        }
    }

    /// Returns the usage that sums include: an association's own usage, or a bank's total.
    pub fn usage_of(&self, tree: &Tree, node: NodeId) -> f64 {
        match tree.bank_number(node) {
            Some(bank) => self.total[bank as usize],
            None if self.is_left_out(tree, node) => 0.0,
            None => tree.usage[node.index()],
        }
    }

    /// Returns true if the sums exclude the shares and the usage of an association.
    pub fn is_left_out(&self, tree: &Tree, node: NodeId) -> bool {
        tree.flags[node.index()].has(self.ignored)
    }

    /// Returns the number of the bank under which a node competes; 0 for the root.
    pub fn find_bank_where_node_competes(&self, tree: &Tree, node: NodeId) -> u32 {
        let above = tree.parent(node).and_then(|bank| tree.bank_number(bank)).unwrap_or(0);
        self.arena[above as usize]
    }

    /// Returns the number of the bank where the children of `bank` compete.
    pub fn find_bank_where_children_compete(&self, bank: u32) -> u32 {
        self.arena[bank as usize]
    }

    /// Returns true if `bank` has parent shares, so that its children compete with its siblings.
    pub fn vanishes(&self, bank: u32) -> bool {
        self.arena[bank as usize] != bank
    }

    /// Returns the allocated bytes.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        let floats = [&self.total, &self.shares, &self.usage].map(bytes);
        let numbers = [&self.arena, &self.ranked].map(bytes);
        floats.into_iter().chain(numbers).chain([bytes(&self.exact)]).sum()
    }

    fn find_competing_banks(&mut self, tree: &Tree) {
        self.arena.clear();
        self.arena.extend(0..tree.bank_count() as u32);
        for bank in 1..tree.bank_count() as u32 {
            if tree.flags(tree.bank_node(bank)).has(Flags::PARENT_SHARES) {
                self.arena[bank as usize] = self.arena[tree.find_parent_bank(bank) as usize];
            }
        }
    }

    fn add_leaves(&mut self, tree: &Tree, bank: u32, initial_usage: f64) {
        let range = tree.list_leaves_in_bank(bank);
        let range = range.start as usize..range.end as usize;
        let columns =
            tree.usage[range.clone()].iter().zip(&tree.shares[range.clone()]).zip(&tree.flags[range]);
        let (mut total, mut competing, mut shares, mut ranked) = (0.0, 0.0, 0u128, 0);
        for ((&usage, &own), &flags) in columns {
            if flags.has(self.ignored) {
                continue;
            }
            let usage = if usage == initial_usage { 0.0 } else { usage };
            total += usage;
            shares += u128::from(own);
            if !flags.has(Flags::PARENT_SHARES) {
                competing += usage;
            }
            ranked += u32::from(!flags.has(Flags::INACTIVE));
        }
        let own = tree.usage[tree.bank_node(bank).index()];
        let is_initial = own == initial_usage && tree.is_childless(bank);
        self.total[bank as usize] += total + if is_initial { 0.0 } else { own };
        self.ranked[bank as usize] += ranked;
        let arena = self.arena[bank as usize] as usize;
        self.exact[arena] += shares;
        self.usage[arena] += competing;
    }

    fn add_to_parent(&mut self, tree: &Tree, bank: u32) {
        if bank == 0 {
            return;
        }
        let above = tree.find_parent_bank(bank) as usize;
        self.total[above] += self.total[bank as usize];
        self.ranked[above] += self.ranked[bank as usize];
        if !self.vanishes(bank) {
            let arena = self.arena[above] as usize;
            self.exact[arena] += u128::from(tree.shares[tree.bank_node(bank).index()]);
            self.usage[arena] += self.total[bank as usize];
        }
    }
}

/// Returns the value of bank number `bank` in a column of [`Sums`].
pub(super) fn value_at(column: &[f64], bank: u32) -> f64 {
    column.get(bank as usize).copied().unwrap_or(0.0)
}

/// Returns `part / whole`, or 0 if `whole` is 0.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Returns the level fair-share: the fraction of the shares divided by the fraction of the usage.
pub(super) fn level(shares: f64, sibling_shares: f64, usage: f64, parent_usage: f64) -> f64 {
    let part = ratio(shares, sibling_shares);
    let used = ratio(usage, parent_usage);
    if part == 0.0 {
        0.0
    } else if used == 0.0 {
        f64::INFINITY
    } else {
        part / used
    }
}
