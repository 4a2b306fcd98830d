// SPDX-License-Identifier: LGPL-3.0-only
//! `weighted-walk`: flux-accounting's policy.
//!
//! Weight = part of the siblings' shares / part of the siblings' usage. Siblings are visited by descending weight, users
//! before banks; equal users share a rank, equal banks are visited as one, a user and a bank never share a rank.

use crate::sums::Sums;
use crate::tree::{NodeId, Tree};
use crate::walk::SiblingRule;

/// 2^64, the weight of whoever used nothing: no weight is higher.
const HIGHEST: f64 = 18_446_744_073_709_551_616.0;

/// The rule of this policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightedWalk;

/// The weight of a node among its siblings.
pub(crate) fn weight(shares: f64, sibling_shares: f64, usage: f64, sibling_usage: f64) -> f64 {
    if shares == 0.0 {
        return 0.0;
    }
    let used = usage / sibling_usage;
    if usage == 0.0 || used == 0.0 { HIGHEST } else { (shares / sibling_shares / used).min(HIGHEST) }
}

impl SiblingRule for WeightedWalk {
    const APPROXIMATE: bool = true;
    const BANK_INHERITS_TIE: bool = false;
    const MERGES_BANKS: bool = true;

    fn value(&self, tree: &Tree, sums: &Sums, node: NodeId, arena: u32) -> f64 {
        let at = arena as usize;
        let shares = tree.shares.get(node.index()).map_or(0.0, |&shares| shares as f64);
        let (sibling_shares, sibling_usage) =
            (sums.shares.get(at).copied().unwrap_or(0.0), sums.usage.get(at).copied().unwrap_or(0.0));
        weight(shares, sibling_shares, sums.usage_of(tree, node), sibling_usage)
    }

    /// Upstream's measure: relative for large weights, absolute for small ones.
    fn equal(&self, a: f64, b: f64) -> bool {
        (a - b).abs() < f64::EPSILON * a.max(b).max(1.0)
    }
}
