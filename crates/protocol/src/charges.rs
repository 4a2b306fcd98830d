// SPDX-License-Identifier: LGPL-3.0-only
//! The array `charges` of a push: the changes of the charge factors of queues, each with the time from which on it applies.

use crate::value::{describe, members};
use crate::wire::WireError;
use fairshare::accrual::MAX_TIME;
use fairshare::charging::{ChargeChange, MAX_FACTOR, is_factor};
use fairshare::shortened;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The key of the array.
pub const CHARGES: &str = "charges";

/// A change of a charge factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChargeRecord {
    /// The queue.
    pub queue: String,
    /// The time from which on the factor applies, in seconds since the epoch.
    pub since: f64,
    /// The factor.
    pub factor: f64,
}

impl From<ChargeChange> for ChargeRecord {
    fn from(ChargeChange { queue, since, factor }: ChargeChange) -> Self {
        ChargeRecord { queue: queue.into(), since, factor }
    }
}

/// Reads the array. Returns the first fault, with the record and the key.
pub fn read(array: &RawValue) -> Result<Vec<ChargeChange>, WireError> {
    let Ok(records) = serde_json::from_str::<Vec<&RawValue>>(array.get()) else {
        return Err(WireError::WrongType(CHARGES));
    };
    let read = |(at, record): (usize, &RawValue)| {
        read_record(record).map_err(|what| WireError::Record(format!("{CHARGES}[{at}]{what}")))
    };
    records.into_iter().enumerate().map(read).collect()
}

fn read_record(record: &RawValue) -> Result<ChargeChange, String> {
    let members = members(record).ok_or_else(|| format!(": expected object, got {}", describe(record)))?;
    let find = |key: &str| members.get(key).copied().ok_or_else(|| format!(".{key}: key is missing"));
    let queue = find("queue")?;
    let name: Option<String> = serde_json::from_str(queue.get()).ok();
    let name = name.filter(|name| !name.is_empty() && !name.contains('\0'));
    let name =
        name.ok_or_else(|| format!(".queue: expected the name of a queue, got {}", describe(queue)))?;
    let read_number = |key: &str, expected: &str, is_valid: fn(f64) -> bool| {
        let value = find(key)?;
        let number = value.get().parse::<f64>().ok().filter(|number| is_valid(*number));
        number.ok_or_else(|| {
            let (name, found) = (shortened(&name), describe(value));
            format!(
                ".{key}: expected {expected}, got {found} (queue {}); correct the record",
                name.escape_debug()
            )
        })
    };
    let since =
        read_number("since", "a time in seconds since 1970", |time| (0.0..=MAX_TIME).contains(&time))?;
    let factor = read_number("factor", &format!("a number from 0 to {MAX_FACTOR}"), is_factor)?;
    Ok(ChargeChange { queue: name.into(), since, factor })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read_text(text: &str) -> Result<Vec<ChargeChange>, WireError> {
        read(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn written_changes_are_read_back() {
        let changes = [("gpu", 1.7e9, 2.5), ("free", 1.700_000_000_123e9, 0.0)]
            .map(|(queue, since, factor)| ChargeChange { queue: queue.into(), since, factor });
        let records = changes.clone().map(ChargeRecord::from);
        assert_eq!(read_text(&serde_json::to_string(&records).unwrap()), Ok(changes.to_vec()));
        assert_eq!(read_text("[]"), Ok(Vec::new()));
    }

    #[test]
    fn an_error_names_the_record_the_queue_the_value_and_the_allowed_values() {
        for (record, message) in [
            ("3", ": expected object, got integer 3"),
            ("{}", ".queue: key is missing"),
            (r#"{"queue": ""}"#, ".queue: expected the name of a queue, got string"),
            (r#"{"queue": "a"}"#, ".since: key is missing"),
            (
                r#"{"queue": "a", "since": -1, "factor": 1}"#,
                ".since: expected a time in seconds since 1970, got integer -1 (queue a); correct the record",
            ),
            (
                r#"{"queue": "a", "since": 1, "factor": 1000.5}"#,
                ".factor: expected a number from 0 to 1000, got real 1000.5 (queue a); correct the record",
            ),
            (
                r#"{"queue": "a", "since": 1, "factor": "2"}"#,
                ".factor: expected a number from 0 to 1000, got string (queue a); correct the record",
            ),
        ] {
            let good = r#"{"queue": "b", "since": 1, "factor": 2}"#;
            let fault = WireError::Record(format!("charges[1]{message}"));
            assert_eq!(read_text(&format!("[{good}, {record}]")), Err(fault), "{record}");
        }
        assert_eq!(read_text("{}"), Err(WireError::WrongType(CHARGES)));
    }
}
