// SPDX-License-Identifier: LGPL-3.0-only
//! Records of ended jobs, out of a Flux instance or a job archive.
//!
//! Flux is asked twice: `job-list` for which jobs ended and when, the job manager for what each ran on and its jobspec with all
//! updates applied. The second takes one request a job, so many are under way at once; the records still come out in the
//! order in which the jobs ended. Whoever stores them in that order can stop anywhere and go on from the newest stored.

mod archive;
mod bound;
mod list;
mod record;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use crate::store::{JobRecord, StoreError};
use fairshare_client::{Flux, FluxError, Requests};

pub use archive::archive;
pub use bound::{newest, remember, removed};
use list::Listed;
pub use list::newest_end;

/// Lookups under way at once. Flux needs a few dozen to keep all its modules busy; more only wait in its queues.
const WINDOW: usize = 256;
/// Records handed over at once.
const BATCH: usize = 1000;
/// How far before the newest job on record to look again, in seconds. Several jobs may end at the same instant, and a clock
/// that is set back a little makes a later job end earlier.
pub const OVERLAP: f64 = 300.0;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Records handed over.
    pub records: usize,
    /// Jobs that ended without having run: they used nothing, and are left out.
    pub never_ran: usize,
    /// Jobs that ran and whose record can't be had.
    pub unreadable: Vec<Unreadable>,
}

/// A job that ran and whose record can't be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The job's id, in decimal as the database has it.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// Why no more could be fetched. What was handed over before is good.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FetchError {
    /// Flux is gone, or refuses.
    #[error("{0}{hint}", hint = owner_hint(.0))]
    Flux(#[from] FluxError),
    /// An answer is not what the service promises.
    #[error("{topic}: an answer that can't be understood: {text}")]
    Answer {
        /// The service.
        topic: &'static str,
        /// What is wrong with it.
        text: String,
    },
    /// A file can't be read, or what is fetched can't be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the addition to the text of `error` if Flux refuses a user who is not the instance owner, else an empty text.
fn owner_hint(error: &FluxError) -> &'static str {
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

/// The jobs that ended, before they are asked about one by one.
#[derive(Debug)]
pub struct Listing(list::Ended);

impl Listing {
    /// Asks Flux which jobs ended after `newest`, or up to [`OVERLAP`] before it; all that it still knows if that is `None`.
    pub fn ask(flux: &mut Flux, newest: Option<f64>) -> Result<Listing, FetchError> {
        let since = newest.map_or(0.0, |newest| (newest - OVERLAP).max(0.0));
        Ok(Listing(list::ended(flux, since)?))
    }

    /// How many ran.
    pub fn len(&self) -> usize {
        self.0.jobs.len()
    }

    /// True if none ran.
    pub fn is_empty(&self) -> bool {
        self.0.jobs.is_empty()
    }

    /// Leaves out those that are on record already, or were: their ids and when they ended tell.
    pub fn leave_out(
        &mut self,
        mut stored: impl FnMut(u64, f64) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut jobs = Vec::with_capacity(self.0.jobs.len());
        for job in std::mem::take(&mut self.0.jobs) {
            if !stored(job.id, job.t_inactive)? {
                jobs.push(job);
            }
        }
        self.0.jobs = jobs;
        Ok(())
    }

    /// Begins to ask about each.
    pub fn fetch(self, flux: &mut Flux) -> Fetching<'_> {
        let list::Ended { jobs, never_ran, unreadable } = self.0;
        let fetched = Fetched { never_ran, unreadable, ..Fetched::default() };
        let lookups = Lookups { requests: Requests::new(flux), order: VecDeque::new(), first: 0 };
        Fetching { jobs: jobs.into_iter(), lookups, fetched }
    }
}

/// Records on their way. Between two batches the lookups go on by themselves.
pub struct Fetching<'a> {
    jobs: std::vec::IntoIter<Listed>,
    lookups: Lookups<'a>,
    fetched: Fetched,
}

