// SPDX-License-Identifier: LGPL-3.0-only
//! Handles `job.validate`: decides whether a job is accepted, or an updated job stays valid. Programs depend on the
//! order of the checks.

use super::{
    Effect, JobFacts, Level, Shared, State, admission::unknown_association_text, life::ValidatedJobs,
    queue_shapes, shared::join_names, updates::move_rejection,
};
use crate::accounts::{Association, AssociationId};
use crate::ids::{BankName, QueueName, UserId};

/// The maximum number of a user's banks that a text names or that the engine searches.
const MAX_NAMED_BANKS: usize = 16;
/// The maximum length of a name in bytes. Names are stored and shown in full.
const MAX_NAME_BYTES: usize = 1024;
const UNCOUNTABLE: &str = "unable to count resources for job";

impl ValidatedJobs {
    pub(super) fn validate_job(&mut self, shared: &mut Shared, facts: &JobFacts<'_>) -> Vec<Effect> {
        match rejection_of_job(shared, facts) {
            Some(text) => {
                let log = facts.size.as_ref().err().filter(|_| text.starts_with(UNCOUNTABLE)).map(|error| {
                    let log = format!("job of uid {}: unable to count resources: {error}", facts.user);
                    Effect::Log(Level::Debug, log)
                });
                log.into_iter().chain([Effect::Reject(text)]).collect()
            }
            None => {
                // The job is not counted yet: another plugin may still reject it.
                if facts.state == State::New {
                    self.note_validated(facts.id);
                }
                Vec::new()
            }
        }
    }
}

/// Returns the text that rejects a name that is too long. Without data, no other check limits its length.
fn long_name_rejection(facts: &JobFacts<'_>) -> Option<String> {
    let names = [("bank", facts.bank), ("queue", facts.queue), ("project", facts.project)];
    let (key, length) = names
        .into_iter()
        .filter_map(|(key, name)| Some((key, name?.len())))
        .find(|(_, length)| *length > MAX_NAME_BYTES)?;
    Some(format!("{key}: a name of {length} bytes; no name has more than {MAX_NAME_BYTES}"))
}

/// Returns the text that rejects the job, or `None` if it is accepted.
pub(super) fn rejection_of_job(shared: &Shared, facts: &JobFacts<'_>) -> Option<String> {
    let uncountable = || facts.size.as_ref().err().map(|error| format!("{UNCOUNTABLE}; {error}"));
    let Some(id) = shared.book.find(facts.user, facts.bank) else {
        let text = || Some(unknown_association_text(facts.user) + &banks_text(shared, facts.user));
        return if shared.book.has_data() {
            text()
        } else {
            uncountable().or_else(|| long_name_rejection(facts))
        };
    };
    let association = shared.book.association(id)?;
    if !association.active {
        let text = "user/bank entry has been disabled from flux-accounting DB".to_owned();
        return Some(text + &banks_text(shared, facts.user));
    }
    let unknown_queue = facts.queue.filter(|q| shared.book.queue(q).is_none());
    if let Some(queue) = unknown_queue.filter(|_| shared.book.config().deny_unknown_queues) {
        let known_queues =
            association.queues.iter().filter(|queue| shared.book.queue(queue.as_str()).is_some());
        let known_queues: Vec<_> = known_queues.collect();
        let yours = match known_queues.is_empty() {
            true => String::new(),
            false => format!("; yours: {}", join_names(&known_queues)),
        };
        return Some(format!(
            "queue \"{queue}\" is unknown to flux-accounting and deny-unknown-queues is enabled{yours}"
        ));
    }
    shared
        .forbidden_queue(id, facts.queue)
        .or_else(|| shared.forbidden_project(id, facts.project))
        .or_else(|| active_jobs_rejection(shared, id, association, facts))
        .or_else(|| active_scope_rejection(shared, id, facts))
        .or_else(uncountable)
        .or_else(|| queue_shape_rejection(shared, facts))
        .or_else(|| size_rejection(shared, id, association, facts))
        .or_else(|| move_rejection(shared, id, facts))
        .or_else(|| long_name_rejection(facts))
}

fn active_jobs_rejection(
    shared: &Shared,
    id: AssociationId,
    association: &Association,
    facts: &JobFacts<'_>,
) -> Option<String> {
    let active = shared.ledger.accounts().active_jobs(id);
    let is_rejected = facts.state == State::New && association.is_full(active);
    is_rejected.then(|| {
        let other = find_fitting_bank(shared, id, facts, |other, record| {
            !record.is_full(shared.ledger.accounts().active_jobs(other))
        });
        let (bank, most) = (&association.bank, association.max_active_jobs.cap());
        let or = other.map_or(String::new(), |other| format!(", or use bank {other}"));
        format!("user has max active jobs; {active} of {most} in bank {bank}: wait until one ends{or}")
    })
}

/// Returns the text that rejects a new job if a limit over a scope admits no more active jobs.
fn active_scope_rejection(shared: &Shared, id: AssociationId, facts: &JobFacts<'_>) -> Option<String> {
    if facts.state != State::New {
        return None;
    }
    let queue = facts.queue.map(QueueName::from);
    shared.limits().full_of_active_jobs(id, queue.as_ref(), None).map(|full| full.rejection())
}

/// Returns the text that rejects a job whose nodes or time limit are beyond the limits on each job of its queue or of the parent queue.
fn queue_shape_rejection(shared: &Shared, facts: &JobFacts<'_>) -> Option<String> {
    let size = facts.full_size().filter(|_| shared.settings.enforce_queue_shapes)?;
    shared.book.queues_of(facts.queue).find_map(|queue| queue_shapes::rejection(queue, size))
}

pub(super) fn size_rejection(
    shared: &Shared,
    id: AssociationId,
    association: &Association,
    facts: &JobFacts<'_>,
) -> Option<String> {
    let size = facts.full_size()?;
    let rejection = |association: &Association| {
        shared.ledger.rules().rejection(&shared.book, association, facts.queue, size)
    };
    let Some(text) = rejection(association) else {
        return shared.limits().rejection_over_scopes(id, facts.queue, size);
    };
    let other = find_fitting_bank(shared, id, facts, |_, record| rejection(record).is_none());
    Some(other.map_or_else(|| text.clone(), |other| format!("{text}; bank {other} takes it")))
}

/// Returns the last sentence of a rejection, which names the banks of the user; empty if the user has none.
fn banks_text(shared: &Shared, user: UserId) -> String {
    let banks = shared.book.associations_of(user).filter(|(_, record)| record.active);
    let banks: Vec<&BankName> = banks.map(|(_, record)| &record.bank).take(MAX_NAMED_BANKS).collect();
    let default = shared.book.default_bank(user).filter(|default| banks.contains(default));
    if banks.is_empty() {
        return String::new();
    }
    let names = banks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let default = default.map_or(String::new(), |default| format!(" (default {default})"));
    format!("; yours: {names}{default}")
}

/// Returns another bank of the user that would accept the job.
fn find_fitting_bank<'a>(
    shared: &'a Shared,
    id: AssociationId,
    facts: &JobFacts<'_>,
    fits: impl Fn(AssociationId, &Association) -> bool,
) -> Option<&'a BankName> {
    let mut other_banks = shared.book.associations_of(facts.user).take(MAX_NAMED_BANKS);
    let (_, record) = other_banks.find(|(other, record)| {
        *other != id
            && record.active
            && shared.forbidden_queue(*other, facts.queue).is_none()
            && shared.forbidden_project(*other, facts.project).is_none()
            && fits(*other, record)
    })?;
    Some(&record.bank)
}
