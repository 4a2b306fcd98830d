// SPDX-License-Identifier: LGPL-3.0-only
//! What was configured: associations, queues, projects, banks, weights. No job is known here.
//!
//! A [`Book`] changes only by whole, validated records, so it is never half applied.
#![forbid(unsafe_code)]

mod association;
mod diff;
mod queue;
#[cfg(test)]
mod tests;

pub use association::Association;
pub use diff::{Difference, Policy};
pub use queue::Queue;

use crate::ids::{BankName, ProjectName, QueueName, UserId};
use std::collections::BTreeMap;

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

/// An association together with the default bank its record gives the user.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationRecord {
    /// The association.
    pub association: Association,
    /// The user's default bank; need not be one of the user's banks.
    pub def_bank: BankName,
}

/// Weights of the priority factors. Factors with names unknown to us are kept and shown, without effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Weight of the association's fair-share.
    pub fairshare: i64,
    /// Weight of the queue's priority.
    pub queue: i64,
    /// Weight of the bank's priority.
    pub bank: i64,
    /// Weight of the job's urgency above the default of 16.
    pub urgency: i64,
    /// Others, by name.
    pub others: BTreeMap<String, i64>,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { fairshare: 100_000, queue: 10_000, bank: 0, urgency: 1_000, others: BTreeMap::new() }
    }
}

impl Weights {
    /// Sets the weight of the named factor.
    pub fn set(&mut self, factor: &str, weight: i64) {
        match factor {
            "fairshare" => self.fairshare = weight,
            "queue" => self.queue = weight,
            "bank" => self.bank = weight,
            "urgency" => self.urgency = weight,
            other => {
                self.others.insert(other.to_owned(), weight);
            }
        }
    }
}

/// What a score of 0 or less becomes (flaw 18 of the specification).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroScore {
    /// Priority 0: the job is held, as flux-accounting does.
    #[default]
    Hold,
    /// Priority 1: the job is last, but is scheduled.
    Floor,
}

/// Site-wide switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Refuse jobs that name a queue which was not pushed.
    pub deny_unknown_queues: bool,
    /// See [`ZeroScore`].
    pub zero_score: ZeroScore,
}

#[derive(Clone, Debug)]
struct User {
    default_bank: BankName,
    banks: BTreeMap<BankName, AssociationId>,
}

/// All that is configured.
#[derive(Clone, Debug, Default)]
pub struct Book {
    entries: Vec<Association>,
    users: BTreeMap<UserId, User>,
    /// Removed associations that may return; live jobs still count in them.
    removed: BTreeMap<(UserId, BankName), AssociationId>,
    queues: BTreeMap<QueueName, Queue>,
    projects: Vec<ProjectName>,
    banks: BTreeMap<BankName, f64>,
    weights: Weights,
    config: Config,
    generation: u64,
    has_data: bool,
    /// The instance owner's own association, if its record came by itself and lists no queue: no queue is closed to it.
    owners_own: Option<AssociationId>,
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

    /// The association of `user` in `bank`, or in the user's default bank.
    pub fn find(&self, user: UserId, bank: Option<&str>) -> Option<AssociationId> {
        let user = self.users.get(&user)?;
        user.banks.get(bank.unwrap_or(user.default_bank.as_str())).copied()
    }

    /// Whether jobs of an association may be submitted to `queue`, a queue the site has configured.
    pub fn permits_queue(&self, id: AssociationId, queue: &str) -> bool {
        self.owners_own == Some(id) || self.association(id).is_some_and(|a| a.permits_queue(queue))
    }

    /// The bank of jobs of `user` that name none.
    pub fn default_bank(&self, user: UserId) -> Option<&BankName> {
        self.users.get(&user).map(|u| &u.default_bank)
    }

    /// The record behind an id; also of associations that were removed.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.entries.get(id.index())
    }

    /// How many association ids exist.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no association was ever accepted.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Users by ascending id, each with its associations by ascending bank name.
    pub fn users(
        &self,
    ) -> impl Iterator<Item = (UserId, impl Iterator<Item = (AssociationId, &Association)>)> {
        self.users.iter().map(|(user, entry)| {
            let banks = entry.banks.values();
            (*user, banks.filter_map(|id| Some((*id, self.entries.get(id.index())?))))
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
    /// owner: a push ends with a synthetic record for it alone, which lists no queue because none is to be closed to it,
    /// and which must not displace an active default bank.
    pub fn upsert(&mut self, records: Vec<AssociationRecord>, owner: UserId) {
        let synthetic = match records.as_slice() {
            [only] if only.association.user == owner => Some(only.association.clone()),
            _ => None,
        };
        let keeps = synthetic.as_ref().is_some_and(|own| self.has_other_default(owner, &own.bank));
        for record in records {
            self.has_data = true;
            let kept = keeps.then(|| self.default_bank(record.association.user).cloned()).flatten();
            self.put(record, kept);
        }
        if let Some(own) = synthetic.filter(|own| own.queues.is_empty()) {
            self.owners_own = self.find(owner, Some(own.bank.as_str()));
        }
        self.generation += 1;
    }

    fn has_other_default(&self, user: UserId, bank: &BankName) -> bool {
        let active = |id| self.association(id).is_some_and(|a| a.active);
        self.default_bank(user).is_some_and(|default| default != bank)
            && self.find(user, None).is_some_and(active)
    }

    fn put(&mut self, record: AssociationRecord, kept_default: Option<BankName>) {
        let AssociationRecord { association, def_bank } = record;
        let default_bank = kept_default.unwrap_or(def_bank);
        let user = self
            .users
            .entry(association.user)
            .or_insert_with(|| User { default_bank: default_bank.clone(), banks: BTreeMap::new() });
        user.default_bank = default_bank;
        let returning = || {
            // Only a book that ever removed something pays for the key.
            if self.removed.is_empty() {
                return None;
            }
            self.removed.remove(&(association.user, association.bank.clone()))
        };
        let id = user.banks.get(&association.bank).copied().or_else(returning);
        match id.and_then(|id| self.entries.get_mut(id.index()).map(|slot| (id, slot))) {
            Some((id, slot)) => {
                self.owners_own = self.owners_own.filter(|own| *own != id);
                user.banks.insert(association.bank.clone(), id);
                *slot = association;
            }
            None => {
                let id = AssociationId(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
                user.banks.insert(association.bank.clone(), id);
                self.entries.push(association);
            }
        }
    }

    /// Replaces all queues.
    pub fn set_queues(&mut self, queues: Vec<Queue>) {
        self.queues = queues.into_iter().map(|q| (q.name.clone(), q)).collect();
        self.generation += 1;
    }

    /// Replaces all projects, keeping their order.
    pub fn set_projects(&mut self, projects: Vec<ProjectName>) {
        self.projects = projects;
        self.generation += 1;
    }

    /// Replaces all bank priorities.
    pub fn set_banks(&mut self, banks: Vec<(BankName, f64)>) {
        self.banks = banks.into_iter().collect();
        self.generation += 1;
    }

    /// Sets the listed weights, leaving others as they are.
    pub fn set_weights(&mut self, weights: Vec<(String, i64)>) {
        for (factor, weight) in weights {
            self.weights.set(&factor, weight);
        }
        self.generation += 1;
    }

    /// Replaces the switches.
    pub fn set_config(&mut self, config: Config) {
        self.config = config;
        self.generation += 1;
    }
}
