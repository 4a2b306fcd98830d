// SPDX-License-Identifier: LGPL-3.0-only
//! Predicts when the usage of the level that lowers a fair-share most is back at its share, as `why` does.

use std::time::Duration;

use super::bins::Bins;
use crate::commands::why;
use fairshare::{NodeId, Ranking, Tree};
use fairshare_accounting::store::Pace;

/// The decay of usage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgetting {
    pub(super) half_life: Option<f64>,
    pub(super) pace: Option<Pace>,
}

impl Forgetting {
    /// Uses `half_life`, or else the periods of the database.
    pub(super) fn new(half_life: Option<Duration>, pace: Option<Pace>) -> Forgetting {
        Forgetting { half_life: half_life.map(|half_life| half_life.as_secs_f64()), pace }
    }
}

/// The level that lowers an association's fair-share most, and when its usage is back at its share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// The level.
    pub(super) lost: NodeId,
    /// The usage at which the level would have exactly its share; `None` if no usage would.
    pub(super) even_usage: Option<f64>,
    /// Seconds until the usage of the idle level has decayed to `even_usage`; `None` if never or unknown.
    pub(super) even_in: Option<f64>,
}

/// Returns the outlook of an association, or `None` if no level has used more than its share.
pub(super) fn find_outlook(
    tree: &Tree,
    ranking: &Ranking,
    leaf: NodeId,
    recorded: &Bins,
    forgetting: Forgetting,
    now: f64,
) -> Option<Outlook> {
    // Formula policies do not compare usage with a share, and an explanation would visit all siblings.
    if !ranking.policy().is_rank() {
        return None;
    }
    let explanation = ranking.explain(tree, leaf);
    let level = why::find_costliest_level(&explanation)?;
    let used = level.detail.usage;
    let even_usage = level.even_usage().filter(|even| *even < used);
    let (own, bins) = (level.node == leaf, recorded.association_bins(leaf));
    let new = [(0, used)];
    let bins = if own && !bins.is_empty() { bins } else { &new };
    let pace = if own { recorded.pace_of(leaf) } else { forgetting.pace.map(Pace::for_bank) };
    let even_in = even_usage.and_then(|even| why::when_below(forgetting.half_life, pace, now, even, bins));
    Some(Outlook { lost: level.node, even_usage, even_in })
}
