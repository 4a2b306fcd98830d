// SPDX-License-Identifier: LGPL-3.0-only
//! How jobs are charged, in the answer to `stats`. `flux fairshare sync` stores the changes in the accounting database.

use super::super::View;
use crate::ids::{QueueName, Word};
use fairshare::charging::{ChargeBy, ChargeChange};
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
    pub changes: Vec<ChargeRecord>,
    /// The time of the first configuration that the plugin has read since it was loaded, in seconds since the epoch. A queue without a
    /// change in `changes` has had the factor 1 from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_since: Option<f64>,
    /// The rule by which jobs that start now are charged for their resources: `sum` or `max`.
    pub charge_by: Word,
    /// The numbers of nodes, cores and GPUs of the site. If `charge_by` is `max`, a job is charged for the
    /// resource of which it got the largest part of the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<[u64; 3]>,
}

/// A change of the charge factor of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChargeRecord {
    /// The queue.
    pub queue: String,
    /// The time from which on the factor applies, in seconds since the epoch.
    pub since: f64,
    /// The factor.
    pub factor: f64,
}

impl From<ChargeChange> for ChargeRecord {
    fn from(ChargeChange { queue, since, factor }: ChargeChange) -> Self {
        ChargeRecord { queue: queue.into(), since, factor }
    }
}

/// Returns how jobs are charged; `None` if no queue has a factor and jobs are charged for the sum of their resources.
pub fn charge_stats(view: &View<'_>) -> Option<ChargeStats> {
    let configured = &view.settings.charges;
    let history = view.standing.usages.charging().history();
    if configured.is_empty() && history.is_empty() && view.settings.charge_by == ChargeBy::Sum {
        return None;
    }
    let rule = history.rules().last();
    let charge_by = rule.map_or(ChargeBy::Sum, |rule| rule.charge_by);
    let totals = rule.filter(|rule| rule.charge_by == ChargeBy::Max).map(|rule| rule.totals);
    Some(ChargeStats {
        configured: configured.clone(),
        changes: history.changes().map(ChargeRecord::from).collect(),
        seen_since: view.standing.usages.charging().seen_since(),
        charge_by: charge_by.name().into(),
        totals: totals.map(|Resources { nodes, cores, gpus }| [nodes, cores, gpus]),
    })
}
