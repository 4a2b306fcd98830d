// SPDX-License-Identifier: LGPL-3.0-only
//! `classic`: Slurm's algorithm before Fair Tree.
//!
//! F = 2^-(effective usage / norm shares / dampening). The effective usage lies between a node's own usage and its
//! parent's effective usage, weighted by the node's fraction of the siblings' shares. A heavy user therefore lowers the
//! fair-share of the other users in the bank.

use super::{Policy, RankingPolicy};
use crate::formula::{self, AddedUsage, Formula, Numbers, Step, power_of_half};
use crate::tree::{NodeId, Tree};
use crate::{NodeDetail, Options, Ranking};

impl Policy {
    /// Slurm's classic algorithm: 2^-(effective usage / norm shares).
    pub const Classic: Policy = Policy::new(&Classic);
}

struct Classic;

impl RankingPolicy for Classic {
    fn name(&self) -> &'static str {
        "classic"
    }

    fn is_rank(&self) -> bool {
        false
    }

    fn rank(&self, tree: &Tree, ranking: &mut Ranking) {
        ranking.rank_by_formula(&make_rule(&ranking.options), tree);
    }

    fn add_numbers(&self, tree: &Tree, ranking: &Ranking, node: NodeId, detail: &mut NodeDetail) {
        ranking.add_formula_numbers(&make_rule(&ranking.options), tree, node, detail);
    }

    fn options(&self) -> &'static [&'static str] {
        &["dampening"]
    }

    fn takes_parent_shares(&self) -> bool {
        true
    }

    fn charged_factor(
        &self,
        tree: &Tree,
        ranking: &Ranking,
        path: &[NodeId],
        more: AddedUsage,
    ) -> Option<f64> {
        Some(formula::charged_factor(&make_rule(&ranking.options), tree, &ranking.sums, path, more))
    }
}

struct Rule {
    dampening: f64,
}

fn make_rule(options: &Options) -> Rule {
    Rule { dampening: options.dampening }
}

impl Formula for Rule {
    fn root(&self) -> Numbers {
        Numbers { norm_shares: 1.0, effective_usage: 1.0 }
    }

    fn step(&self, step: &Step) -> Numbers {
        let norm_shares = step.part.unwrap_or(1.0) * step.parent.norm_shares;
        let inherited = step.parent.effective_usage;
        let effective_usage = match step.part {
            _ if step.below_root => step.norm_usage,
            Some(part) if !step.no_shares => step.norm_usage + (inherited - step.norm_usage) * part,
            _ => inherited,
        };
        Numbers { norm_shares, effective_usage }
    }

    fn factor(&self, numbers: Numbers) -> f64 {
        factor(numbers, self.dampening)
    }
}

/// Computes the fair-share from `numbers` by Slurm's formulas.
pub(super) fn factor(numbers: Numbers, dampening: f64) -> f64 {
    if numbers.norm_shares > 0.0 {
        power_of_half(numbers.effective_usage / numbers.norm_shares / dampening)
    } else {
        0.0
    }
}
