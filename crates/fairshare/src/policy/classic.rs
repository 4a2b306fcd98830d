// SPDX-License-Identifier: LGPL-3.0-only
//! `classic`: Slurm's algorithm before Fair Tree.
//!
//! F = 2^-(effective usage / norm shares / dampening). The effective usage lies between a node's own usage and its
//! parent's effective usage, weighted by the node's fraction of the siblings' shares. A heavy user therefore lowers the
//! fair-share of the other users in the bank.

use super::{Policy, RankingPolicy};
use crate::Options;
use crate::formula::{Formula, InheritedFormulaValues, Step, power_of_half};

impl Policy {
    /// Slurm's classic algorithm: 2^-(effective usage / norm shares).
    pub const Classic: Policy =
        Policy(&SlurmPolicy { name: "classic", effective_usage, multiplies_usage_ratios: false });
}

/// A ranking policy of Slurm with effective usages.
pub(super) struct SlurmPolicy {
    pub(super) name: &'static str,
    /// Computes the effective usage of a node that has its own shares and does not compete under the root. The
    /// arguments are the [`Step`] of the node and its normalized shares.
    pub(super) effective_usage: EffectiveUsage,
    pub(super) multiplies_usage_ratios: bool,
}

type EffectiveUsage = fn(&Step, f64) -> f64;

impl RankingPolicy for SlurmPolicy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn formula(&self, options: &Options) -> Option<Box<dyn Formula>> {
        Some(Box::new(Rule { dampening: options.dampening, effective_usage: self.effective_usage }))
    }

    fn options(&self) -> &'static [&'static str] {
        &["dampening"]
    }

    fn takes_parent_shares(&self) -> bool {
        true
    }

    fn multiplies_usage_ratios(&self) -> bool {
        self.multiplies_usage_ratios
    }
}

struct Rule {
    dampening: f64,
    effective_usage: EffectiveUsage,
}

impl Formula for Rule {
    fn root(&self) -> InheritedFormulaValues {
        InheritedFormulaValues { norm_shares: 1.0, effective_usage: 1.0 }
    }

    fn step(&self, step: &Step) -> InheritedFormulaValues {
        let norm_shares = step.part.unwrap_or(1.0) * step.parent.norm_shares;
        let effective_usage = match step.part {
            _ if step.below_root => step.norm_usage,
            None => step.parent.effective_usage,
            Some(_) => (self.effective_usage)(step, norm_shares),
        };
        InheritedFormulaValues { norm_shares, effective_usage }
    }

    fn factor(&self, numbers: InheritedFormulaValues) -> f64 {
        if numbers.norm_shares > 0.0 {
            power_of_half(numbers.effective_usage / numbers.norm_shares / self.dampening)
        } else {
            0.0
        }
    }
}

fn effective_usage(step: &Step, _: f64) -> f64 {
    let inherited = step.parent.effective_usage;
    let part = step.part.filter(|_| !step.no_shares);
    part.map_or(inherited, |part| step.norm_usage + (inherited - step.norm_usage) * part)
}
