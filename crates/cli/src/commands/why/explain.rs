// SPDX-License-Identifier: LGPL-3.0-only
//! Explains the fair-share of a user in a bank, or of a bank.

use super::text::Site;
use crate::ui::figures::{number, ordinal};
use crate::ui::rows::{Cell, Rows, Style, column};
use crate::ui::screen::BOLD;
use fairshare::{Explanation, Level, NodeId, NodeKind};
use fairshare_accounting::store::UsageBin;

/// The greatest number of siblings, or of children of a bank, in a list.
const LISTED: usize = 8;

impl Site<'_> {
    /// Explains a user in a bank.
    pub(super) fn explain(&self, node: NodeId, explanation: &Explanation, bins: &[UsageBin]) {
        let name = self.out.screen.paint(BOLD, &self.full_name(node));
        self.out.line(&format!("{name} is {} ({})", self.standing(node), self.policy));
        self.out.blank();
        self.print_levels_and_costliest_level(node, explanation);
        if self.ranking.rank(node).is_some() {
            self.ahead(node);
        }
        self.print_when_usage_equals_share(find_level_that_costs_most(explanation), node, bins);
        self.bins(bins)
    }

    /// Explains a bank.
    pub(super) fn explain_bank(&self, bank: NodeId, explanation: &Explanation) {
        let name = self.out.screen.paint(BOLD, &self.full_name(bank));
        let siblings = self.siblings(bank);
        let row = siblings.iter().position(|(node, _)| *node == bank);
        // Siblings with equal values share a place.
        let value = row.and_then(|row| siblings.get(row)).map(|(_, value)| *value);
        let place = siblings.iter().position(|(_, other)| Some(*other) == value).map(|at| at + 1);
        match (self.tree.parent(bank), place) {
            (Some(_), _) if !self.tree.is_active(bank) => {
                let text = "is inactive: no user below it is ranked, whatever its shares";
                self.out.line(&format!("{name} {text} ({})", self.policy));
            }
            (Some(above), Some(place)) => {
                let (place, all) = (ordinal(place), number(siblings.len()));
                let above = self.name(above);
                self.out
                    .line(&format!("{name} comes {place} of {all} right below {above} ({})", self.policy));
            }
            _ => self.out.line(&format!("{name} is the root of the tree ({})", self.policy)),
        }
        self.out.blank();
        self.print_levels_and_costliest_level(bank, explanation);
        if siblings.len() > 1 {
            self.out.blank();
            self.out.heading("Siblings:");
            self.print_nodes(&siblings, row);
        }
        let members = self.sorted(self.tree.children(bank).collect());
        if !members.is_empty() {
            self.out.blank();
            self.out.heading("Right below this bank:");
            self.print_nodes(&members, None);
        }
        let ahead = place.and_then(|place| siblings.get(place.checked_sub(2)?));
        if let Some((ahead, _)) = ahead.filter(|_| self.tree.is_active(bank)) {
            self.change(bank, *ahead);
        }
        self.print_when_usage_equals_share(find_level_that_costs_most(explanation), bank, &[])
    }

    /// Prints the levels, and the level that lowers the fair-share most.
    fn print_levels_and_costliest_level(&self, node: NodeId, explanation: &Explanation) {
        let lost = find_level_that_costs_most(explanation);
        self.chain(explanation, lost.map(|level| level.node));
        if self.policy.initial_usage(self.ranking.options()).is_some_and(|usage| usage > 0.0) {
            self.out.item("(All usages are without PBS's initial usage.)");
        }
        self.out.blank();
        let is_bank = self.tree.kind(node) == NodeKind::Bank;
        match lost {
            Some(level) => {
                self.out
                    .heading(&format!("The fair-share is lowered most at {}:", self.full_name(level.node)));
                self.level(level)
            }
            None if explanation.levels.last().is_some_and(|level| self.precedes_all_siblings(level)) => {
                let Some(level) = explanation.levels.last() else { return };
                self.level(level)
            }
            None if !is_bank && self.ranking.rank(node).is_none() => {
                let dead = |bank: &NodeId| !self.tree.is_active(*bank);
                let above = std::iter::successors(self.tree.parent(node), |bank| self.tree.parent(*bank));
                let whose = match above.filter(dead).last() {
                    Some(bank) => {
                        format!("{} is inactive, and so is everyone below it", self.full_name(bank))
                    }
                    None => "An inactive user is not ranked".to_owned(),
                };
                self.out.line(&format!("{whose}."))
            }
            None => self.out.line("No level has used more than its share."),
        }
    }

    /// Returns a node and its siblings with their values, the best first.
    fn siblings(&self, node: NodeId) -> Vec<(NodeId, f64)> {
        self.sorted(
            self.tree.parent(node).map(|above| self.tree.children(above).collect()).unwrap_or_default(),
        )
    }

    fn sorted(&self, nodes: Vec<NodeId>) -> Vec<(NodeId, f64)> {
        let value = |node: NodeId| {
            let detail = self.ranking.detail(self.tree, node);
            detail.weight.or(detail.level_fs).or(detail.fairshare)
        };
        let mut sorted: Vec<(NodeId, f64)> =
            nodes.into_iter().map(|node| (node, value(node).unwrap_or(0.0))).collect();
        // Inactive nodes come last.
        let key = |(node, _): &(NodeId, f64)| !self.tree.is_active(*node);
        sorted.sort_by(|a, b| key(a).cmp(&key(b)).then(b.1.total_cmp(&a.1)).then(a.0.cmp(&b.0)));
        sorted
    }

    /// Prints a table of the nodes around row `own`, or of the first nodes if `own` is `None`.
    fn print_nodes(&self, nodes: &[(NodeId, f64)], own: Option<usize>) {
        let from =
            own.map_or(0, |own| own.saturating_sub(LISTED / 2)).min(nodes.len().saturating_sub(LISTED));
        let rows = nodes.iter().enumerate().skip(from).take(LISTED).map(|(at, (node, value))| {
            let explained = self.ranking.explain(self.tree, *node);
            let counted = explained.levels.last().map_or(0.0, |level| level.counted.0);
            let bank = self.tree.kind(*node) == NodeKind::Bank;
            let active = self.tree.is_active(*node);
            vec![
                Cell::Count(at as u64 + 1),
                Cell::Node { depth: 0, bank, name: self.tree.name(*node).to_owned() },
                Cell::Text(if bank { "bank" } else { "user" }.to_owned()),
                self.tree.shares(*node).into(),
                Cell::Number(counted),
                Cell::Text(match (active, self.tree.shares(*node)) {
                    (false, _) => "inactive".to_owned(),
                    (true, fairshare::Shares::Parent) if self.policy.is_rank() => String::new(),
                    _ => self.value(*value),
                }),
                if own == Some(at) { Cell::Text("<-".to_owned()) } else { Cell::None },
            ]
        });
        let columns = vec![
            column("at", "", Style::Count),
            column("name", "name", Style::Text),
            column("kind", "", Style::Text),
            column("shares", "shares", Style::Count),
            column("usage", self.unit.title(), Style::Usage(self.unit)),
            column("value", self.value_name(), Style::Count),
            column("mark", "", Style::Text),
        ];
        self.table(Rows { key: "nodes", columns, rows: Box::new(rows) });
        let more = nodes.len().saturating_sub(LISTED);
        if more > 0 {
            self.out.item(&format!("and {} more", number(more)));
        }
    }
}

/// Returns the level that lowers the fair-share most, or `None` if no level has used more than its share.
pub(crate) fn find_level_that_costs_most(explanation: &Explanation) -> Option<&Level> {
    explanation.levels.get(explanation.worst?)
}
