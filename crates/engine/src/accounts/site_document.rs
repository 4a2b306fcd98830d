// SPDX-License-Identifier: LGPL-3.0-only
//! A whole site document, and the differences between it and the current records.

use super::{AssociationRecord, Book, Config, ConfigPatch, Queue, SiteLimit};
use crate::ids::{BankName, ProjectName, QueueName, UserId};
use fairshare::insert_all;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The records of a site document, or of one part of a site document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteRecords {
    /// Associations with the default banks of their users.
    pub associations: Vec<AssociationRecord>,
    /// Queues with their limits.
    pub queues: Vec<Queue>,
    /// The projects in the order of the push.
    pub projects: Vec<ProjectName>,
    /// Bank priorities.
    pub banks: Vec<(BankName, f64)>,
    /// Banks with their parents, if the document contains them.
    pub parents: Vec<(BankName, BankName)>,
    /// Limits in addition to the limits of associations and queues.
    pub limits: Vec<SiteLimit>,
    /// Weights that differ from the defaults.
    pub weights: Vec<(String, i64)>,
    /// Site-wide switches.
    pub config: ConfigPatch,
    /// The names of the arrays that the document contains. Such an array may be empty.
    pub arrays: BTreeSet<&'static str>,
}

impl SiteRecords {
    /// The names of the arrays that a whole document contains.
    pub const ARRAYS: [&str; 5] = ["associations", "queues", "projects", "banks", "priority_factors"];
}

/// The numbers of added, changed and removed records of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ChangeCounts {
    /// New records.
    pub added: usize,
    /// Records whose value changed.
    pub changed: usize,
    /// Current records that the new document does not contain.
    pub removed: usize,
}

impl ChangeCounts {
    /// Compares two tables.
    pub(crate) fn compare<K: Ord, V: PartialEq>(
        before: &BTreeMap<K, V>,
        after: &BTreeMap<K, V>,
    ) -> ChangeCounts {
        let mut counts = ChangeCounts::default();
        for (key, value) in after {
            match before.get(key) {
                None => counts.added += 1,
                Some(old) => counts.changed += usize::from(old != value),
            }
        }
        counts.removed = before.keys().filter(|key| !after.contains_key(key)).count();
        counts
    }

    /// Returns the sums of the counts in `self` and `other`.
    fn plus(self, other: ChangeCounts) -> ChangeCounts {
        ChangeCounts {
            added: self.added + other.added,
            changed: self.changed + other.changed,
            removed: self.removed + other.removed,
        }
    }

    /// Returns true if no record differs.
    pub fn is_empty(&self) -> bool {
        *self == ChangeCounts::default()
    }
}

/// The changes that a push makes to the tree, which a `Book` does not store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeChange {
    /// Associations whose shares changed, or that became active or inactive in the tree.
    pub associations: Vec<(UserId, BankName)>,
    /// Banks whose shares or parent changed, or that became active or inactive.
    pub banks: BTreeSet<BankName>,
    /// The number of settings of the tree that changed, such as the ranking policy.
    pub rules: usize,
    /// Changes of the budgets.
    pub budgets: ChangeCounts,
}

/// The number of changed settings. Settings cannot be added or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigChanges {
    /// The number of changed settings, including the settings of the tree.
    pub changed: usize,
}

/// The differences between a push and the current records, except the differences of associations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Others {
    /// Changes of the queues.
    pub queues: ChangeCounts,
    /// Projects that were added or removed.
    pub projects: ChangeCounts,
    /// Bank priorities, and shares and parents of banks.
    pub banks: ChangeCounts,
    /// Changes of the site limits.
    pub limits: ChangeCounts,
    /// Changes of the weights of factors.
    pub factors: ChangeCounts,
    /// Changes of the budgets. The key is left out if there are none.
    #[serde(skip_serializing_if = "ChangeCounts::is_empty")]
    pub budgets: ChangeCounts,
    /// Changes of the configuration.
    pub config: ConfigChanges,
}

