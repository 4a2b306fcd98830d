// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `jobs`: short descriptions of pending and held jobs, in pages.

use super::super::View;
use super::super::posted::{list_shown_weights, shown_terms};
use super::heading::Overruled;
use crate::ids::{BankName, JobId, QueueName, UserId, Word};
use crate::limits::{BlockState, HoldSet, Job, Phase, PositionAmongJobs};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Bound;

/// The largest number of jobs that are examined for one page.
const MOST_VISITED: usize = 4000;

/// The filter of a request for jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only jobs whose ids are higher than this id.
    pub after: Option<JobId>,
    /// Only these jobs.
    pub ids: Option<Vec<JobId>>,
    /// Only jobs of this user.
    pub user: Option<UserId>,
    /// Only jobs that count in this bank.
    pub bank: Option<String>,
    /// Only jobs of this queue.
    pub queue: Option<String>,
    /// The largest number of jobs in a page.
    pub most: usize,
}

/// A short description of a pending or held job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListedJob {
    /// The job.
    pub id: JobId,
    /// The user of the job.
    pub userid: UserId,
    /// The bank in which the job counts; without an association, the bank of the jobspec.
    pub bank: Option<BankName>,
    /// The queue of the jobspec.
    pub queue: Option<QueueName>,
    /// `depend`, `priority` or `sched`.
    pub state: Word,
    /// The urgency of the posted priority, 0 to 31.
    pub urgency: Option<u8>,
    /// The requested nodes.
    pub nodes: u64,
    /// The requested cores.
    pub cores: u64,
    /// When the job was submitted, in seconds since the epoch.
    pub submitted: Option<f64>,
    /// The posted priority of the job, if there is one.
    pub priority: Option<u32>,
    /// The position of the job in its scheduler queue, if the job is pending at a priority above 0 and the caller may
    /// see the jobs of others.
    pub place: Option<PositionAmongJobs>,
    /// The current priority of the job as of the last refresh.
    pub exact: Option<u32>,
    /// The name of the [`Outcome`](crate::priority::Outcome) of the posted priority.
    pub outcome: Option<Word>,
    /// The index of the weights of the posted priority in [`JobsPage::weighings`].
    pub weighing: Option<usize>,
    /// The values of the terms of the posted priority, in the order of [`JobsPage::terms`].
    pub values: Vec<f64>,
    /// The sum of `values`; `None` if the urgency alone decides the priority.
    pub sum: Option<f64>,
    /// When the priority was posted, in seconds since the epoch.
    pub when: Option<f64>,
    /// The limits that the job exceeds now.
    pub holds: Vec<Word>,
    /// True if other plugins block the job in DEPEND.
    #[serde(rename = "kept")]
    pub is_kept: bool,
}

/// The answer to `jobs`: a page of the pending and held jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobsPage {
    /// The time of the answer, in seconds since the epoch.
    pub now: f64,
    /// Number of accepted updates.
    pub generation: u64,
    /// Whether fair-share is live.
    pub live: bool,
    /// The names of the terms, in the order in which they are summed.
    pub terms: Vec<Word>,
    /// The present weights of the terms.
    pub weights: Vec<i64>,
    /// The lists of weights from which the posted priorities were computed. Each job has the index of its list.
    pub weighings: Vec<Vec<i64>>,
    /// The jobs, by id.
    pub jobs: Vec<ListedJob>,
    /// The job after which the next page begins; `None` if there is no next page.
    pub next: Option<JobId>,
    /// On an empty page: true if the bank of the request exists.
    #[serde(default = "default_true")]
    pub has_bank: bool,
    /// On an empty page: true if the queue of the request exists.
    #[serde(default = "default_true")]
    pub has_queue: bool,
    /// Set while another priority plugin sets the priorities of jobs.
    pub overruled: Option<Overruled>,
}

fn default_true() -> bool {
    true
}

/// Returns the names of the terms that answers show, in their order.
pub fn list_priority_term_names(view: &View<'_>) -> Vec<Word> {
    let terms = shown_terms(view.weighed.all().map(|(factor, weight)| (factor.name, weight)));
    terms.map(|(name, _)| Cow::Borrowed(name)).collect()
}

/// Returns a page of the pending and held jobs.
pub fn jobs_page(view: &View<'_>, wanted: &JobFilter, now: f64) -> JobsPage {
    let mut page = JobsPage {
        now,
        generation: view.generation(),
        live: view.is_live(),
        terms: list_priority_term_names(view),
        weights: list_shown_weights(&view.weighed),
        ..JobsPage::default()
    };
    let mut last = None;
    for (visited, id) in list_candidates(view, wanted).enumerate() {
        if page.jobs.len() == wanted.most || visited == MOST_VISITED {
            page.next = last;
            break;
        }
        last = Some(id);
        let Some(job) = view.ledger.job(id).filter(|job| job.phase < Phase::Run) else { continue };
        if is_wanted(view, job, wanted) {
            let listed = list_job(view, id, job, now, &mut page.weighings);
            page.jobs.push(listed);
        }
    }
    let places = view.places(page.jobs.iter().map(|job| job.id));
    page.jobs.iter_mut().for_each(|job| job.place = places.get(&job.id).copied());
    let is_empty = page.jobs.is_empty();
    page.has_bank = !is_empty || wanted.bank.as_ref().is_none_or(|bank| is_known_bank(view, bank));
    page.has_queue = !is_empty || wanted.queue.as_ref().is_none_or(|queue| view.book.queue(queue).is_some());
    page
}

