// SPDX-License-Identifier: LGPL-3.0-only
//! Usage by half-life period: rows of a table of their own, or in older schemas columns of the factor table. And how all
//! that counting changes is written back.

use std::collections::HashMap;

use super::ledger::{Finder, MOST_PERIODS};
use super::schema::Column;
use super::{Ledger, Reason, Snapshot, StoreError};

/// One stored bin of an association.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredBin {
    /// Which period; 0 is the present one.
    pub period: i64,
    /// The usage in it.
    pub value: f64,
    /// The user id as this table has it.
    pub userid: i64,
    /// Where it is stored.
    row: i64,
}

/// The bins of all associations, by their place in the ledger, in ascending order of periods.
#[derive(Clone, Debug, Default)]
pub struct Bins {
    /// By association.
    pub of: Vec<Vec<StoredBin>>,
    /// Bins of (user, bank) pairs that are no association now. Rows of theirs whose numbers can't be read are left out.
    pub away: Vec<Vec<StoredBin>>,
    /// The number of columns where bins are columns of the factor table.
    columns: usize,
}

/// What counting changes. Numbers are places in the ledger.
#[derive(Clone, Debug, Default)]
pub struct UsageChanges {
    /// Usages of associations.
    pub usages: Vec<(usize, f64)>,
    /// When their newest counted job ended.
    pub newest: Vec<(usize, f64)>,
    /// Association, period and value of bins.
    pub bins: Vec<(usize, i64, f64)>,
    /// Bins of who is in no association any more, as they are stored, and their new values.
    pub away: Vec<(StoredBin, f64)>,
    /// Bins that are kept no longer: association and the first period that goes.
    pub forgotten: Vec<(usize, i64)>,
    /// Usages of banks.
    pub banks: Vec<(usize, f64)>,
    /// The end of the half-life period.
    pub period_end: Option<f64>,
}

const KEY: [Column; 3] = [("username", None), ("userid", None), ("bank", None)];
const BIN: [Column; 5] =
    [("username", None), ("userid", None), ("bank", None), ("period", None), ("value", Some("0.0"))];

impl UsageChanges {
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let UsageChanges { usages, newest, bins, away, forgotten, banks, period_end } = self;
        usages.is_empty()
            && newest.is_empty()
            && bins.is_empty()
            && away.is_empty()
            && forgotten.is_empty()
            && banks.is_empty()
            && period_end.is_none()
    }
}

impl Bins {
    /// The stored bin of an association's period.
    pub fn stored(&self, account: usize, period: i64) -> Option<&StoredBin> {
        let of = self.of.get(account)?;
        // Where no row is missing, bin and place are the same.
        let there = usize::try_from(period).ok().and_then(|at| of.get(at)).filter(|bin| bin.period == period);
        there.or_else(|| of.iter().find(|bin| bin.period == period))
    }

    /// True if a period has no place to be stored in: bins that are columns don't grow.
    pub fn is_beyond(&self, period: i64) -> bool {
        self.columns > 0 && usize::try_from(period).map_or(true, |period| period >= self.columns)
    }
}

