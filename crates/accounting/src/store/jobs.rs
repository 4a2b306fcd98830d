// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and writes the `jobs` table, which has the records of ended jobs.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, params_from_iter};

use super::{Reason, Snapshot, StoreResult};
use fairshare::periods::Resources;

/// A record of an ended job. Times are seconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// Job id.
    pub id: u64,
    /// User id.
    pub userid: u32,
    /// Time of submission.
    pub t_submit: f64,
    /// Start of the job.
    pub t_run: f64,
    /// Time when the job became inactive.
    pub t_inactive: f64,
    /// Ranks of the job, an idset.
    pub ranks: String,
    /// R of the job as in the KVS, a JSON text.
    pub r: String,
    /// Jobspec with all updates applied, a JSON text.
    pub jobspec: String,
    /// Name of the project; empty if the jobspec has none.
    pub project: String,
    /// Name of the bank; empty if the jobspec has none.
    pub bank: String,
    /// Time limit in seconds.
    pub requested_duration: f64,
    /// Run time in seconds.
    pub actual_duration: f64,
}

/// The columns in the order of [`JobRecord`]. The columns from the ninth on exist in newer schemas only.
const COLUMNS: &str =
    "id userid t_submit t_run t_inactive ranks R jobspec project bank requested_duration actual_duration";
const NEEDED_COUNT: usize = 8;

/// Columns without which usage can't be counted.
pub(super) const NEEDED_COLUMNS: [&str; 5] = ["id", "userid", "t_run", "t_inactive", "R"];

/// Latest valid time in seconds since the epoch (about 3,000 years), and longest valid duration. For much
/// larger times, an f64 is not exact to a second, and sums may overflow.
pub const LATEST: f64 = 1e11;

/// Returns true for a valid time or duration in seconds.
pub fn is_time(seconds: f64) -> bool {
    (0.0..=LATEST).contains(&seconds)
}

/// The columns of a record that counting needs, borrowed until the next record is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndedJob<'a> {
    /// Row number; later records have higher ones.
    pub row: i64,
    /// Job id in decimal.
    pub id: &'a str,
    /// User id.
    pub userid: i64,
    /// Time of submission; `None` if it is invalid ([`is_time`]).
    pub submitted: Option<f64>,
    /// Start and end of the job; `None` if one of them is invalid ([`is_time`]).
    pub times: Option<(f64, f64)>,
    /// R; `None` if it is not text.
    pub r: Option<&'a str>,
    /// Name of the bank, empty if the jobspec has none; `None` if the record has no such column.
    pub bank: Option<&'a str>,
    /// Name of the project; `None` if the record has no such column.
    pub project: Option<&'a str>,
    /// Jobspec. Only read if `bank` is `None`, if a queue has a charge factor, for the time limit of budgets, or for
    /// [`Which::InOrderOfSubmission`].
    pub jobspec: Option<&'a str>,
    /// Time limit in seconds, 0 if the job has none; `None` if the record has no such column.
    pub time_limit: Option<f64>,
    /// Resources and queue of a running job, which has no record yet. `None` for an ended job.
    pub running: Option<(Resources, Option<&'a str>)>,
}

/// The records that a query returns.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// All records.
    All,
    /// All records with their jobspecs, in the order of submission.
    InOrderOfSubmission,
    /// Records whose row number is greater than this number.
    After(i64),
    /// Records with these job ids, if they exist.
    Ids(&'a [u64]),
    /// Records of jobs that ended at this time or later.
    EndedSince(f64),
}

