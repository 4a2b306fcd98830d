// SPDX-License-Identifier: LGPL-3.0-only
//! Replacing everything: the new state is exactly what one document lists, which may come in parts.
//!
//! A part is compared with what is in force when it comes, and written beside it. Nothing of it shows before the
//! commit, which costs the same whatever the number of associations; nor is there anything to throw away afterwards.

use super::diff::{Difference, Next, TreeChange};
use super::{
    Association, AssociationId, AssociationRecord, Book, Config, ConfigPatch, Queue, SiteLimit, Weights,
    id_of,
};
use crate::ids::{BankName, ProjectName, QueueName};
use std::collections::BTreeMap;

/// A part of a whole policy. What is `None` this part does not speak of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyPart {
    /// Associations with the default banks of their users.
    pub associations: Option<Vec<AssociationRecord>>,
    /// Queues.
    pub queues: Option<Vec<Queue>>,
    /// Projects, in order.
    pub projects: Option<Vec<ProjectName>>,
    /// Bank priorities.
    pub banks: Option<Vec<(BankName, f64)>>,
    /// Banks, each with the one above, as far as the push says.
    pub parents: Vec<(BankName, BankName)>,
    /// Limits of the site's own. No part need speak of them.
    pub limits: Vec<SiteLimit>,
    /// Weights that differ from the defaults.
    pub weights: Option<Vec<(String, i64)>>,
    /// Switches.
    pub config: ConfigPatch,
}

/// What the open push brought so far, besides what stands in the book's own tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Staged {
    /// `removed` is known at the commit only.
    difference: Difference,
    has_associations: bool,
    queues: Option<BTreeMap<QueueName, Queue>>,
    projects: Option<Vec<ProjectName>>,
    banks: Option<BTreeMap<BankName, f64>>,
    parents: Vec<(BankName, BankName)>,
    limits: Vec<SiteLimit>,
    weights: Option<Vec<(String, i64)>>,
    config: ConfigPatch,
    keeps_config: bool,
}

impl Staged {
    /// The weights that it lists.
    fn weights(&self) -> Weights {
        let mut weights = Weights::default();
        self.weights.iter().flatten().for_each(|(factor, weight)| weights.set(factor, *weight));
        weights
    }

    /// The switches once it is committed over `config`.
    fn config_after(&self, config: Config) -> Config {
        let before = if self.keeps_config { config } else { Config::default() };
        before.patched(self.config)
    }

    fn count(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Added => &mut self.difference.added,
            Kind::Changed => &mut self.difference.changed,
            Kind::Unchanged => &mut self.difference.unchanged,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Added,
    Changed,
    Unchanged,
}

impl Kind {
    fn of<T: PartialEq>(present: Option<T>, next: T) -> Kind {
        match present {
            None => Kind::Added,
            Some(present) if present == next => Kind::Unchanged,
            Some(_) => Kind::Changed,
        }
    }
}

impl Book {
    /// Opens a push; one that is open is given up. With `keeps_config` switches that no part mentions stay as they are.
    pub fn begin(&mut self, keeps_config: bool) {
        self.epochs.begin();
        self.drop_given_up();
        self.staged = Some(Staged { keeps_config, ..Staged::default() });
    }

    /// Whether a push is open.
    pub fn is_staging(&self) -> bool {
        self.staged.is_some()
    }

    /// Takes a part of the open push in. Of a record that comes twice the last one counts.
    pub fn stage(&mut self, part: PolicyPart) {
        let Some(mut staged) = self.staged.take() else { return };
        staged.has_associations |= part.associations.is_some();
        for record in part.associations.into_iter().flatten() {
            self.stage_record(&mut staged, record);
        }
        if let Some(queues) = part.queues {
            let queues = queues.into_iter().map(|queue| (queue.name.clone(), queue));
            staged.queues.get_or_insert_default().extend(queues);
        }
        if let Some(projects) = part.projects {
            staged.projects.get_or_insert_default().extend(projects);
        }
        if let Some(banks) = part.banks {
            staged.banks.get_or_insert_default().extend(banks);
        }
        staged.parents.extend(part.parents);
        staged.limits.extend(part.limits);
        if let Some(weights) = part.weights {
            staged.weights.get_or_insert_default().extend(weights);
        }
        staged.config = staged.config.then(part.config);
        self.staged = Some(staged);
    }

    /// An array that no part of the open push spoke of: it is not whole yet.
    pub fn lacks(&self) -> Option<&'static str> {
        let Some(staged) = &self.staged else { return Some("associations") };
        let arrays = [
            ("associations", staged.has_associations),
            ("queues", staged.queues.is_some()),
            ("projects", staged.projects.is_some()),
            ("banks", staged.banks.is_some()),
            ("priority_factors", staged.weights.is_some()),
        ];
        arrays.into_iter().find(|(_, is_there)| !is_there).map(|(array, _)| array)
    }

