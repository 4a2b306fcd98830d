// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that ended while the plugin was not there: job-list is asked for those that no push covers, in pages.
//!
//! What it tells of a job are nodes and cores of its R, and when it ran. It does not tell of GPUs: where these are
//! weighed, such a job counts for them when the accounting database has it.

use super::{Effect, EndedJob, Level, Timer};
use crate::accounts::Book;
use crate::standing::{self, Standing};
use fairshare::periods::Resources;

/// Jobs of one page.
const PAGE: usize = 1000;
/// No more are asked for: beyond that the memory for ended jobs is full.
const MOST: usize = 200_000;

/// How far the asking is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Asking {
    /// It was not begun.
    #[default]
    Due,
    /// What is asked for, and how often the timer fired without a page.
    UnderWay { since: f64, before: Option<f64>, most: usize, told: usize, silent: u32 },
    /// Nobody answered: when Flux starts, job-list comes after the plugin.
    Unanswered,
    /// All that ended after this instant was told.
    Done(f64),
}

/// The questions to job-list.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedJobs {
    asking: Asking,
    /// How often job-list did not answer.
    unanswered: u32,
}

/// So many times job-list is asked in vain: for a minute where it refuses, for 12 minutes where it is silent.
const TRIES: u32 = 12;
/// After so many of [`Timer::Retry`] without a page it is asked again. It may have much to read first; but as long as we wait no ended
/// job is given up.
const PATIENCE: u32 = 12;

impl EndedJobs {
    /// Has job-list asked again: what it has reported is not kept, or nobody listened to the question.
    pub fn begin_again(&mut self) {
        self.asking = Asking::Due;
    }

    /// Asks for what ended since the earliest watermark and still counts, once after the plugin was loaded; again only if a push
    /// goes further back.
    pub fn ask(&mut self, standing: &mut Standing, now: f64) -> Vec<Effect> {
        let since = standing.earliest_watermark(now - standing.reset());
        let asked = match self.asking {
            Asking::Due | Asking::Unanswered => f64::INFINITY,
            Asking::UnderWay { since, .. } | Asking::Done(since) => since,
        };
        if since >= asked {
            return Vec::new();
        }
        // Pages come the last jobs first: none may be taken for one that was given up.
        standing.keep_all_ended(true);
        self.asking = Asking::UnderWay { since, before: None, most: PAGE, told: 0, silent: 0 };
        vec![Effect::Arm(Timer::Retry), Effect::ListEnded { since, before: None, most: PAGE }]
    }

    /// Asks once more, if nobody answered; waits on, if an answer may still come.
    pub fn ask_again(&mut self, standing: &mut Standing, book: &Book, now: f64) -> Vec<Effect> {
        match &mut self.asking {
            Asking::Unanswered => self.ask(standing, now),
            Asking::UnderWay { silent, .. } => {
                *silent += 1;
                if *silent < PATIENCE {
                    return vec![Effect::Arm(Timer::Retry)];
                }
                // At once: a page that comes while nobody waits for it would be lost.
                let mut effects = self.listed(standing, book, now, None);
                if self.asking == Asking::Unanswered {
                    effects = self.ask(standing, now);
                }
                effects
            }
            Asking::Due | Asking::Done(_) => Vec::new(),
        }
    }

    /// A page of ended jobs.
    pub fn listed(
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
            let text = "job-list does not answer: jobs that ended while the plugin was not loaded count when a push has them";
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
        // A page of jobs that all ended at one instant says nothing of what lies before: it has to grow.
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
        let bad = standing.ended(&told, end).err()?;
        Some(Effect::Log(Level::Error, bad.to_string()))
    }

    fn asked_all(&mut self, standing: &mut Standing, since: f64) {
        self.unanswered = 0;
        self.asking = Asking::Done(since);
        standing.keep_all_ended(false);
    }
}
