// SPDX-License-Identifier: LGPL-3.0-only
//! The site's associations, queues, projects, banks and weights. This module stores no jobs.
//!
//! A [`Book`] changes only by whole, validated records. So no reader sees a partial change of a record.

mod association;
mod budget;
mod config;
mod queue;
mod running_limits;
mod site_document;
mod site_limits;
mod staging;
#[cfg(test)]
mod tests;

pub use association::Association;
pub use budget::{Budget, check_windows};
pub use config::{Config, ConfigPatch, ZeroScore};
pub use queue::Queue;
pub use running_limits::{RunningLimitSettings, RunningLimits};
pub use site_document::{
    ChangeCounts, ConfigChanges, Difference, Others, SiteRecords, SiteTables, TreeChange,
};
pub use site_limits::{
    Cap, ExemptQueues, QueueParents, Scope, ScopeCaps, ScopeLimits, SiteLimit, SiteLimits, Target,
    UNLIMITED_BUDGET, measures,
};

use crate::ids::{BankName, ProjectName, UserId};
use fairshare::insert_all;
use site_limits::LimitSources;
use staging::{Staged, StagedValues};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// The index of an association in a [`Book`]. It is never reused for another association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(u32);

impl AssociationId {
    /// Returns the association's index in lists that have one element per association.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the id of the association with index `index` in tables that are parallel to the associations
    /// of the book. Returns `None` if `index` exceeds 32 bits.
    pub fn from_index(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(AssociationId)
    }
}

/// An association with its fair-share and its user's default bank.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationRecord {
    /// Limits and permissions.
    pub association: Association,
    /// The fair-share, normally from 0 to 1; any finite number is accepted.
    pub fairshare: f64,
    /// The user's default bank. It may be a bank in which the user has no association.
    pub def_bank: BankName,
}

/// The default bank and the associations of a user. Includes removed associations, because live jobs still
/// count in them, and a later push may contain them again.
#[derive(Clone, Debug, Default)]
struct User {
    /// The default bank. It stays when all associations of the user are removed. If the user never had a current association, a push
    /// that is not committed may have set it.
    default_bank: Option<BankName>,
    banks: BTreeMap<BankName, AssociationId>,
}

/// An association and its fair-share. Most pushes change fair-shares, but not the other values of associations.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// The association. It stays when the association is removed, because live jobs of the association still need it. `None` if
    /// only pushes that are not committed contained the association.
    association: Option<Association>,
    /// The fair-share of `association`.
    fairshare: f64,
    /// False if the association was removed, or never in force.
    is_in_force: bool,
    /// The values in the staged push, or `None` if this push lacks the association.
    staged: Option<StagedValues>,
}

/// The current associations, queues, projects, banks, weights and limits, and a staged push.
#[derive(Clone, Debug, Default)]
pub struct Book {
    entries: Vec<Entry>,
    users: BTreeMap<UserId, User>,
    /// The associations of each bank, including removed ones.
    members: BTreeMap<BankName, Vec<AssociationId>>,
    /// The staged push, if one is open.
    staged: Option<Staged>,
    latest: Difference,
    tables: SiteTables,
    limits: LimitSources,
    generation: u64,
    has_data: bool,
}

impl Book {
    /// Returns true if an association was accepted since the plugin was loaded. Until then no job can be validated.
    pub fn has_data(&self) -> bool {
        self.has_data
    }

    /// Returns the number of accepted updates.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the differences of the last update.
    pub fn latest(&self) -> Difference {
        self.latest
    }

    /// Returns the association of `user` in `bank`, or in the user's default bank if `bank` is `None`. Returns `None` if there is
    /// no such association, or if it was removed.
    pub fn find(&self, user: UserId, bank: Option<&str>) -> Option<AssociationId> {
        let user = self.users.get(&user)?;
        let bank = bank.or(user.default_bank.as_deref())?;
        user.banks.get(bank).copied().filter(|id| self.is_in_force(*id))
    }

    /// Returns the default bank of `user`, or `None` if there is none.
    pub fn default_bank(&self, user: UserId) -> Option<&BankName> {
        let user = self.users.get(&user)?;
        user.default_bank.as_ref().filter(|_| user.banks.values().any(|id| self.is_in_force(*id)))
    }

