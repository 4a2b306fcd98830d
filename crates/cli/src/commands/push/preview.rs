// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare push --dry-run`: the plugin's preview of a push.

use serde::{Deserialize, Serialize};

use super::changes::Changes;
use crate::ui::printable::{count, printable};
use crate::ui::words::user_or_id;
use fairshare_engine::ids::f58;

/// The plugin's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Preview {
    #[serde(flatten)]
    changes: Changes,
    /// Pending jobs with a priority.
    pending: usize,
    /// Jobs that would get another priority.
    repriced: usize,
    /// Jobs that would move in their queues.
    moved: usize,
    /// The jobs that would move most.
    moves: Vec<MovedJob>,
    /// Jobs that would end.
    rejected: Vec<Rejected>,
    rejected_count: usize,
    /// Associations with live jobs that would be removed.
    removed_with_jobs: Vec<Removed>,
    removed_with_jobs_count: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct MovedJob {
    id: u64,
    userid: u32,
    bank: Option<String>,
    queue: Option<String>,
    /// The present and the new priority.
    priority: [u32; 2],
    /// The present and the new place in the queue, from 1.
    place: [usize; 2],
}

#[derive(Debug, Serialize, Deserialize)]
struct Rejected {
    id: u64,
    userid: u32,
    reason: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Removed {
    userid: u32,
    bank: String,
    jobs: u64,
}

impl Preview {
    /// Returns the preview as lines of text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("the plugin would take it: {}", self.changes.words()),
            format!(
                "of {} {} would get another priority, {} would move in {}",
                count(self.pending, "pending job"),
                self.repriced,
                self.moved,
                if self.moved == 1 { "its queue" } else { "their queues" }
            ),
        ];
        lines.extend(self.moves.iter().map(|job| {
            let [from, to] = job.priority;
            let [place, next] = job.place;
            let bank = job.bank.as_ref().map_or(String::new(), |bank| format!(" in {}", printable(bank)));
            let queue =
                job.queue.as_ref().map_or(String::new(), |queue| format!(", queue {}", printable(queue)));
            let user = user_or_id(job.userid);
            format!(
                "  {} of {user}{bank}{queue}: place {place} to {next}, priority {from} to {to}",
                f58(job.id)
            )
        }));
        lines.extend(self.rejected.iter().map(|job| {
            let (id, user, reason) = (f58(job.id), user_or_id(job.userid), printable(&job.reason));
            format!("job {id} of {user} would end: {reason}")
        }));
        lines.extend(more(self.rejected_count, self.rejected.len(), "job", "would end"));
        lines.extend(self.removed_with_jobs.iter().map(|association| {
            let Removed { userid, bank, jobs } = association;
            let jobs = count(usize::try_from(*jobs).unwrap_or(usize::MAX), "live job");
            format!(
                "user {} in {} would be removed with {jobs}, which continue",
                user_or_id(*userid),
                printable(bank)
            )
        }));
        let (all, shown) = (self.removed_with_jobs_count, self.removed_with_jobs.len());
        lines.extend(more(all, shown, "association", "would be removed with live jobs"));
        lines
    }
}

fn more(all: usize, shown: usize, what: &str, would: &str) -> Option<String> {
    (all > shown).then(|| format!("and {} more {would}", count(all - shown, what)))
}
