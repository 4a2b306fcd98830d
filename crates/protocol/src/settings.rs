// SPDX-License-Identifier: LGPL-3.0-only
//! The table `[fairshare]` of Flux's configuration, and the same keys in the plugin's load options.
//!
//! An unknown key or an invalid value rejects the whole table.

#[cfg(test)]
mod tests;

use crate::limits::{self, LIMITS};
use crate::value::{Members, describe, members};
use crate::wire::WireError;
use fairshare::accrual::Mode;
use fairshare::shortened;
use fairshare_engine::accounts::{RunningLimits, RunningLimitsOf};
use fairshare_engine::engine::answers::Open;
use fairshare_engine::engine::{Memo, Settings};
use fairshare_engine::ids::QueueName;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ffi::CStr;

/// The name of the table.
pub const TABLE: &CStr = c"fairshare";
const PLACE: &str = "fairshare";

/// A key of the table. `set` returns `None` if it does not accept the value.
struct Key {
    name: &'static str,
    takes: &'static str,
    set: fn(&mut Settings, &RawValue) -> Option<()>,
}

const YES_OR_NO: &str = "true or false";
const DURATION: &str = "0 to 36600 days, in seconds or as a duration such as \"30s\", \"2h\" or \"7d\"";
const WEIGHT: &str = "an integer of 64 bits";
const RUNNING_LIMITS: &str = "running-limits";
const RULES_OF_RUNNING: &str = "\"upstream\" or \"strict\"";
/// The longest duration in seconds: a hundred years.
const LONGEST: f64 = 100.0 * 366.0 * 86_400.0;

const KEYS: [Key; 14] = [
    Key { name: "live", takes: YES_OR_NO, set: |to, value| put(&mut to.live, read_bool(value)) },
    Key { name: "refresh", takes: DURATION, set: |to, value| put(&mut to.refresh, read_duration(value)) },
    Key {
        name: "depth",
        takes: "an integer from 1 to 1000000",
        set: |to, value| put(&mut to.depth, read_number(value)),
    },
    Key {
        name: "accrual",
        takes: "\"elapsed\" or \"committed\"",
        set: |to, value| {
            let mode = match read_text(value)?.as_str() {
                "elapsed" => Mode::Elapsed,
                "committed" => Mode::Committed,
                _ => return None,
            };
            put(&mut to.accrual, Some(mode))
        },
    },
    Key {
        name: "budget",
        takes: "an integer from 1 to 1000000",
        set: |to, value| put(&mut to.budget, read_number(value)),
    },
    Key { name: "max-stall", takes: DURATION, set: |to, value| put(&mut to.max_stall, read_duration(value)) },
    Key {
        name: "memo",
        takes: "\"always\" or \"never\"",
        set: |to, value| {
            let memo = match read_text(value)?.as_str() {
                "always" => Memo::Always,
                "never" => Memo::Never,
                _ => return None,
            };
            put(&mut to.memo, Some(memo))
        },
    },
    Key {
        name: "age-max",
        takes: "more than 0 and at most 36600 days, in seconds or as a duration such as \"7d\"",
        set: |to, value| put(&mut to.age_max, read_duration(value).filter(|seconds| *seconds > 0.0)),
    },
    Key {
        name: "max-wait-behind",
        takes: DURATION,
        set: |to, value| put(&mut to.max_wait_behind, read_duration(value)),
    },
    Key { name: "interleave", takes: YES_OR_NO, set: |to, value| put(&mut to.interleave, read_bool(value)) },
    Key { name: "remember", takes: YES_OR_NO, set: |to, value| put(&mut to.remember, read_bool(value)) },
    Key {
        name: RUNNING_LIMITS,
        takes: RULES_OF_RUNNING,
        set: |to, value| put(&mut to.running.others, read_rule(value)),
    },
    Key {
        name: "public",
        takes: "\"own\", \"banks\" or \"all\"",
        set: |to, value| {
            let open = match read_text(value)?.as_str() {
                "own" => Open::Own,
                "banks" => Open::Banks,
                "all" => Open::All,
                _ => return None,
            };
            put(&mut to.public, Some(open))
        },
    },
    Key { name: "annotate", takes: YES_OR_NO, set: |to, value| put(&mut to.annotate, read_bool(value)) },
];

