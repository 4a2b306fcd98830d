// SPDX-License-Identifier: LGPL-3.0-only
//! When the usage of whoever lost most is even with its share, by the rule of `why`.

use std::time::Duration;

use super::bins::Bins;
use crate::commands::why;
use fairshare::{NodeId, Ranking, Tree};
use fairshare_accounting::store::Pace;

/// How usage is forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgetting {
    pub(super) half_life: Option<f64>,
    pub(super) pace: Option<Pace>,
}

impl Forgetting {
    /// As it was said, or else as the database does.
    pub(super) fn of(half_life: Option<Duration>, pace: Option<Pace>) -> Forgetting {
        Forgetting { half_life: half_life.map(|half_life| half_life.as_secs_f64()), pace }
    }
}

/// Where an association lost most, and when that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// The level.
    pub(super) lost: NodeId,
    /// What it would have to have used to be even, if that can be said.
    pub(super) even_usage: Option<f64>,
    /// Seconds from now until its usage has come down to that, if it rests; `None` if that never happens or is not known.
    pub(super) even_in: Option<f64>,
}

/// The outlook of an association whose recorded usage is among these bins; `None` if no level of it used more than its share.
pub(super) fn of(
    tree: &Tree,
    ranking: &Ranking,
    leaf: NodeId,
    recorded: &Bins,
    forgetting: Forgetting,
    now: f64,
) -> Option<Outlook> {
    // The other policies have no share that a usage could be even with; to explain them costs a look at all siblings.
    if !ranking.policy().is_rank() {
        return None;
    }
    let explanation = ranking.explain(tree, leaf);
    let level = why::lost(&explanation)?;
    let used = level.detail.usage;
    let even_usage = level.even_usage().filter(|even| *even < used);
    let (own, bins) = (level.node == leaf, recorded.of(leaf));
    let new = [(0, used)];
    let bins = if own && !bins.is_empty() { bins } else { &new };
    let pace = if own { recorded.pace_of(leaf) } else { forgetting.pace.map(Pace::for_bank) };
    let even_in = even_usage.and_then(|even| why::when_below(forgetting.half_life, pace, now, even, bins));
    Some(Outlook { lost: level.node, even_usage, even_in })
}
