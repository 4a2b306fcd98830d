// SPDX-License-Identifier: LGPL-3.0-only
//! Records of ended jobs from flux-core's job archive.
//!
//! The archive has the jobspec as it was submitted and, beside it, the eventlog: what was changed later, such as the default
//! bank that the priority plugin filled in, is in there.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::list::Listed;
use super::{BATCH, FetchError, Fetched, Unreadable, record};
use crate::store::{Access, ArchivedJob, Database, JobRecord, StoreError};

/// Reads the records of the jobs in an archive. They go to `sink` in batches, in the order of the archive. Locks held by others are waited for up to `wait`. `progress` is told how many jobs of about how many are read.
pub fn archive(
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
    let mut read = 0;
    snapshot.archived_jobs(&mut |job| {
        read += 1;
        if job.r.is_empty() || job.t_run <= 0.0 {
            fetched.never_ran += 1;
            return Ok(());
        }
        match of_archive(job) {
            Ok(record) => batch.push(record),
            Err(unreadable) => fetched.unreadable.push(unreadable),
        }
        if batch.len() >= BATCH {
            fetched.records += batch.len();
            progress(read, total);
            sink(std::mem::take(&mut batch))?;
        }
        Ok(())
    })?;
    fetched.records += batch.len();
    if !batch.is_empty() {
        sink(batch)?;
    }
    progress(read, total);
    Ok(fetched)
}

/// One line of an eventlog, as far as it matters here.
#[derive(Deserialize)]
struct Event {
    name: String,
    #[serde(default)]
    context: Value,
}

pub(super) fn of_archive(job: ArchivedJob) -> Result<JobRecord, Unreadable> {
    let fail = |reason: String| Unreadable { id: job.id.clone(), reason };
    let id = job.id.parse().map_err(|_| fail("its id is not a number".to_owned()))?;
    let userid = u32::try_from(job.userid).map_err(|_| fail(format!("its user id is {}", job.userid)))?;
    let jobspec = updated(&job.jobspec, &job.eventlog).map_err(&fail)?;
    let listed = Listed {
        id,
        userid,
        t_submit: job.t_submit,
        t_run: job.t_run,
        t_inactive: job.t_inactive,
        ranks: job.ranks.into(),
    };
    record::of_texts(listed, job.r, jobspec)
}

/// The jobspec with the `jobspec-update` events applied; the very text where there are none.
fn updated(jobspec: &str, eventlog: &str) -> Result<String, String> {
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
            for (path, to) in changes {
                set(&mut value, &path, to);
            }
        }
    }
    Ok(value.to_string())
}

/// Sets what a dotted path leads to, and makes the way there. What is no object on the way can't be entered: as in Flux, the
/// change is dropped.
fn set(value: &mut Value, path: &str, to: Value) {
    let mut at = value;
    let (way, last) = path.rsplit_once('.').unwrap_or(("", path));
    for step in way.split('.').filter(|step| !step.is_empty()) {
        let Value::Object(map) = at else { return };
        at = map.entry(step).or_insert_with(|| Value::Object(Map::new()));
    }
    if let Value::Object(map) = at {
        map.insert(last.to_owned(), to);
    }
}
