// SPDX-License-Identifier: LGPL-3.0-only
//! Recounts all live jobs, and compares the result with the counters in use.

use super::super::View;
use super::heading::Overruled;
use crate::ids::{BankName, UserId};
use crate::limits::Phase;
use serde::{Deserialize, Serialize};

/// The answer to `check`: the result of a recount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Live jobs.
    pub jobs: usize,
    /// Live jobs without an association.
    pub waiting: usize,
    /// The number of associations.
    pub associations: usize,
    /// The resources of running jobs.
    #[serde(default)]
    pub running: Running,
    /// Associations whose counters differ from the recount. If there are any, the plugin has a bug.
    pub drift: Vec<Drift>,
    /// Set while another priority plugin sets the priorities of jobs.
    pub overruled: Option<Overruled>,
}

/// An association whose counters differ from a recount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// The user.
    pub userid: UserId,
    /// The bank.
    pub bank: BankName,
    /// The counters that differ, in words.
    pub what: String,
}

/// The resources of running jobs, from their R. Limits count the requested resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Running {
    /// Running jobs.
    pub jobs: usize,
    /// Running jobs whose R cannot be read.
    pub unread: usize,
    /// Nodes.
    pub nodes: u64,
    /// Cores.
    pub cores: u64,
    /// GPUs.
    pub gpus: u64,
    /// The earliest start time in R, in seconds since the epoch.
    pub since: Option<f64>,
    /// The earliest time of submission, in seconds since the epoch.
    pub submitted: Option<f64>,
}

fn choose_earlier_time(former: Option<f64>, other: Option<f64>) -> Option<f64> {
    former.into_iter().chain(other).reduce(f64::min)
}

/// Returns the sum of the resources of running jobs.
fn sum_resources_of_running_jobs(view: &View<'_>) -> Running {
    let mut sum = Running::default();
    for (_, job) in view.ledger.jobs().filter(|(_, job)| job.phase == Phase::Run) {
        sum.jobs += 1;
        sum.submitted = choose_earlier_time(sum.submitted, job.submitted);
        let Some(given) = job.allocation.as_deref() else {
            sum.unread += 1;
            continue;
        };
        sum.nodes = sum.nodes.saturating_add(given.nodes);
        sum.cores = sum.cores.saturating_add(given.cores);
        sum.gpus = sum.gpus.saturating_add(given.gpus);
        sum.since = choose_earlier_time(sum.since, given.start);
    }
    sum
}

/// Recounts all live jobs, and compares the result with the counters in use.
pub fn check(view: &View<'_>) -> Check {
    let make_drift = |(id, what)| {
        let association = view.book.association(id)?;
        Some(Drift { userid: association.user, bank: association.bank.clone(), what })
    };
    Check {
        jobs: view.ledger.job_count(),
        waiting: view.ledger.waiting().values().flatten().count(),
        associations: view.book.len(),
        running: sum_resources_of_running_jobs(view),
        drift: view.ledger.drift().into_iter().filter_map(make_drift).collect(),
        overruled: None,
    }
}
