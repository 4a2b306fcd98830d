// SPDX-License-Identifier: LGPL-3.0-only
//! Reads usages of PBS's entities from a list, from the output of pbsfs, or from the scheduler's own file.

use std::collections::HashSet;

use super::content_lines;
use super::table::{entity_usages, is_table_line};
use fairshare::MAX_USAGE;

/// Reads a list of usages or the output of `pbsfs`. A list has a line `name value` for each usage, in which a colon or
/// equals sign after the name is ignored.
pub(crate) fn read_usage_list(text: &str) -> Result<Vec<(String, f64)>, String> {
    let mut list = UsageList::default();
    if text.lines().any(is_table_line) {
        for (line, name, amount) in entity_usages(text)? {
            list.add(&format!("line {line}"), name, amount)?;
        }
        return Ok(list.usages);
    }
    for (line, entry) in content_lines(text).filter(|(_, entry)| !entry.starts_with("```")) {
        let (name, amount) =
            split_entry(entry).ok_or_else(|| format!("line {line}: expected a name and a usage"))?;
        list.add(&format!("line {line}"), name, parse_usage(line, name, amount)?)?;
    }
    Ok(list.usages)
}

/// Splits an entry at white space, or else at the last colon or equals sign, because names such as `phys:u1` contain
/// colons.
fn split_entry(entry: &str) -> Option<(&str, &str)> {
    let is_sign = |letter: char| matches!(letter, ':' | '=');
    let (name, amount) = match entry.split_once(char::is_whitespace) {
        Some((name, amount)) => {
            let amount = amount.trim_start().trim_start_matches(is_sign).trim();
            (name.trim_end_matches(is_sign), amount)
        }
        None => entry.rsplit_once(is_sign)?,
    };
    let is_amount = !amount.is_empty() && !amount.contains(char::is_whitespace);
    (is_amount && !name.is_empty()).then_some((name, amount))
}

pub(super) fn parse_usage(line: usize, name: &str, text: &str) -> Result<f64, String> {
    let usage = text.parse().ok().filter(|usage| (0.0..=MAX_USAGE).contains(usage));
    usage.ok_or_else(|| {
        format!("line {line}: \"{name}\": usage is \"{text}\", expected a number from 0 to 1e298")
    })
}

#[derive(Default)]
struct UsageList {
    seen: HashSet<String>,
    usages: Vec<(String, f64)>,
}

impl UsageList {
    fn add(&mut self, position: &str, name: &str, amount: f64) -> Result<(), String> {
        if !self.seen.insert(name.to_owned()) {
            return Err(format!("{position}: \"{name}\" is listed twice"));
        }
        self.usages.push((name.to_owned(), amount));
        Ok(())
    }
}

/// The first 9 bytes of the usage file of PBS's scheduler.
const MAGIC: &[u8; 9] = b"PBS_MAG!\0";
/// Offsets of the version (an f64, aligned to 8 bytes) and of the first record. The time of the last decay is in
/// between.
const VERSION_AT: usize = 16;
const RECORDS_AT: usize = 32;
/// A record: a name of 50 bytes that ends with 0, and an f64 aligned to 8 bytes.
const NAME: usize = 50;
const AMOUNT_AT: usize = 56;
const RECORD: usize = 64;

/// Returns true for the file in which PBS's scheduler stores usages (`sched_priv/usage`).
pub(crate) fn is_usage_file(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads PBS's usage file as a 64-bit machine writes it. Adds a note for each entry that PBS skips.
pub(crate) fn read_usage_file(bytes: &[u8], notes: &mut Vec<String>) -> Result<Vec<(String, f64)>, String> {
    let version = read_double(bytes, VERSION_AT).ok_or("the header of PBS's usage file is cut off")?;
    let read: fn([u8; 8]) -> f64 = match (f64::from_le_bytes(version), f64::from_be_bytes(version)) {
        (2.0, _) => f64::from_le_bytes,
        (_, 2.0) => f64::from_be_bytes,
        _ => return Err("is a PBS usage file of an unsupported version (only version 2 is supported): import the output of pbsfs instead".to_owned()),
    };
    let records = bytes.get(RECORDS_AT..).ok_or("the header of PBS's usage file is cut off")?;
    let (whole, rest) = records.as_chunks::<RECORD>();
    if !rest.is_empty() {
        return Err(format!("PBS's usage file is cut off within entry {}", whole.len() + 1));
    }
    let mut list = UsageList::default();
    for (index, record) in whole.iter().enumerate() {
        let position = format!("entry {}", index + 1);
        let name = record.get(..NAME).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
        let amount =
            read_double(record, AMOUNT_AT).map(read).filter(|amount| (0.0..=MAX_USAGE).contains(amount));
        match (name, amount) {
            (Some(name), Some(amount)) => list.add(&position, name, amount)?,
            _ => notes.push(format!("{position} of PBS's usage file is invalid: left out, as PBS does")),
        }
    }
    Ok(list.usages)
}

fn read_double(bytes: &[u8], at: usize) -> Option<[u8; 8]> {
    bytes.get(at..)?.first_chunk().copied()
}
