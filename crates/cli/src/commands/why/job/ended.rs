// SPDX-License-Identifier: LGPL-3.0-only
//! The answer about two jobs of which at least one has ended, so that neither is ahead of the other.

use std::io::{self, Write};

use serde::Serialize;

use super::history::{JobHistory, ask_ended, ask_history, ask_past};
use crate::ui::teller::Teller;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{Explained, Why};

/// A job of the request. The plugin has no ended jobs, so the facts about an ended job are from its eventlog
/// and from job-list.
#[derive(Serialize)]
pub(super) struct PastOrPresentJob {
    #[serde(flatten)]
    pub(super) job: Why,
    /// The history; `None` if the job is pending, or if the caller may not read its eventlog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<JobHistory>,
}

impl PastOrPresentJob {
    pub(super) fn has_ended(&self) -> bool {
        self.job.state == "inactive"
    }
}

/// Returns the requested jobs in the order of `ids`. Returns `None` if the plugin has one of the jobs but
/// refuses to explain it. Also returns `None` if the plugin lacks a job and the caller may not read its
/// eventlog.
pub(super) fn ask_ended_and_others(
    flux: &Flux,
    explained: &Explained,
    ids: &[u64],
) -> Option<Vec<PastOrPresentJob>> {
    let find = |id: &u64| {
        if let Some(job) = explained.jobs.iter().find(|job| job.id.0 == *id) {
            return Some(PastOrPresentJob { job: job.clone(), history: ask_past(flux, job) });
        }
        let refused = explained.refused.iter().find(|refused| refused.id.0 == *id)?;
        let history = Some(refused)
            .filter(|refused| refused.reason.code == "unknown")
            .and_then(|_| ask_history(flux, *id))?;
        Some(PastOrPresentJob { job: ask_ended(flux, *id, &history), history: Some(history) })
    };
    ids.iter().map(find).collect()
}

impl Teller<'_> {
    /// Prints that two jobs have no order, and the last priority of each job with its cause.
    pub(super) fn explain_without_order(
        &self,
        jobs: &[PastOrPresentJob],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let ended = jobs.iter().filter(|job| job.has_ended()).map(|job| self.words.job(job.job.id.0));
        let ended = match ended.collect::<Vec<_>>().as_slice() {
            [one] => format!("{one} has ended"),
            _ => "both have ended".to_owned(),
        };
        self.heading(&format!("Neither job is ahead of the other: {ended}"), out)?;
        for PastOrPresentJob { job, history } in jobs {
            let headline = match history {
                Some(history) if job.state == "inactive" => self.ended_headline(job, history),
                _ => self.headline(job),
            };
            let priority = match (&job.posted, job.state.as_ref()) {
                (Some(posted), _) => self.posted_priority(posted, None),
                (None, "run" | "cleanup" | "inactive") => self.last_priority(history.as_ref()),
                (None, _) => "It has no priority yet.".to_owned(),
            };
            self.line(&format!("{headline}. {priority}"), out)?;
        }
        Ok(())
    }
}
