// SPDX-License-Identifier: LGPL-3.0-only
//! `depth-oblivious`: Slurm's variant of classic for deep and uneven trees.
//!
//! F = 2^-(R / dampening), R = R(parent) * r^k. r is the usage ratio of a node, divided by the usage ratio of
//! its siblings together. k is 1 if r moves R in the same direction as the ancestors did. Otherwise, k is
//! closer to 0 the further the parent is from its target.

use super::Policy;
use super::classic::SlurmPolicy;
use crate::formula::Step;

impl Policy {
    /// Slurm's variant of `classic` for deep and uneven trees.
    pub const DepthOblivious: Policy = Policy(&SlurmPolicy {
        name: "depth-oblivious",
        effective_usage: compute_effective_usage,
        multiplies_usage_ratios: true,
    });
}

/// Returns the effective usage of a node, R * norm shares, as Slurm's depth-oblivious formula computes it.
fn compute_effective_usage(step: &Step, norm_shares: f64) -> f64 {
    let parent = step.parent;
    // If one of these four numbers is 0, a ratio below is undefined. The effective usage is then the node's own
    // usage, as in Slurm.
    if [norm_shares, parent.norm_shares, parent.effective_usage, step.norm_usage].contains(&0.0) {
        return step.norm_usage;
    }
    let parent_ratio = parent.effective_usage / parent.norm_shares;
    let siblings_ratio = step.siblings_norm_usage / parent.norm_shares;
    let local_ratio = step.norm_usage / norm_shares / siblings_ratio;
    // These comparisons avoid the logarithm below for most nodes.
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
