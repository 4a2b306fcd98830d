// SPDX-License-Identifier: LGPL-3.0-only
//! Stores the changes of the charge factors of queues, in a table of our own that flux-accounting ignores. The first change
//! creates the table. Rows are only added, so that jobs on record keep the factor in force when they started.

use std::collections::BTreeMap;

use super::schema::Column;
use super::{Snapshot, StoreError};
use fairshare::charging::{ChargeChange, ChargeHistory};

const TABLE: &str = "fairshare_charge_table";
const COLUMNS: [Column; 3] = [("queue", None), ("since", None), ("factor", None)];
/// Creates the table, and the triggers that keep its rows.
const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS fairshare_charge_table (
        queue TEXT NOT NULL, since REAL NOT NULL, factor REAL NOT NULL CHECK (factor BETWEEN 0 AND 1000));
    CREATE TRIGGER IF NOT EXISTS fairshare_charge_no_update BEFORE UPDATE ON fairshare_charge_table
        BEGIN SELECT RAISE(ABORT, 'rows of fairshare_charge_table are never changed'); END;
    CREATE TRIGGER IF NOT EXISTS fairshare_charge_no_delete BEFORE DELETE ON fairshare_charge_table
        BEGIN SELECT RAISE(ABORT, 'rows of fairshare_charge_table are never removed'); END;";

/// The charge factors in Flux's configuration, and the changes that the plugin has seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedCharges {
    /// The present factors. All other queues have the factor 1.
    pub configured: BTreeMap<String, f64>,
    /// The changes that the plugin has seen.
    pub changes: Vec<ChargeChange>,
}

impl Snapshot<'_> {
    /// Returns true if a change of a charge factor is stored.
    pub fn has_charges(&self) -> Result<bool, StoreError> {
        Ok(self.table(TABLE)?.is_some())
    }

    /// Reads the stored charge factors. Invalid factors, which only another program can have stored, are ignored.
    pub fn charge_history(&self) -> Result<ChargeHistory, StoreError> {
        let Some(table) = self.table(TABLE)? else { return Ok(ChargeHistory::default()) };
        let sql = table.build_select(&COLUMNS).map_err(|text| self.schema_error(&text))?;
        let mut changes = Vec::new();
        self.visit_rows(&sql, TABLE, &COLUMNS.map(|(name, _)| name), |cells| {
            let (queue, since, factor) = (cells.text(0)?.into(), cells.number(1)?, cells.number(2)?);
            changes.push(ChargeChange { queue, since, factor });
            Ok(())
        })?;
        Ok(changes.into_iter().collect())
    }

    /// Stores the changes in `reported` that come after the stored ones, and at `now` those that the plugin has not seen. Returns
    /// the new changes.
    ///
    /// A change never applies before the last count, because the jobs that ended before are counted already.
    pub fn add_charges(&self, reported: &ReportedCharges, now: f64) -> Result<Vec<ChargeChange>, StoreError> {
        let stored = self.charge_history()?;
        let counted = self.marks()?.map_or(0.0, |marks| marks.ran);
        let seen: ChargeHistory = reported.changes.iter().cloned().collect();
        let mut history = stored.clone();
        for ChargeChange { queue, since, factor } in seen.changes() {
            if stored.last_change(&queue).is_none_or(|last| last < since) {
                history.add(&queue, since.max(counted), factor);
            }
        }
        let configured = reported.configured.iter().map(|(queue, factor)| (queue.as_str(), *factor));
        history.add_configuration(configured, now.max(counted));
        let known: Vec<ChargeChange> = stored.changes().collect();
        let new: Vec<ChargeChange> = history.changes().filter(|change| !known.contains(change)).collect();
        if new.is_empty() {
            return Ok(new);
        }
        let write = || -> rusqlite::Result<()> {
            self.transaction.execute_batch(CREATE)?;
            let sql = "INSERT INTO fairshare_charge_table (queue, since, factor) VALUES (?1, ?2, ?3)";
            let mut insert = self.transaction.prepare(sql)?;
            for ChargeChange { queue, since, factor } in &new {
                insert.execute((&**queue, since, factor))?;
            }
            Ok(())
        };
        write().map_err(|error| self.sqlite_error(&error))?;
        Ok(new)
    }
}