impl Others {
    /// Returns the name and the counts of each kind of record.
    pub fn kinds(&self) -> [(&'static str, ChangeCounts); 6] {
        [
            ("banks", self.banks),
            ("queues", self.queues),
            ("factors", self.factors),
            ("projects", self.projects),
            ("limits", self.limits),
            ("budgets", self.budgets),
        ]
    }
}

/// The differences between a push and the current records. The first four numbers count associations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// New associations.
    pub added: usize,
    /// Associations whose record or shares changed.
    pub changed: usize,
    /// Removed associations. New jobs in them are rejected, and live jobs still count in them.
    pub removed: usize,
    /// Unchanged associations.
    pub unchanged: usize,
    /// The changes of all records except associations.
    #[serde(flatten)]
    pub others: Others,
}

impl Difference {
    /// Counts an association of a push. `is_equal` is true if its values are those before the push.
    pub(super) fn count_association(&mut self, was_in_force: bool, is_equal: bool) {
        let count = match (was_in_force, is_equal) {
            (false, _) => &mut self.added,
            (true, true) => &mut self.unchanged,
            (true, false) => &mut self.changed,
        };
        *count += 1;
    }

    /// Adds the changes in `other`, which belong to the same push.
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
            budgets: mine.budgets.plus(theirs.budgets),
            config: ConfigChanges { changed: mine.config.changed + theirs.config.changed },
        };
    }
}

/// The data of a site, except the associations. A staged push and the stored data have the same tables.
#[derive(Clone, Debug, Default)]
pub struct SiteTables {
    /// The queues by name.
    pub queues: BTreeMap<QueueName, Queue>,
    /// The projects in their pushed order.
    pub projects: Vec<ProjectName>,
    /// The priorities of the banks.
    pub banks: BTreeMap<BankName, f64>,
    /// Banks with their parents.
    pub parents: Vec<(BankName, BankName)>,
    /// The limits of the last push.
    pub limits: Vec<SiteLimit>,
    /// The pushed weights by the name of the factor. Factors without a pushed weight use the configuration or the default. A
    /// weight of an unknown factor is stored and shown, and has no effect.
    pub weights: BTreeMap<String, i64>,
    /// Site-wide switches.
    pub config: Config,
}

impl Book {
    /// Returns the changes from the stored site data to `next`, except the changes of associations.
    pub(super) fn compare(&self, next: &SiteTables, tree: &TreeChange) -> Others {
        let SiteTables { queues, projects, banks, parents: _, limits, weights, config } = &self.tables;
        let to_map = |projects: &[ProjectName]| insert_all(projects.iter().map(|name| (name.clone(), ())));
        let caps = |limits: &[SiteLimit]| -> BTreeMap<_, _> {
            insert_all(limits.iter().map(|it| ((it.target.clone(), it.queue.clone(), it.amount), it.cap)))
        };
        let mut of_banks = ChangeCounts::compare(banks, &next.banks);
        let has_same_priority = |bank: &&BankName| banks.get(*bank) == next.banks.get(*bank);
        of_banks.changed += tree.banks.iter().filter(has_same_priority).count();
        let Config { deny_unknown_queues, zero_score } = *config;
        let switches =
            [deny_unknown_queues != next.config.deny_unknown_queues, zero_score != next.config.zero_score];
        Others {
            queues: ChangeCounts::compare(queues, &next.queues),
            projects: ChangeCounts::compare(&to_map(projects), &to_map(&next.projects)),
            banks: of_banks,
            limits: ChangeCounts::compare(&caps(limits), &caps(&next.limits)),
            factors: ChangeCounts::compare(weights, &next.weights),
            budgets: tree.budgets,
            config: ConfigChanges {
                changed: switches.into_iter().filter(|differs| *differs).count() + tree.rules,
            },
        }
    }
}
