// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `check_job`: what would happen to a job if it were submitted now. The engine decides about this job in
//! the same way as about a submitted job, but does not store it.

use super::super::JobFacts;
use super::super::View;
use super::super::budgets::rejects_beyond_budget;
use super::super::life::{BROKEN, build_job};
use super::super::validate::{Rejection, RejectionCause, rejections_of_job};
use super::holds::{HoldNow, show_hold};
use super::job::ExplainedPriority;
use super::standing::Open;
use super::{Heading, QueueRules};
use crate::ids::{BankName, ProjectName, QueueName, UserId, Word};
use crate::limits::{ActiveJobsLimit, Admission, Holding};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The answer to `check_job`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CheckedJob {
    /// The state of the plugin.
    #[serde(flatten)]
    pub heading: Heading,
    /// The user that would submit the job.
    pub userid: UserId,
    /// The bank in which the job would count; without an association, the bank of the jobspec.
    pub bank: Option<BankName>,
    /// The queue of the jobspec.
    pub queue: Option<QueueName>,
    /// The project of the jobspec, or the default project of the association.
    pub project: Option<ProjectName>,
    /// The requested nodes.
    pub nodes: u64,
    /// The requested cores.
    pub cores: u64,
    /// The requested GPUs.
    pub gpus: u64,
    /// The time limit in seconds, if the job has one.
    pub duration: Option<f64>,
    /// The text with which the plugin would reject the job; `None` if it would accept the job.
    pub rejection: Option<String>,
    /// Further rejection texts, if the job fails several checks.
    pub further_rejections: Vec<String>,
    /// What the job is rejected for: the cause of `rejection`, then the causes of `further_rejections`.
    pub rejection_causes: Vec<RejectionCause>,
    /// True if the job would wait until a push brings the association of its user.
    pub waits_for_data: bool,
    /// The limits that would hold the job.
    pub holds: Vec<HoldNow>,
    /// The priority that the job would get if no limit held it.
    pub priority: Option<ExplainedPriority>,
    /// The parent queue, if the job's queue is a virtual queue.
    pub parent_queue: Option<QueueName>,
    /// The rules of the job's queue for limits and priorities.
    #[serde(flatten)]
    pub queue_rules: QueueRules,
    /// True if the scheduler keeps the jobs of all queues in one list. `None`: unknown.
    pub one_queue_list: Option<bool>,
    /// The position of the job by priority among the pending jobs of its scheduler queue; 1 is the first. `None` if
    /// the priority is 0.
    pub place: Option<usize>,
    /// The number of pending jobs of the scheduler queue, including the job.
    pub place_of: usize,
    /// The number of equal jobs that the request asks about.
    pub jobs: u64,
    /// The number of jobs of the request that the plugin would reject.
    pub jobs_rejected: u64,
    /// A text with the limit that would reject the last job of the request, and with the amount in use. The limit is a
    /// limit on active jobs or, in the mode "reject", a budget.
    pub active_limit: Option<String>,
    /// The largest number of these jobs that limits could hold. Fewer jobs may be held, depending on when the first
    /// jobs start.
    pub jobs_held: u64,
    /// The limit that would hold the first of the held jobs.
    pub first_limit: Option<Word>,
    /// True if the answer leaves out limits on banks and queues, because the caller may not see how much of them is
    /// in use.
    pub leaves_out_shared_limits: bool,
}

