// SPDX-License-Identifier: LGPL-3.0-only
//! One job's record, from the texts that Flux keeps of it.

use serde::Deserialize;
use serde_json::Value;

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

/// What accounting wants of a jobspec. Flux accepts any value there; what it can't mean is as if it were not there.
#[derive(Default, Deserialize)]
struct Jobspec {
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Default, Deserialize)]
struct Attributes {
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

/// The record of a job that `job-list` listed and `job-info` knows.
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