/// Returns true if an association is in `bank`, or if the tree contains `bank`.
fn is_known_bank(view: &View<'_>, bank: &str) -> bool {
    view.book.has_bank(bank) || view.standing.tree().is_some_and(|tree| tree.bank(bank).is_some())
}

/// Returns the ids of jobs that may match the request, in ascending order, each once.
fn list_candidates<'a>(view: &'a View<'_>, wanted: &'a JobFilter) -> impl Iterator<Item = JobId> {
    let after = wanted.after;
    let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
    let mut lists: Vec<Box<dyn Iterator<Item = JobId> + 'a>> = Vec::new();
    match (&wanted.ids, wanted.user) {
        (Some(ids), _) => {
            let ids: BTreeSet<JobId> = ids.iter().copied().filter(|id| Some(*id) > after).collect();
            lists.push(Box::new(ids.into_iter()));
        }
        (None, None) => lists.push(Box::new(view.ledger.jobs_after(after).map(|(id, _)| id))),
        (None, Some(user)) => {
            let waiting = view.ledger.waiting().get(&user).into_iter();
            lists.push(Box::new(waiting.flat_map(move |ids| ids.range(range).copied())));
            for (id, _) in view.book.all_associations_of(user) {
                lists.push(Box::new(view.ledger.accounts().list_jobs_before_sched(id, after)));
                lists.push(Box::new(view.posted.pending_jobs_of(id, after)));
            }
        }
    }
    // Each list is in ascending order. A job may be in several lists.
    let mut lists: Vec<_> = lists.into_iter().map(Iterator::peekable).collect();
    std::iter::from_fn(move || {
        let first = lists.iter_mut().filter_map(|ids| ids.peek().copied()).min()?;
        for ids in &mut lists {
            ids.next_if_eq(&first);
        }
        Some(first)
    })
}

fn is_wanted(view: &View<'_>, job: &Job, wanted: &JobFilter) -> bool {
    let is_bank = |bank: &String| {
        let own = job.association().and_then(|id| view.book.association(id)).map(|known| &known.bank);
        own.or(job.bank.as_ref()).is_some_and(|own| own.as_str() == bank)
    };
    let is_queue = |queue: &String| job.queue.as_ref().is_some_and(|own| own.as_str() == queue);
    wanted.user.is_none_or(|user| job.user == user)
        && wanted.bank.as_ref().is_none_or(is_bank)
        && wanted.queue.as_ref().is_none_or(is_queue)
}

fn list_job(view: &View<'_>, id: JobId, job: &Job, now: f64, weighings: &mut Vec<Vec<i64>>) -> ListedJob {
    let priority = view.posted.pending().get(id);
    let posted = priority.map(|(job, posted)| (posted, posted.explanation(job.posted)));
    let weighing = posted.map(|(posted, _)| {
        let weights = list_shown_weights(&posted.weighing.weighed);
        weighings.iter().position(|known| *known == weights).unwrap_or_else(|| {
            weighings.push(weights);
            weighings.len() - 1
        })
    });
    let exceeded = if job.is_held() { view.limits().exceeded_by(id) } else { HoldSet::NONE };
    let shown =
        posted.map(|(_, made)| made.shown_terms(view.age_without_offset(job, now))).unwrap_or_default();
    ListedJob {
        id,
        userid: job.user,
        bank: view.bank_of_job(job),
        queue: job.queue.clone(),
        state: Cow::Borrowed(match job.phase {
            Phase::Sched => "sched",
            Phase::Priority if job.is_in_sched => "sched",
            Phase::Priority => "priority",
            Phase::New | Phase::Depend | Phase::Run | Phase::Cleanup => "depend",
        }),
        urgency: posted.map(|(posted, _)| posted.urgency),
        nodes: job.size.nodes,
        cores: job.size.cores,
        submitted: job.submitted,
        priority: priority.map(|(priority, _)| priority.posted),
        place: None,
        exact: priority.map(|(priority, _)| priority.current),
        outcome: posted.map(|(_, made)| Cow::Borrowed(made.outcome.name())),
        weighing,
        values: shown.into_iter().map(|term| term.value).collect(),
        sum: posted.filter(|(_, made)| made.is_decided_by_terms()).map(|(_, made)| made.sum),
        when: posted.map(|(posted, _)| posted.when),
        holds: view.ledger.rules().members(exceeded).map(|hold| Cow::Borrowed(hold.name())).collect(),
        is_kept: job.phase == Phase::Depend && job.block_state == BlockState::Blocked,
    }
}
