// SPDX-License-Identifier: LGPL-3.0-only
//! Lists ended jobs with `job-list`, in pages. One response with all jobs of a site would delay the requests of other
//! users.
//!
//! Also lists running jobs, in one request. `job-list` reports the nodes and cores of a job, but not its GPUs, which are read from R
//! with one request per job.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{FetchError, Listing, MAX_LOOKUPS, Unreadable};
use crate::pipeline::resources::count;
use crate::store::EndedJob;
use fairshare::periods::Resources;
use fairshare_client::{Flux, Requests};

const LIST: &str = "job-list.list";
const ATTRIBUTES: [&str; 5] = ["userid", "t_submit", "t_run", "t_inactive", "ranks"];
const INACTIVE: u32 = 64;
/// Number of jobs in a page.
const PAGE: usize = 10_000;

/// An ended job, with the attributes of `job-list`. A job that never ran has neither `t_run` nor `ranks`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ListedJob {
    pub id: u64,
    pub userid: u32,
    pub t_submit: f64,
    pub t_run: Option<f64>,
    pub t_inactive: f64,
    pub ranks: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Page {
    jobs: Vec<ListedJob>,
}

/// Lists the jobs that ended after `since` and ran, in the order in which they ended. Counts the other jobs.
pub(super) fn list_ended(flux: &mut Flux, since: f64) -> Result<Listing, FetchError> {
    let mut ended = Listing::default();
    for job in fetch_pages(PAGE, |before, size| fetch_page(flux, since, before, size))? {
        if job.t_run.is_none() {
            ended.fetched.never_ran += 1;
        } else if job.ranks.is_none() {
            let reason = "job-list has no ranks of the job".to_owned();
            ended.fetched.unreadable.push(Unreadable { id: job.id.to_string(), reason });
        } else {
            ended.jobs.push(job);
        }
    }
    Ok(ended)
}

/// Returns the end of the job that ended last, or `None` if Flux has no ended job.
pub fn find_newest_job_end(flux: &mut Flux) -> Result<Option<f64>, FetchError> {
    Ok(fetch_page(flux, 0.0, None, 1)?.first().map(|entry| entry.t_inactive))
}

/// Fetches all pages. `job-list` returns the newest jobs first. The next page begins at the end time of the oldest
/// job so far, so it contains jobs with this end time again. If it contains no other jobs, the page size is doubled.
fn fetch_pages(
    mut size: usize,
    mut fetch: impl FnMut(Option<f64>, usize) -> Result<Vec<ListedJob>, FetchError>,
) -> Result<Vec<ListedJob>, FetchError> {
    let mut all: Vec<ListedJob> = Vec::new();
    let mut before = None;
    loop {
        let page = fetch(before, size)?;
        let is_full = page.len() >= size;
        let oldest = page.iter().map(|entry| entry.t_inactive).min_by(f64::total_cmp);
        all.extend(page);
        if !is_full {
            break;
        }
        if oldest == before {
            size *= 2;
        }
        before = oldest;
    }
    all.sort_by(|a, b| a.t_inactive.total_cmp(&b.t_inactive).then(a.id.cmp(&b.id)));
    all.dedup_by_key(|entry| entry.id);
    Ok(all)
}

fn fetch_page(
    flux: &mut Flux,
    since: f64,
    before: Option<f64>,
    size: usize,
) -> Result<Vec<ListedJob>, FetchError> {
    let answer_error = |text: String| FetchError::Answer { topic: LIST, text };
    let mut requests = Requests::new(flux);
    requests.send(LIST, &build_request(since, before, size).to_string(), ())?;
    let Some(((), answer)) = requests.receive()? else {
        return Err(answer_error("there is none".to_owned()));
    };
    let page: Page = serde_json::from_str(answer?.text().unwrap_or_default())
        .map_err(|error| answer_error(error.to_string()))?;
    Ok(page.jobs)
}

/// Returns the request for a page of inactive jobs. Only inactive jobs have a `t_inactive`, so with `before` the
/// request needs no constraint on `states`. Flux limits the number of comparisons to a million.
fn build_request(since: f64, before: Option<f64>, size: usize) -> Value {
    let constraint = match before {
        Some(time) => json!({ "t_inactive": [format!("<={time:?}")] }),
        None => json!({ "states": [INACTIVE] }),
    };
    json!({ "max_entries": size, "attrs": ATTRIBUTES, "since": since, "constraint": constraint })
}

const RUNNING: [&str; 8] = ["userid", "t_run", "nnodes", "ncores", "bank", "queue", "project", "duration"];

/// A running job, with the attributes of `job-list`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RunningJob {
    pub(in crate::pipeline) id: u64,
    userid: i64,
    /// Start of the job, in seconds since the epoch; 0 for a job that was canceled before it ran.
    t_run: f64,
    nnodes: u64,
    ncores: u64,
    #[serde(skip)]
    ngpus: u64,
    bank: String,
    queue: Option<String>,
    project: String,
    /// Time limit in seconds, 0 if the job has none.
    duration: f64,
}

