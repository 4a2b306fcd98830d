// SPDX-License-Identifier: LGPL-3.0-only
//! Handles the events of a job from `job.new` to INACTIVE.

use super::{
    Effect, JobFacts, Posting, Shared, State,
    accrual::{self, log_unreadable_allocation},
    admission::complete_jobspec,
    age::first_eligible_time,
    annotate,
    due::Task,
    hold,
    recovery::Recovery,
};
use crate::accounts::{AssociationId, RunningLimits};
use crate::ids::{BankName, JobId, QueueName};
use crate::limits::{
    Admission, Allocation, BlockState, Candidates, Demand, HoldNames, Job, Knowledge, Origin, Phase, Project,
    Reservation, Resources, Size,
};
use crate::priority::URGENCY_HOLD;

/// The error text for a job whose association flux-accounting marks as broken. The plugin ends the job with this text.
pub(super) const BROKEN: &str = "job.state.depend: bank info is missing";

/// Removes a job from all tables except the subscriptions and expirations. Returns its last record, or `None` for an unknown job.
pub fn remove_job(shared: &mut Shared, recovery: &mut Recovery, id: JobId) -> Option<Job> {
    shared.validated.remove(&id);
    recovery.remove_job(id);
    remove_pending_data(shared, id);
    let job = shared.ledger.remove(id)?;
    recovery.remove_deferred_eventlog(id, job.association(), job.queue.as_ref());
    Some(job)
}

/// Adds an accepted job. Flux ignores errors of this callback, so the engine cannot reject the job here.
pub fn add_job(shared: &mut Shared, recovery: &mut Recovery, facts: &JobFacts<'_>) -> Vec<Effect> {
    let is_submission = shared.validated.remove(&facts.id);
    let job = build_job(shared, facts, is_submission);
    if facts.state == State::Priority {
        shared.unprioritized.insert(facts.id);
    }
    shared.queues.add_queue_to_request(job.queue.as_ref());
    if let Some(association) = job.association() {
        shared.ledger.assign_scopes(&shared.book, association);
    }
    if !is_submission {
        return recovery.count_replayed(shared, job, facts);
    }
    let effects = match job.admission {
        Admission::Admitted(association) => {
            complete_jobspec(shared, facts.id, &job, association, Posting::Current)
        }
        _ => Vec::new(),
    };
    shared.ledger.insert(facts.id, job);
    effects
}

/// Removes a job. An unknown id is not an error: during a restart, a job may end before Flux reports the
/// job to the plugin.
pub fn end_job(shared: &mut Shared, recovery: &mut Recovery, id: JobId) -> Vec<Effect> {
    let mut effects = end_subscriptions(shared, id);
    let frees_headroom = frees_headroom(shared, id);
    let Some(job) = remove_job(shared, recovery, id) else { return effects };
    effects.extend(accrual::record_end(shared, id, &job));
    effects.extend(request_scan_after_leave(shared, recovery, &job, frees_headroom));
    effects
}

/// Returns the record of a job as it is at `job.new`. `is_submission` is false for a job that Flux replays.
pub fn build_job(shared: &Shared, facts: &JobFacts<'_>, is_submission: bool) -> Job {
    let association = shared.book.find(facts.user, facts.bank);
    let admission = match association {
        None => Admission::Waiting { was_passed_over: false },
        Some(id) if !is_submission => Admission::Attached(id),
        Some(id) if shared.book.association(id).is_some_and(|a| a.is_broken()) => Admission::Broken(id),
        Some(id) => Admission::Admitted(id),
    };
    let queue = queue_name(shared, facts.queue);
    let block_state = shared.subscriptions.block_state(facts.id);
    Job {
        user: facts.user,
        submitted: facts.submitted,
        admission,
        bank: bank_name(shared, association, facts.bank),
        urgency: facts.urgency,
        project: find_project_of_jobspec(association, facts.project),
        block_state,
        allocation: None,
        knowledge: Knowledge::Known,
        is_in_sched: false,
        size: facts.full_size().unwrap_or(Size::ONE.with_time_limit(facts.duration)),
        elapsed_ms: 0,
        phase: Phase::New,
        origin: if is_submission { Origin::Submitted } else { Origin::Replayed },
        names: HoldNames::default(),
        reservation: Reservation::None,
        running: running_limits(shared, queue.as_ref()),
        is_queue_stopped: shared.ledger.is_stopped(queue.as_ref()),
        queue,
        demand: if facts.urgency == URGENCY_HOLD { Demand::Resting } else { Demand::ToRun },
        memo: None,
        eligible: first_eligible_time(facts, block_state, shared.now),
    }
}

