// SPDX-License-Identifier: LGPL-3.0-only
//! Formats explanations: the names of nodes, their places in the ranking, and the levels of the tree.

use std::borrow::Cow;

use crate::site::names::{bank_of, list_associations_below};
use crate::ui::columns::Served;
use crate::ui::figures::{Unit, describe_associations_ahead, number, ordinal, percent, ratio};
use crate::ui::printable::{count, printable};
use crate::ui::rows::{Cell, Rows, Style, column};
use crate::ui::screen::{BAD, GOOD};
use crate::ui::teller::ScreenText;
use fairshare::{Explanation, InactiveUsage, Level, NodeId, NodeKind, Policy, Ranking, Shares, Tree};
use fairshare_accounting::store::Pace;

impl Site<'_> {
    pub(super) fn full_name(&self, node: NodeId) -> String {
        match self.tree.kind(node) {
            NodeKind::Bank => format!("bank {}", self.name(node)),
            NodeKind::Association => {
                format!("{} in bank {}", self.name(node), printable(bank_of(self.tree, node)))
            }
        }
    }

    /// Describes the place of association `node`, and how many associations are ahead.
    pub(super) fn standing(&self, node: NodeId) -> String {
        let Some((fairshare, place)) = self.ranking.fairshare(node).zip(self.ranking.place(node)) else {
            return "inactive, without a fair-share".to_owned();
        };
        let ahead = describe_associations_ahead(place - 1, &self.name(node), self.ranking.count_ties(node));
        let (place, ranked) = (ordinal(place), number(self.ranking.ranked()));
        let by_value = format!("{place} of {ranked}: {ahead}; fair-share {fairshare:.6}");
        match self.describe_position_in_pbs_order(node) {
            Some(walk) if self.uses_scheduler_order() => {
                format!("{walk}; by the fairshare factor, {by_value}")
            }
            Some(walk) => format!("{by_value}; {walk}"),
            None => by_value,
        }
    }

    /// Returns the policy's name for the value by which siblings are ranked.
    pub(super) fn value_name(&self) -> &'static str {
        self.policy.value_name()
    }

    /// Prints an indented table.
    pub(super) fn table(&self, rows: Rows<'_>) {
        self.out.table(rows, &["third", "of_shares", "of_usage", "second", "shares"]);
    }

    /// Prints the levels as a table; leaves out the middle of a very deep path.
    pub(super) fn chain(&self, explanation: &Explanation, lost: Option<NodeId>) {
        let levels = &explanation.levels;
        let (head, tail) = (self.levels / 2, levels.len().saturating_sub(self.levels / 2));
        let mut rows = Vec::new();
        for (at, level) in levels.iter().enumerate() {
            let left_out = at >= head && at < tail && lost != Some(level.node);
            if left_out && at == head {
                let them = if tail - head == 1 { "it" } else { "them" };
                let text = format!(".. ({}, --long shows {them})", count(tail - head, "level"));
                rows.push(vec![Cell::Text(text)]);
            }
            if !left_out {
                rows.push(self.row(level, lost == Some(level.node)));
            }
        }
        self.table(Rows {
            key: "levels",
            columns: vec![
                column("level", "level", Style::Text),
                column("shares", "shares", Style::Count),
                column("of_shares", "of level", Style::Percent),
                column("usage", self.unit.title(), Style::Usage(self.unit)),
                column("of_usage", "of level", Style::Percent),
                column("value", self.value_name(), Style::Count),
                column("mark", "", Style::Text),
            ],
            rows: Box::new(rows.into_iter()),
        })
    }

    fn row(&self, level: &Level, lost: bool) -> Vec<Cell> {
        let counts = self.counts(level.node);
        let part = |own: f64, all: f64| {
            if all > 0.0 && counts { Cell::Number(own / all) } else { Cell::Text("-".to_owned()) }
        };
        let bank = self.tree.kind(level.node) == NodeKind::Bank;
        let name = self.tree.name(level.node).to_owned();
        let mut row = vec![Cell::Node { depth: level.depth, bank, name }];
        if level.depth == 0 {
            row.extend([Cell::None, Cell::None, Cell::Number(level.counted.0)]);
            return row;
        }
        let own_shares = if let Shares::Count(count) = level.detail.shares { count as f64 } else { 0.0 };
        row.extend([
            level.detail.shares.into(),
            part(own_shares, level.sibling_shares),
            Cell::Number(level.counted.0),
            part(level.counted.0, level.counted.1),
            level.value.map_or(Cell::None, |value| Cell::Text(self.value_of(level, value))),
            if lost { Cell::Text("<- lowered most here".to_owned()) } else { Cell::None },
        ]);
        row
    }

    /// Formats a value that is compared with siblings.
    pub(super) fn value(&self, value: f64) -> String {
        if self.policy.is_rank() { ratio(value) } else { format!("{value:.6}") }
    }

    /// Formats a level's value. Returns an empty text for a user with `fairshare=parent`, who is ahead of all
    /// siblings.
    fn value_of(&self, level: &Level, value: f64) -> String {
        if self.precedes_all_siblings(level) { String::new() } else { self.value(value) }
    }

    /// Returns true for a user that `fairshare=parent` puts before all others of the account.
    pub(super) fn precedes_all_siblings(&self, level: &Level) -> bool {
        self.policy.is_rank() && level.detail.shares == Shares::Parent
    }

    /// Prints a level: its shares, its usage with the largest users, and its value.
    pub(super) fn level(&self, level: &Level) {
        let detail = &level.detail;
        let name = self.full_name(level.node);
        if !self.counts(level.node) {
            return self.out.item(&format!("{name} is inactive: neither its shares nor its usage count"));
        }
        let promised = match detail.shares {
            Shares::Count(0) => format!("{name} has no shares"),
            Shares::Count(own) if level.sibling_shares > 0.0 => {
                let part = percent(own as f64 / level.sibling_shares);
                let all = number(format!("{:.0}", level.sibling_shares));
                format!("{name} has {} of {all} shares ({part})", number(own))
            }
            Shares::Count(_) => format!("{name} has no shares"),
            Shares::Parent => format!("{name} has no shares of their own (fairshare=parent)"),
        };
        self.out.item(&promised);
        let (used, all) = level.counted;
        if all > 0.0 {
            let users = self.users(level.node, used);
            let (part, used, all) = (percent(used / all), self.unit.figure(used), self.unit.amount(all));
            self.out.item(&format!("and used {used} of {all} ({part}){users}"));
        } else {
            self.out.item("and no user at this level has usage");
        }
        if self.precedes_all_siblings(level) {
            let bank = self.name(self.tree.parent(level.node).unwrap_or(self.tree.root())).into_owned();
            let text = format!(
                "Policy {} ranks users without shares of their own first in bank {bank}, tied, whatever their usage.",
                self.policy
            );
            return self.out.item(&text);
        }
        let verdict = match (detail.level_fs, level.value) {
            (Some(_), Some(value)) => {
                let served = match Served::from_detail(detail) {
                    None => String::new(),
                    Some(Served::NoShares) => "it has no shares".to_owned(),
                    Some(served @ Served::Above) => self.out.screen.paint(BAD, served.into()),
                    Some(served) => self.out.screen.paint(GOOD, served.into()),
                };
                format!("{} {}: {served}", self.value_name(), self.value(value))
            }
            (None, Some(value)) => self.policy.explain_factor(detail, value),
            _ => return,
        };
        self.out.item(&format!("which makes {verdict}."))
    }

    /// Lists the users with the largest usage below a bank.
    fn users(&self, node: NodeId, total: f64) -> String {
        if self.tree.kind(node) == NodeKind::Association || total <= 0.0 {
            return String::new();
        }
        let top = self.top_users(node);
        let describe = |(leaf, usage): &(NodeId, f64)| {
            let place = match self.tree.parent(*leaf) {
                Some(bank) if bank == node => String::new(),
                _ => format!("/{}", printable(bank_of(self.tree, *leaf))),
            };
            let (used, part) = (self.unit.figure(*usage), percent(usage / total));
            format!("{}{place} {used} ({part})", self.name(*leaf))
        };
        let list: Vec<String> = top.iter().map(describe).collect();
        if list.is_empty() { String::new() } else { format!(", mainly by {}", list.join(", ")) }
    }

    /// Returns false for an inactive node if the options of the ranking policy ignore the usage of inactive nodes.
    pub(super) fn counts(&self, node: NodeId) -> bool {
        self.tree.is_active(node) || self.ranking.options().inactive_usage == InactiveUsage::Count
    }
}