impl RunningJob {
    /// Lists the running jobs that Flux shows to the caller. In private mode, Flux shows a guest only the guest's own jobs.
    pub fn list(flux: &Flux) -> Result<Vec<RunningJob>, FetchError> {
        // The states RUN and CLEANUP.
        let constraint = json!({"states": [16 | 32]});
        let request = json!({"max_entries": 0, "attrs": RUNNING, "constraint": constraint});
        let answer = flux.rpc(LIST, &request.to_string())?.unwrap_or_default();
        RunningJob::parse(&answer)
            .map_err(|error| FetchError::Answer { topic: LIST, text: error.to_string() })
    }

    /// Reads the GPUs of the jobs. Flux returns R to the owner and the user of a job; the GPUs of other jobs remain 0.
    pub fn read_gpus(flux: &mut Flux, jobs: &mut [RunningJob]) -> Result<(), FetchError> {
        for jobs in jobs.chunks_mut(MAX_LOOKUPS) {
            let mut requests = Requests::new(flux);
            for job in jobs {
                let payload = json!({"id": job.id, "attrs": ["R"]}).to_string();
                requests.send("job-manager.getattr", &payload, job)?;
            }
            while let Some((job, answer)) = requests.receive()? {
                let found = answer.ok().and_then(|it| serde_json::from_str::<Value>(it.text()?).ok());
                job.ngpus = found.and_then(|it| count(&it.get("R")?.to_string())).map_or(0, |it| it.gpus);
            }
        }
        Ok(())
    }

    pub(in crate::pipeline) fn parse(answer: &str) -> serde_json::Result<Vec<RunningJob>> {
        let mut answer: Value = serde_json::from_str(answer)?;
        let jobs = answer.get_mut("jobs").map(Value::take).unwrap_or_default();
        let mut jobs: Vec<RunningJob> = serde_json::from_value(jobs)?;
        jobs.retain(|job| job.t_run > 0.0);
        Ok(jobs)
    }

    /// Returns a record of the job as if it ended at `now`, in seconds since the epoch.
    pub(in crate::pipeline) fn record_as_ended_at(&self, now: f64) -> EndedJob<'_> {
        let resources = Resources { nodes: self.nnodes, cores: self.ncores, gpus: self.ngpus };
        EndedJob {
            userid: self.userid,
            times: Some((self.t_run, now.max(self.t_run))),
            bank: Some(&self.bank),
            project: Some(&self.project),
            time_limit: Some(self.duration),
            running: Some((resources, self.queue.as_deref())),
            ..EndedJob::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_entry(id: u64, t_inactive: f64) -> ListedJob {
        ListedJob { id, userid: 1, t_submit: 0.0, t_run: None, t_inactive, ranks: None }
    }

    /// Imitates `job-list`: returns at most `size` jobs that ended at or before `before`, the newest first.
    fn list_page(jobs: &[(u64, f64)], before: Option<f64>, size: usize) -> Vec<ListedJob> {
        let mut jobs: Vec<_> =
            jobs.iter().filter(|(_, end)| before.is_none_or(|time| *end <= time)).collect();
        jobs.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        jobs.into_iter().take(size).map(|(id, end)| make_entry(*id, *end)).collect()
    }

    #[test]
    fn fetch_pages_returns_each_job_once_if_many_end_together() {
        // The ids are not in the order of the ends. Each group of jobs with the same end is smaller than a page,
        // as large as a page, or larger.
        let groups = [1, 2, 3, 4, 9, 1, 30, 2, 8];
        let ends: Vec<f64> = groups
            .iter()
            .enumerate()
            .flat_map(|(i, n)| std::iter::repeat_n(100.0 + i as f64 / 3.0, *n))
            .collect();
        let jobs: Vec<(u64, f64)> =
            ends.iter().enumerate().map(|(i, end)| ((i as u64 * 37) % 1009, *end)).collect();
        for size in 1..=70 {
            let found = fetch_pages(size, |before, size| Ok(list_page(&jobs, before, size))).expect("pages");
            let mut expected = jobs.clone();
            expected.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
            let found: Vec<_> = found.iter().map(|entry| (entry.id, entry.t_inactive)).collect();
            assert_eq!(found, expected, "pages of {size}");
        }
    }

    #[test]
    fn the_job_list_constraint_contains_the_exact_time() {
        let time = 1_700_000_000.123_456_7_f64;
        let request = build_request(1.5, Some(time), 10);
        let text = request["constraint"]["t_inactive"][0].as_str().expect("text");
        assert_eq!(text.strip_prefix("<=").and_then(|text| text.parse().ok()), Some(time));
        assert_eq!(request["since"], 1.5);
    }
}
