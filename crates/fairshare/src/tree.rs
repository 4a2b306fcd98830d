// SPDX-License-Identifier: LGPL-3.0-only
//! The tree of banks and associations, stored as columns with one entry per node.

use std::ops::Range;

use super::builder::format_number;
use super::names::Names;
#[cfg(test)]
use super::names::bytes;
use super::{Shares, TreeError};

/// The parent index of the root.
pub(super) const NO_NODE: u32 = u32::MAX;

/// Highest usage of a node; sums over 2^32 nodes stay finite.
pub const MAX_USAGE: f64 = 1e298;

/// A node of one [`Tree`]. It is meaningless in another tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// Returns the index of the node, from 0 to [`Tree::len`] - 1. Callers can use it as an index into their own
    /// lists.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// An inner node, which may have no children.
    Bank,
    /// A leaf: a user in a bank.
    Association,
}

/// Properties of a node, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(pub u8);

impl Flags {
    pub const INACTIVE: u8 = 1;
    pub const PARENT_SHARES: u8 = 2;
    pub const USAGE_UNSET: u8 = 4;

    pub fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    pub fn put(&mut self, bit: u8, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }
}

/// The checked tree of a site.
///
/// In the order of node ids, associations come before banks, and each bank comes before its child banks.
/// Sibling banks are in name order, and so are sibling associations.
#[derive(Clone, Debug)]
pub struct Tree {
    // Columns over all nodes: the associations, grouped by bank, then the banks, breadth-first. The associations of a
    // bank and its child banks are therefore two ranges, and no node needs a list of children.
    pub(super) parent: Vec<u32>,
    /// The shares; 0 if the flag PARENT_SHARES is set.
    pub(super) shares: Vec<u64>,
    /// The usage; 0 if the flag USAGE_UNSET is set.
    pub(super) usage: Vec<f64>,
    pub(super) flags: Vec<Flags>,
    pub(super) name: Vec<u32>,
    pub(super) list: Vec<u32>,
    /// For each bank, the index of its first association. The last element is the number of associations.
    pub(super) leaf_start: Vec<u32>,
    /// For each bank, the bank number of its first child bank. The last element is the number of banks.
    pub(super) bank_start: Vec<u32>,
    /// The bank numbers, sorted by the names of the banks.
    pub(super) by_name: Vec<u32>,
    pub(super) names: Names,
}

impl Tree {
    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Returns false: a tree has at least a root.
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    /// The root bank.
    pub fn root(&self) -> NodeId {
        self.bank_node(0)
    }

    /// Returns the bank `name`, or `None` if the tree lacks it.
    pub fn bank(&self, name: &str) -> Option<NodeId> {
        let found = self.by_name.binary_search_by(|&bank| self.name(self.bank_node(bank)).cmp(name)).ok()?;
        self.by_name.get(found).map(|&bank| self.bank_node(bank))
    }

    /// Returns the association of `user` in `bank`, or `None` if the tree lacks it. O(log n).
    pub fn leaf(&self, user: &str, bank: &str) -> Option<NodeId> {
        self.find_leaf_in_bank(self.bank(bank)?, user)
    }

    /// Returns all associations of a user, in the order of their ids. O(banks * log n).
    pub fn list_leaves_of_user<'a>(&'a self, user: &'a str) -> impl Iterator<Item = NodeId> + 'a {
        self.banks().filter_map(move |bank| self.find_leaf_in_bank(bank, user))
    }

    /// Returns all banks, the root first and each bank before its children.
    pub fn banks(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (self.leaf_count()..self.parent.len() as u32).map(NodeId)
    }

