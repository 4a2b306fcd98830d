// SPDX-License-Identifier: LGPL-3.0-only
//! The state that several types read and change: configuration, live jobs with their counters, usage, and pending
//! work.
//!
//! The fields of each table are private to its module. The state of a single activity, such as a release scan
//! or a refresh, is in the type that owns the activity.

use super::{
    Effect, Settings, Tables, batches::Batches, due::Due, ended::EndedJobs, expirations::Expirations,
    posted::PostedPriorities, queues::Queues, refresh::InterleavingTurns, subscriptions::Subscriptions,
    time_left::TimeLeft, unmoved::JobsLeftInPriority, unsaved_ended::UnsavedEndedJobs,
};
use crate::accounts::{AssociationId, Book};
use crate::budgets::Budgets;
use crate::ids::{BankName, JobId, UserId};
use crate::limits::{Job, Ledger, Limits};
use crate::priority::{Ages, WeightedFactors};
use crate::standing::Standing;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// The state that several types of the engine read and change.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    pub(super) book: Book,
    /// The factors, with their present weights.
    pub(super) weighed: WeightedFactors,
    /// The reference time of all ages.
    pub(super) ages: Ages,
    /// Nodes of the site; 0 if unknown.
    pub(super) site_nodes: u64,
    /// Jobs that passed validation, for which Flux has not called `job.new` yet. If `job.new` names one of these jobs, a user has just
    /// submitted the job. All other jobs are replayed.
    pub(super) validated: BTreeSet<JobId>,
    pub(super) ledger: Ledger,
    pub(super) batches: Batches,
    pub(super) standing: Standing,
    pub(super) budgets: Budgets,
    /// True if the budgets have changed and held jobs may fit now.
    pub(super) needs_budget_scan: bool,
    /// The posted priorities of pending jobs.
    pub(super) posted: PostedPriorities,
    /// The positions of pending jobs in their associations, if `interleave` is on.
    pub(super) turns: InterleavingTurns,
    /// Jobs that ended while the plugin was not loaded.
    pub(super) ended: EndedJobs,
    /// Ended jobs that the snapshot does not contain yet.
    pub(super) unsaved_ended: UnsavedEndedJobs,
    pub(super) settings: Settings,
    /// Work for the end of the event and for later reactor turns.
    pub(super) due: Due,
    /// Jobs in PRIORITY without a priority. When Flux asks for the priority, Flux moves such a job to SCHED
    /// only if the priority differs from the previous priority.
    pub(super) unprioritized: BTreeSet<JobId>,
    /// Jobs that Flux may leave in PRIORITY, so the engine posts their priorities by id.
    pub(super) unmoved: JobsLeftInPriority,
    /// The posted annotations, if annotations are switched on.
    pub(super) annotations: BTreeMap<JobId, String>,
    pub(super) subscriptions: Subscriptions,
    /// Running jobs without a time limit of their own.
    pub(super) expirations: Expirations,
    /// The next update of the time that running jobs have left.
    pub(super) time_left: TimeLeft,
    pub(super) queues: Queues,
    /// The user that runs the instance.
    pub(super) owner: UserId,
    /// True after a push was committed, or after a reprioritize ended it. False after an update of single records,
    /// except records of the instance owner, until the next commit or reprioritize.
    pub(super) has_push_ended: bool,
    /// The number of events so far that may have changed any priority.
    pub(super) revision: u64,
    /// The time of the last event, in seconds since the epoch.
    pub(super) now: f64,
}

impl Shared {
    /// Returns the initial state, before any push.
    pub(super) fn new(owner: UserId, tables: Tables) -> Self {
        let Tables { rules, factors, batches } = tables;
        Shared {
            weighed: WeightedFactors::new(factors, &BTreeMap::new(), &[]),
            ledger: Ledger::new(rules),
            subscriptions: Subscriptions::new(batches.subscribed),
            batches,
            owner,
            ..Shared::default()
        }
    }

    /// Returns the limits, and how much of each is in use.
    pub(super) fn limits(&self) -> Limits<'_> {
        Limits::new(&self.ledger, &self.book)
    }

    /// Returns the bank of `association`, or `None` without an association.
    pub(super) fn bank_of(&self, association: Option<AssociationId>) -> Option<BankName> {
        Some(self.book.association(association?)?.bank.clone())
    }

    /// Returns the bank in which the job counts. Without an association, returns the bank of its jobspec, or `None` if the jobspec names no
    /// bank.
    pub(super) fn bank_of_job(&self, job: &Job) -> Option<BankName> {
        self.bank_of(job.association()).or_else(|| job.bank.clone())
    }

    /// Schedules a release scan of each association with held jobs for the next reactor turn.
    pub(super) fn scan_all_held_later(&mut self) -> Vec<Effect> {
        self.due.schedule_scans(self.ledger.associations_with_held())
    }

    /// Returns true if the user is the instance owner.
    pub(super) fn is_owner(&self, user: UserId) -> bool {
        user == self.owner
    }

    /// Returns the text that rejects a queue of the site if the association may not use it. The instance
    /// owner may use all queues if flux-accounting made up the owner's record, which then lists no queues.
    pub(super) fn forbidden_queue(&self, association: AssociationId, queue: Option<&str>) -> Option<String> {
        let queue = queue.filter(|q| self.book.queue(q).is_some())?;
        let association = self.book.association(association)?;
        let is_made_up = self.is_owner(association.user) && association.queues.is_empty();
        if is_made_up || association.permits_queue(queue) {
            return None;
        }
        let valid = join_names(&association.queues);
        Some(format!("queue \"{queue}\" not valid for user; valid queues for user: {valid}"))
    }

    /// Returns the text that rejects a project if the association may not charge it.
    pub(super) fn forbidden_project(&self, id: AssociationId, project: Option<&str>) -> Option<String> {
        let (project, association) = (project?, self.book.association(id)?);
        let is_known = self.book.tables().projects.iter().any(|known| &**known == project)
            || association.is_default_project(project);
        if is_known && association.permits_project(project) {
            return None;
        }
        let valid = join_names(&association.projects);
        Some(format!("project \"{project}\" not valid for user; valid projects for user: {valid}"))
    }
}

/// Returns `names` as one string, separated by commas.
pub fn join_names<T: Display>(names: &[T]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
