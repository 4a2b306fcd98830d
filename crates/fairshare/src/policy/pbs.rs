// SPDX-License-Identifier: LGPL-3.0-only
//! `pbs`: OpenPBS's `fairshare_factor`.
//!
//! Every node starts with a minimum usage (1 in OpenPBS, 0 in its published formula), which is its own: it is not added
//! to the nodes above; neither is a recorded usage that equals it, for OpenPBS stores no such record.
//! F = 2^-(tree usage / perc), both as in PP-718, in 64 bit where OpenPBS uses 32.

use std::cmp::Ordering;

use super::{Policy, RankingPolicy};
use crate::formula::{self, Formula, More, Numbers, Step, halved};
use crate::ranking::shares_of;
use crate::sums::{Sums, ratio};
use crate::tree::{Flags, NodeId, Tree};
use crate::walk::{SiblingRule, Visit};
use crate::{NodeDetail, Options, Ranking, Shares};

impl Policy {
    /// OpenPBS's `fairshare_factor`.
    pub const Pbs: Policy = Policy::new(&Pbs);
}

/// OpenPBS's names for its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PbsDetail {
    /// The target: product of the parts of the siblings' shares from the root down.
    pub fairshare_perc: f64,
    /// The effective usage; larger is less deserving.
    pub fairshare_tree_usage: f64,
    /// 2^-(tree usage / perc); 0 without shares.
    pub fairshare_factor: f64,
}

/// OpenPBS's order where no formula asks for the factor: usage / target, level by level from the root.
#[derive(Clone, Debug, Default)]
pub struct PbsWalk {
    rank: Vec<u32>,
    order: Vec<NodeId>,
}

struct Pbs;

impl RankingPolicy for Pbs {
    fn name(&self) -> &'static str {
        "pbs"
    }

    fn is_rank(&self) -> bool {
        false
    }

    fn rank(&self, tree: &Tree, ranking: &mut Ranking) {
        ranking.rank_by_formula(&rule(&ranking.options), tree);
    }

    fn add_numbers(&self, tree: &Tree, ranking: &Ranking, node: NodeId, detail: &mut NodeDetail) {
        let rule = rule(&ranking.options);
        let numbers = ranking.add_formula_numbers(&rule, tree, node, detail);
        detail.norm_shares = norm_shares(tree, ranking, node);
        detail.pbs = Some(PbsDetail {
            fairshare_perc: numbers.norm_shares,
            fairshare_tree_usage: numbers.effective_usage,
            fairshare_factor: rule.factor(numbers),
        });
    }

    fn options(&self) -> &'static [&'static str] {
        &["pbs.min_usage"]
    }

    fn initial_usage(&self, options: &Options) -> Option<f64> {
        Some(options.pbs_min_usage)
    }

    fn usage(&self, tree: &Tree, ranking: &Ranking, node: NodeId) -> f64 {
        rule(&ranking.options).usage(tree, &ranking.sums, node)
    }

    /// The scheduler's own walk compares quotients, and so do the turns within its cycle.
    fn compares_quotients(&self) -> bool {
        true
    }

    fn target(&self, detail: &NodeDetail) -> f64 {
        detail.pbs.map_or(0.0, |pbs| pbs.fairshare_perc)
    }

    fn charged_factor(&self, tree: &Tree, ranking: &Ranking, path: &[NodeId], more: More) -> Option<f64> {
        Some(formula::charged_factor(&rule(&ranking.options), tree, &ranking.sums, path, more))
    }

    fn has_scheduler_walk(&self) -> bool {
        true
    }

    fn table_columns(&self, _long: bool) -> &'static [&'static str] {
        &["fairshare_perc", "fairshare_tree_usage", "usage_over_perc", "walk"]
    }

    fn document_columns(&self) -> &'static [&'static str] {
        &["fairshare_perc", "fairshare_tree_usage", "fairshare_factor", "usage_over_perc", "walk"]
    }

    fn table_note(&self) -> Option<&'static str> {
        Some(
            "Place and FairShare are of the formula's factor, 2^-(TreeUsage / Perc). Walk is the place in the order of \
             the scheduler itself, which without a formula compares Usage/Perc level by level: --sort pbs-walk shows it.",
        )
    }

    fn explain_factor(&self, detail: &NodeDetail, value: f64) -> String {
        match detail.pbs.filter(|pbs| pbs.fairshare_perc > 0.0) {
            Some(pbs) => format!(
                "fair-share {value:.6} = 2^-(tree usage {:.6} / target {:.6})",
                pbs.fairshare_tree_usage, pbs.fairshare_perc
            ),
            None if detail.shares == Shares::Count(0) => "fair-share 0: it has no shares".to_owned(),
            None => "fair-share 0: a bank above it has no shares to give".to_owned(),
        }
    }
}

/// Returns a node's part of the siblings' shares, and 0 below a group that has no target to divide.
fn norm_shares(tree: &Tree, ranking: &Ranking, node: NodeId) -> f64 {
    if tree.parent(node).is_none() {
        return 1.0;
    }
    let above = ranking.sums.arena_of(tree, node) as usize;
    let has_target = ranking.numbers.get(above).is_some_and(|above| above.norm_shares != 0.0);
    let counts = has_target && !ranking.sums.ignores(tree, node);
    let shares = if counts { shares_of(tree, node) } else { 0.0 };
    ratio(shares, ranking.siblings(tree, node).0)
}

struct Rule {
    min_usage: f64,
}

fn rule(options: &Options) -> Rule {
    Rule { min_usage: options.pbs_min_usage }
}

