// SPDX-License-Identifier: LGPL-3.0-only
//! Determines the order in which Slurm visited tied accounts. Slurm takes that order from an internal list that no
//! program prints, but the ranks of the users in these accounts reveal it.

use std::cmp::Ordering;

use super::{Association, Sheet};
use fairshare::{Shares, group_all};

/// Returns the indices of the accounts in the order of the document, except that tied siblings are in the order in
/// which Slurm visited them.
pub(super) fn find_visit_order(sheet: &Sheet) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sheet.accounts.len()).collect();
    let ranks = find_fairshare_range_of_accounts(sheet);
    let rank = |account: &usize| ranks.get(*account).copied().unwrap_or(NO_USERS);
    let tie = |(at, account): (usize, &Association)| {
        let level = account.printed.level_fs.or_else(|| estimate_level_fs(account))?;
        Some(((account.parent, level.to_bits()), at))
    };
    let tied = group_all(sheet.accounts.iter().enumerate().filter_map(tie));
    for positions in tied.into_values().filter(|positions| positions.len() > 1) {
        let mut accounts = positions.clone();
        // The last user of one account and the first user of the next account can have the same rank. If the best ranks
        // of two accounts are equal, their worst ranks decide.
        accounts.sort_by(|a, b| {
            let (a, b) = (rank(a), rank(b));
            b.best.total_cmp(&a.best).then(b.worst.total_cmp(&a.worst))
        });
        // If another user has the rank of the first user in these accounts, the first account inherited the tie. So a
        // tied account without users may have come before it. Elsewhere, such an account has no effect on the ranks.
        let ranges = || accounts.iter().map(rank);
        let best = ranges().next().unwrap_or(NO_USERS).best;
        let count_best = || sheet.users.iter().filter(|user| user.printed.fairshare == Some(best)).count();
        let inside: usize = ranges().filter(|range| range.best == best).map(|range| range.count).sum();
        if ranges().any(|range| range.count == 0) && count_best() > inside {
            accounts.sort_by_key(|account| rank(account).count > 0);
        }
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
fn estimate_level_fs(account: &Association) -> Option<f64> {
    match (account.shares, account.usage) {
        (Shares::Count(0), Some(_)) => Some(0.0),
        (Shares::Count(shares), Some(usage)) => Some(shares as f64 / usage),
        _ => None,
    }
}

/// The fair-shares of the users below an account.
#[derive(Clone, Copy)]
struct FairshareRange {
    best: f64,
    worst: f64,
    /// The number of users with the best fair-share.
    count: usize,
}

/// The fair-shares of an account without users.
const NO_USERS: FairshareRange = FairshareRange { best: f64::NEG_INFINITY, worst: f64::INFINITY, count: 0 };

impl FairshareRange {
    fn add(&mut self, other: FairshareRange) {
        self.count = match self.best.total_cmp(&other.best) {
            Ordering::Less => other.count,
            Ordering::Equal => self.count + other.count,
            Ordering::Greater => self.count,
        };
        self.best = self.best.max(other.best);
        self.worst = self.worst.min(other.worst);
    }
}

fn find_fairshare_range_of_accounts(sheet: &Sheet) -> Vec<FairshareRange> {
    let mut ranks = vec![NO_USERS; sheet.accounts.len()];
    for user in &sheet.users {
        let range = user.parent.and_then(|account| ranks.get_mut(account));
        if let (Some(fairshare), Some(range)) = (user.printed.fairshare, range) {
            range.add(FairshareRange { best: fairshare, worst: fairshare, count: 1 });
        }
    }
    // Accounts come after their parents. So in reverse order, each account is complete before it is added to its parent.
    for (at, account) in sheet.accounts.iter().enumerate().rev() {
        let Some(range) = ranks.get(at).copied() else { continue };
        if let Some(above) = account.parent.and_then(|parent| ranks.get_mut(parent)) {
            above.add(range);
        }
    }
    ranks
}
