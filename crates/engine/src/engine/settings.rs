// SPDX-License-Identifier: LGPL-3.0-only
//! The settings of live fair-share: table `[fairshare]` of Flux's configuration, or options at the load of the plugin.

use super::answers::Open;
use crate::accounts::{RunningLimitsOf, SiteLimit};
use crate::ids::QueueName;
use fairshare::accrual::Mode;
use fairshare::charging::ChargeBy;
use std::collections::BTreeMap;

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether usage accrues in the plugin, if a tree was pushed.
    pub live: bool,
    /// Seconds between two refreshes. If 0, only a push refreshes.
    pub refresh: f64,
    /// Which usage a running job counts with.
    pub accrual: Mode,
    /// Seconds after which a job's age counts no more.
    pub age_max: f64,
    /// Weight of the age.
    pub age_weight: i64,
    /// Weight of the size.
    pub size_weight: i64,
    /// Seconds for which later jobs of equal size may overtake an eligible job; 0 if unbounded.
    pub max_wait_behind: f64,
    /// Whether a job's priority depends on the jobs before it in its association.
    pub interleave: bool,
    /// Whether the plugin stores a snapshot in the KVS.
    pub remember: bool,
    /// Limits beyond flux-accounting's. A limit that is pushed replaces the one set here.
    pub limits: Vec<SiteLimit>,
    /// Whether jobs are rejected that have a size or a time limit beyond the limits of their queue's record on each job.
    pub enforce_queue_shapes: bool,
    /// The state from which jobs count for limits on running jobs.
    pub running: RunningLimitsOf,
    /// The charge factors of queues; 1 for all others.
    pub charges: BTreeMap<QueueName, f64>,
    /// The resources that jobs are charged for. The plugin charges by the rule of the last push, which also has the site's resources.
    pub charge_by: ChargeBy,
    /// The part of the tree that all users may see.
    pub public: Open,
    /// Whether jobs get an annotation.
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
            enforce_queue_shapes: false,
            running: RunningLimitsOf::default(),
            charges: BTreeMap::new(),
            charge_by: ChargeBy::Sum,
            public: Open::Banks,
            annotate: false,
        }
    }
}
