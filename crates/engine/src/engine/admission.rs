// SPDX-License-Identifier: LGPL-3.0-only
//! Prepares a job for its priority: finds the association of a job that waits for data, and completes the jobspec with
//! bank and project.

use super::{Effect, Posting, Shared, due::Task};
use crate::accounts::AssociationId;
use crate::ids::{JobId, UserId};
use crate::limits::{Admission, Candidates, Job, Origin, Phase, Project};

/// The reason why a job has no priority.
pub(super) enum Pending {
    /// The job's association may still arrive with a push.
    Unavailable,
    /// The job belongs to the instance owner. flux-accounting pushes the record of the owner after its
    /// `reprioritize`, so the record may still arrive.
    Expected,
    /// The plugin accepted the job earlier, but the pushed data lack the association of the job. The text is a log
    /// line, which is written once for each job.
    Missed(String),
    /// The job can never have a priority.
    Fatal(String),
}

/// When to add bank and project to a jobspec that lacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Now(Posting),
    /// The engine adds the bank and the project to the jobspec in the next reactor turn. Flux is asking for the job's
    /// priority now, and an update now would move the job from SCHED to PRIORITY.
    Later,
}

impl Completion {
    /// Returns `Later` for a job in SCHED, and `Now` otherwise.
    pub fn for_phase(phase: Phase, posting: Posting) -> Completion {
        if phase == Phase::Sched { Completion::Later } else { Completion::Now(posting) }
    }
}

/// Assigns an association to a job that waits for data, and completes the jobspec of a job that has an
/// association. Returns the reason why the job has no priority if it has no association.
pub fn admit_job(shared: &mut Shared, id: JobId, completion: Completion) -> Result<Vec<Effect>, Pending> {
    let Some(job) = shared.ledger.job(id) else { return Err(Pending::Unavailable) };
    match job.admission {
        Admission::Admitted(_) => return Ok(Vec::new()),
        Admission::Broken(_) => return Err(Pending::Unavailable),
        Admission::Waiting { .. } | Admission::Attached(_) => {}
    }
    let bank_name = job.bank.as_deref();
    let Some(association) = job.association().or_else(|| shared.book.find(job.user, bank_name)) else {
        return Err(find_pending_reason(shared, id));
    };
    if job.origin == Origin::Submitted
        && let Some(text) = rejection_in_association(shared, association, job)
    {
        // While a push is incomplete, a later part of it may permit the queue and the project.
        return Err(if shared.has_push_ended { Pending::Fatal(text) } else { Pending::Unavailable });
    }
    let posting = if let Completion::Now(posting) = completion { posting } else { Posting::ById };
    let mut effects = complete_jobspec(shared, id, job, association, posting);
    let mut admission = Admission::Admitted(association);
    if completion == Completion::Later && !effects.is_empty() {
        effects = vec![shared.due.schedule_job_task(Task::CompleteJobspec, id)];
        admission = Admission::Attached(association);
    }
    shared.ledger.assign_scopes(&shared.book, association);
    shared.ledger.change(id, |job| job.admission = admission);
    // From now on the job is held, so a release scan must find it.
    if shared.ledger.job(id).is_some_and(Job::is_awaiting) {
        effects.extend(shared.due.schedule_scan(association, Candidates::All));
    }
    Ok(effects)
}

/// Returns the text that rejects a job that waited for an association, if the association forbids the job's
/// queue or project.
pub fn rejection_in_association(shared: &Shared, association: AssociationId, job: &Job) -> Option<String> {
    let project = if let Project::Unchecked(project) = &job.project { Some(project.as_str()) } else { None };
    let queue = job.queue.as_deref();
    shared.forbidden_queue(association, queue).or_else(|| shared.forbidden_project(association, project))
}

/// Returns the reason why a job whose association is not in the data has no priority. While a push is
/// incomplete, the association may still arrive. The reprioritize at the end of the push makes Flux ask for
/// the priority again.
pub fn find_pending_reason(shared: &mut Shared, id: JobId) -> Pending {
    let Some(job) = shared.ledger.job(id).filter(|_| shared.book.has_data() && shared.has_push_ended) else {
        return Pending::Unavailable;
    };
    let was_passed_over = job.admission == (Admission::Waiting { was_passed_over: true });
    let text = unknown_association_text(job.user);
    // A job without a bank may belong to the instance owner, whose record arrives last.
    let bank = job.bank.as_ref().map(|bank| bank.to_string());
    let (is_submission, is_owners) = (job.origin == Origin::Submitted, shared.is_owner(job.user));
    shared.ledger.change(id, |job| job.admission = Admission::Waiting { was_passed_over: true });
    match bank {
        None => Pending::Unavailable,
        Some(_) if is_owners && !was_passed_over => {
            shared.due.await_owner_record(id, shared.now);
            Pending::Expected
        }
        Some(_) if is_submission => Pending::Fatal(text),
        Some(_) if was_passed_over => Pending::Unavailable,
        // The plugin accepted the job earlier, so a push without the association of the job does not end the job.
        Some(bank) => Pending::Missed(format!(
            "job {id}: {text}, bank {bank}; the job waits for a push of this association"
        )),
    }
}

/// Adds missing banks and projects to the jobspecs of pending jobs that have an association.
pub fn complete_jobspecs(shared: &mut Shared) -> Vec<Effect> {
    let mut effects = Vec::new();
    for id in shared.due.take_jobs_of_task(Task::CompleteJobspec) {
        let Some(job) = shared.ledger.job(id) else { continue };
        let Admission::Attached(association) = job.admission else { continue };
        if !matches!(job.phase, Phase::Depend | Phase::Priority | Phase::Sched) {
            continue;
        }
        let is_awaiting = job.is_awaiting();
        effects.extend(complete_jobspec(shared, id, job, association, Posting::ById));
        shared.ledger.change(id, |job| job.admission = Admission::Admitted(association));
        // From now on the job is held, so a release scan must find it.
        if is_awaiting {
            effects.extend(shared.due.schedule_scan(association, Candidates::All));
        }
    }
    effects
}

/// Adds the default bank and the default project to a jobspec that lacks them. A bank in the jobspec is never replaced.
pub fn complete_jobspec(
    shared: &Shared,
    id: JobId,
    job: &Job,
    association: AssociationId,
    posting: Posting,
) -> Vec<Effect> {
    let Some(association) = shared.book.association(association) else { return Vec::new() };
    let bank = job.bank.is_none().then(|| association.bank.clone());
    let project = (job.project == Project::Missing).then(|| association.def_project.clone()).flatten();
    if bank.is_none() && project.is_none() {
        return Vec::new();
    }
    vec![Effect::SetJobspec { id, posting, bank, project }]
}

/// Returns the rejection text for a user and bank that are not in the data.
pub fn unknown_association_text(user: UserId) -> String {
    format!("cannot find user/bank or user/default bank entry for uid: {user}")
}
