// SPDX-License-Identifier: LGPL-3.0-only
//! The array `limits` of a push and of the table `[fairshare]`: limits that the site sets in addition to
//! those of flux-accounting.
//!
//! The reader rejects unknown keys, because a limit without effect is worse than an error.

use crate::settings::{SettingError, unknown_key_error, value_error};
use crate::value::{Members, describe, members};
use crate::wire::{Read, WireError};
use fairshare::shortened;
use fairshare_engine::accounts::{Cap, SiteLimit, Target, measures};
use fairshare_engine::ids::{Amount, Limit, QueueName};
use serde_json::value::RawValue;

/// The key of the array.
pub const LIMITS: &str = "limits";

/// The keys of a limit, except the measures.
const KEYS: [&str; 4] = ["scope", "name", "queue", "counts"];

/// Reads the array of a push.
pub fn read_limits(array: &RawValue) -> Read<Vec<SiteLimit>> {
    let tables = split_array(array).ok_or(WireError::WrongType(LIMITS))?;
    read_tables(&tables, LIMITS).map_err(|error| WireError::Record(error.text))
}

/// Reads the array of the settings. `place` is the prefix of messages.
pub(crate) fn read_limit_settings(array: &RawValue, place: &str) -> Result<Vec<SiteLimit>, SettingError> {
    let tables = split_array(array).ok_or_else(|| value_error(place, "an array of tables", array))?;
    read_tables(&tables, place)
}

fn split_array(array: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(array.get()).ok()
}

fn read_tables(tables: &[&RawValue], place: &str) -> Result<Vec<SiteLimit>, SettingError> {
    let mut limits = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let place = format!("{place}[{at}]");
        let members =
            members(table).ok_or_else(|| format!("{place}: expected object, got {}", describe(table)))?;
        if let Some(key) = members.keys().find(|key| is_unknown(key)) {
            let known = KEYS.map(str::to_owned).into_iter().chain(measures());
            return Err(unknown_key_error(&format!("{place}."), key, known));
        }
        limits.extend(read_table(&members).map_err(|what| format!("{place}.{what}"))?);
    }
    Ok(limits)
}

fn is_unknown(key: &str) -> bool {
    !KEYS.contains(&key) && Amount::parse(key).is_none() && Amount::refusal(key).is_none()
}

