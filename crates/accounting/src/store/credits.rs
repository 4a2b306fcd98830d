// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and adds credits: changes of the usage of an association, each with a reason and an author. Credits
//! are in an additional table, which is created with the first credit. Triggers reject changes of credits, so
//! the table is also the log.

use rusqlite::params;

use super::values::QueryRow;
use super::{Fault, Snapshot, StoreResult};

const TABLE: &str = "fairshare_credit_table";
const NAMES: &str = "id username bank kind amount unit usage live_usage counts_from reason author created";
/// Largest absolute usage of a credit. The sum of any possible number of credits is a usage that can be pushed.
pub const MAX_CREDIT: f64 = 1e30;

const COLUMNS: &str = include_str!("credit_columns.sql");

/// A change of the usage of an association.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credit {
    /// Number of the credit. Credits are numbered in the order in which they were added.
    pub id: i64,
    /// Name of the user.
    pub user: String,
    /// Name of the bank.
    pub bank: String,
    /// True if the amount is the usage that the association then had; false if the amount is added.
    pub is_set: bool,
    /// The amount in the form in which it was typed.
    pub amount: String,
    /// Unit of the amount.
    pub unit: String,
    /// Usage that is added, with decay at period boundaries; negative if usage is subtracted.
    pub usage: f64,
    /// The usage that the credit adds, with continuous decay. This usage equals `usage` unless `is_set` is true.
    pub live_usage: f64,
    /// The credit decays like a job that ended at this time, in seconds since the epoch.
    pub from: f64,
    /// The reason.
    pub reason: String,
    /// Name of the user who added the credit.
    pub author: String,
    /// Time of the addition, in seconds since the epoch.
    pub created: f64,
}

impl Credit {
    fn read(cells: &QueryRow<'_, '_>) -> Result<Credit, Fault> {
        Ok(Credit {
            id: cells.integer(0)?,
            user: cells.text(1)?.to_owned(),
            bank: cells.text(2)?.to_owned(),
            is_set: cells.text(3)? == "set",
            amount: cells.text(4)?.to_owned(),
            unit: cells.text(5)?.to_owned(),
            usage: cells.number(6)?,
            live_usage: cells.number(7)?,
            from: cells.number(8)?,
            reason: cells.text(9)?.to_owned(),
            author: cells.text(10)?.to_owned(),
            created: cells.number(11)?,
        })
    }
}

impl Snapshot<'_> {
    /// Returns all credits in the order in which they were added.
    pub fn credits(&self) -> StoreResult<Vec<Credit>> {
        self.read_project_table(TABLE, NAMES, Credit::read)
    }

    /// Returns the credits that are not counted yet, in the order in which they were added.
    pub fn uncounted_credits(&self) -> StoreResult<Vec<Credit>> {
        let mut credits = self.credits()?;
        let marks = if credits.is_empty() { None } else { self.marks()? };
        credits.retain(|credit| credit.id > marks.as_ref().map_or(0, |marks| marks.last_credit));
        Ok(credits)
    }

    /// Stores a credit and returns its number. `credit.id` is ignored.
    pub fn add_credit(&self, credit: &Credit) -> StoreResult<i64> {
        self.run_sql(|| {
            self.create_kept_table(TABLE, "credit", COLUMNS)?;
            let Credit { user, bank, is_set, amount, unit, usage, live_usage, .. } = credit;
            let Credit { from, reason, author, created, .. } = credit;
            let kind = if *is_set { "set" } else { "add" };
            self.transaction.execute(
                "INSERT INTO fairshare_credit_table (username, bank, kind, amount, unit, usage, live_usage, counts_from, \
                 reason, author, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                params![user, bank, kind, amount, unit, usage, live_usage, from, reason, author, created],
            )?;
            Ok(self.transaction.last_insert_rowid())
        })
    }
}
