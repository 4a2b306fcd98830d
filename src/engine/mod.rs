// SPDX-License-Identifier: LGPL-3.0-only
//! The brain: [`Event`] in, [`Effect`]s out. No I/O, no clock, no unsafe, no panic.
//!
//! Flux calls back into the plugin while it carries out an effect (removing a job's last dependency runs that job's
//! priority and sched callbacks before the call returns). So every decision is booked when it is made, and effects
//! are only values: whoever carries them out holds no borrow of the engine. An effect Flux refuses comes back as
//! [`Event::Refused`].
#![forbid(unsafe_code)]

mod check;
mod data;
mod effect;
mod event;
mod life;
mod others;
mod pass;
mod replay;
#[cfg(test)]
mod tests;
mod updates;
mod validate;

pub use check::Check;
pub use effect::{Effect, Level, Posting};
pub use event::{Event, JobFacts, Refusal, State};

/// The words events and effects speak in.
pub use crate::ids;
/// How the size of a job is measured.
pub mod size {
    pub use crate::limits::{Kind, Size, SizeError, Vertex, measure};
}

use crate::accounts::{AssociationId, Book};
use crate::ids::{JobId, UserId};
use crate::limits::{Grant, Ledger};
use others::Others;
use std::collections::{BTreeMap, BTreeSet};

/// All state of the plugin that is not Flux's.
#[derive(Clone, Debug)]
pub struct Engine {
    book: Book,
    ledger: Ledger,
    /// Jobs that passed our validate and were not seen since: their `job.new` is a submission, any other a replay.
    validated: BTreeSet<JobId>,
    /// A replayed job is waiting for the deferred step.
    is_replaying: bool,
    /// Eventlogs still to come.
    unread: usize,
    /// Jobs to be refused after all, which must not end while Flux iterates over its jobs or another plugin lets them go.
    refusals: Vec<JobId>,
    /// Jobs in PRIORITY that Flux may leave there, with their price.
    moves: Vec<(JobId, u32)>,
    /// Names by which others keep jobs in DEPEND, of jobs that declare dependencies.
    others: BTreeMap<JobId, Others>,
    /// Associations in which a job that was freed turned out to be kept in DEPEND by others, or one that only we hold is
    /// not kept by them any more: there another one may go.
    passed_over: BTreeSet<AssociationId>,
    owner: UserId,
}

impl Engine {
    /// An engine without data. `owner` is the user the instance runs as.
    pub fn new(owner: UserId) -> Self {
        Engine {
            book: Book::default(),
            ledger: Ledger::default(),
            validated: BTreeSet::new(),
            is_replaying: false,
            unread: 0,
            refusals: Vec::new(),
            moves: Vec::new(),
            others: BTreeMap::new(),
            passed_over: BTreeSet::new(),
            owner,
        }
    }

    /// What is configured.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What is going on.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether the job is alive and known.
    pub fn knows(&self, id: JobId) -> bool {
        self.ledger.job(id).is_some()
    }

    /// Whether replayed jobs wait for the deferred step.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// Takes one event in and says what is to be done about it.
    pub fn handle(&mut self, event: Event<'_>) -> Vec<Effect> {
        match event {
            Event::Validate(facts) => self.validate(&facts),
            Event::New(facts) => self.new_job(&facts),
            Event::Depend(id) => self.depend(id),
            Event::Dependency { id, name, added } => self.dependency(id, name, added),
            Event::Priority(id, urgency) => self.priority(id, urgency),
            Event::PriorityGet(id, urgency) => self.priority_get(id, urgency),
            Event::Sched(id) => self.sched(id),
            Event::Run(id) => self.run(id),
            Event::Inactive(id) | Event::Gone(id) => self.inactive(id),
            Event::UpdateQueue { id, user, state, queue } => self.update_queue(id, user, state, queue),
            Event::UpdateBank { id, user, state, bank } => self.update_bank(id, user, state, bank),
            Event::Updated(facts) => self.updated(&facts),
            Event::Associations(records) => self.associations(records),
            Event::Queues(queues) => self.configure(|book| book.set_queues(queues)),
            Event::Projects(projects) => self.configure(|book| book.set_projects(projects)),
            Event::Banks(banks) => self.configure(|book| book.set_banks(banks)),
            Event::Weights(weights) => self.configure(|book| book.set_weights(weights)),
            Event::Config(patch) => self.configure(|book| book.set_config(patch)),
            Event::Policy(policy) => self.policy(policy),
            Event::PolicyBegin { keeps_config } => self.stage(|book| book.begin(keeps_config)),
            Event::PolicyPart(part) => self.stage(|book| book.stage(part)),
            Event::PolicyCommit => self.policy_commit(),
            Event::PolicyAbort => self.stage(Book::abort),
            Event::Reprioritize => vec![Effect::ReprioritizeAll, Effect::Then(Event::ReleaseAll)],
            Event::Deferred => self.deferred(),
            Event::PassOn(pass) => self.pass_on(pass),
            Event::Urgency(id, urgency) => self.told_urgency(id, urgency),
            Event::ReleaseAll => self.release_all(),
            Event::ReplayRead => self.hold_replayed(),
            Event::Eventlog(id, history) => self.eventlog(id, history),
            Event::Refused(effect, why) => self.refused(*effect, why),
        }
    }

    /// Rebuilds every counter from the live jobs: what to do after a panic may have cut a change short.
    pub fn recount(&mut self) {
        self.ledger.recount();
    }

    fn refused(&mut self, effect: Effect, why: Refusal) -> Vec<Effect> {
        let complain = |what: String| {
            let reason = match &why {
                Refusal::Absent => "no such job or name".to_owned(),
                Refusal::TooLate => "not allowed in the job's state".to_owned(),
                Refusal::Other(text) => text.clone(),
            };
            vec![Effect::Log(Level::Error, format!("{what}: {reason}"))]
        };
        match effect {
            Effect::AddDependency(id, name) => {
                self.ledger.change(id, |job| job.names.remove(name.hold));
                // It is on its way out of DEPEND, as after a cancel.
                if why == Refusal::TooLate {
                    return Vec::new();
                }
                complain(format!("job {id}: failed to add dependency {name}"))
            }
            // It reserves all it needs until it is known better. Most likely it is gone.
            Effect::AskUrgency(_) if why == Refusal::Absent => Vec::new(),
            Effect::AskUrgency(id) => complain(format!("job {id}: failed to look up its urgency")),
            // Already gone, or the job left DEPEND: either way it is not held by this name.
            Effect::RemoveDependency(..) if matches!(why, Refusal::Absent | Refusal::TooLate) => Vec::new(),
            Effect::RemoveDependency(id, name) => {
                self.ledger.change(id, |job| {
                    job.names.restore(name);
                    job.grant = Grant::None;
                });
                complain(format!("job {id}: failed to remove dependency {name}"))
            }
            Effect::Memo(id, _) => {
                self.ledger.change(id, |job| job.memo = None);
                complain(format!("job {id}: failed to post memo"))
            }
            Effect::SetJobspec { id, .. } => {
                complain(format!("job {id}: failed to update bank and project in jobspec"))
            }
            // What was meant for a job that has ended is moot.
            Effect::Raise(..) | Effect::Prioritize(..) if why == Refusal::Absent => Vec::new(),
            Effect::Prioritize(id, _) => complain(format!("job {id}: failed to set its priority")),
            Effect::Raise(id, note) => complain(format!("job {id}: failed to raise exception '{note}'")),
            Effect::ReprioritizeAll => complain("failed to reprioritize".to_owned()),
            other => complain(format!("{other:?}")),
        }
    }
}
