// SPDX-License-Identifier: LGPL-3.0-only
//! The ranked tree that is explained.

use std::borrow::Cow;

use crate::site::names::leaves_below;
use crate::ui::figures::Unit;
use crate::ui::printable::printable;
use crate::ui::screen::Screen;
use fairshare::{NodeId, PbsWalk, Policy, Ranking, Tree};
use fairshare_accounting::store::Pace;

/// A ranked tree, and options for the text.
pub(super) struct Site<'a> {
    pub(super) tree: &'a Tree,
    pub(super) ranking: &'a Ranking,
    pub(super) policy: Policy,
    /// Most levels of a path that are shown.
    pub(super) levels: usize,
    pub(super) unit: Unit,
    pub(super) screen: &'a Screen,
    /// Decay of the database's usage, if it is known.
    pub(super) pace: Option<Pace>,
    /// Half-life in seconds, if it is given.
    pub(super) half_life: Option<f64>,
    /// Seconds since the epoch.
    pub(super) now: f64,
    /// The order of OpenPBS's scheduler; `None` under a policy other than `pbs`.
    pub(super) walk: Option<PbsWalk>,
    /// True if the scheduler of the site has an order of its own under the site's ranking policy.
    pub(super) site_has_walk: bool,
}

impl Site<'_> {
    /// Returns the name of a bank or of an association's user, without control characters.
    pub(super) fn name(&self, node: NodeId) -> Cow<'_, str> {
        printable(self.tree.name(node))
    }

    /// Returns the three associations below a bank with the largest usage.
    pub(super) fn top_users(&self, bank: NodeId) -> Vec<(NodeId, f64)> {
        let mut top: Vec<(NodeId, f64)> = Vec::new();
        for node in leaves_below(self.tree, bank) {
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
