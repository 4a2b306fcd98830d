// SPDX-License-Identifier: LGPL-3.0-only
//! Reads banks, associations and usage, and writes fair-shares.

use std::collections::{BTreeSet, HashSet};

use rusqlite::params_from_iter;

use super::schema::{Column, Table};
use super::{Marks, Snapshot, StoreResult};
use fairshare::{Builder, InactiveUsage, Shares, inactive_banks};

/// The tree of the database, which is not checked yet, and the rows of its associations.
#[derive(Debug)]
pub struct StoredTree {
    /// Banks and associations in the order of the tables.
    pub builder: Builder,
    /// The associations, in the same order as in `builder`.
    pub associations: Vec<StoredAssociation>,
    /// Inactive banks that are not in the tree.
    pub left_out: Vec<String>,
}

/// Row and stored fair-share of an association.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredAssociation {
    /// SQLite's row number, which is valid until the end of the transaction; 0 if rows have no row numbers.
    pub rowid: i64,
    /// The stored fair-share; `None` if it is not a number.
    pub fairshare: Option<f64>,
}

/// The usage of one association in one half-life period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsageBin {
    /// Age of the period; 0 is the current one.
    pub period: i64,
    /// Stored usage, in node-seconds unless the site set weights.
    pub usage: f64,
}

const BANK_COLUMNS: [Column; 3] = [("bank", None), ("parent_bank", None), ("shares", None)];
const ASSOCIATION_COLUMNS: [Column; 5] =
    [("username", None), ("bank", None), ("shares", None), ("job_usage", None), ("fairshare", None)];

/// A stored bank. `parent` is `None` for the root.
struct BankRow {
    name: String,
    parent: Option<String>,
    shares: u64,
    active: bool,
}

