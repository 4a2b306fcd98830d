// SPDX-License-Identifier: LGPL-3.0-only
//! A new site takes the place of the old one: all of it or nothing.

use super::cell::Key;
use super::draft::Drafted;
use super::{Bank, Draft, Index, Leaf, Ranked, Rules, SharedIds, Site, SiteChange, SiteError, Standing};
use crate::ids::BankName;
use fairshare::accrual::{MAX_PUSHED, MAX_TIME, MAX_WEIGHT, Mode, Scale};
use fairshare::periods::Weights;
use fairshare::{Builder, InactiveUsage, NodeId, Ranking, inactive_banks};
use std::collections::HashSet;

impl Standing {
    /// Takes a site, and returns what it changed. What can't be right is refused with the name of it, and the site before stays.
    /// The fair-shares are those of the next refresh; one that is under way begins anew.
    pub fn push(&mut self, site: Site) -> Result<SiteChange, SiteError> {
        let rows = rows_of(&site);
        self.put(Drafted { site, rows, cells: Vec::new(), freed: self.freed })
    }

    /// The same of a site that came in parts; without a rule for it there is no tree from now on.
    pub fn push_draft(&mut self, draft: Draft, mode: Mode) -> Result<SiteChange, SiteError> {
        match draft.whole(mode) {
            Some(drafted) => self.put(drafted),
            None => {
                self.forget_site();
                Ok(SiteChange::default())
            }
        }
    }

    fn put(&mut self, drafted: Drafted) -> Result<SiteChange, SiteError> {
        let ready = check(&drafted).and_then(|()| {
            let drafted = without_inactive(self.without_repeats(drafted));
            let tree = drafted.rows.build()?;
            tree.check_policy(drafted.site.policy)?;
            Ok((drafted.site, drafted.cells, tree))
        });
        // Who was given a cell for nothing gives it back.
        let (site, cells, tree) = ready.inspect_err(|_| self.tidy())?;
        self.has_replaced_all |= site.replaces_all;
        for (leaf, cell) in site.associations.into_iter().zip(&cells) {
            if let Some(cell) = self.cells.get_mut(cell.0 as usize) {
                cell.rebase(leaf.usage.unwrap_or(0.0), site.instant, leaf.counted, site.replaces_all);
            }
        }
        let row = |leaf: NodeId| cells.get(tree.list_index(leaf)).map_or(u32::MAX, |cell| cell.0);
        let cell_of: Vec<u32> = tree.leaves().map(row).collect();
        let mut change = SiteChange::default();
        let before = self.site.as_ref();
        for (leaf, &at) in tree.leaves().zip(&cell_of) {
            if let Some(cell) = self.cells.get_mut(at as usize) {
                if let (Some(before), Some((user, bank))) = (before, cell.job_key()) {
                    let old = cell.leaf.map(|leaf| (&before.tree, leaf));
                    change.note_leaf((user, bank), old, (&tree, leaf));
                }
                cell.leaf = Some(leaf);
            }
        }
        for (at, cell) in self.cells.iter_mut().enumerate() {
            // Of an association that this tree lacks it is that of the one before.
            let leaf = cell.leaf.filter(|leaf| cell_of.get(leaf.index()) == Some(&(at as u32)));
            change.members |= leaf != cell.leaf;
            cell.leaf = leaf;
            cell.recount(site.weights);
        }
        let own = |bank: NodeId| tree.own_usage(bank).filter(|usage| *usage > 0.0).map(|usage| (bank, usage));
        let own_usage = tree.banks().filter_map(own).collect();
        let scale = Scale::new(site.instant, site.half_life);
        let Site { instant, reset, weights, mode, policy, options, .. } = site;
        let rules = Rules { instant, reset, weights, mode, policy, options };
        if let Some(before) = &self.site {
            change.note_banks(&before.tree, &tree);
            change.note_rules((&before.rules, &before.scale), (&rules, &scale));
        }
        // Nobody has a rank before the refresh.
        let ranking = Ranking::default();
        self.site = Some(Ranked { rules, tree, scale, ranking, is_ranked: false, cell_of, own_usage });
        self.generation += 1;
        self.tidy();
        self.restart();
        Ok(change)
    }

