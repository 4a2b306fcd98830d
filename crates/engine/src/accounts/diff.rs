// SPDX-License-Identifier: LGPL-3.0-only
//! A whole policy, and what putting it in force changes.

use super::{AssociationRecord, Book, Config, ConfigPatch, PolicyPart, Queue, SiteLimit, Weights};
use crate::ids::{BankName, ProjectName, QueueName, UserId};
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
    /// Banks, each with the one above, as far as that is known.
    pub parents: Vec<(BankName, BankName)>,
    /// Limits of the site's own.
    pub limits: Vec<SiteLimit>,
    /// Weights that differ from the defaults.
    pub weights: Vec<(String, i64)>,
    /// Switches.
    pub config: Config,
}

/// How many records of a kind were added, changed and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// Records that did not exist.
    pub added: usize,
    /// Records whose value differs.
    pub changed: usize,
    /// Records that vanish.
    pub removed: usize,
}

impl ChangeCounts {
    /// Compares two tables.
    fn of<K: Ord, V: PartialEq>(before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> ChangeCounts {
        let mut counts = ChangeCounts::default();
        for (key, value) in after {
            match before.get(key) {
                None => counts.added += 1,
                Some(former) => counts.changed += usize::from(former != value),
            }
        }
        counts.removed = before.keys().filter(|key| !after.contains_key(key)).count();
        counts
    }

    fn plus(self, other: ChangeCounts) -> ChangeCounts {
        ChangeCounts {
            added: self.added + other.added,
            changed: self.changed + other.changed,
            removed: self.removed + other.removed,
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(self) -> bool {
        self == ChangeCounts::default()
    }
}

/// What a push changes of the tree, which the book does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeChange {
    /// Associations with other shares, or that became active or inactive in it.
    pub associations: Vec<(UserId, BankName)>,
    /// Banks with other shares, with another parent, or that became active or inactive.
    pub banks: BTreeSet<BankName>,
    /// How many of its rules are others.
    pub rules: usize,
}

/// What a push changes beside associations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Queues.
    pub queues: ChangeCounts,
    /// Projects.
    pub projects: ChangeCounts,
    /// Banks: their priorities, and their shares and places in the tree.
    pub banks: ChangeCounts,
    /// Limits of the site's own.
    pub limits: ChangeCounts,
    /// Weights of factors.
    pub factors: ChangeCounts,
    /// Switches, and rules of the tree, that differ.
    pub config: usize,
}

impl Others {
    /// Each kind that has counts of its own, by its name.
    pub fn kinds(&self) -> [(&'static str, ChangeCounts); 5] {
        [
            ("queues", self.queues),
            ("projects", self.projects),
            ("banks", self.banks),
            ("limits", self.limits),
            ("factors", self.factors),
        ]
    }
}

/// What a push changes. The numbers at the top are those of associations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Associations that did not exist.
    pub added: usize,
    /// Associations whose record differs, or whose shares do.
    pub changed: usize,
    /// Associations that vanish: new jobs are rejected, live ones keep counting in them.
    pub removed: usize,
    /// Associations that stay as they are.
    pub unchanged: usize,
    /// What differs beside associations.
    pub others: Others,
}

impl Difference {
    /// Adds what another piece of the same push changed.
    pub fn add(&mut self, other: Difference) {
        self.added += other.added;
        self.changed += other.changed;
        self.removed += other.removed;
        self.unchanged += other.unchanged;
        let (mine, theirs) = (self.others, other.others);
        self.others = Others {
            queues: mine.queues.plus(theirs.queues),
            projects: mine.projects.plus(theirs.projects),
            banks: mine.banks.plus(theirs.banks),
            limits: mine.limits.plus(theirs.limits),
            factors: mine.factors.plus(theirs.factors),
            config: mine.config + theirs.config,
        };
    }
}

/// What a book is to hold beside associations.
pub(super) struct Next<'a> {
    pub queues: &'a BTreeMap<QueueName, Queue>,
    pub projects: &'a [ProjectName],
    pub banks: &'a BTreeMap<BankName, f64>,
    pub limits: &'a [SiteLimit],
    pub weights: &'a Weights,
    pub config: Config,
}

impl Book {
    /// What differs between what the book holds beside associations and what it is to hold.
    pub(super) fn compared(&self, next: &Next<'_>, tree: &TreeChange) -> Others {
        let named = |projects: &[ProjectName]| projects.iter().map(|name| (name.clone(), ())).collect();
        let limits = |limits: &[SiteLimit]| -> BTreeMap<_, _> {
            limits.iter().map(|it| ((it.target.clone(), it.queue.clone(), it.amount), it.cap)).collect()
        };
        let weights = |weights: &Weights| -> BTreeMap<String, i64> {
            weights.given().map(|(name, weight)| (name.to_owned(), weight)).collect()
        };
        let mut banks = ChangeCounts::of(&self.banks, next.banks);
        let is_same = |bank: &&BankName| self.banks.get(*bank) == next.banks.get(*bank);
        banks.changed += tree.banks.iter().filter(is_same).count();
        let (before, after) = (self.config, next.config);
        let switches =
            [before.deny_unknown_queues != after.deny_unknown_queues, before.zero_score != after.zero_score];
        Others {
            queues: ChangeCounts::of(&self.queues, next.queues),
            projects: ChangeCounts::of(&named(&self.projects), &named(next.projects)),
            banks,
            limits: ChangeCounts::of(&limits(self.pushed_limits()), &limits(next.limits)),
            factors: ChangeCounts::of(&weights(&self.weights), &weights(next.weights)),
            config: switches.into_iter().filter(|differs| *differs).count() + tree.rules,
        }
    }

    /// What the book holds beside associations.
    pub(super) fn held(&self) -> Next<'_> {
        Next {
            queues: &self.queues,
            projects: &self.projects,
            banks: &self.banks,
            limits: self.pushed_limits(),
            weights: &self.weights,
            config: self.config,
        }
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
