// SPDX-License-Identifier: LGPL-3.0-only
//! Builds a job record from the JSON texts of Flux.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Unreadable;
use super::list::ListedJob;
use crate::pipeline::resources::read_system_attributes;
use crate::store::JobRecord;

/// Response of `job-info.lookup`: JSON that contains R and the jobspec as JSON texts.
#[derive(Deserialize)]
struct InfoLookup {
    #[serde(rename = "R")]
    r: String,
    jobspec: String,
}

/// Response of `job-manager.getattr`.
#[derive(Deserialize)]
struct Attributes<'a> {
    #[serde(rename = "R", borrow)]
    r: &'a RawValue,
    #[serde(borrow)]
    jobspec: &'a RawValue,
}

/// Fields of a jobspec that accounting stores. Flux accepts any JSON value for them; invalid values count as missing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct System {
    project: Value,
    bank: Value,
    duration: Value,
}

/// Builds the record of a listed job from a response of the job manager.
pub(super) fn build_from_manager(job: ListedJob, answer: &str) -> Result<JobRecord, Unreadable> {
    match serde_json::from_str::<Attributes<'_>>(answer) {
        Ok(Attributes { r, jobspec }) => build_record(job, add_spaces(r.get()), add_spaces(jobspec.get())),
        Err(error) => Err(Unreadable { id: job.id.to_string(), reason: format!("its attributes: {error}") }),
    }
}

/// Adds a space after each comma and colon between values, as the job information service writes JSON. So both
/// services give the same record.
fn add_spaces(compact: &str) -> String {
    let mut text = String::with_capacity(compact.len() + compact.len() / 8);
    let (mut quoted, mut escaped) = (false, false);
    for character in compact.chars() {
        text.push(character);
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            ',' | ':' if !quoted => text.push(' '),
            _ => {}
        }
    }
    text
}

/// Builds the record of a listed job from a response of the job information service.
pub(super) fn build_record_from_job_info(job: ListedJob, answer: &str) -> Result<JobRecord, Unreadable> {
    match serde_json::from_str::<InfoLookup>(answer) {
        Ok(InfoLookup { r, jobspec }) => build_record(job, r, jobspec),
        Err(error) => Err(Unreadable {
            id: job.id.to_string(),
            reason: format!("the response of job-info.lookup is invalid: {error}"),
        }),
    }
}

/// Builds the record of a listed job from its current R and jobspec.
pub(super) fn build_record(job: ListedJob, r: String, jobspec: String) -> Result<JobRecord, Unreadable> {
    let unreadable = |error| Unreadable { id: job.id.to_string(), reason: format!("its jobspec: {error}") };
    let system: System = read_system_attributes(&jobspec).map_err(unreadable)?;
    let t_run = job.t_run.unwrap_or_default();
    Ok(JobRecord {
        id: job.id,
        userid: job.userid,
        t_submit: job.t_submit,
        t_run,
        t_inactive: job.t_inactive,
        ranks: job.ranks.unwrap_or_default().into(),
        r,
        project: convert_to_name(system.project),
        bank: convert_to_name(system.bank),
        requested_duration: system.duration.as_f64().unwrap_or_default(),
        actual_duration: job.t_inactive - t_run,
        jobspec,
    })
}

fn convert_to_name(value: Value) -> String {
    match value {
        Value::String(name) => name,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_added_between_values_and_not_inside_strings() {
        let compact = r#"{"a":1,"b,c:":[1,-2.5e3,{}],"d\\":"x\",:","e":"\\","f":[]}"#;
        let expected = r#"{"a": 1, "b,c:": [1, -2.5e3, {}], "d\\": "x\",:", "e": "\\", "f": []}"#;
        assert!(serde_json::from_str::<Value>(compact).is_ok());
        assert_eq!(add_spaces(compact), expected);
        let value = |text: &str| serde_json::from_str::<Value>(text).ok();
        assert_eq!(value(compact), value(&add_spaces(compact)));
    }
}
