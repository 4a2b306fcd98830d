// SPDX-License-Identifier: LGPL-3.0-only
//! Answers with the priority of a job. This file has the calls from the top down; `terms.rs` continues with the computation.
//!
//! ```text
//! answer_priority_callback    job.state.priority         answer_in_loop    job.priority.get, in Flux's loop over its jobs
//! handle_urgency        answer to AskUrgency: the priority is posted by id
//! ├── answer_held_in_priority, answer_priority_request_of_held_job   limits hold the job: no priority, or 0 in SCHED (hold.rs)
//! └── compute_priority
//!     ├── admission::admit_job  association, bank and project of a job that waits for data (admission.rs)
//!     ├── Shared::explain       the current priority (terms.rs)
//!     ├── priorities::store_answered_priority   stores it with its terms (priorities.rs)
//!     └── priorities::make_fairshare_memo      shows the fair-share to the user
//! answer_without_priority   the answer for a job that has none
//! ```

use super::{
    Effect, Level, Posting, Refusal, Shared, Timer,
    admission::{self, Completion, Pending},
    annotate,
    due::Task,
    hold::{self, lacks_headroom_to_resume},
    priorities,
    refresh::Refresh,
    unmoved::{self, is_put_off},
};
use crate::ids::JobId;
use crate::limits::{CachedPriority, Candidates, Demand, Job, Origin, Phase, Reservation};
use crate::priority::{AGE, PRIORITY_MAX, URGENCY_EXPEDITE};
use std::num::NonZeroU64;

/// Returns the answer to `job.state.priority`. `posted` is the posted priority of a job that was in SCHED until now. The scheduler may
/// have decided on such a job, so it always gets a priority, which returns it to SCHED.
pub fn answer_priority_callback(
    shared: &mut Shared,
    refresh: &mut Refresh,
    id: JobId,
    urgency: i64,
    posted: Option<u32>,
) -> Vec<Effect> {
    shared.ledger.update_age_eligibility(id, Some(urgency), shared.now);
    if posted.is_some() && urgency == URGENCY_EXPEDITE {
        hold::release_expedited(shared, id);
    } else if shared.ledger.job(id).is_some_and(|job| lacks_headroom_to_resume(shared, id, job, urgency)) {
        let mut effects = hold::hold_until_headroom(shared, id);
        effects.extend(answer_held_in_priority(shared, id, urgency, posted.is_some()));
        return effects;
    }
    if shared.ledger.job(id).is_some_and(Job::is_awaiting) {
        store_urgency_of_held_job(shared, id, urgency);
        return answer_held_in_priority(shared, id, urgency, posted.is_some());
    }
    let priority = compute_priority(shared, id, urgency, Completion::Now(Posting::Current));
    if priority.is_err() && posted.is_none() {
        shared.unprioritized.insert(id);
    } else {
        shared.unprioritized.remove(&id);
    }
    match priority {
        Ok((mut effects, priority)) => {
            effects.push(Effect::SetPriority(priority));
            effects.extend(annotate::make_annotation(shared, id));
            effects.extend(refresh.correct_queue_order(shared, id));
            let freed = hold::store_scheduler_demand(shared, id, Demand::for_priority(priority));
            freed.into_iter().for_each(|association| shared.due.scan_after_event(association));
            effects
        }
        Err(pending) => {
            let answer = match posted {
                // The posted priority came from urgency 31. If the urgency is 0 or 31 now, Flux replaces the priority
                // in this answer.
                Some(PRIORITY_MAX) => Effect::SetPriority(0),
                Some(posted) => Effect::SetPriority(posted),
                None => Effect::PriorityUnavailable,
            };
            if posted.is_none() {
                hold::hold_in_priority(shared, id);
            }
            answer_without_priority(shared, id, pending, Some(answer))
        }
    }
}

