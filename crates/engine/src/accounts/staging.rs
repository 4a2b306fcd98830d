// SPDX-License-Identifier: LGPL-3.0-only
//! Replaces the stored site data by one site document, which may arrive in several parts.
//!
//! When a part arrives, its records are compared with the current records, and stored next to them. Readers do not see
//! the new records before the commit. A commit takes the same time for any number of associations, and needs no
//! cleanup.

use super::site_document::{Difference, SiteRecords, SiteTables, TreeChange};
use super::{Association, AssociationId, AssociationRecord, Book, Config, ConfigPatch, find_or_add_id};
use std::collections::BTreeSet;

/// The staged push without its associations. The associations of the push are stored next to the current associations.
#[derive(Clone, Debug, Default)]
pub(super) struct Staged {
    /// The changes in the parts of the push that have arrived so far. The commit computes `removed`.
    difference: Difference,
    /// The tables of the push. The commit computes `config`.
    tables: SiteTables,
    config: ConfigPatch,
    keeps_config: bool,
    /// The names of the arrays in the parts of the push that have arrived so far.
    arrays: BTreeSet<&'static str>,
}

impl Staged {
    /// Returns the switches that apply after the commit. `config` has the current switches.
    fn config_after_commit(&self, config: Config) -> Config {
        let before = if self.keeps_config { config } else { Config::default() };
        before.patched(self.config)
    }
}

/// How a pushed record differs from the current record.
#[derive(Clone, Copy)]
pub(super) enum RecordChange {
    Added,
    Changed,
    Unchanged,
}

impl RecordChange {
    pub(super) fn compare<T: PartialEq>(present: Option<T>, next: T) -> RecordChange {
        match present {
            None => RecordChange::Added,
            Some(present) if present == next => RecordChange::Unchanged,
            Some(_) => RecordChange::Changed,
        }
    }
}

impl Book {
    /// Begins a staged push. Aborts a staged push that is open. If `keeps_config` is true, switches that no part contains
    /// do not change.
    pub fn begin_staging(&mut self, keeps_config: bool) {
        self.epochs.begin_staged_epoch();
        self.remove_aborted_values();
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
        for record in associations {
            self.stage_record(&mut staged, record);
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

    /// Stores the changes that the staged push makes to the tree. The commit includes them in the numbers of changed associations and
    /// banks.
    pub fn note_tree_change(&mut self, change: TreeChange) {
        self.tree_change = change;
    }

    /// Returns the number of associations that the staged push changes in the tree, but not in their records.
    fn count_associations_changed_only_in_tree(&self) -> usize {
        let is_unchanged = |id: &AssociationId| {
            self.get_staged_values(*id).is_some_and(|pushed| self.get_values_in_force(*id) == Some(pushed))
        };
        let found = self
            .tree_change
            .associations
            .iter()
            .filter_map(|(user, bank)| self.users.get(user)?.banks.get(bank).copied());
        found.filter(is_unchanged).count()
    }

    /// Returns the differences between the staged push and the current records.
    fn compute_difference(&self, staged: &Staged) -> Difference {
        let mut difference = staged.difference;
        difference.removed = self.present.saturating_sub(difference.changed + difference.unchanged);
        let in_tree = self.count_associations_changed_only_in_tree();
        difference.changed += in_tree;
        difference.unchanged = difference.unchanged.saturating_sub(in_tree);
        difference.others = self.compare(&staged.tables, &self.tree_change);
        difference
    }

    /// Commits the staged push: its records replace all earlier records. Returns the changes. The record of a removed
    /// association is kept for its live jobs. An association keeps its id, even if it is removed and added again.
    pub fn commit_records(&mut self) -> Difference {
        let Some(mut staged) = self.staged.take() else {
            self.tree_change = TreeChange::default();
            return Difference::default();
        };
        staged.tables.config = staged.config_after_commit(self.tables.config);
        let difference = self.compute_difference(&staged);
        self.tree_change = TreeChange::default();
        self.epochs.commit_epoch();
        self.present = difference.added + difference.changed + difference.unchanged;
        self.has_data |= self.present > 0;
        self.replace_tables(staged.tables);
        self.generation += 1;
        self.latest = difference;
        difference
    }

    /// Aborts the staged push.
    pub fn abort_staging(&mut self) {
        self.epochs.abort_epoch();
        self.remove_aborted_values();
        (self.staged, self.tree_change) = (None, TreeChange::default());
    }

    /// Returns the number of aborted pushes whose values may still be stored.
    #[cfg(test)]
    pub(super) fn aborted_pushes(&self) -> usize {
        self.epochs.aborted_pushes()
    }

    /// Removes the values of aborted pushes, if there are many aborted pushes.
    fn remove_aborted_values(&mut self) {
        if !self.epochs.has_many_aborted_pushes() {
            return;
        }
        let epochs = &self.epochs;
        for entry in &mut self.entries {
            entry.association.remove_aborted_values(epochs);
            entry.fairshare.remove_aborted_values(epochs);
        }
        self.users.values_mut().for_each(|user| user.default_bank.remove_aborted_values(epochs));
        self.epochs.clear_aborted_epochs();
    }

    /// Adds a record to the staged push, and counts its difference from the current record.
    fn stage_record(&mut self, staged: &mut Staged, record: AssociationRecord) {
        let AssociationRecord { association, def_bank, fairshare } = record;
        let (user, id) = find_or_add_id(&mut self.users, &mut self.entries, &mut self.members, &association);
        if user.default_bank.staged(&self.epochs) != Some(&def_bank) {
            user.default_bank.stage(&self.epochs, def_bank);
        }
        let present = self.get_values_in_force(id);
        if let Some(replaced) = self.get_staged_values(id) {
            *staged.difference.get_counter(RecordChange::compare(present, replaced)) -= 1;
        }
        *staged.difference.get_counter(RecordChange::compare(present, (&association, fairshare))) += 1;
        if let Some(entry) = self.entries.get_mut(id.index()) {
            entry.fairshare.stage(&self.epochs, fairshare);
            // Most records of a push equal the current record. An equal record is not copied.
            if entry.association.present(&self.epochs) == Some(&association) {
                entry.association.mark_staged_value_unchanged(&self.epochs);
            } else {
                entry.association.stage(&self.epochs, association);
            }
        }
    }

    /// Returns the values of association `id` in the staged push, or `None` if the push does not contain the association.
    fn get_staged_values(&self, id: AssociationId) -> Option<(&Association, f64)> {
        let entry = self.entries.get(id.index())?;
        Some((entry.association.staged(&self.epochs)?, *entry.fairshare.staged(&self.epochs)?))
    }

    /// Corrects the number of changes that the staged push makes. The caller then replaces the record of association
    /// `id` by `next`.
    pub(super) fn update_difference(&mut self, id: AssociationId, next: (&Association, f64)) {
        let Some(pushed) = self.get_staged_values(id) else { return };
        let (before, after) = (
            RecordChange::compare(self.get_values_in_force(id), pushed),
            RecordChange::compare(Some(next), pushed),
        );
        if let Some(staged) = &mut self.staged {
            *staged.difference.get_counter(before) -= 1;
            *staged.difference.get_counter(after) += 1;
        }
    }
}
