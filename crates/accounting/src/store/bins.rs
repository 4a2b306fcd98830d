// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and writes bins: the usage of an association in one half-life period. Bins are rows of a table, or
//! columns of the factor table in older schemas. Also writes the other changes of [`UsageChanges`].

use std::collections::HashMap;

use rusqlite::Params;

use super::ledger::{AccountFinder, MOST_PERIODS};
use super::schema::Column;
use super::{Fault, Ledger, Snapshot, StoreResult};

/// The stored usage of one association in one half-life period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredBin {
    /// Age of the period; 0 is the current one.
    pub period: i64,
    /// Usage of the period.
    pub value: f64,
    /// User id in the database row of this usage.
    pub userid: i64,
    /// Row number.
    row: i64,
}

/// The stored bins, in ascending order of periods.
#[derive(Clone, Debug, Default)]
pub struct Bins {
    /// The bins of each association, by its index in the ledger.
    pub by_account: Vec<Vec<StoredBin>>,
    /// Bins of pairs of user and bank that are no longer associations. Rows with invalid numbers are left out.
    pub removed: Vec<Vec<StoredBin>>,
    /// Number of bins that are columns of the factor table; 0 if bins are rows.
    columns: usize,
}

/// The changes that a count of usage makes. Associations and banks are indices in the ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageChanges {
    /// Association and new usage.
    pub usages: Vec<(usize, f64)>,
    /// Association, and end of its newest counted job.
    pub newest: Vec<(usize, f64)>,
    /// Association, period and new value of changed bins.
    pub bins: Vec<(usize, i64, f64)>,
    /// Changed bins of (user, bank) pairs that are no longer associations, with their new values.
    pub removed: Vec<(StoredBin, f64)>,
    /// Associations whose old bins are deleted, each with the first period of the deleted bins.
    pub dropped: Vec<(usize, i64)>,
    /// New usage of banks, each with the index of its bank.
    pub banks: Vec<(usize, f64)>,
    /// New end of the half-life period.
    pub period_end: Option<f64>,
}

const KEY: [Column; 3] = [("username", None), ("userid", None), ("bank", None)];
const BIN: [Column; 5] =
    [("username", None), ("userid", None), ("bank", None), ("period", None), ("value", Some("0.0"))];

impl UsageChanges {
    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        *self == UsageChanges::default()
    }
}

impl Bins {
    /// Returns the stored bin of an association for a period.
    pub fn stored(&self, account: usize, period: i64) -> Option<&StoredBin> {
        let bins = self.by_account.get(account)?;
        // If no row is missing, the index of a bin is its period.
        let at_index =
            usize::try_from(period).ok().and_then(|at| bins.get(at)).filter(|bin| bin.period == period);
        at_index.or_else(|| bins.iter().find(|bin| bin.period == period))
    }

    /// Returns true if the database has no column for a period.
    pub fn is_beyond(&self, period: i64) -> bool {
        self.columns > 0 && usize::try_from(period).map_or(true, |period| period >= self.columns)
    }
}