/// Holds the job for each limit that it exceeds. A job that waits for data is never held, because it must reach PRIORITY.
pub fn enter_depend(shared: &mut Shared, recovery: &mut Recovery, id: JobId) -> Vec<Effect> {
    let Some(job) = shared.ledger.job(id) else { return Vec::new() };
    if matches!(job.admission, Admission::Broken(_)) {
        return vec![Effect::Raise(id, BROKEN.to_owned())];
    }
    // A replayed job is already in DEPEND. Its dependencies are read from its eventlog.
    if job.phase != Phase::New {
        return Vec::new();
    }
    let (association, is_blocked) = (job.association(), job.block_state == BlockState::Blocked);
    shared.ledger.change(id, |job| job.phase = Phase::Depend);
    // With one more job, the association may reach a limit. Then the engine needs eventlogs that it has not read yet.
    let eventlog_requests =
        association.map(|association| recovery.request_noted_eventlogs(shared, Some(association)));
    let mut effects = if association.is_none() { Vec::new() } else { hold::hold_in_depend(shared, id) };
    if effects.is_empty() && !is_blocked {
        effects.push(shared.due.schedule_job_task(Task::WatchBlocked, id));
    }
    if shared.ledger.job(id).is_some_and(Job::is_held) {
        effects.extend(annotate::make_annotation(shared, id));
    }
    effects.extend(eventlog_requests.into_iter().flatten());
    effects
}

/// Handles the end or the cancellation of a job. A job that ran counts until INACTIVE. A job that never
/// reached SCHED returns its headroom at once, because epilogs may keep the job in CLEANUP for a long time.
pub fn enter_cleanup(shared: &mut Shared, recovery: &mut Recovery, id: JobId) -> Vec<Effect> {
    let mut effects = end_subscriptions(shared, id);
    let Some(job) = shared.ledger.job(id).filter(|job| job.phase < Phase::Sched).cloned() else {
        return effects;
    };
    let frees_headroom = frees_headroom(shared, id);
    shared.ledger.change(id, |job| {
        (job.phase, job.reservation, job.knowledge) = (Phase::Cleanup, Reservation::None, Knowledge::Known);
    });
    recovery.remove_job(id);
    remove_pending_data(shared, id);
    effects.extend(request_scan_after_leave(shared, recovery, &job, frees_headroom));
    effects
}

fn end_subscriptions(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let mut effects = Vec::from_iter(shared.subscriptions.end_subscription(id));
    effects.extend(shared.expirations.update_job(&shared.ledger, id, false));
    effects
}

/// Returns true if the job takes headroom, or if a limit scope reserves headroom for the job while it is held.
fn frees_headroom(shared: &Shared, id: JobId) -> bool {
    shared.ledger.job(id).is_some_and(|job| !job.footprint().is_idle())
        || shared.ledger.overtaken().is_headroom_kept_for(id)
}

/// Requests release scans after a job has left its association. Held jobs may have waited for the eventlog of the job,
/// or for its headroom.
fn request_scan_after_leave(
    shared: &mut Shared,
    recovery: &mut Recovery,
    job: &Job,
    frees_headroom: bool,
) -> Vec<Effect> {
    recovery.end_comparison_if_complete(shared);
    let association = job.association();
    let effects = if job.is_unread() { recovery.scan_if_all_read(shared, association) } else { Vec::new() };
    association.filter(|_| frees_headroom).into_iter().for_each(|of| shared.due.scan_after_event(of));
    effects
}

/// Records that a job has left DEPEND for PRIORITY, or was sent back to PRIORITY. Returns `None` if the job is unknown.
pub fn enter_priority(shared: &mut Shared, recovery: &Recovery, id: JobId) -> Option<Vec<Effect>> {
    let phase = shared.ledger.job(id).map(|job| job.phase)?;
    let were_limits_applied = were_limits_applied(shared, recovery, id);
    let mut effects = Vec::from_iter(shared.subscriptions.end_subscription(id));
    if phase < Phase::Priority {
        hold::advance_phase(shared, id, Phase::Priority);
        effects.extend(if were_limits_applied { Vec::new() } else { hold_unchecked_job(shared, id) });
    }
    Some(effects)
}

/// Holds the job in PRIORITY. The release scan of the next reactor turn releases it if there is headroom.
fn hold_unchecked_job(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    shared.ledger.change(id, Job::hold_past_depend);
    let association = shared.ledger.job(id).and_then(Job::association);
    association.map(|association| shared.due.schedule_scan(association, Candidates::All)).unwrap_or_default()
}