/// The keys of the table `weights`.
const WEIGHTS: [Key; 2] = [
    Key { name: "age", takes: WEIGHT, set: |to, value| put(&mut to.age_weight, read_weight(value)) },
    Key { name: "size", takes: WEIGHT, set: |to, value| put(&mut to.size_weight, read_weight(value)) },
];
const WEIGHTS_NAME: &str = "weights";
/// Keys of the table that are not in [`KEYS`], because their values are tables.
const TABLES: [&str; 3] = [WEIGHTS_NAME, LIMITS, QUEUES_NAME];
/// The table with settings for single queues.
const QUEUES_NAME: &str = "queues";

/// Returns `settings` with the values of a table, given as JSON text. Returns an error with the key and the allowed values.
pub fn read_table(table: &str, settings: Settings) -> Result<Settings, String> {
    let wrong = |what: String| format!("[{PLACE}]: {what}");
    let table: &RawValue = serde_json::from_str(table).map_err(|error| wrong(error.to_string()))?;
    let members =
        members(table).ok_or_else(|| wrong(format!("expected a table, got {}", describe(table))))?;
    read_members(&members, settings, &format!("{PLACE}."))
}

/// Returns `settings` with the values of `given`. `place` is the prefix of the key in errors.
pub fn read_members(given: &Members<'_>, settings: Settings, place: &str) -> Result<Settings, String> {
    let mut settings = settings;
    for (name, value) in given {
        if name == WEIGHTS_NAME {
            let wrong = || format!("{place}{WEIGHTS_NAME}: expected a table, got {}", describe(value));
            for (name, value) in members(value).ok_or_else(wrong)? {
                set(&mut settings, &WEIGHTS, &name, value, &format!("{place}{WEIGHTS_NAME}."))?;
            }
        } else if name == LIMITS {
            let wrong = |fault| match fault {
                WireError::Record(text) | WireError::Undecodable(text) => text,
                WireError::WrongType(_) => {
                    format!("{place}{LIMITS}: expected an array of tables, got {}", describe(value))
                }
            };
            settings.limits = limits::read(value, &format!("{place}{LIMITS}")).map_err(wrong)?;
        } else if name == QUEUES_NAME {
            set_queues(&mut settings.running, value, &format!("{place}{QUEUES_NAME}"))?;
        } else {
            set(&mut settings, &KEYS, name, value, place)?;
        }
    }
    Ok(settings)
}

/// Reads the table with settings for single queues.
fn set_queues(to: &mut RunningLimitsOf, table: &RawValue, place: &str) -> Result<(), String> {
    let wrong = |place: &str, value| format!("{place}: expected a table, got {}", describe(value));
    to.queues.clear();
    for (queue, keys) in members(table).ok_or_else(|| wrong(place, table))? {
        let place = format!("{place}.{}", shortened(&queue).escape_debug());
        for (name, value) in members(keys).ok_or_else(|| wrong(&place, keys))? {
            if name != RUNNING_LIMITS {
                let name = shortened(&name);
                return Err(format!(
                    "{place}.{}: unknown key; known is {RUNNING_LIMITS}",
                    name.escape_debug()
                ));
            }
            let wrong = || format!("{place}.{name}: expected {RULES_OF_RUNNING}, got {}", show_value(value));
            to.queues.insert(queue.as_ref().into(), read_rule(value).ok_or_else(wrong)?);
        }
    }
    Ok(())
}

/// Returns true if Flux is in private mode. `access` is the table `access` of Flux's configuration, as JSON text.
pub fn is_private(access: Option<&str>) -> bool {
    #[derive(Default, serde::Deserialize)]
    struct Access {
        #[serde(default, rename = "private-mode")]
        private_mode: bool,
    }
    access.and_then(|access| serde_json::from_str::<Access>(access).ok()).unwrap_or_default().private_mode
}

