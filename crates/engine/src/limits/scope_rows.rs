// SPDX-License-Identifier: LGPL-3.0-only
//! The table of limits over scopes. Each row is a limit. For example, the limit `max-run-nodes-bank` has a bank as
//! its [`Scope`] and the nodes of running jobs as its [`Amount`]. The site sets the caps
//! ([`SiteLimit`](crate::accounts::SiteLimit)).

use super::hold::{Hold, HoldSet, MOST_ROWS};
use super::size::Size;
use crate::accounts::{Cap, Scope, Target};
use crate::ids::{Amount, Measure, QueueName, Stage};
use strum::VariantArray;

/// A row in the table of the limits that a site can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeRow {
    /// Which jobs the limit counts together.
    pub scope: Scope,
    /// The amount that the limit counts.
    pub amount: Amount,
}

/// Builds the names of all limits that a site can set, such as `max-run-jobs-bank`.
macro_rules! names {
    ($($scope:literal),*) => {
        [$(
            concat!("max-run-jobs-", $scope), concat!("max-run-nodes-", $scope), concat!("max-run-cores-", $scope),
            concat!("max-run-gpus-", $scope), concat!("max-sched-jobs-", $scope), concat!("max-run-sched-jobs-", $scope),
            concat!("max-run-sched-nodes-", $scope), concat!("max-run-sched-cores-", $scope),
            concat!("max-run-sched-gpus-", $scope), concat!("max-run-node-hours-", $scope),
            concat!("max-active-jobs-", $scope),
            concat!("max-job-nodes-", $scope), concat!("max-job-time-", $scope), concat!("max-job-node-hours-", $scope),
        )*]
    };
}

/// The name of a limit on a queue ends in `-in-queue`. The reason is that flux-accounting uses the name
/// `max-run-jobs-queue` for a limit on an association.
const NAMES: [&str; Amount::ALL.len() * Scope::VARIANTS.len()] =
    names!("association", "association-queue", "bank", "bank-queue", "user", "user-queue", "in-queue");

/// The scopes of budgets. A budget counts jobs in all queues.
const BUDGET_SCOPES: [Scope; 3] = [Scope::Association, Scope::Bank, Scope::User];

/// The names of all budgets. For each kind of scope, there is one budget in node-hours, one in core-hours, and one in
/// GPU-hours.
const BUDGET_NAMES: [&str; Amount::BUDGETS.len() * BUDGET_SCOPES.len()] = [
    "budget-node-hours-association",
    "budget-core-hours-association",
    "budget-gpu-hours-association",
    "budget-node-hours-bank",
    "budget-core-hours-bank",
    "budget-gpu-hours-bank",
    "budget-node-hours-user",
    "budget-core-hours-user",
    "budget-gpu-hours-user",
];

/// The number of limits in the table that can hold jobs. Budgets are numbered after these limits.
const HOLDING_ROWS: usize = Amount::HOLDING * Scope::VARIANTS.len();

/// A [`HoldSet`] has one bit for each row of a limit that can hold jobs, and one for each budget.
const _: () = assert!(HOLDING_ROWS + BUDGET_NAMES.len() <= MOST_ROWS);

impl ScopeRow {
    fn amount_index(self) -> Option<usize> {
        Amount::ALL.iter().position(|amount| *amount == self.amount)
    }

    fn budget_index(self) -> Option<usize> {
        let amount = Amount::BUDGETS.iter().position(|amount| *amount == self.amount)?;
        let scope = BUDGET_SCOPES.iter().position(|scope| *scope == self.scope)?;
        Some(scope * Amount::BUDGETS.len() + amount)
    }

    /// Returns the index of the limit in a [`HoldSet`], or `None` if the limit cannot hold jobs.
    fn index(self) -> Option<usize> {
        if let Some(budget) = self.budget_index() {
            return Some(HOLDING_ROWS + budget);
        }
        let amount = self.amount_index().filter(|amount| *amount < Amount::HOLDING)?;
        Some(self.scope as usize * Amount::HOLDING + amount)
    }

    pub(super) fn from_index(index: usize) -> Option<ScopeRow> {
        if let Some(budget) = index.checked_sub(HOLDING_ROWS) {
            let scope = *BUDGET_SCOPES.get(budget / Amount::BUDGETS.len())?;
            let amount = *Amount::BUDGETS.get(budget % Amount::BUDGETS.len())?;
            return Some(ScopeRow { scope, amount });
        }
        let scope = *Scope::VARIANTS.get(index / Amount::HOLDING)?;
        let amount = *Amount::ALL.get(index % Amount::HOLDING)?;
        Some(ScopeRow { scope, amount })
    }

    /// Returns the limit that this row describes. The limit must be able to hold jobs.
    pub fn hold(self) -> Hold {
        let index = self.index().unwrap_or(usize::MAX);
        Hold::from_scope_row(u8::try_from(index).unwrap_or(u8::MAX), self.name())
    }

