// SPDX-License-Identifier: LGPL-3.0-only
//! job-list's answer to a request for ended jobs.

use serde_json::{Value, json};

use super::job::{Job, entry_name};

/// Answers `request` of the topic `job-list.list` with inactive jobs, the latest first. Of the constraints, only an upper
/// bound of `t_inactive` has an effect.
pub(super) fn list_ended<'a>(jobs: impl Iterator<Item = &'a Job>, request: &Value) -> String {
    let since = request.get("since").and_then(Value::as_f64).unwrap_or(0.0);
    let bound = request.pointer("/constraint/t_inactive/0").and_then(Value::as_str);
    let before = bound.and_then(|text| text.strip_prefix("<=")?.parse().ok()).unwrap_or(f64::INFINITY);
    let most = request.get("max_entries").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let mut ended: Vec<(f64, &Job)> = jobs.filter_map(|job| Some((time_of(job, "clean")?, job))).collect();
    ended.retain(|(end, _)| since < *end && *end <= before);
    ended.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    ended.truncate(most as usize);
    let jobs: Vec<Value> = ended.into_iter().map(|(end, job)| describe(job, end)).collect();
    json!({"jobs": jobs}).to_string()
}

/// Returns the time of the first event `name` of a job.
fn time_of(job: &Job, name: &str) -> Option<f64> {
    job.eventlog.iter().find(|entry| entry_name(entry) == name)?.get("timestamp")?.as_f64()
}

/// Returns the members that the plugin requests. As in job-list's answer, members that the job does not have are missing.
fn describe(job: &Job, end: f64) -> Value {
    let allocated = job.r.as_ref().and_then(|r| r.get("execution"));
    let ranks = allocated.and_then(|execution| execution.get("R_lite")?.as_array());
    let count_cores = |rank: &Value| -> u64 {
        let last = rank.pointer("/children/core").and_then(Value::as_str).unwrap_or("").rsplit('-').next();
        last.and_then(|last| last.parse::<u64>().ok()).map_or(0, |last| last + 1)
    };
    let mut listed = json!({
        "id": job.id, "userid": job.userid, "bank": job.attribute("bank"), "queue": job.attribute("queue"),
        "t_run": time_of(job, "alloc"), "t_inactive": end, "nnodes": ranks.map(Vec::len),
        "ncores": ranks.map(|ranks| ranks.iter().map(count_cores).sum::<u64>()),
        "expiration": allocated.and_then(|execution| execution.get("expiration")),
        "duration": job.jobspec.pointer("/attributes/system/duration"),
    });
    listed.as_object_mut().into_iter().for_each(|members| members.retain(|_, value| !value.is_null()));
    listed
}
