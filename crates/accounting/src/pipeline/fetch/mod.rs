// SPDX-License-Identifier: LGPL-3.0-only
//! Fetches the records of ended jobs from a Flux instance.
//!
//! `job-list` returns the ended jobs and their times. The job manager returns R and the updated jobspec of each job,
//! one request per job, so many requests run at once. The records are delivered in the order in which the jobs ended.
//! So a caller may stop at any record and later continue after the newest stored record.

mod bound;
mod list;
mod record;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use crate::store::{JobRecord, StoreError};
use fairshare_client::{Flux, FluxError, Requests};

pub use bound::{find_end_of_last_recorded_job, find_removed_range, record_fetch};
use list::ListedJob;
pub use list::{RunningJob, find_newest_job_end};

/// Number of lookups that run at once. A few dozen keep all modules of Flux busy. More lookups would only wait in the queues of the modules.
const MAX_LOOKUPS: usize = 256;
/// Number of records in a batch.
const BATCH: usize = 1000;
/// Fetching begins this many seconds before the end of the newest job on record. Several jobs may end at the same
/// instant, and if a clock is set back a little, a later job has an earlier end.
pub const OVERLAP: f64 = 300.0;

/// The number of records that a fetch delivered, and of jobs that it skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Number of delivered records.
    pub records: usize,
    /// Number of jobs that ended without running. They have no usage and are left out.
    pub never_ran: usize,
    /// Jobs that ran and whose record can't be fetched.
    pub unreadable: Vec<Unreadable>,
}

/// A job that ran and whose record can't be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The job id in decimal, as in the database.
    pub id: String,
    /// The reason, worded as a clause.
    pub reason: String,
}

/// Reason why the fetch ended early. The records that were delivered before are valid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FetchError {
    /// Flux is not reachable or rejects the request.
    #[error("{0}{hint}", hint = make_owner_hint(.0))]
    Flux(#[from] FluxError),
    /// The response of a service is invalid.
    #[error("{topic}: invalid response: {text}")]
    Answer {
        /// Name of the service.
        topic: &'static str,
        /// Reason.
        text: String,
    },
    /// The records can't be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// If Flux rejected the request because the caller is not the instance owner, returns a hint for the error message.
/// Otherwise, returns an empty text.
fn make_owner_hint(error: &FluxError) -> &'static str {
    match error {
        FluxError::Request { errno: libc::EPERM, .. } => ": only the instance owner may fetch jobs",
        _ => "",
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}: {}", self.id, self.reason)
    }
}

/// The ended jobs, before their R and jobspec are fetched.
#[derive(Debug, Default)]
pub struct Listing {
    jobs: Vec<ListedJob>,
    fetched: Fetched,
}

impl Listing {
    /// Lists the jobs that ended after `newest` minus [`OVERLAP`], or all jobs in job-list if `newest` is `None`.
    pub fn request(flux: &mut Flux, newest: Option<f64>) -> Result<Listing, FetchError> {
        let since = newest.map_or(0.0, |newest| (newest - OVERLAP).max(0.0));
        list::list_ended(flux, since)
    }

    /// Returns the number of jobs that ran.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns true if no job ran.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Removes the jobs for which `is_stored` returns true. `is_stored` gets the job id and the end of the
    /// job.
    pub fn remove_stored_jobs(
        &mut self,
        mut is_stored: impl FnMut(u64, f64) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for job in std::mem::take(&mut self.jobs) {
            if !is_stored(job.id, job.t_inactive)? {
                jobs.push(job);
            }
        }
        self.jobs = jobs;
        Ok(())
    }

    /// Starts to fetch the records of the jobs.
    pub fn fetch(self, flux: &mut Flux) -> Fetching<'_> {
        let lookups = Lookups { requests: Requests::new(flux), order: VecDeque::new(), first: 0 };
        Fetching { jobs: self.jobs.into_iter(), lookups, fetched: self.fetched }
    }
}

/// A fetch in progress. Its lookups also run while the caller processes a batch.
pub struct Fetching<'a> {
    jobs: std::vec::IntoIter<ListedJob>,
    lookups: Lookups<'a>,
    fetched: Fetched,
}

