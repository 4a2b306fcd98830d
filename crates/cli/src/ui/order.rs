// SPDX-License-Identifier: LGPL-3.0-only
//! The order in which siblings are shown.

use std::cmp::Ordering;

use super::columns::{self, NodeColumn, View};
use crate::ui::rows::Cell;
use fairshare::{NodeId, Tree};

/// The column by which siblings are sorted, and the direction.
pub(crate) struct Order {
    by: By,
    descending: bool,
}

enum By {
    Rank,
    Name,
    List,
    PbsWalk,
    Column(NodeColumn),
}

impl Order {
    /// Parses `list`, `pbs-walk` or the name of a column. With a leading -, the order is descending.
    pub(crate) fn parse(text: &str) -> Result<Order, String> {
        let (key, descending) = text.strip_prefix('-').map_or((text, false), |key| (key, true));
        match key {
            "list" => return Ok(Order { by: By::List, descending }),
            "pbs-walk" => return Ok(Order { by: By::PbsWalk, descending }),
            _ => {}
        }
        let chosen = columns::find_column(key).map_err(|text| format!("{text}; also list and pbs-walk"))?;
        let by = match chosen.column.key {
            "place" => By::Rank,
            // Place 1 has the largest fair-share.
            "fairshare" => return Ok(Order { by: By::Rank, descending: !descending }),
            "walk" => By::PbsWalk,
            "name" => By::Name,
            _ => By::Column(chosen),
        };
        Ok(Order { by, descending })
    }

    /// Returns true for `pbs-walk`, which only the policy `pbs` has.
    pub(crate) fn is_pbs_walk_order(&self) -> bool {
        matches!(self.by, By::PbsWalk)
    }

    /// Returns all nodes with their depths, parents before children.
    pub(crate) fn walk(&self, view: &View<'_>) -> Vec<(NodeId, usize)> {
        let tree = view.tree;
        let nodes = match &self.by {
            By::Rank => view.ranking.walk(tree),
            By::Name => tree.walk(),
            By::List => tree.list_nodes_in_input_order(),
            By::PbsWalk => pbs_walk(view),
            By::Column(chosen) => return sort_tree_by_column(view, chosen, self.descending),
        };
        if self.descending { reverse_siblings(tree, &nodes) } else { nodes }
    }
}

/// Walks the tree as OpenPBS's scheduler does: the sibling with the smaller usage / target first.
fn pbs_walk(view: &View<'_>) -> Vec<(NodeId, usize)> {
    let mut keyed: Vec<(u64, NodeId)> = Vec::new();
    view.tree.depth_first(|siblings| {
        let ratio = |node: NodeId| view.ranking.usage_over_target(view.tree, node).unwrap_or(f64::INFINITY);
        keyed.clear();
        // For numbers >= 0, the bit patterns have the same order as the numbers.
        keyed.extend(siblings.iter().map(|&node| (ratio(node).to_bits(), node)));
        keyed.sort_unstable();
        for (place, &(_, node)) in siblings.iter_mut().zip(&keyed) {
            *place = node;
        }
    })
}

/// Returns `nodes`, which are in the order of the tree, with siblings in reverse order.
fn reverse_siblings(tree: &Tree, nodes: &[(NodeId, usize)]) -> Vec<(NodeId, usize)> {
    let mut place = vec![0; tree.len()];
    for (at, (node, _)) in nodes.iter().enumerate() {
        if let Some(slot) = place.get_mut(node.index()) {
            *slot = at;
        }
    }
    tree.depth_first(|siblings| {
        siblings.sort_unstable_by_key(|node| std::cmp::Reverse(place.get(node.index()).copied()));
    })
}

fn sort_tree_by_column(view: &View<'_>, chosen: &NodeColumn, descending: bool) -> Vec<(NodeId, usize)> {
    let tree = view.tree;
    let values = column_values(view, chosen);
    let value = |node: &NodeId| values.get(node.index()).unwrap_or(&Cell::None);
    tree.depth_first(|siblings| {
        siblings.sort_by(|a, b| {
            compare_cells(value(a), value(b), descending).then_with(|| tree.name(*a).cmp(tree.name(*b)))
        });
    })
}

/// Returns the value of each node in the column, by index. A bank without a value gets the largest value below it.
fn column_values(view: &View<'_>, chosen: &NodeColumn) -> Vec<Cell> {
    let tree = view.tree;
    let mut values = vec![Cell::None; tree.len()];
    for (node, depth) in tree.walk() {
        if let Some(slot) = values.get_mut(node.index()) {
            *slot = (chosen.value)(&view.node(node, depth));
        }
    }
    let own: Vec<bool> = values.iter().map(|value| *value != Cell::None).collect();
    // A bank comes before the banks below it. In reverse order, the value of each bank is complete when its parent needs it.
    let banks: Vec<NodeId> = tree.banks().collect();
    for node in tree.leaves().chain(banks.into_iter().rev()) {
        let (Some(bank), Some(value)) = (tree.parent(node), values.get(node.index())) else { continue };
        let is_number = matches!(value, Cell::Number(_) | Cell::Count(_));
        if !is_number || own.get(bank.index()) != Some(&false) {
            continue;
        }
        let value = value.clone();
        if let Some(best) = values.get_mut(bank.index())
            && compare_cells(&value, best, true) == Ordering::Less
        {
            *best = value;
        }
    }
    values
}

/// Compares two cells in ascending or descending order. In both orders, texts come after numbers, and empty cells come last.
pub(crate) fn compare_cells(a: &Cell, b: &Cell, descending: bool) -> Ordering {
    let order = match (a, b) {
        (Cell::Number(a), Cell::Number(b)) => a.total_cmp(b),
        (Cell::Count(a), Cell::Count(b)) => a.cmp(b),
        (Cell::Flag(a), Cell::Flag(b)) => a.cmp(b),
        (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
        (Cell::None, Cell::None) => return Ordering::Equal,
        (Cell::None, _) => return Ordering::Greater,
        (_, Cell::None) => return Ordering::Less,
        // The column "shares" has numbers and the text "parent".
        (Cell::Text(_), _) => return Ordering::Greater,
        (_, Cell::Text(_)) => return Ordering::Less,
        _ => Ordering::Equal,
    };
    if descending { order.reverse() } else { order }
}
