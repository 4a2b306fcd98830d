// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that ended while the plugin was not loaded. The engine asks job-list, in pages, for the jobs that no push covers.
//!
//! job-list reports the nodes, the cores and the run time of a job, but not its GPUs. If GPUs have a weight,
//! the usage of the GPUs of such a job counts only when a push includes the job.

use super::{Effect, EndedJob, Level, Timer};
use crate::accounts::Book;
use crate::standing::{self, Standing};
use fairshare::periods::Resources;

/// The number of jobs in a page of job-list's answer.
const PAGE: usize = 1000;
/// The largest number of jobs that the engine asks for. More jobs would not fit in the memory for ended jobs.
const MAX_JOBS: usize = 200_000;

/// The progress of the query to job-list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum QueryProgress {
    /// No request was sent.
    #[default]
    Due,
    /// A page was requested. `silent` counts how often the timer fired without a page.
    UnderWay { since: f64, before: Option<f64>, most: usize, received: usize, silent: u32 },
    /// job-list did not answer. When Flux starts, it loads job-list after the plugin.
    Unanswered,
    /// job-list has reported all jobs that ended after this time, in seconds since the epoch.
    Done(f64),
}

/// The query of ended jobs to job-list.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedJobs {
    asking: QueryProgress,
    /// How often job-list did not answer.
    unanswered: u32,
}

/// The largest number of requests without an answer. The engine stops after one minute if job-list refuses
/// the requests, and after 12 minutes if job-list does not reply.
const MAX_UNANSWERED: u32 = 12;
/// The number of [`Timer::Retry`] periods after which the engine repeats a request that job-list has not answered.
/// The number is large, because job-list may have much to read before it answers. It is limited, because the engine
/// evicts no ended job before the last page.
const MAX_SILENT_PERIODS: u32 = 12;

impl EndedJobs {
    /// Returns true if job-list has listed all ended jobs, or if the engine has stopped asking because
    /// job-list does not answer.
    pub fn is_done(&self) -> bool {
        matches!(self.asking, QueryProgress::Done(_))
    }

    /// Makes the engine ask job-list again, because pages were not stored, or because the request was not
    /// carried out.
    pub fn restart_query(&mut self) {
        self.asking = QueryProgress::Due;
    }

    /// Asks job-list for the ended jobs that no push includes, which are the jobs that ended after the earliest
    /// watermark. Asks only once, unless a later push needs earlier jobs.
    pub fn ask_job_list(&mut self, standing: &mut Standing, now: f64) -> Vec<Effect> {
        let since = standing.earliest_watermark(now - standing.reset());
        let asked_since = match self.asking {
            QueryProgress::Due | QueryProgress::Unanswered => f64::INFINITY,
            QueryProgress::UnderWay { since, .. } | QueryProgress::Done(since) => since,
        };
        if since >= asked_since {
            return Vec::new();
        }
        // The pages begin with the jobs that ended last. No ended job is evicted before the last page has come. Otherwise the engine would
        // regard jobs of later pages as evicted.
        standing.usages.keep_all_ended_jobs(true);
        self.asking = QueryProgress::UnderWay { since, before: None, most: PAGE, received: 0, silent: 0 };
        vec![Effect::Arm(Timer::Retry), Effect::ListEnded { since, before: None, most: PAGE }]
    }

    /// Asks again if job-list did not answer. Arms the timer again if an answer may still come.
    pub fn repeat_request(&mut self, standing: &mut Standing, book: &Book, now: f64) -> Vec<Effect> {
        match &mut self.asking {
            QueryProgress::Unanswered => self.ask_job_list(standing, now),
            QueryProgress::UnderWay { silent, .. } => {
                *silent += 1;
                if *silent < MAX_SILENT_PERIODS {
                    return vec![Effect::Arm(Timer::Retry)];
                }
                // Ask again at once. If no request were open, the engine would drop a page that arrives late.
                let mut effects = self.store_page(standing, book, now, None);
                if self.asking == QueryProgress::Unanswered {
                    effects = self.ask_job_list(standing, now);
                }
                effects
            }
            QueryProgress::Due | QueryProgress::Done(_) => Vec::new(),
        }
    }

    /// Stores a page of ended jobs, and asks for the next page. `jobs` is `None` if job-list did not answer.
    pub fn store_page(
        &mut self,
        standing: &mut Standing,
        book: &Book,
        now: f64,
        jobs: Option<Vec<EndedJob>>,
    ) -> Vec<Effect> {
        let QueryProgress::UnderWay { since, before, most, received, .. } = self.asking else {
            return Vec::new();
        };
        let Some(jobs) = jobs else {
            self.unanswered += 1;
            if self.unanswered < MAX_UNANSWERED {
                self.asking = QueryProgress::Unanswered;
                return vec![Effect::Arm(Timer::Retry)];
            }
            let text = "job-list does not answer: the usage of jobs that ended while the plugin was not loaded is missing until a push includes these jobs";
            self.end_query(standing, f64::NEG_INFINITY);
            return vec![Effect::Log(Level::Error, text.to_owned())];
        };
        let (is_full, received) = (jobs.len() >= most, received.saturating_add(jobs.len()));
        let earliest_end = jobs.iter().map(|job| job.end).reduce(f64::min);
        let faults = jobs.into_iter().filter_map(|job| Self::record_ended_job(standing, book, now, job));
        let mut effects: Vec<Effect> = faults.collect();
        if !is_full || received >= MAX_JOBS {
            self.end_query(standing, since);
            return effects;
        }
        // If all jobs of a page ended at the same time, the next page must be larger to reach earlier jobs.
        let most = if earliest_end == before { most.saturating_mul(2) } else { most };
        self.asking = QueryProgress::UnderWay { since, before: earliest_end, most, received, silent: 0 };
        effects.push(Effect::ListEnded { since, before: earliest_end, most });
        effects
    }

    fn record_ended_job(standing: &mut Standing, book: &Book, now: f64, job: EndedJob) -> Option<Effect> {
        let (start, end) = job.ran.filter(|(_, end)| *end > now - standing.reset())?;
        let bank = job.bank.or_else(|| book.default_bank(job.user).cloned())?;
        let ran_on = Resources { nodes: job.nodes, cores: job.cores, gpus: 0 };
        // Budgets charge a job from the start in its R.
        let allocated = job.allocated.filter(|_| standing.usages.keeps_uncovered);
        let (start, limit) =
            allocated.map_or((start, 0.0), |(start, expiration)| (start, expiration - start));
        let (id, user, queue) = (job.id, job.user, job.queue);
        let usage_job = standing::Job { id, user, bank, queue, ran_on, start, limit };
        let fault = standing.usages.track_end(&usage_job, end).err()?;
        Some(Effect::Log(Level::Error, fault.to_string()))
    }

    fn end_query(&mut self, standing: &mut Standing, since: f64) {
        self.unanswered = 0;
        self.asking = QueryProgress::Done(since);
        standing.usages.keep_all_ended_jobs(false);
    }
}
