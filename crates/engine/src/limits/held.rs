// SPDX-License-Identifier: LGPL-3.0-only
//! The associations with held jobs, and the results of release scans.

use super::Candidates;
use crate::accounts::AssociationId;
use std::collections::{BTreeMap, BTreeSet};

/// The associations with held jobs, and the results of release scans.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldAssociations {
    pub all: BTreeSet<AssociationId>,
    /// Associations whose positions in waiting lists must be computed again. If such an association has no held jobs by then, it is
    /// removed from the lists.
    pub unplaced: BTreeSet<AssociationId>,
    /// Associations in which the last scan changed nothing, each with the jobs that the scan examined. A change of a
    /// job or a limit clears this map.
    searched: BTreeMap<AssociationId, Candidates>,
    /// Associations that a scan skipped because they are in `searched`. Their positions in waiting lists may be out of date.
    skipped: Vec<AssociationId>,
    /// Associations that a scan left out because eventlogs were unread.
    pub deferred: BTreeSet<AssociationId>,
}

impl HeldAssociations {
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
}