/// Returns what would happen if `count` jobs with these `facts` were submitted now. The id in `facts` must not be the
/// id of a live job. `open` says what the caller may see. The answer leaves out limits whose use the caller may not
/// see. Otherwise a user could find out the use by asking about jobs of several sizes.
pub fn check_job(
    view: &View<'_>,
    facts: &JobFacts<'_>,
    count: u64,
    open: Open,
    heading: Heading,
) -> CheckedJob {
    let mut job = build_job(view, facts, true);
    job.size = job.charged_size(view.standing.usages.charging().history());
    let association = job.association();
    let record = association.and_then(|id| view.book.association(id));
    let is_broken = matches!(job.admission, Admission::Broken(_));
    let broken = || Rejection { cause: RejectionCause::Bank, text: BROKEN.to_owned() };
    let rejections = rejections_of_job(view, association, facts).chain(is_broken.then(broken));
    let (rejection_causes, texts): (Vec<_>, Vec<_>) = rejections.map(|it| (it.cause, it.text)).unzip();
    let mut texts = texts.into_iter();
    let rejection = texts.next();
    let default_project = || record.and_then(|record| record.def_project.clone());
    let mut checked = CheckedJob {
        userid: job.user,
        bank: view.bank_of_job(&job),
        queue: job.queue.clone(),
        queue_rules: view.queue_rules(job.queue.as_ref()),
        project: facts.project.map(Into::into).or_else(default_project),
        nodes: job.size.nodes,
        cores: job.size.cores,
        gpus: job.size.gpus,
        duration: job.time_limit(),
        waits_for_data: association.is_none() && rejection.is_none(),
        jobs: count,
        jobs_rejected: count,
        rejection,
        further_rejections: texts.collect(),
        rejection_causes,
        heading,
        ..CheckedJob::default()
    };
    if checked.rejection.is_some() {
        return checked;
    }
    let (Some(association), Some(record)) = (association, record) else {
        checked.jobs_rejected = 0;
        return checked;
    };
    let now = checked.heading.now;
    let mut limits = view.limits().list_limits_on_job(facts.id, None, &job);
    let mut active_limits = view.limits().active_jobs_limits(association, job.queue.as_ref(), None);
    let all = limits.len() + active_limits.len();
    limits.retain(|limit| limit.target.as_ref().is_none_or(|target| open.shows_limit_use(target)));
    active_limits.retain(|limit| open.shows_limit_use(&limit.target));
    checked.leaves_out_shared_limits = limits.len() + active_limits.len() < all;
    let own = view.limits().active_headroom(association, facts.queue);
    let in_scopes = active_limits.iter().min_by_key(|limit| limit.headroom());
    let in_scopes = in_scopes.filter(|limit| limit.headroom() < own);
    checked.jobs_rejected = count.saturating_sub(in_scopes.map_or(own, ActiveJobsLimit::headroom));
    let describe_own = || {
        let (active, most) =
            (view.limits().sum_usage_over_queues(association).0, record.max_active_jobs.cap());
        let (user, bank) = (job.user, &record.bank);
        format!("max-active-jobs: {active} of {most} jobs of user {user} in bank {bank} are active now")
    };
    let describe = || in_scopes.map_or_else(describe_own, ActiveJobsLimit::describe);
    checked.active_limit = (checked.jobs_rejected > 0).then(describe);
    let show = |limit: Holding| show_hold(view, association, limit, job.is_queue_stopped, now);
    // A held job uses nothing of a budget. So a budget rejects jobs only if the first job that does not fit exceeds it.
    let rejects = |limit: &Holding| limit.amount.is_budget() && rejects_beyond_budget(view);
    let first = limits.iter().min_by_key(|limit| (limit.count_fitting_jobs(), !rejects(limit), limit.hold));
    let accepted = count - checked.jobs_rejected;
    let left_out = accepted.saturating_sub(first.map_or(accepted, Holding::count_fitting_jobs));
    match first.filter(|_| left_out > 0) {
        Some(budget) if rejects(budget) => {
            let hold = show(budget.clone());
            checked.jobs_rejected += left_out;
            checked.active_limit = Some(format!("{}: {}", hold.limit, hold.text));
        }
        first => {
            checked.jobs_held = left_out;
            checked.first_limit = first.map(|limit| Cow::Borrowed(limit.hold.name()));
        }
    }
    let exceeded = limits.into_iter().filter(|limit| limit.count_fitting_jobs() == 0);
    checked.holds = exceeded.map(show).collect();
    if let Some(made) = view.explain(facts.id, &job, facts.urgency) {
        let urgency = u8::try_from(facts.urgency).unwrap_or_default();
        checked.priority = Some(ExplainedPriority::new(&made, urgency, view.age_without_offset(&job, now)));
        let queue = view.queues.scheduler_queue(job.queue.as_ref());
        checked.one_queue_list = view.queues.is_one_list();
        checked.parent_queue = queue.filter(|queue| job.queue.as_ref() != Some(queue)).cloned();
        let (place, of) = view.posted.pending().predict_position_of_new_job(queue, made.priority);
        (checked.place, checked.place_of) = (Some(place).filter(|_| made.priority > 0), of);
    }
    checked
}
