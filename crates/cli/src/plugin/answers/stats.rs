// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `stats`, which only the instance owner gets: the whole instance in numbers.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stats {
    pub(crate) now: f64,
    pub(crate) version: Option<String>,
    pub(crate) generation: u64,
    pub(crate) live: bool,
    pub(crate) policy: Option<String>,
    /// When data last came.
    pub(crate) updated: Option<f64>,
    pub(crate) associations: u64,
    pub(crate) queues: u64,
    pub(crate) jobs: InstanceJobCounts,
    pub(crate) held_by_limit: BTreeMap<String, u64>,
    pub(crate) pending: Vec<Load>,
    pub(crate) held: Vec<Load>,
    pub(crate) running: Vec<Load>,
    pub(crate) banks: Vec<Bank>,
    pub(crate) refresh: Refresh,
    pub(crate) push: PushStats,
    pub(crate) requests: BTreeMap<String, Requests>,
    pub(crate) waiting_requests: u64,
    /// Associations whose counters differ from a recount, where one was asked for.
    pub(crate) drift: Option<u64>,
    /// Set while another priority plugin decides.
    pub(crate) overruled: Option<super::overruled::Overruled>,
}

/// Active jobs by state. Each counts in exactly one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InstanceJobCounts {
    pub(crate) pending: u64,
    pub(crate) held: u64,
    pub(crate) running: u64,
    /// Jobs of users without data.
    pub(crate) waiting: u64,
    /// Jobs in DEPEND that no limit of ours holds.
    pub(crate) blocked: u64,
    /// Jobs in CLEANUP.
    pub(crate) ending: u64,
}

/// The jobs of a bank in a queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Load {
    pub(crate) bank: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) jobs: u64,
    pub(crate) nodes: u64,
    pub(crate) cores: u64,
}

/// A bank: what it was promised and what it has used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Bank {
    pub(crate) bank: String,
    pub(crate) parent: Option<String>,
    pub(crate) shares_part: f64,
    /// Of the whole site.
    pub(crate) promised: f64,
    pub(crate) usage: f64,
    pub(crate) usage_part: f64,
    /// Of all usage of the site.
    pub(crate) delivered: f64,
    pub(crate) associations: u64,
}

impl Bank {
    /// Its share over its usage, both as parts of its siblings'; infinite if it has used nothing.
    pub(crate) fn level(&self) -> Option<f64> {
        match (self.shares_part, self.usage_part) {
            (0.0, _) => None,
            (_, 0.0) => Some(f64::INFINITY),
            (share, usage) => Some(share / usage),
        }
    }
}

/// What refreshes cost.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refresh {
    pub(crate) total: u64,
    pub(crate) seconds_total: f64,
    pub(crate) touched_total: u64,
    pub(crate) last: Option<LastRefresh>,
    pub(crate) under_way: bool,
    pub(crate) lagging: u64,
}

/// The last refresh.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LastRefresh {
    pub(crate) when: f64,
    pub(crate) seconds: f64,
    pub(crate) changed: u64,
    pub(crate) touched: u64,
}

/// What pushes cost.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PushStats {
    pub(crate) total: u64,
    pub(crate) seconds_total: f64,
    pub(crate) last: Option<LastPush>,
}

/// The last push.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LastPush {
    pub(crate) when: f64,
    pub(crate) seconds: f64,
}

/// How often a method was called.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Requests {
    pub(crate) total: u64,
    pub(crate) deferred: u64,
    pub(crate) refused: u64,
}
