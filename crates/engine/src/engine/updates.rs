// SPDX-License-Identifier: LGPL-3.0-only
//! Handles updates of a live job's jobspec: decides whether an update is allowed, and applies it.

use super::{
    Effect, JobFacts, Level, Shared, State, Timer, accrual,
    admission::unknown_association_text,
    hold,
    life::{bank_name, find_project_of_jobspec, queue_name, running_limits},
    recovery::Recovery,
};
use crate::accounts::AssociationId;
use crate::ids::{BankName, JobId, QueueName, UserId};
use crate::limits::{Candidates, Job, Phase, Project, Reservation, Rule};

/// Applies an update of a jobspec. The counts and reservations of the job change with the update.
pub fn apply_update(shared: &mut Shared, recovery: &mut Recovery, facts: &JobFacts<'_>) -> Vec<Effect> {
    shared.posted.mark_jobspec_updated(facts.id);
    if let Some(bank) = find_bank_added_to_jobspec(shared, facts) {
        shared.ledger.store_bank_added_to_jobspec(facts.id, bank);
        return Vec::new();
    }
    let Some(job) = shared.ledger.job(facts.id) else { return Vec::new() };
    let (id, before) = (facts.id, (job.association(), job.queue.clone(), job.size));
    let (counted_by, was_unread) = (job.running, job.is_unread());
    let mut effects = Vec::new();
    let mut association = job.association();
    if job.bank.as_deref() != facts.bank {
        let found = shared.book.find(job.user, facts.bank);
        if found.is_none() && association.is_some() {
            let bank = facts.bank.unwrap_or("(default)");
            let text = format!(
                "job {id}: jobspec update names bank \"{bank}\", in which uid {} has no association; the job stays in its bank",
                job.user
            );
            effects.push(Effect::Log(Level::Error, text));
        }
        association = found.or(association);
    }
    let (bank, queue) = (bank_name(shared, association, facts.bank), queue_name(shared, facts.queue));
    let running = running_limits(shared, queue.as_ref());
    let project = match (&job.project, facts.project) {
        // Flux does not validate every update. The project is validated when the job gets an association.
        (Project::Unchecked(_), Some(project)) => Project::Unchecked(project.into()),
        (_, project) => find_project_of_jobspec(association, project),
    };
    if let Some(association) = association {
        shared.ledger.assign_scopes(&shared.book, association);
    }
    shared.queues.add_queue_to_request(queue.as_ref());
    let is_queue_stopped = shared.ledger.is_stopped(queue.as_ref());
    shared.ledger.change(id, |job| {
        if let Some(association) = association {
            job.admission = job.admission.get_admission_after_move(association);
        }
        job.bank = bank;
        (job.queue, job.running, job.is_queue_stopped) = (queue, running, is_queue_stopped);
        job.project = project;
        if job.size.time_limit_ms != job.size.with_time_limit(facts.duration).time_limit_ms
            && let Some(given) = job.allocation.as_mut()
        {
            // Flux counts the new time limit of a running job from its start.
            let end = given.start.map(|start| start + facts.duration);
            given.expiration = end.filter(|_| facts.duration > 0.0);
        }
        // The size of a job in SCHED or RUN is fixed: the ledger subtracts the size that it has added.
        if let (false, Ok(size)) = (job.is_charged(), &facts.size) {
            job.size = *size;
        }
        job.size = job.size.with_time_limit(facts.duration);
    });
    // The time limit of a running job may have changed.
    effects.extend(accrual::record_start_of_job(shared, id));
    effects.extend(shared.expirations.update_job(&shared.ledger, id, facts.state == State::Run));
    let after = shared.ledger.job(id).map(|job| (job.association(), job.queue.clone(), job.size));
    if after.as_ref() == Some(&before) {
        return effects;
    }
    // In the new association or queue, the job may reach a limit, or other jobs may reach a limit because of
    // the job.
    if recovery.remove_deferred_eventlog(id, before.0, before.1.as_ref()) {
        effects.extend(recovery.read_eventlogs(shared, vec![id]));
    }
    if association.is_some() {
        effects.extend(recovery.request_noted_eventlogs(shared, association));
    }
    effects.extend(hold_moved_job_in_depend(shared, id));
    let mut is_held_again = false;
    if facts.state == State::Priority {
        let is_all = before.0 != association || counted_by != running;
        is_held_again = hold::hold_job_moved_from_sched(shared, id, &before, is_all);
        // If the priority is the same as before, Flux does not ask for it. So the engine posts the priority
        // by id.
        if before.0.is_none() && association.is_some() {
            effects.push(shared.unmoved.request_urgency_later(id, Timer::ReactorTurn));
        }
    }
    for association in [before.0, association.filter(|_| association != before.0)].into_iter().flatten() {
        // If a limit now holds the job, other jobs get the job's headroom only after Flux has received the new
        // priority.
        match is_held_again {
            true => effects.extend(shared.due.schedule_scan(association, Candidates::All)),
            false => shared.due.scan_after_event(association),
        }
    }
    // If this was the last unread eventlog of the former association, the held jobs of the former association may be scanned now.
    match before.0.filter(|_| was_unread) {
        Some(left) if is_held_again => recovery.add_association_with_unread_eventlog(left),
        Some(left) => effects.extend(recovery.scan_if_all_read(shared, Some(left))),
        None => {}
    }
    effects
}