    /// With the cell of each association. Those that were noted are theirs unless cells became free since.
    fn with_cells(&mut self, mut drafted: Drafted) -> Drafted {
        if drafted.freed != self.freed || drafted.cells.len() != drafted.site.associations.len() {
            let Drafted { site, rows, cells, .. } = &mut drafted;
            let cell = |(row, leaf): (usize, &Leaf)| match leaf.user {
                Some(user) => Index(self.cell_for(user, &leaf.bank)),
                None => Index(self.cell_without_jobs(rows.user(row), &leaf.bank)),
            };
            *cells = site.associations.iter().enumerate().map(cell).collect();
        }
        drafted
    }

    /// If several rows have one user id and one bank, jobs count in the last one, as the last record gives the limits. The others
    /// are leaves that no job matches. A row whose user name comes again in the same bank is dropped.
    fn without_repeats(&mut self, drafted: Drafted) -> Drafted {
        self.shared_ids = None;
        let mut drafted = self.with_cells(drafted);
        let mut last_row: Vec<Option<usize>> = vec![None; self.cells.len()];
        let mut later: Vec<(usize, usize)> = Vec::new();
        for (row, cell) in drafted.cells.iter().enumerate().rev() {
            let Some(last) = last_row.get_mut(cell.get()) else { continue };
            match *last {
                None => *last = Some(row),
                Some(last) => later.push((row, last)),
            }
        }
        if later.is_empty() {
            return drafted;
        }
        let mut dropped = HashSet::new();
        for (row, last) in later {
            let Drafted { site, rows, cells, .. } = &mut drafted;
            let (name, counts_in) = (rows.user(row), rows.user(last));
            let leaf = site.associations.get_mut(row).filter(|_| name != counts_in);
            let (Some(leaf), Some(cell)) = (leaf, cells.get_mut(row)) else {
                dropped.insert(row);
                continue;
            };
            if let Some(user) = leaf.user.take() {
                let shared = self.shared_ids.get_or_insert_with(|| SharedIds {
                    leaves: 0,
                    example: (name.into(), user, leaf.bank.clone()),
                    counts_in: counts_in.into(),
                });
                shared.leaves += 1;
            }
            *cell = Index(self.cell_without_jobs(name, &leaf.bank));
        }
        // Two rows of one name and bank may both have become leaves without jobs.
        let mut seen = HashSet::new();
        for (row, cell) in drafted.cells.iter().enumerate().rev() {
            if !dropped.contains(&row) && !seen.insert(*cell) {
                dropped.insert(row);
            }
        }
        if dropped.is_empty() { drafted } else { drafted.changed(|row, _| !dropped.contains(&row)) }
    }

    /// From now on there is no tree; jobs are remembered, for one that may come.
    pub fn forget_site(&mut self) {
        if self.site.take().is_none() {
            return self.tidy();
        }
        for cell in &mut self.cells {
            (cell.leaf, cell.fairshare) = (None, None);
        }
        self.generation += 1;
        self.tidy();
        self.leave_off();
    }

    /// Counts running jobs so from now on. The fair-shares are those of the next refresh.
    pub fn set_mode(&mut self, mode: Mode) {
        if let Some(site) = self.site.as_mut().filter(|site| site.rules.mode != mode) {
            site.rules.mode = mode;
            self.restart();
        }
    }

