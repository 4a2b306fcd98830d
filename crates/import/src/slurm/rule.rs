// SPDX-License-Identifier: LGPL-3.0-only
//! Determines the ranking policy by which Slurm computed a document. Until 25.05, sshare printed a FairShare
//! of accounts under `NO_FAIR_TREE` only. Since 25.11, sshare prints no FairShare of accounts.

use super::complete::find_competing_account;
use super::{Association, HALF_UNIT, Sheet};
use fairshare::Shares;

/// The ranking policy that Slurm's printed values reveal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    FairTree,
    /// Classic or depth-oblivious.
    Formula,
    /// Slurm computed the FairShares, but the document does not show the policy.
    Undecided,
    /// The document contains no values that Slurm computed.
    Unknown,
}

/// The end of the note about a document whose policy is [`Rule::Undecided`].
pub(super) const UNDECIDED: &str = "neither its columns nor its NormShares show by which rule Slurm computed FairShare: \
    import the output of \"sshare -a -l -P\", or name the policy with --policy: fair-tree is Slurm's \
    default, classic belongs to PriorityFlags=NO_FAIR_TREE, and depth-oblivious to DEPTH_OBLIVIOUS";

/// Determines the policy by the columns that have values, then by NormShares.
pub(super) fn find_rule(sheet: &Sheet) -> Rule {
    let accounts = || sheet.accounts.iter().map(|account| &account.printed);
    let users = || sheet.users.iter().map(|user| &user.printed);
    if sheet.is_formula || accounts().any(|printed| printed.fairshare.is_some()) {
        return Rule::Formula;
    }
    let has_norm_shares = accounts().skip(1).chain(users()).any(|printed| printed.norm_shares > Some(0.0));
    // Only Fair Tree computes levels; the other policies print 0.
    let levels: Vec<f64> = accounts().chain(users()).filter_map(|printed| printed.level_fs).collect();
    if levels.iter().any(|level| *level != 0.0) {
        return Rule::FairTree;
    }
    if !levels.is_empty() && has_norm_shares {
        return Rule::Formula;
    }
    // The root has no siblings: Fair Tree prints 0 as its NormShares, the other policies print 1.
    let of_root = sheet.accounts.first().and_then(|root| root.printed.norm_shares);
    if of_root == Some(0.0) && has_norm_shares {
        return Rule::FairTree;
    }
    match find_rule_by_norm_shares(sheet) {
        Some(rule) => rule,
        None if users().any(|printed| printed.fairshare.is_some()) => Rule::Undecided,
        None => Rule::Unknown,
    }
}

/// A user or account that has a number of shares, with the values that Slurm printed.
struct Row {
    /// The index of the account whose children this row competes with.
    level: usize,
    shares: u64,
    norm: Option<f64>,
    effective: Option<f64>,
    usage: Option<f64>,
    /// The maximum error of `usage` from truncation.
    cut: f64,
}

fn list_rows(sheet: &Sheet) -> Vec<Row> {
    let total = sheet.accounts.first().and_then(|root| root.usage).filter(|usage| *usage > 0.0);
    let to_row = |row: &Association| {
        let Shares::Count(shares) = row.shares else { return None };
        let (printed, level) = (row.printed, find_competing_account(sheet, row.parent?));
        let of_total = row.usage.zip(total).map(|(usage, total)| usage / total);
        let cut = if printed.norm_usage.is_some() { 0.0 } else { total.map_or(1.0, |total| 1.0 / total) };
        let usage = printed.norm_usage.or(of_total);
        Some(Row { level, shares, norm: printed.norm_shares, effective: printed.effective, usage, cut })
    };
    sheet.users.iter().chain(&sheet.accounts).filter_map(to_row).collect()
}

fn sum_shares(sheet: &Sheet, rows: &[Row]) -> Vec<f64> {
    let mut sums = vec![0.0; sheet.accounts.len()];
    for row in rows {
        if let Some(sum) = sums.get_mut(row.level) {
            *sum += row.shares as f64;
        }
    }
    sums
}

/// Returns the share of `account` in the whole tree, for all policies except Fair Tree. Returns `None` if Slurm printed
/// no NormShares for the account.
fn find_fraction_of_tree(sheet: &Sheet, account: usize) -> Option<f64> {
    let account = sheet.accounts.get(account)?;
    if account.parent.is_none() { Some(1.0) } else { account.printed.norm_shares }
}

/// Determines the policy from NormShares. Under Fair Tree, NormShares is the row's fraction at its level. Under the other policies it
/// is the product of all fractions from the root to the row. Returns `None` if both numbers are equal in all rows.
fn find_rule_by_norm_shares(sheet: &Sheet) -> Option<Rule> {
    let rows = list_rows(sheet);
    let sums = sum_shares(sheet, &rows);
    let (mut is_fraction, mut is_product, mut exceeds_account) = (true, true, false);
    for row in &rows {
        let sum = sums.get(row.level).copied().filter(|sum| *sum > 0.0);
        let (Some(norm), Some(sum), Some(whole)) = (row.norm, sum, find_fraction_of_tree(sheet, row.level))
        else {
            continue;
        };
        let fraction = row.shares as f64 / sum;
        let is_near = |expected: f64| (norm - expected).abs() <= 2.1 * HALF_UNIT;
        is_fraction &= is_near(fraction);
        is_product &= is_near(fraction * whole);
        exceeds_account |= norm > whole + 2.1 * HALF_UNIT;
    }
    match (is_fraction, is_product) {
        (true, true) => None,
        (false, true) => Some(Rule::Formula),
        (true, false) => Some(Rule::FairTree),
        // Some rows are missing, so the fractions are unknown. Only under Fair Tree can the NormShares of a row exceed
        // the NormShares of its account.
        (false, false) if exceeds_account => Some(Rule::FairTree),
        (false, false) => None,
    }
}

/// Returns true if a printed effective usage differs from the result of Slurm's classic formula.
pub(super) fn is_depth_oblivious(sheet: &Sheet) -> bool {
    let rows = list_rows(sheet);
    let sums = sum_shares(sheet, &rows);
    rows.iter().any(|row| {
        let account = sheet.accounts.get(row.level);
        let above =
            account.filter(|account| account.parent.is_some()).and_then(|account| account.printed.effective);
        let sum = sums.get(row.level).copied().filter(|sum| *sum > 0.0);
        let (Some(above), Some(sum), Some(usage), Some(effective)) = (above, sum, row.usage, row.effective)
        else {
            return false;
        };
        let classic = usage + (above - usage) * row.shares as f64 / sum;
        (classic - effective).abs() > row.cut + 4.0 * HALF_UNIT
    })
}
