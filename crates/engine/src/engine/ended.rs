// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that ended while the plugin was not loaded: job-list is asked, in pages, for those that no push covers.
//!
//! job-list reports the nodes and cores of a job's R, and when it ran, but no GPUs. If GPUs have a weight, the GPUs of such a job count
//! when the accounting database has the job.

use super::{Effect, EndedJob, Level, Timer};
use crate::accounts::Book;
use crate::standing::{self, Standing};
use fairshare::periods::Resources;

/// The number of jobs in one page.
const PAGE: usize = 1000;
/// The largest number of jobs that are asked for. Beyond it, the memory for ended jobs is full.
const MOST: usize = 200_000;

/// The progress of the questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Asking {
    /// No question was asked.
    #[default]
    Due,
    /// A page was asked for. `silent` counts how often the timer fired without a page.
    UnderWay { since: f64, before: Option<f64>, most: usize, told: usize, silent: u32 },
    /// job-list did not answer. When Flux starts, job-list comes after the plugin.
    Unanswered,
    /// job-list has reported all jobs that ended after this time, in seconds since the epoch.
    Done(f64),
}

/// The questions to job-list.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedJobs {
    asking: Asking,
    /// How often job-list did not answer.
    unanswered: u32,
}

/// The largest number of questions without an answer: one minute if job-list refuses them, 12 minutes if it is silent.
const TRIES: u32 = 12;
/// The number of [`Timer::Retry`] periods without a page after which job-list is asked again. job-list may have much to read first, but
/// no ended job is evicted before the last page.
const PATIENCE: u32 = 12;

impl EndedJobs {
    /// Has job-list asked again, because its reports were not stored, or because no client was there to carry out the question.
    pub fn begin_again(&mut self) {
        self.asking = Asking::Due;
    }

    /// Asks for the jobs that ended since the earliest watermark and still count. Asks once after the plugin was loaded, and again only
    /// if a push needs earlier jobs.
    pub fn ask(&mut self, standing: &mut Standing, now: f64) -> Vec<Effect> {
        let since = standing.earliest_watermark(now - standing.reset());
        let asked = match self.asking {
            Asking::Due | Asking::Unanswered => f64::INFINITY,
            Asking::UnderWay { since, .. } | Asking::Done(since) => since,
        };
        if since >= asked {
            return Vec::new();
        }
        // Pages start with the last jobs. No such job may be mistaken for one that was evicted.
        standing.usages.keep_all_ended(true);
        self.asking = Asking::UnderWay { since, before: None, most: PAGE, told: 0, silent: 0 };
        vec![Effect::Arm(Timer::Retry), Effect::ListEnded { since, before: None, most: PAGE }]
    }

    /// Asks again if job-list did not answer. Arms the timer again if an answer may still come.
    pub fn ask_again(&mut self, standing: &mut Standing, book: &Book, now: f64) -> Vec<Effect> {
        match &mut self.asking {
            Asking::Unanswered => self.ask(standing, now),
            Asking::UnderWay { silent, .. } => {
                *silent += 1;
                if *silent < PATIENCE {
                    return vec![Effect::Arm(Timer::Retry)];
                }
                // At once, because a page that comes while no question is open is dropped.
                let mut effects = self.take_page(standing, book, now, None);
                if self.asking == Asking::Unanswered {
                    effects = self.ask(standing, now);
                }
                effects
            }
            Asking::Due | Asking::Done(_) => Vec::new(),
        }
    }

    /// Stores a page of ended jobs, and asks for the next one; `None` if job-list did not answer.
    pub fn take_page(
        &mut self,
        standing: &mut Standing,
        book: &Book,
        now: f64,
        jobs: Option<Vec<EndedJob>>,
    ) -> Vec<Effect> {
        let Asking::UnderWay { since, before, most, told, .. } = self.asking else {
            return Vec::new();
        };
        let Some(jobs) = jobs else {
            self.unanswered += 1;
            if self.unanswered < TRIES {
                self.asking = Asking::Unanswered;
                return vec![Effect::Arm(Timer::Retry)];
            }
            let text = "job-list does not answer: the usage of jobs that ended while the plugin was not loaded is missing until a push includes these jobs";
            self.asked_all(standing, f64::NEG_INFINITY);
            return vec![Effect::Log(Level::Error, text.to_owned())];
        };
        let (is_full, told) = (jobs.len() >= most, told.saturating_add(jobs.len()));
        let oldest = jobs.iter().map(|job| job.end).reduce(f64::min);
        let mut effects = Vec::new();
        for job in jobs {
            effects.extend(Self::ended_before(standing, book, now, job));
        }
        if !is_full || told >= MOST {
            self.asked_all(standing, since);
            return effects;
        }
        // If all jobs of a page ended at the same time, the page must grow to reach earlier ones.
        let most = if oldest == before { most.saturating_mul(2) } else { most };
        self.asking = Asking::UnderWay { since, before: oldest, most, told, silent: 0 };
        effects.push(Effect::ListEnded { since, before: oldest, most });
        effects
    }

    fn ended_before(standing: &mut Standing, book: &Book, now: f64, job: EndedJob) -> Option<Effect> {
        let (start, end) = job.ran.filter(|(_, end)| *end > now - standing.reset())?;
        let bank = job.bank.or_else(|| book.default_bank(job.user).cloned())?;
        let ran_on = Resources { nodes: job.nodes, cores: job.cores, gpus: 0 };
        let told = standing::Job { id: job.id, user: job.user, bank, ran_on, start, limit: 0.0 };
        let bad = standing.usages.ended(&told, end).err()?;
        Some(Effect::Log(Level::Error, bad.to_string()))
    }

    fn asked_all(&mut self, standing: &mut Standing, since: f64) {
        self.unanswered = 0;
        self.asking = Asking::Done(since);
        standing.usages.keep_all_ended(false);
    }
}
