// SPDX-License-Identifier: LGPL-3.0-only
//! The ranked tree that explanations are about.

use std::borrow::Cow;

use crate::ui::figures::Unit;
use crate::ui::printable::printable;
use crate::ui::screen::Screen;
use fairshare::{NodeId, NodeKind, PbsWalk, Policy, Ranking, Tree};
use fairshare_accounting::store::Pace;

/// A ranked tree and how to talk about it.
pub(super) struct Site<'a> {
    pub(super) tree: &'a Tree,
    pub(super) ranking: &'a Ranking,
    pub(super) policy: Policy,
    /// Levels of one chain shown at most.
    pub(super) levels: usize,
    pub(super) unit: Unit,
    pub(super) screen: &'a Screen,
    /// How the database forgets usage.
    pub(super) pace: Option<Pace>,
    /// How usage is forgotten, where that was said.
    pub(super) half_life: Option<f64>,
    /// Seconds since 1970.
    pub(super) now: f64,
    /// `pbs`: the scheduler's own order.
    pub(super) walk: Option<PbsWalk>,
    /// True if the ranking policy of the site has a scheduler's own order.
    pub(super) site_has_walk: bool,
}

impl Site<'_> {
    /// A bank's name or an association's user, fit to be printed.
    pub(super) fn name(&self, node: NodeId) -> Cow<'_, str> {
        printable(self.tree.name(node))
    }

    /// The three leaves below a bank that added most to its usage.
    pub(super) fn top_users(&self, bank: NodeId) -> Vec<(NodeId, f64)> {
        let mut top: Vec<(NodeId, f64)> = Vec::new();
        let mut todo = vec![bank];
        while let Some(node) = todo.pop() {
            if self.tree.kind(node) == NodeKind::Bank {
                todo.extend(self.tree.children(node));
                continue;
            }
            let usage = self.ranking.counted_usage(self.tree, node);
            if usage > 0.0 {
                let at =
                    top.partition_point(|(other, most)| *most > usage || (*most == usage && *other < node));
                top.insert(at, (node, usage));
                top.truncate(3);
            }
        }
        top
    }
}
