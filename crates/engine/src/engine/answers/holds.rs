// SPDX-License-Identifier: LGPL-3.0-only
//! Which limits hold a job now, and which jobs of its association would free it. A job keeps the name of the limit that held
//! it first, though it may be another one by now: what counts is what it would exceed.

use super::super::View;
use crate::accounts::{AssociationId, Target};
use crate::ids::{Amount, JobId, Measure, QueueName, Stage, Word};
use crate::limits::{Holding, Job, Knowledge, OVERTAKEN, Phase};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// So many of the jobs that would free a limit are named.
const MOST_NAMED: usize = 20;
/// So many are looked at.
pub(super) const MOST_LOOKED_AT: usize = 1000;

/// A limit that holds a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HoldNow {
    /// The dependency's name.
    pub limit: Word,
    /// What it counts, such as `jobs`, `nodes` or `cores`.
    pub measure: Word,
    /// Of which jobs: `running`, `scheduled`, or `both`.
    pub stage: Word,
    /// Whose jobs count together: `association`, `queue` (those of the association in one queue), `bank`, or `user`.
    pub scope: Word,
    /// The name of the scope, as in `[[fairshare.limits]]`; `None` for a limit in the record of an association or a queue.
    pub name: Option<String>,
    /// The queue, if it is a limit of that.
    pub queue: Option<QueueName>,
    /// In use and reserved.
    pub used: u64,
    /// Of that, what is reserved for released jobs.
    pub reserved: u64,
    /// The cap.
    #[serde(rename = "limit_is")]
    pub cap: u64,
    /// What the job takes.
    pub needed: u64,
    /// The overtaken job for which the scope keeps its headroom.
    pub kept_for: Option<JobId>,
    /// All of it in a sentence.
    pub text: String,
    /// The first of the jobs whose end frees headroom, by the time of their end.
    pub frees: Vec<Freeing>,
    /// The number of all these jobs.
    pub frees_total: usize,
    /// When jobs that run now have freed enough headroom for this job, were it alone, in seconds since the epoch.
    pub latest: Option<f64>,
}

/// A job that takes headroom of a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Freeing {
    /// The job.
    pub id: JobId,
    /// `run`, `sched`, or `released` if it is on its way there.
    pub state: Word,
    /// How much it takes.
    pub amount: u64,
    /// When it gives the headroom back at the latest, in seconds since the epoch; `None`: unknown.
    pub by: Option<f64>,
}

impl HoldNow {
    /// Returns true if associations share the limit: which job goes first then depends on all of them.
    pub fn is_shared(&self) -> bool {
        self.name.is_some()
    }

    /// Returns true if the end of no other job frees enough headroom.
    pub fn is_for_ever(&self) -> bool {
        self.needed > self.cap
    }

    /// Leaves out for which job headroom is kept: in private mode a guest does not learn of others' jobs.
    pub fn forget_kept_for(&mut self) {
        if let Some(job) = self.kept_for.take() {
            self.text = self.text.replace(&format!("job {job}"), "a job of another user");
        }
    }
}

/// Returns the name of a scope: the kind of its target, or for a limit in a record, whose record it is.
pub(super) fn scope(target: Option<&Target>, queue: Option<&QueueName>) -> Word {
    Cow::Borrowed(match (target, queue) {
        (Some(target), _) => target.kind(),
        (None, Some(_)) => "queue",
        (None, None) => "association",
    })
}

fn state(job: &Job) -> &'static str {
    match job.phase {
        Phase::Run => "run",
        Phase::Sched => "sched",
        Phase::New | Phase::Depend | Phase::Priority | Phase::Cleanup => "released",
    }
}

/// The limits that a held job would exceed, in the order of the table; those over scopes come last.
pub(super) fn current_holds(view: &View<'_>, id: JobId, job: &Job, now: f64) -> Vec<HoldNow> {
    let Some(association) = job.association().filter(|_| is_ours_to_hold(view, job)) else {
        return Vec::new();
    };
    let holding = view.ledger.holding(&view.book, id).into_iter();
    holding.map(|holding| hold_now(view, association, holding, now)).collect()
}

