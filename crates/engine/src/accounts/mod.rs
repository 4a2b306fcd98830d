// SPDX-License-Identifier: LGPL-3.0-only
//! What was configured: associations, queues, projects, banks, weights. No job is known here.
//!
//! A [`Book`] changes only by whole, validated records, so it is never half applied.

mod association;
mod config;
mod derived;
mod diff;
mod queue;
mod running_limits;
mod site_limits;
mod staging;
#[cfg(test)]
mod tests;
mod versions;
mod weights;

pub use association::Association;
pub use config::{Config, ConfigPatch, ZeroScore};
pub use diff::{ChangeCounts, Difference, Others, Policy, TreeChange};
pub use queue::Queue;
pub use running_limits::{RunningLimits, RunningLimitsOf};
pub use site_limits::{Cap, QueueParents, Scope, ScopeCaps, SiteLimit, SiteLimits, Target, measures};
pub use staging::PolicyPart;
pub use weights::Weights;

use crate::ids::{BankName, ProjectName, QueueName, UserId};
use derived::FairShares;
use diff::Next;
use site_limits::LimitSources;
use staging::Staged;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use versions::{Epochs, Versioned};

/// Names an association for as long as the book lives; the index is never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(u32);

impl AssociationId {
    /// Position in tables that run parallel to the book.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The id at a position in such a table.
    pub fn from_index(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(AssociationId)
    }
}

/// An association together with what else its record gives: the user's default bank, and a fair-share.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationRecord {
    /// The association.
    pub association: Association,
    /// Fair-share, normally in [0, 1]; any finite number is kept.
    pub fairshare: f64,
    /// The user's default bank; need not be one of the user's banks.
    pub def_bank: BankName,
}

/// Whose ids are whose, also of associations that were removed and may return: live jobs still count in them.
#[derive(Clone, Debug, Default)]
struct User {
    default_bank: Versioned<BankName>,
    banks: BTreeMap<BankName, AssociationId>,
}

/// All that is configured.
#[derive(Clone, Debug, Default)]
pub struct Book {
    entries: Vec<Versioned<Association>>,
    fairshares: FairShares,
    users: BTreeMap<UserId, User>,
    epochs: Epochs,
    /// The open push.
    staged: Option<Staged>,
    /// Number of associations in force.
    present: usize,
    latest: Difference,
    /// What the push that is about to be committed changes of the tree.
    tree_change: TreeChange,
    queues: BTreeMap<QueueName, Queue>,
    projects: Vec<ProjectName>,
    banks: BTreeMap<BankName, f64>,
    weights: Weights,
    config: Config,
    limits: LimitSources,
    generation: u64,
    has_data: bool,
}

impl Book {
    /// Whether any association was accepted since the plugin was loaded. Until then nothing can be judged.
    pub fn has_data(&self) -> bool {
        self.has_data
    }

    /// Number of accepted updates.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What the last push of associations or of a whole policy changed.
    pub fn latest(&self) -> Difference {
        self.latest
    }

    /// The association of `user` in `bank`, or in the user's default bank.
    pub fn find(&self, user: UserId, bank: Option<&str>) -> Option<AssociationId> {
        let user = self.users.get(&user)?;
        let bank = match bank {
            Some(bank) => bank,
            None => user.default_bank.present(&self.epochs)?.as_str(),
        };
        user.banks.get(bank).copied().filter(|id| self.present(*id).is_some())
    }

    /// The bank of jobs of `user` that name none.
    pub fn default_bank(&self, user: UserId) -> Option<&BankName> {
        self.users.get(&user)?.default_bank.present(&self.epochs)
    }

