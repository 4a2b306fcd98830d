// SPDX-License-Identifier: LGPL-3.0-only
//! `classic`: Slurm before Fair Tree.
//!
//! F = 2^-(effective usage / norm shares / dampening). The effective usage lies between a node's own usage and its
//! parent's effective usage, by its part of the siblings' shares: who shares a bank with a heavy user pays for it.

use crate::formula::{Formula, Numbers, Step, halved};

/// The rule of this policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classic {
    pub dampening: f64,
}

impl Formula for Classic {
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

/// The fair-share of Slurm's formula policies.
pub(super) fn factor(numbers: Numbers, dampening: f64) -> f64 {
    if numbers.norm_shares > 0.0 {
        halved(numbers.effective_usage / numbers.norm_shares / dampening)
    } else {
        0.0
    }
}
