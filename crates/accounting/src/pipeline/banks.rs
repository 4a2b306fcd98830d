// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the usage of banks: the sum of their users and sub-banks.

use super::{PipelineError, Result, Rule};
use crate::store::Ledger;

/// Returns each bank whose stored usage changes: its index, and its new usage. `usages` has the usage of each
/// association.
pub(super) fn list_usage_changes(ledger: &Ledger, usages: &[f64], rule: Rule) -> Result<Vec<(usize, f64)>> {
    let totals = totals(ledger, usages, rule)?;
    let changed = ledger.banks.iter().zip(totals).enumerate().filter_map(|(at, (bank, total))| {
        let total = total.filter(|total| *total != bank.usage && bank.row.is_some())?;
        Some((at, total))
    });
    Ok(changed.collect())
}

/// Returns the usage by bank, or `None` for banks that are not below a root. flux-accounting leaves out the users
/// of a bank that has sub-banks, and all roots except the first.
fn totals(ledger: &Ledger, usages: &[f64], rule: Rule) -> Result<Vec<Option<f64>>> {
    let count = ledger.banks.len();
    let mut own_usages = vec![0.0; count];
    for (account, usage) in ledger.accounts.iter().zip(usages) {
        if let Some(sum) = own_usages.get_mut(account.bank) {
            *sum += usage;
        }
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (at, bank) in ledger.banks.iter().enumerate() {
        if let Some(siblings) = bank.parent.and_then(|parent| children.get_mut(parent)) {
            siblings.push(at);
        }
    }
    let children_of = |bank: usize| children.get(bank).map_or(&[][..], Vec::as_slice);
    let mut roots = ledger.banks.iter().enumerate().filter(|(_, bank)| bank.is_root && bank.row.is_some());
    let mut stack: Vec<usize> = match rule {
        Rule::Exact => roots.map(|(at, _)| at).collect(),
        Rule::FluxAccounting => vec![roots.next().ok_or(PipelineError::NoRoot)?.0],
    };
    let mut order = Vec::with_capacity(count);
    while let Some(bank) = stack.pop() {
        order.push(bank);
        stack.extend(children_of(bank));
    }
    let mut totals = vec![None; count];
    for bank in order.into_iter().rev() {
        let counts_own_usage = children_of(bank).is_empty() || rule == Rule::Exact;
        let mut sum = if counts_own_usage { own_usages.get(bank).copied().unwrap_or(0.0) } else { 0.0 };
        for child in children_of(bank) {
            sum += totals.get(*child).copied().flatten().unwrap_or(0.0);
        }
        if let Some(total) = totals.get_mut(bank) {
            *total = Some(sum);
        }
    }
    Ok(totals)
}
