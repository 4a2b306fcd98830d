// SPDX-License-Identifier: LGPL-3.0-only
//! Work for the next reactor turn that must not be done inside the callback that calls for it.
//!
//! While Flux loops over its jobs to reprioritize them, or over its plugins to pass a configuration to them, no other job may be changed.
//! While another plugin releases a job, that job must not end. While Flux asks for a priority, that priority must not be posted. Such
//! work is noted here by id and decided when it is carried out, because a decision of an earlier turn would be stale. The cost of a turn
//! depends on the number of noted jobs, not on the number of live jobs.

use super::{Effect, Timer, unmoved::Unmoved};
use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::Line;
use std::collections::{BTreeMap, BTreeSet};

/// A release scan at the end of the event that called for it.
#[derive(Clone, Debug)]
pub(super) enum Scan {
    /// A scan of one association.
    One(AssociationId),
    /// Scans of several associations, one after another. A scan decides nothing before the effects of the scan before it were carried
    /// out.
    Several(Vec<(AssociationId, Line)>),
    /// Holds the replayed jobs of the association that carry no name of this plugin and exceed a limit.
    HoldReplayed(AssociationId),
}

/// Jobs and associations that are due.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    /// Jobs to end, because they can never have a priority.
    pub ends: BTreeSet<JobId>,
    /// Jobs of the instance owner, whose record has not come, each with the time since when. They end if it does not come in time.
    pub expected: BTreeMap<JobId, f64>,
    /// Jobs in PRIORITY that get their priority by id, because Flux may leave them there.
    pub unmoved: Unmoved,
    /// Replayed jobs with an association whose jobspec lacks the bank or project.
    pub incomplete: BTreeSet<JobId>,
    /// Jobs that came to DEPEND without a name of this plugin.
    pub unheld: BTreeSet<JobId>,
    /// Release scans for the end of this event, in the order in which they were called for.
    pub scans: Vec<Scan>,
    /// Release scans for the next reactor turn.
    pub later_scans: BTreeMap<AssociationId, Line>,
    /// Associations to which an incomplete push has assigned replayed jobs. Until the reprioritize at its end, no job of these
    /// associations is released, and no replayed job is held.
    pub half_pushed: BTreeSet<AssociationId>,
    /// Associations with replayed jobs in DEPEND for which the engine has not decided which jobs to hold. It decides once, when all
    /// eventlogs of the association are read.
    pub undecided: BTreeSet<AssociationId>,
    /// Associations that a job with an unread eventlog has left, or in which it can no longer be released. Scans that waited for this
    /// eventlog may run.
    pub unread_left: BTreeSet<AssociationId>,
    /// Whether a reprioritize ended the last push and no part of another push has come since.
    pub push_ended: bool,
    /// Whether settings were replaced that all priorities depend on.
    pub has_new_terms: bool,
    /// Whether limits may have changed since the engine last checked which unasked eventlogs it has to read.
    pub limits_moved: bool,
}

impl Due {
    /// Notes a release scan of an association for the end of this event.
    pub fn scan(&mut self, association: AssociationId) {
        self.scans.push(Scan::One(association));
    }

    /// Schedules a release scan of an association for the next reactor turn.
    pub fn scan_later(&mut self, association: AssociationId, line: Line) -> Vec<Effect> {
        let noted = self.later_scans.entry(association).or_insert(line);
        *noted = line.max(*noted);
        vec![Effect::Arm(Timer::Turn)]
    }

    /// Removes a job that has ended.
    pub fn forget(&mut self, id: JobId) {
        for jobs in [&mut self.ends, &mut self.incomplete, &mut self.unheld] {
            jobs.remove(&id);
        }
        self.expected.remove(&id);
        self.unmoved.remove(id);
    }
}
