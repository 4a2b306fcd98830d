// SPDX-License-Identifier: LGPL-3.0-only
//! The charge factors of queues in the answer to `stats`. `flux fairshare sync` stores the changes in the accounting database.

use super::super::View;
use crate::ids::QueueName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The charge factors of queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChargeStats {
    /// The factors in the configuration that the plugin read last.
    pub configured: BTreeMap<QueueName, f64>,
    /// The changes of the last push and of the configurations since, by queue and time.
    pub changes: Vec<ChargeShown>,
}

/// A change of the charge factor of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChargeShown {
    /// The queue.
    pub queue: String,
    /// The time from which on the factor applies, in seconds since the epoch.
    pub since: f64,
    /// The factor.
    pub factor: f64,
}

/// Returns the charge factors; `None` if no queue has one.
pub(super) fn charge_stats(view: &View<'_>) -> Option<ChargeStats> {
    let configured = &view.settings.charges;
    let history = view.standing.usages.charging().history();
    if configured.is_empty() && history.is_empty() {
        return None;
    }
    let shown = history.changes().map(|change| ChargeShown {
        queue: change.queue.into(),
        since: change.since,
        factor: change.factor,
    });
    Some(ChargeStats { configured: configured.clone(), changes: shown.collect() })
}
