// SPDX-License-Identifier: LGPL-3.0-only
//! One job's record, from the texts that Flux keeps of it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Unreadable;
use super::list::Listed;
use crate::store::JobRecord;

/// What `job-info.lookup` answers: both are JSON texts within the JSON.
#[derive(Deserialize)]
struct Lookup {
    #[serde(rename = "R")]
    r: String,
    jobspec: String,
}

/// What `job-manager.getattr` answers.
#[derive(Deserialize)]
struct Attributes<'a> {
    #[serde(rename = "R", borrow)]
    r: &'a RawValue,
    #[serde(borrow)]
    jobspec: &'a RawValue,
}

/// What accounting wants of a jobspec. Flux accepts any value there; what it can't mean is as if it were not there.
#[derive(Default, Deserialize)]
struct Jobspec {
    #[serde(default)]
    attributes: JobspecAttributes,
}

#[derive(Default, Deserialize)]
struct JobspecAttributes {
    #[serde(default)]
    system: System,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct System {
    project: Value,
    bank: Value,
    duration: Value,
}

/// The record of a job that `job-list` listed and the job manager knows.
pub(super) fn of_manager(job: Listed, answer: &str) -> Result<JobRecord, Unreadable> {
    match serde_json::from_str::<Attributes<'_>>(answer) {
        Ok(Attributes { r, jobspec }) => of_texts(job, spaced(r.get()), spaced(jobspec.get())),
        Err(error) => Err(Unreadable { id: job.id.to_string(), reason: format!("its attributes: {error}") }),
    }
}

/// Compact JSON with a space after each comma and colon between values: how the job information service writes it, so that
/// a record is the same text whoever fetched it.
fn spaced(compact: &str) -> String {
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

/// The record of a job that `job-list` listed and the job information service knows.
pub(super) fn of_lookup(job: Listed, answer: &str) -> Result<JobRecord, Unreadable> {
    match serde_json::from_str::<Lookup>(answer) {
        Ok(Lookup { r, jobspec }) => of_texts(job, r, jobspec),
        Err(error) => Err(Unreadable { id: job.id.to_string(), reason: format!("its lookup: {error}") }),
    }
}

/// The record of a job from R and the jobspec as they are now.
pub(super) fn of_texts(job: Listed, r: String, jobspec: String) -> Result<JobRecord, Unreadable> {
    let system = match serde_json::from_str::<Jobspec>(&jobspec) {
        Ok(jobspec) => jobspec.attributes.system,
        Err(error) => {
            return Err(Unreadable { id: job.id.to_string(), reason: format!("its jobspec: {error}") });
        }
    };
    Ok(JobRecord {
        id: job.id,
        userid: job.userid,
        t_submit: job.t_submit,
        t_run: job.t_run,
        t_inactive: job.t_inactive,
        ranks: job.ranks.into(),
        r,
        project: name(system.project),
        bank: name(system.bank),
        requested_duration: system.duration.as_f64().unwrap_or_default(),
        actual_duration: job.t_inactive - job.t_run,
        jobspec,
    })
}

fn name(value: Value) -> String {
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
    fn spaces_go_between_values_and_never_into_a_text() {
        let compact = r#"{"a":1,"b,c:":[1,-2.5e3,{}],"d\\":"x\",:","e":"\\","f":[]}"#;
        let expected = r#"{"a": 1, "b,c:": [1, -2.5e3, {}], "d\\": "x\",:", "e": "\\", "f": []}"#;
        assert!(serde_json::from_str::<Value>(compact).is_ok());
        assert_eq!(spaced(compact), expected);
        let value = |text: &str| serde_json::from_str::<Value>(text).ok();
        assert_eq!(value(compact), value(&spaced(compact)));
    }
}
