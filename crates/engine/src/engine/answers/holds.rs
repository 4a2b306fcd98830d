// SPDX-License-Identifier: LGPL-3.0-only
//! The limits that a held job exceeds now, and the jobs whose end would free headroom. A dependency keeps the
//! name of the limit that first held the job, even if another limit holds the job now.

use super::super::View;
use crate::accounts::{AssociationId, Target};
use crate::ids::{Amount, JobId, Measure, QueueName, Word};
use crate::limits::{Holding, Job, Knowledge, OVERTAKEN, Phase};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The largest number of jobs that an answer names for one limit.
const MOST_NAMED: usize = 20;
/// The largest number of jobs that an answer examines for one limit.
pub(super) const MOST_VISITED: usize = 1000;

/// A limit that holds a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HoldNow {
    /// The dependency's name.
    pub limit: Word,
    /// The measure, such as `jobs`, `nodes` or `cores`.
    pub measure: Word,
    /// The stage: `running`, `scheduled`, or `both`.
    pub stage: Word,
    /// The limit scope: `association`, `bank`, `user`, or `queue`. Without a name, `queue` stands for the jobs of the association in one
    /// queue.
    pub scope: Word,
    /// The name of the scope, as in `[[fairshare.limits]]`; `None` for a limit in the record of an association or a queue.
    pub name: Option<String>,
    /// The queue, if the limit counts only jobs in one queue.
    pub queue: Option<QueueName>,
    /// The amount in use, with reservations. Amounts of node-hours are rounded up to whole hours.
    pub used: u64,
    /// The amount in `used` that is reserved for released jobs.
    pub reserved: u64,
    /// The cap.
    #[serde(rename = "limit_is")]
    pub cap: u64,
    /// The amount that the job needs.
    pub needed: u64,
    /// The overtaken job for which the scope reserves headroom.
    pub kept_for: Option<JobId>,
    /// A sentence that explains why the limit holds the job.
    pub text: String,
    /// The jobs that free headroom when they end, sorted by the time of their end. Long lists are cut.
    pub frees: Vec<Freeing>,
    /// The number of all jobs whose end frees headroom.
    pub frees_total: usize,
    /// At this time or earlier, the limit has enough headroom for the job, if no other job takes the headroom. In
    /// seconds since the epoch.
    pub latest: Option<f64>,
}

/// A job that uses headroom of a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Freeing {
    /// The job.
    pub id: JobId,
    /// `run`, `sched`, or `released` if the job is on its way to SCHED.
    pub state: Word,
    /// The amount of headroom that the job uses.
    pub amount: u64,
    /// The latest time at which the job ends, in seconds since the epoch; `None` if unknown.
    pub by: Option<f64>,
}

impl HoldNow {
    /// Returns true if several associations share the limit. Then the order of releases depends on all of them.
    pub fn is_shared(&self) -> bool {
        self.name.is_some()
    }

    /// Returns true if the job needs more than the whole cap, so that no end of another job frees enough
    /// headroom.
    pub fn needs_more_than_cap(&self) -> bool {
        self.needed > self.cap
    }

    /// Converts all amounts to the unit of the cap, rounded up.
    fn convert_to_limit_units(&mut self, measure: Measure) {
        let unit = measure.cap_unit();
        let own = [&mut self.used, &mut self.reserved, &mut self.cap, &mut self.needed];
        for amount in own.into_iter().chain(self.frees.iter_mut().map(|job| &mut job.amount)) {
            *amount = amount.div_ceil(unit);
        }
    }

    /// Removes the ids of jobs: in private mode a guest sees no jobs of others.
    pub fn remove_job_ids(&mut self) {
        self.frees.clear();
        self.frees_total = 0;
        self.remove_reservation_owner();
    }

    /// Removes the job for which headroom is kept: in private mode a guest sees no jobs of others.
    pub fn remove_reservation_owner(&mut self) {
        if let Some(job) = self.kept_for.take() {
            self.text = self.text.replace(&format!("job {job}"), "a job of another user");
        }
    }
}

/// Returns the kind of a limit scope, such as `bank` or `user`. A limit without a target is in the record of a queue or
/// of an association.
pub fn scope_kind(target: Option<&Target>, queue: Option<&QueueName>) -> Word {
    Cow::Borrowed(match (target, queue) {
        (Some(target), _) => target.kind(),
        (None, Some(_)) => "queue",
        (None, None) => "association",
    })
}

fn state_name(job: &Job) -> &'static str {
    match job.phase {
        Phase::Run => "run",
        Phase::Sched => "sched",
        Phase::New | Phase::Depend | Phase::Priority | Phase::Cleanup => "released",
    }
}

/// Returns the limits that a held job exceeds. The limits of the association and the queue come first, and the site
/// limits last.
pub fn list_holds(view: &View<'_>, id: JobId, job: &Job, now: f64) -> Vec<HoldNow> {
    let Some(association) = job.association().filter(|_| may_be_held(job)) else {
        return Vec::new();
    };
    let holding = view.limits().holding(id).into_iter();
    let is_stopped = view.ledger.is_stopped(job.queue.as_ref());
    holding.map(|holding| show_hold(view, association, holding, is_stopped, now)).collect()
}

