// SPDX-License-Identifier: LGPL-3.0-only
//! Pending and held jobs in short, page by page.

use super::super::View;
use super::super::posted::{Price, shown};
use crate::accounts::AssociationId;
use crate::ids::{BankName, JobId, QueueName, UserId};
use crate::limits::{Job, Keepers, Phase, Room, Size};
use std::collections::HashMap;

/// So many jobs are looked at for one page.
const MOST_LOOKED_AT: usize = 4000;

/// Which jobs are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsWanted {
    /// Those that come after this one.
    pub after: Option<JobId>,
    /// These, and no others.
    pub ids: Option<Vec<JobId>>,
    /// Those of this user.
    pub user: Option<UserId>,
    /// Those that count in this bank.
    pub bank: Option<String>,
    /// Those of this queue.
    pub queue: Option<String>,
    /// So many at most.
    pub most: usize,
}

/// One job of a list.
#[derive(Clone, Debug)]
pub struct ListedJob {
    /// The job.
    pub id: JobId,
    /// Whose it is.
    pub user: UserId,
    /// The bank it counts in; without one, the bank that it names.
    pub bank: Option<BankName>,
    /// The queue it names.
    pub queue: Option<QueueName>,
    /// `depend`, `priority` or `sched`.
    pub state: &'static str,
    /// What it asks for.
    pub size: Size,
    /// When it was submitted.
    pub submitted: Option<f64>,
    /// The posted price by what made it, and the exact one as of the last refresh.
    pub price: Option<Price>,
    /// Its true age now, as a part of `age-max`.
    pub age: f64,
    /// By which of the page's weights it was made.
    pub weighing: Option<usize>,
    /// The limits that hold it now.
    pub holds: Vec<&'static str>,
    /// Whether others keep it in DEPEND.
    pub is_kept: bool,
}

/// Some of them.
#[derive(Clone, Debug, Default)]
pub struct JobsPage {
    /// Those of this page, by id.
    pub jobs: Vec<ListedJob>,
    /// The weights by which the prices were made.
    pub weighings: Vec<Vec<i64>>,
    /// After which job the next page begins; `None` if this is the last.
    pub next: Option<JobId>,
    /// Of an empty page: whether there is a bank of the name that was asked for, in the data that were pushed.
    pub has_bank: bool,
    /// Of an empty page: the same of the queue.
    pub has_queue: bool,
}

/// What was worked out for one job and holds for others.
#[derive(Default)]
struct Shared {
    rooms: HashMap<(AssociationId, Option<QueueName>), Room>,
    /// The weights, by where they are.
    weighings: HashMap<usize, usize>,
}

