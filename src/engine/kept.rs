// SPDX-License-Identifier: LGPL-3.0-only
//! What is in force, as a push brought it: to be kept for after a restart.

use super::Engine;
use crate::accounts::{AssociationRecord, Config, Queue};
use crate::ids::{BankName, ProjectName, UserId};
use crate::standing::{Bank, Leaf, Rule};

/// An association, and its leaf of the tree if it is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// What is configured for it.
    pub record: AssociationRecord,
    /// Its place in the tree, and its usage.
    pub leaf: Option<Leaf>,
}

/// All but the associations.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// By name.
    pub queues: Vec<Queue>,
    /// In the order they were pushed.
    pub projects: Vec<ProjectName>,
    /// Banks by name, each with its priority, and with its place if it is in the tree.
    pub banks: Vec<((BankName, f64), Option<Bank>)>,
    /// The weights given.
    pub weights: Vec<(String, i64)>,
    /// Switches.
    pub config: Config,
    /// How the tree is ranked, if one was pushed.
    pub rule: Option<Rule>,
}

impl Engine {
    /// Some associations in force, at most `most`, by ascending user id and bank name from the one after `after`.
    pub fn kept(&self, after: Option<(UserId, &BankName)>, most: usize) -> Vec<Kept> {
        let after = after.map(|(user, bank)| (user, bank.as_str()));
        let page = self.book.associations(after).take(most);
        page.map(|(id, association)| Kept {
            record: AssociationRecord {
                association: association.clone(),
                fairshare: self.book.fairshare(id).unwrap_or_default(),
                def_bank: self.book.default_bank(association.user).unwrap_or(&association.bank).clone(),
            },
            leaf: self.standing.leaf(association.user, &association.bank),
        })
        .collect()
    }

    /// All but the associations.
    pub fn kept_rest(&self) -> Rest {
        let banks = self.book.banks();
        Rest {
            queues: self.book.queues().cloned().collect(),
            projects: self.book.projects().to_vec(),
            banks: banks
                .map(|(name, priority)| ((name.clone(), priority), self.standing.bank(name)))
                .collect(),
            weights: self
                .book
                .weights()
                .given()
                .map(|(name, weight)| (name.to_owned(), weight))
                .collect(),
            config: self.book.config(),
            rule: self.standing.pushed_rule(),
        }
    }
}
