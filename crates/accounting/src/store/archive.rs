// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the job archive that flux-core before 0.40 wrote, and that some sites still have: one table, `jobs`.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::{Reason, Snapshot, StoreError};

/// A job in the archive. Times are seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchivedJob {
    /// Job id in decimal.
    pub id: String,
    /// User id.
    pub userid: i64,
    /// Time of submission.
    pub t_submit: f64,
    /// Start of the job; 0 if it never ran.
    pub t_run: f64,
    /// Time when the job became inactive.
    pub t_inactive: f64,
    /// Ranks of the job, an idset.
    pub ranks: String,
    /// R of the job, a JSON text; empty if it never ran.
    pub r: String,
    /// Jobspec at submission, a JSON text.
    pub jobspec: String,
    /// Eventlog of the job, one event per line; empty if the table has no such column.
    pub eventlog: String,
}

const COLUMNS: [&str; 8] = ["id", "userid", "t_submit", "t_run", "t_inactive", "ranks", "R", "jobspec"];

impl Snapshot<'_> {
    /// Calls `each` with the jobs of an archive, in the order of the table. Returns the first error of `each` or of
    /// the database.
    pub fn archived_jobs(
        &self,
        each: &mut dyn FnMut(ArchivedJob) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let schema_fault = |what: String| self.error(Reason::Schema(format!("not a job archive: {what}")));
        let table = self.table("jobs")?.ok_or_else(|| schema_fault("no table jobs".to_owned()))?;
        let missing: Vec<&str> = COLUMNS.into_iter().filter(|name| !table.has_column(name)).collect();
        if !missing.is_empty() {
            return Err(schema_fault(format!("table jobs has no {}", missing.join(", "))));
        }
        let eventlog = if table.has_column("eventlog") { "eventlog" } else { "''" };
        let sql = format!("SELECT {}, {eventlog} FROM jobs", COLUMNS.join(", "));
        let mut statement = self.transaction.prepare(&sql).map_err(|error| self.sqlite_error(&error))?;
        let mut rows = statement.query([]).map_err(|error| self.sqlite_error(&error))?;
        while let Some(row) = rows.next().map_err(|error| self.sqlite_error(&error))? {
            each(read_job(row).map_err(|error| self.sqlite_error(&error))?)?;
        }
        self.check_unchanged()
    }

    /// Returns the estimated number of rows of the jobs table, or 0 if it is unknown.
    pub fn job_estimate(&self) -> u64 {
        self.transaction
            .query_row("SELECT max(rowid) FROM jobs", [], |row| row.get::<_, Option<i64>>(0))
            .ok()
            .flatten()
            .and_then(|rows| u64::try_from(rows).ok())
            .unwrap_or(0)
    }
}

fn read_job(row: &Row<'_>) -> rusqlite::Result<ArchivedJob> {
    Ok(ArchivedJob {
        id: read_text(row, 0)?,
        userid: row.get::<_, Option<i64>>(1)?.unwrap_or(-1),
        t_submit: read_number(row, 2)?,
        t_run: read_number(row, 3)?,
        t_inactive: read_number(row, 4)?,
        ranks: read_text(row, 5)?,
        r: read_text(row, 6)?,
        jobspec: read_text(row, 7)?,
        eventlog: read_text(row, 8)?,
    })
}

fn read_number(row: &Row<'_>, column: usize) -> rusqlite::Result<f64> {
    Ok(row.get::<_, Option<f64>>(column)?.unwrap_or_default())
}

/// Reads a cell as text. SQLite cells have any type: an id may be a number, and a text may be a blob.
fn read_text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    })
}