/// Counts a job in SCHED, unless it is held there. A job that enters SCHED several times counts once. Flux may call
/// this within its loop over all jobs.
pub fn enter_sched(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let enters_sched = |job: &Job| job.phase < Phase::Sched && !(job.is_awaiting() && job.is_in_sched);
    if shared.ledger.job(id).is_some_and(enters_sched) {
        hold::advance_phase(shared, id, Phase::Sched);
    }
    Vec::new()
}

/// Counts a job as running. Limits on jobs in SCHED no longer count it.
pub fn enter_run(shared: &mut Shared, id: JobId, resources: &Resources) -> Vec<Effect> {
    let Some(association) = shared.ledger.job(id).map(Job::association) else { return Vec::new() };
    let mut effects = Vec::from_iter(shared.subscriptions.end_subscription(id));
    effects.extend(log_unreadable_allocation(id, resources));
    let begun = Some(shared.now);
    let allocation = resources.allocation().map(|given| Allocation { start: given.start.or(begun), ..given });
    shared.ledger.change(id, |job| {
        job.phase = Phase::Run;
        job.reservation = Reservation::None;
        job.is_in_sched = false;
        job.allocation = allocation.map(Box::new);
        job.elapsed_ms = 0;
    });
    shared.posted.remove_job(id);
    effects.extend(accrual::record_start_of_job(shared, id));
    effects.extend(shared.expirations.update_job(&shared.ledger, id, true));
    association.into_iter().for_each(|association| shared.due.scan_after_event(association));
    effects
}

/// Removes all data about the pending state of a job.
fn remove_pending_data(shared: &mut Shared, id: JobId) {
    shared.unprioritized.remove(&id);
    shared.annotations.remove(&id);
    shared.posted.remove_job(id);
    shared.due.remove_job(id);
    shared.unmoved.remove(id);
}

/// Returns `bank` as a bank name, or `None` if `bank` is `None`. All jobs of an association share one string.
pub fn bank_name(
    shared: &Shared,
    association: Option<AssociationId>,
    bank: Option<&str>,
) -> Option<BankName> {
    let known = association.and_then(|id| shared.book.association(id)).map(|association| &association.bank);
    bank.map(|bank| known.filter(|known| known.as_str() == bank).cloned().unwrap_or_else(|| bank.into()))
}

/// Returns `queue` as a queue name, or `None` if `queue` is `None`. All jobs in a configured queue share one string.
pub fn queue_name(shared: &Shared, queue: Option<&str>) -> Option<QueueName> {
    queue.map(|queue| shared.book.queue(queue).map_or_else(|| queue.into(), |known| known.name.clone()))
}

/// Returns the rule that defines when jobs in `queue` begin to count under limits on running jobs.
pub fn running_limits(shared: &Shared, queue: Option<&QueueName>) -> RunningLimits {
    shared.settings.running.queue(queue)
}

/// Returns true if limits were applied to a job that leaves DEPEND. Either the plugin released the job, or the job
/// exceeded no limit while all its dependencies were known.
///
/// Limits are not applied after a panic, while the eventlog of the job is unread, during a push, or to an unwatched
/// job. Then the job may leave DEPEND without a dependency of the plugin although it exceeds a limit. Limits are also
/// not applied while the eventlog of another job under the same limits is unread. No job is released then, because the
/// headroom is for jobs that were held before.
fn were_limits_applied(shared: &Shared, recovery: &Recovery, id: JobId) -> bool {
    shared.ledger.job(id).is_none_or(|job| {
        let Some(association) = job.association() else { return true };
        let is_known = job.phase == Phase::Depend && job.knowledge == Knowledge::Known;
        let is_half_pushed = job.origin == Origin::Replayed && recovery.half_pushed().contains(&association);
        let is_watched = !shared.subscriptions.is_unwatched(id);
        let are_others_read = !shared.ledger.accounts().is_unread(association)
            && !shared.ledger.accounts().shares_unread_scope(association, job.queue.as_ref());
        let was_checked =
            is_known && is_watched && are_others_read && !is_half_pushed && !recovery.needs_comparison();
        job.reservation == Reservation::Given || was_checked
    })
}

/// Returns the project of a jobspec. A project that was not validated is stored until the engine can validate it.
pub fn find_project_of_jobspec(association: Option<AssociationId>, project: Option<&str>) -> Project {
    match (association, project) {
        (_, None) => Project::Missing,
        (Some(_), Some(_)) => Project::Checked,
        (None, Some(project)) => Project::Unchecked(project.into()),
    }
}
