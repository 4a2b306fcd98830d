// SPDX-License-Identifier: LGPL-3.0-only
//! The columns of a bank or association: one definition for tables, JSON, CSV and `-o`.

use super::figures::Unit;
use super::suggest::did_you_mean;
use crate::fingers;
use crate::ui::rows::{BAR, Cell, Column, Style, column};
use fairshare::{NodeDetail, NodeId, NodeKind, Policy, Ranking, Shares, Tree};
use fairshare_accounting::store::StoredAssociation;

/// A ranked tree, and the fair-shares that its database stores.
pub(crate) struct View<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) ranking: &'a Ranking,
    pub(crate) stored: &'a [StoredAssociation],
    /// The order of OpenPBS's scheduler, for the policy `pbs`.
    pub(crate) walk: Option<Ranking>,
}

/// A bank or association of a [`View`].
pub(crate) struct Node<'a> {
    view: &'a View<'a>,
    node: NodeId,
    depth: usize,
    detail: NodeDetail,
}

type Value = fn(&Node<'_>) -> Cell;

/// All columns: the definition, the text for the man page, and the function that returns the value of a node.
const COLUMNS: [(Column<'static>, &str, Value); 24] = [
    (column("name", "Bank/User", Style::Text), "bank or user, indented by depth", name),
    (column("kind", "Kind", Style::Text), "bank or association", kind),
    (column("bank", "Bank", Style::Text), "the bank, or the association's bank", bank),
    (column("parent", "Parent", Style::Text), "the parent bank", parent),
    (column("user", "User", Style::Text), "the user", user),
    (column("shares", "Shares", Style::Shares), "raw shares, or \"parent\"", shares),
    (
        column("norm_shares", "NormShares", Style::Fraction),
        "shares as a part of the site's (of the siblings' shares under rank policies)",
        |node| Cell::Number(node.detail.norm_shares),
    ),
    (
        column("usage", "Usage", Style::Usage(Unit::Unknown)),
        "usage; in node-hours in tables if the unit is node-seconds",
        |node| Cell::Number(node.detail.usage),
    ),
    (column("norm_usage", "NormUsage", Style::Fraction), "usage as a part of the site's", |node| {
        Cell::Number(node.detail.norm_usage)
    }),
    (
        column("effective_usage", "EffUsage", Style::Fraction),
        "the usage that the policy compares with the shares",
        |node| Cell::Number(node.detail.effective_usage),
    ),
    (column("level_fs", "LevelFS", Style::Ratio), "norm shares / effective usage among siblings", |node| {
        node.detail.level_fs.filter(|_| node.detail.shares != Shares::Parent).into()
    }),
    (column("weight", "Weight", Style::Ratio), "the weight by which weighted-walk sorts siblings", |node| {
        node.detail.weight.into()
    }),
    (column("place", "Place", Style::Count), "1 is ranked first; ties share a place", place),
    (column("fairshare", "FairShare", Style::Fraction), "0 to 1; a larger value ranks higher", |node| {
        node.detail.fairshare.into()
    }),
    (column("fairshare_perc", "Perc", Style::Fraction), "pbs: the target", |node| {
        node.detail.pbs.map(|pbs| pbs.fairshare_perc).into()
    }),
    (column("fairshare_tree_usage", "TreeUsage", Style::Fraction), "pbs: the effective usage", |node| {
        node.detail.pbs.map(|pbs| pbs.fairshare_tree_usage).into()
    }),
    (column("fairshare_factor", "Factor", Style::Fraction), "pbs: 2^-(tree usage / target)", |node| {
        node.detail.pbs.map(|pbs| pbs.fairshare_factor).into()
    }),
    (
        column("usage_over_perc", "Usage/Perc", Style::Quotient),
        "pbs: the value that its scheduler compares if no formula is set",
        usage_over_perc,
    ),
    (column("walk", "Walk", Style::Count), "pbs: the place in the order of its scheduler", walk),
    (
        column("stored", "Stored", Style::Fraction),
        "the fair-share that the last update stored in the database; with a live tree, the fair-share in force in the plugin",
        stored,
    ),
    (
        column("served", "Served", Style::Text),
        "below its share, above its share, even, or has no (own) shares",
        |node| Served::from_detail(&node.detail).map(<&str>::from).into(),
    ),
    (column("active", "Active", Style::Flag), "whether the association is active, and so ranked", active),
    (column("depth", "Depth", Style::Count), "levels below the root", |node| Cell::Count(node.depth as u64)),
    (
        column("bar", "Usage|Share", Style::Bar(BAR)),
        "effective usage drawn against norm shares (table only)",
        bar,
    ),
];

/// Returns all columns with their texts for the man page.
#[cfg(test)]
pub(crate) fn list_described_columns() -> impl Iterator<Item = (Column<'static>, &'static str)> {
    COLUMNS.iter().map(|(column, about, _)| (*column, *about))
}

/// Returns the columns that a table leaves out on a narrow terminal. The first column of the list is left out first.
pub(crate) fn give_up() -> Vec<&'static str> {
    let keys = "bar active norm_usage norm_shares weight effective_usage level_fs fairshare_tree_usage \
        fairshare_perc served usage_over_perc shares walk";
    keys.split(' ').collect()
}

/// A column chosen for output.
#[derive(Clone, Copy)]
pub(crate) struct NodeColumn {
    pub(crate) column: Column<'static>,
    pub(crate) value: Value,
}

/// Finds the column with the key or title `name`. The case is ignored.
pub(crate) fn find_column(name: &str) -> Result<NodeColumn, String> {
    let name = fingers::translate_column(name);
    let is_called = |column: &Column<'_>| {
        column.key.eq_ignore_ascii_case(name) || column.title.eq_ignore_ascii_case(name)
    };
    let known = COLUMNS.iter().find(|(column, ..)| is_called(column));
    known.map(|(column, _, value)| NodeColumn { column: *column, value: *value }).ok_or_else(|| {
        let keys: Vec<&str> = COLUMNS.iter().map(|(column, ..)| column.key).collect();
        let titles = COLUMNS.iter().map(|(column, ..)| column.title);
        let near = did_you_mean(name, keys.iter().copied().chain(titles));
        format!("unknown column \"{name}\"; known are {}{near}", keys.join(", "))
    })
}