    /// Forgets associations that the tree lacks and that have no job any more: also those of a push that never came to its end.
    pub fn tidy(&mut self) {
        for (at, cell) in self.cells.iter_mut().enumerate() {
            if !cell.is_needed()
                && let Some(key) = cell.key.take()
            {
                match key {
                    Key::Jobs(user, bank) => self.by_key.remove(&(user, bank)),
                    Key::Leaf(name, bank) => self.by_name.remove(&(name, bank)),
                };
                // Its fair-share is gone with it; whoever asks is told at the next refresh.
                self.work.gone(at as u32, cell.fairshare.take());
                self.free.push(at as u32);
                self.freed += 1;
            }
        }
    }
}

fn check(Drafted { site, rows, .. }: &Drafted) -> Result<(), SiteError> {
    if site.instant.is_nan() || site.instant.abs() > MAX_TIME {
        return Err(SiteError::BadTime(format!("the usage's instant {}", site.instant)));
    }
    let Weights { node, core, gpu } = site.weights;
    for (what, weight) in [("node", node), ("core", core), ("gpu", gpu)] {
        if !(0.0..=MAX_WEIGHT).contains(&weight) {
            return Err(SiteError::BadWeight(format!("{what} weight {weight}")));
        }
    }
    let bad = |usage: &Option<f64>| usage.filter(|usage| !(0.0..=MAX_PUSHED).contains(usage));
    for bank in &site.banks {
        if let Some(usage) = bad(&bank.usage) {
            return Err(SiteError::BadUsage {
                node: format!("bank \"{}\"", bank.name),
                usage: format!("{usage:e}"),
            });
        }
    }
    for (row, leaf) in site.associations.iter().enumerate() {
        let user = || leaf.user.map_or_else(|| rows.user(row).to_owned(), |user| user.to_string());
        let node = || format!("user \"{}\" in bank \"{}\"", user(), leaf.bank);
        if let Some(usage) = bad(&leaf.usage) {
            return Err(SiteError::BadUsage { node: node(), usage: format!("{usage:e}") });
        }
        if leaf.counted.is_bad() {
            return Err(SiteError::BadTime(format!("{}: its watermark", node())));
        }
    }
    Ok(())
}

fn rows_of(site: &Site) -> Builder {
    let mut rows = Builder::default();
    site.banks.iter().for_each(|bank| bank.add_to(&mut rows));
    site.associations.iter().for_each(|leaf| leaf.add_to(&mut rows));
    rows
}

/// The site as it is ranked: below a bank out of use nobody is in use, and [`InactiveUsage::Ignore`] leaves it out
/// altogether.
fn without_inactive(mut drafted: Drafted) -> Drafted {
    let site = &mut drafted.site;
    let dead = inactive_banks(site.banks.iter().map(Bank::row));
    if !dead.contains(&true) {
        return drafted;
    }
    for (bank, dead) in site.banks.iter_mut().zip(dead) {
        bank.active = !dead;
    }
    let dead: HashSet<BankName> =
        site.banks.iter().filter(|bank| !bank.active).map(|bank| bank.name.clone()).collect();
    for leaf in &mut site.associations {
        leaf.active &= !dead.contains(&leaf.bank);
    }
    let ignored = site.options.inactive_usage == InactiveUsage::Ignore;
    if ignored {
        site.banks.retain(|bank| bank.active);
    }
    drafted.changed(|_, leaf| !ignored || !dead.contains(&leaf.bank))
}

impl Drafted {
    /// Without the rows that are not to be kept; the others are as the site has them now.
    fn changed(mut self, keeps: impl Fn(usize, &Leaf) -> bool) -> Drafted {
        let Drafted { site, rows, cells, .. } = &mut self;
        for (row, leaf) in site.associations.iter_mut().enumerate() {
            leaf.name = rows.user(row).into();
        }
        let kept: Vec<bool> =
            site.associations.iter().enumerate().map(|(row, leaf)| keeps(row, leaf)).collect();
        let mut of_leaf = kept.iter().copied();
        site.associations.retain(|_| of_leaf.next() == Some(true));
        let mut of_cell = kept.into_iter();
        cells.retain(|_| of_cell.next() == Some(true));
        *rows = rows_of(site);
        self
    }
}
