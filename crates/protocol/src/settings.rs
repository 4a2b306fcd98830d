// SPDX-License-Identifier: LGPL-3.0-only
//! The settings: the table `[fairshare]` of Flux's configuration, and the same keys given when the plugin is loaded.
//!
//! [`SETTINGS`] has a row for each setting. The manual page, docs/reference.md and the sample
//! etc/flux-fairshare.toml are generated from the rows. If one key is unknown or one value is invalid, the
//! whole table is rejected.

#[cfg(test)]
mod tests;

use crate::limits::{self, LIMITS};
use crate::records::budget::BUDGETS;
use crate::value::{Members, describe, members};
use fairshare::charging::is_factor;
use fairshare::shortened;
use fairshare_engine::accounts::Scope;
use fairshare_engine::engine::Settings;
use fairshare_engine::ids::QueueName;
use fairshare_engine::priority::PRIORITY_LIMIT;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::str::FromStr;

/// The name of the table.
pub const TABLE: &CStr = c"fairshare";
const PLACE: &str = "fairshare";

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The key.
    pub name: &'static str,
    /// The default value in TOML syntax.
    pub default: &'static str,
    /// The description in the documents, without markup.
    pub doc: &'static str,
    read: Read,
}

/// The fault of a table of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The key, the fault, and the accepted values.
    pub text: String,
    /// If the table cannot have a key: the key, and the keys that the table can have.
    pub unknown_key: Option<(String, Vec<String>)>,
}

impl From<String> for SettingError {
    fn from(text: String) -> SettingError {
        SettingError { text, unknown_key: None }
    }
}

impl From<SettingError> for String {
    fn from(error: SettingError) -> String {
        error.text
    }
}

/// Stores a value in the settings. Returns `None` if the value is invalid.
type Set = fn(&mut Settings, &RawValue) -> Option<()>;