impl Fetching<'_> {
    /// Returns the next records in the order in which their jobs ended, or `None` after the last one.
    pub fn next_batch(&mut self) -> Result<Option<Vec<JobRecord>>, FetchError> {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            while self.lookups.order.len() < MAX_LOOKUPS
                && let Some(job) = self.jobs.next()
            {
                self.lookups.start_lookup(job)?;
            }
            match self.lookups.pop_front() {
                Some(Ok(record)) => batch.push(record),
                Some(Err(unreadable)) => self.fetched.unreadable.push(unreadable),
                None if self.lookups.receive_response()? => {}
                None => break,
            }
        }
        self.fetched.records += batch.len();
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Returns the number of jobs whose lookup is complete.
    pub fn done(&self) -> u64 {
        self.lookups.first
    }

    /// Returns the numbers of delivered records and skipped jobs so far.
    pub fn fetched(&self) -> &Fetched {
        &self.fetched
    }
}

/// The service that returns R and the jobspec of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The job manager, which has R and the updated jobspec in memory as long as `job-list` lists the job. A lookup
    /// takes a tenth of the time of `Info`. R lacks the key `scheduling`, which accounting does not need.
    Manager,
    /// The job information service, which reads the KVS; for versions of Flux whose job manager does not return R.
    Info,
}

impl Source {
    fn topic(self) -> &'static str {
        match self {
            Source::Manager => "job-manager.getattr",
            Source::Info => "job-info.lookup",
        }
    }

    fn payload(self, id: u64) -> String {
        match self {
            Source::Manager => format!(r#"{{"id":{id},"attrs":["R","jobspec"]}}"#),
            // The flag is FLUX_JOB_LOOKUP_CURRENT: apply the later changes of the eventlog.
            Source::Info => format!(r#"{{"id":{id},"keys":["R","jobspec"],"flags":2}}"#),
        }
    }
}

/// A running lookup: its number, the service, and the job.
struct Lookup {
    number: u64,
    source: Source,
    job: ListedJob,
}

/// Running lookups. Responses arrive in any order, but records are delivered in the order in which the lookups began.
struct Lookups<'a> {
    requests: Requests<'a, Lookup>,
    /// The result of each lookup whose record is not delivered yet; `None` until the response arrives.
    order: VecDeque<Option<Result<JobRecord, Unreadable>>>,
    /// The sequence number of the first lookup in `order`.
    first: u64,
}

impl Lookups<'_> {
    fn start_lookup(&mut self, job: ListedJob) -> Result<(), FetchError> {
        let number = self.first + self.order.len() as u64;
        self.order.push_back(None);
        self.send_lookup(Lookup { number, source: Source::Manager, job })
    }

    fn send_lookup(&mut self, lookup: Lookup) -> Result<(), FetchError> {
        let payload = lookup.source.payload(lookup.job.id);
        Ok(self.requests.send(lookup.source.topic(), &payload, lookup)?)
    }

    /// Waits for one response and handles it. Returns false if no lookup is running.
    fn receive_response(&mut self) -> Result<bool, FetchError> {
        let Some((Lookup { number, source, job }, answer)) = self.requests.receive()? else {
            return Ok(false);
        };
        let record = match (source, answer) {
            (Source::Manager, Ok(answer)) => {
                Ok(record::build_from_manager(job, answer.text().unwrap_or_default()))
            }
            (Source::Info, Ok(answer)) => {
                Ok(record::build_record_from_job_info(job, answer.text().unwrap_or_default()))
            }
            (Source::Manager, Err(FluxError::Request { errno, .. })) if errno != libc::EPERM => Err(job),
            (Source::Info, Err(FluxError::Request { errno, text, .. })) if concerns_one_job(errno) => {
                Ok(Err(Unreadable { id: job.id.to_string(), reason: text }))
            }
            (_, Err(error)) => return Err(error.into()),
        };
        let record = match record {
            Ok(record) => record,
            Err(job) => {
                self.send_lookup(Lookup { number, source: Source::Info, job })?;
                return Ok(true);
            }
        };
        let index = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        if let Some(slot) = self.order.get_mut(index) {
            *slot = Some(record);
        }
        Ok(true)
    }

    /// Returns the record at the front, if its response has arrived.
    fn pop_front(&mut self) -> Option<Result<JobRecord, Unreadable>> {
        self.order.front()?.as_ref()?;
        self.first += 1;
        self.order.pop_front().flatten()
    }
}

/// Returns true if an error concerns one job, whose data are missing or damaged. Other errors concern the service or
/// the caller.
fn concerns_one_job(errno: i32) -> bool {
    matches!(errno, libc::ENOENT | libc::EINVAL | libc::EPROTO | libc::EIO)
}
