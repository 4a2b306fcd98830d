// SPDX-License-Identifier: LGPL-3.0-only
//! The live tree as values, page by page: for commands that rank it or explain it themselves.

use super::{Index, Standing};
use crate::ids::UserId;
use fairshare::accrual::HalfLife;
use fairshare::periods::Weights;
use fairshare::{NodeId, Options, Policy, Shares};

/// Some leaves of the live tree, and what holds for all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct TreePage {
    /// Changes with each push and each refresh that moved a fair-share.
    pub generation: u64,
    /// The ranking policy.
    pub policy: Policy,
    /// Its options.
    pub options: Options,
    /// How usage decays.
    pub half_life: HalfLife,
    /// What a second of a job counts.
    pub weights: Weights,
    /// All banks, on the first page only.
    pub banks: Vec<BankRow>,
    /// The leaves of this page.
    pub leaves: Vec<LeafRow>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<usize>,
}

/// A bank of the live tree.
#[derive(Clone, Debug, PartialEq)]
pub struct BankRow {
    /// Its name.
    pub name: String,
    /// The bank above; `None` for the root.
    pub parent: Option<String>,
    /// Its shares among its siblings.
    pub shares: Shares,
    /// Whether it is active.
    pub active: bool,
    /// Usage of the bank itself, beside that of its leaves.
    pub usage: Option<f64>,
}

/// An association of the live tree.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafRow {
    /// Its place among the associations of the last push, which decides some ties.
    pub place: usize,
    /// The user's name.
    pub name: String,
    /// The user id; `None` if no job matches this leaf.
    pub user: Option<UserId>,
    /// The bank.
    pub bank: String,
    /// Its shares among its siblings.
    pub shares: Shares,
    /// Whether it is ranked.
    pub active: bool,
    /// Its usage as of now.
    pub usage: f64,
    /// The fair-share as of the last refresh.
    pub fairshare: Option<f64>,
}

impl Standing {
    /// Returns at most `most` leaves from the place `first` on, with their usage at `now` in seconds since the epoch; `None` if there
    /// is no tree.
    pub fn tree_page(&self, first: usize, most: usize, now: f64) -> Option<TreePage> {
        let site = self.site.as_ref()?;
        let tree = &site.tree;
        let above = |node: NodeId| tree.parent(node).map(|bank| tree.name(bank).to_owned());
        let bank = |node: NodeId| {
            let own = site.own_usage.iter().find(|(bank, _)| *bank == node);
            let usage =
                own.map(|(_, usage)| usage * site.scale.factor(site.rules.instant) / site.scale.factor(now));
            BankRow {
                name: tree.name(node).to_owned(),
                parent: above(node),
                shares: tree.shares(node),
                active: tree.is_active(node),
                usage,
            }
        };
        let leaf = |node: NodeId| {
            let cell = site.cell_of.get(node.index()).and_then(|at| self.cell(Index(*at)));
            LeafRow {
                place: tree.list_index(node),
                name: tree.name(node).to_owned(),
                user: cell.and_then(|cell| cell.job_key()).map(|(user, _)| user),
                bank: above(node).unwrap_or_default(),
                shares: tree.shares(node),
                active: tree.is_active(node),
                usage: cell.map_or(0.0, |cell| cell.usage(now, site.rules.mode, site.scale.half_life())),
                fairshare: cell.and_then(|cell| cell.fairshare),
            }
        };
        let mut banks: Vec<NodeId> = if first == 0 { tree.banks().collect() } else { Vec::new() };
        banks.sort_unstable_by_key(|bank| tree.list_index(*bank));
        let last = first.saturating_add(most);
        Some(TreePage {
            generation: self.generation,
            policy: site.rules.policy,
            options: site.rules.options,
            half_life: site.scale.half_life(),
            weights: site.rules.weights,
            banks: banks.into_iter().map(bank).collect(),
            leaves: tree.leaves().skip(first).take(most).map(leaf).collect(),
            next: (last < tree.leaves().len()).then_some(last),
        })
    }
}
