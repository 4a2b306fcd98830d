// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `priorities`: the posted and the current priorities of pending jobs, in pages by job id. The answers to
//! `usages` and `tree`: the usage and fair-share of associations, and the live tree, in pages.

use super::super::View;
use super::PageWanted;
use crate::accounts::{Association, AssociationId};
use crate::ids::{BankName, JobId, UserId, Word};
use crate::priority::{Explanation, Term};
use crate::standing::TreePage;
use serde::{Deserialize, Serialize};

/// The jobs that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSelection {
    /// Only these jobs.
    pub ids: Option<Vec<JobId>>,
    /// Only jobs whose ids are higher than this id.
    pub after: Option<JobId>,
    /// The maximum number of jobs.
    pub most: usize,
}

/// The answer to `priorities`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrioritiesPage {
    /// The pending jobs.
    pub jobs: Vec<ListedPriorities>,
    /// The job after which the next page begins; `None` if this is the last.
    pub next: Option<JobId>,
}

/// The priorities of a pending job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedPriorities {
    /// The job.
    pub id: JobId,
    /// When its priority was posted, in seconds since the epoch.
    pub when: f64,
    /// The generation of the live fair-shares from which the posted priority was computed.
    pub generation: u64,
    /// The priority by which Flux schedules.
    pub posted: ListedPriority,
    /// The current priority.
    pub exact: ListedPriority,
    /// The job's number within its association, if jobs of different associations are interleaved.
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
    let ids = wanted.ids.unwrap_or_else(|| view.pending_after(wanted.after, wanted.most));
    let next_page = ids.last().copied().filter(|_| is_page && ids.len() == wanted.most);
    PrioritiesPage {
        jobs: ids.into_iter().filter_map(|id| list_priorities(view, id, now)).collect(),
        next: next_page,
    }
}

fn list_priorities(view: &View<'_>, id: JobId, now: f64) -> Option<ListedPriorities> {
    let priced = view.priced(id)?;
    let age = view.ledger.job(id).map_or(0.0, |job| view.age_without_offset(job, now));
    let show_priority = |priority: &Explanation| ListedPriority {
        priority: priority.priority,
        sum: priority.sum,
        terms: priority.shown_terms(age),
    };
    Some(ListedPriorities {
        id,
        when: priced.noted.when,
        generation: priced.noted.generation,
        posted: show_priority(&priced.posted),
        exact: show_priority(&priced.exact),
        turn: priced.turn.map(|turn| turn.number),
    })
}

/// The usage of an association, as live fair-share counts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// The user.
    #[serde(rename = "userid")]
    pub user: UserId,
    /// The bank.
    pub bank: BankName,
    /// The usage at the requested time; `None` if there is no tree, or if the tree does not contain the
    /// association.
    pub usage: Option<f64>,
    /// The fair-share as of the last refresh, or the pushed fair-share.
    pub fairshare: f64,
}

/// The answer to `usages`: a page of the usage of associations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsagesPage {
    /// The time of the answer, in seconds since the epoch.
    pub now: f64,
    /// The associations, by user and bank.
    pub associations: Vec<Used>,
    /// The association after which the next page begins; `None` if this is the last.
    pub next: Option<(UserId, BankName)>,
}

/// Returns a page of the usage of associations at `now`.
pub fn usages(view: &View<'_>, wanted: &PageWanted, now: f64) -> UsagesPage {
    let used = |(id, association): (AssociationId, &Association)| {
        let index = view.standing.find(association.user, &association.bank);
        Used {
            user: association.user,
            bank: association.bank.clone(),
            usage: index.and_then(|index| view.standing.usage(index, now)),
            fairshare: view.fairshare(id).unwrap_or_default(),
        }
    };
    let associations: Vec<Used> = wanted.select(view).take(wanted.most).map(used).collect();
    let last = associations.last().filter(|_| associations.len() == wanted.most);
    let next = last.map(|last| (last.user, last.bank.clone()));
    UsagesPage { now, associations, next }
}

/// Returns a page of the live tree, as [`Standing::tree_page`](crate::standing::Standing::tree_page); `None` if fair-share is not
/// live.
pub fn tree_page(view: &View<'_>, first: usize, most: usize, now: f64) -> Option<TreePage> {
    view.standing.tree_page(first, most, now).filter(|_| view.is_live())
}
