// SPDX-License-Identifier: LGPL-3.0-only
//! What is put off to the next reactor turn: work that may not be done inside the callback that called for it.
//!
//! Other jobs may not be touched while Flux goes through its jobs to reprioritize them, and none while it goes through its plugins to
//! tell them of a configuration; a job may not end while another plugin lets it go; a priority may not be set while Flux asks for it. Each
//! is noted here by id, and decided when it is carried out: a decision of one turn would be stale in the next. A turn costs what was
//! noted, not what is alive.

use super::{Effect, Timer};
use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::Line;
use std::collections::{BTreeMap, BTreeSet};

/// A release scan at the end of the event that called for it.
#[derive(Clone, Debug)]
pub(super) enum Scan {
    /// Of one association.
    One(AssociationId),
    /// Of several associations, one after another: a scan decides nothing before the effects of the scan before it were carried out.
    Several(Vec<(AssociationId, Line)>),
    /// Then holds the replayed jobs of the association that carry no name and do not fit.
    HoldReplayed(AssociationId),
}

/// Jobs and associations that are due.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    /// To be ended after all: they can never have a priority.
    pub ends: BTreeSet<JobId>,
    /// The instance owner's, and his record has not come yet: to be ended if it does not come within a while.
    /// Each with the time since when.
    pub expected: BTreeMap<JobId, f64>,
    /// In PRIORITY, and Flux may leave them there: to be given their priority by id.
    pub unmoved: Unmoved,
    /// Replayed, attached, and their jobspec lacks bank or project.
    pub incomplete: BTreeSet<JobId>,
    /// Came to DEPEND without a name of ours.
    pub unheld: BTreeSet<JobId>,
    /// Release scans at the end of this event, in the order in which they were called for.
    pub scans: Vec<Scan>,
    /// Release scans of the next reactor turn.
    pub passes: BTreeMap<AssociationId, Line>,
    /// Associations to which a push that is not over has attached replayed jobs. Until the reprioritize that ends it nobody there is
    /// released, and none of the replayed is held.
    pub half_pushed: BTreeSet<AssociationId>,
    /// Associations with replayed jobs in DEPEND of which it is not decided yet who must be held. That is done once, when all their
    /// eventlogs are read.
    pub unjudged: BTreeSet<AssociationId>,
    /// A job of theirs whose eventlog was not read has moved to where it is held: those that waited for it wait no more.
    pub unread_left: BTreeSet<AssociationId>,
    /// A reprioritize ended the last push, and nothing of another one has come since.
    pub push_ended: bool,
    /// Settings were replaced that all priorities are made of.
    pub prices: bool,
    /// Limits may have changed since it was looked at whose eventlogs are to be read after all.
    pub limits_moved: bool,
}

impl Due {
    /// Notes a release scan of an association for the end of this event.
    pub fn scan(&mut self, association: AssociationId) {
        self.scans.push(Scan::One(association));
    }

    /// Schedules a release scan of an association for the next reactor turn.
    pub fn scan_later(&mut self, association: AssociationId, line: Line) -> Vec<Effect> {
        let noted = self.passes.entry(association).or_insert(line);
        *noted = line.max(*noted);
        vec![Effect::Arm(Timer::Turn)]
    }

    /// The job has ended.
    pub fn forget(&mut self, id: JobId) {
        for jobs in [&mut self.ends, &mut self.incomplete, &mut self.unheld] {
            jobs.remove(&id);
        }
        self.expected.remove(&id);
        self.unmoved.remove(id);
    }
}

/// Jobs in PRIORITY that Flux may leave there.
#[derive(Clone, Debug, Default)]
pub(super) struct Unmoved {
    jobs: BTreeSet<JobId>,
    /// If they are many: the order in which they go, the first at the end. Some may have gone.
    order: Vec<JobId>,
}

impl Unmoved {
    /// Adds a job.
    pub fn insert(&mut self, id: JobId) {
        self.jobs.insert(id);
    }

    /// Removes a job.
    pub fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the jobs.
    pub fn jobs(&self) -> &BTreeSet<JobId> {
        &self.jobs
    }

    /// Removes all jobs, and returns them.
    pub fn take(&mut self) -> BTreeSet<JobId> {
        std::mem::take(self).jobs
    }

    /// Returns true if jobs were put in order and are left.
    pub fn is_in_order(&self) -> bool {
        !self.order.is_empty()
    }

    /// Has jobs go in this order, the first at the end.
    pub fn put_in_order(&mut self, order: Vec<JobId>) {
        self.order = order;
    }

    /// Removes the next of the jobs that were put in order, and returns it.
    pub fn next(&mut self) -> Option<JobId> {
        while let Some(id) = self.order.pop() {
            if self.jobs.remove(&id) {
                return Some(id);
            }
        }
        None
    }
}
