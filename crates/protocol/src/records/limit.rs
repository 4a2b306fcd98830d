// SPDX-License-Identifier: LGPL-3.0-only
//! The records of limits that the site sets on an association, a bank, a user or a queue.

use fairshare_engine::accounts::{Cap, SiteLimit, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limits on one association, bank, user or queue, in the form that the plugin reads, with user ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitRecord {
    /// `association`, `bank`, `user` or `queue`.
    pub scope: String,
    /// The name of the association, bank, user or queue; `*` means each of them.
    pub name: String,
    /// Name of the queue; empty means all queues.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// How running jobs are counted: by their allocated resources if the value is `given`, else by the resources of
    /// their jobspec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<String>,
    /// The limits, by the name of the limited amount, such as `run-jobs`.
    #[serde(flatten)]
    pub caps: BTreeMap<String, i64>,
}

impl From<&SiteLimit> for LimitRecord {
    fn from(limit: &SiteLimit) -> Self {
        let SiteLimit { target, queue, amount, cap: Cap { limit, is_given } } = limit;
        LimitRecord {
            scope: target.kind().to_owned(),
            name: target.name(),
            queue: queue
                .as_ref()
                .filter(|_| !matches!(target, Target::Queue(_)))
                .map_or(String::new(), ToString::to_string),
            counts: is_given.then(|| "given".to_owned()),
            caps: BTreeMap::from([(amount.to_string(), limit.0)]),
        }
    }
}
