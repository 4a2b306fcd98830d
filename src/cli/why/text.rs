// SPDX-License-Identifier: LGPL-3.0-only
//! Explanations in words.

use std::io::{self, Write};

use super::Site;
use crate::cli::columns::served;
use crate::cli::printable::{count, left};
use crate::fairshare::{
    Comparison, Explanation, InactiveUsage, Level, NodeDetail, NodeId, NodeKind, Policy, Shares, Ties,
    Verdict,
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
            NodeKind::Bank => format!("bank {}", self.name(node)),
            NodeKind::Association => format!("{} in bank {}", self.name(node), self.bank(node)),
        }
    }

    fn standing(&self, node: NodeId) -> String {
        match (self.ranking.fairshare(node), self.ranking.rank(node)) {
            (Some(fairshare), Some(rank)) => {
                let ranked = self.ranking.ranked();
                format!("fair-share {fairshare:.6}, rank {rank} of {ranked} ({ranked} is first)")
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
            None if self.ranking.rank(node).is_none() => {
                writeln!(out, "An inactive user is not ranked: there is nothing to lose or to win.")?;
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
            "  {:<28} {:>12} {:>10} {:>14} {:>10} {:>18}",
            "level", "shares", "of level", "usage", "of level", value
        )?;
        let levels = &explanation.levels;
        let (head, tail) = (self.levels / 2, levels.len().saturating_sub(self.levels / 2));
        for (at, level) in levels.iter().enumerate() {
            if at >= head && at < tail && lost != Some(level.node) {
                if at == head {
                    let left_out = count(tail - head, "level");
                    let them = if tail - head == 1 { "it" } else { "them" };
                    writeln!(out, "  .. ({left_out}, --long shows {them})")?;
                }
                continue;
            }
            let indent = " ".repeat(level.depth.min(12));
            let name = left(&format!("{indent}{}", self.name(level.node)), 28);
            let mark = if lost == Some(level.node) { "  <- most lost here" } else { "" };
            if level.depth == 0 {
                writeln!(out, "  {name} {:>12} {:>10} {:>14}", "", "", number(level.detail.usage))?;
                continue;
            }
            let counts = self.counts(level.node);
            let part = |own: f64, all: f64| {
                if all > 0.0 && counts { percent(own / all) } else { "-".to_owned() }
            };
            let own_shares = match level.detail.shares {
                Shares::Count(count) => count as f64,
                Shares::Parent => 0.0,
            };
            let line = format!(
                "  {name} {:>12} {:>10} {:>14} {:>10} {:>18}{mark}",
                shares(level.detail.shares),
                part(own_shares, level.sibling_shares),
                number(level.detail.usage),
                part(level.detail.usage, level.sibling_usage),
                level.value.map(number).unwrap_or_default(),
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// One level in words: what was promised, what was used, by whom.
    fn level(&self, level: &Level, out: &mut dyn Write) -> io::Result<()> {
        let detail = &level.detail;
        if !self.counts(level.node) {
            let who = self.who(level.node);
            return writeln!(out, "  {who} is inactive: neither its shares nor its usage count");
        }
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
                let served = match served(detail) {
                    Some("has no shares") => "it has no shares",
                    other => other.unwrap_or_default(),
                };
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
                    _ => format!("/{}", self.bank(*leaf)),
                };
                format!("{}{place} {} ({})", self.name(*leaf), number(*usage), percent(usage / total))
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
        writeln!(out, "{}", self.headline(a, b, comparison.verdict))?;
        for node in [a, b] {
            writeln!(out, "  {}: {}", self.who(node), self.standing(node))?;
        }
        writeln!(out)?;
        writeln!(out, "The first bank above both is {}.", self.name(comparison.ancestor))?;
        if comparison.verdict.is_none() && self.policy.is_rank() {
            let (one, other) = &comparison.fork;
            writeln!(out, "Right below it are {} and {}:", self.who(one.node), self.who(other.node))?;
            self.level(one, out)?;
            self.level(other, out)
        } else if self.policy.is_rank() {
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
            writeln!(out, "{}", self.reason(one, other, comparison.equal))
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
            if comparison.verdict.is_some()
                && let Some(order) = self.ranking.pbs_compare(self.tree, a, b)
            {
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

    /// Who is ahead, in one sentence.
    fn headline(&self, a: NodeId, b: NodeId, verdict: Option<Verdict>) -> String {
        let (first, second) = (self.who(a), self.who(b));
        let policy = self.policy;
        match verdict {
            Some(Verdict::First) => format!("{first} is ahead of {second} ({policy})"),
            Some(Verdict::Second) => format!("{second} is ahead of {first} ({policy})"),
            Some(Verdict::Tied) => format!("{first} is tied with {second} ({policy})"),
            None => {
                let inactive = match (self.ranking.rank(a), self.ranking.rank(b)) {
                    (None, None) => format!("{first} and {second} are inactive and are not ranked"),
                    (None, _) => format!("{first} is inactive and is not ranked"),
                    _ => format!("{second} is inactive and is not ranked"),
                };
                format!("{inactive}: there is nothing to compare")
            }
        }
    }

    /// The last sentence under the rank policies.
    fn reason(&self, one: &Level, other: &Level, equal: bool) -> String {
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
        if equal {
            let rule = match (bank(one.node), bank(other.node)) {
                (false, false) => "neither is put before the other by it",
                (true, true) => {
                    "Slurm's program visits the banks in the order of the input; the first user below the later one \
                     shares the rank of the last user before"
                }
                _ => self.user_and_bank(),
            };
            return format!("Equal {name}: {rule}.");
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
    /// What a policy does with a user and a bank of equal value.
    fn user_and_bank(&self) -> &'static str {
        match (self.policy, self.ranking.options().ties) {
            (Policy::FairTree, Ties::Documented) => "a user shares the rank of the best user below the bank",
            (Policy::FairTree, Ties::SlurmProgram) => {
                "the first user below the bank shares the user's rank, unless a bank that ends the tie comes before"
            }
            _ => "a user comes before a bank",
        }
    }

    /// False for whom the options leave out of all sums.
    fn counts(&self, node: NodeId) -> bool {
        self.tree.is_active(node) || self.ranking.options().inactive_usage == InactiveUsage::Count
    }
}
