// SPDX-License-Identifier: LGPL-3.0-only
//! `pbs`: OpenPBS's `fairshare_factor`.
//!
//! Every node starts with a minimum usage (1 in OpenPBS, 0 in its published formula), which is its own: it is not added
//! to the nodes above; neither is a recorded usage that equals it, for OpenPBS stores no such record.
//! F = 2^-(tree usage / perc), both as in PP-718, in 64 bit where OpenPBS uses 32.

use std::cmp::Ordering;

use crate::formula::{Formula, Numbers, Step, halved};
use crate::sums::Sums;
use crate::tree::{Flags, NodeId, Tree};

/// The rule of this policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pbs {
    pub min_usage: f64,
}

impl Formula for Pbs {
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
