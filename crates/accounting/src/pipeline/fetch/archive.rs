// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the records of ended jobs from flux-core's job archive.
//!
//! The archive contains the submitted jobspec and the eventlog. Later changes of the jobspec, for example the default
//! bank set by the priority plugin, are in the eventlog.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::list::ListedJob;
use super::{BATCH, FetchError, Fetched, Unreadable, record};
use crate::store::{Access, ArchivedJob, Database, JobRecord, StoreError};

/// Reads the records of the jobs in an archive and calls `sink` with batches in the order of the archive. Waits up to
/// `wait` for locks of other processes. Calls `progress` with the number of jobs read and the estimated total.
/// Returns the error of `sink` or of the database.
pub fn read_archive(
    path: &Path,
    wait: Duration,
    sink: &mut dyn FnMut(Vec<JobRecord>) -> Result<(), StoreError>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Fetched, FetchError> {
    let mut database = Database::open(path, Access::Read, wait)?;
    let snapshot = database.snapshot()?;
    let total = snapshot.job_estimate();
    let mut fetched = Fetched::default();
    let mut batch = Vec::new();
    let mut jobs_read = 0;
    snapshot.archived_jobs(&mut |job| {
        jobs_read += 1;
        if job.r.is_empty() || job.t_run <= 0.0 {
            fetched.never_ran += 1;
            return Ok(());
        }
        match build_from_archive(job) {
            Ok(record) => batch.push(record),
            Err(unreadable) => fetched.unreadable.push(unreadable),
        }
        if batch.len() >= BATCH {
            fetched.records += batch.len();
            progress(jobs_read, total);
            sink(std::mem::take(&mut batch))?;
        }
        Ok(())
    })?;
    fetched.records += batch.len();
    if !batch.is_empty() {
        sink(batch)?;
    }
    progress(jobs_read, total);
    Ok(fetched)
}

/// One line of an eventlog, with the fields that are needed here.
#[derive(Deserialize)]
struct Event {
    name: String,
    #[serde(default)]
    context: Value,
}

pub(super) fn build_from_archive(job: ArchivedJob) -> Result<JobRecord, Unreadable> {
    let unreadable = |reason: String| Unreadable { id: job.id.clone(), reason };
    let id = job.id.parse().map_err(|_| unreadable("its id is not a number".to_owned()))?;
    let userid =
        u32::try_from(job.userid).map_err(|_| unreadable(format!("its user id is {}", job.userid)))?;
    let jobspec = apply_updates(&job.jobspec, &job.eventlog).map_err(&unreadable)?;
    let listed = ListedJob {
        id,
        userid,
        t_submit: job.t_submit,
        t_run: job.t_run,
        t_inactive: job.t_inactive,
        ranks: job.ranks.into(),
    };
    record::build_record(listed, job.r, jobspec)
}

/// Applies the `jobspec-update` events to the jobspec. Returns the unchanged text if there are none.
fn apply_updates(jobspec: &str, eventlog: &str) -> Result<String, String> {
    const UPDATE: &str = "jobspec-update";
    if !eventlog.contains(UPDATE) {
        return Ok(jobspec.to_owned());
    }
    let mut value: Value = serde_json::from_str(jobspec).map_err(|error| format!("its jobspec: {error}"))?;
    for line in eventlog.lines() {
        let event: Event = serde_json::from_str(line).map_err(|error| format!("its eventlog: {error}"))?;
        if event.name == UPDATE
            && let Value::Object(changes) = event.context
        {
            for (path, new_value) in changes {
                set_path(&mut value, &path, new_value);
            }
        }
    }
    Ok(value.to_string())
}

/// Sets the value at a dotted path and adds missing objects on the path. If the path leads through a value that is
/// not an object, the change is dropped, as in Flux.
fn set_path(value: &mut Value, path: &str, new_value: Value) {
    let mut object = value;
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    for key in parents.split('.').filter(|key| !key.is_empty()) {
        let Value::Object(map) = object else { return };
        object = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    }
    if let Value::Object(map) = object {
        map.insert(last.to_owned(), new_value);
    }
}