impl Fetching<'_> {
    /// The next records, ordered by the ends of their jobs, also from batch to batch; `None` when all have come.
    pub fn next_batch(&mut self) -> Result<Option<Vec<JobRecord>>, FetchError> {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            while self.lookups.order.len() < WINDOW
                && let Some(job) = self.jobs.next()
            {
                self.lookups.ask(job)?;
            }
            match self.lookups.next_in_order() {
                Some(Ok(record)) => batch.push(record),
                Some(Err(unreadable)) => self.fetched.unreadable.push(unreadable),
                None if self.lookups.receive()? => {}
                None => break,
            }
        }
        self.fetched.records += batch.len();
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// How many jobs are dealt with.
    pub fn done(&self) -> u64 {
        self.lookups.first
    }

    /// What came of it, so far.
    pub fn fetched(&self) -> &Fetched {
        &self.fetched
    }
}

/// Where R and the jobspec of a job are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The job manager has them in memory, all updates applied, for as long as `job-list` lists the job: a tenth of the
    /// work. R comes without the scheduler's own part (`scheduling`), which no accounting reads.
    Manager,
    /// The job information service puts them together from the KVS, for Flux versions whose job manager does not give R.
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
            // The flag is FLUX_JOB_LOOKUP_CURRENT: with what the eventlog says of later changes.
            Source::Info => format!(r#"{{"id":{id},"keys":["R","jobspec"],"flags":2}}"#),
        }
    }
}

/// One question under way: its number, where it was asked, and the job.
struct Question {
    number: u64,
    source: Source,
    job: Listed,
}

/// Lookups under way. Answers come in any order and leave in the order of the questions.
struct Lookups<'a> {
    requests: Requests<'a, Question>,
    /// One for each job asked for and not handed on yet; `None` where no answer is here.
    order: VecDeque<Option<Result<JobRecord, Unreadable>>>,
    /// The number of the question at the front.
    first: u64,
}

impl Lookups<'_> {
    fn ask(&mut self, job: Listed) -> Result<(), FetchError> {
        let number = self.first + self.order.len() as u64;
        self.order.push_back(None);
        self.send(Question { number, source: Source::Manager, job })
    }

    fn send(&mut self, question: Question) -> Result<(), FetchError> {
        let payload = question.source.payload(question.job.id);
        Ok(self.requests.send(question.source.topic(), &payload, question)?)
    }

    /// Waits for one answer; false if none is to come. One that only leads to another question counts.
    fn receive(&mut self) -> Result<bool, FetchError> {
        let Some((Question { number, source, job }, answer)) = self.requests.receive()? else {
            return Ok(false);
        };
        let record = match (source, answer) {
            (Source::Manager, Ok(answer)) => Ok(record::of_manager(job, answer.text().unwrap_or_default())),
            (Source::Info, Ok(answer)) => Ok(record::of_lookup(job, answer.text().unwrap_or_default())),
            (Source::Manager, Err(FluxError::Request { errno, .. })) if errno != libc::EPERM => Err(job),
            (Source::Info, Err(FluxError::Request { errno, text, .. })) if of_this_job(errno) => {
                Ok(Err(Unreadable { id: job.id.to_string(), reason: text }))
            }
            (_, Err(error)) => return Err(error.into()),
        };
        let record = match record {
            Ok(record) => record,
            Err(job) => {
                self.send(Question { number, source: Source::Info, job })?;
                return Ok(true);
            }
        };
        let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        if let Some(place) = self.order.get_mut(place) {
            *place = Some(record);
        }
        Ok(true)
    }

    /// The record at the front, if it is here.
    fn next_in_order(&mut self) -> Option<Result<JobRecord, Unreadable>> {
        self.order.front()?.as_ref()?;
        self.first += 1;
        self.order.pop_front().flatten()
    }
}

/// Whether an error is about the one job: its data are missing or broken. All others are about the service, or who asks.
fn of_this_job(errno: i32) -> bool {
    matches!(errno, libc::ENOENT | libc::EINVAL | libc::EPROTO | libc::EIO)
}
