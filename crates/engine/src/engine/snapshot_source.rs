// SPDX-License-Identifier: LGPL-3.0-only
//! Returns the current configuration and usage in the form of a push, for the snapshot.

use super::{Effect, Level, Shared, View, budgets::recount_if_ended_jobs_are_known};
use crate::accounts::{AssociationRecord, Budget, Config, Queue, SiteLimit};
use crate::ids::{BankName, ProjectName, UserId};
use crate::standing::{Bank, Bookmark, Charges, Ended, EvictedUsage, Leaf, Rule};
use fairshare::{Ranking, insert_all};
use std::collections::BTreeMap;

/// An association as the snapshot stores it.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedAssociation {
    /// The pushed record.
    pub record: AssociationRecord,
    /// The leaf of the association in the tree, with its usage; `None` if the association is not in the tree.
    pub leaf: Option<Leaf>,
    /// True if the fair-share of the association follows from the tree and the pushed usage. Then the snapshot need not
    /// store the fair-share.
    pub is_computed: bool,
}

/// The site document without its associations.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedSite {
    /// All queues, by name.
    pub queues: Vec<Queue>,
    /// The projects, in the order of the push.
    pub projects: Vec<ProjectName>,
    /// All banks by name, each with its priority, and with its node if it is in the tree.
    pub banks: Vec<((BankName, f64), Option<Bank>)>,
    /// The pushed weights of factors.
    pub weights: Vec<(String, i64)>,
    /// The pushed limits over limit scopes, without the limits of the configuration.
    pub limits: Vec<SiteLimit>,
    /// The changes of charge factors and of the charging rule, from the last push and from later configurations.
    pub charges: Charges,
    /// The budgets of the last push.
    pub budgets: Vec<Budget>,
    /// The switches.
    pub config: Config,
    /// Leaves of the tree that belong to no association, by bank and user name.
    pub leaves: Vec<Leaf>,
    /// The ranking policy and its options, if a tree was pushed.
    pub rule: Option<Rule>,
}

/// Restores the ended jobs and the evicted usage of the snapshot. Logs and skips invalid records.
pub fn restore_ended_jobs(shared: &mut Shared, ended: Vec<Ended>, sums: Vec<EvictedUsage>) -> Vec<Effect> {
    let mut faults: Vec<String> = Vec::new();
    for sum in sums {
        let fault_of_sum =
            format!("the evicted usage of user {} in bank {} is invalid: not restored", sum.user, sum.bank);
        faults.extend((!shared.standing.restore_evicted(sum)).then_some(fault_of_sum));
    }
    for Ended { job, end } in ended {
        faults.extend(shared.standing.usages.track_end(&job, end).err().map(|bad| bad.to_string()));
    }
    recount_if_ended_jobs_are_known(shared);
    faults.into_iter().map(|fault| Effect::Log(Level::Error, fault)).collect()
}

/// Returns true if the snapshot lacks at least `most` ended jobs. Without a tree, a snapshot contains no ended jobs.
pub fn has_unsaved_jobs(view: &View<'_>, most: usize) -> bool {
    view.standing.tree().is_some() && view.unsaved_ended.has_at_least_n_jobs(most)
}

/// Returns ended jobs that no push covers; none without a tree. See [`standing::Standing::uncovered`].
pub fn uncovered(
    view: &View<'_>,
    from: Bookmark,
    most: usize,
) -> (Vec<Ended>, Vec<EvictedUsage>, Option<Bookmark>) {
    match view.standing.tree() {
        Some(_) => view.standing.uncovered(from, most),
        None => (Vec::new(), Vec::new(), None),
    }
}

/// Returns the fair-shares computed from the pushed usage. [`standing::Standing::as_pushed`] says when it returns `None`.
pub fn as_pushed(view: &View<'_>) -> Option<Ranking> {
    view.standing.as_pushed()
}

/// Returns at most `most` associations, by ascending user id and bank name, beginning after `after`.
pub fn associations_page(
    view: &View<'_>,
    after: Option<(UserId, &BankName)>,
    most: usize,
    as_pushed: Option<&Ranking>,
) -> Vec<SavedAssociation> {
    let after = after.map(|(user, bank)| (user, bank.as_str()));
    let page = view.book.associations(after).take(most);
    page.map(|(id, association)| {
        let (user, bank) = (association.user, &association.bank);
        let fairshare = view.book.fairshare(id).unwrap_or_default();
        let reckoned = as_pushed.and_then(|it| view.standing.get_pushed_fairshare(it, user, bank));
        SavedAssociation {
            record: AssociationRecord {
                association: association.clone(),
                fairshare,
                def_bank: view.book.default_bank(user).unwrap_or(bank).clone(),
            },
            leaf: view.standing.leaf(user, bank),
            is_computed: reckoned.is_some_and(|reckoned| reckoned.to_bits() == fairshare.to_bits()),
        }
    })
    .collect()
}

/// Returns the current site document without its associations.
pub fn site_document(view: &View<'_>) -> SavedSite {
    let tables = view.book.tables();
    let banks = tables.banks.iter();
    let parents: BTreeMap<_, _> = insert_all(tables.parents.iter().cloned());
    // A bank that is not in the tree, because it has no active users, still has a parent. Limits on its parents count
    // its jobs.
    let left_out = |name: &BankName| {
        let parent = Some(parents.get(name)?.clone());
        Some(Bank { name: name.clone(), parent, shares: 1, active: false })
    };
    let history = view.standing.usages.charging().history();
    SavedSite {
        queues: tables.queues.values().cloned().collect(),
        projects: tables.projects.clone(),
        banks: banks
            .map(|(name, priority)| {
                ((name.clone(), *priority), view.standing.bank(name).or_else(|| left_out(name)))
            })
            .collect(),
        weights: tables.weights.clone().into_iter().collect(),
        limits: tables.limits.clone(),
        budgets: view.budgets.windows().map(|window| window.budget.clone()).collect(),
        charges: Charges { factors: history.changes().collect(), rules: history.rules().to_vec() },
        config: view.book.config(),
        leaves: view.standing.list_leaves_without_jobs(),
        rule: view.standing.rule().cloned(),
    }
}
