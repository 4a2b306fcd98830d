// SPDX-License-Identifier: LGPL-3.0-only
//! `depth-oblivious`: Slurm's variant of classic for deep and uneven trees.
//!
//! F = 2^-(R / dampening), R = R(parent) * r^k. r is the usage ratio of a node divided by that of its siblings
//! together. k is 1 if r moves R in the same direction as the ancestors did. Otherwise k approaches 0 the further the
//! parent is off its target.

use super::classic::factor;
use super::{Policy, RankingPolicy};
use crate::formula::{self, AddedUsage, Formula, Numbers, Step};
use crate::tree::{NodeId, Tree};
use crate::{NodeDetail, Options, Ranking};

impl Policy {
    /// Slurm's variant of `classic` for deep and uneven trees.
    pub const DepthOblivious: Policy = Policy::new(&DepthOblivious);
}

struct DepthOblivious;

impl RankingPolicy for DepthOblivious {
    fn name(&self) -> &'static str {
        "depth-oblivious"
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
        let effective_usage = if step.below_root {
            step.norm_usage
        } else if step.part.is_none() {
            step.parent.effective_usage
        } else {
            compute_effective_usage(step, norm_shares)
        };
        Numbers { norm_shares, effective_usage }
    }

    fn factor(&self, numbers: Numbers) -> f64 {
        factor(numbers, self.dampening)
    }
}

/// Returns the effective usage, which is R * norm shares.
fn compute_effective_usage(step: &Step, norm_shares: f64) -> f64 {
    let parent = step.parent;
    // As in Slurm, if one of these is 0 there is no ratio, and the effective usage is the node's own usage.
    if [norm_shares, parent.norm_shares, parent.effective_usage, step.norm_usage].contains(&0.0) {
        return step.norm_usage;
    }
    let parent_ratio = parent.effective_usage / parent.norm_shares;
    let siblings_ratio = step.siblings_norm_usage / parent.norm_shares;
    let local_ratio = step.norm_usage / norm_shares / siblings_ratio;
    // Comparing both ratios with 1 replaces their logarithms. Most nodes take this branch.
    let has_same_direction =
        (parent_ratio >= 1.0 && local_ratio >= 1.0) || (parent_ratio <= 1.0 && local_ratio <= 1.0);
    let damped_ratio = if has_same_direction {
        local_ratio
    } else {
        local_ratio.powf(1.0 / (1.0 + (5.0 * parent_ratio.ln()).powi(2)))
    };
    let effective = parent_ratio * damped_ratio * norm_shares;
    if effective.is_nan() { step.norm_usage } else { effective }
}