/// Returns the queues of Flux's configuration, each with its parent if it is virtual. `queues` is the table, as JSON text.
pub fn configured_queues(queues: Option<&str>) -> Vec<(QueueName, Option<QueueName>)> {
    #[derive(serde::Deserialize)]
    struct Queue {
        parent: Option<String>,
    }
    let queues: BTreeMap<String, Queue> =
        queues.and_then(|queues| serde_json::from_str(queues).ok()).unwrap_or_default();
    let name = |name: &String| QueueName::from(name.as_str());
    queues.iter().map(|(queue, of)| (name(queue), of.parent.as_ref().map(name))).collect()
}

/// Returns an error if there are settings for a queue that Flux does not have: its name is probably wrong. `queues` is the table
/// of queues in Flux's configuration, as JSON text.
pub fn check_queues(settings: &Settings, queues: Option<&str>) -> Result<(), String> {
    let known = configured_queues(queues);
    match settings.running.queues.keys().find(|queue| !known.iter().any(|(name, _)| name == *queue)) {
        None => Ok(()),
        Some(queue) => {
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
            };
            let queue = shortened(queue.as_str());
            Err(format!("{QUEUES_NAME}.{}: no such queue; known are {known}", queue.escape_debug()))
        }
    }
}

/// Returns the rules for the limits on running jobs, for the method `query`.
pub fn running_limits(settings: &Settings) -> Value {
    let RunningLimitsOf { others, queues } = &settings.running;
    let queues = queues.iter().map(|(queue, rule)| (queue.to_string(), rule.name().into()));
    json!({"default": others.name(), "queues": queues.collect::<Map<_, _>>()})
}

/// Returns the names of all keys.
pub fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name).chain(TABLES)
}

fn set(
    settings: &mut Settings,
    keys: &[Key],
    name: &str,
    value: &RawValue,
    place: &str,
) -> Result<(), String> {
    let Some(key) = keys.iter().find(|key| key.name == name) else {
        let mut known: Vec<&str> = keys.iter().map(|key| key.name).collect();
        if keys.len() == KEYS.len() {
            known.extend(TABLES);
        }
        let name = shortened(name);
        return Err(format!("{place}{}: unknown key; known are {}", name.escape_debug(), known.join(", ")));
    };
    let wrong = || format!("{place}{name}: expected {}, got {}", key.takes, show_value(value));
    (key.set)(settings, value).ok_or_else(wrong)
}

/// Returns a value for an error message, as in the table.
fn show_value(value: &RawValue) -> String {
    match value.get().as_bytes().first() {
        Some(b'"') => shortened(value.get()).into_owned(),
        _ => describe(value),
    }
}

fn put<T>(to: &mut T, value: Option<T>) -> Option<()> {
    *to = value?;
    Some(())
}

fn read_bool(value: &RawValue) -> Option<bool> {
    serde_json::from_str(value.get()).ok()
}

fn read_text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

fn read_number(value: &RawValue) -> Option<usize> {
    value.get().parse().ok().filter(|number| (1..=1_000_000).contains(number))
}

fn read_rule(value: &RawValue) -> Option<RunningLimits> {
    RunningLimits::parse(&read_text(value)?)
}

fn read_weight(value: &RawValue) -> Option<i64> {
    value.get().parse().ok()
}

/// Reads seconds, as a number or as a Flux Standard Duration (RFC 23).
fn read_duration(value: &RawValue) -> Option<f64> {
    let given: String = read_text(value).unwrap_or_else(|| value.get().to_owned());
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let (digits, unit) = units
        .into_iter()
        .find_map(|(unit, seconds)| Some((given.strip_suffix(unit)?, seconds)))
        .unwrap_or((&given, 1.0));
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    let seconds = digits.parse::<f64>().ok().filter(|_| is_plain)? * unit;
    (0.0..=LONGEST).contains(&seconds).then_some(seconds)
}