    /// The record behind an id; also of associations that were removed.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.entries.get(id.index())?.last(&self.epochs)
    }

    /// The fair-share of an association; of one that was removed, the last it had.
    pub fn fairshare(&self, id: AssociationId) -> Option<f64> {
        self.fairshares.last(&self.epochs, id)
    }

    fn present(&self, id: AssociationId) -> Option<&Association> {
        self.entries.get(id.index())?.present(&self.epochs)
    }

    /// Whether the last push still listed it.
    pub fn is_in_force(&self, id: AssociationId) -> bool {
        self.present(id).is_some()
    }

    /// What a record would bring for an association in force.
    fn present_values(&self, id: AssociationId) -> Option<(&Association, f64)> {
        Some((self.present(id)?, self.fairshare(id)?))
    }

    /// How many associations are in force.
    pub fn len(&self) -> usize {
        self.present
    }

    /// Whether no association is in force.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Associations by ascending user id and bank name, from the one that comes after `after`.
    pub fn associations(
        &self,
        after: Option<(UserId, &str)>,
    ) -> impl Iterator<Item = (AssociationId, &Association)> {
        let first = after.map_or(UserId(0), |(user, _)| user);
        self.users
            .range(first..)
            .flat_map(move |(user, entry)| {
                let from = match after {
                    Some((first, bank)) if first == *user => Excluded(bank),
                    _ => Unbounded,
                };
                entry.banks.range::<str, _>((from, Unbounded)).map(|(_, id)| *id)
            })
            .filter_map(|id| Some((id, self.present(id)?)))
    }

    /// A user's associations in force, by bank name.
    pub fn associations_of(&self, user: UserId) -> impl Iterator<Item = (AssociationId, &Association)> {
        self.all_of(user).filter(|(id, _)| self.is_in_force(*id))
    }

    /// The same with those that were in force once and were removed since.
    pub fn all_of(&self, user: UserId) -> impl Iterator<Item = (AssociationId, &Association)> {
        let ids = self.users.get(&user).into_iter().flat_map(|user| user.banks.values().copied());
        ids.filter_map(|id| Some((id, self.association(id)?)))
    }

    /// Associations that were in force once and were removed since.
    pub fn removed(&self) -> impl Iterator<Item = (AssociationId, &Association)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let record = entry.last(&self.epochs)?;
            entry.present(&self.epochs).is_none().then_some((AssociationId::from_index(index)?, record))
        })
    }

    /// A queue that was pushed.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.get(name)
    }

    /// All queues by name.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.values()
    }

    /// Whether the project is one of the site's.
    pub fn has_project(&self, name: &str) -> bool {
        self.projects.iter().any(|p| p.as_str() == name)
    }

    /// Projects in the order they were pushed.
    pub fn projects(&self) -> &[ProjectName] {
        &self.projects
    }

    /// The priority of a bank, where one was pushed.
    pub fn bank_priority(&self, bank: &str) -> Option<f64> {
        self.banks.get(bank).copied()
    }

    /// Banks and their priorities.
    pub fn banks(&self) -> impl Iterator<Item = (&BankName, f64)> {
        self.banks.iter().map(|(name, priority)| (name, *priority))
    }

    /// The weights in force.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The switches in force.
    pub fn config(&self) -> Config {
        self.config
    }

    /// Inserts or replaces associations; the last record of a user gives the default bank. `owner` is the instance
    /// owner: a push ends with a synthetic record for it alone, which must not displace an active default bank.
    pub fn upsert(&mut self, records: Vec<AssociationRecord>, owner: UserId) {
        let keeps = match records.as_slice() {
            [only] => only.association.user == owner && self.has_other_default(owner, &only.association.bank),
            _ => false,
        };
        self.latest = Difference::default();
        for record in records {
            self.has_data = true;
            let kept = keeps.then(|| self.default_bank(record.association.user).cloned()).flatten();
            self.put(record, kept);
        }
        self.generation += 1;
    }

    fn has_other_default(&self, user: UserId, bank: &BankName) -> bool {
        let active = |id| self.association(id).is_some_and(|a| a.active);
        self.default_bank(user).is_some_and(|default| default != bank)
            && self.find(user, None).is_some_and(active)
    }

    fn put(&mut self, record: AssociationRecord, kept_default: Option<BankName>) {
        let AssociationRecord { association, def_bank, fairshare } = record;
        let (user, id) = id_of(&mut self.users, &mut self.entries, &association);
        user.default_bank.put(&self.epochs, kept_default.unwrap_or(def_bank));
        self.present_changes(id, (&association, fairshare));
        match self.present_values(id) {
            None => {
                self.present += 1;
                self.latest.added += 1;
            }
            Some(present) if present == (&association, fairshare) => self.latest.unchanged += 1,
            Some(_) => self.latest.changed += 1,
        }
        self.fairshares.put(&self.epochs, id, fairshare);
        if let Some(entry) = self.entries.get_mut(id.index()) {
            entry.put(&self.epochs, association);
        }
    }

    /// Replaces all queues.
    pub fn set_queues(&mut self, queues: Vec<Queue>) {
        let queues = queues.into_iter().map(|q| (q.name.clone(), q)).collect();
        let others = self.compared(&Next { queues: &queues, ..self.held() }, &TreeChange::default());
        self.note_piece(others);
        self.queues = queues;
    }

    /// Replaces all projects, keeping their order.
    pub fn set_projects(&mut self, projects: Vec<ProjectName>) {
        let others = self.compared(&Next { projects: &projects, ..self.held() }, &TreeChange::default());
        self.note_piece(others);
        self.projects = projects;
    }

    /// Replaces all bank priorities.
    pub fn set_banks(&mut self, banks: Vec<(BankName, f64)>) {
        let banks = banks.into_iter().collect();
        let others = self.compared(&Next { banks: &banks, ..self.held() }, &TreeChange::default());
        self.note_piece(others);
        self.banks = banks;
    }

    /// Sets the listed weights, leaving others as they are.
    pub fn set_weights(&mut self, listed: Vec<(String, i64)>) {
        let mut weights = self.weights.clone();
        for (factor, weight) in listed {
            weights.set(&factor, weight);
        }
        let others = self.compared(&Next { weights: &weights, ..self.held() }, &TreeChange::default());
        self.note_piece(others);
        self.weights = weights;
    }

    /// Sets the switches that `patch` mentions, leaving others as they are.
    pub fn set_config(&mut self, patch: ConfigPatch) {
        let config = self.config.patched(patch);
        let others = self.compared(&Next { config, ..self.held() }, &TreeChange::default());
        self.note_piece(others);
        self.config = config;
    }

    /// Notes what a piece of a push changes that is no association.
    fn note_piece(&mut self, others: Others) {
        self.latest = Difference { others, ..Difference::default() };
        self.generation += 1;
    }
}

/// The user of an association, and its id; a new one if it never had one.
fn id_of<'a>(
    users: &'a mut BTreeMap<UserId, User>,
    entries: &mut Vec<Versioned<Association>>,
    association: &Association,
) -> (&'a mut User, AssociationId) {
    let user = users.entry(association.user).or_default();
    if let Some(id) = user.banks.get(&association.bank) {
        let id = *id;
        return (user, id);
    }
    let id = AssociationId(u32::try_from(entries.len()).unwrap_or(u32::MAX));
    entries.push(Versioned::default());
    user.banks.insert(association.bank.clone(), id);
    (user, id)
}
