// SPDX-License-Identifier: LGPL-3.0-only
//! Reads arrays of records, and reports which record and key is invalid.
//!
//! An array is first parsed into typed records. If that fails, the array is parsed again value by value, to
//! find the invalid record and key.

use crate::field::{Field, Record};
use crate::interner::Interner;
use crate::records::AssociationRecord;
use crate::value::{Members, Object, describe, members};
use crate::wire::{Read, WireError};
use fairshare::shortened;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The maximum number of warnings with a text. Further warnings are only counted, so that a push of 50,000 records does not flood
/// the log.
const MAX_WARNINGS: usize = 10;

/// The warnings about accepted records.
#[derive(Debug, Default)]
pub struct Warnings {
    texts: Vec<String>,
    count: usize,
}

impl Warnings {
    /// Adds a warning. Beyond `MAX_WARNINGS` the warning is only counted.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.count < MAX_WARNINGS {
            self.texts.push(text());
        }
        self.count += 1;
    }

    /// Removes and returns the texts of the warnings.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.texts)
    }

    /// Returns the number of warnings without a text.
    pub fn omitted(&self) -> usize {
        self.count.saturating_sub(MAX_WARNINGS)
    }
}

/// The state of reading one payload, or all parts of one push.
#[derive(Default)]
pub struct Reader {
    names: Interner,
    /// The warnings so far.
    pub warnings: Warnings,
    /// The number of records of each array in the parts that were read. Messages about the next part continue
    /// this numbering.
    read: BTreeMap<&'static str, usize>,
    /// The number of records of each array that no job can match.
    left_out: BTreeMap<&'static str, usize>,
}

impl Reader {
    /// Returns the number of records that were read.
    pub fn records(&self) -> usize {
        self.read.values().sum()
    }

    /// Returns the number of associations that were read, except those that no job can match.
    pub fn associations(&self) -> usize {
        let left_out = self.left_out.get(<AssociationRecord>::ARRAY).copied().unwrap_or_default();
        self.count_records_read(<AssociationRecord>::ARRAY).saturating_sub(left_out)
    }

    fn count_records_read(&self, array: &'static str) -> usize {
        self.read.get(array).copied().unwrap_or_default()
    }

    /// Converts the records of an array. Counts all of them, and warns of records that no job can match.
    /// Returns the first fault.
    pub(crate) fn convert_all<R: Record>(&mut self, wires: Vec<Object<R>>) -> Read<Vec<R::Accepted>> {
        let first = self.count_records_read(R::ARRAY);
        let mut records = Vec::with_capacity(wires.len());
        for (at, Object(wire)) in wires.into_iter().enumerate() {
            let describe = |what: String| {
                let record = serde_json::value::to_raw_value(&wire).ok();
                let record = record.as_deref().and_then(members).unwrap_or_default();
                describe_fault::<R>(first + at, &what, &record)
            };
            if let Some(why) = wire.left_out() {
                *self.left_out.entry(R::ARRAY).or_default() += 1;
                let index = first + at;
                self.warnings.note(|| format!("{}[{index}]{why}", R::ARRAY));
            } else {
                for (key, value) in wire.limits().filter(|(_, value)| *value < 0) {
                    let effect = match (R::ARRAY, key, value) {
                        (_, "max_active_jobs", _) => "means unlimited, as 0 does",
                        // -1 has a meaning only for associations: see `Association::is_broken`.
                        ("associations", "max_running_jobs", -1) => "ends each job",
                        _ => "admits nothing",
                    };
                    self.warnings.note(|| describe(format!(".{key}: negative limit {value} {effect}")));
                }
            }
            let fault = |(key, what)| WireError::Record(describe(format!(".{key}: {what}")));
            records.push(wire.convert(&mut self.names).map_err(fault)?);
        }
        *self.read.entry(R::ARRAY).or_default() += records.len();
        Ok(records)
    }

    /// Reads an array. Returns the first fault, with the record and the key.
    pub fn array<'a, R: Record + Deserialize<'a>>(&mut self, array: &'a RawValue) -> Read<Vec<R::Accepted>> {
        if let Ok(wires) = serde_json::from_str::<Vec<Object<R>>>(array.get()) {
            return self.convert_all(wires);
        }
        let Ok(array) = serde_json::from_str::<Vec<&RawValue>>(array.get()) else {
            return Err(WireError::WrongType(R::ARRAY));
        };
        let first = self.count_records_read(R::ARRAY);
        let mut wires: Vec<Object<R>> = Vec::with_capacity(array.len());
        for (at, value) in array.into_iter().enumerate() {
            let record = members(value).ok_or_else(|| {
                let what = format!(": expected object, got {}", describe(value));
                WireError::Record(describe_fault::<R>(first + at, &what, &Members::new()))
            })?;
            wires.push(read_record(first + at, &record)?);
        }
        self.convert_all(wires)
    }
}

fn read_record<'a, R: Record + Deserialize<'a>>(index: usize, record: &Members<'a>) -> Read<Object<R>> {
    let fault = |what: String| WireError::Record(describe_fault::<R>(index, &what, record));
    for Field { key, kind, .. } in R::FIELDS {
        match record.get(*key) {
            None => return Err(fault(format!(".{key}: key is missing"))),
            Some(found) if !kind.fits(found) => {
                return Err(fault(format!(".{key}: expected {}, got {}", kind.name(), describe(found))));
            }
            Some(_) => {}
        }
    }
    for Field { key, kind, .. } in R::OPTIONAL {
        if let Some(found) = record.get(*key).filter(|found| found.get() != "null" && !kind.fits(found)) {
            return Err(fault(format!(".{key}: expected {}, got {}", kind.name(), describe(found))));
        }
    }
    Object::from_selected_members(record, R::fields().map(|field| field.key))
        .map_err(|error| fault(format!(": {error}")))
}

/// Returns an integer or a string as text, or `None` for any other value.
fn to_text(value: &RawValue) -> Option<String> {
    match value.get().parse::<i64>() {
        Ok(number) => Some(number.to_string()),
        Err(_) => serde_json::from_str(value.get()).ok(),
    }
}

/// Returns an error message about record `index` of an array. `what` is the error. The message contains the values of
/// the keys that identify the record.
fn describe_fault<R: Record>(index: usize, what: &str, record: &Members<'_>) -> String {
    let who: Vec<String> = R::KEYS
        .iter()
        .filter_map(|(key, word)| Some((word, to_text(record.get(*key)?)?)))
        .filter(|(_, name)| !name.is_empty())
        .map(|(word, name)| format!("{word} {}", shortened(&name).escape_debug()))
        .collect();
    match who.as_slice() {
        [] => format!("{}[{index}]{what}", R::ARRAY),
        who => format!("{}[{index}]{what} ({})", R::ARRAY, who.join(", ")),
    }
}