/// A ranked tree, and the settings of the printed text.
pub(super) struct Site<'a> {
    pub(super) tree: &'a Tree,
    pub(super) ranking: &'a Ranking,
    pub(super) policy: Policy,
    /// The greatest number of levels of a path that are shown.
    pub(super) levels: usize,
    pub(super) unit: Unit,
    /// The explanation.
    pub(super) out: ScreenText<'a>,
    /// The command what-if on this tree.
    pub(super) what_if: String,
    /// Decay of the database's usage, if it is known.
    pub(super) pace: Option<Pace>,
    /// Half-life in seconds, if it is given.
    pub(super) half_life: Option<f64>,
    /// Seconds since the epoch.
    pub(super) now: f64,
    /// The order of OpenPBS's scheduler; `None` under a policy other than `pbs`.
    pub(super) walk: Option<Ranking>,
    /// True if the site's ranking policy has a separate order for the scheduler.
    pub(super) site_has_walk: bool,
}

impl Site<'_> {
    /// Returns the name of a bank or of an association's user, without control characters.
    pub(super) fn name(&self, node: NodeId) -> Cow<'_, str> {
        printable(self.tree.name(node))
    }

    /// Returns the three associations with the largest usage below a bank.
    pub(super) fn top_users(&self, bank: NodeId) -> Vec<(NodeId, f64)> {
        let usage = |node: NodeId| (node, self.ranking.counted_usage(self.tree, node));
        let mut top: Vec<_> = list_associations_below(self.tree, bank).into_iter().map(usage).collect();
        top.retain(|(_, usage)| *usage > 0.0);
        top.sort_by(|(node, usage), (other, most)| most.total_cmp(usage).then(node.cmp(other)));
        top.truncate(3);
        top
    }
}