impl Snapshot<'_> {
    /// The bins of all associations, and of those who were some.
    pub fn bins(&self, ledger: &Ledger) -> Result<Bins, StoreError> {
        let columns = self.bin_columns()?;
        let mut bins = Bins { of: vec![Vec::new(); ledger.accounts.len()], away: Vec::new(), columns };
        let mut finder = Finder::new(ledger);
        if columns > 0 {
            let (_, select) = self.numbered("job_usage_factor_table", &KEY)?;
            let names: Vec<String> =
                (0..columns).map(|period| format!(", usage_factor_period_{period}")).collect();
            let select = select.replacen(" FROM", &format!("{} FROM", names.concat()), 1);
            self.each_row(&select, "job_usage_factor_table", &["username", "userid", "bank"], |cells| {
                let stored = || -> Result<Vec<StoredBin>, String> {
                    let (userid, row) = (cells.user_id(1), cells.integer(3)?);
                    let value = |period| cells.number_if_any(4 + period).unwrap_or(0.0);
                    let bin = |period| StoredBin { period: period as i64, value: value(period), userid, row };
                    Ok((0..columns).map(bin).collect())
                };
                match finder.find(cells.text(0)?, cells.text(2)?).and_then(|at| bins.of.get_mut(at)) {
                    Some(of) => of.extend(stored()?),
                    None => bins.away.extend(stored()),
                }
                Ok(())
            })?;
            return Ok(bins);
        }
        let (_, select) = self.numbered("job_usage_per_association_table", &BIN)?;
        let columns = ["username", "userid", "bank", "period", "value"];
        let mut away: HashMap<(String, String), Vec<StoredBin>> = HashMap::new();
        self.each_row(&select, "job_usage_per_association_table", &columns, |cells| {
            let (user, bank) = (cells.text(0)?, cells.text(2)?);
            let stored = || -> Result<StoredBin, String> {
                let value = cells.number_if_any(4).unwrap_or(0.0);
                let period = cells.integer(3)?;
                if !(0..MOST_PERIODS).contains(&period) {
                    return Err(format!(
                        "job_usage_per_association_table: {user} in {bank} has a period {period}"
                    ));
                }
                Ok(StoredBin { period, value, userid: cells.user_id(1), row: cells.integer(5)? })
            };
            match finder.find(user, bank).and_then(|at| bins.of.get_mut(at)) {
                Some(of) => of.push(stored()?),
                None => {
                    if let Ok(bin) = stored() {
                        away.entry((user.to_owned(), bank.to_owned())).or_default().push(bin);
                    }
                }
            }
            Ok(())
        })?;
        bins.away = away.into_values().collect();
        for of in bins.of.iter_mut().chain(&mut bins.away) {
            if !of.is_sorted_by_key(|bin| bin.period) {
                of.sort_by_key(|bin| bin.period);
            }
        }
        Ok(bins)
    }

    /// Writes what counting changed; it is stored when the snapshot is committed.
    pub fn write_usage(
        &self,
        ledger: &Ledger,
        bins: &Bins,
        changes: &UsageChanges,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), StoreError> {
        let rows = |table: &'static str| -> Result<&'static str, StoreError> {
            let number = self.needed_table(table)?.row_number();
            number
                .ok_or_else(|| self.error(Reason::Schema(format!("{table} has no row numbers to write by"))))
        };
        let (associations, factors, banks) =
            (rows("association_table")?, rows("job_usage_factor_table")?, rows("bank_table")?);
        let mut done = 0;
        let mut step = || {
            done += 1;
            if done % 8192 == 0 {
                progress(done);
            }
        };
        let mut write = || -> rusqlite::Result<()> {
            let sql = format!("UPDATE association_table SET job_usage = ?2 WHERE {associations} = ?1");
            let mut update = self.transaction.prepare(&sql)?;
            for (at, usage) in &changes.usages {
                if let Some(account) = ledger.accounts.get(*at) {
                    update.execute((account.row, *usage))?;
                    step();
                }
            }
            let sql =
                format!("UPDATE job_usage_factor_table SET last_job_timestamp = ?2 WHERE {factors} = ?1");
            let mut update = self.transaction.prepare(&sql)?;
            let mut insert = self.transaction.prepare(
                "INSERT INTO job_usage_factor_table (username, userid, bank, last_job_timestamp) VALUES (?1, ?2, ?3, ?4)",
            )?;
            for (at, newest) in &changes.newest {
                let Some(account) = ledger.accounts.get(*at) else { continue };
                match account.counted {
                    Some(counted) => update.execute((counted.row, *newest))?,
                    None => {
                        insert.execute((&account.user, account.userid, ledger.bank_name(account), *newest))?
                    }
                };
                step();
            }
            let sql = format!("UPDATE bank_table SET job_usage = ?2 WHERE {banks} = ?1");
            let mut update = self.transaction.prepare(&sql)?;
            for (at, usage) in &changes.banks {
                if let Some(row) = ledger.banks.get(*at).and_then(|bank| bank.row) {
                    update.execute((row, *usage))?;
                }
            }
            if let Some(end) = changes.period_end {
                let sql =
                    "UPDATE t_half_life_period_table SET end_half_life_period = ?1 WHERE cluster = 'cluster'";
                self.transaction.execute(sql, [end])?;
            }
            if bins.columns > 0 {
                self.write_columns(ledger, bins, changes, factors, &mut step)
            } else {
                self.write_rows(ledger, bins, changes, &mut step)
            }
        };
        write().map_err(|error| self.fail(&error))
    }

    fn write_rows(
        &self,
        ledger: &Ledger,
        bins: &Bins,
        changes: &UsageChanges,
        step: &mut dyn FnMut(),
    ) -> rusqlite::Result<()> {
        if changes.bins.is_empty() && changes.away.is_empty() && changes.forgotten.is_empty() {
            return Ok(());
        }
        let number =
            self.needed_table("job_usage_per_association_table").ok().and_then(|table| table.row_number());
        let sql = format!(
            "UPDATE job_usage_per_association_table SET value = ?2 WHERE {} = ?1",
            number.unwrap_or("rowid")
        );
        let mut update = self.transaction.prepare(&sql)?;
        let mut insert = self.transaction.prepare(
            "INSERT INTO job_usage_per_association_table (username, userid, bank, period, value) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for (at, period, value) in &changes.bins {
            let Some(account) = ledger.accounts.get(*at) else { continue };
            match bins.stored(*at, *period) {
                Some(bin) => update.execute((bin.row, *value))?,
                None => insert.execute((
                    &account.user,
                    account.userid,
                    ledger.bank_name(account),
                    *period,
                    *value,
                ))?,
            };
            step();
        }
        for (bin, value) in &changes.away {
            update.execute((bin.row, *value))?;
            step();
        }
        let mut delete = self.transaction.prepare(
            "DELETE FROM job_usage_per_association_table WHERE username = ?1 AND bank = ?2 AND period >= ?3",
        )?;
        for (at, period) in &changes.forgotten {
            if let Some(account) = ledger.accounts.get(*at) {
                delete.execute((&account.user, ledger.bank_name(account), *period))?;
            }
        }
        Ok(())
    }

    fn write_columns(
        &self,
        ledger: &Ledger,
        bins: &Bins,
        changes: &UsageChanges,
        number: &str,
        step: &mut dyn FnMut(),
    ) -> rusqlite::Result<()> {
        for period in 0..bins.columns {
            let sql = format!(
                "UPDATE job_usage_factor_table SET usage_factor_period_{period} = ?3 WHERE (username, bank) = (?1, ?2)"
            );
            let mut update = self.transaction.prepare(&sql)?;
            for (at, _, value) in changes.bins.iter().filter(|change| change.1 == period as i64) {
                let Some(account) = ledger.accounts.get(*at) else { continue };
                update.execute((&account.user, ledger.bank_name(account), *value))?;
                step();
            }
            let sql = format!(
                "UPDATE job_usage_factor_table SET usage_factor_period_{period} = ?2 WHERE {number} = ?1"
            );
            let mut update = self.transaction.prepare(&sql)?;
            for (bin, value) in changes.away.iter().filter(|change| change.0.period == period as i64) {
                update.execute((bin.row, *value))?;
                step();
            }
        }
        Ok(())
    }
}
