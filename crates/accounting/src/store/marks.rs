// SPDX-License-Identifier: LGPL-3.0-only
//! Stores the state of the usage rule `exact` between two runs: the period of the stored bins, and the records
//! that are counted. The state is one row of an additional table that flux-accounting ignores.
//!
//! Records are counted in the order in which they were added to the `jobs` table. The last counted record
//! therefore separates counted from new records, even if the record of an old job is added late. The marks
//! contain its job id, because rebuilding a database changes the row numbers, but not their order.
//!
//! The time of the last fetch is in a second table, because sites may fetch and count separately.

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row, params};

use super::{Reason, Snapshot, StoreResult};

/// The state that `sync` stores after it has counted usage. The next sync continues from this state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// Start of the period of bin 0.
    pub period_start: f64,
    /// `end_half_life_period` after the run.
    pub period_end: f64,
    /// Half-life in seconds.
    pub half_life: f64,
    /// Factor by which usage decayed at a boundary.
    pub decay: f64,
    /// Seconds after which usage was dropped.
    pub reset_period: f64,
    /// flux-accounting's `reconfigure_time` when the run read it.
    pub reconfigured: f64,
    /// Jobs that ended at or before this time do not count.
    pub since: f64,
    /// Job id of the last record; `None` if there was none.
    pub last_job: Option<String>,
    /// Time of the run.
    pub ran: f64,
    /// End of the newest counted job of each association, sorted by the association's [`Marks::key`]. Removed
    /// associations stay as long as they have usage, because flux-accounting restores them with their bins.
    pub counted: Vec<(u64, f64)>,
    /// Usage with continuous decay of each association that has usage, sorted by key. Includes removed associations.
    pub continuous: Vec<Continuous>,
    /// Job ids of records without an association.
    pub unplaced: Vec<u64>,
    /// Hash of the associations and of the `ignore_older_than` times of their banks.
    pub associations: u64,
    /// Number of the newest credit in the database; 0 if there was none.
    pub last_credit: i64,
    /// Usage from credits of each association that has credits, sorted by key.
    pub credits: Vec<CreditedUsage>,
}

/// The sum of the credits of an association.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreditedUsage {
    /// Key of the association ([`Marks::key`]).
    pub key: u64,
    /// Usage with continuous decay at the time `period_start`. It is negative if credits subtract more usage than they add.
    pub live: f64,
    /// The usage of each half-life period, the current period first. This usage decays only at period boundaries.
    pub bins: Vec<f64>,
}

/// The usage of an association with continuous decay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Continuous {
    /// Key of the association ([`Marks::key`]).
    pub key: u64,
    /// The usage with decay at boundaries only, which the run stored for flux-accounting.
    pub usage: f64,
    /// Usage of each bin at the time `period_start`, the current period first.
    pub bins: Vec<f64>,
}

/// The state after the last complete fetch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastFetchState {
    /// Time of the fetch.
    pub fetched: f64,
    /// End of the oldest job that ever had a record; `None` if no job had one.
    pub oldest: Option<f64>,
}

const MARKS: &str = "fairshare_usage_marks";
const FETCH_MARKS: &str = "fairshare_fetch_marks";
const COLUMNS: &str = "period_start, period_end, half_life, decay, reset_period, reconfigured, since, last_job, ran, \
                       counted, unplaced, associations, continuous, credits";
/// Columns that older versions did not have.
const NEW_COLUMNS: [&str; 2] = ["continuous", "credits"];