impl Snapshot<'_> {
    /// Reads the stored usage of all periods, including the usage of users who are no longer in their bank.
    pub fn bins(&self, ledger: &Ledger) -> StoreResult<Bins> {
        let columns = self.bin_columns()?;
        let mut bins =
            Bins { by_account: vec![Vec::new(); ledger.accounts.len()], removed: Vec::new(), columns };
        let mut finder = AccountFinder::new(ledger);
        if columns > 0 {
            let select = self.select_with_row_numbers("job_usage_factor_table", &KEY)?;
            let names: Vec<String> =
                (0..columns).map(|period| format!(", usage_factor_period_{period}")).collect();
            let select = select.replacen(" FROM", &format!("{} FROM", names.concat()), 1);
            self.visit_rows(&select, "job_usage_factor_table", &["username", "userid", "bank"], |cells| {
                let stored = || -> Result<Vec<StoredBin>, Fault> {
                    let (userid, row) = (cells.user_id(1), cells.integer(3)?);
                    let value = |period| cells.number_if_any(4 + period).unwrap_or(0.0);
                    let bin = |period| StoredBin { period: period as i64, value: value(period), userid, row };
                    Ok((0..columns).map(bin).collect())
                };
                match finder.find(cells.text(0)?, cells.text(2)?).and_then(|at| bins.by_account.get_mut(at)) {
                    Some(own) => own.extend(stored()?),
                    None => bins.removed.extend(stored()),
                }
                Ok(())
            })?;
            return Ok(bins);
        }
        let mut removed: HashMap<(String, String), Vec<StoredBin>> = HashMap::new();
        self.visit_numbered_rows("job_usage_per_association_table", &BIN, |cells| {
            let (user, bank) = (cells.text(0)?, cells.text(2)?);
            let stored = || -> Result<StoredBin, Fault> {
                let value = cells.number_if_any(4).unwrap_or(0.0);
                let period = cells.integer(3)?;
                if !(0..MOST_PERIODS).contains(&period) {
                    let text = format!(
                        "job_usage_per_association_table: {user} in {bank} has period {period}, expected at \
                         least 0 and less than {MOST_PERIODS}"
                    );
                    return Err(text.into());
                }
                Ok(StoredBin { period, value, userid: cells.user_id(1), row: cells.integer(5)? })
            };
            match finder.find(user, bank).and_then(|at| bins.by_account.get_mut(at)) {
                Some(own) => own.push(stored()?),
                None => {
                    if let Ok(bin) = stored() {
                        removed.entry((user.to_owned(), bank.to_owned())).or_default().push(bin);
                    }
                }
            }
            Ok(())
        })?;
        bins.removed = removed.into_values().collect();
        for sorted in bins.by_account.iter_mut().chain(&mut bins.removed) {
            if !sorted.is_sorted_by_key(|bin| bin.period) {
                sorted.sort_by_key(|bin| bin.period);
            }
        }
        Ok(bins)
    }

    /// Writes `changes` into the transaction.
    pub fn write_usage(
        &self,
        ledger: &Ledger,
        bins: &Bins,
        changes: &UsageChanges,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<()> {
        let (associations, factors, banks) = (
            self.row_number("association_table")?,
            self.row_number("job_usage_factor_table")?,
            self.row_number("bank_table")?,
        );
        let account = |at: usize| ledger.accounts.get(at);
        let usages = changes.usages.iter().filter_map(|(at, usage)| Some((account(*at)?.row, *usage)));
        let counted = |at: usize| account(at).and_then(|account| account.counted);
        let newest = changes.newest.iter().filter_map(|(at, newest)| Some((counted(*at)?.row, *newest)));
        let uncounted = changes.newest.iter().filter(|(at, _)| counted(*at).is_none());
        let uncounted = uncounted.filter_map(|(at, newest)| {
            let (user, userid, bank) = ledger.key(*at)?;
            Some((user, userid, bank, *newest))
        });
        let bank_row = |at: usize| ledger.banks.get(at)?.row;
        let bank_usages = changes.banks.iter().filter_map(|(at, usage)| Some((bank_row(*at)?, *usage)));
        let mut done = 0;
        let mut report_progress = || {
            done += 1;
            if done % 8192 == 0 {
                progress(done);
            }
        };
        self.run_sql(|| {
            let sql = format!("UPDATE association_table SET job_usage = ?2 WHERE {associations} = ?1");
            self.execute_for_each(&sql, usages, &mut report_progress)?;
            let sql =
                format!("UPDATE job_usage_factor_table SET last_job_timestamp = ?2 WHERE {factors} = ?1");
            self.execute_for_each(&sql, newest, &mut report_progress)?;
            let sql = "INSERT INTO job_usage_factor_table (username, userid, bank, last_job_timestamp) VALUES (?1, ?2, ?3, ?4)";
            self.execute_for_each(sql, uncounted, &mut report_progress)?;
            let sql = format!("UPDATE bank_table SET job_usage = ?2 WHERE {banks} = ?1");
            self.execute_for_each(&sql, bank_usages, &mut report_progress)?;
            if let Some(end) = changes.period_end {
                let sql =
                    "UPDATE t_half_life_period_table SET end_half_life_period = ?1 WHERE cluster = 'cluster'";
                self.transaction.execute(sql, [end])?;
            }
            if bins.columns > 0 {
                self.write_columns(ledger, bins, changes, factors, &mut report_progress)
            } else {
                self.write_rows(ledger, bins, changes, &mut report_progress)
            }
        })
    }

    /// Executes a statement once for each set of parameters.
    pub(super) fn execute_for_each<P: Params>(
        &self,
        sql: &str,
        all: impl Iterator<Item = P>,
        report_progress: &mut dyn FnMut(),
    ) -> rusqlite::Result<()> {
        let mut statement = self.transaction.prepare(sql)?;
        for parameters in all {
            statement.execute(parameters)?;
            report_progress();
        }
        Ok(())
    }

    fn write_rows(
        &self,
        ledger: &Ledger,
        bins: &Bins,
        changes: &UsageChanges,
        report_progress: &mut dyn FnMut(),
    ) -> rusqlite::Result<()> {
        if changes.bins.is_empty() && changes.removed.is_empty() && changes.dropped.is_empty() {
            return Ok(());
        }
        let number =
            self.required_table("job_usage_per_association_table").ok().and_then(|table| table.row_number());
        let sql = format!(
            "UPDATE job_usage_per_association_table SET value = ?2 WHERE {} = ?1",
            number.unwrap_or("rowid")
        );
        let row = |(at, period, _): &(usize, i64, f64)| bins.stored(*at, *period).map(|bin| bin.row);
        let changed = changes.bins.iter().filter_map(|change| Some((row(change)?, change.2)));
        let removed = changes.removed.iter().map(|(bin, value)| (bin.row, *value));
        self.execute_for_each(&sql, changed.chain(removed), report_progress)?;
        let sql = "INSERT INTO job_usage_per_association_table (username, userid, bank, period, value) VALUES (?1, ?2, ?3, ?4, ?5)";
        let new = changes.bins.iter().filter(|change| row(change).is_none());
        let new = new.filter_map(|(at, period, value)| {
            let (user, userid, bank) = ledger.key(*at)?;
            Some((user, userid, bank, *period, *value))
        });
        self.execute_for_each(sql, new, report_progress)?;
        let sql =
            "DELETE FROM job_usage_per_association_table WHERE username = ?1 AND bank = ?2 AND period >= ?3";
        let dropped = changes.dropped.iter().filter_map(|(at, period)| {
            let (user, _, bank) = ledger.key(*at)?;
            Some((user, bank, *period))
        });
        self.execute_for_each(sql, dropped, report_progress)
    }

    fn write_columns(
        &self,
        ledger: &Ledger,
        bins: &Bins,
        changes: &UsageChanges,
        number: &str,
        report_progress: &mut dyn FnMut(),
    ) -> rusqlite::Result<()> {
        for period in 0..bins.columns {
            let column = format!("usage_factor_period_{period}");
            let is_here = |other: i64| other == period as i64;
            let sql =
                format!("UPDATE job_usage_factor_table SET {column} = ?3 WHERE (username, bank) = (?1, ?2)");
            let changed = changes.bins.iter().filter(|change| is_here(change.1));
            let changed = changed.filter_map(|(at, _, value)| {
                let (user, _, bank) = ledger.key(*at)?;
                Some((user, bank, *value))
            });
            self.execute_for_each(&sql, changed, report_progress)?;
            let sql = format!("UPDATE job_usage_factor_table SET {column} = ?2 WHERE {number} = ?1");
            let removed = changes.removed.iter().filter(|change| is_here(change.0.period));
            self.execute_for_each(&sql, removed.map(|(bin, value)| (bin.row, *value)), report_progress)?;
        }
        Ok(())
    }
}
