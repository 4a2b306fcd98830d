// SPDX-License-Identifier: LGPL-3.0-only
//! The records flux-accounting pushes, and what is wrong with them.
//!
//! A payload is read whole before anything is applied. The fast way reads typed records straight from the text; only
//! if that fails is the payload read again, value by value, to name the record, the key and the fault.

use super::records::{AssociationWire, BankWire, FactorWire, Interner, ProjectWire, QueueWire, Wire};
use super::value::{Members, Object, describe, members, shortened};
use crate::accounts::{AssociationRecord, Config, Policy, Queue, ZeroScore};
use crate::engine::ids::{BankName, ProjectName};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Why a payload was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Absent, no JSON, or no `data`; the text says which.
    Undecodable(String),
    /// `data` is not of the array's or object's type.
    WrongType(&'static str),
    /// One record; the text names array, index, key and fault.
    Record(String),
}

/// What is accepted, but worth a warning.
pub type Warnings = Vec<String>;

#[derive(Deserialize)]
#[serde(bound = "W: Wire")]
struct Payload<W> {
    data: Vec<Object<W>>,
}

fn accept_all<W: Wire>(wires: Vec<Object<W>>, warnings: &mut Warnings) -> Result<Vec<W::Record>, WireError> {
    let mut names = Interner::default();
    let mut records = Vec::with_capacity(wires.len());
    for (index, Object(wire)) in wires.into_iter().enumerate() {
        for (key, value) in wire.limits() {
            if value < 0 {
                let means =
                    if key == "max_active_jobs" { "means unlimited, as 0 does" } else { "admits nothing" };
                warnings.push(format!("{}[{index}].{key}: negative limit {value} {means}", W::ARRAY));
            }
        }
        let fault = |(key, what)| WireError::Record(format!("{}[{index}].{key}: {what}", W::ARRAY));
        records.push(wire.accept(&mut names).map_err(fault)?);
    }
    Ok(records)
}

/// Reads an array at once; if that fails value by value, so that the first fault can be named.
fn from_array<W: Wire>(array: &RawValue, warnings: &mut Warnings) -> Result<Vec<W::Record>, WireError> {
    if let Ok(wires) = serde_json::from_str::<Vec<Object<W>>>(array.get()) {
        return accept_all(wires, warnings);
    }
    let Ok(array) = serde_json::from_str::<Vec<&RawValue>>(array.get()) else {
        return Err(WireError::WrongType(W::ARRAY));
    };
    let mut wires: Vec<Object<W>> = Vec::with_capacity(array.len());
    for (index, value) in array.into_iter().enumerate() {
        let fault = |what: String| WireError::Record(format!("{}[{index}]{what}", W::ARRAY));
        let Some(record) = members(value) else {
            return Err(fault(format!(": expected object, got {}", describe(value))));
        };
        for (key, wanted) in W::KEYS {
            match record.get(*key) {
                None => return Err(fault(format!(".{key}: key is missing"))),
                Some(found) if !wanted.fits(found) => {
                    return Err(fault(format!(
                        ".{key}: expected {}, got {}",
                        wanted.name(),
                        describe(found)
                    )));
                }
                Some(_) => {}
            }
        }
        wires.push(Object::from_members(&record, W::KEYS).map_err(|error| fault(format!(": {error}")))?);
    }
    accept_all(wires, warnings)
}

fn from_payload<W: Wire>(
    payload: Option<&str>,
    warnings: &mut Warnings,
) -> Result<Vec<W::Record>, WireError> {
    match serde_json::from_str::<Object<Payload<W>>>(payload.unwrap_or_default()) {
        Ok(Object(payload)) => accept_all(payload.data, warnings),
        Err(_) => from_array::<W>(data(payload)?, warnings),
    }
}

fn data(payload: Option<&str>) -> Result<&RawValue, WireError> {
    let missing = || WireError::Undecodable("the key \"data\" is missing".to_owned());
    object(payload)?.get("data").copied().ok_or_else(missing)
}

/// The members of a payload, which is to be an object.
fn object(payload: Option<&str>) -> Result<Members<'_>, WireError> {
    let text = payload.ok_or_else(|| WireError::Undecodable("there is no payload".to_owned()))?;
    let value: &RawValue =
        serde_json::from_str(text).map_err(|error| WireError::Undecodable(error.to_string()))?;
    members(value)
        .ok_or_else(|| WireError::Undecodable(format!("expected an object, got {}", describe(value))))
}

/// `rec_update`.
pub fn associations(
    payload: Option<&str>,
    warnings: &mut Warnings,
) -> Result<Vec<AssociationRecord>, WireError> {
    from_payload::<AssociationWire>(payload, warnings)
}

