// SPDX-License-Identifier: LGPL-3.0-only
//! Handles `job.validate`: decides whether a job is accepted, or an updated job stays valid. Programs depend on the
//! order of the checks.

use super::{
    Effect, JobFacts, Level, Shared, State,
    admission::unknown_association_text,
    budgets::budget_rejection,
    life::queue_name,
    queue_shapes::{node_count_rejection, time_limit_rejection},
    shared::join_names,
    updates::move_rejection,
};
use crate::accounts::{Association, AssociationId, Queue};
use crate::ids::{BankName, UserId};
use crate::limits::Size;
use serde::{Deserialize, Serialize};

/// The maximum number of banks that a rejection message lists, and that a search for another bank examines.
const MAX_NAMED_BANKS: usize = 16;
/// The maximum length of a name in bytes. Names are stored and shown in full.
const MAX_NAME_BYTES: usize = 1024;

/// What a job is rejected for. Several checks may reject a job for the same cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RejectionCause {
    /// The user has no enabled association in the bank.
    Bank,
    /// The queue is unknown, or forbidden to the association.
    Queue,
    /// The project is forbidden to the association.
    Project,
    /// A limit on active jobs is reached.
    ActiveJobs,
    /// The resources of the jobspec can't be counted.
    Resources,
    /// The job requests too many or too few nodes, cores or GPUs, or exceeds a limit of a scope on one job.
    Size,
    /// The job has no time limit, or its time limit is too long.
    TimeLimit,
    /// A budget has too little left for the job.
    Budget,
    /// A name in the jobspec is too long, or is not valid text.
    Name,
    /// The command is older than the plugin, or the plugin names no cause.
    #[serde(other)]
    Other,
}

/// The reason why a job is rejected.
pub struct Rejection {
    pub cause: RejectionCause,
    pub text: String,
}

pub fn validate_job(shared: &mut Shared, facts: &JobFacts<'_>) -> Vec<Effect> {
    let association = find_association(shared, facts);
    // The checks below are faster if the limit scopes of the association are stored.
    association.into_iter().for_each(|id| shared.ledger.assign_scopes(&shared.book, id));
    let rejection = rejections_of_job(shared, association, facts).next();
    let Some(Rejection { cause, text }) = rejection else {
        // The job is not counted yet: another plugin may still reject it.
        if facts.state == State::New {
            shared.validated.insert(facts.id);
        }
        return Vec::new();
    };
    let mut effects = Vec::new();
    if let (RejectionCause::Resources, Err(error)) = (cause, &facts.size) {
        let log = format!("job of uid {}: unable to count resources: {error}", facts.user);
        effects.push(Effect::Log(Level::Debug, log));
    }
    effects.push(Effect::Reject(text));
    effects
}

/// Returns the association of a job. A live job that stays in its bank keeps its association if a push has removed it.
fn find_association(shared: &Shared, facts: &JobFacts<'_>) -> Option<AssociationId> {
    let present = || {
        let id = shared.ledger.job(facts.id)?.association()?;
        let record = shared.book.association(id)?;
        (facts.bank == Some(record.bank.as_str())).then_some(id)
    };
    shared.book.find(facts.user, facts.bank).or_else(present)
}

/// Returns the message that rejects a job whose bank, queue or project has a name that is too long. Without data, no
/// other check limits the length of a name.
fn long_name_rejection(facts: &JobFacts<'_>) -> Option<String> {
    let names = [("bank", facts.bank), ("queue", facts.queue), ("project", facts.project)];
    let (key, length) = names
        .into_iter()
        .filter_map(|(key, name)| Some((key, name?.len())))
        .find(|(_, length)| *length > MAX_NAME_BYTES)?;
    Some(format!("{key}: expected a name of at most {MAX_NAME_BYTES} bytes, got {length} bytes"))
}

/// An association, with its record.
type Known<'a> = (AssociationId, &'a Association);

/// Returns the text that rejects a job of the association.
type Check = fn(&Shared, Known<'_>, &JobFacts<'_>) -> Option<String>;

/// The checks of a job whose association is known, in order. The first check that fails gives the message.
const CHECKS: [(RejectionCause, Check); 12] = [
    (RejectionCause::Bank, disabled_rejection),
    (RejectionCause::Queue, queue_rejection),
    (RejectionCause::Project, |shared, (id, _), facts| shared.forbidden_project(id, facts.project)),
    (RejectionCause::ActiveJobs, active_jobs_rejection),
    (RejectionCause::ActiveJobs, find_active_jobs_rejection),
    (RejectionCause::Resources, |_, _, facts| describe_uncountable_job(facts)),
    (RejectionCause::Size, |shared, _, facts| check_queues(shared, facts, node_count_rejection)),
    (RejectionCause::TimeLimit, |shared, _, facts| check_queues(shared, facts, time_limit_rejection)),
    (RejectionCause::Size, size_rejection),
    (RejectionCause::Budget, |shared, (id, _), facts| budget_rejection(shared, id, facts)),
    (RejectionCause::Queue, |shared, (id, _), facts| move_rejection(shared, id, facts)),
    (RejectionCause::Name, |_, _, facts| long_name_rejection(facts)),
];

