// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `priorities`: the posted and the current priorities of pending jobs, in pages by job id.

use super::super::View;
use crate::ids::{JobId, Word};
use crate::priority::{Explanation, Term};
use serde::{Deserialize, Serialize};

/// The jobs that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSelection {
    /// Only these jobs.
    pub ids: Option<Vec<JobId>>,
    /// Only jobs whose ids are higher than this id.
    pub after: Option<JobId>,
    /// The maximum number of jobs in the answer.
    pub most: usize,
}

/// The answer to `priorities`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrioritiesPage {
    /// The pending jobs.
    pub jobs: Vec<ListedPriorities>,
    /// The job after which the next page begins; `None` if there is no next page.
    pub next: Option<JobId>,
}

/// The priorities of a pending job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedPriorities {
    /// The job.
    pub id: JobId,
    /// When the priority of the job was posted, in seconds since the epoch.
    pub when: f64,
    /// The generation of the live fair-shares from which the posted priority was computed.
    pub generation: u64,
    /// The priority by which Flux schedules.
    pub posted: ListedPriority,
    /// The current priority.
    pub exact: ListedPriority,
    /// The job's position among the pending jobs of its association, if jobs of different associations are
    /// interleaved.
    pub turn: Option<usize>,
}

/// A priority with its terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedPriority {
    /// The priority.
    pub priority: u32,
    /// The sum of the terms.
    pub sum: f64,
    /// The terms, in the order in which they are summed.
    pub terms: Vec<Term<Word>>,
}

/// Returns the priorities at `now` of the selected jobs, or of a page of all pending jobs.
pub fn priorities(view: &View<'_>, wanted: JobSelection, now: f64) -> PrioritiesPage {
    let is_page = wanted.ids.is_none();
    let ids = wanted.ids.unwrap_or_else(|| view.list_pending_jobs_after(wanted.after, wanted.most));
    let next_page = ids.last().copied().filter(|_| is_page && ids.len() == wanted.most);
    PrioritiesPage {
        jobs: ids.into_iter().filter_map(|id| list_job_priorities(view, id, now)).collect(),
        next: next_page,
    }
}

fn list_job_priorities(view: &View<'_>, id: JobId, now: f64) -> Option<ListedPriorities> {
    let priorities = view.priorities_of(id)?;
    let age = view.ledger.job(id).map_or(0.0, |job| view.age_without_offset(job, now));
    let show_priority = |priority: &Explanation| ListedPriority {
        priority: priority.priority,
        sum: priority.sum,
        terms: priority.shown_terms(age),
    };
    Some(ListedPriorities {
        id,
        when: priorities.noted.when,
        generation: priorities.noted.generation,
        posted: show_priority(&priorities.posted),
        exact: show_priority(&priorities.exact),
        turn: priorities.turn.map(|turn| turn.number),
    })
}
