// SPDX-License-Identifier: LGPL-3.0-only
//! What every answer to people says of live fair-share.

use super::super::{Engine, Settings};
use super::refresh::Stage;
use super::{LastRefresh, LiveSnapshot};
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
    /// When fair-shares were last worked out by a refresh.
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

impl Engine {
    /// Refreshes that have ended, and the priorities that they posted.
    pub(in crate::engine) fn refreshes(&self) -> (u64, u64) {
        self.live.totals
    }

    /// How many refreshes have ended, and whether one is under way.
    pub fn refresh_progress(&self) -> RefreshProgress {
        let is_under_way = !matches!(self.live.stage, Stage::Idle);
        RefreshProgress { total: self.live.totals.0, is_under_way }
    }

    /// The last refresh that was done, and whether one is under way.
    pub(in crate::engine) fn last_refresh(&self) -> (Option<LastRefresh>, bool) {
        (self.live.last, !matches!(self.live.stage, Stage::Idle))
    }

    /// What all answers say of live fair-share.
    pub fn outline(&self) -> LiveOutline {
        LiveOutline {
            is_on: self.is_live(),
            rule: self.standing.rule(),
            generation: self.standing.generation(),
            half_life: self.standing.scale().and_then(|scale| scale.half_life().seconds()),
            refreshed: self.live.last.map(|last| last.when),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Live fair-share as a query shows it.
    pub fn live_snapshot(&self) -> LiveSnapshot {
        let (last, is_refreshing) = self.last_refresh();
        LiveSnapshot {
            is_on: self.is_live(),
            settings: self.settings.clone(),
            rule: self.standing.rule(),
            generation: self.standing.generation(),
            counts: self.standing.counts(),
            pending: self.live.pending.len(),
            lagging: self.live.pending.lagging(),
            last,
            is_refreshing,
            ages: self.age_snapshot(),
        }
    }
}
