// SPDX-License-Identifier: LGPL-3.0-only
//! Replacing everything at once: the new state is exactly what one document lists.

use super::{AssociationRecord, Book, Config, Queue, Weights};
use crate::ids::{BankName, ProjectName, UserId};
use std::collections::{BTreeMap, BTreeSet};

/// A whole policy: all that [`Book`] holds, as one document lists it.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Associations with the default banks of their users.
    pub associations: Vec<AssociationRecord>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Projects, in order.
    pub projects: Vec<ProjectName>,
    /// Bank priorities.
    pub banks: Vec<(BankName, f64)>,
    /// Weights that differ from the defaults.
    pub weights: Vec<(String, i64)>,
    /// Switches.
    pub config: Config,
}

/// What replacing a policy changes, in numbers of associations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Associations that did not exist.
    pub added: usize,
    /// Associations whose record differs.
    pub changed: usize,
    /// Associations that vanish: new jobs are refused, live ones keep counting in them.
    pub removed: usize,
    /// Associations that stay as they are.
    pub unchanged: usize,
}

impl Book {
    /// What [`Book::replace`] would change.
    pub fn difference(&self, policy: &Policy) -> Difference {
        // The last record of an association wins, as it does when the policy is applied.
        let listed: BTreeMap<(UserId, &BankName), _> =
            policy.associations.iter().map(|r| ((r.association.user, &r.association.bank), r)).collect();
        let mut difference = Difference::default();
        for ((user, bank), record) in &listed {
            match self.find(*user, Some(bank.as_str())).and_then(|id| self.association(id)) {
                None => difference.added += 1,
                Some(present) if *present != record.association => difference.changed += 1,
                Some(_) => difference.unchanged += 1,
            }
        }
        let present: usize = self.users.values().map(|u| u.banks.len()).sum();
        difference.removed = present - difference.changed - difference.unchanged;
        difference
    }

    /// Makes the book exactly what `policy` lists. Ids of associations that remain stay theirs; a removed one keeps
    /// its record for the jobs that still count in it, and takes its id up again if it returns.
    pub fn replace(&mut self, policy: Policy) -> Difference {
        let difference = self.difference(&policy);
        let listed: BTreeSet<(UserId, BankName)> =
            policy.associations.iter().map(|r| (r.association.user, r.association.bank.clone())).collect();
        for (user, entry) in &mut self.users {
            entry.banks.retain(|bank, id| {
                let key = (*user, bank.clone());
                let stays = listed.contains(&key);
                if !stays {
                    self.removed.insert(key, *id);
                }
                stays
            });
        }
        self.users.retain(|_, entry| !entry.banks.is_empty());
        self.has_data |= !policy.associations.is_empty();
        for record in policy.associations {
            self.put(record, None);
        }
        self.queues = policy.queues.into_iter().map(|q| (q.name.clone(), q)).collect();
        self.projects = policy.projects;
        self.banks = policy.banks.into_iter().collect();
        self.weights = Weights::default();
        for (factor, weight) in policy.weights {
            self.weights.set(&factor, weight);
        }
        self.config = policy.config;
        self.generation += 1;
        difference
    }
}
