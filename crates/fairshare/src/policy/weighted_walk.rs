// SPDX-License-Identifier: LGPL-3.0-only
//! `weighted-walk`: flux-accounting's policy.
//!
//! Weight = fraction of the siblings' shares / fraction of the siblings' usage. Siblings are visited by descending
//! weight, users before banks. Equal users share a rank and equal banks are visited as one. A user and a bank never
//! share a rank.

use super::{Policy, RankingPolicy};
use crate::sums::Sums;
use crate::tree::{NodeId, Tree};
use crate::walk::SiblingRule;
use crate::{NodeDetail, Ranking, Shares};

/// 2^64, the weight of a node without usage and the highest weight.
const HIGHEST: f64 = 18_446_744_073_709_551_616.0;

impl Policy {
    /// flux-accounting's policy: depth-first visit by weight, F = rank / N.
    pub const WeightedWalk: Policy = Policy::new(&WeightedWalk);
}

struct WeightedWalk;

impl RankingPolicy for WeightedWalk {
    fn name(&self) -> &'static str {
        "weighted-walk"
    }

    fn rank(&self, tree: &Tree, ranking: &mut Ranking) {
        ranking.rank_by_depth_first_visit(self, tree);
    }

    fn add_numbers(&self, tree: &Tree, ranking: &Ranking, node: NodeId, detail: &mut NodeDetail) {
        ranking.add_sibling_numbers(tree, node, detail);
        let (true, Shares::Count(shares)) = (tree.parent(node).is_some(), detail.shares) else { return };
        let shares = if ranking.sums.is_left_out(tree, node) { 0.0 } else { shares as f64 };
        let (sibling_shares, sibling_usage) = ranking.siblings(tree, node);
        detail.weight = Some(weight(shares, sibling_shares, detail.usage, sibling_usage));
    }

    fn is_tie(&self, high: f64, low: f64) -> bool {
        self.is_equal(high, low)
    }

    fn value_name(&self) -> &'static str {
        "weight"
    }

    fn table_columns(&self, long: bool) -> &'static [&'static str] {
        if long { &["level_fs", "weight", "served"] } else { &["level_fs"] }
    }
}

/// Returns the weight of a node among its siblings.
fn weight(shares: f64, sibling_shares: f64, usage: f64, sibling_usage: f64) -> f64 {
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

    /// Compares as flux-accounting does: with a relative tolerance for large weights and an absolute one for small
    /// weights.
    fn is_equal(&self, a: f64, b: f64) -> bool {
        (a - b).abs() < f64::EPSILON * a.max(b).max(1.0)
    }
}