/// Reads the value of a key.
#[derive(Debug)]
enum Read {
    /// The values that are accepted, in words.
    Value(&'static str, Set),
    /// A function that reads a table or an array of tables. The last argument of the function is the name of the
    /// table for error messages.
    Table(fn(&mut Settings, &RawValue, &str) -> Result<(), SettingError>),
}

use Read::{Table, Value as One};

const YES_OR_NO: &str = "true or false";
const DURATION: &str = "0 to 36600 days, in seconds or as a duration such as \"30s\", \"2h\" or \"7d\"";
const WEIGHT: &str = "an integer of 64 bits";
const RUNNING_LIMITS: &str = "running-limits";
const RUNNING_RULES: &str = "\"upstream\" or \"strict\"";
/// The longest duration, in seconds: a hundred years.
const LONGEST: f64 = 100.0 * 366.0 * 86_400.0;

/// All settings, in the order of the documents.
pub const SETTINGS: [Setting; 16] = [
    Setting {
        name: "live",
        default: "true",
        doc: "If true, the plugin computes usage and fair-share while jobs run. If false, it uses the pushed fair-shares until the \
              next push.",
        read: One(YES_OR_NO, |settings, value| set_value(&mut settings.live, read_json(value))),
    },
    Setting {
        name: "refresh",
        default: "\"30s\"",
        doc: "The time between two refreshes. A refresh puts pending jobs in the order of their current priorities. With 0, only \
              pushes order pending jobs.",
        read: One(DURATION, |settings, value| set_value(&mut settings.refresh, read_duration(value))),
    },
    Setting {
        name: "accrual",
        default: "\"elapsed\"",
        doc: "How running jobs accrue usage. With \"elapsed\", a job is charged while it runs. With \"committed\", a job is charged \
              at its start for its whole time limit, and the unused time is credited at its end.",
        read: One("\"elapsed\" or \"committed\"", |settings, value| {
            set_value(&mut settings.accrual, read_word(value))
        }),
    },
    Setting {
        name: WEIGHTS_NAME,
        default: "{ age = 0, size = 0 }",
        doc: "The integer weights of two more factors. The factor age is the time for which a job was eligible, divided by age-max, \
              at most 1. The factor size is the nodes of the job, divided by the nodes of the site. If the database has a weight for \
              age or size, that weight takes precedence. The term age_offset, which is equal for all jobs, adds the time until a common \
              reference time, so that the priority of a job stays the same while it waits.",
        read: Table(|settings, value, place| {
            let table = members(value).ok_or_else(|| table_error(place, value))?;
            table.iter().try_for_each(|(name, value)| {
                let (_, set) = WEIGHTS.iter().find(|(known, _)| name == known).ok_or_else(|| {
                    unknown_key_error(&format!("{place}."), name, WEIGHTS.iter().map(|(known, _)| *known))
                })?;
                set(settings, value).ok_or_else(|| value_error(&format!("{place}.{name}"), WEIGHT, value))
            })
        }),
    },
    Setting {
        name: "age-max",
        default: "\"7d\"",
        doc: "The age at which the factor age of a job reaches 1 and stays there. If max-wait-behind is set, ages are not limited, \
              and age-max is only the unit of ages.",
        read: One(
            "more than 0 and at most 36600 days, in seconds or as a duration such as \"7d\"",
            |settings, value| {
                set_value(&mut settings.age_max, read_duration(value).filter(|seconds| *seconds > 0.0))
            },
        ),
    },
    Setting {
        name: "max-wait-behind",
        default: "0",
        doc: "The longest time for which later jobs of equal size may overtake an eligible job. The plugin computes the weight of \
              age from it. With 0, there is no such bound.",
        read: One(DURATION, |settings, value| set_value(&mut settings.max_wait_behind, read_duration(value))),
    },
    Setting {
        name: "interleave",
        default: "false",
        doc: "If true, each job of a user gets its priority as if the earlier jobs of the user had been charged, so that users take turns.",
        read: One(YES_OR_NO, |settings, value| set_value(&mut settings.interleave, read_json(value))),
    },
    Setting {
        name: RUNNING_LIMITS,
        default: "\"upstream\"",
        doc: "When a job counts under limits on running jobs. With \"upstream\", it counts when it starts, as in flux-accounting's \
              plugin. With \"strict\", it counts before it enters SCHED, so no more jobs are in SCHED than could run at once.",
        read: One(RUNNING_RULES, |settings, value| set_value(&mut settings.running.others, read_word(value))),
    },
    Setting {
        name: QUEUES,
        default: "{}",
        doc: "The settings of queues: a table [fairshare.queues.NAME] for each queue. running-limits is the setting of this name for this \
              queue alone. charge is a number from 0 to 1000 (default 1), by which the usage of jobs is multiplied that start in this queue \
              from now on. exempt is an array of \"association\", \"bank\" and \"user\". Limits of these scopes over all queues neither \
              count nor hold jobs in this queue. max-priority is the largest priority of jobs in this queue, except at urgency 31.",
        read: Table(set_queues),
    },
    Setting {
        name: "charge-by",
        default: "\"sum\"",
        doc: "How the plugin computes the usage of a job per second. With \"sum\", it is the weighted sum of the nodes, cores and GPUs of \
              the job. With \"max\", it is the largest weighted part that the job has of the nodes, cores or GPUs of the site, times the \
              nodes of the site. A change applies to jobs that start after the next sync, which stores it with the resources of the site.",
        read: One("\"sum\" or \"max\"", |settings, value| {
            set_value(&mut settings.charge_by, read_word(value))
        }),
    },
    Setting {
        name: LIMITS,
        default: "[]",
        doc: "Further limits, as an array of tables: see LIMITS in flux-fairshare-plugin(7).",
        read: Table(|settings, value, place| {
            settings.limits = limits::read_limit_settings(value, place)?;
            Ok(())
        }),
    },
    Setting {
        name: "enforce-queue-shapes",
        default: "false",
        doc: "If true, the plugin rejects a job that exceeds max_nodes_per_job or max_time_per_job (in minutes) of its queue in \
              flux-accounting's database, or has fewer nodes than min_nodes_per_job. If false, these limits are only shown.",
        read: One(YES_OR_NO, |settings, value| {
            set_value(&mut settings.enforce_queue_shapes, read_json(value))
        }),
    },
    Setting {
        name: BUDGETS,
        default: "\"hold\"",
        doc: "What the plugin does with a job that may use more than a budget has left. With \"hold\", it holds the job. With \
              \"reject\", it rejects the job at submission. With \"warn\", it neither holds nor rejects the job.",
        read: One("\"hold\", \"reject\" or \"warn\"", |settings, value| {
            set_value(&mut settings.budgets, read_word(value))
        }),
    },
    Setting {
        name: "public",
        default: "\"banks\"",
        doc: "The part of the tree that all users may see. With \"own\", users see their own numbers. With \"banks\", they also see the banks above \
              them, and the siblings of these banks. With \"all\", they see the whole tree, and the priority terms of all jobs. With \"own\", limits \
              on a bank or a queue are shown without the amount in use. If such a limit holds a job, the user of the job still sees the reason.",
        read: One("\"own\", \"banks\" or \"all\"", |settings, value| {
            set_value(&mut settings.public, read_word(value))
        }),
    },
    Setting {
        name: "annotate",
        default: "false",
        doc: "If true, flux jobs -o \"{annotations.user.standing}\" shows the fair-share and rank of each pending job as of the last \
              refresh, or the limit that holds the job. Flux keeps annotations in memory only.",
        read: One(YES_OR_NO, |settings, value| set_value(&mut settings.annotate, read_json(value))),
    },
    Setting {
        name: "remember",
        default: "true",
        doc: "If true, the plugin saves the last push and the usage since then in the KVS, and restores them after a reload or a restart.",
        read: One(YES_OR_NO, |settings, value| set_value(&mut settings.remember, read_json(value))),
    },
];

/// The keys of the table `weights`.
const WEIGHTS: [(&str, Set); 2] = [
    ("age", |settings, value| set_value(&mut settings.age_weight, read_json(value))),
    ("size", |settings, value| set_value(&mut settings.size_weight, read_json(value))),
];
const WEIGHTS_NAME: &str = "weights";
const QUEUES: &str = "queues";
const CHARGE: &str = "charge";
const EXEMPT: &str = "exempt";
const EXEMPTIONS: &str = "an array of \"association\", \"bank\" and \"user\"";
const MAX_PRIORITY: &str = "max-priority";
const PRIORITY: &str = "an integer from 1 to 4294967294";
const FACTOR: &str = "a number from 0 to 1000";

/// Settings of earlier versions. A key that a configuration still has is ignored, with a warning.
const RETIRED: [&str; 5] = ["depth", "budget", "max-stall", "memo", "shadow"];

/// Returns `settings`, updated from `table`, which is JSON text.
pub fn read_table(table: &str, settings: Settings) -> Result<Settings, SettingError> {
    let table: &RawValue = serde_json::from_str(table).map_err(|error| format!("[{PLACE}]: {error}"))?;
    let members = members(table).ok_or_else(|| table_error(&format!("[{PLACE}]"), table))?;
    read_members(&members, settings, &format!("{PLACE}."))
}

/// Returns `settings`, updated from `given`. Error messages prefix the key with `place`.
pub fn read_members(
    given: &Members<'_>,
    mut settings: Settings,
    place: &str,
) -> Result<Settings, SettingError> {
    for (name, value) in given.iter().filter(|(name, _)| !is_retired(name)) {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            return Err(unknown_key_error(place, name, names()));
        };
        let place = format!("{place}{name}");
        match &setting.read {
            One(accepted, set) => {
                set(&mut settings, value).ok_or_else(|| value_error(&place, accepted, value))?
            }
            Table(set) => set(&mut settings, value, &place)?,
        }
    }
    Ok(settings)
}

