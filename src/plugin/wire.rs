// SPDX-License-Identifier: LGPL-3.0-only
//! The records flux-accounting pushes, and what is wrong with them.
//!
//! A payload is read whole before anything is applied. The fast way reads typed records straight from the text; only
//! if that fails is the payload read again, value by value, to name the record, the key and the fault.

use crate::accounts::{Association, AssociationRecord, Config, Policy, Queue, ZeroScore};
use crate::engine::ids::{BankName, Limit, ProjectName, QueueName, UserId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

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

#[derive(Clone, Copy)]
enum Type {
    Integer,
    Number,
    Text,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Text => "string",
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Type::Integer => value.is_i64(),
            Type::Number => value.is_number(),
            Type::Text => value.is_string(),
        }
    }
}

/// A kind of record: how it reads from JSON, and what it becomes.
trait Wire: DeserializeOwned {
    type Record;
    /// The array's name in error texts.
    const ARRAY: &'static str;
    const KEYS: &'static [(&'static str, Type)];
    /// The record, or the key at fault and what is wrong.
    fn accept(self, names: &mut Interner) -> Result<Self::Record, (&'static str, String)>;
    /// Keys and values of limits, for warnings about negative ones.
    fn limits(&self) -> Vec<(&'static str, i64)> {
        Vec::new()
    }
}

/// Associations of a site share few banks and lists: each is kept once.
#[derive(Default)]
struct Interner {
    banks: BTreeMap<String, BankName>,
    queues: BTreeMap<String, Arc<[QueueName]>>,
    projects: BTreeMap<String, Arc<[ProjectName]>>,
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn interned<T: Clone>(known: &mut BTreeMap<String, T>, text: &str, make: impl FnOnce() -> T) -> T {
    if let Some(found) = known.get(text) {
        return found.clone();
    }
    let made = make();
    known.insert(text.to_owned(), made.clone());
    made
}

impl Interner {
    fn bank(&mut self, name: &str) -> BankName {
        interned(&mut self.banks, name, || name.into())
    }

    fn queues(&mut self, list: &str) -> Arc<[QueueName]> {
        interned(&mut self.queues, list, || items(list).map(Into::into).collect())
    }

    fn projects(&mut self, list: &str) -> Arc<[ProjectName]> {
        interned(&mut self.projects, list, || items(list).map(Into::into).collect())
    }
}

fn named(key: &'static str, name: &str) -> Result<(), (&'static str, String)> {
    if name.is_empty() { Err((key, "expected a name, got an empty string".to_owned())) } else { Ok(()) }
}

#[derive(Deserialize)]
struct AssociationWire {
    userid: i64,
    bank: String,
    def_bank: String,
    fairshare: f64,
    max_running_jobs: i64,
    max_active_jobs: i64,
    max_sched_jobs: i64,
    max_nodes: i64,
    max_cores: i64,
    queues: String,
    projects: String,
    def_project: String,
    active: i64,
}

impl Wire for AssociationWire {
    type Record = AssociationRecord;
    const ARRAY: &'static str = "associations";
    const KEYS: &'static [(&'static str, Type)] = &[
        ("userid", Type::Integer),
        ("bank", Type::Text),
        ("def_bank", Type::Text),
        ("fairshare", Type::Number),
        ("max_running_jobs", Type::Integer),
        ("max_active_jobs", Type::Integer),
        ("max_sched_jobs", Type::Integer),
        ("max_nodes", Type::Integer),
        ("max_cores", Type::Integer),
        ("queues", Type::Text),
        ("projects", Type::Text),
        ("def_project", Type::Text),
        ("active", Type::Integer),
    ];

    fn accept(self, names: &mut Interner) -> Result<AssociationRecord, (&'static str, String)> {
        let range = || ("userid", format!("expected 0 to {}, got {}", u32::MAX - 1, self.userid));
        let user = u32::try_from(self.userid).ok().filter(|id| *id != u32::MAX).ok_or_else(range)?;
        named("bank", &self.bank)?;
        named("def_bank", &self.def_bank)?;
        let def_project = self.def_project.trim();
        let association = Association {
            user: UserId(user),
            bank: names.bank(&self.bank),
            fairshare: self.fairshare,
            max_running_jobs: Limit(self.max_running_jobs),
            max_active_jobs: Limit(self.max_active_jobs),
            max_sched_jobs: Limit(self.max_sched_jobs),
            max_nodes: Limit(self.max_nodes),
            max_cores: Limit(self.max_cores),
            queues: names.queues(&self.queues),
            projects: names.projects(&self.projects),
            def_project: (!def_project.is_empty()).then(|| def_project.into()),
            active: self.active != 0,
        };
        Ok(AssociationRecord { association, def_bank: names.bank(&self.def_bank) })
    }

    fn limits(&self) -> Vec<(&'static str, i64)> {
        vec![
            ("max_running_jobs", self.max_running_jobs),
            ("max_active_jobs", self.max_active_jobs),
            ("max_sched_jobs", self.max_sched_jobs),
            ("max_nodes", self.max_nodes),
            ("max_cores", self.max_cores),
        ]
    }
}

