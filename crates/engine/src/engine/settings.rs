// SPDX-License-Identifier: LGPL-3.0-only
//! The settings of live fair-share: table `[fairshare]` of Flux's configuration, or options at the load of the plugin.

use super::answers::Open;
use crate::accounts::{ExemptQueues, RunningLimitSettings, SiteLimit};
use crate::budgets::BudgetMode;
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
    /// The usage that a running job is charged for: its elapsed time or its whole time limit.
    pub accrual: Mode,
    /// The age from which on the age term no longer grows, in seconds.
    pub age_max: f64,
    /// Weight of the age.
    pub age_weight: i64,
    /// Weight of the size.
    pub size_weight: i64,
    /// Seconds for which later jobs of equal size may overtake an eligible job; 0 if unbounded.
    pub max_wait_behind: f64,
    /// Whether jobs of different associations are interleaved. A job's priority then depends on the jobs
    /// before it in its association.
    pub interleave: bool,
    /// Whether the plugin stores a snapshot in the KVS.
    pub remember: bool,
    /// The configured limits, in addition to flux-accounting's limits. A pushed limit takes precedence over a
    /// configured limit.
    pub limits: Vec<SiteLimit>,
    /// The queues whose jobs do not count under limits without a queue.
    pub exempt: ExemptQueues,
    /// The largest priority of the jobs in a queue, by queue.
    pub max_priorities: BTreeMap<QueueName, u32>,
    /// Whether the plugin rejects jobs whose size or time limit is not allowed in their queue.
    pub enforce_queue_shapes: bool,
    /// How the plugin treats a job that does not fit into a budget.
    pub budgets: BudgetMode,
    /// The state from which jobs count for limits on running jobs.
    pub running: RunningLimitSettings,
    /// The charge factors of queues. A queue that is not listed has the factor 1.
    pub charges: BTreeMap<QueueName, f64>,
    /// The rule by which jobs are charged for their resources. The plugin uses the rule of the last push, which also
    /// contains the site's resources.
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
            exempt: ExemptQueues::new(),
            max_priorities: BTreeMap::new(),
            enforce_queue_shapes: false,
            budgets: BudgetMode::default(),
            running: RunningLimitSettings::default(),
            charges: BTreeMap::new(),
            charge_by: ChargeBy::Sum,
            public: Open::Banks,
            annotate: false,
        }
    }
}