/// Returns the answer to `job.priority.get`. Flux asks in a loop over its jobs, so no other job may be
/// changed.
pub fn answer_in_loop(shared: &mut Shared, refresh: &mut Refresh, id: JobId, urgency: i64) -> Vec<Effect> {
    if let Some(priority) = find_valid_priority(shared, id, urgency) {
        return vec![Effect::SetPriority(priority)];
    }
    shared.ledger.update_age_eligibility(id, Some(urgency), shared.now);
    let Some(job) = shared.ledger.job(id) else { return Vec::new() };
    if job.is_awaiting() {
        store_urgency_of_held_job(shared, id, urgency);
        return answer_priority_request_of_held_job(shared, id);
    }
    let phase = job.phase;
    // A job that a restart moved to PRIORITY has no posted priority to keep.
    if lacks_headroom_to_resume(shared, id, job, urgency)
        && (shared.unprioritized.contains(&id) || !refresh.keeps_posted_priority(shared, id, urgency))
    {
        let mut effects = hold::hold_until_headroom(shared, id);
        effects.extend(answer_priority_request_of_held_job(shared, id));
        return effects;
    }
    if refresh.keeps_posted_priority(shared, id, urgency) || refresh.keeps_stale_priority(shared, id, urgency)
    {
        return vec![Effect::KeepPriority];
    }
    if is_put_off(shared, id) {
        // The engine posts the job's priority in a later reactor turn.
        return vec![shared.unmoved.request_urgency_later(id, Timer::ReactorTurn), Effect::KeepPriority];
    }
    let completion = Completion::for_phase(phase, Posting::Current);
    match compute_priority(shared, id, urgency, completion) {
        Ok((mut effects, priority)) => {
            effects.push(Effect::SetPriority(priority));
            effects.extend(annotate::make_annotation(shared, id));
            let freed = hold::store_scheduler_demand(shared, id, Demand::for_priority(priority));
            effects.extend(freed.into_iter().flat_map(|of| shared.due.schedule_scan(of, Candidates::All)));
            effects.extend(unmoved::post_by_reprioritize(shared, id));
            cache_constant_priority(shared, id, urgency, priority);
            effects
        }
        Err(pending) => answer_without_priority(shared, id, pending, Some(Effect::KeepPriority)),
    }
}

/// Handles the urgency of a job that the engine asked for. Posts the priority of a job in PRIORITY or SCHED. For a job
/// in DEPEND, stores whether Flux would schedule the job with this urgency: only such a job reserves headroom of limits
/// on running jobs.
pub fn handle_urgency(shared: &mut Shared, refresh: &mut Refresh, id: JobId, urgency: i64) -> Vec<Effect> {
    shared.ledger.update_age_eligibility(id, Some(urgency), shared.now);
    let Some(job) = shared.ledger.job(id) else { return Vec::new() };
    if job.phase == Phase::Depend {
        store_job_urgency(shared, id, urgency);
        return Vec::new();
    }
    // Flux may show a replayed job in PRIORITY although the job has resources. Such a job needs a priority to
    // leave PRIORITY.
    let may_lack_priority = job.phase == Phase::Run && job.origin == Origin::Replayed;
    if job.phase > Phase::Sched && !may_lack_priority {
        return Vec::new();
    }
    let lacks_headroom = lacks_headroom_to_resume(shared, id, job, urgency);
    if lacks_headroom || job.is_awaiting() {
        store_urgency_of_held_job(shared, id, urgency);
        let mut effects = if lacks_headroom { hold::hold_until_headroom(shared, id) } else { Vec::new() };
        let admitted = admission::admit_job(shared, id, Completion::Now(Posting::ById));
        effects.extend(admitted.unwrap_or_else(|pending| answer_without_priority(shared, id, pending, None)));
        return effects;
    }
    let (completion, is_in_sched) = (Completion::for_phase(job.phase, Posting::ById), job.is_in_sched);
    match compute_priority(shared, id, urgency, completion) {
        Ok((mut effects, priority)) => {
            shared.unprioritized.remove(&id);
            // The job is in SCHED already, so Flux does not report that it enters SCHED.
            if is_in_sched {
                hold::advance_phase(shared, id, Phase::Sched);
            }
            effects.push(Effect::Prioritize(id, priority));
            effects.extend(refresh.correct_queue_order(shared, id));
            let freed = hold::store_scheduler_demand(shared, id, Demand::for_priority(priority));
            freed.into_iter().for_each(|association| shared.due.scan_after_event(association));
            effects
        }
        Err(pending) => {
            hold::hold_in_priority(shared, id);
            answer_without_priority(shared, id, pending, None)
        }
    }
}

