// SPDX-License-Identifier: LGPL-3.0-only
//! Replaces the site by a new site. If the new site is invalid, nothing changes.

use super::staged_site::{AssembledSite, Charges};
use super::table::UsageTable;
use super::{Bank, Index, Leaf, Ranked, Rule, SharedIds, Site, SiteChange, StagedSite, Standing};
use crate::accounts::check_windows;
use crate::ids::BankName;
use fairshare::accrual::{MAX_PUSHED, MAX_TIME, MAX_WEIGHT, Mode, Scale};
use fairshare::periods::Weights;
use fairshare::{Builder, InactiveUsage, NodeId, Ranking, inactive_banks};
use std::collections::HashSet;

const TIME: &str = "expected a time in seconds since 1970";

impl Standing {
    /// Replaces the site, and returns the differences. If the new site is invalid, returns the error and keeps the
    /// previous site. The fair-shares change at the next refresh; a refresh in progress starts again.
    pub fn push(&mut self, site: Site) -> Result<SiteChange, String> {
        let rows = build_rows(&site);
        let freed = self.usages.freed();
        self.replace_site(AssembledSite { site, rows, indices: Vec::new(), freed }, Charges::default())
    }

    /// Replaces the site by a staged site. Removes the tree if no part of the push has a rule for ranking.
    pub fn push_staged(&mut self, staged: StagedSite, mode: Mode) -> Result<SiteChange, String> {
        let (complete, charges, budgets) = staged.combine_parts(mode);
        check_windows(&budgets).inspect_err(|_| self.usages.remove_unused())?;
        match complete {
            Some(complete) => Ok(SiteChange { budgets, ..self.replace_site(complete, charges)? }),
            None if !budgets.is_empty() => {
                self.usages.remove_unused();
                Err(
                    "budgets: the push has no tree, so the jobs that the spent amounts include are unknown; push with the tree".to_owned())
            }
            None => {
                self.usages.charging.set_pushed(charges);
                self.remove_site();
                Ok(SiteChange::default())
            }
        }
    }

    fn replace_site(&mut self, complete: AssembledSite, charges: Charges) -> Result<SiteChange, String> {
        let ready = check_site(&complete).and_then(|()| {
            let (complete, shared_ids) =
                complete.add_association_indices(&mut self.usages).merge_repeated_rows(&mut self.usages);
            self.shared_ids = shared_ids;
            let complete = apply_inactive_banks(complete);
            let tree = complete.rows.build().map_err(|error| error.to_string())?;
            Ok((complete.site, complete.indices, tree))
        });
        // If the site is rejected, the entries that were added for it are removed.
        let (site, indices, tree) = ready.inspect_err(|_| self.usages.remove_unused())?;
        let Site { rule, mode, associations, .. } = site;
        self.has_replaced_all |= rule.replaces_all;
        for (leaf, entry) in associations.into_iter().zip(&indices) {
            if let Some(entry) = self.usages.entry_mut(entry.0) {
                entry.set_pushed(leaf.usage.unwrap_or(0.0), rule.instant, leaf.counted, rule.replaces_all);
            }
        }
        let row = |leaf: NodeId| indices.get(tree.find_input_index(leaf)).map_or(u32::MAX, |entry| entry.0);
        let entry_of_leaf: Vec<u32> = tree.leaves().map(row).collect();
        let mut change = SiteChange::default();
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
        let own = |bank: NodeId| tree.own_usage(bank).filter(|usage| *usage > 0.0).map(|usage| (bank, usage));
        let own_usage = tree.banks().filter_map(own).collect();
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
            Some(Ranked { rule, mode, tree, scale, ranking, is_ranked: false, entry_of_leaf, own_usage });
        self.generation += 1;
        self.usages.remove_unused();
        self.recompute_all();
        Ok(change)
    }

