// SPDX-License-Identifier: LGPL-3.0-only
//! What is in force, as a push brought it: to be kept for after a restart.

use super::{Effect, Level, Shared, View};
use crate::accounts::{AssociationRecord, Config, Queue, SiteLimit};
use crate::ids::{BankName, ProjectName, UserId};
use crate::standing::{AsPushed, Bank, Bookmark, Ended, EvictedUsage, Leaf, Rule};
use fairshare::Shares;
use std::collections::BTreeMap;

/// An association, and its leaf of the tree if it is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// What is configured for it.
    pub record: AssociationRecord,
    /// Its place in the tree, and its usage.
    pub leaf: Option<Leaf>,
    /// Its fair-share is what the tree makes of the usages that were pushed: it can be reckoned again.
    pub is_reckoned: bool,
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
    /// Limits of the site's own, as they were pushed.
    pub limits: Vec<SiteLimit>,
    /// Switches.
    pub config: Config,
    /// Leaves of the tree that no job matches, by bank and user name.
    pub leaves: Vec<Leaf>,
    /// How the tree is ranked, if one was pushed.
    pub rule: Option<Rule>,
}

/// Takes what was kept of ended jobs. What can't be right is told, and not counted.
pub(super) fn recall(shared: &mut Shared, ended: Vec<Ended>, sums: Vec<EvictedUsage>) -> Vec<Effect> {
    let mut faults: Vec<String> = Vec::new();
    for sum in sums {
        let who = format!("what was given up of user {} in bank {} can't be right", sum.user, sum.bank);
        faults.extend((!shared.standing.restore_evicted(sum)).then_some(who));
    }
    for Ended { job, end } in ended {
        faults.extend(shared.standing.ended(&job, end).err().map(|bad| bad.to_string()));
    }
    faults.into_iter().map(|fault| Effect::Log(Level::Error, fault)).collect()
}

/// Returns true if at least `most` jobs ended since they were taken last. Without a tree no snapshot keeps ended jobs.
pub fn has_news(view: &View<'_>, most: usize) -> bool {
    view.standing.tree().is_some() && view.news.has(most)
}

/// Ended jobs that no push covers: see [`standing::Standing::uncovered`].
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

/// See [`standing::Standing::as_pushed`].
pub fn as_pushed(view: &View<'_>) -> Option<AsPushed> {
    view.standing.as_pushed()
}

/// Some associations in force, at most `most`, by ascending user id and bank name from the one after `after`.
pub fn kept(
    view: &View<'_>,
    after: Option<(UserId, &BankName)>,
    most: usize,
    as_pushed: Option<&AsPushed>,
) -> Vec<Kept> {
    let after = after.map(|(user, bank)| (user, bank.as_str()));
    let page = view.book.associations(after).take(most);
    page.map(|(id, association)| {
        let (user, bank) = (association.user, &association.bank);
        let fairshare = view.book.fairshare(id).unwrap_or_default();
        let reckoned = as_pushed.and_then(|it| view.standing.fairshare_as_pushed(it, user, bank));
        Kept {
            record: AssociationRecord {
                association: association.clone(),
                fairshare,
                def_bank: view.book.default_bank(user).unwrap_or(bank).clone(),
            },
            leaf: view.standing.leaf(user, bank),
            is_reckoned: reckoned.is_some_and(|reckoned| reckoned.to_bits() == fairshare.to_bits()),
        }
    })
    .collect()
}

/// All but the associations.
pub fn kept_rest(view: &View<'_>) -> Rest {
    let banks = view.book.banks();
    let parents: BTreeMap<_, _> = view.book.parents().iter().cloned().collect();
    // One that is in no tree, or was left out of it since nobody there is in use, still says in which limits of banks above it
    // those below count.
    let left_out = |name: &BankName| {
        let parent = Some(parents.get(name)?.clone());
        Some(Bank { name: name.clone(), parent, shares: Shares::Count(1), usage: None, active: false })
    };
    Rest {
        queues: view.book.queues().cloned().collect(),
        projects: view.book.projects().to_vec(),
        banks: banks
            .map(|(name, priority)| {
                ((name.clone(), priority), view.standing.bank(name).or_else(|| left_out(name)))
            })
            .collect(),
        weights: view.book.weights().given().map(|(name, weight)| (name.to_owned(), weight)).collect(),
        limits: view.book.pushed_limits().to_vec(),
        config: view.book.config(),
        leaves: view.standing.leaves_without_jobs(),
        rule: view.standing.pushed_rule(),
    }
}
