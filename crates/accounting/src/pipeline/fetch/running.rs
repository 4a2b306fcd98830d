// SPDX-License-Identifier: LGPL-3.0-only
//! Lists running jobs with `job-list`, in one request. `job-list` reports the nodes and cores of a job, but not its GPUs, which are
//! read from R with one request per job.

use serde::Deserialize;
use serde_json::{Value, json};

use super::list::LIST;
use super::{FetchError, MAX_LOOKUPS};
use crate::pipeline::resources::count;
use crate::store::EndedJob;
use fairshare::periods::Resources;
use fairshare_client::{Flux, Requests};

const ATTRIBUTES: [&str; 8] = ["userid", "t_run", "nnodes", "ncores", "bank", "queue", "project", "duration"];

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
        let request = json!({"max_entries": 0, "attrs": ATTRIBUTES, "constraint": constraint}).to_string();
        let answer = flux.rpc(LIST, &request)?.unwrap_or_default();
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

    /// Returns the job as a record of a job that ends at `now`, in seconds since the epoch.
    pub(in crate::pipeline) fn record_until(&self, now: f64) -> EndedJob<'_> {
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
