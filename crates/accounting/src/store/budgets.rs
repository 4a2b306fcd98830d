// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and adds the deposits of budgets, and stores the spent amounts of the last sync. Deposits and spent
//! amounts are in two additional tables, each of which is created with its first row.
//!
//! Rows of deposits never change, so their table is also the log. The CHECK constraints of the table accept
//! only deposits that a push can send, even from other programs.

use rusqlite::{OptionalExtension, Row, params};

use super::values::QueryRow;
use super::{Fault, Snapshot, StoreResult};
use fairshare_protocol::records::{BudgetRecord, BudgetUnit};

const TABLE: &str = "fairshare_deposit_table";
const NAMES: &str = "id scope name unit milliseconds start end reason author created job";
/// The columns of the table of deposits. Numbers have the ranges of a [`BudgetRecord`].
const COLUMNS: &str = include_str!("deposit_columns.sql");
/// Creates the trigger that rejects overlapping windows of a budget. Drops the trigger of an earlier version
/// first, because that trigger also compares windows of removed budgets.
const REJECT_OVERLAP: &str = include_str!("reject_overlap.sql");
const CREATE_SPENT: &str = "
    CREATE TABLE IF NOT EXISTS fairshare_spent_table (scope TEXT NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL,
        start INTEGER NOT NULL, spent INTEGER NOT NULL, final INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (scope, name, unit, start))";
/// Adds the column that a table of an earlier version lacks.
const ADD_FINAL: &str = "ALTER TABLE fairshare_spent_table ADD COLUMN final INTEGER NOT NULL DEFAULT 0";
/// Marks an amount as final if its window starts before ?1 and ends at ?2 or earlier.
const MARK_FINAL: &str = include_str!("mark_final.sql");
/// Changes nothing if the amount is already stored, because each write would start a sync of the service.
const WRITE_SPENT: &str = "
    INSERT INTO fairshare_spent_table (scope, name, unit, start, spent) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO UPDATE SET spent = excluded.spent WHERE spent < excluded.spent OR (?6 AND spent > excluded.spent)";

/// A deposit in a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposit {
    /// The number of the deposit, in the order in which deposits were added.
    pub id: i64,
    /// The budget, with the amount of this deposit and nothing spent. Users are given by name. The amount 0
    /// removes the budget in all windows: earlier deposits with the same target and unit do not count.
    pub budget: BudgetRecord,
    /// Why the deposit was made.
    pub reason: String,
    /// The user who made the deposit.
    pub author: String,
    /// When the deposit was made, in seconds since the epoch.
    pub created: i64,
    /// The id, in decimal, of the job that a refund is for. Empty if the deposit is not a refund.
    pub job: String,
}

impl Deposit {
    /// Returns the scope, the name and the unit of the budget.
    pub fn target(&self) -> (&str, &str, BudgetUnit) {
        (&self.budget.scope, &self.budget.name, self.budget.unit)
    }

    fn read(cells: &QueryRow<'_, '_>) -> Result<Deposit, Fault> {
        Ok(Deposit {
            id: cells.integer(0)?,
            budget: BudgetRecord {
                scope: cells.text(1)?.to_owned(),
                name: cells.text(2)?.to_owned(),
                unit: cells.text(3)?.parse().map_err(|_| "the unit of a deposit is unknown")?,
                start: cells.integer(5)?,
                end: cells.integer(6)?,
                deposited: cells.integer(4)?,
                spent: 0,
                rate: 0,
            },
            reason: cells.text(7)?.to_owned(),
            author: cells.text(8)?.to_owned(),
            created: cells.integer(9)?,
            job: cells.text(10)?.to_owned(),
        })
    }
}

impl Snapshot<'_> {
    /// Returns the deposits of all budgets that no later deposit removed, in the order of their numbers.
    pub fn list_deposits_in_force(&self) -> StoreResult<Vec<Deposit>> {
        let mut in_force = Vec::new();
        for deposit in self.deposits()? {
            match deposit.budget.deposited {
                0 => in_force.retain(|other: &Deposit| other.target() != deposit.target()),
                _ => in_force.push(deposit),
            }
        }
        Ok(in_force)
    }

    /// Returns all deposits and removals in the order of their numbers.
    pub fn deposits(&self) -> StoreResult<Vec<Deposit>> {
        self.read_project_table(TABLE, NAMES, Deposit::read)
    }

    /// Stores a deposit and returns its number. `deposit.id` is ignored.
    pub fn add_deposit(&self, deposit: &Deposit) -> StoreResult<i64> {
        let Deposit { budget, reason, author, created, job, .. } = deposit;
        let BudgetRecord { scope, name, start, end, deposited, .. } = budget;
        let unit = budget.unit.name();
        self.run_sql(|| {
            self.create_kept_table(TABLE, "deposit", COLUMNS)?;
            self.transaction.execute_batch(REJECT_OVERLAP)?;
            self.transaction.execute(
                "INSERT INTO fairshare_deposit_table (scope, name, unit, milliseconds, start, \"end\", reason, author, created, \
                 job) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                params![scope, name, unit, deposited, start, end, reason, author, created, job],
            )?;
            Ok(self.transaction.last_insert_rowid())
        })
    }

    /// Returns the spent amount of a budget as the last sync stored it, in unit-milliseconds. Also returns true if
    /// the amount is final: scrub may have removed the records from which it was computed. Returns `None` if the
    /// last sync did not have this budget.
    pub fn read_spent_amount(&self, budget: &BudgetRecord) -> StoreResult<Option<(i64, bool)>> {
        let Some(table) = self.table("fairshare_spent_table")? else { return Ok(None) };
        let BudgetRecord { scope, name, unit, start, .. } = budget;
        let is_final = if table.has_column("final") { "final" } else { "0" };
        let sql = format!(
            "SELECT spent, {is_final} FROM fairshare_spent_table WHERE (scope, name, unit, start) = (?1, ?2, ?3, ?4)"
        );
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let key = (scope, name, unit.name(), start);
        self.run_sql(|| self.transaction.query_row(&sql, key, read).optional())
    }

    /// Marks spent amounts as final if the window is over at `now` and started before `before`. Scrub removes records of jobs that
    /// ended before `before`. Both times are in seconds since the epoch.
    pub fn mark_final(&self, before: f64, now: f64) -> StoreResult<()> {
        let has_final = self.table("fairshare_spent_table")?.is_some_and(|it| it.has_column("final"));
        if has_final {
            self.run_sql(|| self.transaction.execute(MARK_FINAL, (before, now)))?;
        }
        Ok(())
    }

    /// Stores the spent amount of each budget. Lowers a stored amount only if `can_lower` is true.
    pub fn write_spent_amounts(&self, budgets: &[BudgetRecord], can_lower: bool) -> StoreResult<()> {
        let lacks_final = self.table("fairshare_spent_table")?.is_some_and(|it| !it.has_column("final"));
        self.run_sql(|| {
            self.transaction.execute_batch(if lacks_final { ADD_FINAL } else { CREATE_SPENT })?;
            let mut insert = self.transaction.prepare(WRITE_SPENT)?;
            for BudgetRecord { scope, name, unit, start, spent, .. } in budgets {
                insert.execute((scope, name, unit.name(), start, spent, can_lower))?;
            }
            Ok(())
        })
    }
}
