// SPDX-License-Identifier: LGPL-3.0-only
//! A recount from scratch, to be compared with the counters in use.

use super::super::View;
use super::heading::Overruled;
use crate::ids::{BankName, UserId};
use crate::limits::Phase;
use serde::{Deserialize, Serialize};

/// The answer to `check`: the result of a recount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Live jobs.
    pub jobs: usize,
    /// Of these, jobs that wait for an association.
    pub waiting: usize,
    /// Associations known.
    pub associations: usize,
    /// What running jobs were given.
    #[serde(default)]
    pub running: Running,
    /// Associations whose counters differ from the recount. Always empty, or this is a bug.
    pub drift: Vec<Drift>,
    /// Set while another priority plugin decides.
    pub overruled: Option<Overruled>,
}

/// An association whose counters differ from a recount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The user.
    pub userid: UserId,
    /// The bank.
    pub bank: BankName,
    /// The counters, in words.
    pub what: String,
}

/// What running jobs were given, as their R says. Limits count what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// Running jobs.
    pub jobs: usize,
    /// Of these, jobs whose R can't be read.
    pub unread: usize,
    /// Nodes.
    pub nodes: u64,
    /// Cores.
    pub cores: u64,
    /// GPUs.
    pub gpus: u64,
    /// When the first of them began, in seconds since the epoch.
    pub since: Option<f64>,
    /// When the first of them was submitted.
    pub submitted: Option<f64>,
}

fn earlier(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::min)
}

/// What running jobs were given.
fn running(view: &View<'_>) -> Running {
    let mut sum = Running::default();
    for (_, job) in view.ledger.jobs().filter(|(_, job)| job.phase == Phase::Run) {
        sum.jobs += 1;
        sum.submitted = earlier(sum.submitted, job.submitted);
        let Some(given) = job.allocation.as_deref() else {
            sum.unread += 1;
            continue;
        };
        sum.nodes = sum.nodes.saturating_add(given.nodes);
        sum.cores = sum.cores.saturating_add(given.cores);
        sum.gpus = sum.gpus.saturating_add(given.gpus);
        sum.since = earlier(sum.since, given.start);
    }
    sum
}

/// Recounts all live jobs and compares.
pub fn check(view: &View<'_>) -> Check {
    let named = |(id, what)| {
        let association = view.book.association(id)?;
        Some(Drift { userid: association.user, bank: association.bank.clone(), what })
    };
    Check {
        jobs: view.ledger.len(),
        waiting: view.ledger.waiting().count(),
        associations: view.book.len(),
        running: running(view),
        drift: view.ledger.drift().into_iter().filter_map(named).collect(),
        overruled: None,
    }
}