    /// Returns all associations, active or not, grouped by bank.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..self.leaf_count()).map(NodeId)
    }

    /// Returns the associations and then the banks right below a bank, each kind in name order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let (leaves, banks) = match self.bank_number(node) {
            Some(bank) => (self.list_leaves_in_bank(bank), self.banks_in(bank)),
            None => (0..0, 0..0),
        };
        let first = self.leaf_count();
        leaves.map(NodeId).chain(banks.map(move |bank| NodeId(first + bank)))
    }

    /// Returns every node with its depth (root: 0), depth-first: a bank, then its associations, then its
    /// child banks, each by name. [`super::Ranking::walk`] puts better siblings first instead.
    pub fn walk(&self) -> Vec<(NodeId, usize)> {
        self.depth_first(|_| ())
    }

    /// Returns the nodes of [`Tree::walk`], but sorts sibling banks, and sibling associations, by their order in the input.
    pub fn list_nodes_in_input_order(&self) -> Vec<(NodeId, usize)> {
        self.depth_first(|siblings| {
            siblings.sort_unstable_by_key(|&node| (self.is_bank(node), self.find_input_index(node)));
        })
    }

    /// Returns every node with its depth, depth-first. `arrange` gets the siblings in id order and may reorder them.
    pub fn depth_first(&self, mut arrange: impl FnMut(&mut [NodeId])) -> Vec<(NodeId, usize)> {
        let mut visited = Vec::with_capacity(self.len());
        let mut stack = vec![(self.root(), 0)];
        let mut siblings = Vec::new();
        while let Some((node, depth)) = stack.pop() {
            visited.push((node, depth));
            siblings.clear();
            siblings.extend(self.children(node));
            arrange(&mut siblings);
            stack.extend(siblings.iter().rev().map(|&child| (child, depth + 1)));
        }
        visited
    }

    /// Returns the kind of the node: bank or association.
    pub fn kind(&self, node: NodeId) -> NodeKind {
        if self.is_bank(node) { NodeKind::Bank } else { NodeKind::Association }
    }

    /// Returns the name of a bank, or the user of an association.
    pub fn name(&self, node: NodeId) -> &str {
        self.name.get(node.index()).map_or("", |&name| self.names.get(name))
    }

    /// Returns the parent bank, or `None` for the root.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.parent.get(node.index()).copied().filter(|&parent| parent != NO_NODE).map(NodeId)
    }

    /// Returns the shares of `node` as the input gives them: a count, or [`Shares::Parent`].
    pub fn shares(&self, node: NodeId) -> Shares {
        if self.flags(node).has(Flags::PARENT_SHARES) {
            Shares::Parent
        } else {
            Shares::Count(self.shares.get(node.index()).copied().unwrap_or(0))
        }
    }

    /// Returns a node's own recorded usage, or `None` if the node has no record.
    pub fn own_usage(&self, node: NodeId) -> Option<f64> {
        if self.flags(node).has(Flags::USAGE_UNSET) { None } else { self.usage.get(node.index()).copied() }
    }

    /// Returns false for an inactive association, and for a bank that was marked inactive.
    pub fn is_active(&self, node: NodeId) -> bool {
        !self.flags(node).has(Flags::INACTIVE)
    }

    /// Returns the index of the node in the input, among the banks or among the associations.
    pub fn find_input_index(&self, node: NodeId) -> usize {
        self.list.get(node.index()).copied().unwrap_or(0) as usize
    }

    /// Replaces a node's own usage; the next ranking uses it. Returns an error unless 0 <= `usage` <= [`MAX_USAGE`].
    pub fn set_usage(&mut self, node: NodeId, usage: f64) -> Result<(), TreeError> {
        if !(0.0..=MAX_USAGE).contains(&usage) {
            return Err(TreeError::BadUsage { node: self.describe(node), usage: format_number(usage) });
        }
        if let (Some(own), Some(flags)) = (self.usage.get_mut(node.index()), self.flags.get_mut(node.index()))
        {
            *own = usage + 0.0; // no negative zero
            flags.put(Flags::USAGE_UNSET, false);
        }
        Ok(())
    }

    /// Replaces the usage of a node, and returns true if the usage changed. A usage above [`MAX_USAGE`] is replaced
    /// by [`MAX_USAGE`]. A negative usage or NaN is replaced by 0. If no usage was recorded for an association, `pbs`
    /// still adds the minimum usage to `usage`.
    pub fn accrue(&mut self, node: NodeId, usage: f64) -> bool {
        let usage = if usage > 0.0 { usage.min(MAX_USAGE) } else { 0.0 };
        self.usage.get_mut(node.index()).is_some_and(|own| std::mem::replace(own, usage) != usage)
    }

    /// Replaces the shares of a node; the next ranking uses them.
    pub fn set_shares(&mut self, node: NodeId, shares: Shares) {
        if let (Some(own), Some(flags)) =
            (self.shares.get_mut(node.index()), self.flags.get_mut(node.index()))
        {
            *own = shares.count();
            flags.put(Flags::PARENT_SHARES, shares == Shares::Parent);
        }
    }

    /// Returns `bank "NAME"` or `user "NAME" in bank "NAME"`, for error messages.
    pub fn describe(&self, node: NodeId) -> String {
        match self.parent(node) {
            Some(bank) if !self.is_bank(node) => {
                format!("user \"{}\" in bank \"{}\"", self.name(node), self.name(bank))
            }
            _ => format!("bank \"{}\"", self.name(node)),
        }
    }

    /// Returns the allocated bytes of the columns, and of the text of the names.
    #[cfg(test)]
    pub fn memory(&self) -> (usize, usize) {
        let words = [&self.parent, &self.name, &self.list, &self.leaf_start, &self.bank_start, &self.by_name];
        let (text, index) = self.names.memory();
        let words = words.map(bytes);
        let others = [bytes(&self.shares), bytes(&self.usage), bytes(&self.flags), index];
        (words.into_iter().chain(others).sum(), text)
    }

    /// Returns the number of associations, which is also the id of the root.
    pub(super) fn leaf_count(&self) -> u32 {
        self.leaf_start.last().copied().unwrap_or(0)
    }

    pub(super) fn bank_count(&self) -> usize {
        self.leaf_start.len().saturating_sub(1)
    }

    pub(super) fn is_bank(&self, node: NodeId) -> bool {
        node.0 >= self.leaf_count()
    }

    /// Returns the number of a bank, or `None` for an association.
    pub(super) fn bank_number(&self, node: NodeId) -> Option<u32> {
        node.0.checked_sub(self.leaf_count())
    }

    pub(super) fn bank_node(&self, bank: u32) -> NodeId {
        NodeId(self.leaf_count() + bank)
    }

    /// Returns the ids of the associations right below a bank.
    pub(super) fn list_leaves_in_bank(&self, bank: u32) -> Range<u32> {
        get_child_range(&self.leaf_start, bank)
    }

    /// Returns the numbers of the banks right below a bank.
    pub(super) fn banks_in(&self, bank: u32) -> Range<u32> {
        get_child_range(&self.bank_start, bank)
    }

    /// Returns true if a bank has neither associations nor banks.
    pub(super) fn is_childless(&self, bank: u32) -> bool {
        self.list_leaves_in_bank(bank).is_empty() && self.banks_in(bank).is_empty()
    }

    /// Returns the number of the parent bank; 0 for the root.
    pub(super) fn find_parent_bank(&self, bank: u32) -> u32 {
        self.parent(self.bank_node(bank)).and_then(|node| self.bank_number(node)).unwrap_or(0)
    }

    pub(super) fn flags(&self, node: NodeId) -> Flags {
        self.flags.get(node.index()).copied().unwrap_or_default()
    }

    fn find_leaf_in_bank(&self, bank: NodeId, user: &str) -> Option<NodeId> {
        let Range { start, end } = self.list_leaves_in_bank(self.bank_number(bank)?);
        let users = self.name.get(start as usize..end as usize)?;
        let found = users.binary_search_by(|name| self.names.get(*name).cmp(user)).ok()?;
        Some(NodeId(start + found as u32))
    }
}

fn get_child_range(starts: &[u32], bank: u32) -> Range<u32> {
    let start = starts.get(bank as usize).copied().unwrap_or(0);
    start..starts.get(bank as usize + 1).copied().unwrap_or(start)
}