impl Snapshot<'_> {
    /// Reads the tree. If a bank is inactive, all associations below it are inactive. [`InactiveUsage::Ignore`]
    /// omits inactive banks, as flux-accounting does. Calls `progress` with the number of associations read.
    pub fn tree(&self, inactive: InactiveUsage, progress: &mut dyn FnMut(u64)) -> StoreResult<StoredTree> {
        let mut faults = Vec::new();
        let banks = self.select_columns("bank_table", &BANK_COLUMNS, &mut faults)?;
        let associations = self.select_columns("association_table", &ASSOCIATION_COLUMNS, &mut faults)?;
        let (Some((bank_table, select_banks)), Some((table, select))) = (banks, associations) else {
            return Err(self.schema_error(&faults.join("; ")));
        };
        let banks = self.read_banks(&bank_table, &select_banks)?;
        let drop = inactive == InactiveUsage::Ignore;
        let mut builder = Builder::default();
        let dead = add_banks(&banks, inactive, &mut builder);

        let number = table.row_number().unwrap_or("0");
        let sql = select.replacen(" FROM", &format!(", {}, {number} FROM", table.active_condition()), 1);
        let mut associations = Vec::new();
        let columns = ["username", "bank", "shares", "job_usage", "fairshare", "active", "rowid"];
        self.visit_rows(&sql, "association_table", &columns, |cells| {
            let (user, bank) = (cells.name(0)?, cells.name(1)?);
            let dead = !dead.is_empty() && dead.contains(bank);
            if drop && dead {
                return Ok(());
            }
            let active = cells.integer(5)? != 0 && !dead;
            builder.association(user, bank, Shares::Count(cells.count(2)?), Some(cells.usage(3)?), active);
            associations
                .push(StoredAssociation { rowid: cells.integer(6)?, fairshare: cells.number_if_any(4) });
            if associations.len() % 8192 == 0 {
                progress(associations.len() as u64);
            }
            Ok(())
        })?;
        let left_out = if drop { dead.into_iter().map(str::to_owned).collect() } else { Vec::new() };
        Ok(StoredTree { builder, associations, left_out })
    }

    fn read_banks(&self, table: &Table, select: &str) -> StoreResult<Vec<BankRow>> {
        let sql = select.replacen(" FROM", &format!(", {} FROM", table.active_condition()), 1);
        self.read_rows("bank_table", &sql, &["bank", "parent_bank", "shares", "active"], |cells| {
            let parent = cells.optional_text(1)?.filter(|parent| !parent.is_empty());
            Ok(BankRow {
                name: cells.name(0)?.to_owned(),
                parent: parent.map(str::to_owned),
                shares: cells.count(2)?,
                active: cells.integer(3)? != 0,
            })
        })
    }

    /// Returns the estimated number of associations, for a progress bar.
    pub fn estimate_association_count(&self) -> u64 {
        self.transaction
            .query_row("SELECT max(_rowid_) FROM association_table", [], |row| row.get::<_, Option<i64>>(0))
            .ok()
            .flatten()
            .and_then(|rows| u64::try_from(rows).ok())
            .unwrap_or(0)
    }

    /// Returns the stored usage of an association by half-life period, the current period first. Credits are included. The
    /// list is empty if the database has no periods.
    pub fn usage_bins(&self, user: &str, bank: &str) -> StoreResult<Vec<UsageBin>> {
        let mut bins: Vec<UsageBin> = Vec::new();
        self.visit_usage_bins(Some((user, bank)), &mut |_, _, new| match bins
            .iter_mut()
            .find(|bin| bin.period == new.period)
        {
            Some(bin) => bin.usage += new.usage,
            None => bins.push(new),
        })?;
        Ok(bins)
    }

    /// Returns the user, the bank and the credited usage by period of each association that has counted credits. If
    /// `of` is a user and a bank, returns only their association.
    pub fn read_usage_bins_with_credits(
        &self,
        of: Option<(&str, &str)>,
    ) -> StoreResult<Vec<(String, String, Vec<UsageBin>)>> {
        let mut credits = self.credits()?;
        credits.retain(|credit| of.is_none_or(|of| of == (credit.user.as_str(), credit.bank.as_str())));
        if credits.is_empty() {
            return Ok(Vec::new());
        }
        let names: BTreeSet<(String, String)> =
            credits.into_iter().map(|credit| (credit.user, credit.bank)).collect();
        let Some(marks) = self.marks()? else { return Ok(Vec::new()) };
        let list_bins = |(user, bank): (String, String)| {
            let credited = marks.credited(Marks::key(&user, &bank))?;
            let bins = (0..).zip(&credited.bins).map(|(period, usage)| UsageBin { period, usage: *usage });
            Some((user, bank, bins.collect()))
        };
        Ok(names.into_iter().filter_map(list_bins).collect())
    }

    /// Calls `take` with the user, the bank and the usage of each stored period, and then with the usage from
    /// credits. If `of` is a user and a bank, visits only their association. Period 0 is the current period.
    pub fn visit_usage_bins(
        &self,
        of: Option<(&str, &str)>,
        take: &mut dyn FnMut(&str, &str, UsageBin),
    ) -> StoreResult<()> {
        let condition = if of.is_some() { " WHERE username = ?1 AND bank = ?2 ORDER BY period" } else { "" };
        let names = || of.iter().flat_map(|(user, bank)| [user, bank]);
        let mut each = |period: &str, value: &str, table: &str| -> rusqlite::Result<()> {
            let columns = format!("username, bank, {period} AS period, coalesce({value}, 0.0)");
            let mut statement =
                self.transaction.prepare(&format!("SELECT {columns} FROM {table}{condition}"))?;
            let mut rows = statement.query(params_from_iter(names()))?;
            while let Some(row) = rows.next()? {
                let (user, bank) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
                take(user, bank, UsageBin { period: row.get(2)?, usage: row.get(3)? });
            }
            Ok(())
        };
        let mut outcome = Ok(());
        if self.table("job_usage_per_association_table")?.is_some() {
            outcome = each("period", "value", "job_usage_per_association_table");
        } else if let Some(old) = self.table("job_usage_factor_table")? {
            // Before schema 36, the table has one column for each period.
            let columns = (0..1000).map(|period| (period, format!("usage_factor_period_{period}")));
            for (period, column) in columns.take_while(|(_, column)| old.has_column(column)) {
                outcome = outcome.and_then(|()| each(&period.to_string(), &column, "job_usage_factor_table"));
            }
        }
        outcome.map_err(|error| self.sqlite_error(&error))?;
        for (user, bank, credits) in self.read_usage_bins_with_credits(of)? {
            credits.into_iter().for_each(|bin| take(&user, &bank, bin));
        }
        self.check_database_unchanged()
    }

    /// Writes fair-shares into the transaction. `changes` are (row, fair-share); ascending rows are fastest.
    pub fn write_fairshare(&self, changes: &[(i64, f64)], progress: &mut dyn FnMut(u64)) -> StoreResult<()> {
        let number = self.row_number("association_table")?;
        let sql = format!("UPDATE association_table SET fairshare = ?2 WHERE {number} = ?1");
        let mut done = 0;
        let mut report_progress = || {
            if done % 8192 == 0 {
                progress(done);
            }
            done += 1;
        };
        self.run_sql(|| self.execute_for_each(&sql, changes.iter().copied(), &mut report_progress))
    }
}

/// Adds the banks to the tree. With [`InactiveUsage::Ignore`], adds only active banks. Returns the names of
/// the banks that are inactive or below an inactive bank.
fn add_banks<'a>(banks: &'a [BankRow], inactive: InactiveUsage, builder: &mut Builder) -> HashSet<&'a str> {
    let dead =
        inactive_banks(banks.iter().map(|bank| (bank.name.as_str(), bank.parent.as_deref(), bank.active)));
    let mut names = HashSet::new();
    for (bank, dead) in banks.iter().zip(dead) {
        if dead {
            names.insert(bank.name.as_str());
        }
        let (parent, shares) = (bank.parent.as_deref(), Shares::Count(bank.shares));
        if !dead || inactive == InactiveUsage::Count {
            builder.bank(&bank.name, parent, shares, None, !dead);
        }
    }
    names
}
