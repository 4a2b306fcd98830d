// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the payloads of the methods that push data, and reports faults.
//!
//! A payload is read completely before any of it is applied.

use crate::charges::{self, CHARGE_BY, CHARGES};
use crate::field::Record;
use crate::limits::{self, LIMITS};
use crate::reading::Reader;
use crate::records::budget::{self, BUDGETS};
use crate::records::{BankRecord, BorrowedAssociation, FactorRecord, ProjectRecord, QueueRecord};
use crate::settings::{self, SettingError};
use crate::tree::{self, TREE};
use crate::value::{Members, Object, describe, members};
use fairshare::{insert_all, shortened};
use fairshare_engine::accounts::{AssociationRecord, ConfigPatch, SiteRecords};
use fairshare_engine::engine::Settings;
use fairshare_engine::ids::BankName;
use fairshare_engine::standing::{Bank, Charges, SitePart};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The reason why a payload is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The payload is missing, is not a JSON object, or has no `data`. The text says which.
    Undecodable(String),
    /// The array or object with this name has the wrong type.
    WrongType(&'static str),
    /// A record is invalid. The text has the array, the index, the key and the fault.
    Record(String),
}

/// The result of reading a payload or a part of one.
pub type Read<T> = Result<T, WireError>;

const DENY_UNKNOWN_QUEUES: &str = "deny_unknown_queues";
const ZERO_SCORE: &str = "zero_score";

/// The payload of `rec_update`. It may have very many records, so a valid payload is read at once, without a search for its members.
#[derive(Deserialize)]
struct AssociationPayload<'a> {
    #[serde(borrow)]
    data: Vec<Object<BorrowedAssociation<'a>>>,
}

fn find_data(payload: Option<&str>) -> Read<&RawValue> {
    let missing_error = || WireError::Undecodable("the key \"data\" is missing".to_owned());
    read_object(payload)?.get("data").copied().ok_or_else(missing_error)
}

/// Returns the members of `payload`, or an error if it is not an object.
pub fn read_object(payload: Option<&str>) -> Read<Members<'_>> {
    let text = payload.ok_or_else(|| WireError::Undecodable("there is no payload".to_owned()))?;
    let describe_fault = |_| match serde_json::from_str::<&RawValue>(text) {
        Ok(value) => WireError::Undecodable(format!("expected an object, got {}", describe(value))),
        Err(error) => WireError::Undecodable(error.to_string()),
    };
    serde_json::from_str(text).map_err(describe_fault)
}

/// Reads each record of the array `key`. An error begins with the key and the index of the record.
pub(crate) fn read_records<T>(
    array: &RawValue,
    key: &'static str,
    read: impl Fn(&RawValue) -> Result<T, String>,
) -> Read<Vec<T>> {
    let records: Vec<&RawValue> = serde_json::from_str(array.get()).map_err(|_| WireError::WrongType(key))?;
    let read_record = |(at, record): (usize, &RawValue)| {
        read(record).map_err(|what| WireError::Record(format!("{key}[{at}]{what}")))
    };
    records.into_iter().enumerate().map(read_record).collect()
}

/// Reads the payload of `rec_update`.
pub fn read_associations(payload: Option<&str>, reader: &mut Reader) -> Read<Vec<AssociationRecord>> {
    let records = match serde_json::from_str::<Object<AssociationPayload>>(payload.unwrap_or_default()) {
        Ok(Object(payload)) => reader.convert_all(payload.data)?,
        Err(_) => reader.array::<BorrowedAssociation>(find_data(payload)?)?,
    };
    Ok(records.into_iter().filter_map(|(record, _)| record).collect())
}

/// Reads the payload of a method `rec_*` whose records of type `R` have no part of the tree.
pub fn read_table<R: Record + DeserializeOwned>(
    payload: Option<&str>,
    reader: &mut Reader,
) -> Read<Vec<R::Accepted>> {
    reader.array::<R>(find_data(payload)?)
}

/// Reads the payload of `rec_bank_update`.
pub fn read_banks(payload: Option<&str>, reader: &mut Reader) -> Read<Vec<(BankName, f64)>> {
    let records = reader.array::<BankRecord>(find_data(payload)?)?;
    Ok(records.into_iter().map(|(bank, _)| bank).collect())
}

/// Reads the payload of `rec_config_update`. Warns of unknown switches, which may come from a newer database.
pub fn read_config_update(payload: Option<&str>, reader: &mut Reader) -> Read<ConfigPatch> {
    let value = find_data(payload)?;
    let patch = read_config(value)?;
    warn_of_unknown_config_switches(value, reader);
    Ok(patch)
}

