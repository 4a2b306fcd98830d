// SPDX-License-Identifier: LGPL-3.0-only
//! The tables and columns of a database: which columns are needed, and the substitutes for columns that an
//! older database lacks.

use rusqlite::OptionalExtension;

use super::{Fault, Reason, Snapshot, StoreError, StoreResult};

/// The columns of a table in the open database.
#[derive(Debug)]
pub(super) struct Table {
    name: &'static str,
    columns: Vec<String>,
    /// True if rows have row numbers. Views and tables WITHOUT ROWID have none.
    numbered: bool,
}

/// A column to select: its name, and the SQL literal to use if the table lacks it.
pub(super) type Column = (&'static str, Option<&'static str>);

impl Table {
    pub(super) fn has_column(&self, column: &str) -> bool {
        self.columns.iter().any(|known| known.eq_ignore_ascii_case(column))
    }

    /// Returns one of SQLite's three names of the row number that is not the name of a column. Returns `None` if rows have no row numbers.
    pub(super) fn row_number(&self) -> Option<&'static str> {
        let free = |name: &&str| self.numbered && !self.has_column(name);
        ["rowid", "_rowid_", "oid"].into_iter().find(free)
    }

    /// Returns SQL that is true for active rows. flux-accounting before 0.15 had no column `active`, but
    /// marked deleted rows.
    pub(super) fn active_condition(&self) -> &'static str {
        if self.has_column("active") {
            "active"
        } else if self.has_column("deleted") {
            "deleted = 0"
        } else {
            "1"
        }
    }

    /// Returns a ` WHERE` clause that excludes historical rows, or an empty text if the table has none.
    ///
    /// `flux account delete-bank` marks a bank inactive, and `add-bank` below another parent then adds a second row
    /// with the same name. An inactive row is historical if another row with its name is active or newer.
    pub(super) fn history_filter(&self) -> String {
        let (active, Some(row)) = (self.active_condition(), self.row_number()) else { return String::new() };
        if self.name != "bank_table" || active == "1" {
            return String::new();
        }
        format!(
            " WHERE {row} NOT IN (SELECT number FROM (SELECT {row} AS number, ({active}) AS is_active, row_number() OVER \
             (PARTITION BY bank ORDER BY ({active}) != 0 DESC, {row} DESC) AS place FROM bank_table) \
             WHERE place > 1 AND is_active = 0)"
        )
    }

    /// Returns SQL that selects a column, or `None` if the table lacks it.
    pub(super) fn expression(&self, column: &str) -> Option<String> {
        let is_old = column == "active" && !self.has_column(column) && self.has_column("deleted");
        if is_old {
            Some(self.active_condition().to_owned())
        } else {
            self.has_column(column).then(|| format!("\"{column}\""))
        }
    }

    /// Returns a `SELECT` of `columns` that omits historical rows. The error names each missing column that has no
    /// substitute.
    pub(super) fn build_select(&self, columns: &[Column]) -> Result<String, String> {
        let mut missing = Vec::new();
        let mut list = Vec::with_capacity(columns.len());
        for (name, default) in columns {
            match self.expression(name).or_else(|| default.map(str::to_owned)) {
                Some(expression) => list.push(expression),
                None => missing.push(*name),
            }
        }
        if !missing.is_empty() {
            let plural = if missing.len() == 1 { "" } else { "s" };
            return Err(format!("table {} has no column{plural} {}", self.name, missing.join(", ")));
        }
        Ok(format!("SELECT {} FROM {}{}", list.join(", "), self.name, self.history_filter()))
    }
}

impl Snapshot<'_> {
    /// Returns the columns of a table, or `None` if the table does not exist.
    pub(super) fn table(&self, name: &'static str) -> StoreResult<Option<Table>> {
        let table = self.run_sql(|| {
            let mut statement = self.transaction.prepare("SELECT name FROM pragma_table_info(?1)")?;
            let columns = statement.query_map([name], |row| row.get(0))?.collect::<Result<_, _>>()?;
            let numbered =
                "SELECT type != 'view' AND NOT wr FROM pragma_table_list(?1) WHERE schema = 'main'";
            let numbered = self.transaction.query_row(numbered, [name], |row| row.get(0)).optional()?;
            Ok(Table { name, columns, numbered: numbered.unwrap_or(false) })
        })?;
        Ok((!table.columns.is_empty()).then_some(table))
    }

    /// Returns the columns of a table, or an error if the table does not exist.
    pub(super) fn required_table(&self, name: &'static str) -> StoreResult<Table> {
        self.table(name)?.ok_or_else(|| self.schema_error(&format!("no table {name}")))
    }

    /// Returns the table `name`, and an SQL query of `columns`. If the table is unusable, adds the reason to
    /// `faults` and returns `None`.
    pub(super) fn select_columns(
        &self,
        name: &'static str,
        columns: &[Column],
        faults: &mut Vec<String>,
    ) -> StoreResult<Option<(Table, String)>> {
        let Some(table) = self.table(name)? else {
            faults.push(format!("no table {name}"));
            return Ok(None);
        };
        match table.build_select(columns) {
            Ok(select) => Ok(Some((table, select))),
            Err(fault) => {
                faults.push(fault);
                Ok(None)
            }
        }
    }

    pub(super) fn schema_error(&self, what: &str) -> StoreError {
        let version = self.schema_version().unwrap_or_default();
        self.error(Reason::Schema(Fault {
            problem: format!("not a usable flux-accounting database: {what} (schema version {version})"),
            remedy: Some("\"flux account-update-db\" brings an old one up to date".to_owned()),
        }))
    }
}