/// `rec_q_update`.
pub fn queues(payload: Option<&str>, warnings: &mut Warnings) -> Result<Vec<Queue>, WireError> {
    from_payload::<QueueWire>(payload, warnings)
}

/// `rec_proj_update`.
pub fn projects(payload: Option<&str>, warnings: &mut Warnings) -> Result<Vec<ProjectName>, WireError> {
    from_payload::<ProjectWire>(payload, warnings)
}

/// `rec_bank_update`.
pub fn banks(payload: Option<&str>, warnings: &mut Warnings) -> Result<Vec<(BankName, f64)>, WireError> {
    from_payload::<BankWire>(payload, warnings)
}

/// `rec_fac_update`.
pub fn weights(payload: Option<&str>, warnings: &mut Warnings) -> Result<Vec<(String, i64)>, WireError> {
    from_payload::<FactorWire>(payload, warnings)
}

/// `rec_config_update`.
pub fn config(payload: Option<&str>) -> Result<Config, WireError> {
    config_of(data(payload)?)
}

fn config_of(value: &RawValue) -> Result<Config, WireError> {
    let members = members(value).ok_or(WireError::WrongType("config"))?;
    let mut config = Config::default();
    if let Some(value) = members.get("deny_unknown_queues") {
        config.deny_unknown_queues = boolean("deny_unknown_queues", value)?;
    }
    if let Some(value) = members.get("zero_score") {
        config.zero_score = match value.get() {
            "\"hold\"" => ZeroScore::Hold,
            "\"floor\"" => ZeroScore::Floor,
            _ => {
                let text =
                    format!("zero_score: expected \"hold\" or \"floor\", got {}", shortened(value.get()));
                return Err(WireError::Record(text));
            }
        };
    }
    Ok(config)
}

fn boolean(key: &str, value: &RawValue) -> Result<bool, WireError> {
    match value.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(WireError::Record(format!("{key}: expected boolean, got {}", describe(value)))),
    }
}

/// `policy_update`: a whole policy, bare or under `data`, and whether only to say what it would change. `dry_run` may
/// stand in either place: what was meant as a question must not become an order.
pub fn policy_update(payload: Option<&str>, warnings: &mut Warnings) -> Result<(Policy, bool), WireError> {
    let outer = object(payload)?;
    let inner =
        outer.get("data").map(|data| members(data).ok_or(WireError::WrongType("policy"))).transpose()?;
    let mut dry_run = false;
    for part in [Some(&outer), inner.as_ref()].into_iter().flatten() {
        if let Some(value) = part.get("dry_run") {
            dry_run |= boolean("policy.dry_run", value)?;
        }
    }
    let parts = inner.unwrap_or(outer);
    for array in ["associations", "queues", "projects", "banks", "priority_factors"] {
        if !parts.contains_key(array) {
            return Err(WireError::Record(format!("policy.{array}: key is missing")));
        }
    }
    Ok((policy_of(&parts, warnings)?, dry_run))
}

/// The load-time configuration: the text of the plugin's conf, whose key `config` holds a policy, all parts optional.
pub fn load_config(conf: &str, warnings: &mut Warnings) -> Result<Option<Policy>, WireError> {
    if conf.trim() == "null" {
        return Ok(None);
    }
    let conf = object(Some(conf))?;
    let Some(policy) = conf.get("config") else { return Ok(None) };
    let wrong = || WireError::Record(format!("config: expected object, got {}", describe(policy)));
    let parts = members(policy).ok_or_else(wrong)?;
    policy_of(&parts, warnings).map(Some)
}

fn policy_of(parts: &Members<'_>, warnings: &mut Warnings) -> Result<Policy, WireError> {
    fn part<W: Wire>(parts: &Members<'_>, warnings: &mut Warnings) -> Result<Vec<W::Record>, WireError> {
        parts.get(W::ARRAY).map_or_else(|| Ok(Vec::new()), |array| from_array::<W>(array, warnings))
    }
    let within = |fault| match fault {
        WireError::Record(text) => WireError::Record(format!("config.{text}")),
        other => other,
    };
    Ok(Policy {
        associations: part::<AssociationWire>(parts, warnings)?,
        queues: part::<QueueWire>(parts, warnings)?,
        projects: part::<ProjectWire>(parts, warnings)?,
        banks: part::<BankWire>(parts, warnings)?,
        weights: part::<FactorWire>(parts, warnings)?,
        config: parts
            .get("config")
            .map_or_else(|| Ok(Config::default()), |c| config_of(c).map_err(within))?,
    })
}