    /// What committing the open push changes of the tree, which counts as a change of the associations and banks that it concerns.
    pub fn note_tree(&mut self, change: TreeChange) {
        self.tree_change = change;
    }

    /// How many associations differ by nothing but what the tree has of them.
    fn changed_in_tree(&self) -> usize {
        let is_unchanged = |id: &AssociationId| {
            self.staged_values(*id).is_some_and(|pushed| self.present_values(*id) == Some(pushed))
        };
        let found = self
            .tree_change
            .associations
            .iter()
            .filter_map(|(user, bank)| self.users.get(user)?.banks.get(bank).copied());
        found.filter(is_unchanged).count()
    }

    /// What committing the open push would change.
    fn staged_difference(&self) -> Difference {
        let Some(staged) = &self.staged else { return Difference::default() };
        let mut difference = staged.difference;
        difference.removed = self.present.saturating_sub(difference.changed + difference.unchanged);
        let in_tree = self.changed_in_tree();
        difference.changed += in_tree;
        difference.unchanged = difference.unchanged.saturating_sub(in_tree);
        let (queues, banks) =
            (staged.queues.clone().unwrap_or_default(), staged.banks.clone().unwrap_or_default());
        let next = Next {
            queues: &queues,
            projects: staged.projects.as_deref().unwrap_or_default(),
            banks: &banks,
            limits: &staged.limits,
            weights: &staged.weights(),
            config: staged.config_after(self.config),
        };
        difference.others = self.compared(&next, &self.tree_change);
        difference
    }

    /// Makes the book exactly what the parts of the open push listed. Ids of associations that remain stay theirs; a
    /// removed one keeps its record for the jobs that still count in it, and takes its id up again if it returns.
    pub fn commit(&mut self) -> Difference {
        let difference = self.staged_difference();
        self.tree_change = TreeChange::default();
        let Some(staged) = self.staged.take() else { return difference };
        self.epochs.commit();
        self.present = difference.added + difference.changed + difference.unchanged;
        self.has_data |= self.present > 0;
        (self.weights, self.config) = (staged.weights(), staged.config_after(self.config));
        self.queues = staged.queues.unwrap_or_default();
        self.projects = staged.projects.unwrap_or_default();
        self.banks = staged.banks.unwrap_or_default();
        self.set_pushed_limits(staged.limits, staged.parents);
        self.generation += 1;
        self.latest = difference;
        difference
    }

    /// Gives the open push up.
    pub fn abort(&mut self) {
        self.epochs.abort();
        self.drop_given_up();
        (self.staged, self.tree_change) = (None, TreeChange::default());
    }

    /// Returns the number of pushes given up that are noted.
    #[cfg(test)]
    pub(super) fn given_up(&self) -> usize {
        self.epochs.given_up()
    }

    /// Removes what pushes that were given up have left, once there are many of them.
    fn drop_given_up(&mut self) {
        if !self.epochs.are_many_given_up() {
            return;
        }
        let epochs = &self.epochs;
        self.entries.iter_mut().for_each(|entry| entry.drop_given_up(epochs));
        self.fairshares.drop_given_up(epochs);
        self.users.values_mut().for_each(|user| user.default_bank.drop_given_up(epochs));
        self.epochs.forget_given_up();
    }

    fn stage_record(&mut self, staged: &mut Staged, record: AssociationRecord) {
        let AssociationRecord { association, def_bank, fairshare } = record;
        let (user, id) = id_of(&mut self.users, &mut self.entries, &association);
        if user.default_bank.staged(&self.epochs) != Some(&def_bank) {
            user.default_bank.stage(&self.epochs, def_bank);
        }
        let present = self.present_values(id);
        if let Some(former) = self.staged_values(id) {
            *staged.count(Kind::of(present, former)) -= 1;
        }
        *staged.count(Kind::of(present, (&association, fairshare))) += 1;
        self.fairshares.stage(&self.epochs, id, fairshare);
        if let Some(entry) = self.entries.get_mut(id.index()) {
            // Most pushes bring most records as they are.
            if entry.present(&self.epochs) == Some(&association) {
                entry.keep(&self.epochs);
            } else {
                entry.stage(&self.epochs, association);
            }
        }
    }

    /// What the open push brought for an association.
    fn staged_values(&self, id: AssociationId) -> Option<(&Association, f64)> {
        let association = self.entries.get(id.index())?.staged(&self.epochs)?;
        Some((association, self.fairshares.staged(&self.epochs, id)?))
    }

    /// Notes that a record in force is about to become `next`: the open push may have been compared with it.
    pub(super) fn present_changes(&mut self, id: AssociationId, next: (&Association, f64)) {
        let Some(pushed) = self.staged_values(id) else { return };
        let (before, after) = (Kind::of(self.present_values(id), pushed), Kind::of(Some(next), pushed));
        if let Some(staged) = &mut self.staged {
            *staged.count(before) -= 1;
            *staged.count(after) += 1;
        }
    }
}