/// Returns true if limits hold the job, or if the eventlog of the job may show that limits hold it.
fn may_be_held(job: &Job) -> bool {
    job.is_held() || job.phase == Phase::Depend && job.knowledge != Knowledge::Known
}

pub fn show_hold(
    view: &View<'_>,
    association: AssociationId,
    holding: Holding,
    is_stopped: bool,
    now: f64,
) -> HoldNow {
    let owner = describe_owner(view, association, &holding);
    let Holding { hold, amount, target, queue, used, reserved, limit, is_given, needed, kept_for } = holding;
    let Amount { stage, measure } = amount;
    let cap = limit.cap();
    let counted = format!("{} {}", stage.adjective(), measure.name());
    let in_use = used.saturating_sub(reserved);
    let (show, most) = (|amount| measure.format_amount(amount), measure.format_headroom(cap));
    let mut text = match amount.is_budget() {
        true if !view.ended.is_done() => {
            format!("the plugin has not read all ended jobs that are charged to the budget of {owner}")
        }
        true => format!(
            "{} of {most} {} in the budget of {owner} are spent, or committed to released jobs",
            show(used),
            measure.name()
        ),
        false => format!("{} of {most} {counted} of {owner} are in use", show(in_use)),
    };
    if reserved > 0 && !amount.is_budget() {
        text.push_str(&format!(", {} are reserved for released jobs", show(reserved)));
    }
    text.push_str(&format!("; this job takes {}", show(needed)));
    if let Some(job) = kept_for {
        let left = measure.format_headroom(cap.saturating_sub(used));
        text.push_str(&format!(
            "; the remaining {left} are kept for job {job}, which {OVERTAKEN} jobs have overtaken"
        ));
    }
    let mut hold = HoldNow {
        limit: Cow::Borrowed(hold.name()),
        measure: Cow::Borrowed(measure.name()),
        stage: Cow::Borrowed(stage.answer_name()),
        scope: scope_kind(target.as_ref(), queue.as_ref()),
        name: target.as_ref().map(Target::name),
        queue,
        used,
        reserved,
        cap,
        needed,
        kept_for,
        text,
        ..HoldNow::default()
    };
    // It is unknown how much a budget gets back when a job ends.
    if !amount.is_budget() {
        add_freeing_jobs(view, &mut hold, target.as_ref(), association, (amount, is_given), is_stopped, now);
    }
    hold.convert_to_limit_units(measure);
    hold
}

/// Adds the jobs that free headroom of the limit when they end. If the queue of the held job is stopped (`is_stopped`),
/// jobs with suspended reservations are included. Sets `latest` only for limits of one association: other associations
/// may take the headroom of a shared limit.
fn add_freeing_jobs(
    view: &View<'_>,
    hold: &mut HoldNow,
    target: Option<&Target>,
    association: AssociationId,
    (counted, is_given): (Amount, bool),
    is_stopped: bool,
    now: f64,
) {
    let jobs: Vec<(JobId, Option<f64>)> = match target {
        None => view.ledger.accounts().counted_jobs(association).take(MOST_VISITED).collect(),
        Some(target) => {
            let queue = hold.queue.as_ref();
            view.limits().list_jobs_counted_in_scope(association, target, queue, MOST_VISITED)
        }
    };
    let mut remaining = hold.used;
    for (id, by) in jobs {
        let Some(other) = view.ledger.job(id) else { continue };
        let amount = counted.sum_used_and_reserved(other, is_given, is_stopped);
        let other_queue = other.queue.as_deref();
        if amount == 0 || !view.book.site_limits().counts_in(target, hold.queue.as_ref(), other_queue) {
            continue;
        }
        hold.frees_total += 1;
        let by = by.map(|by| by.max(now));
        remaining = if by.is_some() { remaining.saturating_sub(amount) } else { remaining };
        if !hold.is_shared() && hold.latest.is_none() && remaining.saturating_add(hold.needed) <= hold.cap {
            hold.latest = by;
        }
        if hold.frees.len() < MOST_NAMED {
            hold.frees.push(Freeing { id, state: Cow::Borrowed(state_name(other)), amount, by });
        }
    }
}

fn describe_owner(view: &View<'_>, association: AssociationId, holding: &Holding) -> String {
    let owner = match &holding.target {
        None => view
            .book
            .association(association)
            .map_or_else(String::new, |known| format!("user {} in bank {}", known.user, known.bank)),
        Some(Target::Association(user, bank)) => format!("user {user} in bank {bank}"),
        Some(Target::EachAssociation) => "its association".to_owned(),
        Some(Target::Bank(bank)) => format!("bank {bank} and the banks below it"),
        Some(Target::EachBank) => "its bank".to_owned(),
        Some(Target::User(user)) => format!("user {user} over all banks"),
        Some(Target::EachUser) => "its user over all banks".to_owned(),
        Some(Target::Queue(queue)) => return format!("queue {queue}"),
        Some(Target::EachQueue) => return "its queue".to_owned(),
    };
    if let Some(queue) = &holding.queue { format!("{owner} in queue {queue}") } else { owner }
}
