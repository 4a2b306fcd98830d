// SPDX-License-Identifier: LGPL-3.0-only
//! The `jobs` table as a history: what was submitted when, and what it took.

use super::jobs::is_time;
use super::{Snapshot, StoreError};

/// A job of the past, valid until the next one is read. Times are seconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub struct PastJob<'a> {
    /// Who ran it.
    pub userid: i64,
    /// When it was submitted, began to run and became inactive; `None` if one of them is no time ([`is_time`]).
    pub times: Option<[f64; 3]>,
    /// R; `None` if it is no text.
    pub r: Option<&'a str>,
    /// Its jobspec; `None` where the record does not say.
    pub jobspec: Option<&'a str>,
    /// Its bank; `None` where the record does not say.
    pub bank: Option<&'a str>,
    /// The run time it asked for, in seconds; `None` where the record does not say.
    pub requested: Option<f64>,
}

impl Snapshot<'_> {
    /// Calls for each record of an ended job, in the order of submission.
    pub fn past_jobs(&self, each: &mut dyn FnMut(PastJob<'_>)) -> Result<(), StoreError> {
        let table = self.needed_table("jobs")?;
        let has = |column: &'static str| if table.has(column) { column } else { "NULL" };
        let sql = format!(
            "SELECT userid, t_submit, t_run, t_inactive, R, {}, {}, {} FROM jobs ORDER BY t_submit, CAST(id AS integer)",
            has("jobspec"),
            has("bank"),
            has("requested_duration")
        );
        let mut read = || -> rusqlite::Result<()> {
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
                each(PastJob {
                    userid: row.get_ref(0)?.as_i64().unwrap_or(-1),
                    times: times(),
                    r: text(4),
                    jobspec: text(5),
                    bank: text(6),
                    requested: number(7),
                });
            }
            Ok(())
        };
        read().map_err(|error| self.fail(&error))?;
        self.check_unchanged()
    }
}
