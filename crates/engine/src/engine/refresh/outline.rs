// SPDX-License-Identifier: LGPL-3.0-only
//! The summary of live fair-share that all answers contain.

use super::{LastRefresh, Refresh, stage::Stage};
use crate::ids::Word;
use fairshare::{Options, Policy, insert_all};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A summary of live fair-share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveSummary {
    /// Whether live fair-share is on.
    pub is_on: bool,
    /// The policy of the tree, with its options, if there is a tree.
    pub rule: Option<(Policy, Options)>,
    /// The number of pushes plus the number of refreshes that changed a fair-share.
    pub generation: u64,
    /// The half-life of usage in seconds; `None` without a tree or without decay.
    pub half_life: Option<f64>,
    /// When a refresh last computed fair-shares, in seconds since the epoch.
    pub refreshed: Option<f64>,
}

impl LiveSummary {
    /// Returns the name of the ranking policy, or `None` if no tree was pushed.
    pub fn policy(&self) -> Option<Word> {
        self.rule.map(|(policy, _)| Cow::Borrowed(policy.name()))
    }

    /// Returns the options of the ranking policy, by name, or `None` if no tree was pushed.
    pub fn options(&self) -> Option<BTreeMap<String, String>> {
        let (policy, options) = self.rule?;
        let settings = options.settings().into_iter().filter(|(name, _)| Options::applies(name, policy));
        Some(insert_all(settings.map(|(name, value)| (name.to_owned(), value))))
    }
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
    /// Returns the number of refreshes that have ended, and the number of priorities that they posted.
    pub fn totals(&self) -> (u64, u64) {
        self.totals
    }

    /// Returns the last refresh that has ended, and whether one is in progress.
    pub fn last_refresh(&self) -> (Option<LastRefresh>, bool) {
        (self.last, !matches!(self.stage, Stage::Idle))
    }
}