/// Returns true if `name` was a setting of an earlier version.
pub fn is_retired(name: &str) -> bool {
    RETIRED.contains(&name)
}

/// Returns a warning for each key in the JSON text `table` that was a setting of an earlier version. `place` is the prefix of the key.
pub fn list_retired(table: &str, place: &str) -> Vec<String> {
    let keys = serde_json::from_str(table).ok().and_then(members).unwrap_or_default();
    let keys = keys.keys().filter(|name| is_retired(name));
    keys.map(|name| format!("{place}{name}: no longer a setting, ignored: remove it")).collect()
}

/// Stores a value in the settings of a queue. Returns `None` if the value is invalid.
type SetOfQueue = fn(&mut Settings, QueueName, &RawValue) -> Option<()>;

/// The keys of the table of a queue: each with the values that are accepted.
const QUEUE_KEYS: [(&str, &str, SetOfQueue); 4] = [
    (RUNNING_LIMITS, RUNNING_RULES, |settings, queue, value| {
        settings.running.queues.insert(queue, read_word(value)?);
        Some(())
    }),
    (CHARGE, FACTOR, |settings, queue, value| {
        settings.charges.insert(queue, read_json(value).filter(|factor| is_factor(*factor))?);
        Some(())
    }),
    (EXEMPT, EXEMPTIONS, |settings, queue, value| {
        settings.exempt.insert(queue, read_exemptions(value)?);
        Some(())
    }),
    (MAX_PRIORITY, PRIORITY, |settings, queue, value| {
        let max = read_json(value).filter(|max| (1..=PRIORITY_LIMIT).contains(max))?;
        settings.max_priorities.insert(queue, max);
        Some(())
    }),
];