impl Marks {
    /// Returns the key of an association (FNV-1a). The probability that two of a million keys are equal is one in
    /// forty million.
    pub fn key(user: &str, bank: &str) -> u64 {
        let letters = user.bytes().chain([0xff]).chain(bank.bytes());
        letters.fold(0xcbf2_9ce4_8422_2325, |hash, letter| {
            (hash ^ u64::from(letter)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    /// Returns the end of the newest counted job of an association, or 0 if none was counted.
    pub fn newest(&self, key: u64) -> f64 {
        let found = self.counted.binary_search_by_key(&key, |(known, _)| *known).ok();
        found.and_then(|at| self.counted.get(at)).map_or(0.0, |(_, newest)| *newest)
    }

    /// Returns the usage of an association with continuous decay, or `None` if it had no usage at the last run.
    pub fn continuous(&self, key: u64) -> Option<&Continuous> {
        let at = self.continuous.binary_search_by_key(&key, |known| known.key).ok()?;
        self.continuous.get(at)
    }

    /// Returns the usage of an association with continuous decay at the time `period_start`, from its jobs and credits. It is
    /// negative if the credits subtract more than the jobs used.
    pub fn live_usage(&self, key: u64) -> f64 {
        let jobs = self.continuous(key).map_or(0.0, |known| known.bins.iter().sum());
        jobs + self.credited(key).map_or(0.0, |credits| credits.live)
    }

    /// Returns the usage from credits of an association, or `None` if it has no credits.
    pub fn credited(&self, key: u64) -> Option<&CreditedUsage> {
        let at = self.credits.binary_search_by_key(&key, |known| known.key).ok()?;
        self.credits.get(at)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Marks> {
        let mut credits = read_u64_values(row.get_ref(13)?);
        Ok(Marks {
            period_start: row.get(0)?,
            period_end: row.get(1)?,
            half_life: row.get(2)?,
            decay: row.get(3)?,
            reset_period: row.get(4)?,
            reconfigured: row.get(5)?,
            since: row.get(6)?,
            last_job: row.get(7)?,
            ran: row.get(8)?,
            counted: read_u64_values(row.get_ref(9)?)
                .collect::<Vec<_>>()
                .chunks_exact(2)
                .filter_map(|pair| Some((*pair.first()?, f64::from_bits(*pair.get(1)?))))
                .collect(),
            unplaced: read_u64_values(row.get_ref(10)?).collect(),
            associations: u64::from_ne_bytes(row.get::<_, i64>(11)?.to_ne_bytes()),
            continuous: read_bins(read_u64_values(row.get_ref(12)?))
                .map(|(key, usage, bins)| Continuous { key, usage, bins })
                .collect(),
            last_credit: credits.next().map_or(0, u64::cast_signed),
            credits: read_bins(credits).map(|(key, live, bins)| CreditedUsage { key, live, bins }).collect(),
        })
    }
}

fn read_u64_values(blob: ValueRef<'_>) -> impl Iterator<Item = u64> + '_ {
    let bytes = blob.as_blob().unwrap_or_default();
    bytes.chunks_exact(8).filter_map(|chunk| Some(u64::from_le_bytes(chunk.try_into().ok()?)))
}

/// Decodes the words that [`write_bins`] encodes: for each association its key, a usage, and its usage by period.
fn read_bins(mut words: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, f64, Vec<f64>)> {
    std::iter::from_fn(move || {
        let (key, number, length) = (words.next()?, words.next()?, words.next()?);
        let bins = words.by_ref().take(usize::try_from(length).ok()?).map(f64::from_bits).collect();
        Some((key, f64::from_bits(number), bins))
    })
}

/// Encodes the usage of an association by period as 64-bit words. [`read_bins`] decodes these words.
fn write_bins(key: u64, number: f64, bins: &[f64]) -> impl Iterator<Item = u64> + '_ {
    [key, number.to_bits(), bins.len() as u64].into_iter().chain(bins.iter().map(|bin| bin.to_bits()))
}

impl Snapshot<'_> {
    /// Reads the state that the last sync stored. Returns `None` if no sync has stored its state.
    pub fn marks(&self) -> StoreResult<Option<Marks>> {
        let Some(table) = self.table(MARKS)? else { return Ok(None) };
        let missing = NEW_COLUMNS.iter().filter(|name| !table.has_column(name));
        let columns = missing.fold(COLUMNS.to_owned(), |columns, name| columns.replace(name, "NULL"));
        let sql = format!("SELECT {columns} FROM {MARKS} WHERE one = 1");
        self.transaction.query_row(&sql, [], Marks::read).optional().map_err(|error| match error {
            rusqlite::Error::SqlInputError { .. } | rusqlite::Error::InvalidColumnType(..) => {
                let text = format!(
                    "table fairshare_usage_marks has an unknown format ({error}): remove it with DROP TABLE fairshare_usage_marks, then \
                     \"flux fairshare recount --write\" recounts usage from the job records"
                );
                self.error(Reason::Value(text.into()))
            }
            _ => self.sqlite_error(&error),
        })
    }

    /// Writes the state of a sync. The state is stored when the snapshot is committed.
    pub fn write_usage_marks(&self, marks: &Marks) -> StoreResult<()> {
        let encode_words =
            |words: &mut dyn Iterator<Item = u64>| words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        let old = self.table(MARKS)?;
        let missing = |name: &&&str| old.as_ref().is_some_and(|table| !table.has_column(name));
        self.run_sql(|| {
            self.transaction.execute_batch(
                "CREATE TABLE IF NOT EXISTS fairshare_usage_marks (
                     one integer PRIMARY KEY CHECK (one = 1), period_start real, period_end real, half_life real,
                     decay real, reset_period real, reconfigured real, since real, last_job text, ran real,
                     counted blob, unplaced blob, associations integer, continuous blob, credits blob)",
            )?;
            for name in NEW_COLUMNS.iter().filter(missing) {
                self.transaction.execute_batch(&format!("ALTER TABLE {MARKS} ADD COLUMN {name} blob"))?;
            }
            let counted =
                encode_words(&mut marks.counted.iter().flat_map(|(key, newest)| [*key, newest.to_bits()]));
            let unplaced = encode_words(&mut marks.unplaced.iter().copied());
            let mut continuous =
                marks.continuous.iter().flat_map(|known| write_bins(known.key, known.usage, &known.bins));
            let continuous = encode_words(&mut continuous);
            let credits =
                marks.credits.iter().flat_map(|known| write_bins(known.key, known.live, &known.bins));
            let credits =
                encode_words(&mut std::iter::once(marks.last_credit.cast_unsigned()).chain(credits));
            let sql = format!(
                "INSERT OR REPLACE INTO fairshare_usage_marks (one, {COLUMNS})
                 VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
            );
            let associations = i64::from_ne_bytes(marks.associations.to_ne_bytes());
            self.transaction.execute(
                &sql,
                params![
                    marks.period_start,
                    marks.period_end,
                    marks.half_life,
                    marks.decay,
                    marks.reset_period,
                    marks.reconfigured,
                    marks.since,
                    marks.last_job,
                    marks.ran,
                    counted,
                    unplaced,
                    associations,
                    continuous,
                    credits
                ],
            )?;
            Ok(())
        })
    }

    /// Reads the state of the last complete fetch, or `None` if there was none.
    pub fn read_last_fetch_state(&self) -> StoreResult<Option<LastFetchState>> {
        let Some(table) = self.table(FETCH_MARKS)? else { return Ok(None) };
        // Older versions did not have this column.
        let oldest = if table.has_column("oldest") { "CAST(oldest AS real)" } else { "NULL" };
        let sql = format!("SELECT CAST(fetched AS real), {oldest} FROM {FETCH_MARKS} WHERE one = 1");
        let read = |row: &Row<'_>| Ok((row.get::<_, Option<f64>>(0)?, row.get(1)?));
        let found = self.run_sql(|| self.transaction.query_row(&sql, [], read).optional())?;
        Ok(found.and_then(|(fetched, oldest)| Some(LastFetchState { fetched: fetched?, oldest })))
    }

    /// Returns the time of the last sync on record, in seconds since the epoch: the later of the last fetch and the last count. If a
    /// sync finds nothing new, it updates the record only after ten minutes.
    pub fn last_sync(&self) -> StoreResult<Option<f64>> {
        let fetched = self.read_last_fetch_state()?.map(|marks| marks.fetched);
        let ran = self.marks()?.map(|marks| marks.ran);
        Ok(fetched.into_iter().chain(ran).reduce(f64::max))
    }

    /// Writes the state of a complete fetch. It is stored when the snapshot is committed.
    pub fn store_complete_fetch_state(&self, marks: LastFetchState) -> StoreResult<()> {
        let lacks_oldest = self.table(FETCH_MARKS)?.is_some_and(|table| !table.has_column("oldest"));
        self.run_sql(|| {
            self.transaction.execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS {FETCH_MARKS} (
                     one integer PRIMARY KEY CHECK (one = 1), fetched real, oldest real)"
            ))?;
            if lacks_oldest {
                self.transaction
                    .execute_batch(&format!("ALTER TABLE {FETCH_MARKS} ADD COLUMN oldest real"))?;
            }
            let sql =
                format!("INSERT OR REPLACE INTO {FETCH_MARKS} (one, fetched, oldest) VALUES (1, ?1, ?2)");
            self.transaction.execute(&sql, (marks.fetched, marks.oldest)).map(drop)
        })
    }
}
