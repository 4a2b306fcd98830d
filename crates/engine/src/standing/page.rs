// SPDX-License-Identifier: LGPL-3.0-only
//! Serves the live tree page by page to commands that rank or explain the tree themselves.

use super::{Bank, Standing};
use crate::ids::{UserId, Word};
use fairshare::NodeId;
use fairshare::periods::Weights;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The answer to `tree`: some leaves of the live tree, and the rules of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreePage {
    /// The time of the usages, in seconds since the epoch.
    pub now: f64,
    /// A number that changes with each push and with each refresh that changes a fair-share.
    pub generation: u64,
    /// The name of the ranking policy.
    pub policy: Word,
    /// The options of the ranking policy.
    pub options: BTreeMap<String, String>,
    /// The half-life of usage in seconds; 0 if usage does not decay.
    pub half_life: f64,
    /// The usage per second of a node.
    pub node_weight: f64,
    /// The usage per second of a core.
    pub core_weight: f64,
    /// The usage per second of a GPU.
    pub gpu_weight: f64,
    /// All banks, on the first page only.
    pub banks: Vec<Bank>,
    /// The leaves of this page.
    #[serde(rename = "associations")]
    pub leaves: Vec<LeafRow>,
    /// The position at which the next page begins; `None` on the last page.
    pub next: Option<usize>,
}

/// An association of the live tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeafRow {
    /// The position of the leaf among the associations of the last push, which decides some ties.
    pub place: usize,
    /// The user's name.
    #[serde(rename = "username")]
    pub name: String,
    /// The user id; `None` if no job matches this leaf.
    #[serde(rename = "userid")]
    pub user: Option<UserId>,
    /// The bank.
    pub bank: String,
    /// The shares of the association, relative to the other children of its bank.
    pub shares: u64,
    /// False if the association is inactive and therefore not ranked.
    pub active: bool,
    /// The usage at `now`.
    pub usage: f64,
    /// The fair-share of the last refresh.
    pub fairshare: Option<f64>,
}

impl Standing {
    /// Returns at most `most` leaves from the position `first` on, with their usage at `now` in seconds since the epoch; `None` if there is no tree.
    pub fn tree_page(&self, first: usize, most: usize, now: f64) -> Option<TreePage> {
        let site = self.site.as_ref()?;
        let tree = &site.tree;
        let leaf = |node: NodeId| {
            let entry = site.entry_of_leaf.get(node.index()).and_then(|at| self.usages.entry(*at));
            LeafRow {
                place: tree.find_input_index(node),
                name: tree.name(node).to_owned(),
                user: entry.and_then(|entry| entry.job_key()).map(|(user, _)| user),
                bank: tree.parent(node).map(|bank| tree.name(bank).to_owned()).unwrap_or_default(),
                shares: tree.shares(node).count(),
                active: tree.is_active(node),
                usage: entry.map_or(0.0, |entry| entry.usage(now, site.mode, site.scale.half_life())),
                fairshare: entry.and_then(|entry| entry.fairshare),
            }
        };
        let mut banks: Vec<NodeId> = if first == 0 { tree.banks().collect() } else { Vec::new() };
        banks.sort_unstable_by_key(|bank| tree.find_input_index(*bank));
        let last = first.saturating_add(most);
        let settings = site.rule.options.settings().into_iter();
        let Weights { node, core, gpu } = site.rule.weights;
        Some(TreePage {
            now,
            generation: self.generation,
            policy: Cow::Borrowed(site.rule.policy.name()),
            options: settings.map(|(name, value)| (name.to_owned(), value)).collect(),
            half_life: site.scale.half_life().seconds().unwrap_or(0.0),
            node_weight: node,
            core_weight: core,
            gpu_weight: gpu,
            banks: banks.into_iter().map(|bank| site.bank(bank)).collect(),
            leaves: tree.leaves().skip(first).take(most).map(leaf).collect(),
            next: (last < tree.leaves().len()).then_some(last),
        })
    }
}
