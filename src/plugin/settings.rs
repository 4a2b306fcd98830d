// SPDX-License-Identifier: LGPL-3.0-only
//! The table `[fairshare]` of Flux's configuration, and the same keys given when the plugin is loaded.
//!
//! A table is read whole: one key that is unknown, or one value that is none, refuses all of it.

use super::value::{Members, describe, members, shortened};
use crate::engine::{Memo, Open, Settings};
use crate::fairshare::Policy;
use crate::fairshare::accrual::Mode;
use serde_json::value::RawValue;
use std::ffi::CStr;

/// The name of the table.
pub(super) const TABLE: &CStr = c"fairshare";
const PLACE: &str = "fairshare";

/// One key: its name, what it takes, and how it is set. `None`: it does not take that.
struct Key {
    name: &'static str,
    takes: &'static str,
    set: fn(&mut Settings, &RawValue) -> Option<()>,
}

const YES_OR_NO: &str = "true or false";
const DURATION: &str = "seconds, or a duration such as \"30s\", \"2h\" or \"7d\"";
const WEIGHT: &str = "an integer";
/// Nothing is to take longer than a hundred years.
const LONGEST: f64 = 100.0 * 366.0 * 86_400.0;

const KEYS: [Key; 13] = [
    Key { name: "live", takes: YES_OR_NO, set: |to, value| put(&mut to.live, boolean(value)) },
    Key { name: "refresh", takes: DURATION, set: |to, value| put(&mut to.refresh, duration(value)) },
    Key {
        name: "depth",
        takes: "an integer from 1 to 1000000",
        set: |to, value| put(&mut to.depth, number(value)),
    },
    Key {
        name: "accrual",
        takes: "\"elapsed\" or \"committed\"",
        set: |to, value| {
            let mode = match text(value)?.as_str() {
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
        set: |to, value| put(&mut to.budget, number(value)),
    },
    Key {
        name: "shadow",
        takes: "a policy (weighted-walk, fair-tree, classic, depth-oblivious or pbs), or \"none\"",
        set: |to, value| {
            let name = text(value)?;
            let policy = if name == "none" { None } else { Some(name.parse::<Policy>().ok()?) };
            put(&mut to.shadow, Some(policy))
        },
    },
    Key {
        name: "memo",
        takes: "\"always\", \"coarse\" or \"never\"",
        set: |to, value| {
            let memo = match text(value)?.as_str() {
                "always" => Memo::Always,
                "coarse" => Memo::Coarse,
                "never" => Memo::Never,
                _ => return None,
            };
            put(&mut to.memo, Some(Some(memo)))
        },
    },
    Key {
        name: "age-max",
        takes: "a positive duration such as \"7d\", or seconds",
        set: |to, value| put(&mut to.age_max, duration(value).filter(|seconds| *seconds > 0.0)),
    },
    Key {
        name: "max-wait-behind",
        takes: DURATION,
        set: |to, value| put(&mut to.max_wait_behind, duration(value)),
    },
    Key { name: "interleave", takes: YES_OR_NO, set: |to, value| put(&mut to.interleave, boolean(value)) },
    Key { name: "remember", takes: YES_OR_NO, set: |to, value| put(&mut to.remember, boolean(value)) },
    Key {
        name: "public",
        takes: "\"own\", \"banks\" or \"all\"",
        set: |to, value| {
            let open = match text(value)?.as_str() {
                "own" => Open::Own,
                "banks" => Open::Banks,
                "all" => Open::All,
                _ => return None,
            };
            put(&mut to.public, Some(open))
        },
    },
    Key { name: "annotate", takes: YES_OR_NO, set: |to, value| put(&mut to.annotate, boolean(value)) },
];

/// The keys of `weights`, which is a table of its own.
const WEIGHTS: [Key; 2] = [
    Key { name: "age", takes: WEIGHT, set: |to, value| put(&mut to.age_weight, weight(value)) },
    Key { name: "size", takes: WEIGHT, set: |to, value| put(&mut to.size_weight, weight(value)) },
];
const WEIGHTS_NAME: &str = "weights";

/// Settings with those that the table has, given as JSON text.
pub(super) fn of_table(table: &str, settings: Settings) -> Result<Settings, String> {
    let wrong = |what: String| format!("[{PLACE}]: {what}");
    let table: &RawValue = serde_json::from_str(table).map_err(|error| wrong(error.to_string()))?;
    let members =
        members(table).ok_or_else(|| wrong(format!("expected a table, got {}", describe(table))))?;
    of_members(&members, settings, &format!("{PLACE}."))
}

/// Settings with these. What is refused is named with `place` before it.
pub(super) fn of_members(given: &Members<'_>, settings: Settings, place: &str) -> Result<Settings, String> {
    let mut settings = settings;
    for (name, value) in given {
        if name == WEIGHTS_NAME {
            let wrong = || format!("{place}{WEIGHTS_NAME}: expected a table, got {}", describe(value));
            for (name, value) in members(value).ok_or_else(wrong)? {
                set(&mut settings, &WEIGHTS, &name, value, &format!("{place}{WEIGHTS_NAME}."))?;
            }
        } else {
            set(&mut settings, &KEYS, name, value, place)?;
        }
    }
    Ok(settings)
}

/// The names of all keys.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name).chain([WEIGHTS_NAME])
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
            known.push(WEIGHTS_NAME);
        }
        let name = shortened(name);
        return Err(format!("{place}{}: unknown key; known are {}", name.escape_debug(), known.join(", ")));
    };
    let wrong = || format!("{place}{name}: expected {}, got {}", key.takes, shown(value));
    (key.set)(settings, value).ok_or_else(wrong)
}

