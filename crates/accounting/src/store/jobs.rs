// SPDX-License-Identifier: LGPL-3.0-only
//! The `jobs` table: records of ended jobs.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, params_from_iter};

use super::{Reason, Snapshot, StoreError};

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

/// The columns that counting needs.
pub(super) const NEEDED_COLUMNS: [&str; 5] = ["id", "userid", "t_run", "t_inactive", "R"];

/// No time is later than that many seconds since the epoch, 3,000 years, and nothing lasts longer. Where a number is much greater,
/// a second is less than its last digit: sums come to infinity, and time would not go on.
pub const LATEST: f64 = 1e11;

/// True for seconds that can be reckoned with.
pub fn is_time(seconds: f64) -> bool {
    (0.0..=LATEST).contains(&seconds)
}

/// A record as counting sees it, valid until the next one is read.
#[derive(Clone, Copy, Debug)]
pub struct EndedJob<'a> {
    /// Its row: records that came later have higher ones.
    pub row: i64,
    /// The job id, in decimal.
    pub id: &'a str,
    /// Who ran it.
    pub userid: i64,
    /// When it began to run and when it became inactive; `None` if one of them is no time ([`is_time`]).
    pub times: Option<(f64, f64)>,
    /// R; `None` if it is no text.
    pub r: Option<&'a str>,
    /// Its bank, empty where the jobspec names none; `None` where the record does not say.
    pub bank: Option<&'a str>,
    /// Its project; `None` where the record does not say.
    pub project: Option<&'a str>,
    /// Its jobspec, read only where `bank` is `None`.
    pub jobspec: Option<&'a str>,
}

/// Which records are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// All of them.
    All,
    /// Those in rows after this one.
    After(i64),
    /// Those with these ids, as far as they exist.
    Ids(&'a [u64]),
}

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

    /// When the newest job on record ended, of those that ended up to this time; `None` if there is none.
    pub fn newest_inactive(&self, until: f64) -> Result<Option<f64>, StoreError> {
        self.needed_table("jobs")?;
        let sql = "SELECT max(t_inactive) FROM jobs WHERE t_inactive <= ?1";
        self.transaction.query_row(sql, [until], |row| row.get(0)).map_err(|error| self.fail(&error))
    }

    /// When the oldest job on record ended; `None` if there is none. A record that says no time counts for none.
    pub fn oldest_inactive(&self) -> Result<Option<f64>, StoreError> {
        self.needed_table("jobs")?;
        let sql = "SELECT min(t_inactive) FROM jobs WHERE t_inactive > 0";
        self.transaction.query_row(sql, [], |row| row.get(0)).map_err(|error| self.fail(&error))
    }

    /// Calls for each of these records in the order of their rows, or of their ids.
    pub fn ended_jobs(&self, which: Which<'_>, each: &mut dyn FnMut(EndedJob<'_>)) -> Result<(), StoreError> {
        let table = self.needed_table("jobs")?;
        let number = self.job_rows()?;
        let has = |column: &'static str| if table.has(column) { column } else { "NULL" };
        let (bank, project) = (has("bank"), has("project"));
        let jobspec = if table.has("jobspec") {
            format!("CASE WHEN {bank} IS NULL THEN jobspec END")
        } else {
            "NULL".to_owned()
        };
        let select = format!(
            "SELECT id, userid, t_run, t_inactive, R, {bank}, {jobspec}, {project}, {number} FROM jobs"
        );
        let sql = match which {
            Which::All => format!("{select} ORDER BY {number}"),
            Which::After(_) => format!("{select} WHERE {number} > ?1 ORDER BY {number}"),
            Which::Ids(_) => format!("{select} WHERE id = ?1"),
        };
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.transaction.prepare(&sql)?;
            match which {
                Which::All => each_record(statement.query([])?, each),
                Which::After(row) => each_record(statement.query([row])?, each),
                Which::Ids(ids) => {
                    ids.iter().try_for_each(|id| each_record(statement.query([id.to_string()])?, each))
                }
            }
        };
        read().map_err(|error| self.fail(&error))?;
        self.check_unchanged()
    }

    /// True where records have a place for their bank, as since schema 24.
    pub fn jobs_name_banks(&self) -> Result<bool, StoreError> {
        Ok(self.needed_table("jobs")?.has("bank"))
    }

    /// The row of a record; `None` if it is not there any more.
    pub fn row_of_job(&self, id: &str) -> Result<Option<i64>, StoreError> {
        let sql = format!("SELECT {} FROM jobs WHERE id = ?1", self.job_rows()?);
        self.transaction.query_row(&sql, [id], |row| row.get(0)).optional().map_err(|error| self.fail(&error))
    }

    /// Row and id of the record that came last; `None` if there is none.
    pub fn last_job(&self) -> Result<Option<(i64, String)>, StoreError> {
        let number = self.job_rows()?;
        let sql = format!("SELECT {number}, CAST(id AS text) FROM jobs ORDER BY {number} DESC LIMIT 1");
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.transaction.query_row(&sql, [], read).optional().map_err(|error| self.fail(&error))
    }

    /// The id of the newest record in a row up to this one.
    pub fn last_job_until(&self, row: i64) -> Result<Option<String>, StoreError> {
        let number = self.job_rows()?;
        let sql =
            format!("SELECT CAST(id AS text) FROM jobs WHERE {number} <= ?1 ORDER BY {number} DESC LIMIT 1");
        self.transaction
            .query_row(&sql, [row], |row| row.get(0))
            .optional()
            .map_err(|error| self.fail(&error))
    }

    /// How many records are of jobs that ended before this time.
    pub fn count_jobs_before(&self, time: f64) -> Result<usize, StoreError> {
        let sql = "SELECT count(*) FROM jobs WHERE t_inactive < ?1";
        let count = self.transaction.query_row(sql, [time], |row| row.get::<_, u32>(0));
        count.map(|count| count as usize).map_err(|error| self.fail(&error))
    }

    /// Removes the records of jobs that ended before this time, and says how many there were.
    pub fn remove_jobs_before(&self, time: f64) -> Result<usize, StoreError> {
        let sql = "DELETE FROM jobs WHERE t_inactive < ?1";
        self.transaction.execute(sql, [time]).map_err(|error| self.fail(&error))
    }

    fn job_rows(&self) -> Result<&'static str, StoreError> {
        self.needed_table("jobs")?.row_number().ok_or_else(|| {
            self.error(Reason::Schema(
                "jobs has no row numbers: it is a view, or made WITHOUT ROWID".to_owned(),
            ))
        })
    }
}

fn each_record(mut rows: rusqlite::Rows<'_>, each: &mut dyn FnMut(EndedJob<'_>)) -> rusqlite::Result<()> {
    while let Some(row) = rows.next()? {
        let text = |at| row.get_ref(at).ok().and_then(|value| value.as_str().ok());
        let number = |at| row.get_ref(at).ok().and_then(|value| value.as_f64().ok());
        each(EndedJob {
            row: row.get(8)?,
            id: text(0).unwrap_or(""),
            userid: row.get_ref(1)?.as_i64().unwrap_or(-1),
            times: number(2).zip(number(3)).filter(|(run, end)| is_time(*run) && is_time(*end)),
            r: text(4),
            bank: text(5),
            jobspec: text(6),
            project: text(7),
        });
    }
    Ok(())
}