impl Snapshot<'_> {
    /// Adds records, except records whose job id exists already. Returns the number of added records. Committing
    /// the snapshot stores them.
    pub fn insert_jobs(&self, records: &[JobRecord]) -> StoreResult<u64> {
        let table = self.required_table("jobs")?;
        let missing: Vec<&str> =
            COLUMNS.split(' ').take(NEEDED_COUNT).filter(|name| !table.has_column(name)).collect();
        if !missing.is_empty() {
            return Err(self.schema_error(&format!("table jobs has no {}", missing.join(", "))));
        }
        let known: Vec<bool> = COLUMNS.split(' ').map(|name| table.has_column(name)).collect();
        let names: Vec<&str> =
            COLUMNS.split(' ').zip(&known).filter(|(_, known)| **known).map(|(name, _)| name).collect();
        let placeholders = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT OR IGNORE INTO jobs ({}) VALUES ({placeholders})", names.join(", "));
        self.run_sql(|| {
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
                let cells = cells.into_iter().zip(&known).filter(|(_, known)| **known).map(|(cell, _)| cell);
                inserted += statement.execute(params_from_iter(cells))? as u64;
            }
            Ok(inserted)
        })
    }

    /// Returns the end of the newest job on record that ended at or before `until`, or `None` if none exists.
    pub fn newest_inactive(&self, until: f64) -> StoreResult<Option<f64>> {
        self.required_table("jobs")?;
        let sql = "SELECT max(t_inactive) FROM jobs WHERE t_inactive <= ?1";
        self.run_sql(|| self.transaction.query_row(sql, [until], |row| row.get(0)))
    }

    /// Returns the end of the oldest job on record that has an end, or `None` if none exists.
    pub fn oldest_inactive(&self) -> StoreResult<Option<f64>> {
        self.required_table("jobs")?;
        let sql = "SELECT min(t_inactive) FROM jobs WHERE t_inactive > 0";
        self.run_sql(|| self.transaction.query_row(sql, [], |row| row.get(0)))
    }

    /// Calls `each` with the selected records, in the order of rows or of the given ids.
    pub fn ended_jobs(&self, which: Which<'_>, each: &mut dyn FnMut(EndedJob<'_>)) -> StoreResult<()> {
        let table = self.required_table("jobs")?;
        let number = self.job_rows()?;
        let has = |column: &'static str| if table.has_column(column) { column } else { "NULL" };
        let (bank, project, time_limit) = (has("bank"), has("project"), has("requested_duration"));
        let needs_jobspec = match which {
            Which::All | Which::After(_) => false,
            Which::InOrderOfSubmission => true,
            Which::EndedSince(_) | Which::Ids(_) => time_limit == "NULL",
        };
        let jobspec = if table.has_column("jobspec") && (needs_jobspec || self.has_charges()?) {
            "jobspec".to_owned()
        } else if table.has_column("jobspec") {
            format!("CASE WHEN {bank} IS NULL THEN jobspec END")
        } else {
            "NULL".to_owned()
        };
        let select = format!(
            "SELECT id, userid, t_run, t_inactive, R, {bank}, {jobspec}, {project}, {number}, {time_limit}, {} FROM jobs",
            has("t_submit")
        );
        let sql = match which {
            Which::All => format!("{select} ORDER BY {number}"),
            Which::InOrderOfSubmission => format!("{select} ORDER BY t_submit, CAST(id AS integer)"),
            Which::After(_) => format!("{select} WHERE {number} > ?1 ORDER BY {number}"),
            Which::Ids(_) => format!("{select} WHERE id = ?1"),
            Which::EndedSince(_) => format!("{select} WHERE t_inactive >= ?1"),
        };
        self.run_sql(|| {
            let mut statement = self.transaction.prepare(&sql)?;
            match which {
                Which::All | Which::InOrderOfSubmission => visit_records(statement.query([])?, each),
                Which::After(row) => visit_records(statement.query([row])?, each),
                Which::EndedSince(time) => visit_records(statement.query([time])?, each),
                Which::Ids(ids) => {
                    ids.iter().try_for_each(|id| visit_records(statement.query([id.to_string()])?, each))
                }
            }
        })?;
        self.check_database_unchanged()
    }

    /// Returns true if records have a column for the bank (since schema 24).
    pub fn has_job_bank_column(&self) -> StoreResult<bool> {
        Ok(self.required_table("jobs")?.has_column("bank"))
    }

    /// Returns the row of a record, or `None` if it was removed.
    pub fn find_row_of_job(&self, id: &str) -> StoreResult<Option<i64>> {
        let sql = format!("SELECT {} FROM jobs WHERE id = ?1", self.job_rows()?);
        self.run_sql(|| self.transaction.query_row(&sql, [id], |row| row.get(0)).optional())
    }

    /// Returns row and job id of the newest record, or `None` if no such record exists.
    pub fn last_job(&self) -> StoreResult<Option<(i64, String)>> {
        let number = self.job_rows()?;
        let sql = format!("SELECT {number}, CAST(id AS text) FROM jobs ORDER BY {number} DESC LIMIT 1");
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.run_sql(|| self.transaction.query_row(&sql, [], read).optional())
    }

    /// Returns the job id of the last record whose row is at most `row`.
    pub fn find_last_job_up_to_row(&self, row: i64) -> StoreResult<Option<String>> {
        let number = self.job_rows()?;
        let sql =
            format!("SELECT CAST(id AS text) FROM jobs WHERE {number} <= ?1 ORDER BY {number} DESC LIMIT 1");
        self.run_sql(|| self.transaction.query_row(&sql, [row], |row| row.get(0)).optional())
    }

    /// Returns the number of records of jobs that ended before `time`.
    pub fn count_jobs_ended_before(&self, time: f64) -> StoreResult<usize> {
        let sql = "SELECT count(*) FROM jobs WHERE t_inactive < ?1";
        let count: u32 = self.run_sql(|| self.transaction.query_row(sql, [time], |row| row.get(0)))?;
        Ok(count as usize)
    }

    /// Removes the records of jobs that ended before `time`, and returns their number.
    pub fn remove_jobs_before(&self, time: f64) -> StoreResult<usize> {
        let sql = "DELETE FROM jobs WHERE t_inactive < ?1";
        self.run_sql(|| self.transaction.execute(sql, [time]))
    }

    fn job_rows(&self) -> StoreResult<&'static str> {
        self.required_table("jobs")?.row_number().ok_or_else(|| {
            let text = "table jobs has no row numbers (rowid): it is a view or a table WITHOUT ROWID";
            self.error(Reason::Schema(text.into()))
        })
    }
}

fn visit_records(mut rows: rusqlite::Rows<'_>, each: &mut dyn FnMut(EndedJob<'_>)) -> rusqlite::Result<()> {
    while let Some(row) = rows.next()? {
        let text = |at| row.get_ref(at).ok().and_then(|value| value.as_str().ok());
        let number = |at| match row.get_ref(at) {
            Ok(ValueRef::Integer(number)) => Some(number as f64),
            Ok(value) => value.as_f64().ok(),
            Err(_) => None,
        };
        each(EndedJob {
            row: row.get(8)?,
            id: text(0).unwrap_or(""),
            userid: row.get_ref(1)?.as_i64().unwrap_or(-1),
            submitted: number(10).filter(|seconds| is_time(*seconds)),
            times: number(2).zip(number(3)).filter(|(run, end)| is_time(*run) && is_time(*end)),
            r: text(4),
            bank: text(5),
            jobspec: text(6),
            project: text(7),
            time_limit: number(9),
            running: None,
        });
    }
    Ok(())
}
