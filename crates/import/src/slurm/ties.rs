// SPDX-License-Identifier: LGPL-3.0-only
//! Determines the order in which Slurm visited tied accounts. Slurm takes that order from an internal list that no
//! program prints, but the ranks of the users in these accounts reveal it.

use super::{Account, Sheet};
use fairshare::{Shares, group_all};

/// Returns the indices of the accounts in the order of the document, except that tied siblings are in the order in
/// which Slurm visited them.
pub(super) fn find_visit_order(sheet: &Sheet) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sheet.accounts.len()).collect();
    let ranks = find_fairshare_range_of_accounts(sheet);
    let rank = |account: &usize| ranks.get(*account).copied().unwrap_or(NO_USERS);
    let tie = |(at, account): (usize, &Account)| {
        let level = account.printed.level_fs.or_else(|| estimate_level_fs(account))?;
        Some(((account.parent, level.to_bits()), at))
    };
    let tied = group_all(sheet.accounts.iter().enumerate().filter_map(tie));
    for positions in tied.into_values().filter(|positions| positions.len() > 1) {
        let mut accounts = positions.clone();
        // The last user of one account and the first user of the next account can have the same rank. If the best ranks
        // of two accounts are equal, their worst ranks decide.
        accounts.sort_by(|a, b| {
            let ((best_a, worst_a), (best_b, worst_b)) = (rank(a), rank(b));
            best_b.total_cmp(&best_a).then(worst_b.total_cmp(&worst_a))
        });
        for (position, account) in positions.into_iter().zip(accounts) {
            if let Some(slot) = order.get_mut(position) {
                *slot = account;
            }
        }
    }
    order
}

/// Returns shares / usage, which is proportional to LevelFS among siblings. Returns `None` if the account has
/// no number of shares or no usage. This estimate is needed because `sshare` without `-l` prints no LevelFS.
fn estimate_level_fs(account: &Account) -> Option<f64> {
    match (account.shares, account.usage) {
        (Shares::Count(0), Some(_)) => Some(0.0),
        (Shares::Count(shares), Some(usage)) => Some(shares as f64 / usage),
        _ => None,
    }
}

/// Best and worst fair-share of an account without users.
const NO_USERS: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// Returns the best and the worst fair-share of the users below each account.
fn find_fairshare_range_of_accounts(sheet: &Sheet) -> Vec<(f64, f64)> {
    let mut ranks = vec![NO_USERS; sheet.accounts.len()];
    for user in &sheet.users {
        if let (Some(fairshare), Some((best, worst))) = (user.printed.fairshare, ranks.get_mut(user.account))
        {
            *best = best.max(fairshare);
            *worst = worst.min(fairshare);
        }
    }
    // Accounts come after their parents. So in reverse order, each account is complete before it is added to its parent.
    for (at, account) in sheet.accounts.iter().enumerate().rev() {
        let Some((best, worst)) = ranks.get(at).copied() else { continue };
        if let Some((above_best, above_worst)) = account.parent.and_then(|parent| ranks.get_mut(parent)) {
            *above_best = above_best.max(best);
            *above_worst = above_worst.min(worst);
        }
    }
    ranks
}
