// SPDX-License-Identifier: LGPL-3.0-only
//! The associations with held jobs, and the results of release scans.

use super::Candidates;
use super::ledger::set_membership;
use crate::accounts::AssociationId;
use std::collections::{BTreeMap, BTreeSet};

/// The associations with held jobs, and the results of release scans.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldAssociations {
    all: BTreeSet<AssociationId>,
    /// Associations whose positions in waiting lists must be computed again.
    unplaced: BTreeSet<AssociationId>,
    /// Associations in which the last scan changed nothing, each with the jobs that the scan examined. A change of a
    /// job or a limit clears this map.
    searched: BTreeMap<AssociationId, Candidates>,
    /// Associations that a scan skipped because they are in `searched`. Their positions in waiting lists may be out of date.
    skipped: Vec<AssociationId>,
    /// Associations that a scan left out because eventlogs were unread.
    deferred: BTreeSet<AssociationId>,
}

impl HeldAssociations {
    pub fn all(&self) -> &BTreeSet<AssociationId> {
        &self.all
    }

    /// Records whether `association` has held jobs.
    pub fn set_held(&mut self, association: AssociationId, is_held: bool) {
        set_membership(&mut self.all, association, is_held);
    }

    /// Marks the positions of all associations with held jobs as out of date.
    pub fn mark_all_positions_outdated(&mut self) {
        self.unplaced.extend(&self.all);
    }

    /// Notes that the positions of an association in waiting lists must be computed again. If the association has no
    /// held jobs by then, it is removed from the lists.
    pub fn mark_positions_stale(&mut self, association: AssociationId) {
        self.unplaced.insert(association);
    }

    /// Cancels the computation of new positions for an association that has no held jobs and is in no waiting list.
    pub fn clear_stale_position_mark(&mut self, association: AssociationId) {
        self.unplaced.remove(&association);
    }

    /// Returns true if the positions of an association other than `own` are out of date.
    pub fn has_other_stale_positions(&self, own: AssociationId) -> bool {
        self.unplaced.iter().chain(&self.skipped).any(|other| *other != own)
    }

    /// Removes and returns the associations whose positions in waiting lists must be computed again.
    pub fn take_outdated_associations(&mut self) -> BTreeSet<AssociationId> {
        self.skipped.clear();
        std::mem::take(&mut self.unplaced)
    }

    /// Discards the results of earlier scans, because a job or a limit has changed. Associations in `skipped` then
    /// need new positions in waiting lists.
    pub fn discard_scan_results(&mut self) {
        // Usually no scan has run since the last change, so there is nothing to clear.
        if !self.searched.is_empty() {
            self.searched.clear();
        }
        if !self.skipped.is_empty() {
            self.unplaced.extend(self.skipped.drain(..));
        }
    }

    /// Returns true if an earlier scan covered all jobs in `candidates` and changed nothing in the association.
    /// `waits` is true if the association is in a waiting list.
    pub fn may_skip_scan(&mut self, association: AssociationId, candidates: Candidates, waits: bool) -> bool {
        let is_searched = self.searched.get(&association).is_some_and(|scanned| *scanned >= candidates);
        self.skipped.extend(Some(association).filter(|_| is_searched && waits));
        is_searched
    }

    /// Stores that a scan over the jobs in `candidates` found nothing to change in an association.
    pub fn store_empty_scan(&mut self, association: AssociationId, candidates: Candidates) {
        let scanned = self.searched.entry(association).or_insert(candidates);
        *scanned = candidates.max(*scanned);
    }

    /// Discards the results of all scans, and the list of associations with outdated positions.
    pub fn clear_all_position_marks(&mut self) {
        (self.unplaced, self.searched, self.skipped) = Default::default();
    }

    /// Records that a scan left out an association because an eventlog is unread.
    pub fn defer_scan(&mut self, association: AssociationId) {
        self.deferred.insert(association);
    }

    pub fn take_associations_skipped_by_scans(&mut self) -> BTreeSet<AssociationId> {
        std::mem::take(&mut self.deferred)
    }

    #[cfg(test)]
    pub fn unplaced(&self) -> &BTreeSet<AssociationId> {
        &self.unplaced
    }
}