fn is_ours_to_hold(_view: &View<'_>, job: &Job) -> bool {
    job.is_held() || job.phase == Phase::Depend && job.knowledge != Knowledge::Known
}

fn hold_now(view: &View<'_>, association: AssociationId, holding: Holding, now: f64) -> HoldNow {
    let whose = whose(view, association, &holding);
    let Holding {
        hold,
        amount: Amount { stage, measure },
        target,
        queue,
        used,
        reserved,
        limit,
        needed,
        kept_for,
    } = holding;
    let cap = limit.cap();
    let what = format!("{} {}", stage.adjective(), measure.name());
    let in_use = used.saturating_sub(reserved);
    let mut text = format!("{in_use} of {cap} {what} of {whose} are in use");
    if reserved > 0 {
        text.push_str(&format!(", {reserved} are reserved for released jobs"));
    }
    text.push_str(&format!("; this job takes {needed}"));
    if let Some(job) = kept_for {
        let left = cap.saturating_sub(used);
        text.push_str(&format!(
            "; the {left} left are kept for job {job}, which {OVERTAKEN} jobs have overtaken"
        ));
    }
    let mut hold = HoldNow {
        limit: Cow::Borrowed(hold.name()),
        measure: Cow::Borrowed(measure.name()),
        stage: Cow::Borrowed(stage.which()),
        scope: scope(target.as_ref(), queue.as_ref()),
        name: target.as_ref().map(Target::name),
        queue,
        used,
        reserved,
        cap,
        needed,
        kept_for,
        text,
        frees: Vec::new(),
        frees_total: 0,
        latest: None,
    };
    add_frees(view, &mut hold, target.as_ref(), association, (stage, measure), now);
    hold
}

/// Adds the jobs whose end would free headroom of the limit. When that is enough is told of limits of the association alone: where
/// associations share a limit, who goes first depends on all of them.
fn add_frees(
    view: &View<'_>,
    hold: &mut HoldNow,
    target: Option<&Target>,
    association: AssociationId,
    (stage, measure): (Stage, Measure),
    now: f64,
) {
    let jobs: Vec<(JobId, Option<f64>)> = match target {
        None => view.ledger.counted(association).take(MOST_LOOKED_AT).collect(),
        Some(target) => {
            let queue = hold.queue.as_ref();
            view.ledger.counted_in_scope(association, target, queue, MOST_LOOKED_AT)
        }
    };
    let mut left = hold.used;
    for (id, by) in jobs {
        let Some(other) = view.ledger.job(id) else { continue };
        let amount = stage.taken(other, measure);
        let other_queue = other.queue.as_ref().map(QueueName::as_str);
        if amount == 0 || !view.book.site_limits().counts_in(hold.queue.as_ref(), other_queue) {
            continue;
        }
        hold.frees_total += 1;
        let by = by.map(|by| by.max(now));
        left = if by.is_some() { left.saturating_sub(amount) } else { left };
        if !hold.is_shared() && hold.latest.is_none() && left.saturating_add(hold.needed) <= hold.cap {
            hold.latest = by;
        }
        if hold.frees.len() < MOST_NAMED {
            hold.frees.push(Freeing { id, state: Cow::Borrowed(state(other)), amount, by });
        }
    }
}

fn whose(view: &View<'_>, association: AssociationId, holding: &Holding) -> String {
    let whose = match &holding.target {
        None => view
            .book
            .association(association)
            .map_or_else(String::new, |known| format!("user {} in bank {}", known.user, known.bank)),
        Some(Target::Association(user, bank)) => format!("user {user} in bank {bank}"),
        Some(Target::EachAssociation) => "its association".to_owned(),
        Some(Target::Bank(bank)) => format!("bank {bank} with all below it"),
        Some(Target::EachBank) => "its bank".to_owned(),
        Some(Target::User(user)) => format!("user {user} over all banks"),
        Some(Target::EachUser) => "its user over all banks".to_owned(),
    };
    match &holding.queue {
        Some(queue) => format!("{whose}, queue {queue}"),
        None => whose,
    }
}