/// Handles Flux's refusal to post the priority of job `id`. Holds a job that is in PRIORITY. For a job in SCHED, returns an effect that
/// asks for the urgency at the next retry, because Flux might also refuse a post in the next reactor turn.
pub fn handle_refused_post(shared: &mut Shared, id: JobId, why: &Refusal) -> Option<Effect> {
    hold::hold_in_priority(shared, id);
    let is_scheduled = shared.ledger.job(id).is_some_and(|job| job.phase == Phase::Sched);
    (is_scheduled && matches!(why, Refusal::Other(_)))
        .then(|| shared.unmoved.request_urgency_later(id, Timer::Retry))
}

/// Returns the answer to `job.state.priority` for a held job: no priority, or 0 in SCHED. `was_in_sched` is true if the job was in SCHED
/// until now, so that the scheduler may have decided on it.
pub fn answer_held_in_priority(
    shared: &mut Shared,
    id: JobId,
    urgency: i64,
    was_in_sched: bool,
) -> Vec<Effect> {
    if was_in_sched {
        shared.ledger.change(id, |job| job.is_in_sched = true);
    } else if urgency == URGENCY_EXPEDITE {
        // Flux would replace priority 0, and the job would run.
        shared.ledger.change(id, |job| job.is_in_sched = false);
    }
    let is_in_sched = shared.ledger.job(id).is_some_and(|job| job.is_in_sched);
    let answer = if is_in_sched { Effect::SetPriority(0) } else { Effect::PriorityUnavailable };
    answer_held_job(shared, id, Completion::Now(Posting::Current), answer)
}

/// Returns the answer to `job.priority.get` for a held job. The job keeps priority 0 in SCHED, and stays
/// without a priority in PRIORITY.
pub fn answer_priority_request_of_held_job(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let is_in_sched = shared.ledger.job(id).is_some_and(|job| job.is_in_sched);
    let completion = if is_in_sched { Completion::Later } else { Completion::Now(Posting::Current) };
    answer_held_job(shared, id, completion, Effect::KeepPriority)
}

pub fn answer_held_job(
    shared: &mut Shared,
    id: JobId,
    completion: Completion,
    answer: Effect,
) -> Vec<Effect> {
    match admission::admit_job(shared, id, completion) {
        Ok(mut effects) => {
            effects.push(answer);
            effects.extend(annotate::make_annotation(shared, id));
            effects
        }
        Err(pending) => answer_without_priority(shared, id, pending, Some(answer)),
    }
}

/// Caches the priority of a job if it depends neither on time nor on other jobs.
fn cache_constant_priority(shared: &mut Shared, id: JobId, urgency: i64, priority: u32) {
    let is_lasting = !shared.is_live() && shared.weighed.weight(AGE) == 0;
    let revision = NonZeroU64::new(shared.revision).filter(|_| is_lasting);
    let cached = revision.zip(i32::try_from(urgency).ok());
    let cached = cached.map(|(revision, urgency)| CachedPriority { revision, urgency, priority });
    shared.ledger.cache_priority(id, cached);
}

/// Stores the changed urgency of a held job. No scope reserves headroom for a job that Flux would not
/// schedule.
pub fn store_held_urgency(shared: &mut Shared, id: JobId, urgency: i64) -> Vec<Effect> {
    if shared.ledger.job(id).is_some_and(may_be_released) {
        shared.ledger.update_age_eligibility(id, Some(urgency), shared.now);
        store_urgency_of_held_job(shared, id, urgency);
    }
    Vec::new()
}

fn store_urgency_of_held_job(shared: &mut Shared, id: JobId, urgency: i64) {
    let is_other = |job: &Job| may_be_released(job) && job.urgency != urgency;
    if shared.ledger.job(id).is_some_and(is_other) {
        store_job_urgency(shared, id, urgency);
    }
}