impl Formula for Rule {
    fn root(&self) -> Numbers {
        Numbers { norm_shares: 1.0, effective_usage: 0.0 }
    }

    fn step(&self, step: &Step) -> Numbers {
        // A group without any target has none to divide among its members.
        let part = if step.parent.norm_shares == 0.0 { 0.0 } else { step.part.unwrap_or(0.0) };
        let effective_usage = if step.below_root {
            step.norm_usage
        } else {
            step.norm_usage + (step.parent.effective_usage - step.norm_usage) * part
        };
        Numbers { norm_shares: part * step.parent.norm_shares, effective_usage }
    }

    fn factor(&self, numbers: Numbers) -> f64 {
        if numbers.norm_shares == 0.0 { 0.0 } else { halved(numbers.effective_usage / numbers.norm_shares) }
    }

    /// An entity's usage on record stands, be it 0. A group has the minimum and the records below it; one without members
    /// is an entity to OpenPBS.
    fn usage(&self, tree: &Tree, sums: &Sums, node: NodeId) -> f64 {
        let recorded = sums.usage_of(tree, node);
        if tree.flags(node).has(Flags::USAGE_UNSET) {
            return self.min_usage + recorded;
        }
        match tree.bank_number(node) {
            None => recorded,
            Some(bank) if tree.is_childless(bank) => tree.own_usage(node).unwrap_or(0.0),
            Some(_) => self.min_usage + recorded,
        }
    }
}

/// One level of the walk that finds the more deserving of two: `Less` is more deserving; `None` ends the walk in a tie.
/// Each side is (usage, perc).
pub(crate) fn more_deserving(a: (f64, f64), b: (f64, f64)) -> Option<Ordering> {
    match (a.1 > 0.0, b.1 > 0.0) {
        (false, false) => None,
        (false, true) => Some(Ordering::Greater),
        (true, false) => Some(Ordering::Less),
        (true, true) => Some((a.0 / a.1).total_cmp(&(b.0 / b.1))),
    }
}

impl Ranking {
    /// The order that OpenPBS's scheduler takes associations in, without a formula; `None` under another policy. The pairwise
    /// rule ([`Ranking::pbs_compare`]) makes no order where leaves of equal figures are at different depths: there one that
    /// is right below goes with the best below an equal bank.
    pub fn pbs_walk(&self, tree: &Tree) -> Option<PbsWalk> {
        if !self.policy.has_scheduler_walk() {
            return None;
        }
        let mut walk = PbsWalk { rank: vec![0; tree.leaves().len()], order: Vec::new() };
        Visit::default().run(&UsageOverTarget(self), tree, &self.sums, &mut walk.rank, &mut walk.order);
        Some(walk)
    }

    /// Usage / target, which OpenPBS compares; infinite without a target. `None` under another policy.
    pub fn usage_over_target(&self, tree: &Tree, node: NodeId) -> Option<f64> {
        if !self.policy.has_scheduler_walk() {
            return None;
        }
        let detail = self.detail(tree, node);
        let target = self.policy.target(&detail);
        Some(if target > 0.0 { detail.usage / target } else { f64::INFINITY })
    }

    /// OpenPBS's pairwise walk: at the first level where the paths differ the smaller usage / perc is more deserving (`Less`),
    /// a perc of 0 loses, two of 0 are equal and end the walk, equal ones go a level deeper; equal to the end of the shorter
    /// path is equal. Not transitive where leaves are at different depths. `None` under another policy.
    pub fn pbs_compare(&self, tree: &Tree, first: NodeId, second: NodeId) -> Option<Ordering> {
        if !self.policy.has_scheduler_walk() {
            return None;
        }
        let figures = |node: NodeId| {
            let detail = self.detail(tree, node);
            (detail.usage, self.policy.target(&detail))
        };
        for (a, b) in self.path(tree, first).into_iter().zip(self.path(tree, second)) {
            if a == b {
                continue;
            }
            match more_deserving(figures(a), figures(b)) {
                Some(Ordering::Equal) => {}
                Some(decided) => return Some(decided),
                None => break,
            }
        }
        Some(Ordering::Equal)
    }
}

impl PbsWalk {
    /// 1 for who goes first; tied associations share one. `None` for banks and inactive associations.
    pub fn place(&self, node: NodeId) -> Option<usize> {
        let rank = self.rank.get(node.index()).copied().filter(|rank| *rank > 0)?;
        Some(self.order.len() + 1 - rank as usize)
    }

    /// The last one that goes before `node` and is not tied with it.
    pub fn just_ahead(&self, node: NodeId) -> Option<NodeId> {
        let ahead = self.place(node)? - 1;
        self.order.get(ahead.checked_sub(1)?).copied()
    }
}

/// The rule of that walk, as one of siblings.
struct UsageOverTarget<'a>(&'a Ranking);

impl SiblingRule for UsageOverTarget<'_> {
    const APPROXIMATE: bool = false;
    const BANK_INHERITS_TIE: bool = true;
    const MERGES_BANKS: bool = true;

    fn value(&self, tree: &Tree, _: &Sums, node: NodeId, _: u32) -> f64 {
        let ratio = self.0.usage_over_target(tree, node).unwrap_or(f64::INFINITY);
        // Smaller comes first: the same numbers the other way round, so that no two become equal by arithmetic.
        f64::from_bits(f64::INFINITY.to_bits().saturating_sub(ratio.to_bits()))
    }

    fn equal(&self, a: f64, b: f64) -> bool {
        a == b
    }
}
