// SPDX-License-Identifier: LGPL-3.0-only
//! Finds columns that a newer flux-accounting added. Their values are neither sent nor enforced.

use rusqlite::types::{Value, ValueRef};

use super::{Snapshot, StoreResult};
use fairshare_protocol::field::Record;
use fairshare_protocol::records::{AssociationRecord, BankRecord, FactorRecord, ProjectRecord, QueueRecord};

/// An unknown column with a value other than its default in some rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownColumn {
    /// Name of the table.
    pub table: &'static str,
    /// Name of the column.
    pub column: String,
    /// The default value of the column as an SQL literal; `NULL` if the column has no default.
    pub default: String,
    /// Number of rows whose value is not the default.
    pub rows: usize,
}

/// Returns the tables whose rows are sent, each with all columns of schemas up to 38.
fn known_columns() -> [(&'static str, Vec<&'static str>); 5] {
    fn list_columns<R: Record>(not_sent: &[&'static str]) -> (&'static str, Vec<&'static str>) {
        let sent = R::fields().filter_map(|field| field.column);
        (R::TABLE, sent.chain(not_sent.iter().copied()).collect())
    }
    [
        list_columns::<AssociationRecord>(&[
            "creation_time",
            "mod_time",
            "deleted",
            "admin_level",
            "max_jobs",
        ]),
        list_columns::<BankRecord>(&["bank_id", "deleted", "job_usage", "ignore_older_than"]),
        list_columns::<QueueRecord>(&[]),
        list_columns::<ProjectRecord>(&["project_id", "usage"]),
        list_columns::<FactorRecord>(&[]),
    ]
}

impl Snapshot<'_> {
    /// Returns the unknown columns that have values other than their defaults.
    pub fn unknown_columns(&self) -> StoreResult<Vec<UnknownColumn>> {
        let mut unknown = Vec::new();
        for (table, known) in known_columns() {
            let found: Vec<(String, Option<String>)> = self.run_sql(|| {
                let mut statement =
                    self.transaction.prepare("SELECT name, dflt_value FROM pragma_table_info(?1)")?;
                statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })?;
            for (column, default) in found {
                if known.iter().any(|name| column.eq_ignore_ascii_case(name)) {
                    continue;
                }
                let default = default.unwrap_or_else(|| "NULL".to_owned());
                let default_value = parse_literal(&default);
                let rows = self.run_sql(|| {
                    let sql = format!("SELECT \"{}\" FROM {table}", column.replace('"', "\"\""));
                    let mut statement = self.transaction.prepare(&sql)?;
                    let mut rows = statement.query([])?;
                    let mut other = 0;
                    while let Some(row) = rows.next()? {
                        other += usize::from(!is_default(row.get_ref(0)?, &default_value));
                    }
                    Ok(other)
                })?;
                if rows > 0 {
                    unknown.push(UnknownColumn { table, column, default, rows });
                }
            }
        }
        Ok(unknown)
    }
}

/// Returns the value of an SQL literal, or NULL for any other expression.
fn parse_literal(text: &str) -> Value {
    let text = text.trim();
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    match quoted {
        Some(text) => Value::Text(text.replace("''", "'")),
        None => text.parse().map_or(Value::Null, Value::Real),
    }
}

/// Returns true if a cell has the default value. NULL and an empty text count as defaults too.
fn is_default(cell: ValueRef<'_>, default_value: &Value) -> bool {
    let number = if let Value::Real(number) = default_value { Some(*number) } else { None };
    match cell {
        ValueRef::Null => true,
        ValueRef::Integer(value) => number == Some(value as f64),
        ValueRef::Real(value) => number == Some(value),
        ValueRef::Text(text) => {
            text.is_empty() || *default_value == Value::Text(String::from_utf8_lossy(text).into())
        }
        ValueRef::Blob(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_value_is_compared_with_the_default_in_the_schema() {
        for (cell, default, same) in [
            (ValueRef::Integer(2_147_483_647), "2147483647", true),
            (ValueRef::Integer(4), "2147483647", false),
            (ValueRef::Integer(0), "0.0", true),
            (ValueRef::Text(b"*"), "'*'", true),
            (ValueRef::Text(b"a"), "'*'", false),
            (ValueRef::Text(b""), "NULL", true),
            (ValueRef::Integer(0), "NULL", false),
            (ValueRef::Null, "7", true),
        ] {
            assert_eq!(is_default(cell, &parse_literal(default)), same, "{cell:?} with default {default}");
        }
    }
}
