// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `stats`, which only the instance owner gets: the whole instance in numbers.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Stats {
    pub(in crate::cli) now: f64,
    pub(in crate::cli) version: Option<String>,
    pub(in crate::cli) generation: u64,
    pub(in crate::cli) live: bool,
    pub(in crate::cli) policy: Option<String>,
    /// When data last came.
    pub(in crate::cli) updated: Option<f64>,
    pub(in crate::cli) associations: u64,
    pub(in crate::cli) queues: u64,
    pub(in crate::cli) jobs: Jobs,
    pub(in crate::cli) held_by_limit: BTreeMap<String, u64>,
    pub(in crate::cli) pending: Vec<Load>,
    pub(in crate::cli) held: Vec<Load>,
    pub(in crate::cli) running: Vec<Load>,
    pub(in crate::cli) banks: Vec<Bank>,
    pub(in crate::cli) refresh: Refresh,
    pub(in crate::cli) push: Push,
    pub(in crate::cli) requests: BTreeMap<String, Requests>,
    pub(in crate::cli) waiting_requests: u64,
    /// Associations whose counters differ from a recount, where one was asked for.
    pub(in crate::cli) drift: Option<u64>,
    /// Set while another priority plugin decides.
    pub(in crate::cli) overruled: Option<super::Overruled>,
}

/// Active jobs by state. Each counts in exactly one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Jobs {
    pub(in crate::cli) pending: u64,
    pub(in crate::cli) held: u64,
    pub(in crate::cli) running: u64,
    /// Jobs of users without data.
    pub(in crate::cli) waiting: u64,
    /// Jobs in DEPEND that no limit of ours holds.
    pub(in crate::cli) blocked: u64,
    /// Jobs in CLEANUP.
    pub(in crate::cli) ending: u64,
}

/// The jobs of a bank in a queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Load {
    pub(in crate::cli) bank: Option<String>,
    pub(in crate::cli) queue: Option<String>,
    pub(in crate::cli) jobs: u64,
    pub(in crate::cli) nodes: u64,
    pub(in crate::cli) cores: u64,
}

/// A bank: what it was promised and what it has used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Bank {
    pub(in crate::cli) bank: String,
    pub(in crate::cli) parent: Option<String>,
    pub(in crate::cli) shares_part: f64,
    /// Of the whole site.
    pub(in crate::cli) promised: f64,
    pub(in crate::cli) usage: f64,
    pub(in crate::cli) usage_part: f64,
    /// Of all usage of the site.
    pub(in crate::cli) delivered: f64,
    pub(in crate::cli) associations: u64,
}

impl Bank {
    /// Its share over its usage, both as parts of its siblings'; infinite if it has used nothing.
    pub(in crate::cli) fn level(&self) -> Option<f64> {
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
pub(in crate::cli) struct Refresh {
    pub(in crate::cli) total: u64,
    pub(in crate::cli) seconds_total: f64,
    pub(in crate::cli) touched_total: u64,
    pub(in crate::cli) last: Option<LastRefresh>,
    pub(in crate::cli) under_way: bool,
    pub(in crate::cli) lagging: u64,
}

/// The last refresh.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct LastRefresh {
    pub(in crate::cli) when: f64,
    pub(in crate::cli) seconds: f64,
    pub(in crate::cli) changed: u64,
    pub(in crate::cli) touched: u64,
}

/// What pushes cost.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Push {
    pub(in crate::cli) total: u64,
    pub(in crate::cli) seconds_total: f64,
    pub(in crate::cli) last: Option<LastPush>,
}

/// The last push.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct LastPush {
    pub(in crate::cli) when: f64,
    pub(in crate::cli) seconds: f64,
}

/// How often a method was called.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Requests {
    pub(in crate::cli) total: u64,
    pub(in crate::cli) deferred: u64,
    pub(in crate::cli) refused: u64,
}
