// SPDX-License-Identifier: LGPL-3.0-only
//! Checks that a document lists all users. Without `-a`, sshare lists all accounts but only the users that belong to
//! one user. The sum of the listed shares would then be wrong, and would not match the NormShares in the document.

use super::rule::{Rule, find_rule};
use super::{HALF_UNIT, ROOT, Sheet};
use fairshare::Shares;

/// The remedy for an incomplete output of sshare.
pub(super) const ALL: &str =
    "\"sshare -a -l -P\" lists all users (run it as an operator or as root if PrivateData hides other users)";

/// The remedy for an incomplete output of `sacctmgr show assoc`.
pub(super) const ALL_OF_SACCTMGR: &str =
    "\"sacctmgr show assoc tree -P\" lists all users; run it without conditions such as user= and account=";

/// The sum of an account's listed shares, and one listed row. The NormShares of this row show whether shares are
/// missing.
#[derive(Clone, Copy)]
struct Level {
    /// Sum of the listed shares.
    sum: u64,
    /// The shares and NormShares of the row whose NormShares has the most significant digits.
    witness: Option<(u64, f64)>,
}

/// Returns an error if rows are missing in the output of Slurm.
pub(super) fn check_all_rows_present(sheet: &Sheet) -> Result<(), String> {
    let first = sheet.accounts.first().map_or("", |account| account.name.as_ref());
    if first != ROOT {
        return Err(if sheet.from_sacctmgr {
            format!("starts at account \"{first}\", not at the root of the tree: {ALL_OF_SACCTMGR}")
        } else {
            format!("starts at account \"{first}\", not at the root of the tree: {ALL}; run it without -A")
        });
    }
    if sheet.users.is_empty() && !sheet.from_sacctmgr {
        return Err(format!("lists accounts but no users: {ALL}"));
    }
    let mut levels = vec![Level { sum: 0, witness: None }; sheet.accounts.len()];
    for row in sheet.users.iter().chain(&sheet.accounts) {
        let Shares::Count(count) = row.shares else { continue };
        let level = row.parent.and_then(|above| levels.get_mut(find_competing_account(sheet, above)));
        let Some(level) = level else { continue };
        level.sum = level.sum.saturating_add(count);
        if let Some(norm) = row.printed.norm_shares.filter(|norm| *norm > 0.0)
            && count > 0
            && level.witness.is_none_or(|(_, most)| norm > most)
        {
            level.witness = Some((count, norm));
        }
    }
    let rule = find_rule(sheet);
    for (account, level) in sheet.accounts.iter().zip(&levels) {
        let Some((shares, norm)) = level.witness else { continue };
        // Under Fair Tree, NormShares is the row's fraction of the shares at its level. Under the other policies, this
        // fraction is multiplied by the NormShares of the parent account.
        let account_fraction = match (rule, account.printed.norm_shares, account.parent) {
            (Rule::FairTree, ..) | (_, _, None) => 1.0,
            (_, Some(norm), _) => norm + HALF_UNIT,
            (_, None, _) => continue,
        };
        // The smallest sum of shares that is consistent with the printed NormShares of the row.
        let smallest_sum = shares as f64 * (account_fraction - 2.0 * HALF_UNIT) / (norm + HALF_UNIT);
        if (level.sum as f64) < smallest_sum * (1.0 - 1e-9) {
            let true_sum = (shares as f64 * account_fraction / norm).round();
            let (name, sum) = (&account.name, level.sum);
            // If `true_sum` is larger than `sum`, rows are missing. If not, the printed shares contradict NormShares.
            if true_sum <= sum as f64 {
                let right = shares as f64 * account_fraction / sum as f64;
                let text =
                    format!("{shares} of {sum} shares give NormShares {right:.6}, but a row has {norm}");
                return Err(format!("account \"{name}\": {text}"));
            }
            return Err(format!(
                "some users or accounts are missing in account \"{name}\": the listed shares add up to {sum}, but according to NormShares the sum is {true_sum}; {ALL}"
            ));
        }
    }
    Ok(())
}

/// Returns the account whose children compete with the rows right below `account`: `account` itself, or the
/// nearest account above it whose shares are not "parent".
pub(super) fn find_competing_account(sheet: &Sheet, account: usize) -> usize {
    let mut at = account;
    while let Some(found) = sheet.accounts.get(at)
        && found.shares == Shares::Parent
        && let Some(parent) = found.parent
    {
        at = parent;
    }
    at
}