/// Reads a table of queues. Each queue has a table of its settings.
fn set_queues(settings: &mut Settings, table: &RawValue, place: &str) -> Result<(), SettingError> {
    settings.running.queues.clear();
    settings.charges.clear();
    settings.exempt.clear();
    settings.max_priorities.clear();
    for (queue, keys) in members(table).ok_or_else(|| table_error(place, table))? {
        let place = format!("{place}.{}", shortened(&queue).escape_debug());
        for (name, value) in members(keys).ok_or_else(|| table_error(&place, keys))? {
            let Some((_, accepted, set)) = QUEUE_KEYS.iter().find(|(known, ..)| name == *known) else {
                let known = QUEUE_KEYS.iter().map(|(known, ..)| *known);
                return Err(unknown_key_error(&format!("{place}."), &name, known));
            };
            set(settings, queue.as_ref().into(), value)
                .ok_or_else(|| value_error(&format!("{place}.{name}"), accepted, value))?;
        }
    }
    Ok(())
}

/// Returns true if Flux is in private mode. `access` is the table of that name in Flux's configuration, as JSON text.
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

/// Returns an error if a queue has settings but is not in `queues`, Flux's table of queues as JSON text. The
/// name of such a queue is probably wrong.
pub fn check_queues(settings: &Settings, queues: Option<&str>) -> Result<(), String> {
    let known = configured_queues(queues);
    let Settings { running, charges, exempt, max_priorities, .. } = settings;
    let configured = running.queues.keys().chain(charges.keys());
    let mut configured = configured.chain(exempt.keys()).chain(max_priorities.keys());
    match configured.find(|queue| !known.iter().any(|(name, _)| name == *queue)) {
        None => Ok(()),
        Some(queue) => {
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
            };
            let queue = shortened(queue.as_str());
            Err(format!("{QUEUES}.{}: no such queue; known are {known}", queue.escape_debug()))
        }
    }
}

/// Returns the keys of all settings.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

/// Returns the error for a key `name` that the table at `place` cannot have. `known` are the keys that the table can have.
pub(crate) fn unknown_key_error<S: Into<String>>(
    place: &str,
    name: &str,
    known: impl Iterator<Item = S>,
) -> SettingError {
    let known: Vec<String> = known.map(S::into).collect();
    let shown = shortened(name);
    let text = format!("{place}{}: unknown key; known are {}", shown.escape_debug(), known.join(", "));
    SettingError { text, unknown_key: Some((name.to_owned(), known)) }
}

pub(crate) fn value_error(place: &str, accepted: &str, value: &RawValue) -> SettingError {
    format!("{place}: expected {accepted}, got {}", show_value(value)).into()
}

fn table_error(place: &str, value: &RawValue) -> SettingError {
    format!("{place}: expected a table, got {}", describe(value)).into()
}

/// Returns a value for an error message: a string or an array as it was written, and any other value with its type.
fn show_value(value: &RawValue) -> String {
    match value.get().as_bytes().first() {
        Some(b'"' | b'[') => shortened(value.get()).into_owned(),
        _ => describe(value),
    }
}

fn set_value<T>(to: &mut T, value: Option<T>) -> Option<()> {
    *to = value?;
    Some(())
}

/// Returns the value, or `None` if it has another type.
fn read_json<T: DeserializeOwned>(value: &RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

/// Returns the variant of `T` that the text `value` names.
fn read_word<T: FromStr>(value: &RawValue) -> Option<T> {
    read_json::<String>(value)?.parse().ok()
}

fn read_exemptions(value: &RawValue) -> Option<BTreeSet<Scope>> {
    let names: Vec<String> = read_json(value)?;
    let find = |name: &String| Scope::EXEMPTIONS.iter().find(|(known, _)| known == name);
    names.iter().map(|name| find(name).map(|(_, scope)| *scope)).collect()
}

fn read_duration(value: &RawValue) -> Option<f64> {
    let given: String = read_json(value).unwrap_or_else(|| value.get().to_owned());
    parse_duration(&given).filter(|seconds| (0.0..=LONGEST).contains(seconds))
}

/// Parses a Flux Standard Duration (RFC 23). Returns seconds, or `None` if the text is invalid.
pub fn parse_duration(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0), ("", 1.0)];
    let (digits, unit) =
        units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    Some(digits.parse::<f64>().ok().filter(|number| number.is_finite())? * unit)
}
