// SPDX-License-Identifier: LGPL-3.0-only
//! The arrays `charges` and `charge_by` of a push: the changes of the charge factors of queues, and of the
//! resources that jobs are charged for. Each change has the time at which it takes effect.

use crate::value::Object;
use crate::wire::{Read, read_records};
use fairshare::accrual::MAX_TIME;
use fairshare::charging::{ChargeByChange, ChargeChange, MAX_FACTOR, is_factor};
use fairshare::shortened;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The key of the array of changes of charge factors.
pub const CHARGES: &str = "charges";

/// The key of the array of [`ChargeByChange`]s.
pub const CHARGE_BY: &str = "charge_by";

/// Reads the array `charges`. Returns the first fault, with the record and the key.
pub fn read_factors(array: &RawValue) -> Read<Vec<ChargeChange>> {
    read_records(array, CHARGES, |record| {
        let change: ChargeChange = parse_change(record)?;
        let ChargeChange { queue, since, factor } = &change;
        if queue.is_empty() || queue.contains('\0') {
            return Err(".queue: expected the name of a queue; correct the record".to_owned());
        }
        check_time(*since)?;
        if !is_factor(*factor) {
            return Err(format!(
                ".factor: expected a number from 0 to {MAX_FACTOR}, got {factor} (queue {}); correct the record",
                shortened(queue).escape_debug()
            ));
        }
        Ok(change)
    })
}

/// Reads the array `charge_by`. Returns the first fault, with the record and the key.
pub fn read_rules(array: &RawValue) -> Read<Vec<ChargeByChange>> {
    read_records(array, CHARGE_BY, |record| {
        let change: ChargeByChange = parse_change(record)?;
        check_time(change.since)?;
        Ok(change)
    })
}

fn parse_change<T: DeserializeOwned>(record: &RawValue) -> Result<T, String> {
    match serde_json::from_str(record.get()) {
        Ok(Object(change)) => Ok(change),
        Err(error) => Err(format!(": {error}; correct the record")),
    }
}

fn check_time(since: f64) -> Result<(), String> {
    if (0.0..=MAX_TIME).contains(&since) {
        return Ok(());
    }
    Err(format!(".since: expected a time in seconds since 1970, got {since}; correct the record"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::wire::WireError;
    use fairshare::charging::ChargeBy;
    use fairshare::periods::Resources;

    fn read_text(text: &str) -> Read<Vec<ChargeChange>> {
        read_factors(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn written_changes_are_read_back() {
        let changes = [("gpu", 1.7e9, 2.5), ("free", 1.700_000_000_123e9, 0.0)]
            .map(|(queue, since, factor)| ChargeChange { queue: queue.into(), since, factor });
        assert_eq!(read_text(&serde_json::to_string(&changes).unwrap()), Ok(changes.to_vec()));
        assert_eq!(read_text("[]"), Ok(Vec::new()));
    }

    #[test]
    fn rules_are_read_as_they_were_written_and_errors_name_the_record() {
        let totals = Resources { nodes: 3, cores: 4, gpus: 0 };
        let rules = [ChargeByChange { since: 1.5e9, charge_by: ChargeBy::Max, totals }];
        let text = serde_json::to_string(&rules).unwrap();
        let read = |text: &str| read_rules(serde_json::from_str(text).unwrap());
        assert_eq!(read(&text), Ok(rules.to_vec()));
        let fault = |what: &str| Err(WireError::Record(format!("charge_by[0]{what}; correct the record")));
        assert_eq!(
            read(&text.replace("max", "min")),
            fault(": unknown variant `min`, expected `sum` or `max` at line 1 column 39")
        );
        assert_eq!(
            read(&text.replace("1500000000.0", "-1")),
            fault(".since: expected a time in seconds since 1970, got -1")
        );
        assert!(read(&text.replace(":4", ":-4")).is_err() && read("[3]").is_err());
        assert_eq!(read("{}"), Err(WireError::WrongType(CHARGE_BY)));
    }

    #[test]
    fn an_error_names_the_record_the_queue_the_value_and_the_allowed_values() {
        for (record, message) in [
            ("3", ": invalid type: integer `3`, expected an object at line 1 column 1"),
            ("{}", ": missing field `queue` at line 1 column 2"),
            (r#"{"queue": "", "since": 1, "factor": 1}"#, ".queue: expected the name of a queue"),
            (r#"{"queue": "a"}"#, ": missing field `since` at line 1 column 14"),
            (
                r#"{"queue": "a", "since": -1, "factor": 1}"#,
                ".since: expected a time in seconds since 1970, got -1",
            ),
            (
                r#"{"queue": "a", "since": 1, "factor": 1000.5}"#,
                ".factor: expected a number from 0 to 1000, got 1000.5 (queue a)",
            ),
            (
                r#"{"queue": "a", "since": 1, "factor": "2"}"#,
                ": invalid type: string \"2\", expected f64 at line 1 column 40",
            ),
        ] {
            let good = r#"{"queue": "b", "since": 1, "factor": 2}"#;
            let fault = WireError::Record(format!("charges[1]{message}; correct the record"));
            assert_eq!(read_text(&format!("[{good}, {record}]")), Err(fault), "{record}");
        }
        assert_eq!(read_text("{}"), Err(WireError::WrongType(CHARGES)));
    }
}
