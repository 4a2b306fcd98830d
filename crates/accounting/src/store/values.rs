// SPDX-License-Identifier: LGPL-3.0-only
//! Reads SQLite's loosely typed cells as typed values. Errors name the table, the row, the column and the command
//! that corrects it.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::Value;

use super::Fault;
use fairshare::accrual::MAX_PUSHED;
use fairshare_protocol::field::Kind;

/// A row of a query, and the names of its table and columns for error messages.
pub(super) struct QueryRow<'a, 'stmt> {
    pub(super) table: &'static str,
    pub(super) row: &'a Row<'stmt>,
    /// Number of the row in the query, from 1. Error messages name a row without a key by this number.
    pub(super) number: usize,
    /// Names of the columns, in the order of the query.
    pub(super) columns: &'a [&'static str],
}

impl<'a> QueryRow<'a, '_> {
    fn value(&self, index: usize) -> ValueRef<'a> {
        // The index is always valid, because the caller takes it from the columns of its own query.
        self.row.get_ref(index).unwrap_or(ValueRef::Null)
    }

    fn describe_fault(&self, index: usize, expected: &str) -> Fault {
        let column = self.columns.get(index).copied().unwrap_or("?");
        let mut record = String::new();
        for key in ["username", "userid", "bank", "queue", "project", "factor", "key"] {
            let Some(at) = self.columns.iter().position(|name| *name == key) else { continue };
            if at != index {
                record.push_str(&format!(" {key} {}", format_value(self.value(at))));
            }
        }
        let record = if record.is_empty() { format!(", row {}", self.number) } else { format!(":{record}") };
        let found = format_value(self.value(index));
        let problem = format!("{}{record}: {column} is {found}, expected {expected}", self.table);
        Fault { problem, remedy: self.suggest_command(column) }
    }

    /// Returns the command that corrects the value of a column, as a clause.
    fn suggest_command(&self, column: &str) -> Option<String> {
        let quote_cell = |key: &str| {
            let at = self.columns.iter().position(|name| *name == key)?;
            self.value(at).as_str().ok().map(|name| format!("'{}'", name.replace('\'', "'\\''")))
        };
        // Without the mark `--`, a name with a leading dash would be an option.
        let quote_name = |key: &str| Some(quote_cell(key)?.replacen("'-", "-- '-", 1));
        let option = column.replace('_', "-");
        if let ("config_table", "value") = (self.table, column) {
            let at = self.columns.iter().position(|name| *name == "key")?;
            return self.value(at).as_str().ok().map(edit_config);
        }
        let command = match (self.table, column) {
            (_, "job_usage") => {
                return Some("\"flux fairshare recount --write\" counts all usage again".to_owned());
            }
            ("association_table", "fairshare") => {
                return Some("\"flux fairshare update\" computes it again".to_owned());
            }
            ("association_table", "username" | "userid" | "bank" | "active") => {
                return self.suggest_sql_correction(column);
            }
            ("association_table", _) => {
                format!(
                    "edit-user --bank={} --{option}=VALUE {}",
                    quote_cell("bank")?,
                    quote_name("username").unwrap_or_else(|| "USERNAME".to_owned())
                )
            }
            ("bank_table", "shares" | "priority") => {
                format!("edit-bank --{option}=VALUE {}", quote_name("bank")?)
            }
            ("bank_table", "parent_bank") => format!("edit-bank --parent-bank=BANK {}", quote_name("bank")?),
            ("queue_table", column) if column != "queue" => {
                format!("edit-queue --{option}=VALUE {}", quote_name("queue")?)
            }
            ("priority_factor_weight_table", "weight") => {
                format!("edit-factor --factor={} --weight=VALUE", quote_cell("factor")?)
            }
            _ => return self.suggest_sql_correction(column),
        };
        Some(format!("\"flux account {command}\" corrects it"))
    }

    /// Returns an SQL statement that corrects a value for which there is no command. If the column is a name,
    /// the statement removes the row.
    fn suggest_sql_correction(&self, column: &str) -> Option<String> {
        let keys = ["username", "bank", "queue", "project", "factor", "key", "scope", "name"];
        let equals = |key: &&str| {
            let at = self.columns.iter().position(|name| name == key)?;
            let text = self.value(at).as_str().ok().filter(|text| !text.contains('\0'))?;
            Some(format!("{key} = '{}'", text.replace('\'', "''")))
        };
        let rows: Vec<String> = keys.iter().filter_map(equals).collect();
        let statement = match (rows.is_empty(), keys.contains(&column)) {
            (true, _) => return None,
            (false, true) => format!("DELETE FROM {} WHERE {}", self.table, rows.join(" AND ")),
            (false, false) => {
                format!("UPDATE {} SET {column} = VALUE WHERE {}", self.table, rows.join(" AND "))
            }
        };
        // A shell expands these characters in double quotes.
        let statement = match statement.contains(['$', '`', '"', '\\', '!']) {
            true => quote_for_shell(&statement),
            false => format!("\"{statement}\""),
        };
        Some(format!("`sqlite3 DATABASE {statement}` corrects it"))
    }

    /// Reads a cell as a field of a record.
    pub(super) fn read(&self, index: usize, kind: Kind) -> Result<Value, Fault> {
        Ok(match kind {
            Kind::UserId => self.user_id(index).into(),
            Kind::Name => self.name(index)?.into(),
            Kind::Text => self.text(index)?.into(),
            Kind::TextOrNull => self.optional_text(index)?.unwrap_or_default().into(),
            Kind::Integer => self.integer(index)?.into(),
            Kind::Count => self.count(index)?.into(),
            Kind::Number => self.number(index)?.into(),
            Kind::Usage => self.usage(index)?.into(),
        })
    }

    /// Reads a text.
    pub(super) fn text(&self, index: usize) -> Result<&'a str, Fault> {
        self.value(index).as_str().map_err(|_| self.describe_fault(index, "text"))
    }

    /// Reads a text, or `None` for NULL.
    pub(super) fn optional_text(&self, index: usize) -> Result<Option<&'a str>, Fault> {
        match self.value(index) {
            ValueRef::Null => Ok(None),
            value => value.as_str().map(Some).map_err(|_| self.describe_fault(index, "text")),
        }
    }

    /// Reads an integer. A real without fraction is accepted.
    pub(super) fn integer(&self, index: usize) -> Result<i64, Fault> {
        let parsed = match self.value(index) {
            ValueRef::Integer(number) => Some(number),
            // 2^53: above it f64 can't represent all integers.
            ValueRef::Real(number) if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 => {
                Some(number as i64)
            }
            ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()),
            _ => None,
        };
        parsed.ok_or_else(|| self.describe_fault(index, "a whole number"))
    }

    /// Reads a user id. If it is not an integer, returns the id that flux-accounting stores for an unknown user,
    /// which no user has.
    pub(super) fn user_id(&self, index: usize) -> i64 {
        self.integer(index).unwrap_or(i64::from(u32::MAX))
    }

    /// Reads an integer >= 0.
    pub(super) fn count(&self, index: usize) -> Result<u64, Fault> {
        u64::try_from(self.integer(index)?).map_err(|_| self.describe_fault(index, "a whole number >= 0"))
    }

    /// Reads a finite number.
    pub(super) fn number(&self, index: usize) -> Result<f64, Fault> {
        parse_number(self.value(index)).ok_or_else(|| self.describe_fault(index, "a finite number"))
    }

    /// Reads a usage in the range that the plugin accepts, in the unit of the site's weights.
    pub(super) fn usage(&self, index: usize) -> Result<f64, Fault> {
        let usage = parse_number(self.value(index)).filter(|usage| (0.0..=MAX_PUSHED).contains(usage));
        usage.ok_or_else(|| self.describe_fault(index, "a number from 0 to 1e250"))
    }

    /// Reads a name: text that is not empty and has no NUL character.
    pub(super) fn name(&self, index: usize) -> Result<&'a str, Fault> {
        let name = self.text(index)?;
        let is_name = !name.is_empty() && !name.contains('\0');
        is_name.then_some(name).ok_or_else(|| self.describe_fault(index, "a name"))
    }

    /// Reads a finite number, or returns `None` for any other value.
    pub(super) fn number_if_any(&self, index: usize) -> Option<f64> {
        parse_number(self.value(index))
    }
}

/// Quotes a path or name for a shell.
pub fn quote_for_shell(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_=./:".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Returns flux-accounting's command that sets a key of `config_table`, as the end of a message.
pub(super) fn edit_config(key: &str) -> String {
    let pair = format!("{key}=VALUE");
    let pair = quote_for_shell(&pair);
    format!("\"flux account edit-config {pair}\" corrects it")
}

/// Returns a finite number, or `None` for any other value.
pub(super) fn parse_number(value: ValueRef<'_>) -> Option<f64> {
    let number = match value {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

fn format_value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) if number.is_finite() && number.abs() >= 1e16 => format!("{number:e}"),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => format!("\"{}\"", String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
    }
}
