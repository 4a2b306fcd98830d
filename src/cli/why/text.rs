// SPDX-License-Identifier: LGPL-3.0-only
//! Explanations in words.

use std::io::{self, Write};

use super::{Site, bank_of};
use crate::cli::columns::served;
use crate::fairshare::{
    Comparison, Explanation, Level, NodeDetail, NodeId, NodeKind, Policy, Shares, Verdict,
};
use crate::store::UsageBin;

/// A number for people.
fn number(number: f64) -> String {
    if number.is_infinite() {
        "infinite".to_owned()
    } else if number != 0.0 && !(1e-3..1e9).contains(&number.abs()) {
        format!("{number:.3e}")
    } else if number.fract() == 0.0 || number.abs() >= 1e5 {
        format!("{number:.0}")
    } else {
        format!("{number:.4}")
    }
}

fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent == 0.0 || percent >= 0.01 { format!("{percent:.2} %") } else { format!("{percent:.1e} %") }
}

fn shares(shares: Shares) -> String {
    match shares {
        Shares::Count(count) => count.to_string(),
        Shares::Parent => "parent".to_owned(),
    }
}

impl Site<'_> {
    fn who(&self, node: NodeId) -> String {
        match self.tree.kind(node) {
            NodeKind::Bank => format!("bank {}", self.tree.name(node)),
            NodeKind::Association => format!("{} in bank {}", self.tree.name(node), bank_of(self.tree, node)),
        }
    }

    fn standing(&self, node: NodeId) -> String {
        match (self.ranking.fairshare(node), self.ranking.rank(node)) {
            (Some(fairshare), Some(rank)) => {
                format!("fair-share {fairshare:.6}, rank {rank} of {}", self.ranking.ranked())
            }
            _ => "inactive, without a fair-share".to_owned(),
        }
    }

    /// What the value of a level is called.
    fn value_name(&self) -> &'static str {
        match self.policy {
            Policy::WeightedWalk => "weight",
            Policy::FairTree => "level fair-share",
            _ => "fair-share",
        }
    }

    pub(super) fn explain(
        &self,
        node: NodeId,
        explanation: &Explanation,
        bins: &[UsageBin],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(out, "{}: {} ({})", self.who(node), self.standing(node), self.policy)?;
        writeln!(out)?;
        let lost = self.lost(explanation);
        self.chain(explanation, lost.map(|level| level.node), out)?;
        writeln!(out)?;
        match lost {
            Some(level) => {
                writeln!(out, "Most was lost at {}:", self.who(level.node))?;
                self.level(level, out)?;
            }
            None => writeln!(out, "Nothing was lost: no level used more than its share.")?,
        }
        if !bins.is_empty() {
            let list: Vec<String> =
                bins.iter().map(|bin| format!("period {}: {}", bin.period, number(bin.usage))).collect();
            writeln!(out, "Recorded usage, the current period first: {}", list.join(", "))?;
        }
        Ok(())
    }

    /// The level where most was lost; `None` if each level used at most its share.
    fn lost<'e>(&self, explanation: &'e Explanation) -> Option<&'e Level> {
        let worst = explanation.levels.get(explanation.worst?)?;
        worst.detail.level_fs.is_none_or(|level| level < 1.0).then_some(worst)
    }

    /// The levels as a table, the middle of a very deep one left out.
    fn chain(&self, explanation: &Explanation, lost: Option<NodeId>, out: &mut dyn Write) -> io::Result<()> {
        let value = self.value_name();
        writeln!(
            out,
            "  {:<28} {:>12} {:>10} {:>14} {:>10} {:>16}",
            "level", "shares", "of level", "usage", "of level", value
        )?;
        let levels = &explanation.levels;
        let (head, tail) = (self.levels / 2, levels.len().saturating_sub(self.levels / 2));
        for (at, level) in levels.iter().enumerate() {
            if at >= head && at < tail && lost != Some(level.node) {
                if at == head {
                    writeln!(out, "  .. ({} levels, --long shows them)", tail - head)?;
                }
                continue;
            }
            let indent = " ".repeat(level.depth.min(12));
            let name = format!("{indent}{}", self.tree.name(level.node));
            let mark = if lost == Some(level.node) { "  <- most lost here" } else { "" };
            if level.depth == 0 {
                writeln!(out, "  {name:<28} {:>12} {:>10} {:>14}", "", "", number(level.detail.usage))?;
                continue;
            }
            let part = |own: f64, all: f64| if all > 0.0 { percent(own / all) } else { "-".to_owned() };
            let own_shares = match level.detail.shares {
                Shares::Count(count) => count as f64,
                Shares::Parent => 0.0,
            };
            writeln!(
                out,
                "  {name:<28} {:>12} {:>10} {:>14} {:>10} {:>16}{mark}",
                shares(level.detail.shares),
                part(own_shares, level.sibling_shares),
                number(level.detail.usage),
                part(level.detail.usage, level.sibling_usage),
                level.value.map(number).unwrap_or_default(),
            )?;
        }
        Ok(())
    }

    /// One level in words: what was promised, what was used, by whom.
    fn level(&self, level: &Level, out: &mut dyn Write) -> io::Result<()> {
        let detail = &level.detail;
        match detail.shares {
            Shares::Count(count) if level.sibling_shares > 0.0 => writeln!(
                out,
                "  {} has {count} of {} shares ({})",
                self.who(level.node),
                number(level.sibling_shares),
                percent(count as f64 / level.sibling_shares)
            )?,
            Shares::Count(_) => writeln!(out, "  {} has no shares", self.who(level.node))?,
            Shares::Parent => writeln!(out, "  {} takes its parent's shares", self.who(level.node))?,
        }
        if level.sibling_usage > 0.0 {
            let part = percent(detail.usage / level.sibling_usage);
            let (own, all) = (number(detail.usage), number(level.sibling_usage));
            writeln!(out, "  and {own} of the {all} used ({part}){}", self.users(level.node, detail.usage))?;
        } else {
            writeln!(out, "  and nothing was used here by anyone")?;
        }
        let verdict = match (detail.level_fs, level.value) {
            (Some(_), Some(value)) => {
                let served = served(detail).unwrap_or_default();
                format!("{} {}: {served}", self.value_name(), number(value))
            }
            (None, Some(value)) => self.formula(detail, value),
            _ => return Ok(()),
        };
        writeln!(out, "  which makes {verdict}.")
    }

    /// A formula policy's numbers.
    fn formula(&self, detail: &NodeDetail, value: f64) -> String {
        match detail.pbs {
            Some(pbs) => format!(
                "fair-share {value:.6} = 2^-(tree usage {:.6} / target {:.6})",
                pbs.fairshare_tree_usage, pbs.fairshare_perc
            ),
            None => format!(
                "fair-share {value:.6} from effective usage {:.6} against norm shares {:.6}",
                detail.effective_usage, detail.norm_shares
            ),
        }
    }

    /// Whose usage it is: the largest below a bank.
    fn users(&self, node: NodeId, total: f64) -> String {
        if self.tree.kind(node) == NodeKind::Association || total <= 0.0 {
            return String::new();
        }
        let top = self.top_users(node);
        let list: Vec<String> = top
            .iter()
            .map(|(leaf, usage)| {
                let place = match self.tree.parent(*leaf) {
                    Some(bank) if bank == node => String::new(),
                    _ => format!("/{}", bank_of(self.tree, *leaf)),
                };
                format!("{}{place} {} ({})", self.tree.name(*leaf), number(*usage), percent(usage / total))
            })
            .collect();
        if list.is_empty() { String::new() } else { format!(", most by {}", list.join(", ")) }
    }

    pub(super) fn compare(
        &self,
        a: NodeId,
        b: NodeId,
        comparison: &Comparison,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (ahead, behind) = match comparison.verdict {
            Verdict::Second => (b, a),
            _ => (a, b),
        };
        let relation = if comparison.verdict == Verdict::Tied { "is tied with" } else { "is ahead of" };
        writeln!(out, "{} {relation} {} ({})", self.who(ahead), self.who(behind), self.policy)?;
        for node in [a, b] {
            writeln!(out, "  {}: {}", self.who(node), self.standing(node))?;
        }
        writeln!(out)?;
        writeln!(out, "The first bank above both is {}.", self.tree.name(comparison.ancestor))?;
        if self.policy.is_rank() {
            let (one, other) = &comparison.fork;
            if comparison.decisive.0.node == one.node {
                writeln!(
                    out,
                    "What counts is right below it: {} against {}.",
                    self.who(one.node),
                    self.who(other.node)
                )?;
            } else {
                let (low, high) = &comparison.decisive;
                writeln!(
                    out,
                    "Right below it {} and {} are equal ({} {}), so what is below them competes as one list.",
                    self.who(one.node),
                    self.who(other.node),
                    self.value_name(),
                    one.value.map(number).unwrap_or_default()
                )?;
                writeln!(out, "What counts is {} against {}.", self.who(low.node), self.who(high.node))?;
            }
            let (one, other) = &comparison.decisive;
            self.level(one, out)?;
            self.level(other, out)?;
            writeln!(out, "{}", self.reason(one, other))
        } else {
            writeln!(out, "Each fair-share is made by the numbers on its own way from the root:")?;
            for (node, chain) in [(a, &comparison.chains.0), (b, &comparison.chains.1)] {
                writeln!(out)?;
                writeln!(out, "{}", self.who(node))?;
                self.chain(chain, None, out)?;
                if let Some(leaf) = chain.levels.last() {
                    self.level(leaf, out)?;
                }
            }
            if let Some(order) = self.ranking.pbs_compare(self.tree, a, b) {
                let text = match order {
                    std::cmp::Ordering::Less => format!("{} is more deserving", self.who(a)),
                    std::cmp::Ordering::Greater => format!("{} is more deserving", self.who(b)),
                    std::cmp::Ordering::Equal => "both are equally deserving".to_owned(),
                };
                writeln!(out)?;
                writeln!(
                    out,
                    "PBS's scheduler compares usage / target level by level from the root: {text}."
                )?;
            }
            Ok(())
        }
    }

    /// The last sentence under the rank policies.
    fn reason(&self, one: &Level, other: &Level) -> String {
        let name = self.value_name();
        let (Some(first), Some(second)) = (one.value, other.value) else {
            return "One of them is not ranked.".to_owned();
        };
        let (high, low) = if second > first { (other, one) } else { (one, other) };
        let bank = |node| self.tree.kind(node) == NodeKind::Bank;
        let whole = |level: &Level| {
            if bank(level.node) {
                format!("everyone below {}", self.who(level.node))
            } else {
                self.who(level.node)
            }
        };
        if first == second {
            return match (bank(one.node), bank(other.node)) {
                (true, false) | (false, true) => format!("Equal {name}: a user comes before a bank."),
                _ => format!("Equal {name}: neither is put before the other by it."),
            };
        }
        let (more, less) = if second > first { (second, first) } else { (first, second) };
        format!(
            "{} is more than {}: {} comes before {}.",
            number(more),
            number(less),
            whole(high),
            whole(low)
        )
    }
}