/// Returns one line per column, for the man page.
pub(crate) fn columns_help() -> String {
    let mut text = "Columns:\n".to_owned();
    for (column, description, _) in &COLUMNS {
        text.push_str(&format!("  {:<22}{description}\n", column.key));
    }
    text
}

/// Returns the keys of the columns in JSON, CSV and parsable output.
pub(crate) fn document_columns(policy: Policy) -> Vec<&'static str> {
    let common = "kind bank parent user shares norm_shares usage norm_usage effective_usage level_fs weight place \
        fairshare";
    let mut names: Vec<&str> = common.split(' ').collect();
    names.extend(policy.document_columns());
    names
}

/// Returns the keys of the columns of a table.
pub(crate) fn table_columns(policy: Policy, long: bool, bars: bool) -> Vec<&'static str> {
    let mut names = vec!["name", "shares", "norm_shares", "usage", "norm_usage", "effective_usage"];
    names.extend(policy.table_columns(long));
    names.extend(["place", "fairshare"]);
    if long {
        names.push("active");
    }
    if bars {
        names.push("bar");
    }
    names
}

impl View<'_> {
    /// Returns the node with its numbers. `depth` is its level below the root.
    pub(crate) fn node(&self, node: NodeId, depth: usize) -> Node<'_> {
        Node { view: self, node, depth, detail: self.ranking.detail(self.tree, node) }
    }
}

impl Node<'_> {
    fn is_bank(&self) -> bool {
        self.view.tree.kind(self.node) == NodeKind::Bank
    }

    fn name(&self) -> &str {
        self.view.tree.name(self.node)
    }
}

fn name(node: &Node<'_>) -> Cell {
    Cell::Node { depth: node.depth, bank: node.is_bank(), name: node.name().to_owned() }
}

fn kind(node: &Node<'_>) -> Cell {
    if node.is_bank() { "bank" } else { "association" }.into()
}

fn bank(node: &Node<'_>) -> Cell {
    if node.is_bank() { node.name().into() } else { parent(node) }
}

fn parent(node: &Node<'_>) -> Cell {
    let tree = node.view.tree;
    tree.parent(node.node).map(|bank| tree.name(bank)).into()
}

fn user(node: &Node<'_>) -> Cell {
    if node.is_bank() { Cell::None } else { node.name().into() }
}

fn shares(node: &Node<'_>) -> Cell {
    node.detail.shares.into()
}

fn active(node: &Node<'_>) -> Cell {
    let active = node.view.tree.is_active(node.node);
    if node.is_bank() && active { Cell::None } else { Cell::Flag(active) }
}

fn place(node: &Node<'_>) -> Cell {
    node.view.ranking.place(node.node).map_or(Cell::None, |place| Cell::Count(place as u64))
}

fn walk(node: &Node<'_>) -> Cell {
    let place = node.view.walk.as_ref().and_then(|walk| walk.place(node.node));
    place.map_or(Cell::None, |place| Cell::Count(place as u64))
}

fn usage_over_perc(node: &Node<'_>) -> Cell {
    node.view.ranking.usage_over_target(node.view.tree, node.node).into()
}

fn stored(node: &Node<'_>) -> Cell {
    let stored = node.view.stored.get(node.view.tree.find_input_index(node.node));
    stored.filter(|_| !node.is_bank()).and_then(|stored| stored.fairshare).into()
}

/// The usage of a node compared with its share.
#[derive(Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Served {
    #[strum(serialize = "below its share")]
    Below,
    Even,
    #[strum(serialize = "above its share")]
    Above,
    #[strum(serialize = "has no shares")]
    NoShares,
    #[strum(serialize = "has no own shares")]
    NoOwnShares,
}

impl Served {
    /// Compares the usage of a node with its share. Returns `None` if the node has no level fair-share, or if
    /// it has shares but its norm shares and its effective usage are 0.
    pub(crate) fn from_detail(detail: &NodeDetail) -> Option<Served> {
        if detail.shares == Shares::Parent {
            return Some(Served::NoOwnShares);
        }
        let level = detail.level_fs?;
        if detail.norm_shares == 0.0 && detail.effective_usage == 0.0 && level == 0.0 {
            return (detail.shares == Shares::Count(0)).then_some(Served::NoShares);
        }
        Some(if level > 1.0 {
            Served::Below
        } else if level < 1.0 {
            Served::Above
        } else {
            Served::Even
        })
    }
}

fn bar(node: &Node<'_>) -> Cell {
    if node.depth == 0 {
        return Cell::None;
    }
    Cell::bar(node.detail.effective_usage, node.detail.norm_shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_that_a_ranking_policy_names_exists() {
        for policy in Policy::ALL {
            let names = [
                table_columns(policy, false, true),
                table_columns(policy, true, true),
                document_columns(policy),
            ];
            for name in names.concat() {
                assert!(find_column(name).is_ok_and(|found| found.column.key == name), "{policy}: {name}");
            }
        }
    }
}