pub fn update_queue(shared: &mut Shared, id: JobId, user: UserId, state: State, queue: &str) -> Vec<Effect> {
    let job = shared.ledger.job(id);
    let rejection = match job.map_or_else(|| shared.book.find(user, None), Job::association) {
        Some(association) => queue_rejection(shared, job, association, state, queue),
        // The update of a job that waits for data is checked when the job gets an association.
        None => job.is_none().then(|| unknown_association_text(user)),
    };
    rejection.map(Effect::Reject).into_iter().collect()
}

pub fn update_bank(shared: &mut Shared, id: JobId, user: UserId, state: State, bank: &str) -> Vec<Effect> {
    if let Some(wanted) = shared.book.find(user, Some(bank)) {
        shared.ledger.assign_scopes(&shared.book, wanted);
    }
    bank_rejection(shared, id, user, state, bank).map(Effect::Reject).into_iter().collect()
}

/// If limits of its new association or queue hold a job in DEPEND, adds dependencies to the job. The next release
/// scan removes dependencies of limits that no longer apply.
fn hold_moved_job_in_depend(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let Some(job) = shared.ledger.job(id) else { return Vec::new() };
    let is_ours = job.phase == Phase::Depend && (job.is_held() || job.is_only_blocked_by_plugins());
    let may_be_held = is_ours && job.reservation != Reservation::Given;
    if may_be_held { hold::hold_in_depend(shared, id) } else { Vec::new() }
}

/// Returns the bank of a new job, if the update only adds the default bank and project to the jobspec. The plugin posts
/// such an update for most submissions, and Flux then passes the job to the plugin again.
pub fn find_bank_added_to_jobspec(shared: &Shared, facts: &JobFacts<'_>) -> Option<BankName> {
    let job = shared.ledger.job(facts.id).filter(|job| job.phase == Phase::New)?;
    let bank = &shared.book.association(job.association()?)?.bank;
    let is_named = facts.bank == Some(bank.as_str()) && facts.project.is_some();
    let is_same = facts.queue == job.queue.as_deref() && facts.full_size() == Some(job.size);
    (is_named && is_same && !matches!(job.project, Project::Unchecked(_))).then(|| bank.clone())
}

pub fn queue_rejection(
    shared: &Shared,
    job: Option<&Job>,
    association: AssociationId,
    state: State,
    queue: &str,
) -> Option<String> {
    if shared.forbidden_queue(association, Some(queue)).is_some() {
        return Some(format!("mf_priority: queue not valid for user: {queue}"));
    }
    full_queue_rejection(shared, job?, association, state, queue)
}

