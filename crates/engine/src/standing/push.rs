// SPDX-License-Identifier: LGPL-3.0-only
//! Replaces the site by a new site. If the new site is invalid, nothing changes.

use super::table::UsageTable;
use super::{Bank, Index, Leaf, Ranked, Rule, SharedIds, SiteChange, SitePart, StagedSite, Standing};
use crate::accounts::check_windows;
use crate::ids::BankName;
use fairshare::accrual::{MAX_PUSHED, MAX_TIME, MAX_WEIGHT, Mode, Scale};
use fairshare::periods::Weights;
use fairshare::{Builder, InactiveUsage, NodeId, Ranking, inactive_banks};
use std::collections::HashSet;

const TIME: &str = "expected a time in seconds since 1970";

impl Standing {
    /// Replaces the site by a staged push, and returns the differences. Removes the tree if no part of the push has a
    /// rule for ranking. If the push is invalid, returns the error and keeps the previous site. The fair-shares change at
    /// the next refresh; a refresh in progress starts again.
    pub fn push_staged(&mut self, staged: StagedSite, mode: Mode) -> Result<SiteChange, String> {
        // If the push is rejected, the entries that were added for it are removed.
        self.replace_site(staged, mode).inspect_err(|_| self.usages.remove_unused())
    }

    fn replace_site(&mut self, mut staged: StagedSite, mode: Mode) -> Result<SiteChange, String> {
        let charges = std::mem::take(&mut staged.part.charges);
        let budgets = std::mem::take(&mut staged.part.budgets);
        check_windows(&budgets)?;
        let Some(rule) = staged.part.rule.take() else {
            if !budgets.is_empty() {
                let text = "budgets: the push has no tree, so the jobs that the spent amounts include are unknown; push with the tree";
                return Err(text.to_owned());
            }
            self.usages.charging.set_pushed(charges);
            self.remove_site();
            return Ok(SiteChange::default());
        };
        staged.check(&rule)?;
        let shared_ids = staged.merge_repeated_rows(&mut self.usages);
        staged.apply_inactive_banks(rule.options.inactive_usage);
        let StagedSite { part: SitePart { associations, .. }, rows, indices } = staged;
        let tree = rows.build().map_err(|error| error.to_string())?;
        self.has_replaced_all |= rule.replaces_all;
        for (leaf, entry) in associations.into_iter().zip(&indices) {
            if let Some(entry) = self.usages.entry_mut(entry.0) {
                entry.set_pushed(leaf.usage.unwrap_or(0.0), rule.instant, leaf.counted, rule.replaces_all);
            }
        }
        let row = |leaf: NodeId| indices.get(tree.find_input_index(leaf)).map_or(u32::MAX, |entry| entry.0);
        let entry_of_leaf: Vec<u32> = tree.leaves().map(row).collect();
        let mut change = SiteChange { budgets, ..SiteChange::default() };
        let before = self.site.as_ref();
        for (leaf, &at) in tree.leaves().zip(&entry_of_leaf) {
            if let Some(entry) = self.usages.entry_mut(at) {
                if let (Some(before), Some((user, bank))) = (before, entry.job_key()) {
                    let old = entry.leaf.map(|leaf| (&before.tree, leaf));
                    change.compare_leaves((user, bank), old, (&tree, leaf));
                }
                entry.leaf = Some(leaf);
            }
        }
        self.usages.weights = rule.weights;
        for (at, entry) in (0..).zip(self.usages.entries_mut().0) {
            // If the new tree lacks the association, its leaf still belongs to the old tree.
            let leaf = entry.leaf.filter(|leaf| entry_of_leaf.get(leaf.index()) == Some(&at));
            change.members |= leaf != entry.leaf;
            entry.leaf = leaf;
        }
        let has_new_charges = self.usages.charging.set_pushed(charges);
        self.usages.recompute_usage_rates();
        let scale = Scale::new(rule.instant, rule.half_life);
        let rule = Rule { replaces_all: false, ..rule };
        if let Some(before) = &self.site {
            change.compare_bank_nodes(&before.tree, &tree);
            change.compare_rules((&before.rule, before.mode), (&rule, mode));
            change.accounting |= has_new_charges;
        }
        // No association is ranked before the next refresh.
        let ranking = Ranking::default();
        self.site =
            Some(Ranked { rule, mode, tree, scale, ranking, is_ranked: false, entry_of_leaf, shared_ids });
        self.generation += 1;
        self.usages.remove_unused();
        self.recompute_all();
        Ok(change)
    }

    /// Removes the tree. Jobs are kept for a tree that may follow.
    pub(super) fn remove_site(&mut self) {
        if self.site.take().is_none() {
            return self.usages.remove_unused();
        }
        for entry in self.usages.entries_mut().0 {
            (entry.leaf, entry.fairshare) = (None, None);
        }
        self.usages.weights = Weights::default();
        self.generation += 1;
        self.usages.remove_unused();
        self.work.cancel(&mut self.usages);
    }

    /// Sets how running jobs accrue usage. The fair-shares change at the next refresh.
    pub fn set_mode(&mut self, mode: Mode) {
        if let Some(site) = self.site.as_mut().filter(|site| site.mode != mode) {
            site.mode = mode;
            self.recompute_all();
        }
    }
}