/// The names of the terms that people are shown, in their order.
pub fn term_names(view: &View<'_>) -> Vec<&'static str> {
    shown(view.weighed.all().map(|(factor, weight)| (factor.name, weight))).map(|(name, _)| name).collect()
}

/// A page of the pending and held jobs.
pub fn jobs_page(view: &View<'_>, wanted: &JobsWanted, now: f64) -> JobsPage {
    let (mut page, mut shared) = (JobsPage::default(), Shared::default());
    let (candidates, is_all) = candidates(view, wanted);
    let mut last = None;
    let mut is_full = false;
    for id in candidates {
        if page.jobs.len() == wanted.most {
            is_full = true;
            break;
        }
        last = Some(id);
        let Some(job) = view.ledger.job(id).filter(|job| job.phase < Phase::Run) else { continue };
        if is_wanted(view, job, wanted) {
            let mut listed = as_listed(view, id, job, &mut page, &mut shared);
            listed.age = view.true_age(job, now);
            page.jobs.push(listed);
        }
    }
    page.next = last.filter(|_| is_full || !is_all);
    let is_empty = page.jobs.is_empty();
    page.has_bank = !is_empty || wanted.bank.as_ref().is_none_or(|bank| knows_bank(view, bank));
    page.has_queue = !is_empty || wanted.queue.as_ref().is_none_or(|queue| view.book.queue(queue).is_some());
    page
}

/// Whether an association or a bank of the tree has this bank.
fn knows_bank(view: &View<'_>, bank: &str) -> bool {
    let mut associations = view.book.associations(None).map(|(_, association)| association);
    associations.any(|association| association.bank.as_str() == bank) || view.standing.has_bank(bank)
}

/// The ids to look at, ascending, and whether these are all.
fn candidates(view: &View<'_>, wanted: &JobsWanted) -> (Vec<JobId>, bool) {
    let comes = |id: &JobId| wanted.after.is_none_or(|after| *id > after);
    if let Some(ids) = &wanted.ids {
        let mut ids: Vec<JobId> = ids.iter().copied().filter(comes).collect();
        ids.sort_unstable();
        ids.dedup();
        return (ids, true);
    }
    let mut found: Vec<JobId> = Vec::new();
    let mut is_all = true;
    match wanted.user {
        None => {
            found.extend(view.ledger.jobs_after(wanted.after).map(|(id, _)| id).take(MOST_LOOKED_AT));
            is_all = found.len() < MOST_LOOKED_AT;
        }
        Some(user) => {
            // Of each list the first that come: whatever is left out comes after these.
            let mut upto = None::<JobId>;
            let mut add = |ids: &mut dyn Iterator<Item = JobId>| {
                let part: Vec<JobId> = ids.take(wanted.most + 1).collect();
                if part.len() > wanted.most {
                    is_all = false;
                    let end = part.last().copied();
                    upto = match (upto, end) {
                        (Some(one), Some(other)) => Some(one.min(other)),
                        (one, other) => one.or(other),
                    };
                }
                found.extend(part);
            };
            add(&mut view.ledger.waiting_of(user).filter(comes));
            for (id, _) in view.book.all_of(user) {
                add(&mut view.ledger.before_sched_after(id, wanted.after));
                add(&mut view.posted.pending_of(id, wanted.after));
            }
            found.sort_unstable();
            found.dedup();
            if let Some(upto) = upto {
                found.retain(|id| *id <= upto);
            }
        }
    }
    (found, is_all)
}

fn is_wanted(view: &View<'_>, job: &Job, wanted: &JobsWanted) -> bool {
    let is_bank = |bank: &String| {
        let own = job.association().and_then(|id| view.book.association(id)).map(|known| &known.bank);
        own.or(job.bank.as_ref()).is_some_and(|own| own.as_str() == bank)
    };
    let is_queue = |queue: &String| job.queue.as_ref().is_some_and(|own| own.as_str() == queue);
    wanted.user.is_none_or(|user| job.user == user)
        && wanted.bank.as_ref().is_none_or(is_bank)
        && wanted.queue.as_ref().is_none_or(is_queue)
}

fn as_listed(view: &View<'_>, id: JobId, job: &Job, page: &mut JobsPage, shared: &mut Shared) -> ListedJob {
    let price = view.posted.price_of(id);
    let weighing = price.as_ref().map(|price| {
        *shared.weighings.entry(price.weighing_key()).or_insert_with(|| {
            page.weighings.push(price.shown_weights());
            page.weighings.len() - 1
        })
    });
    let holds = match job.association().filter(|_| job.is_held()) {
        None => Vec::new(),
        Some(association) => {
            let key = (association, job.queue.clone());
            let room = shared.rooms.entry(key);
            let room = room.or_insert_with(|| view.ledger.room(&view.book, association, job.queue.as_ref()));
            view.ledger.rules().members(room.exceeded(job.size)).map(|hold| hold.name()).collect()
        }
    };
    ListedJob {
        id,
        user: job.user,
        bank: view.bank_of(job.association()).or_else(|| job.bank.clone()),
        queue: job.queue.clone(),
        state: match job.phase {
            Phase::Sched => "sched",
            Phase::Priority if job.is_in_sched => "sched",
            Phase::Priority => "priority",
            Phase::New | Phase::Depend | Phase::Run | Phase::Cleanup => "depend",
        },
        size: job.size,
        submitted: job.submitted,
        price,
        age: 0.0,
        weighing,
        holds,
        is_kept: job.phase == Phase::Depend && job.keepers == Keepers::Others,
    }
}