    /// Returns the name of the limit. If the limit can hold jobs, it is the name of the dependency.
    pub fn name(self) -> &'static str {
        if let Some(budget) = self.budget_index() {
            return BUDGET_NAMES.get(budget).copied().unwrap_or_default();
        }
        let index = self.amount_index().map(|amount| self.scope as usize * Amount::ALL.len() + amount);
        index.and_then(|index| NAMES.get(index)).copied().unwrap_or_default()
    }

    fn counts_jobs_of_one_queue(self) -> bool {
        matches!(
            self.scope,
            Scope::AssociationInQueue | Scope::BankInQueue | Scope::UserInQueue | Scope::Queue
        )
    }
}

/// Returns all rows whose limits can hold jobs.
pub(super) fn list_rows() -> impl DoubleEndedIterator<Item = ScopeRow> {
    (0..HOLDING_ROWS + BUDGET_NAMES.len()).filter_map(ScopeRow::from_index)
}

/// Returns the limits that may newly apply to a job that moves to another queue. These are limits on single queues,
/// and limits from which the former queue is exempt (`exemptions`). If `charges_more` is true, budgets are included.
pub(super) fn queue_scope_limits(exemptions: &[Scope], charges_more: bool) -> HoldSet {
    let is_new = |row: &ScopeRow| match row.amount.is_budget() {
        true => charges_more,
        false => row.counts_jobs_of_one_queue() || exemptions.contains(&row.scope),
    };
    let rows = list_rows().filter(is_new);
    rows.map(ScopeRow::hold).collect()
}

/// Returns the words that add the queue to the description of a limit. The text is empty if `target` is a queue
/// itself, or if there is no queue.
pub(super) fn describe_limit_queue(target: &Target, queue: Option<&QueueName>) -> String {
    let queue = queue.filter(|_| !matches!(target, Target::Queue(_) | Target::EachQueue));
    queue.map_or(String::new(), |queue| format!(" in queue {queue}"))
}

/// Returns the text of the rejection if a job of `size` alone exceeds `cap`, or if it has no time limit and the limit counts time. A cap on
/// the number of jobs rejects no job.
pub(super) fn rejection(
    target: &Target,
    queue: Option<&QueueName>,
    amount: Amount,
    cap: Cap,
    size: Size,
) -> Option<String> {
    let Amount { stage, measure } = amount;
    let (asked, cap) = (size.measure(measure), cap.convert_to_counted_units(amount).limit);
    let lacks_time_limit = measure.is_time() && !size.has_time_limit();
    // A job that exceeds a budget is not rejected, because the budget may be raised later.
    if measure == Measure::Jobs || amount.is_budget() || cap.admits(0, asked) && !lacks_time_limit {
        return None;
    }
    let scope = format!("{target}{}", describe_limit_queue(target, queue));
    let (shown, most) = (measure.show_amount(asked), measure.show_amount(cap.cap()));
    let bound = match stage {
        Stage::OneJob => format!("the limit of {scope} on one job"),
        _ => format!("the limit of {scope} on {} jobs", stage.adjective()),
    };
    Some(match measure {
        _ if lacks_time_limit => {
            format!("job has no time limit; {bound} is {most}: set a time limit with -t")
        }
        Measure::Time => format!("job time limit ({shown}) is greater than {bound} ({most})"),
        _ => format!("job size ({shown}) is greater than {bound} ({most})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_index_and_its_own_name() {
        for (index, row) in list_rows().enumerate() {
            assert_eq!((row.index(), ScopeRow::from_index(index)), (Some(index), Some(row)));
            let scope = match row.scope {
                Scope::Association => "association",
                Scope::AssociationInQueue => "association-queue",
                Scope::Bank => "bank",
                Scope::BankInQueue => "bank-queue",
                Scope::User => "user",
                Scope::UserInQueue => "user-queue",
                Scope::Queue => "in-queue",
            };
            let name = match row.amount.is_budget() {
                true => format!("budget-{}-{scope}", row.amount.measure.name()),
                false => format!("max-{}-{scope}", row.amount),
            };
            assert_eq!(row.hold().name(), name);
            for amount in Amount::ALL.into_iter().filter(|amount| !amount.can_hold_jobs()) {
                let rejecting = ScopeRow { amount, ..row };
                let name = format!("max-{amount}-{scope}");
                assert_eq!((rejecting.index(), rejecting.name()), (None, &*name));
            }
        }
        let count = HOLDING_ROWS + BUDGET_NAMES.len();
        assert_eq!(ScopeRow::from_index(count), None);
        let names: std::collections::BTreeSet<&str> =
            super::super::RULES.names().map(|hold| hold.name()).collect();
        assert_eq!(names.len(), count + super::super::RULES.counters.len());
        assert_eq!(queue_scope_limits(&[], false).list_scope_row_indices().count(), 4 * Amount::HOLDING);
        let with_budgets = queue_scope_limits(&[], true).list_scope_row_indices().count();
        assert_eq!(with_budgets, 4 * Amount::HOLDING + BUDGET_NAMES.len());
    }
}