impl StagedSite {
    fn check(&self, rule: &Rule) -> Result<(), String> {
        let Rule { instant, weights: Weights { node, core, gpu }, .. } = *rule;
        if instant.is_nan() || instant.abs() > MAX_TIME {
            return Err(format!("the usages are of {instant}: {TIME}"));
        }
        for (what, weight) in [("node", node), ("core", core), ("gpu", gpu)] {
            if !(0.0..=MAX_WEIGHT).contains(&weight) {
                return Err(format!("{what} weight {weight}: expected a number from 0 to 1e12"));
            }
        }
        for (row, Leaf { user, bank, usage, counted, .. }) in self.part.associations.iter().enumerate() {
            let user = || user.map_or_else(|| self.rows.user(row).to_owned(), |user| user.to_string());
            let node = || format!("user \"{}\" in bank \"{bank}\"", user());
            if let Some(usage) = usage.filter(|usage| !(-MAX_PUSHED..=MAX_PUSHED).contains(usage)) {
                return Err(format!("{}: expected a usage from -1e250 to 1e250, got {usage:e}", node()));
            }
            if counted.is_invalid() {
                return Err(format!("{}: jobs are counted until {}: {TIME}", node(), counted.end()));
            }
        }
        Ok(())
    }

    /// Marks all banks and associations below inactive banks as inactive. With [`InactiveUsage::Ignore`] they are removed.
    fn apply_inactive_banks(&mut self, usage: InactiveUsage) {
        let SitePart { banks, associations, .. } = &mut self.part;
        let dead = inactive_banks(banks.iter().map(Bank::row));
        if !dead.contains(&true) {
            return;
        }
        for (bank, dead) in banks.iter_mut().zip(dead) {
            bank.active = !dead;
        }
        let dead: HashSet<BankName> =
            banks.iter().filter(|bank| !bank.active).map(|bank| bank.name.clone()).collect();
        for leaf in associations {
            leaf.active &= !dead.contains(&leaf.bank);
        }
        let ignored = usage == InactiveUsage::Ignore;
        banks.retain(|bank| bank.active || !ignored);
        self.retain_site_rows(|_, leaf| !ignored || !dead.contains(&leaf.bank));
    }

    /// Merges rows with the same user id and bank. Jobs of this user count in the last of these rows, whose record
    /// also gives the limits. An earlier row with the same user name is removed. An earlier row with another user
    /// name stays as a leaf without jobs.
    fn merge_repeated_rows(&mut self, table: &mut UsageTable) -> Option<SharedIds> {
        let mut shared_ids = None;
        let mut last_row: Vec<Option<usize>> = vec![None; table.entries().len()];
        let mut later: Vec<(usize, usize)> = Vec::new();
        for (row, entry) in self.indices.iter().enumerate().rev() {
            let Some(last) = last_row.get_mut(entry.get()) else { continue };
            if let Some(last) = *last { later.push((row, last)) } else { *last = Some(row) }
        }
        if later.is_empty() {
            return None;
        }
        let mut dropped = HashSet::new();
        for (row, last) in later {
            let (name, counts_in) = (self.rows.user(row), self.rows.user(last));
            let leaf = self.part.associations.get_mut(row).filter(|_| name != counts_in);
            let (Some(leaf), Some(entry)) = (leaf, self.indices.get_mut(row)) else {
                dropped.insert(row);
                continue;
            };
            if let Some(user) = leaf.user.take() {
                let shared = shared_ids.get_or_insert_with(|| SharedIds {
                    leaves: 0,
                    example: (name.into(), user, leaf.bank.clone()),
                    counts_in: counts_in.into(),
                });
                shared.leaves += 1;
            }
            *entry = Index(table.find_or_add_entry(leaf, name));
        }
        // Two rows without jobs may have the same user name and bank. Only the last of these rows stays.
        let mut seen = HashSet::new();
        for (row, entry) in self.indices.iter().enumerate().rev() {
            if !dropped.contains(&row) && !seen.insert(*entry) {
                dropped.insert(row);
            }
        }
        if !dropped.is_empty() {
            self.retain_site_rows(|row, _| !dropped.contains(&row));
        }
        shared_ids
    }

    /// Removes the associations for which `keeps` returns false, and then builds all rows again.
    fn retain_site_rows(&mut self, keeps: impl Fn(usize, &Leaf) -> bool) {
        let StagedSite { part: SitePart { banks, associations, .. }, rows, indices } = self;
        let leaves = std::mem::take(associations).into_iter().zip(std::mem::take(indices)).enumerate();
        let kept = leaves.filter(|(row, (leaf, _))| keeps(*row, leaf));
        let named = kept.map(|(row, (leaf, index))| (Leaf { name: rows.user(row).into(), ..leaf }, index));
        (*associations, *indices) = named.unzip();
        *rows = Builder::default();
        banks.iter().for_each(|bank| bank.add_row(rows));
        associations.iter().for_each(|leaf| leaf.add_row(rows));
    }
}