fn read_config(value: &RawValue) -> Read<ConfigPatch> {
    let members = members(value).ok_or(WireError::WrongType("config"))?;
    let deny =
        members.get(DENY_UNKNOWN_QUEUES).map(|value| read_bool(DENY_UNKNOWN_QUEUES, value)).transpose()?;
    let score = members.get(ZERO_SCORE).map(|value| {
        let value_error = |_| {
            let found = shortened(value.get());
            WireError::Record(format!("{ZERO_SCORE}: expected \"hold\" or \"floor\", got {found}"))
        };
        serde_json::from_str(value.get()).map_err(value_error)
    });
    Ok(ConfigPatch { deny_unknown_queues: deny, zero_score: score.transpose()? })
}

/// Returns the unknown switches of a `config` object.
fn unknown_switches(value: &RawValue) -> Vec<String> {
    list_unknown(&members(value).unwrap_or_default(), &[DENY_UNKNOWN_QUEUES, ZERO_SCORE])
}

fn warn_of_unknown_config_switches(config: &RawValue, reader: &mut Reader) {
    for key in unknown_switches(config) {
        reader.warnings.note(|| format!("config: unknown switch {key}, ignored"));
    }
}

/// Returns the keys that are not in `known`, quoted for a message.
fn list_unknown(members: &Members<'_>, known: &[&str]) -> Vec<String> {
    let unknown = members.keys().filter(|key| !known.contains(&key.as_ref()));
    unknown.map(|key| format!("\"{}\"", shortened(key).escape_debug())).collect()
}

fn read_bool(key: &str, value: &RawValue) -> Read<bool> {
    let type_error = |_| WireError::Record(format!("{key}: expected boolean, got {}", describe(value)));
    value.get().parse().map_err(type_error)
}

/// Reads the payload of `policy_update`: a whole document, directly or under `data`. The second value is true for a dry
/// run. `dry_run` is accepted at both levels, so that a dry run with the key at the wrong level changes no data.
pub fn read_policy_update(payload: Option<&str>, reader: &mut Reader) -> Read<(Push, bool)> {
    let outer = read_object(payload)?;
    let inner =
        outer.get("data").map(|data| members(data).ok_or(WireError::WrongType("policy"))).transpose()?;
    let mut dry_run = false;
    for part in [Some(&outer), inner.as_ref()].into_iter().flatten() {
        if let Some(value) = part.get("dry_run") {
            dry_run |= read_bool("policy.dry_run", value)?;
        }
    }
    let parts = inner.unwrap_or(outer);
    for array in SiteRecords::ARRAYS {
        if !parts.contains_key(array) {
            return Err(WireError::Record(format!("policy.{array}: key is missing")));
        }
    }
    Ok((read_part(&parts, reader)?, dry_run))
}

/// The options of a staged push, from `policy_begin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedPushOptions {
    /// True if `policy_commit` reports the differences and changes nothing.
    pub dry_run: bool,
    /// True if switches that the push does not contain keep their values.
    pub keeps_config: bool,
    /// The seconds without a part after which the push is aborted.
    pub expires: u64,
}

/// The answer to `policy_begin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginPushAnswer {
    /// The number of the push.
    pub push: u64,
    /// The seconds without a part after which the push is aborted.
    #[serde(default)]
    pub expires: u64,
    /// The maximum number of records of a part.
    pub max_records: usize,
    /// The maximum number of bytes of a part.
    pub max_bytes: usize,
}

/// The answer to `policy_part`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedPushProgress {
    /// The number of the push.
    pub push: u64,
    /// The number of associations in all parts so far.
    pub associations: usize,
}

/// Reads the payload of `policy_begin`. The payload may be absent.
pub fn read_policy_begin(payload: Option<&str>) -> Read<StagedPushOptions> {
    const MOST: u64 = 3600;
    let members = payload.map_or_else(|| Ok(Members::new()), |text| read_object(Some(text)))?;
    let read_flag =
        |key: &str| members.get(key).map_or(Ok(false), |value| read_bool(&format!("policy.{key}"), value));
    let read_expiry = |value: &&RawValue| {
        let expected = format!("policy.expires: expected an integer from 1 to {MOST}");
        let range_error = || WireError::Record(format!("{expected}, got {}", describe(value)));
        value.get().parse().ok().filter(|seconds| (1..=MOST).contains(seconds)).ok_or_else(range_error)
    };
    let expires = members.get("expires").map_or(Ok(60), read_expiry)?;
    Ok(StagedPushOptions { dry_run: read_flag("dry_run")?, keeps_config: read_flag("keep_config")?, expires })
}

/// Reads the number of the push in `policy_part`, `policy_commit` and `policy_abort`.
pub fn read_push_number(payload: Option<&str>) -> Read<u64> {
    let members = read_object(payload)?;
    let missing_error = || WireError::Record("policy.push: key is missing".to_owned());
    let value = members.get("push").ok_or_else(missing_error)?;
    let type_error = || WireError::Record(format!("policy.push: expected integer, got {}", describe(value)));
    value.get().parse().map_err(|_| type_error())
}

/// Reads the payload of `policy_part`: arrays of a site document, or parts of these arrays.
pub fn read_policy_part(payload: Option<&str>, reader: &mut Reader) -> Read<Push> {
    read_part(&read_object(payload)?, reader)
}