/// Returns the result of each check that a job of association `id` fails. The first message is shown to the user.
pub fn rejections_of_job(
    shared: &Shared,
    id: Option<AssociationId>,
    facts: &JobFacts<'_>,
) -> impl Iterator<Item = Rejection> {
    let reject = |cause| move |text| Rejection { cause, text };
    let unknown = || match shared.book.has_data() {
        true => {
            let text = unknown_association_text(facts.user) + &describe_banks_of_user(shared, facts.user);
            Some(Rejection { cause: RejectionCause::Bank, text })
        }
        false => describe_uncountable_job(facts)
            .map(reject(RejectionCause::Resources))
            .or_else(|| long_name_rejection(facts).map(reject(RejectionCause::Name))),
    };
    let known = id.and_then(|id| Some((id, shared.book.association(id)?)));
    let of_known = move |known| {
        CHECKS.iter().filter_map(move |(cause, check)| check(shared, known, facts).map(reject(*cause)))
    };
    id.is_none().then(unknown).flatten().into_iter().chain(known.into_iter().flat_map(of_known))
}

fn describe_uncountable_job(facts: &JobFacts<'_>) -> Option<String> {
    facts.size.as_ref().err().map(|error| format!("unable to count resources for job; {error}"))
}

fn disabled_rejection(shared: &Shared, (_, association): Known<'_>, facts: &JobFacts<'_>) -> Option<String> {
    let text = "user/bank entry has been disabled from flux-accounting DB";
    (!association.active).then(|| text.to_owned() + &describe_banks_of_user(shared, facts.user))
}

/// Returns the text that rejects a job whose queue is unknown, or forbidden to the association.
fn queue_rejection(shared: &Shared, (id, association): Known<'_>, facts: &JobFacts<'_>) -> Option<String> {
    let unknown_queue = facts.queue.filter(|q| shared.book.queue(q).is_none());
    let Some(queue) = unknown_queue.filter(|_| shared.book.config().deny_unknown_queues) else {
        return shared.forbidden_queue(id, facts.queue);
    };
    let known_queues = association.queues.iter().filter(|queue| shared.book.queue(queue.as_str()).is_some());
    let names = join_names(&known_queues.collect::<Vec<_>>());
    let yours = if names.is_empty() { names } else { format!("; yours: {names}") };
    let text = "is unknown to flux-accounting and deny-unknown-queues is enabled";
    Some(format!("queue \"{queue}\" {text}{yours}"))
}

fn active_jobs_rejection(
    shared: &Shared,
    (id, association): Known<'_>,
    facts: &JobFacts<'_>,
) -> Option<String> {
    let is_full = |id: AssociationId| shared.limits().active_headroom(id, facts.queue) == 0;
    (facts.state == State::New && is_full(id)).then(|| {
        let active = shared.limits().sum_usage_over_queues(id).0;
        let accepts = |other, record: &Association| {
            !is_full(other) && find_active_jobs_rejection(shared, (other, record), facts).is_none()
        };
        let other = find_bank_that_accepts_job(shared, id, facts, accepts);
        let (bank, most) = (&association.bank, association.max_active_jobs.cap());
        let or = other.map_or(String::new(), |other| format!(", or use bank {other}"));
        format!("user has max active jobs; {active} of {most} in bank {bank}: wait until one ends{or}")
    })
}

/// Returns the text that rejects a new job if a limit over a scope admits no more active jobs.
fn find_active_jobs_rejection(shared: &Shared, (id, _): Known<'_>, facts: &JobFacts<'_>) -> Option<String> {
    if facts.state != State::New {
        return None;
    }
    let queue = queue_name(shared, facts.queue);
    shared.limits().find_full_active_jobs_limit(id, queue.as_ref(), None).map(|full| full.rejection())
}

/// Returns the text with which `check` rejects a job for the limits on each job of its queue or of the parent queue.
fn check_queues(
    shared: &Shared,
    facts: &JobFacts<'_>,
    check: fn(&Queue, Size) -> Option<String>,
) -> Option<String> {
    let size = facts.full_size().filter(|_| shared.settings.enforce_queue_shapes)?;
    shared.book.queues_of(facts.queue).find_map(|queue| check(queue, size))
}

pub fn size_rejection(shared: &Shared, (id, association): Known<'_>, facts: &JobFacts<'_>) -> Option<String> {
    let (size, queue) = (facts.full_size()?, queue_name(shared, facts.queue));
    let rejection = |association: &Association| {
        shared.ledger.rules().rejection(&shared.book, association, facts.queue, size)
    };
    let scope_rejection = |id| shared.limits().find_scope_rejection(id, queue.as_ref(), size);
    let Some(text) = rejection(association) else { return scope_rejection(id) };
    let fits = |other, it: &Association| rejection(it).is_none() && scope_rejection(other).is_none();
    let other = find_bank_that_accepts_job(shared, id, facts, fits);
    Some(other.map_or_else(|| text.clone(), |other| format!("{text}; bank {other} accepts the job")))
}

/// Returns the last sentence of a rejection, which names the banks of the user; empty if the user has none.
fn describe_banks_of_user(shared: &Shared, user: UserId) -> String {
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
pub fn find_bank_that_accepts_job<'a>(
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
