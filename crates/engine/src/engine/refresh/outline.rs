// SPDX-License-Identifier: LGPL-3.0-only
//! The state of live fair-share that all answers contain.

use super::{LastRefresh, Refresh, stage::Stage};
use fairshare::{Options, Policy};

/// A summary of live fair-share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveOutline {
    /// Whether fair-share is live.
    pub is_on: bool,
    /// The policy of the tree, with its options, if there is a tree.
    pub rule: Option<(Policy, Options)>,
    /// Counts refreshes that changed a fair-share, and pushes.
    pub generation: u64,
    /// The half-life of usage in seconds; `None` without a tree or without decay.
    pub half_life: Option<f64>,
    /// When a refresh last computed fair-shares, in seconds since the epoch.
    pub refreshed: Option<f64>,
}

/// The progress of refreshes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshProgress {
    /// Refreshes that have ended.
    pub total: u64,
    /// Whether a refresh is in progress.
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