/// Returns the text that rejects the update if a limit has no headroom for the job in `queue` of association `id`. In
/// DEPEND, only limits on active jobs reject the update, because the other limits can hold the job.
fn full_queue_rejection(
    shared: &Shared,
    job: &Job,
    id: AssociationId,
    state: State,
    queue: &str,
) -> Option<String> {
    let (wanted, place) = (queue_name(shared, Some(queue)), format!("queue {queue}"));
    let is_exempt = !shared.book.site_limits().counts_in(None, None, job.queue.as_deref());
    if is_exempt && shared.limits().active_headroom(id, Some(queue)) == 0 {
        return Some(full_limit_text(&place, "max-active-jobs"));
    }
    if let Some(full) = shared.limits().find_full_active_jobs_limit(id, wanted.as_ref(), Some(job)) {
        return Some(full_limit_text(&place, full.name()));
    }
    if !matches!(state, State::Priority | State::Sched) {
        return None;
    }
    let exceeded = shared.limits().exceeded_by_move(job, id, wanted.as_ref());
    let rules = shared.ledger.rules();
    let on_move = shared.limits().list_limits_on_move(job.queue.as_ref(), wanted.as_ref());
    let name = rules.members(exceeded.and(on_move)).next()?.name();
    Some(full_limit_text(&place, name))
}

/// Returns the text that rejects the update to `place`, a queue or a bank, because `limit` is reached.
fn full_limit_text(place: &str, limit: &str) -> String {
    format!("updating to {place} while it is already at {limit} limit is not allowed; try again later")
}

/// Returns the text that rejects a change of bank and queue in one update, or `None` if the change is permitted. Flux
/// validates each key alone, so `update_queue` and `update_bank` see the new value of one key and the old value of
/// the other. Only the later `job.validate` shows both new values.
pub fn move_rejection(shared: &Shared, association: AssociationId, facts: &JobFacts<'_>) -> Option<String> {
    let job = shared.ledger.job(facts.id)?;
    let moves_bank = job.association().is_some_and(|present| present != association);
    let moves_queue = job.queue.as_deref() != facts.queue;
    let queue = facts.queue.filter(|_| moves_bank && moves_queue)?;
    full_queue_rejection(shared, job, association, facts.state, queue)
}

pub fn bank_rejection(shared: &Shared, id: JobId, user: UserId, state: State, bank: &str) -> Option<String> {
    if matches!(state, State::Run | State::Cleanup) {
        return Some("update of bank for running job not supported".to_owned());
    }
    let job = shared.ledger.job(id);
    // The association of the job may have been removed.
    let present = job.and_then(Job::association).and_then(|id| shared.book.association(id));
    if present.is_some_and(|present| present.bank.as_str() == bank) {
        return None;
    }
    let Some(wanted) = shared.book.find(user, Some(bank)) else {
        return Some(match shared.book.has_data() {
            false => "update_bank: plugin still waiting on flux-accounting data".to_owned(),
            true => format!("update_bank: cannot find flux-accounting entry for uid/bank: {user}/{bank}"),
        });
    };
    let limits = shared.book.association(wanted)?;
    let queue = job.and_then(|job| job.queue.as_ref());
    let in_queue = queue.map(QueueName::as_str);
    if shared.limits().active_headroom(wanted, in_queue) == 0 {
        return Some("new bank is already at max-active-jobs limit".to_owned());
    }
    let job = job?;
    let running = shared.limits().sum_usage_over_queues(wanted).1.run.jobs();
    let rejected = |limit: &str| Some(full_limit_text(&format!("bank {bank}"), limit));
    if let Some(full) = shared.limits().find_full_active_jobs_limit(wanted, queue, Some(job)) {
        return rejected(full.name());
    }
    if shared.book.site_limits().counts_in(None, None, in_queue)
        && !limits.max_running_jobs.admits(running, 1)
    {
        return rejected("max-run-jobs");
    }
    // The limits of the new bank can hold a job in DEPEND, so the update of such a job is not rejected.
    if !matches!(state, State::Priority | State::Sched) {
        return None;
    }
    let rules = shared.ledger.rules();
    let exceeded = shared.limits().exceeded_by_move(job, wanted, queue);
    // A limit on running jobs does not reject the update, because it can hold the job in PRIORITY or SCHED.
    let exceeded = exceeded.without(rules.select_limits(Rule::is_limit_on_running_jobs));
    rules.members(exceeded).next().and_then(|hold| rejected(hold.name()))
}