/// Stores the urgency of a job, and whether Flux would schedule the job with this urgency.
fn store_job_urgency(shared: &mut Shared, id: JobId, urgency: i64) {
    let explanation = shared.ledger.job(id).and_then(|job| shared.explain(id, job, urgency));
    let demand = explanation.map_or(Demand::ToRun, |it| Demand::for_priority(it.priority));
    shared.ledger.change(id, |job| (job.demand, job.urgency) = (demand, urgency));
}

/// Returns the answer for a job that has no priority. If the job can never have a priority, it ends in the next reactor
/// turn, after another check. If the job ended in this callback, Flux's loop over its jobs would be disturbed. Another
/// plugin that has just released the job may also still use the job's data: Flux's begin-time plugin would crash the
/// broker.
pub fn answer_without_priority(
    shared: &mut Shared,
    id: JobId,
    pending: Pending,
    answer: Option<Effect>,
) -> Vec<Effect> {
    let before = match pending {
        Pending::Unavailable => None,
        Pending::Expected => Some(Effect::Arm(Timer::Retry)),
        Pending::Missed(text) => Some(Effect::Log(Level::Error, text)),
        Pending::Fatal(_) => Some(shared.due.schedule_job_task(Task::End, id)),
    };
    before.into_iter().chain(answer).collect()
}

/// Ends jobs that can never have a priority.
pub fn end_jobs_without_priority(shared: &mut Shared) -> Vec<Effect> {
    let mut effects = Vec::new();
    for id in shared.due.take_jobs_of_task(Task::End) {
        match admission::admit_job(shared, id, Completion::Now(Posting::ById)) {
            Ok(more) => effects.extend(more),
            Err(Pending::Fatal(note)) => effects.push(Effect::Raise(id, note)),
            Err(Pending::Unavailable | Pending::Expected | Pending::Missed(_)) => {}
        }
    }
    effects
}

/// Returns the current priority of a job, and the effects to carry out before it is posted.
fn compute_priority(
    shared: &mut Shared,
    id: JobId,
    urgency: i64,
    completion: Completion,
) -> Result<(Vec<Effect>, u32), Pending> {
    // The cached priority may be outdated.
    shared.ledger.cache_priority(id, None);
    let computed = admission::admit_job(shared, id, completion).and_then(|effects| {
        let job = shared.ledger.job(id).ok_or(Pending::Unavailable)?;
        Ok((effects, shared.explain(id, job, urgency).ok_or(Pending::Unavailable)?))
    });
    let (mut effects, explanation) = computed.inspect_err(|_| shared.posted.remove_job(id))?;
    let is_posted = shared.posted.posted_priority(id) == Some(explanation.priority);
    priorities::store_answered_priority(shared, id, urgency, &explanation);
    let has_memo = shared.ledger.job(id).is_some_and(|job| job.memo.is_some());
    // Live fair-share changes all the time. If the priority equals the posted priority, Flux posts nothing.
    // Then the memo must keep the fair-share of the posted priority.
    if !(is_posted && has_memo && shared.is_live()) {
        effects.extend(priorities::make_fairshare_memo(shared, id, &explanation));
    }
    Ok((effects, explanation.priority))
}

/// Returns the cached priority of a job in SCHED if none of its inputs has changed.
fn find_valid_priority(shared: &Shared, id: JobId, urgency: i64) -> Option<u32> {
    let is_of_now =
        |it: &CachedPriority| (it.revision.get(), i64::from(it.urgency)) == (shared.revision, urgency);
    let cached = shared.ledger.cached_priority(id).filter(is_of_now)?;
    debug_assert_eq!(
        shared.ledger.job(id).and_then(|job| shared.explain(id, job, urgency)).map(|it| it.priority),
        Some(cached.priority)
    );
    (!shared.unprioritized.contains(&id)).then_some(cached.priority)
}

/// Returns true if limits hold the job, or other plugins block it in DEPEND.
fn may_be_released(job: &Job) -> bool {
    job.is_held() || job.phase == Phase::Depend && job.reservation != Reservation::Given
}
