// SPDX-License-Identifier: LGPL-3.0-only
//! A cluster in virtual time around the engine: replays a job history under other rules.
//!
//! ```text
//! Trace ──> Host ── Event ──> Engine     the same as in the plugin: priorities, live usage, limits, release
//!            │  └── Effect <──┘
//!            └───> Scheduler             starts jobs: FCFS or EASY backfill, in the order of priorities
//! ```
//!
//! # Rules
//! - Time advances from event to event. At one instant jobs end first, then jobs are submitted, then jobs start.
//! - The engine gets a refresh of live fair-share when it is due, except where it can't change the outcome: if no job
//!   is pending, it is skipped; if no pending job fits, only the last refresh before the next event is run.
//! - The outcome depends on the history only, not on a clock, on threads or on the order of a hash table.
#![forbid(unsafe_code)]

mod delivery;
mod host;
mod measures;
mod scheduler;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

pub use measures::{BankShare, Distribution, Group, Measures};
pub use scheduler::Scheduler;
pub use trace::{Job, Means, Party, Trace};

use fairshare_engine::accounts::SiteRecords;
use fairshare_engine::engine::Settings;
use fairshare_engine::ids::BankName;
use fairshare_engine::standing::SitePart;
use host::Host;

/// The site data and settings with which the recorded jobs are replayed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Associations, limits and weights, as in a push.
    pub policy: SiteRecords,
    /// The tree and the ranking policy, as a push sends them.
    pub site: SitePart,
    /// The plugin's settings.
    pub settings: Settings,
    /// Scheduling algorithm.
    pub scheduler: Scheduler,
    /// The number of pending jobs after the first one that backfill considers.
    pub depth: usize,
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Cores of the cluster.
    pub cores: u64,
}

/// Replays a history. Counts the completed jobs in `done`. Returns an error if the engine
/// rejects the site.
pub fn replay(trace: &Trace, scenario: Scenario, done: &AtomicU64) -> Result<Measures, String> {
    let shares = delivery::bank_shares(&scenario.site);
    let mut host = Host::new(trace, scenario, done)?;
    while host.step() {}
    Ok(measures::summarize_replay(trace, host.into_result(), &shares))
}

/// The share of each bank's own associations in the whole site.
type BankShares = BTreeMap<BankName, f64>;
