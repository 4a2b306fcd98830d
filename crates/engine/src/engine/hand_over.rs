// SPDX-License-Identifier: LGPL-3.0-only
//! Prepares the return to flux-accounting's plugin. Predicts what that plugin would do to each held job.
//!
//! `flux fairshare migrate --to-upstream` saves the jobs that would end or stay in DEPEND indefinitely. The command sets
//! the urgency of such a job to 0, and our plugin removes its dependencies from the job. The job then goes to SCHED, and
//! does not run.
//!
//! When flux-accounting's plugin is loaded, it adds a dependency for every limit that a job in DEPEND exceeds. The name
//! of the dependency is the plain name of the limit, such as `max-run-jobs-queue`. The plugin removes only dependencies
//! that it has added itself. So a job with one of our dependencies stays in DEPEND indefinitely in these cases:
//!
//! - The name of our dependency ends in a number.
//! - flux-accounting's plugin does not have the limit.
//! - The limit has headroom when flux-accounting's plugin is loaded.
//!
//! Flux does not add a dependency again that was removed from the job once, and reports no error. If flux-accounting's
//! plugin adds such a dependency, it cannot remove the dependency later. When there is headroom, the plugin tries to
//! remove the dependency, fails, and ends the job. The plugin does nothing to jobs in SCHED with urgency 0.
//!
//! A job that other plugins also block cannot leave DEPEND, so our plugin does not remove its dependencies from the
//! job: flux-accounting's plugin could not add them again. Such a job is saved only if the other plugins release it
//! in time. A job that our plugin has already released, and that only other plugins block, cannot be saved if a limit
//! that held the job is full again.

use super::{Effect, Shared, View, hold::can_rest, release::make_scan_step};
use crate::ids::{BankName, JobId, QueueName, UserId};
use crate::limits::{BlockState, Candidates, Demand, Job, Phase, Reservation};
use serde::{Deserialize, Serialize};

/// What flux-accounting's plugin would do to a held job if that plugin were loaded now with the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HandOverOutcome {
    /// The job stays held, and is released when there is headroom.
    Held,
    /// The job has a dependency that no plugin ever removes.
    Stranded,
    /// The job ends when there is headroom.
    Ended,
    /// flux-accounting's plugin holds no job in PRIORITY, so this job goes to SCHED at once.
    Released,
}

/// The answer to `hand_over`: a page of jobs by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsToHandOverPage {
    /// The jobs that are held or would end.
    pub jobs: Vec<JobForHandOver>,
    /// The job after which the next page begins; `None` if there is no next page.
    pub next: Option<JobId>,
}

/// The answer to the request `rest`. The request removes the dependencies of our plugin from held jobs at urgency 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resting {
    /// The jobs that lose their dependencies.
    pub resting: Vec<JobId>,
    /// The jobs that did not lose their dependencies.
    pub left: Vec<JobId>,
}

/// A job that is held, or that would end under flux-accounting's plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobForHandOver {
    /// The id of the job.
    pub id: JobId,
    /// The user that submitted the job.
    #[serde(rename = "userid")]
    pub user: UserId,
    /// The bank of the job.
    pub bank: Option<BankName>,
    /// The queue that the job names.
    pub queue: Option<QueueName>,
    /// The urgency of the job, 0 to 31. The engine leaves this field to the plugin.
    pub urgency: Option<i64>,
    /// The outstanding dependencies of this plugin on the job. Empty in PRIORITY, and if only other plugins block the
    /// job.
    pub names: Vec<String>,
    /// Whether other plugins block the job in DEPEND too, so that it cannot be put into SCHED at urgency 0.
    #[serde(rename = "kept", default)]
    pub is_kept: bool,
    /// What happens to the job.
    pub fate: HandOverOutcome,
}

/// Removes the dependencies of this plugin from jobs with urgency 0, so that the jobs stay in SCHED without running.
pub fn remove_names_of_plugin(shared: &mut Shared, ids: Vec<JobId>) -> Vec<Effect> {
    ids.into_iter().flat_map(|id| strip_names_of_job(shared, id)).collect()
}

fn strip_names_of_job(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let job = shared.ledger.job(id).filter(|job| can_rest(job));
    let Some(association) = job.and_then(Job::association) else { return Vec::new() };
    let rules = shared.ledger.rules();
    let names = shared.ledger.change(id, |job| {
        (job.reservation, job.demand) = (Reservation::Given, Demand::Resting);
        let names: Vec<_> = job.names.iter(rules).collect();
        names.into_iter().filter_map(|name| job.names.remove(name.hold)).collect::<Vec<_>>()
    });
    let names = names.unwrap_or_default().into_iter();
    let mut effects: Vec<Effect> = names.map(|name| Effect::RemoveDependency(id, name)).collect();
    effects.push(make_scan_step(association, vec![id], Candidates::All));
    effects
}

/// Returns at most `most` jobs, in the order of their ids, beginning after job `after`. These are the held jobs, and
/// the jobs that flux-accounting's plugin would end. Returns `None` while eventlogs are being read, because the
/// dependencies of the jobs are not known yet.
pub fn hand_over(view: &View<'_>, after: Option<JobId>, most: usize) -> Option<JobsToHandOverPage> {
    if view.is_replaying() || view.ledger.has_unread() || !view.recovery.unreadable().is_empty() {
        return None;
    }
    let listed_jobs =
        view.ledger.jobs_after(after).filter(|(_, job)| job.is_held() || would_end_if_not_held(view, job));
    let jobs: Vec<JobForHandOver> =
        listed_jobs.take(most).map(|(id, job)| describe_job(view, id, job)).collect();
    let next = jobs.last().filter(|_| jobs.len() == most).map(|job| job.id);
    Some(JobsToHandOverPage { jobs, next })
}

/// Returns true if flux-accounting's plugin would end a released job that other plugins block in DEPEND.
fn would_end_if_not_held(view: &View<'_>, job: &Job) -> bool {
    job.reservation == Reservation::Blocked && find_outcome(view, job) == HandOverOutcome::Ended
}

fn describe_job(view: &View<'_>, id: JobId, job: &Job) -> JobForHandOver {
    JobForHandOver {
        id,
        user: job.user,
        bank: view.bank_of(job.association()),
        queue: job.queue.clone(),
        urgency: None,
        names: job.names.iter(view.ledger.rules()).map(|name| name.to_string()).collect(),
        is_kept: job.block_state == BlockState::Blocked,
        fate: find_outcome(view, job),
    }
}

fn find_outcome(view: &View<'_>, job: &Job) -> HandOverOutcome {
    if job.phase == Phase::Priority {
        return HandOverOutcome::Released;
    }
    let rules = view.ledger.rules();
    let full_holds = view.limits().find_limits_exceeded_without_reservations(job);
    let plain_holds =
        job.names.iter(rules).filter(|name| name.use_count == 1).map(|name| name.hold).collect();
    let is_used_up = |hold| job.names.use_count(hold) > 0;
    if rules.members(full_holds.without(plain_holds)).any(is_used_up) {
        HandOverOutcome::Ended
    } else if job.names.outstanding().without(plain_holds.and(full_holds)).is_empty() {
        HandOverOutcome::Held
    } else {
        HandOverOutcome::Stranded
    }
}
