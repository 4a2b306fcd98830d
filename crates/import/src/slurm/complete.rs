// SPDX-License-Identifier: LGPL-3.0-only
//! Whether everybody is listed. Without `-a`, sshare lists all accounts but only one's own users: shares made of those few
//! would be wrong, and the NormShares that it prints beside them say so.

use super::rule::{Rule, rule};
use super::{HALF_UNIT, ROOT, Sheet};
use fairshare::Shares;

/// How to get everybody.
pub(super) const ALL: &str =
    "\"sshare -a -l -P\" lists everybody (where PrivateData hides others: for an operator, or root)";

/// How to get everybody from `sacctmgr show assoc`.
pub(super) const ALL_OF_SACCTMGR: &str =
    "\"sacctmgr show assoc tree -P\" lists everybody; leave conditions such as user= and account= away";

/// A row that competes with its siblings, and what of the level it says it has.
#[derive(Clone, Copy)]
struct Level {
    /// The shares listed.
    sum: u64,
    /// Shares and NormShares of the row whose NormShares has most digits.
    witness: Option<(u64, f64)>,
}

/// Refuses a sheet in which somebody is missing.
pub(super) fn check(sheet: &Sheet<'_>) -> Result<(), String> {
    let first = sheet.accounts.first().map_or("", |account| account.name.as_ref());
    if first != ROOT {
        return Err(if sheet.from_sacctmgr {
            format!("starts at account \"{first}\", not at the root of the tree: {ALL_OF_SACCTMGR}")
        } else {
            format!("starts at account \"{first}\", not at the root of the tree: {ALL}; leave -A away")
        });
    }
    if sheet.users.is_empty() && !sheet.from_sacctmgr {
        return Err(format!("lists accounts but not one user: {ALL}"));
    }
    let mut levels = vec![Level { sum: 0, witness: None }; sheet.accounts.len()];
    let users = sheet.users.iter().map(|user| (Some(user.account), user.shares, user.printed));
    let accounts = sheet.accounts.iter().map(|account| (account.parent, account.shares, account.printed));
    for (above, shares, printed) in users.chain(accounts) {
        let Shares::Count(count) = shares else { continue };
        let Some(level) = above.and_then(|above| levels.get_mut(competes_below(sheet, above))) else {
            continue;
        };
        level.sum = level.sum.saturating_add(count);
        if let Some(norm) = printed.norm_shares.filter(|norm| *norm > 0.0)
            && count > 0
            && level.witness.is_none_or(|(_, most)| norm > most)
        {
            level.witness = Some((count, norm));
        }
    }
    let rule = rule(sheet);
    for (account, level) in sheet.accounts.iter().zip(&levels) {
        let Some((shares, norm)) = level.witness else { continue };
        // Under Fair Tree a part of the level, otherwise that part of what the account has.
        let whole = match (rule, account.printed.norm_shares, account.parent) {
            (Rule::FairTree, ..) | (_, _, None) => 1.0,
            (_, Some(norm), _) => norm + HALF_UNIT,
            (_, None, _) => continue,
        };
        // The least sum that six decimals admit.
        let least = shares as f64 * (whole - 2.0 * HALF_UNIT) / (norm + HALF_UNIT);
        if (level.sum as f64) < least * (1.0 - 1e-9) {
            let said = shares as f64 * whole / norm;
            return Err(format!(
                "not everybody in account \"{}\" is listed: the shares there make {}, by its NormShares there are {said:.0}; {ALL}",
                account.name, level.sum
            ));
        }
    }
    Ok(())
}

/// The account in which a row right below `account` competes: the nearest whose own shares are not "parent".
pub(super) fn competes_below(sheet: &Sheet<'_>, account: usize) -> usize {
    let mut at = account;
    while let Some(found) = sheet.accounts.get(at)
        && found.shares == Shares::Parent
        && let Some(parent) = found.parent
    {
        at = parent;
    }
    at
}
