// SPDX-License-Identifier: LGPL-3.0-only
//! Explains why one user or bank is ahead of another.

use super::text::Site;
use crate::ui::screen::BOLD;
use fairshare::{Comparison, Level, NodeId, NodeKind};
use std::cmp::Ordering;

impl Site<'_> {
    pub(super) fn compare(&self, a: NodeId, b: NodeId, comparison: &Comparison) {
        let verdict = self.verdict(a, b, comparison);
        self.out.line(&self.headline(a, b, verdict));
        self.out.blank();
        // Prints the node that is ahead first, whatever the order of the arguments.
        let swapped = verdict == Some(Ordering::Greater);
        let (front, back) = if swapped { (b, a) } else { (a, b) };
        for node in [front, back] {
            if self.tree.kind(node) == NodeKind::Association {
                self.out.item(&format!("{}: {}", self.full_name(node), self.standing(node)));
            }
        }
        if self.tree.kind(front) == NodeKind::Association {
            self.out.blank();
        }
        let pair = |pair: &(Level, Level)| if swapped { (pair.1, pair.0) } else { (pair.0, pair.1) };
        self.out.line(&format!("Their lowest common bank is {}.", self.name(comparison.ancestor)));
        if !self.policy.is_rank() {
            return self.chains(a, b, comparison, swapped);
        }
        if verdict.is_none() {
            let (one, other) = pair(&comparison.fork);
            let text = format!(
                "Right below this bank are {} and {}:",
                self.full_name(one.node),
                self.full_name(other.node)
            );
            self.out.line(&text);
            self.level(&one);
            return self.level(&other);
        }
        self.out.line(&self.what_counts(comparison, pair(&comparison.fork), pair(&comparison.decisive)));
        let (one, other) = pair(&comparison.decisive);
        for level in [&one, &other] {
            self.out.blank();
            self.level(level);
        }
        self.out.blank();
        self.out.line(&self.reason(&one, &other, comparison.equal));
        self.change(back, front)
    }

    /// Returns the order of two nodes in the order that the site uses: `Less` if `a` is ahead. Returns `None` if this is unknown. Under
    /// a rank policy, two banks are compared by the values of the nodes in [`Comparison::decisive`].
    pub(super) fn verdict(&self, a: NodeId, b: NodeId, comparison: &Comparison) -> Option<Ordering> {
        let banks = [a, b].map(|node| self.tree.kind(node) == NodeKind::Bank);
        if banks == [true, true] && self.policy.is_rank() {
            let (one, other) = (comparison.decisive.0.value?, comparison.decisive.1.value?);
            return Some(if comparison.equal { Ordering::Equal } else { other.total_cmp(&one) });
        }
        if comparison.verdict.is_some()
            && self.uses_scheduler_order()
            && let Some(order) = self.ranking.compare_by_pbs_walk(self.tree, a, b)
        {
            return Some(order);
        }
        comparison.verdict
    }

    /// Returns a sentence that says which of `a` and `b` is ahead.
    fn headline(&self, a: NodeId, b: NodeId, verdict: Option<Ordering>) -> String {
        let names = [a, b].map(|node| self.out.screen.paint(BOLD, &self.full_name(node)));
        let [first, second] = &names;
        let policy = match self.uses_scheduler_order() {
            true => format!("{}, in the order of PBS's scheduler", self.policy),
            false if self.policy.is_ordered_by_pbs_walk() => {
                format!("{}, by the fairshare factor", self.policy)
            }
            false => self.policy.to_string(),
        };
        match verdict {
            Some(Ordering::Less) => format!("{first} is ahead of {second} ({policy})"),
            Some(Ordering::Greater) => format!("{second} is ahead of {first} ({policy})"),
            Some(Ordering::Equal) => format!("{first} is tied with {second} ({policy})"),
            None if self.tree.kind(a) != self.tree.kind(b) => {
                format!(
                    "{first} and {second} have no order: users are ranked with users, and banks with banks"
                )
            }
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

    /// Describes the two nodes whose values decide which of the compared nodes is ahead.
    fn what_counts(&self, comparison: &Comparison, fork: (Level, Level), decisive: (Level, Level)) -> String {
        let (one, other) = (self.full_name(fork.0.node), self.full_name(fork.1.node));
        if comparison.decisive.0.node == comparison.fork.0.node {
            return format!("Right below this bank, {one} is compared with {other}.");
        }
        let value = fork.0.value.map(|value| self.value(value)).unwrap_or_default();
        format!(
            "Right below this bank, {one} and {other} are equal ({} {value}), so their children compete as one list. In that list, {} is \
             compared with {}.",
            self.value_name(),
            self.full_name(decisive.0.node),
            self.full_name(decisive.1.node)
        )
    }

    /// Prints the levels of both nodes under a formula policy, and the order of PBS's scheduler.
    fn chains(&self, a: NodeId, b: NodeId, comparison: &Comparison, swapped: bool) {
        self.out.line("Each fair-share is computed from the levels on its own path from the root:");
        let mut sides = [(a, &comparison.chains.0), (b, &comparison.chains.1)];
        if swapped {
            sides.reverse();
        }
        for (node, chain) in sides {
            self.out.blank();
            self.out.heading(&self.full_name(node));
            self.chain(chain, None);
            if let Some(leaf) = chain.levels.last() {
                self.level(leaf);
            }
        }
        let Some(by_factor) = comparison.verdict else { return };
        let Some(order) = self.ranking.compare_by_pbs_walk(self.tree, a, b) else { return };
        let deserving = |order: Ordering| match order {
            Ordering::Less => format!("{} is more deserving", self.full_name(a)),
            Ordering::Greater => format!("{} is more deserving", self.full_name(b)),
            Ordering::Equal => "both are equally deserving".to_owned(),
        };
        self.out.blank();
        self.out.line(&format!("If the job formula uses the fairshare factor, {}.", deserving(by_factor)));
        self.out.line(&format!(
            "PBS's scheduler compares usage / target level by level from the root: {}.",
            deserving(order)
        ))
    }

    /// Returns the sentence that concludes a comparison under a rank policy.
    fn reason(&self, one: &Level, other: &Level, equal: bool) -> String {
        let name = self.value_name();
        let (Some(first), Some(second)) = (one.value, other.value) else {
            return "One of them is not ranked.".to_owned();
        };
        let (high, low) = if second > first { (other, one) } else { (one, other) };
        let bank = |node| self.tree.kind(node) == NodeKind::Bank;
        let whole = |level: &Level| {
            if bank(level.node) {
                format!("everyone below {}", self.full_name(level.node))
            } else {
                self.full_name(level.node)
            }
        };
        if equal {
            let rule = match (bank(one.node), bank(other.node)) {
                (false, false) => "it puts neither user before the other",
                (true, true) => {
                    "Slurm's program visits the banks in the order of the input; the first user of the later \
                     bank shares the rank of the last user ranked before"
                }
                _ => self.policy.describe_order_of_tied_nodes(self.ranking.options()),
            };
            return format!("Equal {name}: {rule}.");
        }
        if self.precedes_all_siblings(high) {
            let whose = self.full_name(high.node);
            return format!(
                "{whose} has no shares of their own (fairshare=parent). Policy {} ranks such users first, so before {}.",
                self.policy,
                whole(low)
            );
        }
        let (more, less) = if second > first { (second, first) } else { (first, second) };
        let (more, less) = (self.value(more), self.value(less));
        let compared = match more == less {
            true => format!("The two values of {name} differ only in digits that are not printed"),
            false if more == "unused" => {
                format!("A node without usage is ahead of a node with {name} {less}")
            }
            false => format!("{more} is more than {less}"),
        };
        format!("{compared}: {} comes before {}.", whole(high), whole(low))
    }
}
