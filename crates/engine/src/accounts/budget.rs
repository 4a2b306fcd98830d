// SPDX-License-Identifier: LGPL-3.0-only
//! The budgets that a push contains.

use super::Target;
use crate::ids::Measure;

/// A budget in one window. Amounts are in unit-milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The association, bank or user whose jobs spend from the budget. The jobs of a bank include the jobs of
    /// all banks below it.
    pub target: Target,
    /// The measure that the budget counts: the time of nodes, of cores or of GPUs.
    pub measure: Measure,
    /// The start of the window, in seconds since the epoch.
    pub start: i64,
    /// The end of the window, in seconds since the epoch. The window does not include this time.
    pub end: i64,
    /// The sum of all deposits. Negative deposits can make it negative.
    pub deposited: i64,
    /// The charges of all ended jobs that the push includes according to its watermarks.
    pub spent: i64,
    /// The average amount that jobs spent per day in the seven days before the push.
    pub rate: i64,
}

/// Checks that windows of the same target and measure do not overlap. The error names the two windows.
pub fn check_windows(budgets: &[Budget]) -> Result<(), String> {
    let mut sorted: Vec<&Budget> = budgets.iter().collect();
    sorted.sort_by_key(|budget| (&budget.target, budget.measure, budget.start));
    let overlaps = |(one, other): &(&&Budget, &&Budget)| {
        (&one.target, one.measure) == (&other.target, other.measure) && other.start < one.end
    };
    sorted.iter().zip(sorted.iter().skip(1)).find(overlaps).map_or(Ok(()), |(one, other)| {
        let Budget { target, measure, start, .. } = other;
        Err(format!(
            "budgets: expected a start of {} or later, the end of the window from {}, got {start} ({target}, {}); \
             \"flux fairshare budget log\" lists the deposits",
            one.end,
            one.start,
            measure.name()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_windows_of_one_target_and_resource_must_not_overlap() {
        let window = |target: &Target, measure, start, end| {
            let (target, deposited, spent, rate) = (target.clone(), 1, 0, 0);
            Budget { target, measure, start, end, deposited, spent, rate }
        };
        let (a, b) = (Target::Bank("A".into()), Target::Bank("B".into()));
        let first = window(&a, Measure::NodeTime, 10, 20);
        for other in [
            window(&a, Measure::NodeTime, 20, 30),
            window(&a, Measure::CoreTime, 15, 30),
            window(&b, Measure::NodeTime, 15, 30),
        ] {
            assert_eq!(check_windows(&[other, first.clone()]), Ok(()));
        }
        for start in [10, 19] {
            let error =
                check_windows(&[window(&a, Measure::NodeTime, start, 30), first.clone()]).unwrap_err();
            assert!(error.starts_with("budgets: expected a start of "), "{error}");
            assert!(error.contains("(bank A, node-hours)"), "{error}");
        }
    }
}
