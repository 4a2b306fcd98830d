// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the CSV tables that `flux account export-db` writes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ::csv::{Error, ReaderBuilder, StringRecord};
use fairshare::{Builder, InactiveUsage, Shares};
use fairshare_accounting::store::{BankRow, add_banks};
use fairshare_accounting::store::{Reason, StoreError};

/// The name of the file of associations. The file of banks is in the same directory.
pub(super) const ASSOCIATIONS: &str = "association_table.csv";
const BANKS: &str = "bank_table.csv";

pub(super) fn is_header(line: &str) -> bool {
    let has = |name: &str| line.split(',').any(|column| column.trim() == name);
    has("username") && has("bank") && has("shares")
}

/// Reads both tables from the directory `path`. If `text` is given, it is the content of the file of associations
/// `path`, and only the banks are read from the directory.
pub(super) fn read_tables(
    path: &Path,
    text: Option<&str>,
    inactive: InactiveUsage,
) -> Result<Builder, StoreError> {
    let (directory, table) = match text {
        Some(text) => (path.parent().unwrap_or(Path::new("")), Table::parse(path, text.to_owned())?),
        None => (path, Table::read(&path.join(ASSOCIATIONS))?),
    };
    let banks = read_banks(&directory.join(BANKS))?;
    let mut builder = Builder::default();
    let inactive_banks = add_banks(&banks, inactive, &mut builder);

    let [user, bank, shares, usage] = table.columns(["username", "bank", "shares", "job_usage"])?;
    let active = table.column("active");
    for row in &table.rows {
        let is_below_inactive = inactive_banks.contains(field(row, bank));
        if is_below_inactive && inactive == InactiveUsage::Ignore {
            continue;
        }
        let amount = table.read_number(row, usage)?;
        let shares = Shares::Count(table.read_number(row, shares)?);
        let active = table.read_flag(row, active)? && !is_below_inactive;
        builder.association(field(row, user), field(row, bank), shares, Some(amount), active);
    }
    Ok(builder)
}

fn read_banks(path: &Path) -> Result<Vec<BankRow>, StoreError> {
    let table = Table::read(path)?;
    let [name, parent, shares] = table.columns(["bank", "parent_bank", "shares"])?;
    let active = table.column("active");
    let bank = |row: &StringRecord| {
        Ok(BankRow {
            name: field(row, name).to_owned(),
            parent: Some(field(row, parent)).filter(|parent| !parent.is_empty()).map(str::to_owned),
            shares: table.read_number(row, shares)?,
            active: table.read_flag(row, active)?,
        })
    };
    let mut banks: Vec<BankRow> = table.rows.iter().map(bank).collect::<Result<_, _>>()?;
    drop_history(&mut banks);
    Ok(banks)
}