    /// Returns the users whose default bank differs in `next`, with the default bank in both books.
    pub fn changed_default_banks<'a>(
        &'a self,
        next: &'a Book,
    ) -> impl Iterator<Item = (UserId, [&'a BankName; 2])> {
        self.users.keys().filter_map(|user| {
            let banks = [self.default_bank(*user)?, next.default_bank(*user)?];
            (banks[0] != banks[1]).then_some((*user, banks))
        })
    }

    /// Returns true if a current association has this bank.
    pub fn has_bank(&self, bank: &str) -> bool {
        self.members.get(bank).into_iter().flatten().any(|id| self.is_in_force(*id))
    }

    /// Returns the association `id`, even if it was removed.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.entries.get(id.index())?.association.as_ref()
    }

    /// Returns the fair-share of association `id`, or the last fair-share of a removed association. Returns
    /// `None` if the association never had a fair-share.
    pub fn fairshare(&self, id: AssociationId) -> Option<f64> {
        let entry = self.entries.get(id.index())?;
        entry.association.as_ref().map(|_| entry.fairshare)
    }

    /// Returns true if association `id` is in the last push or in a later update.
    pub fn is_in_force(&self, id: AssociationId) -> bool {
        self.entries.get(id.index()).is_some_and(|entry| entry.is_in_force)
    }

    /// Returns the number of associations, without removed and staged associations.
    pub fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.is_in_force).count()
    }

    /// Returns true if there are no associations, except removed and staged ones.
    pub fn is_empty(&self) -> bool {
        !self.entries.iter().any(|entry| entry.is_in_force)
    }

    /// Returns the current associations, sorted by user id and bank name. Begins after the user and bank in `after`.
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
            .filter(|id| self.is_in_force(*id))
            .filter_map(|id| Some((id, self.association(id)?)))
    }

    /// Returns the current associations of a user, by bank name.
    pub fn associations_of(&self, user: UserId) -> impl Iterator<Item = (AssociationId, &Association)> {
        self.all_associations_of(user).filter(|(id, _)| self.is_in_force(*id))
    }

    /// Returns all associations of a user, including removed ones.
    pub fn all_associations_of(&self, user: UserId) -> impl Iterator<Item = (AssociationId, &Association)> {
        let ids = self.users.get(&user).into_iter().flat_map(|user| user.banks.values().copied());
        ids.filter_map(|id| Some((id, self.association(id)?)))
    }

    /// Returns the removed associations.
    pub fn removed(&self) -> impl Iterator<Item = (AssociationId, &Association)> {
        let removed = (0..).map(AssociationId).zip(&self.entries).filter(|(_, entry)| !entry.is_in_force);
        removed.filter_map(|(id, entry)| Some((id, entry.association.as_ref()?)))
    }

    /// Returns the pushed queue `name`, or `None` for an unknown queue.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.tables.queues.get(name)
    }

    /// Returns the site data except the associations.
    pub fn tables(&self) -> &SiteTables {
        &self.tables
    }

    /// Returns the current switches.
    pub fn config(&self) -> Config {
        self.tables.config
    }

    /// Adds or replaces associations. The last record of a user sets the user's default bank.
    ///
    /// flux-accounting ends each push with a made-up record of the instance owner. If the instance owner `owner` is
    /// active in another default bank, this record does not replace the default bank.
    pub fn upsert(&mut self, records: Vec<AssociationRecord>, owner: UserId) {
        let keeps_default = match records.as_slice() {
            [only] => only.association.user == owner && self.has_other_default(owner, &only.association.bank),
            _ => false,
        };
        let (mut difference, mut staged) = (Difference::default(), self.staged.take());
        for AssociationRecord { association, def_bank, fairshare } in records {
            self.has_data = true;
            let Some((user, entry)) = self.find_or_add_entry(&association) else { continue };
            if !keeps_default {
                let before = user.default_bank.replace(def_bank);
                if let (Some(staged), Some(before)) = (&mut staged, before) {
                    staged.default_banks.entry(association.user).or_insert(before);
                }
            }
            entry.put(association, fairshare, &mut difference);
        }
        self.staged = staged;
        self.latest = difference;
        self.generation += 1;
    }

    /// Returns true if the default bank of `user` is not `bank`, and `user` is active there.
    fn has_other_default(&self, user: UserId, bank: &BankName) -> bool {
        let is_active = |id| self.association(id).is_some_and(|a| a.active);
        self.default_bank(user).is_some_and(|default| default != bank)
            && self.find(user, None).is_some_and(is_active)
    }

    /// Replaces all queues.
    pub fn set_queues(&mut self, queues: Vec<Queue>) {
        let queues = insert_all(queues.into_iter().map(|q| (q.name.clone(), q)));
        self.change_tables(|tables| tables.queues = queues);
    }

    /// Replaces all projects, keeping their order.
    pub fn set_projects(&mut self, projects: Vec<ProjectName>) {
        self.change_tables(|tables| tables.projects = projects);
    }

    /// Replaces all bank priorities.
    pub fn set_banks(&mut self, banks: Vec<(BankName, f64)>) {
        self.change_tables(|tables| tables.banks = insert_all(banks));
    }

    /// Sets the weights in `changes`. Other weights do not change.
    pub fn set_weights(&mut self, changes: Vec<(String, i64)>) {
        self.change_tables(|tables| tables.weights.extend(changes));
    }

    /// Sets the switches that `patch` has. Other switches do not change.
    pub fn set_config(&mut self, patch: ConfigPatch) {
        self.change_tables(|tables| tables.config = tables.config.patched(patch));
    }

    /// Changes the site data except the associations, and stores the differences in `latest`.
    fn change_tables(&mut self, change: impl FnOnce(&mut SiteTables)) {
        let mut tables = self.tables.clone();
        change(&mut tables);
        let others = self.compare(&tables, &TreeChange::default());
        self.latest = Difference { others, ..Difference::default() };
        self.generation += 1;
        self.replace_tables(tables);
    }

    /// Returns the user and the entry of an association. Adds a user or an association that is not stored yet. Returns `None` if
    /// there are 2^32 associations.
    fn find_or_add_entry(&mut self, association: &Association) -> Option<(&mut User, &mut Entry)> {
        let user = self.users.entry(association.user).or_default();
        let id = match user.banks.get(&association.bank) {
            Some(id) => *id,
            None => {
                let id = AssociationId::from_index(self.entries.len())?;
                self.entries.push(Entry::default());
                user.banks.insert(association.bank.clone(), id);
                self.members.entry(association.bank.clone()).or_default().push(id);
                id
            }
        };
        Some((user, self.entries.get_mut(id.index())?))
    }
}