fn read_table(members: &Members<'_>) -> Result<Vec<SiteLimit>, String> {
    let text = |key: &str| match members.get(key).filter(|value| value.get() != "null") {
        None => Ok(None),
        Some(value) => {
            let type_error = |_| format!("{key}: expected string, got {}", describe(value));
            serde_json::from_str::<String>(value.get()).map(Some).map_err(type_error)
        }
    };
    let missing_error = |key: &str| format!("{key}: key is missing");
    let kind = text("scope")?.ok_or_else(|| missing_error("scope"))?;
    // A user id may be a number instead of a string.
    let name = match members.get("name").filter(|name| name.get().parse::<u32>().is_ok()) {
        Some(number) => number.get().to_owned(),
        None => text("name")?.ok_or_else(|| missing_error("name"))?,
    };
    if name.contains('\0') {
        return Err("name: contains the character NUL".to_owned());
    }
    let target = Target::parse(&kind, &name)?;
    let queue = text("queue")?.filter(|queue| !queue.is_empty()).map(|queue| QueueName::from(queue.as_str()));
    let queue = match &target {
        Target::Queue(named) if queue.as_ref().is_none_or(|queue| queue == named) => Some(named.clone()),
        Target::Queue(_) | Target::EachQueue if queue.is_some() => {
            return Err(
                "queue: for scope \"queue\", the key \"name\" names the queue; remove this key".to_owned()
            );
        }
        _ => queue,
    };
    let is_given = match text("counts")?.as_deref() {
        None | Some("asked") => false,
        Some("given") => true,
        Some(other) => {
            let other = shortened(other);
            return Err(format!("counts: expected \"asked\" or \"given\", got \"{}\"", other.escape_debug()));
        }
    };
    let mut limits = Vec::new();
    for (key, value) in members {
        if let Some(refusal) = Amount::refusal(key) {
            return Err(format!("{key}: not a limit of scope \"{kind}\": {refusal}"));
        }
        let Some(amount) = Amount::parse(key) else { continue };
        let type_error = || format!("{key}: expected an integer from 0, got {}", describe(value));
        let limit = value.get().parse().ok().filter(|limit| *limit >= 0).map(Limit).ok_or_else(type_error)?;
        if target.is_in_records(queue.is_some(), amount) {
            return Err(format!("{key}: \"flux account edit-user\" sets this limit of associations"));
        }
        let cap = Cap { limit, is_given };
        limits.push(SiteLimit { target: target.clone(), queue: queue.clone(), amount, cap });
    }
    if limits.is_empty() {
        return Err(format!("{kind}: no limit is given; known are {}", measures().join(", ")));
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LimitRecord;
    use crate::wire::WireError;

    fn read_as_lines(text: &str) -> Read<Vec<String>> {
        let value: &RawValue = serde_json::from_str(text).unwrap();
        let to_line = |limit: SiteLimit| {
            let SiteLimit { target, queue, amount, cap } = limit;
            let queue = queue.map_or("-".to_owned(), |queue| queue.to_string());
            format!("{target} {queue} {amount}={} {}", cap.limit, cap.is_given)
        };
        Ok(read_limits(value)?.into_iter().map(to_line).collect())
    }

    #[test]
    fn limits_are_parsed_from_json() {
        assert_eq!(
            read_as_lines(
                r#"[{"scope": "user", "name": "*", "run-gpus": 16},
                    {"scope": "user", "name": 7, "queue": null, "run-gpus": 8, "run-sched-jobs": 0},
                    {"scope": "bank", "name": "a", "queue": "q", "counts": "given", "run-cores": 9},
                    {"scope": "association", "name": "7/a", "queue": "", "run-gpus": 3000000000}]"#
            ),
            Ok([
                "each user - run-gpus=16 false",
                "user 7 - run-gpus=8 false",
                "user 7 - run-sched-jobs=0 false",
                "bank a q run-cores=9 true",
                "user 7 in bank a - run-gpus=3000000000 false",
            ]
            .map(str::to_owned)
            .to_vec())
        );
        assert_eq!(read_as_lines("[]"), Ok(Vec::new()));
    }

    #[test]
    fn written_limits_are_read_back() {
        let text = r#"[{"scope": "user", "name": "*", "run-gpus": 16, "run-sched-jobs": 0},
                       {"scope": "user", "name": "7", "queue": "q", "run-jobs": 2},
                       {"scope": "queue", "name": "*", "run-jobs": 4}, {"scope": "queue", "name": "q", "run-jobs": 5},
                       {"scope": "association", "name": "7/a", "queue": "q", "counts": "given", "run-cores": 9}]"#;
        let value: &RawValue = serde_json::from_str(text).unwrap();
        let limits = read_limits(value).unwrap();
        let records: Vec<LimitRecord> = limits.iter().map(LimitRecord::from).collect();
        let written = serde_json::to_string(&records).unwrap();
        let value: &RawValue = serde_json::from_str(&written).unwrap();
        assert_eq!(read_limits(value), Ok(limits));
    }

    #[test]
    fn invalid_limits_are_rejected() {
        let known = "run-jobs, run-nodes, run-cores, run-gpus, sched-jobs, run-sched-jobs, run-sched-nodes, run-sched-cores, \
                     run-sched-gpus, run-node-hours, active-jobs, job-nodes, job-time, job-node-hours";
        for (text, message) in [
            (r#"[3]"#, ": expected object, got integer 3".to_owned()),
            (r#"[{"name": "a"}]"#, ".scope: key is missing".to_owned()),
            (r#"[{"scope": "bank"}]"#, ".name: key is missing".to_owned()),
            (r#"[{"scope": 3, "name": "a"}]"#, ".scope: expected string, got integer 3".to_owned()),
            (r#"[{"scope": "bank", "name": []}]"#, ".name: expected string, got array".to_owned()),
            (r#"[{"scope": "bank", "name": "a"}]"#, format!(".bank: no limit is given; known are {known}")),
            (
                r#"[{"scope": "bank", "name": "a", "gpus": 3}]"#,
                format!(".gpus: unknown key; known are scope, name, queue, counts, {known}"),
            ),
            (r#"[{"scop": "bank"}]"#, format!(".scop: unknown key; known are scope, name, queue, counts, {known}")),
            (
                r#"[{"scope": "bank", "name": "a", "sched-gpus": 3}]"#,
                ".sched-gpus: not a limit of scope \"bank\": a job in SCHED uses no gpus; set sched-jobs, run-gpus or run-sched-gpus"
                    .to_owned(),
            ),
            (
                r#"[{"scope": "bank", "name": "a", "run-gpus": -1}]"#,
                ".run-gpus: expected an integer from 0, got integer -1".to_owned(),
            ),
            (
                r#"[{"scope": "bank", "name": "a", "run-gpus": "3"}]"#,
                ".run-gpus: expected an integer from 0, got string".to_owned(),
            ),
            (
                r#"[{"scope": "queue", "name": "p", "queue": "q", "run-gpus": 1}]"#,
                ".queue: for scope \"queue\", the key \"name\" names the queue; remove this key".to_owned(),
            ),
            (
                r#"[{"scope": "queue", "name": "*", "queue": "q", "run-gpus": 1}]"#,
                ".queue: for scope \"queue\", the key \"name\" names the queue; remove this key".to_owned(),
            ),
            (
                r#"[{"scope": "queue", "name": "", "run-gpus": 1}]"#,
                ".name: expected a queue, got an empty string".to_owned(),
            ),
            (
                r#"[{"scope": "association", "name": "*", "run-nodes": 1}]"#,
                ".run-nodes: \"flux account edit-user\" sets this limit of associations".to_owned(),
            ),
            (
                r#"[{"scope": "bank", "name": "a", "counts": "used", "run-gpus": 1}]"#,
                ".counts: expected \"asked\" or \"given\", got \"used\"".to_owned(),
            ),
        ] {
            assert_eq!(read_as_lines(text), Err(WireError::Record(format!("limits[0]{message}"))), "{text}");
        }
        assert_eq!(read_as_lines("{}"), Err(WireError::WrongType(LIMITS)));
    }
}