/// Removes the historical rows of banks, as `Table::without_history` does for a database. An inactive row is historical
/// if another row with the same bank is active or newer.
fn drop_history(banks: &mut Vec<BankRow>) {
    let mut current: HashMap<String, (bool, usize)> = HashMap::new();
    for (index, bank) in banks.iter().enumerate() {
        let newest = current.entry(bank.name.clone()).or_default();
        *newest = (*newest).max((bank.active, index));
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
    text: String,
    header: StringRecord,
    rows: Vec<StringRecord>,
}

impl Table {
    fn read(path: &Path) -> Result<Table, StoreError> {
        Self::parse(path, super::decode_utf_8(path, super::read_bytes(path)?)?)
    }

    fn parse(path: &Path, text: String) -> Result<Table, StoreError> {
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        let records: Result<Vec<_>, Error> = reader.records().collect();
        let records = records.map_err(|error| StoreError::new(path, Reason::Format(error.to_string())))?;
        let mut rows = records.into_iter().filter(|row| row.iter().any(|field| !field.is_empty()));
        let header = rows.next().unwrap_or_default();
        let table = Table { path: path.to_owned(), header, rows: rows.collect(), text };
        // The reader accepts a missing closing quote. The last record then contains the rest of the file.
        let last_record = table.rows.last().unwrap_or(&table.header);
        if table
            .text
            .get(table.start_of(last_record)..)
            .is_some_and(|text| text.matches('"').count() % 2 == 1)
        {
            return Err(table.error_at(last_record, "a quote is not closed"));
        }
        match table.rows.iter().find(|row| row.len() != table.header.len()) {
            Some(row) => {
                Err(table.error_at(row, &format!("{} fields, expected {}", row.len(), table.header.len())))
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

    /// Reads a flag. A missing column means true, because older exports lack it.
    fn read_flag(&self, row: &StringRecord, column: Option<usize>) -> Result<bool, StoreError> {
        let Some(column) = column else { return Ok(true) };
        match field(row, column).trim() {
            "1" => Ok(true),
            "0" => Ok(false),
            text => Err(self.error_at(row, &format!("active is \"{text}\", expected 1 or 0"))),
        }
    }

    fn read_number<T: std::str::FromStr>(&self, row: &StringRecord, column: usize) -> Result<T, StoreError> {
        let name = field(&self.header, column);
        field(row, column).trim().parse().map_err(|_| {
            self.error_at(row, &format!("{name} is \"{}\", expected a number", field(row, column)))
        })
    }

    fn error_at(&self, row: &StringRecord, text: &str) -> StoreError {
        StoreError::new(&self.path, Reason::Format(format!("line {}: {text}", self.line_of(row))))
    }

    /// Returns the line on which `row` starts.
    fn line_of(&self, row: &StringRecord) -> usize {
        self.text.get(..self.start_of(row)).map_or(0, |before| before.matches('\n').count()) + 1
    }

    /// Returns the byte offset at which `row` starts. `StringRecord::position` can be too small: before the second byte
    /// of CRLF, and before empty lines (issues 395 and 208 of rust-csv).
    fn start_of(&self, row: &StringRecord) -> usize {
        let start = row.position().map_or(0, |position| position.byte() as usize);
        let rest = self.text.get(start..).unwrap_or_default();
        self.text.len() - rest.trim_start_matches(['\r', '\n']).len()
    }
}

/// Returns the field of `row` in `column`, or an empty text if `row` is shorter.
fn field(row: &StringRecord, column: usize) -> &str {
    row.get(column).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line and the fields of each record of `text` after the header, or the error text.
    fn parse_records(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
        let table = Table::parse(Path::new("x.csv"), text.to_owned()).map_err(|error| error.to_string())?;
        let record = |row| (table.line_of(row), row.iter().map(str::to_owned).collect());
        Ok(table.rows.iter().map(record).collect())
    }

    #[test]
    fn a_record_has_the_line_on_which_it_starts() {
        let text = "a,b\r\n1,2\r\n\r\n,\r\n\"x\n\"\"y, z\",3\r\n4,5";
        let record = |line, a: &str, b: &str| (line, vec![a.to_owned(), b.to_owned()]);
        let expected = [record(2, "1", "2"), record(5, "x\n\"y, z", "3"), record(7, "4", "5")];
        assert_eq!(parse_records(text).expect("CRLF line ends are accepted"), expected);
        assert_eq!(parse_records(&text.replace("\r\n", "\n")).expect("LF line ends are accepted"), expected);
    }

    #[test]
    fn an_error_names_the_line() {
        for (text, expected) in [
            ("a,b\r\n1,2\r\n\r\n1\r\n", "x.csv: line 4: 1 fields, expected 2"),
            ("a,b\n1,2\n\n3,\"x\n4,5\n", "x.csv: line 4: a quote is not closed"),
            ("a,b\n1,2\n3,4,5\n", "x.csv: line 3: 3 fields, expected 2"),
        ] {
            assert_eq!(parse_records(text).expect_err(text), expected);
        }
    }
}
