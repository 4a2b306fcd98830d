// SPDX-License-Identifier: LGPL-3.0-only
//! Stored fair-shares that differ from a ranking.

use fairshare::{NodeId, Ranking, Tree};
use fairshare_accounting::store::StoredAssociation;

/// flux-accounting stores six decimals. A smaller difference is only a rounding.
pub(crate) const ROUNDING: f64 = 5e-7;

/// Returns the number of stored fair-shares that differ from the ranking by more than [`ROUNDING`].
pub(crate) fn count_stale(tree: &Tree, ranking: &Ranking, stored: &[StoredAssociation]) -> usize {
    let differs = |leaf: &NodeId| {
        let stored = stored.get(tree.list_index(*leaf)).and_then(|stored| stored.fairshare);
        ranking
            .fairshare(*leaf)
            .is_some_and(|own| stored.is_none_or(|stored| (own - stored).abs() > ROUNDING))
    };
    tree.leaves().filter(differs).count()
}
