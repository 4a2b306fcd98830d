// SPDX-License-Identifier: LGPL-3.0-only
//! How jobs are charged, in the answer to `stats`. `flux fairshare sync` stores the changes in the accounting database.

use super::super::View;
use crate::ids::{QueueName, Word};
use fairshare::charging::ChargeBy;
use fairshare::periods::Resources;
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
    /// The time of the first configuration that the plugin has read since it was loaded, in seconds since the epoch. A queue without a
    /// change in `changes` has had the factor 1 from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_since: Option<f64>,
    /// The resources that a job is charged for if it starts now: `sum` or `max`.
    pub charge_by: Word,
    /// The resources of the site, as nodes, cores and GPUs, by which jobs are charged if `charge_by` is `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<[u64; 3]>,
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

/// Returns how jobs are charged; `None` if no queue has a factor and jobs are charged for the sum of their resources.
pub(super) fn charge_stats(view: &View<'_>) -> Option<ChargeStats> {
    let configured = &view.settings.charges;
    let history = view.standing.usages.charging().history();
    if configured.is_empty() && history.is_empty() && view.settings.charge_by == ChargeBy::Sum {
        return None;
    }
    let shown = history.changes().map(|change| ChargeShown {
        queue: change.queue.into(),
        since: change.since,
        factor: change.factor,
    });
    let rule = history.rules().last();
    let charge_by = rule.map_or(ChargeBy::Sum, |rule| rule.charge_by);
    let totals = rule.filter(|rule| rule.charge_by == ChargeBy::Max).map(|rule| rule.totals);
    Some(ChargeStats {
        configured: configured.clone(),
        changes: shown.collect(),
        seen_since: view.standing.usages.charging().seen_since(),
        charge_by: charge_by.name().into(),
        totals: totals.map(|Resources { nodes, cores, gpus }| [nodes, cores, gpus]),
    })
}