/// What was given, as a person wrote it.
fn shown(value: &RawValue) -> String {
    match value.get().as_bytes().first() {
        Some(b'"') => shortened(value.get()).into_owned(),
        _ => describe(value),
    }
}

fn put<T>(to: &mut T, value: Option<T>) -> Option<()> {
    *to = value?;
    Some(())
}

fn boolean(value: &RawValue) -> Option<bool> {
    serde_json::from_str(value.get()).ok()
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

fn number(value: &RawValue) -> Option<usize> {
    value.get().parse().ok().filter(|number| (1..=1_000_000).contains(number))
}

fn weight(value: &RawValue) -> Option<i64> {
    value.get().parse().ok()
}

/// Seconds, as a number or a Flux Standard Duration (RFC 23).
fn duration(value: &RawValue) -> Option<f64> {
    let given: String = text(value).unwrap_or_else(|| value.get().to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &str) -> Result<Settings, String> {
        of_table(table, Settings::default())
    }

    #[test]
    fn every_key_is_read() {
        let settings = read(
            r#"{"live": false, "refresh": "1.5m", "depth": 200, "accrual": "committed", "budget": 50, "shadow": "pbs",
                "memo": "never", "age-max": "2d", "weights": {"age": 1000, "size": -5}, "max-wait-behind": 7200,
                "interleave": true, "remember": false, "public": "own", "annotate": true}"#,
        );
        let wanted = Settings {
            live: false,
            refresh: 90.0,
            depth: 200,
            accrual: Mode::Committed,
            budget: 50,
            shadow: Some(Policy::Pbs),
            memo: Some(Memo::Never),
            age_max: 172_800.0,
            age_weight: 1000,
            size_weight: -5,
            max_wait_behind: 7200.0,
            interleave: true,
            remember: false,
            public: Open::Own,
            annotate: true,
        };
        assert_eq!(settings, Ok(wanted));
        let all: Vec<&str> = names().collect();
        assert_eq!(all.len(), KEYS.len() + 1);
    }

    #[test]
    fn an_empty_table_changes_nothing() {
        let before = Settings { depth: 7, ..Settings::default() };
        assert_eq!(of_table("{}", before.clone()), Ok(before));
        assert_eq!(read(r#"{"shadow": "none"}"#).map(|settings| settings.shadow), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (table, told) in [
            (r#"[]"#, "[fairshare]: expected a table, got array"),
            (
                r#"{"refesh": 3}"#,
                "fairshare.refesh: unknown key; known are live, refresh, depth, accrual, budget, shadow, memo, age-max, \
                 max-wait-behind, interleave, remember, public, annotate, weights",
            ),
            (r#"{"live": "yes"}"#, "fairshare.live: expected true or false, got \"yes\""),
            (
                r#"{"refresh": -1}"#,
                "fairshare.refresh: expected seconds, or a duration such as \"30s\", \"2h\" or \"7d\", got integer -1",
            ),
            (
                r#"{"refresh": "NaN"}"#,
                "fairshare.refresh: expected seconds, or a duration such as \"30s\", \"2h\" or \"7d\", got \"NaN\"",
            ),
            (
                r#"{"refresh": "1e9d"}"#,
                "fairshare.refresh: expected seconds, or a duration such as \"30s\", \"2h\" or \"7d\", got \"1e9d\"",
            ),
            (r#"{"depth": 0}"#, "fairshare.depth: expected an integer from 1 to 1000000, got integer 0"),
            (r#"{"depth": 2.5}"#, "fairshare.depth: expected an integer from 1 to 1000000, got real 2.5"),
            (r#"{"budget": null}"#, "fairshare.budget: expected an integer from 1 to 1000000, got null"),
            (
                r#"{"accrual": "used"}"#,
                "fairshare.accrual: expected \"elapsed\" or \"committed\", got \"used\"",
            ),
            (
                r#"{"shadow": "fairtree"}"#,
                "fairshare.shadow: expected a policy (weighted-walk, fair-tree, classic, depth-oblivious or pbs), or \"none\", got \"fairtree\"",
            ),
            (
                r#"{"memo": true}"#,
                "fairshare.memo: expected \"always\", \"coarse\" or \"never\", got boolean true",
            ),
            (
                r#"{"age-max": 0}"#,
                "fairshare.age-max: expected a positive duration such as \"7d\", or seconds, got integer 0",
            ),
            (r#"{"weights": 3}"#, "fairshare.weights: expected a table, got integer 3"),
            (r#"{"weights": {"aeg": 3}}"#, "fairshare.weights.aeg: unknown key; known are age, size"),
            (r#"{"weights": {"age": "3"}}"#, "fairshare.weights.age: expected an integer, got \"3\""),
        ] {
            assert_eq!(read(table), Err(told.to_owned()), "{table}");
        }
    }

    #[test]
    fn one_bad_value_refuses_the_whole_table() {
        assert!(read(r#"{"budget": 1, "depth": 0}"#).is_err());
    }
}
