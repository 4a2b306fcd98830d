// SPDX-License-Identifier: LGPL-3.0-only
//! The `jobs` table: records of ended jobs.

use rusqlite::params_from_iter;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::{Snapshot, StoreError};

/// A job that ended, as the `jobs` table keeps it. Times are seconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// The job id.
    pub id: u64,
    /// Who ran it.
    pub userid: u32,
    /// When it was submitted.
    pub t_submit: f64,
    /// When it began to run.
    pub t_run: f64,
    /// When it became inactive.
    pub t_inactive: f64,
    /// The ranks it ran on, an idset.
    pub ranks: String,
    /// What it ran on: R as the KVS holds it, a JSON text.
    pub r: String,
    /// Its jobspec with the updates applied, a JSON text.
    pub jobspec: String,
    /// Its project; empty where the jobspec names none.
    pub project: String,
    /// Its bank; empty where the jobspec names none.
    pub bank: String,
    /// The run time it asked for, in seconds.
    pub requested_duration: f64,
    /// The run time it had, in seconds.
    pub actual_duration: f64,
}

/// The columns of a record in the order of [`JobRecord`]; those from the ninth on came with later schemas.
const COLUMNS: [&str; 12] = [
    "id",
    "userid",
    "t_submit",
    "t_run",
    "t_inactive",
    "ranks",
    "R",
    "jobspec",
    "project",
    "bank",
    "requested_duration",
    "actual_duration",
];
const NEEDED: usize = 8;

impl Snapshot<'_> {
    /// Adds records, but for those whose id is there already, and says how many were new. They are stored when the
    /// snapshot is committed.
    pub fn insert_jobs(&self, records: &[JobRecord]) -> Result<u64, StoreError> {
        let table = self.needed_table("jobs")?;
        let missing: Vec<&str> = COLUMNS.into_iter().take(NEEDED).filter(|name| !table.has(name)).collect();
        if !missing.is_empty() {
            return Err(self.schema_error(&format!("table jobs has no {}", missing.join(", "))));
        }
        let known = COLUMNS.map(|name| table.has(name));
        let names: Vec<&str> =
            COLUMNS.into_iter().zip(known).filter(|(_, known)| *known).map(|(name, _)| name).collect();
        let places = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT OR IGNORE INTO jobs ({}) VALUES ({places})", names.join(", "));
        let insert = || -> rusqlite::Result<u64> {
            let mut statement = self.transaction.prepare_cached(&sql)?;
            let mut inserted = 0;
            for record in records {
                let id = record.id.to_string();
                let text = |text| ToSqlOutput::Borrowed(ValueRef::Text(str::as_bytes(text)));
                let cells = [
                    text(&id),
                    i64::from(record.userid).into(),
                    record.t_submit.into(),
                    record.t_run.into(),
                    record.t_inactive.into(),
                    text(&record.ranks),
                    text(&record.r),
                    text(&record.jobspec),
                    text(&record.project),
                    text(&record.bank),
                    record.requested_duration.into(),
                    record.actual_duration.into(),
                ];
                let cells = cells.into_iter().zip(known).filter(|(_, known)| *known).map(|(cell, _)| cell);
                inserted += statement.execute(params_from_iter(cells))? as u64;
            }
            Ok(inserted)
        };
        insert().map_err(|error| self.fail(&error))
    }

    /// When the newest job on record ended; `None` if there is none.
    pub fn newest_inactive(&self) -> Result<Option<f64>, StoreError> {
        self.needed_table("jobs")?;
        self.transaction
            .query_row("SELECT max(t_inactive) FROM jobs", [], |row| row.get(0))
            .map_err(|error| self.fail(&error))
    }

    /// Whether a job is on record.
    pub fn has_job(&self, id: u64) -> Result<bool, StoreError> {
        let found = || {
            let mut statement =
                self.transaction.prepare_cached("SELECT EXISTS (SELECT 1 FROM jobs WHERE id = ?1)")?;
            statement.query_row([id.to_string()], |row| row.get(0))
        };
        found().map_err(|error| self.fail(&error))
    }
}
