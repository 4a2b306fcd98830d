// SPDX-License-Identifier: LGPL-3.0-only
//! What every answer to people says of live fair-share.

use super::{LastRefresh, Refresh, stage::Stage};
use fairshare::{Options, Policy};

/// Live fair-share in a few words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveOutline {
    /// Whether it is on.
    pub is_on: bool,
    /// The policy of the tree, with its options, if there is a tree.
    pub rule: Option<(Policy, Options)>,
    /// Counts refreshes that changed a fair-share, and pushes.
    pub generation: u64,
    /// In seconds; `None` without a tree or without decay.
    pub half_life: Option<f64>,
    /// When fair-shares were last computed by a refresh.
    pub refreshed: Option<f64>,
}

/// How far refreshes have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshProgress {
    /// Refreshes that have ended.
    pub total: u64,
    /// Whether one is under way.
    pub is_under_way: bool,
}

impl Refresh {
    /// Returns the number of refreshes that have ended, and of the priorities that they posted.
    pub(in crate::engine) fn totals(&self) -> (u64, u64) {
        self.totals
    }

    /// Returns the last refresh that has ended, and whether one is in progress.
    pub(in crate::engine) fn last_refresh(&self) -> (Option<LastRefresh>, bool) {
        (self.last, !matches!(self.stage, Stage::Idle))
    }
}