    /// Removes the tree. Jobs are kept for a tree that may follow.
    pub fn remove_site(&mut self) {
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

fn check_site(AssembledSite { site, rows, .. }: &AssembledSite) -> Result<(), String> {
    let Rule { instant, weights: Weights { node, core, gpu }, .. } = site.rule;
    if instant.is_nan() || instant.abs() > MAX_TIME {
        return Err(format!("the usages are of {instant}: {TIME}"));
    }
    for (what, weight) in [("node", node), ("core", core), ("gpu", gpu)] {
        if !(0.0..=MAX_WEIGHT).contains(&weight) {
            return Err(format!("{what} weight {weight}: expected a number from 0 to 1e12"));
        }
    }
    let usage_error = |node: String, min: &str, usage: f64| {
        format!("{node}: expected a usage from {min} to 1e250, got {usage:e}")
    };
    let bad = |usage: Option<f64>, min| usage.filter(|usage| !(min..=MAX_PUSHED).contains(usage));
    for bank in &site.banks {
        if let Some(usage) = bad(bank.usage, 0.0) {
            return Err(usage_error(format!("bank \"{}\"", bank.name), "0", usage));
        }
    }
    for (row, leaf) in site.associations.iter().enumerate() {
        let user = || leaf.user.map_or_else(|| rows.user(row).to_owned(), |user| user.to_string());
        let node = || format!("user \"{}\" in bank \"{}\"", user(), leaf.bank);
        if let Some(usage) = bad(leaf.usage, -MAX_PUSHED) {
            return Err(usage_error(node(), "-1e250", usage));
        }
        if leaf.counted.is_invalid() {
            return Err(format!("{}: jobs are counted until {}: {TIME}", node(), leaf.counted.end()));
        }
    }
    Ok(())
}

fn build_rows(site: &Site) -> Builder {
    let mut rows = Builder::default();
    site.banks.iter().for_each(|bank| bank.add_row(&mut rows));
    site.associations.iter().for_each(|leaf| leaf.add_row(&mut rows));
    rows
}

/// Marks all banks and associations below inactive banks as inactive. With [`InactiveUsage::Ignore`] they are removed.
fn apply_inactive_banks(mut complete: AssembledSite) -> AssembledSite {
    let site = &mut complete.site;
    let dead = inactive_banks(site.banks.iter().map(Bank::row));
    if !dead.contains(&true) {
        return complete;
    }
    for (bank, dead) in site.banks.iter_mut().zip(dead) {
        bank.active = !dead;
    }
    let dead: HashSet<BankName> =
        site.banks.iter().filter(|bank| !bank.active).map(|bank| bank.name.clone()).collect();
    for leaf in &mut site.associations {
        leaf.active &= !dead.contains(&leaf.bank);
    }
    let ignored = site.rule.options.inactive_usage == InactiveUsage::Ignore;
    if ignored {
        site.banks.retain(|bank| bank.active);
    }
    complete.retain_site_rows(|_, leaf| !ignored || !dead.contains(&leaf.bank))
}

impl AssembledSite {
    /// Finds the index of each association. Uses the indices that were found while the push arrived, if they are
    /// still valid.
    fn add_association_indices(mut self, table: &mut UsageTable) -> AssembledSite {
        if self.freed != table.freed() || self.indices.len() != self.site.associations.len() {
            let AssembledSite { site, rows, indices, .. } = &mut self;
            let entry = |(row, leaf): (usize, &Leaf)| Index(table.find_or_add_entry(leaf, rows.user(row)));
            *indices = site.associations.iter().enumerate().map(entry).collect();
        }
        self
    }

    /// Merges rows with the same user id and bank. Jobs of this user count in the last of these rows, whose record
    /// also gives the limits. An earlier row with the same user name is removed. An earlier row with another user
    /// name stays as a leaf without jobs.
    fn merge_repeated_rows(mut self, table: &mut UsageTable) -> (AssembledSite, Option<SharedIds>) {
        let mut shared_ids = None;
        let mut last_row: Vec<Option<usize>> = vec![None; table.entries().len()];
        let mut later: Vec<(usize, usize)> = Vec::new();
        for (row, entry) in self.indices.iter().enumerate().rev() {
            let Some(last) = last_row.get_mut(entry.get()) else { continue };
            if let Some(last) = *last { later.push((row, last)) } else { *last = Some(row) }
        }
        if later.is_empty() {
            return (self, None);
        }
        let mut dropped = HashSet::new();
        for (row, last) in later {
            let AssembledSite { site, rows, indices, .. } = &mut self;
            let (name, counts_in) = (rows.user(row), rows.user(last));
            let leaf = site.associations.get_mut(row).filter(|_| name != counts_in);
            let (Some(leaf), Some(entry)) = (leaf, indices.get_mut(row)) else {
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
        let complete =
            if dropped.is_empty() { self } else { self.retain_site_rows(|row, _| !dropped.contains(&row)) };
        (complete, shared_ids)
    }

    /// Removes the associations for which `keeps` returns false, and then builds all rows again.
    fn retain_site_rows(mut self, keeps: impl Fn(usize, &Leaf) -> bool) -> AssembledSite {
        let AssembledSite { site, rows, indices, .. } = &mut self;
        for (row, leaf) in site.associations.iter_mut().enumerate() {
            leaf.name = rows.user(row).into();
        }
        let kept: Vec<bool> =
            site.associations.iter().enumerate().map(|(row, leaf)| keeps(row, leaf)).collect();
        let mut of_leaf = kept.iter().copied();
        site.associations.retain(|_| of_leaf.next() == Some(true));
        let mut of_index = kept.into_iter();
        indices.retain(|_| of_index.next() == Some(true));
        *rows = build_rows(site);
        self
    }
}
