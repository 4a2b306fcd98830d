// SPDX-License-Identifier: LGPL-3.0-only
//! Reading arrays of records, and naming whom and what a fault is about.
//!
//! The fast way reads typed records straight from the text; only if that fails is it read again, value by value, to
//! name the record, the key and the fault.

use crate::field::{Field, Record};
use crate::interner::Interner;
use crate::records::AssociationRecord;
use crate::value::{Members, Object, describe, members};
use crate::wire::WireError;
use fairshare::shortened;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Warnings beyond these are only counted: a push of 50,000 records must not flood the log.
const MAX_WARNINGS: usize = 10;

/// What is accepted, but worth a warning.
#[derive(Debug, Default)]
pub struct Warnings {
    untold: Vec<String>,
    noted: usize,
}

impl Warnings {
    /// Keeps the text of a warning, or counts the warning if `MAX_WARNINGS` are kept.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.noted < MAX_WARNINGS {
            self.untold.push(text());
        }
        self.noted += 1;
    }

    /// Those that nobody was told of.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.untold)
    }

    /// How many were only counted.
    pub fn untold(&self) -> usize {
        self.noted.saturating_sub(MAX_WARNINGS)
    }
}

/// The reading of one payload, or of all parts of one push.
#[derive(Default)]
pub struct Reader {
    names: Interner,
    /// What is accepted, but worth a warning.
    pub warnings: Warnings,
    /// How many records of each array were read: where the next part goes on counting.
    read: BTreeMap<&'static str, usize>,
    /// How many records of each array concern no job.
    left_out: BTreeMap<&'static str, usize>,
}

impl Reader {
    /// How many records were read.
    pub fn records(&self) -> usize {
        self.read.values().sum()
    }

    /// Returns the number of associations that were read, without those that concern no job.
    pub fn associations(&self) -> usize {
        let left_out = self.left_out.get(<AssociationRecord>::ARRAY).copied().unwrap_or_default();
        self.read(<AssociationRecord>::ARRAY).saturating_sub(left_out)
    }

    fn read(&self, array: &'static str) -> usize {
        self.read.get(array).copied().unwrap_or_default()
    }

    /// Returns the records of an array that are valid. Counts all of them, and warns of those that concern no job.
    pub fn accept<R: Record>(&mut self, wires: Vec<Object<R>>) -> Result<Vec<R::Accepted>, WireError> {
        let first = self.read(R::ARRAY);
        let mut records = Vec::with_capacity(wires.len());
        for (at, Object(wire)) in wires.into_iter().enumerate() {
            let say = |what: String| told::<R>(first + at, &what, wire.who());
            let left_out = wire.left_out();
            if let Some(why) = &left_out {
                *self.left_out.entry(R::ARRAY).or_default() += 1;
                let index = first + at;
                self.warnings.note(|| format!("{}[{index}]{why}", R::ARRAY));
            }
            for (key, value) in wire.limits() {
                if left_out.is_some() {
                    break;
                }
                if value < 0 {
                    let means = match (R::ARRAY, key, value) {
                        (_, "max_active_jobs", _) => "means unlimited, as 0 does",
                        // See `Association::is_broken`; of a queue it is as any other.
                        ("associations", "max_running_jobs", -1) => "ends each job",
                        _ => "admits nothing",
                    };
                    self.warnings.note(|| say(format!(".{key}: negative limit {value} {means}")));
                }
            }
            let fault = |(key, what)| WireError::Record(say(format!(".{key}: {what}")));
            records.push(wire.accept(&mut self.names).map_err(fault)?);
        }
        *self.read.entry(R::ARRAY).or_default() += records.len();
        Ok(records)
    }

    /// Reads an array at once; if that fails value by value, so that the first fault can be named.
    pub fn array<'a, R: Record + Deserialize<'a>>(
        &mut self,
        array: &'a RawValue,
    ) -> Result<Vec<R::Accepted>, WireError> {
        if let Ok(wires) = serde_json::from_str::<Vec<Object<R>>>(array.get()) {
            return self.accept(wires);
        }
        let Ok(array) = serde_json::from_str::<Vec<&RawValue>>(array.get()) else {
            return Err(WireError::WrongType(R::ARRAY));
        };
        let first = self.read(R::ARRAY);
        let mut wires: Vec<Object<R>> = Vec::with_capacity(array.len());
        for (at, value) in array.into_iter().enumerate() {
            let record = members(value).ok_or_else(|| {
                let what = format!(": expected object, got {}", describe(value));
                WireError::Record(told::<R>(first + at, &what, Vec::new()))
            })?;
            wires.push(one(first + at, &record)?);
        }
        self.accept(wires)
    }
}

fn one<'a, R: Record + Deserialize<'a>>(index: usize, record: &Members<'a>) -> Result<Object<R>, WireError> {
    let fault = |what: String| {
        let who = R::WHO.iter().filter_map(|(key, word)| Some((*word, text(record.get(*key)?)?)));
        WireError::Record(told::<R>(index, &what, who.collect()))
    };
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
    Object::from_members(record, R::fields().map(|field| field.key))
        .map_err(|error| fault(format!(": {error}")))
}

/// An integer or a string, as text.
fn text(value: &RawValue) -> Option<String> {
    match value.get().parse::<i64>() {
        Ok(number) => Some(number.to_string()),
        Err(_) => serde_json::from_str(value.get()).ok(),
    }
}

/// What is said of a record: where it stands, what is the matter, and whom or what it is about as far as it says.
fn told<R: Record>(index: usize, what: &str, who: Vec<(&'static str, String)>) -> String {
    let who: Vec<String> = who
        .into_iter()
        .filter(|(_, name)| !name.is_empty())
        .map(|(word, name)| format!("{word} {}", shortened(&name).escape_debug()))
        .collect();
    match who.as_slice() {
        [] => format!("{}[{index}]{what}", R::ARRAY),
        who => format!("{}[{index}]{what} ({})", R::ARRAY, who.join(", ")),
    }
}
