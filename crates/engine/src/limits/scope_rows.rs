// SPDX-License-Identifier: LGPL-3.0-only
//! The rows of limits over scopes: one for each kind of scope and each amount, with its dependency name and the text of its rejection. The
//! site sets the caps ([`SiteLimit`](crate::accounts::SiteLimit)).

use super::hold::{Hold, HoldSet, MOST_ROWS};
use super::size::Size;
use crate::accounts::{Cap, Scope, Target};
use crate::ids::{Amount, Measure, QueueName, Stage};

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose jobs count together.
    pub scope: Scope,
    /// Which jobs count, and what of them.
    pub amount: Amount,
}

/// The names of all rows, by scope and amount.
macro_rules! names {
    ($($scope:literal),*) => {
        [$(
            concat!("max-run-jobs-", $scope), concat!("max-run-nodes-", $scope), concat!("max-run-cores-", $scope),
            concat!("max-run-gpus-", $scope), concat!("max-sched-jobs-", $scope), concat!("max-run-sched-jobs-", $scope),
            concat!("max-run-sched-nodes-", $scope), concat!("max-run-sched-cores-", $scope),
            concat!("max-run-sched-gpus-", $scope),
        )*]
    };
}

const NAMES: [&str; Amount::ALL.len() * Scope::ALL.len()] =
    names!("association", "association-queue", "bank", "bank-queue", "user");

/// A [`HoldSet`] has a bit for each row.
const _: () = assert!(NAMES.len() <= MOST_ROWS);

impl Row {
    fn index(self) -> Option<usize> {
        let amount = Amount::ALL.iter().position(|amount| *amount == self.amount)?;
        Some(self.scope as usize * Amount::ALL.len() + amount)
    }

    /// Returns the row with an index.
    pub(super) fn from_index(index: usize) -> Option<Row> {
        let scope = *Scope::ALL.get(index / Amount::ALL.len())?;
        let amount = *Amount::ALL.get(index % Amount::ALL.len())?;
        Some(Row { scope, amount })
    }

    /// Returns the limit of the row.
    pub fn hold(self) -> Hold {
        let index = self.index().unwrap_or(usize::MAX);
        Hold::of_row(u8::try_from(index).unwrap_or(u8::MAX), NAMES.get(index).copied().unwrap_or_default())
    }

    /// Returns true if only jobs of one queue count.
    fn is_of_queue(self) -> bool {
        matches!(self.scope, Scope::AssociationInQueue | Scope::BankInQueue)
    }
}

/// Returns all rows.
pub(super) fn rows() -> impl DoubleEndedIterator<Item = Row> {
    (0..NAMES.len()).filter_map(Row::from_index)
}

/// Returns the limits over scopes that count jobs of one queue only.
pub fn rows_of_queues() -> HoldSet {
    rows().filter(|row| row.is_of_queue()).map(Row::hold).collect()
}

/// Returns the rejection of a job that is larger than a whole cap. A cap on the number of jobs rejects no job.
pub(super) fn rejection(
    target: &Target,
    queue: Option<&QueueName>,
    amount: Amount,
    cap: Cap,
    size: Size,
) -> Option<String> {
    let Amount { stage, measure } = amount;
    let asked = size.amount(measure);
    if measure == Measure::Jobs || cap.limit.admits(0, asked) {
        return None;
    }
    let what = match measure {
        Measure::Jobs => "job(s)",
        Measure::Nodes => "node(s)",
        Measure::Cores => "core(s)",
        Measure::Gpus => "gpu(s)",
        // No row has these measures.
        Measure::NodeTime | Measure::CoreTime | Measure::GpuTime => return None,
    };
    let which = match stage {
        Stage::Running => "run",
        Stage::Scheduled => "be scheduled",
        Stage::RunningAndScheduled => "run or be scheduled",
    };
    let queue = queue.map_or(String::new(), |queue| format!(" in queue {queue}"));
    let most = cap.limit.cap();
    Some(format!(
        "job size ({asked} {what}) is greater than what may {which} at once of {target}{queue} ({most} {what})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_index_and_its_own_name() {
        for (index, row) in rows().enumerate() {
            assert_eq!((row.index(), Row::from_index(index)), (Some(index), Some(row)));
            let scope = match row.scope {
                Scope::Association => "association",
                Scope::AssociationInQueue => "association-queue",
                Scope::Bank => "bank",
                Scope::BankInQueue => "bank-queue",
                Scope::User => "user",
            };
            assert_eq!(row.hold().name(), format!("max-{}-{scope}", row.amount));
        }
        assert_eq!(Row::from_index(NAMES.len()), None);
        let names: std::collections::BTreeSet<&str> =
            super::super::RULES.names().map(|hold| hold.name()).collect();
        assert_eq!(names.len(), NAMES.len() + super::super::RULES.counters.len());
        assert_eq!(rows_of_queues().rows().count(), 2 * Amount::ALL.len());
    }
}
