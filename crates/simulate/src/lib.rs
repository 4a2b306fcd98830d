// SPDX-License-Identifier: LGPL-3.0-only
//! A cluster in virtual time around the engine: what would have become of a job history under other rules.
//!
//! ```text
//! Trace ──> Host ── Event ──> Engine     the same as in the plugin: prices, live usage, limits, release
//!            │  └── Effect <──┘
//!            └───> Scheduler             who starts: FCFS or EASY backfill, in the order of the priorities
//! ```
//!
//! # Rules
//! - Time goes from event to event. Of one instant first the ends come, then the submissions, then whoever starts.
//! - A refresh of live fair-share is given to the engine when it is due, but not where nobody could tell: while nothing
//!   waits, and, while no waiting job finds room, only the last before the next event.
//! - Nothing depends on a clock, on threads or on the order of a hash: the same history gives the same outcome.
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

pub use measures::{BankShare, Group, Measures, Spread};
pub use scheduler::Scheduler;
pub use trace::{Job, Means, Party, Trace};

use fairshare_engine::accounts::Policy;
use fairshare_engine::engine::Settings;
use fairshare_engine::ids::BankName;
use fairshare_engine::standing::SitePart;
use host::Host;

/// Under which rules a history is replayed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Associations, limits, weights: what a push brings.
    pub policy: Policy,
    /// The tree and how it is ranked: of the same push.
    pub site: SitePart,
    /// The plugin's settings.
    pub settings: Settings,
    /// Who starts.
    pub scheduler: Scheduler,
    /// How many pending jobs behind the first are looked at for backfill.
    pub depth: usize,
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Cores of the cluster.
    pub cores: u64,
}

/// Replays a history, and counts the jobs that are done with. `Err` says why the engine refused the site.
pub fn replay(trace: &Trace, scenario: Scenario, done: &AtomicU64) -> Result<Measures, String> {
    let promised = delivery::promised(&scenario.site);
    let mut host = Host::new(trace, scenario, Some(done))?;
    while host.step() {}
    Ok(measures::of(trace, host.finish(), &promised))
}

/// What a bank was promised of the whole, by its name.
type Promised = BTreeMap<BankName, f64>;
