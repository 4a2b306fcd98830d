// SPDX-License-Identifier: LGPL-3.0-only
//! In which order Slurm visited tied accounts. It is that of its own list, which no program prints; but who is in them was
//! ranked one after the other, and that is printed.

use std::collections::HashMap;

use super::{Account, Sheet};
use fairshare::Shares;

/// The accounts' places in the sheet, in the order of the sheet, but tied siblings in the order in which Slurm ranked those
/// below them.
pub(super) fn visited(sheet: &Sheet<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sheet.accounts.len()).collect();
    let ranks = ranks_below(sheet);
    let rank = |account: &usize| ranks.get(*account).copied().unwrap_or(NOBODY);
    let mut tied: HashMap<(Option<usize>, u64), Vec<usize>> = HashMap::new();
    for (at, account) in sheet.accounts.iter().enumerate() {
        if let Some(level) = account.printed.level_fs.or_else(|| level_of(account)) {
            tied.entry((account.parent, level.to_bits())).or_default().push(at);
        }
    }
    for places in tied.into_values().filter(|places| places.len() > 1) {
        let mut accounts = places.clone();
        // The first of the later account may share the rank of the last of the earlier one: then that one's worst decides.
        accounts.sort_by(|a, b| {
            let ((best_a, worst_a), (best_b, worst_b)) = (rank(a), rank(b));
            best_b.total_cmp(&best_a).then(worst_b.total_cmp(&worst_a))
        });
        for (place, account) in places.into_iter().zip(accounts) {
            if let Some(slot) = order.get_mut(place) {
                *slot = account;
            }
        }
    }
    order
}

/// Shares by usage: LevelFS but for a factor that all siblings have in common. `sshare` without `-l` prints no LevelFS.
fn level_of(account: &Account<'_>) -> Option<f64> {
    match (account.shares, account.usage) {
        (Shares::Count(0), Some(_)) => Some(0.0),
        (Shares::Count(shares), Some(usage)) => Some(shares as f64 / usage),
        _ => None,
    }
}

/// Best and worst of no fair-shares.
const NOBODY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// The best and the worst fair-share below each account.
fn ranks_below(sheet: &Sheet<'_>) -> Vec<(f64, f64)> {
    let mut ranks = vec![NOBODY; sheet.accounts.len()];
    for user in &sheet.users {
        if let (Some(fairshare), Some((best, worst))) = (user.printed.fairshare, ranks.get_mut(user.account))
        {
            *best = best.max(fairshare);
            *worst = worst.min(fairshare);
        }
    }
    // Accounts come after those above them, so backwards each is complete when its turn comes.
    for (at, account) in sheet.accounts.iter().enumerate().rev() {
        let Some((best, worst)) = ranks.get(at).copied() else { continue };
        if let Some((above_best, above_worst)) = account.parent.and_then(|parent| ranks.get_mut(parent)) {
            *above_best = above_best.max(best);
            *above_worst = above_worst.min(worst);
        }
    }
    ranks
}