/// Reads the key `config` of the plugin's load options: a site document in which no part is required. Unknown
/// options and unknown switches are rejected, because an administrator writes them by hand. Other unknown
/// keys may come from a newer database, and only cause a warning.
pub fn read_load_config(conf: &str, reader: &mut Reader) -> Read<Option<Push>> {
    if conf.trim() == "null" {
        return Ok(None);
    }
    let mut conf = read_object(Some(conf))?;
    conf.retain(|key, _| !settings::is_retired(key));
    let known: Vec<&str> = std::iter::once("config").chain(settings::names()).collect();
    if let Some(key) = list_unknown(&conf, &known).first() {
        let known = known.join(", ");
        return Err(WireError::Record(format!("unknown option {key}; known are {known}")));
    }
    let Some(policy) = conf.get("config") else { return Ok(None) };
    let type_error = || WireError::Record(format!("config: expected object, got {}", describe(policy)));
    let parts = members(policy).ok_or_else(type_error)?;
    if let Some(key) = parts.get("config").and_then(|config| unknown_switches(config).into_iter().next()) {
        let text = format!(
            "config.config: unknown switch {key}, expected \"{DENY_UNKNOWN_QUEUES}\" or \"{ZERO_SCORE}\""
        );
        return Err(WireError::Record(text));
    }
    for key in list_unknown(
        &parts,
        &[SiteRecords::ARRAYS.as_slice(), &["config", TREE, LIMITS, CHARGES, CHARGE_BY, BUDGETS]].concat(),
    ) {
        reader.warnings.note(|| format!("config: unknown key {key}, ignored"));
    }
    read_part(&parts, reader).map(Some)
}

/// Reads the settings of the plugin's load options, which are all keys except `config`. They take precedence
/// over `settings`.
pub fn read_load_settings(conf: &str, settings: Settings) -> Result<Settings, SettingError> {
    if conf.trim() == "null" {
        return Ok(settings);
    }
    let Ok(mut keys) = read_object(Some(conf)) else { return Ok(settings) };
    keys.remove("config");
    settings::read_members(&keys, settings, "")
}

/// The records and the tree of a whole document, or of a part of a document.
pub type Push = (SiteRecords, SitePart);

fn read_part(parts: &Members<'_>, reader: &mut Reader) -> Read<Push> {
    fn read_array<'a, R: Record + Deserialize<'a>>(
        parts: &Members<'a>,
        reader: &mut Reader,
    ) -> Read<Vec<R::Accepted>> {
        read_member(parts, R::ARRAY, |array| reader.array::<R>(array))
    }
    let prefix_key = |fault| match fault {
        WireError::Record(text) => WireError::Record(format!("config.{text}")),
        other => other,
    };
    let (associations, leaves): (Vec<_>, Vec<_>) =
        read_array::<BorrowedAssociation>(parts, reader)?.into_iter().unzip();
    let (banks, branches): (_, Vec<_>) = read_array::<BankRecord>(parts, reader)?.into_iter().unzip();
    let branches: Vec<Bank> = branches.into_iter().flatten().collect();
    let name_and_parent = |bank: &Bank| Some((bank.name.clone(), bank.parent.clone()?));
    let parents = branches.iter().filter_map(name_and_parent).collect();
    let limits = read_member(parts, LIMITS, limits::read_limits)?;
    let charges = Charges {
        factors: read_member(parts, CHARGES, charges::read_factors)?,
        rules: read_member(parts, CHARGE_BY, charges::read_rules)?,
    };
    let budgets = read_member(parts, BUDGETS, budget::read_budgets)?;
    let rule =
        parts.get(TREE).filter(|tree| tree.get() != "null").map(|tree| tree::read_rule(tree)).transpose()?;
    let part = SiteRecords {
        associations: associations.into_iter().flatten().collect(),
        queues: read_array::<QueueRecord>(parts, reader)?,
        projects: read_array::<ProjectRecord>(parts, reader)?,
        banks,
        parents,
        limits,
        weights: read_array::<FactorRecord>(parts, reader)?,
        config: read_member(parts, "config", read_config).map_err(prefix_key)?,
        arrays: insert_all(SiteRecords::ARRAYS.into_iter().filter(|array| parts.contains_key(*array))),
    };
    if let Some(config) = parts.get("config") {
        warn_of_unknown_config_switches(config, reader);
    }
    let associations = leaves.into_iter().flatten().collect();
    Ok((part, SitePart { rule, banks: branches, associations, charges, budgets }))
}

/// Reads the member `key` of a document with `read`. If the document has no such member, returns the default value.
fn read_member<'a, T: Default>(
    parts: &Members<'a>,
    key: &str,
    read: impl FnOnce(&'a RawValue) -> Read<T>,
) -> Read<T> {
    parts.get(key).map_or_else(|| Ok(T::default()), |value| read(value))
}
