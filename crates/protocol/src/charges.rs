// SPDX-License-Identifier: LGPL-3.0-only
//! The arrays `charges` and `charge_by` of a push: the changes of the charge factors of queues, and of the
//! resources that jobs are charged for. Each change has the time at which it takes effect.

use crate::value::{describe, members};
use crate::wire::{Read, read_records};
use fairshare::accrual::MAX_TIME;
use fairshare::charging::{ChargeByChange, ChargeChange, MAX_FACTOR, is_factor};
use fairshare::periods::Resources;
use fairshare::shortened;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The key of the array of changes of charge factors.
pub const CHARGES: &str = "charges";

/// The key of the array of [`ChargeRuleChange`]s.
pub const CHARGE_BY: &str = "charge_by";

/// A change of the resources that jobs are charged for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChargeRuleChange {
    /// The time at which this change takes effect, in seconds since the epoch.
    pub since: f64,
    /// `sum` or `max`.
    pub charge_by: String,
    /// The nodes of the site.
    pub nodes: u64,
    /// The cores of the site.
    pub cores: u64,
    /// The GPUs of the site.
    pub gpus: u64,
}

impl From<ChargeByChange> for ChargeRuleChange {
    fn from(ChargeByChange { since, charge_by, totals }: ChargeByChange) -> Self {
        let Resources { nodes, cores, gpus } = totals;
        ChargeRuleChange { since, charge_by: charge_by.name().to_owned(), nodes, cores, gpus }
    }
}

/// Reads the array `charges`. Returns the first fault, with the record and the key.
pub fn read_factors(array: &RawValue) -> Read<Vec<ChargeChange>> {
    read_records(array, CHARGES, CHARGES, read_record)
}

/// Reads the array `charge_by`. Returns the first fault, with the record and the key.
pub fn read_rules(array: &RawValue) -> Read<Vec<ChargeByChange>> {
    read_records(array, CHARGE_BY, CHARGE_BY, read_charge_rule)
}

fn read_charge_rule(record: &RawValue) -> Result<ChargeByChange, String> {
    let ChargeRuleChange { since, charge_by, nodes, cores, gpus } =
        serde_json::from_str(record.get()).map_err(|error| format!(": {error}; correct the record"))?;
    let rule = charge_by.parse().map_err(|_| {
        let name = shortened(&charge_by);
        format!(
            ".charge_by: expected \"sum\" or \"max\", got \"{}\"; correct the record",
            name.escape_debug()
        )
    })?;
    if !(0.0..=MAX_TIME).contains(&since) {
        return Err(format!(
            ".since: expected a time in seconds since 1970, got {since}; correct the record"
        ));
    }
    Ok(ChargeByChange { since, charge_by: rule, totals: Resources { nodes, cores, gpus } })
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
    use crate::wire::WireError;
    use fairshare::charging::ChargeBy;
    use fairshare_engine::engine::answers::ChargeRecord;

    fn read_text(text: &str) -> Read<Vec<ChargeChange>> {
        read_factors(serde_json::from_str(text).unwrap())
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
    fn rules_are_read_as_they_were_written_and_errors_name_the_record() {
        let totals = Resources { nodes: 3, cores: 4, gpus: 0 };
        let rules = [ChargeByChange { since: 1.5e9, charge_by: ChargeBy::Max, totals }];
        let text = serde_json::to_string(&rules.map(ChargeRuleChange::from)).unwrap();
        let read = |text: &str| read_rules(serde_json::from_str(text).unwrap());
        assert_eq!(read(&text), Ok(rules.to_vec()));
        let fault = |what: &str| Err(WireError::Record(format!("charge_by[0]{what}; correct the record")));
        assert_eq!(
            read(&text.replace("max", "min")),
            fault(".charge_by: expected \"sum\" or \"max\", got \"min\"")
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