#[derive(Deserialize)]
struct QueueWire {
    queue: String,
    priority: i64,
    max_running_jobs: i64,
    max_nodes_per_assoc: i64,
    max_sched_jobs: i64,
    max_sched_nodes_per_assoc: i64,
    max_sched_cores_per_assoc: i64,
    min_nodes_per_job: i64,
    max_nodes_per_job: i64,
    max_time_per_job: i64,
}

impl Wire for QueueWire {
    type Record = Queue;
    const ARRAY: &'static str = "queues";
    const KEYS: &'static [(&'static str, Type)] = &[
        ("queue", Type::Text),
        ("priority", Type::Integer),
        ("max_running_jobs", Type::Integer),
        ("max_nodes_per_assoc", Type::Integer),
        ("max_sched_jobs", Type::Integer),
        ("max_sched_nodes_per_assoc", Type::Integer),
        ("max_sched_cores_per_assoc", Type::Integer),
        ("min_nodes_per_job", Type::Integer),
        ("max_nodes_per_job", Type::Integer),
        ("max_time_per_job", Type::Integer),
    ];

    fn accept(self, _: &mut Interner) -> Result<Queue, (&'static str, String)> {
        named("queue", &self.queue)?;
        Ok(Queue {
            name: self.queue.as_str().into(),
            priority: self.priority,
            max_running_jobs: Limit(self.max_running_jobs),
            max_nodes_per_assoc: Limit(self.max_nodes_per_assoc),
            max_sched_jobs: Limit(self.max_sched_jobs),
            max_sched_nodes_per_assoc: Limit(self.max_sched_nodes_per_assoc),
            max_sched_cores_per_assoc: Limit(self.max_sched_cores_per_assoc),
            min_nodes_per_job: self.min_nodes_per_job,
            max_nodes_per_job: self.max_nodes_per_job,
            max_time_per_job: self.max_time_per_job,
        })
    }

    fn limits(&self) -> Vec<(&'static str, i64)> {
        vec![
            ("max_running_jobs", self.max_running_jobs),
            ("max_nodes_per_assoc", self.max_nodes_per_assoc),
            ("max_sched_jobs", self.max_sched_jobs),
            ("max_sched_nodes_per_assoc", self.max_sched_nodes_per_assoc),
            ("max_sched_cores_per_assoc", self.max_sched_cores_per_assoc),
        ]
    }
}

#[derive(Deserialize)]
struct ProjectWire {
    project: String,
}

impl Wire for ProjectWire {
    type Record = ProjectName;
    const ARRAY: &'static str = "projects";
    const KEYS: &'static [(&'static str, Type)] = &[("project", Type::Text)];

    fn accept(self, _: &mut Interner) -> Result<ProjectName, (&'static str, String)> {
        named("project", &self.project)?;
        Ok(self.project.as_str().into())
    }
}

#[derive(Deserialize)]
struct BankWire {
    bank: String,
    priority: f64,
}

impl Wire for BankWire {
    type Record = (BankName, f64);
    const ARRAY: &'static str = "banks";
    const KEYS: &'static [(&'static str, Type)] = &[("bank", Type::Text), ("priority", Type::Number)];

    fn accept(self, names: &mut Interner) -> Result<Self::Record, (&'static str, String)> {
        named("bank", &self.bank)?;
        Ok((names.bank(&self.bank), self.priority))
    }
}

#[derive(Deserialize)]
struct FactorWire {
    factor: String,
    weight: i64,
}

impl Wire for FactorWire {
    type Record = (String, i64);
    const ARRAY: &'static str = "priority_factors";
    const KEYS: &'static [(&'static str, Type)] = &[("factor", Type::Text), ("weight", Type::Integer)];

    fn accept(self, _: &mut Interner) -> Result<Self::Record, (&'static str, String)> {
        named("factor", &self.factor)?;
        Ok((self.factor, self.weight))
    }
}

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
