// SPDX-License-Identifier: LGPL-3.0-only
//! The tables `flux account export-db` writes, as CSV.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fairshare::{Builder, InactiveUsage, Shares};
use fairshare_accounting::store::{BankRow, add_banks};
use fairshare_accounting::store::{Reason, StoreError};

/// The associations' file; the banks' lies beside it.
pub(super) const ASSOCIATIONS: &str = "association_table.csv";
const BANKS: &str = "bank_table.csv";

pub(super) fn is_header(line: &str) -> bool {
    let has = |name: &str| line.split(',').any(|column| column.trim() == name);
    has("username") && has("bank") && has("shares")
}

/// Reads both tables: from a directory, or the associations' from `text`, read from `path`, and the banks' beside it.
pub(super) fn read(path: &Path, text: Option<&str>, inactive: InactiveUsage) -> Result<Builder, StoreError> {
    let (directory, table) = match text {
        Some(text) => (path.parent().unwrap_or(Path::new("")), Table::parse(path, text)?),
        None => (path, Table::read(&path.join(ASSOCIATIONS))?),
    };
    let banks = banks_of(&directory.join(BANKS))?;
    let mut builder = Builder::default();
    let dead = add_banks(&banks, inactive, &mut builder);

    let [user, bank, shares, usage] = table.columns(["username", "bank", "shares", "job_usage"])?;
    let active = table.column("active");
    for row in &table.rows {
        let below_dead = dead.contains(row.text(bank));
        if below_dead && inactive == InactiveUsage::Ignore {
            continue;
        }
        let amount = table.number(row, usage)?;
        let shares = Shares::Count(table.number(row, shares)?);
        let active = table.flag(row, active)? && !below_dead;
        builder.association(row.text(user), row.text(bank), shares, Some(amount), active);
    }
    Ok(builder)
}

fn banks_of(path: &Path) -> Result<Vec<BankRow>, StoreError> {
    let table = Table::read(path)?;
    let [name, parent, shares] = table.columns(["bank", "parent_bank", "shares"])?;
    let active = table.column("active");
    let bank = |row: &Record| {
        Ok(BankRow {
            name: row.text(name).to_owned(),
            parent: Some(row.text(parent)).filter(|parent| !parent.is_empty()).map(str::to_owned),
            shares: table.number(row, shares)?,
            active: table.flag(row, active)?,
        })
    };
    let mut banks: Vec<BankRow> = table.rows.iter().map(bank).collect::<Result<_, _>>()?;
    drop_history(&mut banks);
    Ok(banks)
}

/// Removes the historical rows of banks, as `Table::without_history` does in a database: an inactive row is history if
/// another row with its name is active or newer.
fn drop_history(banks: &mut Vec<BankRow>) {
    let mut current: HashMap<String, (bool, usize)> = HashMap::new();
    for (index, bank) in banks.iter().enumerate() {
        let place = current.entry(bank.name.clone()).or_default();
        *place = (*place).max((bank.active, index));
    }
    let mut index = 0;
    banks.retain(|bank| {
        let is_current = bank.active || current.get(&bank.name) == Some(&(bank.active, index));
        index += 1;
        is_current
    });
}

struct Table {
    path: PathBuf,
    header: Vec<String>,
    rows: Vec<Record>,
}

struct Record {
    line: usize,
    fields: Vec<String>,
}

impl Record {
    fn text(&self, column: usize) -> &str {
        self.fields.get(column).map_or("", String::as_str)
    }
}

impl Table {
    fn read(path: &Path) -> Result<Table, StoreError> {
        Self::parse(path, &super::text_of(path, super::read_bytes(path)?)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Table, StoreError> {
        let mut rows = records(text).map_err(|text| StoreError::new(path, Reason::Format(text)))?.into_iter();
        let header = rows.next().map(|record| record.fields).unwrap_or_default();
        let table = Table { path: path.to_owned(), header, rows: rows.collect() };
        match table.rows.iter().find(|row| row.fields.len() != table.header.len()) {
            Some(row) => {
                Err(table.fail(row, &format!("{} fields, expected {}", row.fields.len(), table.header.len())))
            }
            None => Ok(table),
        }
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column.trim() == name)
    }

    fn columns<const N: usize>(&self, names: [&str; N]) -> Result<[usize; N], StoreError> {
        let missing: Vec<&str> = names.into_iter().filter(|name| self.column(name).is_none()).collect();
        if !missing.is_empty() {
            let text = format!("no column {}", missing.join(", "));
            return Err(StoreError::new(&self.path, Reason::Format(text)));
        }
        Ok(names.map(|name| self.column(name).unwrap_or_default()))
    }

    /// A column that older exports do not have: there, all are active.
    fn flag(&self, row: &Record, column: Option<usize>) -> Result<bool, StoreError> {
        let Some(column) = column else { return Ok(true) };
        match row.text(column).trim() {
            "1" => Ok(true),
            "0" => Ok(false),
            text => Err(self.fail(row, &format!("active is \"{text}\", expected 1 or 0"))),
        }
    }

    fn number<T: std::str::FromStr>(&self, row: &Record, column: usize) -> Result<T, StoreError> {
        let name = self.header.get(column).map_or("?", String::as_str);
        row.text(column)
            .trim()
            .parse()
            .map_err(|_| self.fail(row, &format!("{name} is \"{}\", expected a number", row.text(column))))
    }

    fn fail(&self, row: &Record, text: &str) -> StoreError {
        StoreError::new(&self.path, Reason::Format(format!("line {}: {text}", row.line)))
    }
}

/// RFC 4180: fields in quotes may hold commas, line ends and doubled quotes.
fn records(text: &str) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    let mut fields = vec![String::new()];
    let (mut line, mut first_line) = (1, 1);
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\n' {
            line += 1;
        }
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                push(&mut fields, '"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                finish(&mut records, &mut fields, first_line);
                first_line = line;
            }
            _ => push(&mut fields, character),
        }
    }
    if quoted {
        return Err(format!("line {first_line}: a quote is not closed"));
    }
    finish(&mut records, &mut fields, first_line);
    Ok(records)
}

fn push(fields: &mut [String], character: char) {
    if let Some(field) = fields.last_mut() {
        field.push(character);
    }
}

fn finish(records: &mut Vec<Record>, fields: &mut Vec<String>, line: usize) {
    let fields = std::mem::replace(fields, vec![String::new()]);
    if fields.iter().any(|field| !field.is_empty()) {
        records.push(Record { line, fields });
    }
}
