// SPDX-License-Identifier: LGPL-3.0-only
//! The columns of a node: one definition for tables, JSON, CSV and `-o`.

use super::output::{Cell, Column, Style};
use crate::fairshare::{NodeDetail, NodeId, NodeKind, Policy, Ranking, Shares, Tree};

/// One node of a ranked tree.
pub(super) struct Node<'a> {
    pub(super) tree: &'a Tree,
    pub(super) node: NodeId,
    pub(super) depth: usize,
    pub(super) detail: NodeDetail,
}

type Value = fn(&Node<'_>) -> Cell;

/// Every column there is: definition, what it is, how it is read off.
const COLUMNS: [(Column, &str, Value); 21] = [
    (column("name", "Bank/User", Style::Text), "bank or user, indented by depth", name),
    (column("kind", "Kind", Style::Text), "bank or association", kind),
    (column("bank", "Bank", Style::Text), "the bank, or the association's bank", bank),
    (column("parent", "Parent", Style::Text), "the bank above", parent),
    (column("user", "User", Style::Text), "the user", user),
    (column("shares", "Shares", Style::Count), "raw shares, or \"parent\"", shares),
    (
        column("norm_shares", "NormShares", Style::Fraction),
        "shares as a part of the whole (of siblings' shares under rank policies)",
        |node| Cell::Number(node.detail.norm_shares),
    ),
    (column("usage", "Usage", Style::Usage), "raw usage", |node| Cell::Number(node.detail.usage)),
    (column("norm_usage", "NormUsage", Style::Fraction), "usage as a part of the site's", |node| {
        Cell::Number(node.detail.norm_usage)
    }),
    (
        column("effective_usage", "EffUsage", Style::Fraction),
        "the usage the policy compares with the shares",
        |node| Cell::Number(node.detail.effective_usage),
    ),
    (
        column("level_fs", "LevelFS", Style::Fraction),
        "norm shares / effective usage among siblings",
        |node| node.detail.level_fs.into(),
    ),
    (column("weight", "Weight", Style::Fraction), "what weighted-walk sorts siblings by", |node| {
        node.detail.weight.into()
    }),
    (column("rank", "Rank", Style::Count), "N for the most deserving association, 1 for the least", |node| {
        node.detail.rank.map_or(Cell::None, |rank| Cell::Count(rank.into()))
    }),
    (column("fairshare", "FairShare", Style::Fraction), "0 to 1, larger is more deserving", |node| {
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
    (column("served", "Served", Style::Text), "under-served, over-served or even", served),
    (column("active", "Active", Style::Text), "whether the association may be ranked", active),
    (column("depth", "Depth", Style::Count), "levels below the root", |node| Cell::Count(node.depth as u64)),
    (column("bar", "Usage|Share", Style::Bar(BAR)), "effective usage drawn against norm shares", bar),
];

/// Width of a bar.
const BAR: usize = 20;
/// Deeper than this a name is not moved further right, but told its depth.
const DEEPEST_INDENT: usize = 24;

const fn column(key: &'static str, title: &'static str, style: Style) -> Column {
    Column { key, title, style }
}

/// A column chosen for output.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub(super) column: Column,
    pub(super) value: Value,
}

/// The columns with these names.
pub(super) fn choose<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Chosen>, String> {
    let find = |name: &str| {
        let known = COLUMNS.iter().find(|(column, ..)| column.key == name);
        known.map(|(column, _, value)| Chosen { column: *column, value: *value }).ok_or_else(|| {
            let keys: Vec<&str> = COLUMNS.iter().map(|(column, ..)| column.key).collect();
            format!("unknown column \"{name}\"; known are {}", keys.join(", "))
        })
    };
    names.into_iter().map(|name| find(name.trim())).collect()
}

/// One line per column, for the manual page.
pub(super) fn help() -> String {
    let mut text = "Columns:\n".to_owned();
    for (column, what, _) in &COLUMNS {
        text.push_str(&format!("  {:<22}{what}\n", column.key));
    }
    text
}

/// The columns of the JSON document, and of CSV and parsable output.
pub(super) fn of_document(policy: Policy) -> Vec<&'static str> {
    let mut names = vec![
        "kind",
        "bank",
        "parent",
        "user",
        "shares",
        "norm_shares",
        "usage",
        "norm_usage",
        "effective_usage",
        "level_fs",
        "weight",
        "rank",
        "fairshare",
    ];
    if policy == Policy::Pbs {
        names.extend(["fairshare_perc", "fairshare_tree_usage", "fairshare_factor"]);
    }
    names
}

/// The columns of a table.
pub(super) fn of_table(policy: Policy, long: bool, bars: bool) -> Vec<&'static str> {
    let mut names = vec!["name", "shares", "norm_shares", "usage", "norm_usage", "effective_usage"];
    match policy {
        Policy::WeightedWalk if long => names.extend(["level_fs", "weight", "served"]),
        _ if policy.is_rank() && long => names.extend(["level_fs", "served"]),
        _ if policy.is_rank() => names.push("level_fs"),
        Policy::Pbs => names.extend(["fairshare_perc", "fairshare_tree_usage"]),
        _ => {}
    }
    names.extend(["rank", "fairshare"]);
    if long {
        names.push("active");
    }
    if bars {
        names.push("bar");
    }
    names
}

