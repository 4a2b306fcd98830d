// SPDX-License-Identifier: LGPL-3.0-only
//! How live fair-share is to work: what a site sets in `[fairshare]` of Flux's configuration, or when the plugin is loaded.

use super::answers::Open;
use crate::accounts::{RunningLimitsOf, SiteLimit};
use fairshare::accrual::Mode;

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether usage accrues in the plugin where a tree was pushed.
    pub live: bool,
    /// Seconds between two refreshes; 0: only at pushes.
    pub refresh: f64,
    /// What a running job counts.
    pub accrual: Mode,
    /// Seconds after which a job's age counts no more.
    pub age_max: f64,
    /// Weight of the age.
    pub age_weight: i64,
    /// Weight of the size.
    pub size_weight: i64,
    /// Seconds for which an eligible job may be overtaken by later ones of equal size; 0: no promise.
    pub max_wait_behind: f64,
    /// Whether a job's priority depends on the association's jobs before it.
    pub interleave: bool,
    /// Whether the last policy and the usage since are kept in the KVS.
    pub remember: bool,
    /// Limits beyond flux-accounting's, as far as no push says otherwise.
    pub limits: Vec<SiteLimit>,
    /// From when on jobs count for limits on what runs.
    pub running: RunningLimitsOf,
    /// What of the tree everybody may see.
    pub public: Open,
    /// Whether jobs get a note that says where they stand.
    pub annotate: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            live: true,
            refresh: 30.0,
            accrual: Mode::Elapsed,
            age_max: 7.0 * 86_400.0,
            age_weight: 0,
            size_weight: 0,
            max_wait_behind: 0.0,
            interleave: false,
            remember: true,
            limits: Vec::new(),
            running: RunningLimitsOf::default(),
            public: Open::Banks,
            annotate: false,
        }
    }
}
