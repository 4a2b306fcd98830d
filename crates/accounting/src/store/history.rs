// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the `jobs` table as a history: the submissions and their resources.

use super::jobs::is_time;
use super::{Snapshot, StoreResult};

/// A past job, borrowed until the next one is read. Times are seconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub struct RecordedJob<'a> {
    /// User id.
    pub userid: i64,
    /// Times of submission, start and end; `None` if one of them is invalid ([`is_time`]).
    pub times: Option<[f64; 3]>,
    /// R; `None` if it is not text.
    pub r: Option<&'a str>,
    /// Jobspec; `None` if the record has none.
    pub jobspec: Option<&'a str>,
    /// Name of the bank; `None` if the record has none.
    pub bank: Option<&'a str>,
    /// Time limit in seconds; `None` if the record has none.
    pub requested: Option<f64>,
}

impl Snapshot<'_> {
    /// Calls `each` with each record of an ended job, in the order of submission.
    pub fn visit_past_jobs(&self, each: &mut dyn FnMut(RecordedJob<'_>)) -> StoreResult<()> {
        let table = self.required_table("jobs")?;
        let has = |column: &'static str| if table.has_column(column) { column } else { "NULL" };
        let sql = format!(
            "SELECT userid, t_submit, t_run, t_inactive, R, {}, {}, {} FROM jobs ORDER BY t_submit, CAST(id AS integer)",
            has("jobspec"),
            has("bank"),
            has("requested_duration")
        );
        self.run_sql(|| {
            let mut statement = self.transaction.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let text = |at| row.get_ref(at).ok().and_then(|value| value.as_str().ok());
                let number = |at| match row.get_ref(at) {
                    Ok(rusqlite::types::ValueRef::Integer(number)) => Some(number as f64),
                    Ok(value) => value.as_f64().ok().filter(|number| number.is_finite()),
                    Err(_) => None,
                };
                let time = |at| number(at).filter(|seconds| is_time(*seconds));
                let times = || Some([time(1)?, time(2)?, time(3)?]);
                each(RecordedJob {
                    userid: row.get_ref(0)?.as_i64().unwrap_or(-1),
                    times: times(),
                    r: text(4),
                    jobspec: text(5),
                    bank: text(6),
                    requested: number(7),
                });
            }
            Ok(())
        })?;
        self.check_database_unchanged()
    }
}