impl<'a> Node<'a> {
    pub(super) fn new(tree: &'a Tree, ranking: &Ranking, node: NodeId, depth: usize) -> Node<'a> {
        Node { tree, node, depth, detail: ranking.detail(tree, node) }
    }

    fn is_bank(&self) -> bool {
        self.tree.kind(self.node) == NodeKind::Bank
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn name(node: &Node<'_>) -> Cell {
    let (indent, depth) = (" ".repeat(node.depth.min(DEEPEST_INDENT)), node.depth);
    let name = node.tree.name(node.node);
    Cell::Text(if depth > DEEPEST_INDENT {
        format!("{indent}({depth}) {name}")
    } else {
        format!("{indent}{name}")
    })
}

fn kind(node: &Node<'_>) -> Cell {
    text(if node.is_bank() { "bank" } else { "association" })
}

fn bank(node: &Node<'_>) -> Cell {
    if node.is_bank() { text(node.tree.name(node.node)) } else { parent(node) }
}

fn parent(node: &Node<'_>) -> Cell {
    node.tree.parent(node.node).map_or(Cell::None, |bank| text(node.tree.name(bank)))
}

fn user(node: &Node<'_>) -> Cell {
    if node.is_bank() { Cell::None } else { text(node.tree.name(node.node)) }
}

fn shares(node: &Node<'_>) -> Cell {
    match node.detail.shares {
        Shares::Count(shares) => Cell::Count(shares),
        Shares::Parent => text("parent"),
    }
}

fn active(node: &Node<'_>) -> Cell {
    if node.is_bank() { Cell::None } else { Cell::Flag(node.tree.is_active(node.node)) }
}

fn served(node: &Node<'_>) -> Cell {
    node.detail.level_fs.map_or(Cell::None, |level| text(served_by(level)))
}

/// What a level fair-share says in words.
pub(super) fn served_by(level: f64) -> &'static str {
    if level > 1.0 {
        "under-served"
    } else if level < 1.0 {
        "over-served"
    } else {
        "even"
    }
}

/// Usage as blocks, green up to the share and red beyond; a stroke marks the share.
fn bar(node: &Node<'_>) -> Cell {
    if node.depth == 0 {
        return Cell::None;
    }
    let cells = |part: f64| (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let (usage, share) = (cells(node.detail.effective_usage), cells(node.detail.norm_shares));
    let mut text = String::new();
    for at in 0..BAR {
        let (colour, mark) = match (at < usage, at < share) {
            (true, true) => ("32", "█"),
            (true, false) => ("31", "█"),
            (false, true) => ("2", "·"),
            (false, false) => ("2", " "),
        };
        let mark = if at + 1 == share { "│" } else { mark };
        text.push_str(&format!("\x1b[{colour}m{mark}\x1b[0m"));
    }
    Cell::Text(text)
}
