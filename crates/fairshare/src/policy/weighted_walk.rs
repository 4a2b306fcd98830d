// SPDX-License-Identifier: LGPL-3.0-only
//! `weighted-walk`: flux-accounting's policy.
//!
//! Weight = fraction of the siblings' shares / fraction of the siblings' usage. Siblings are visited by descending
//! weight, users before banks. Equal users share a rank and equal banks are visited as one. A user and a bank never
//! share a rank.

use super::{Policy, RankingPolicy};
use crate::sums::{Sums, value_at};
use crate::tree::{NodeId, Tree};
use crate::walk::SiblingRule;
use crate::{NodeDetail, Ranking};

/// 2^64, the weight of a node without usage and the highest weight.
const HIGHEST: f64 = 18_446_744_073_709_551_616.0;

impl Policy {
    /// flux-accounting's policy: depth-first visit by weight, F = rank / N.
    pub const WeightedWalk: Policy = Policy(&WeightedWalk);
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
        let sums = &ranking.sums;
        detail.weight = tree.parent(node).map(|_| match sums.is_left_out(tree, node) {
            true => 0.0,
            false => self.value(tree, sums, node, sums.find_bank_where_node_competes(tree, node)),
        });
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

impl SiblingRule for WeightedWalk {
    const APPROXIMATE: bool = true;
    const BANK_INHERITS_TIE: bool = false;

    /// Returns the weight of a node among its siblings.
    fn value(&self, tree: &Tree, sums: &Sums, node: NodeId, arena: u32) -> f64 {
        let shares = tree.shares.get(node.index()).map_or(0.0, |&shares| shares as f64);
        if shares == 0.0 {
            return 0.0;
        }
        let usage = sums.usage_of(tree, node);
        let used = usage / value_at(&sums.usage, arena);
        let sibling_shares = value_at(&sums.shares, arena);
        if usage == 0.0 || used == 0.0 { HIGHEST } else { (shares / sibling_shares / used).min(HIGHEST) }
    }

    /// Compares as flux-accounting does: with a relative tolerance for large weights and an absolute one for small
    /// weights.
    fn is_equal(&self, a: f64, b: f64) -> bool {
        (a - b).abs() < f64::EPSILON * a.max(b).max(1.0)
    }
}
