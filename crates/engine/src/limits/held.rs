// SPDX-License-Identifier: LGPL-3.0-only
//! The associations with held jobs, and what release scans have found there.

use super::Line;
use super::ledger::set;
use crate::accounts::AssociationId;
use std::collections::{BTreeMap, BTreeSet};

/// The associations with held jobs, and what release scans have found there.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldAssociations {
    all: BTreeSet<AssociationId>,
    /// Associations whose places in the lines of scopes are to be computed.
    unplaced: BTreeSet<AssociationId>,
    /// Associations in which a scan found no job that changes, and of which jobs. Nothing has changed since.
    in_vain: BTreeMap<AssociationId, Line>,
    /// Those of them that a later scan skipped. If it had looked at them, their places would be computed again.
    passed_over: Vec<AssociationId>,
    /// Associations that took no part in a scan because eventlogs were being read.
    put_off: BTreeSet<AssociationId>,
}

impl HeldAssociations {
    pub fn all(&self) -> &BTreeSet<AssociationId> {
        &self.all
    }

    /// Adds an association, or removes it.
    pub fn set(&mut self, association: AssociationId, is_held: bool) {
        set(&mut self.all, association, is_held);
    }

    /// Notes that the places of all associations are to be computed.
    pub fn displace_all(&mut self) {
        self.unplaced.extend(&self.all);
    }

    /// Notes that the place of an association is to be computed, even if it has no held jobs: it has to leave its lines.
    pub fn place_later(&mut self, association: AssociationId) {
        self.unplaced.insert(association);
    }

    /// Notes that an association has no place, and needs none.
    pub fn need_no_place(&mut self, association: AssociationId) {
        self.unplaced.remove(&association);
    }

    /// Returns true if the place of another association than `own` is to be computed.
    pub fn are_others_unplaced(&self, own: AssociationId) -> bool {
        self.unplaced.iter().chain(&self.passed_over).any(|other| *other != own)
    }

    /// Returns the associations whose places are to be computed.
    pub fn take_unplaced(&mut self) -> BTreeSet<AssociationId> {
        self.passed_over.clear();
        std::mem::take(&mut self.unplaced)
    }

    /// Notes that something has changed, so that each association is worth a look.
    pub fn note_any_change(&mut self) {
        // Most events come when no scan has run since the last.
        if !self.in_vain.is_empty() {
            self.in_vain.clear();
        }
        if !self.passed_over.is_empty() {
            self.unplaced.extend(self.passed_over.drain(..));
        }
    }

    /// Returns true if a scan over `line` skips an association, because a scan found no job there that changes. `waits` is true if the
    /// association has a place in a line.
    pub fn skip(&mut self, association: AssociationId, line: Line, waits: bool) -> bool {
        let is_in_vain = self.in_vain.get(&association).is_some_and(|scanned| *scanned >= line);
        self.passed_over.extend(Some(association).filter(|_| is_in_vain && waits));
        is_in_vain
    }

    /// Notes that a scan over `line` found no job that changes.
    pub fn note_in_vain(&mut self, association: AssociationId, line: Line) {
        let scanned = self.in_vain.entry(association).or_insert(line);
        *scanned = line.max(*scanned);
    }

    /// Removes all places, and all results of scans.
    pub fn clear_places(&mut self) {
        self.unplaced.clear();
        self.in_vain.clear();
        self.passed_over.clear();
    }

    /// Notes that an association takes no part in a scan because eventlogs are being read.
    pub fn put_off(&mut self, association: AssociationId) {
        self.put_off.insert(association);
    }

    pub fn take_put_off(&mut self) -> BTreeSet<AssociationId> {
        std::mem::take(&mut self.put_off)
    }

    #[cfg(test)]
    pub fn unplaced(&self) -> &BTreeSet<AssociationId> {
        &self.unplaced
    }
}
