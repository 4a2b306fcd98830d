// SPDX-License-Identifier: LGPL-3.0-only
//! The records flux-accounting pushes, and what is wrong with them.
//!
//! A payload is read whole before anything is applied. The fast way reads typed records straight from the text; only
//! if that fails is the payload read again, value by value, to name the record, the key and the fault.

use super::records::{AssociationWire, BankWire, FactorWire, Interner, ProjectWire, QueueWire, Wire};
use crate::accounts::{AssociationRecord, Config, Policy, Queue, ZeroScore};
use crate::engine::ids::{BankName, ProjectName};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// Why a payload was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Absent, no JSON, or no `data`.
    Undecodable,
    /// `data` is not of the array's or object's type.
    WrongType(&'static str),
    /// One record; the text names array, index, key and fault.
    Record(String),
}

/// What is accepted, but worth a warning.
pub type Warnings = Vec<String>;

#[derive(Deserialize)]
struct Payload<W> {
    data: Vec<W>,
}

fn accept_all<W: Wire>(wires: Vec<W>, warnings: &mut Warnings) -> Result<Vec<W::Record>, WireError> {
    let mut names = Interner::default();
    let mut records = Vec::with_capacity(wires.len());
    for (index, wire) in wires.into_iter().enumerate() {
        for (key, value) in wire.limits() {
            if value < 0 {
                warnings.push(format!("{}[{index}].{key}: negative limit {value} admits nothing", W::ARRAY));
            }
        }
        let fault = |(key, what)| WireError::Record(format!("{}[{index}].{key}: {what}", W::ARRAY));
        records.push(wire.accept(&mut names).map_err(fault)?);
    }
    Ok(records)
}

/// Reads an array value by value, so that the first fault can be named.
fn from_value<W: Wire>(array: Value, warnings: &mut Warnings) -> Result<Vec<W::Record>, WireError> {
    let Value::Array(array) = array else { return Err(WireError::WrongType(W::ARRAY)) };
    let mut wires: Vec<W> = Vec::with_capacity(array.len());
    for (index, value) in array.into_iter().enumerate() {
        let fault = |what: String| WireError::Record(format!("{}[{index}]{what}", W::ARRAY));
        let Value::Object(record) = &value else {
            return Err(fault(format!(": expected object, got {}", describe(&value))));
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
        wires.push(serde_json::from_value(value).map_err(|error| fault(format!(": {error}")))?);
    }
    accept_all(wires, warnings)
}

/// What a value is, in words; numbers and short texts by value.
fn describe(value: &Value) -> Cow<'static, str> {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => format!("boolean {value}").into(),
        Value::Number(number) if number.is_f64() => format!("real {number}").into(),
        Value::Number(number) if !number.is_i64() => format!("{number}, which exceeds {}", i64::MAX).into(),
        Value::Number(number) => format!("integer {number}").into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

fn from_payload<W: Wire>(
    payload: Option<&str>,
    warnings: &mut Warnings,
) -> Result<Vec<W::Record>, WireError> {
    let text = payload.ok_or(WireError::Undecodable)?;
    match serde_json::from_str::<Payload<W>>(text) {
        Ok(payload) => accept_all(payload.data, warnings),
        Err(_) => from_value::<W>(data(text)?, warnings),
    }
}

fn data(text: &str) -> Result<Value, WireError> {
    match serde_json::from_str(text) {
        Ok(Value::Object(mut payload)) => payload.remove("data").ok_or(WireError::Undecodable),
        _ => Err(WireError::Undecodable),
    }
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
    config_of(&data(payload.ok_or(WireError::Undecodable)?)?)
}

fn config_of(value: &Value) -> Result<Config, WireError> {
    let Value::Object(object) = value else { return Err(WireError::WrongType("config")) };
    let mut config = Config::default();
    match object.get("deny_unknown_queues") {
        None => {}
        Some(Value::Bool(deny)) => config.deny_unknown_queues = *deny,
        Some(other) => {
            let text = format!("deny_unknown_queues: expected boolean, got {}", describe(other));
            return Err(WireError::Record(text));
        }
    }
    match object.get("zero_score") {
        None => {}
        Some(Value::String(word)) if word == "hold" => config.zero_score = ZeroScore::Hold,
        Some(Value::String(word)) if word == "floor" => config.zero_score = ZeroScore::Floor,
        Some(other) => {
            let text = format!("zero_score: expected \"hold\" or \"floor\", got {other}");
            return Err(WireError::Record(text));
        }
    }
    Ok(config)
}

/// `policy_update`: a whole policy, bare or under `data`, and whether only to say what it would change.
pub fn policy_update(payload: Option<&str>, warnings: &mut Warnings) -> Result<(Policy, bool), WireError> {
    let Ok(Value::Object(mut data)) = serde_json::from_str(payload.unwrap_or_default()) else {
        return Err(WireError::Undecodable);
    };
    match data.remove("data") {
        None => {}
        Some(Value::Object(inner)) => data = inner,
        Some(_) => return Err(WireError::WrongType("policy")),
    }
    for array in ["associations", "queues", "projects", "banks", "priority_factors"] {
        if !data.contains_key(array) {
            return Err(WireError::Record(format!("policy.{array}: key is missing")));
        }
    }
    let dry_run = match data.remove("dry_run") {
        None => false,
        Some(Value::Bool(dry_run)) => dry_run,
        Some(other) => {
            return Err(WireError::Record(format!(
                "policy.dry_run: expected boolean, got {}",
                describe(&other)
            )));
        }
    };
    Ok((policy_of(data, warnings)?, dry_run))
}

/// The load-time configuration: the text of the plugin's conf, whose key `config` holds a policy, all parts optional.
pub fn load_config(conf: &str, warnings: &mut Warnings) -> Result<Option<Policy>, WireError> {
    let conf = match serde_json::from_str(conf) {
        Ok(Value::Object(mut conf)) => conf.remove("config"),
        Ok(Value::Null) => None,
        _ => return Err(WireError::Undecodable),
    };
    match conf {
        None => Ok(None),
        Some(Value::Object(policy)) => policy_of(policy, warnings).map(Some),
        Some(other) => Err(WireError::Record(format!("config: expected object, got {}", describe(&other)))),
    }
}

fn policy_of(
    mut parts: serde_json::Map<String, Value>,
    warnings: &mut Warnings,
) -> Result<Policy, WireError> {
    fn part<W: Wire>(
        parts: &mut serde_json::Map<String, Value>,
        warnings: &mut Warnings,
    ) -> Result<Vec<W::Record>, WireError> {
        parts.remove(W::ARRAY).map_or_else(|| Ok(Vec::new()), |array| from_value::<W>(array, warnings))
    }
    Ok(Policy {
        associations: part::<AssociationWire>(&mut parts, warnings)?,
        queues: part::<QueueWire>(&mut parts, warnings)?,
        projects: part::<ProjectWire>(&mut parts, warnings)?,
        banks: part::<BankWire>(&mut parts, warnings)?,
        weights: part::<FactorWire>(&mut parts, warnings)?,
        config: parts.remove("config").map_or_else(|| Ok(Config::default()), |config| config_of(&config))?,
    })
}
