// SPDX-License-Identifier: LGPL-3.0-only
//! A whole policy, and what putting it in force changes.

use super::{AssociationRecord, Book, Config, ConfigPatch, PolicyPart, Queue, SiteLimit};
use crate::ids::{BankName, ProjectName, UserId};
use std::collections::BTreeMap;

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
    /// Banks, each with the one above, as far as that is known.
    pub parents: Vec<(BankName, BankName)>,
    /// Limits of the site's own.
    pub limits: Vec<SiteLimit>,
    /// Weights that differ from the defaults.
    pub weights: Vec<(String, i64)>,
    /// Switches.
    pub config: Config,
}

/// What a push changes, in numbers of associations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Associations that did not exist.
    pub added: usize,
    /// Associations whose record differs.
    pub changed: usize,
    /// Associations that vanish: new jobs are rejected, live ones keep counting in them.
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
            let present = self.find(*user, Some(bank.as_str())).and_then(|id| self.present_values(id));
            match present {
                None => difference.added += 1,
                Some(present) if present == (&record.association, record.fairshare) => {
                    difference.unchanged += 1
                }
                Some(_) => difference.changed += 1,
            }
        }
        difference.removed = self.present.saturating_sub(difference.changed + difference.unchanged);
        difference
    }

    /// Makes the book exactly what `policy` lists: a push of one part.
    pub fn replace(&mut self, policy: Policy) -> Difference {
        self.begin(false);
        self.stage(PolicyPart {
            associations: Some(policy.associations),
            queues: Some(policy.queues),
            projects: Some(policy.projects),
            banks: Some(policy.banks),
            parents: policy.parents,
            limits: policy.limits,
            weights: Some(policy.weights),
            config: ConfigPatch::from(policy.config),
        });
        self.commit()
    }
}
