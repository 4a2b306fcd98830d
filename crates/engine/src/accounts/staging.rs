// SPDX-License-Identifier: LGPL-3.0-only
//! Replaces the stored site data by one site document, which may arrive in several parts.
//!
//! When a part arrives, its records are stored next to the current records. Readers do not see the new records before
//! the commit, which visits each association once and allocates no memory for it.

use super::site_document::{Difference, SiteRecords, SiteTables, TreeChange};
use super::{Association, AssociationId, AssociationRecord, Book, Config, ConfigPatch, Entry};
use crate::ids::{BankName, UserId};
use fairshare::insert_all;
use std::collections::{BTreeMap, BTreeSet};

/// The staged push without its associations. The associations of the push are stored next to the current associations.
#[derive(Clone, Debug, Default)]
pub(super) struct Staged {
    /// The default banks that differ from the current ones. Most pushes change no default bank.
    pub(super) default_banks: BTreeMap<UserId, BankName>,
    /// The tables of the push. The commit computes `config`.
    tables: SiteTables,
    config: ConfigPatch,
    keeps_config: bool,
    /// The names of the arrays in the parts of the push that have arrived so far.
    arrays: BTreeSet<&'static str>,
}

/// The values of an association in the staged push.
#[derive(Clone, Debug)]
pub(super) struct StagedValues {
    /// The association, or `None` if it equals the current or last association. Most records of a push equal the
    /// current record.
    association: Option<Box<Association>>,
    fairshare: f64,
}

impl Entry {
    /// Sets the current values, without changing the staged push, and counts the change in `difference`.
    pub(super) fn put(&mut self, association: Association, fairshare: f64, difference: &mut Difference) {
        let is_equal = self.fairshare == fairshare && self.association.as_ref() == Some(&association);
        difference.count_association(self.is_in_force, is_equal);
        let before = self.association.replace(association);
        if let (Some(staged), Some(before)) = (&mut self.staged, before) {
            staged.association.get_or_insert_with(|| Box::new(before));
        }
        (self.fairshare, self.is_in_force) = (fairshare, true);
    }

    /// Stores the values of the staged push.
    fn stage(&mut self, association: Association, fairshare: f64) {
        let is_equal = self.association.as_ref() == Some(&association);
        let association = (!is_equal).then(|| Box::new(association));
        self.staged = Some(StagedValues { association, fairshare });
    }

    /// Replaces the current values by those of the staged push, and counts the change in `difference`. If the push lacks the
    /// association, the association is removed, but its last values are kept.
    fn commit(&mut self, is_changed_in_tree: bool, difference: &mut Difference) {
        let was_in_force = std::mem::replace(&mut self.is_in_force, self.staged.is_some());
        let Some(StagedValues { association, fairshare }) = self.staged.take() else {
            difference.removed += usize::from(was_in_force);
            return;
        };
        let is_equal = association.as_ref().is_none_or(|staged| self.association.as_ref() == Some(staged));
        difference
            .count_association(was_in_force, is_equal && self.fairshare == fairshare && !is_changed_in_tree);
        self.association = association.map(|staged| *staged).or(self.association.take());
        self.fairshare = fairshare;
    }
}

impl Book {
    /// Begins a staged push. Aborts a staged push that is open. If `keeps_config` is true, switches that no part contains
    /// do not change.
    pub fn begin_staging(&mut self, keeps_config: bool) {
        self.abort_staging();
        self.staged = Some(Staged { keeps_config, ..Staged::default() });
    }

    /// Returns true if a staged push is open.
    #[cfg(test)]
    pub fn is_staging(&self) -> bool {
        self.staged.is_some()
    }

    /// Adds a part to the staged push. If a record occurs several times, the last occurrence counts.
    pub fn stage_records(&mut self, part: SiteRecords) {
        let Some(mut staged) = self.staged.take() else { return };
        let SiteRecords { associations, queues, projects, banks, parents, limits, weights, config, arrays } =
            part;
        for AssociationRecord { association, def_bank, fairshare } in associations {
            let Some((user, entry)) = self.find_or_add_entry(&association) else { continue };
            match &user.default_bank {
                None => user.default_bank = Some(def_bank),
                Some(current) if *current == def_bank => drop(staged.default_banks.remove(&association.user)),
                Some(_) => drop(staged.default_banks.insert(association.user, def_bank)),
            }
            entry.stage(association, fairshare);
        }
        staged.tables.queues.extend(queues.into_iter().map(|queue| (queue.name.clone(), queue)));
        staged.tables.projects.extend(projects);
        staged.tables.banks.extend(banks);
        staged.tables.parents.extend(parents);
        staged.tables.limits.extend(limits);
        staged.tables.weights.extend(weights);
        staged.arrays.extend(arrays);
        staged.config = staged.config.then(config);
        self.staged = Some(staged);
    }

    /// Returns the name of an array that no part of the staged push contained, or `None` if the push is complete.
    pub fn missing_array(&self) -> Option<&'static str> {
        let contains = |array: &str| self.staged.as_ref().is_some_and(|staged| staged.arrays.contains(array));
        SiteRecords::ARRAYS.into_iter().find(|array| !contains(array))
    }

    /// Commits the staged push: its records replace all earlier records. Returns the changes, which include those of the
    /// tree in `tree`. The record of a removed association is kept for its live jobs. An association keeps its id, even
    /// if it is removed and added again.
    pub fn commit_records(&mut self, tree: &TreeChange) -> Difference {
        let Some(mut staged) = self.staged.take() else { return Difference::default() };
        let before = if staged.keeps_config { self.tables.config } else { Config::default() };
        staged.tables.config = before.patched(staged.config);
        let mut difference =
            Difference { others: self.compare(&staged.tables, tree), ..Difference::default() };
        let find = |(user, bank): &(_, _)| self.users.get(user)?.banks.get(bank).copied();
        let in_tree: BTreeSet<AssociationId> = insert_all(tree.associations.iter().filter_map(find));
        for (index, entry) in (0..).zip(&mut self.entries) {
            entry.commit(in_tree.contains(&AssociationId(index)), &mut difference);
        }
        for (user, bank) in staged.default_banks {
            self.users.entry(user).or_default().default_bank = Some(bank);
        }
        self.has_data |= !self.is_empty();
        self.replace_tables(staged.tables);
        self.generation += 1;
        self.latest = difference;
        difference
    }

    /// Aborts the staged push.
    pub fn abort_staging(&mut self) {
        if self.staged.take().is_some() {
            self.entries.iter_mut().for_each(|entry| entry.staged = None);
        }
    }
}
