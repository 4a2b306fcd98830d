// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the plugin's query document, and describes the terms of a priority and the limits that hold a job.
//!
//! All numbers come from this document.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::host::Active;
use crate::queue::Queue;

/// Priority of a job with urgency 31.
const EXPEDITED: i64 = 4_294_967_295;
/// The highest priority of a job with an urgency below 31.
const CEILING: f64 = 4_294_967_294.0;

/// The parts of the query document that the demo prints.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct View {
    factors: BTreeMap<String, i64>,
    banks: BTreeMap<String, f64>,
    queues: BTreeMap<String, Queue>,
    #[serde(rename = "mf_priority_map")]
    users: Vec<User>,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    userid: u32,
    banks: Vec<Association>,
}

#[derive(Clone, Debug, Deserialize)]
struct Association {
    bank_name: String,
    fairshare: f64,
    max_run_jobs: i64,
    cur_run_jobs: i64,
    max_sched_jobs: i64,
    cur_sched_jobs: i64,
    max_nodes: i64,
    cur_nodes: i64,
    max_cores: i64,
    cur_cores: i64,
    queue_usage: BTreeMap<String, QueueUsage>,
    held_jobs: BTreeMap<u64, HeldJob>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct QueueUsage {
    cur_run_jobs: i64,
    cur_nodes: i64,
    cur_sched_jobs: i64,
    cur_sched_nodes: i64,
    cur_sched_cores: i64,
}

#[derive(Clone, Debug, Deserialize)]
struct HeldJob {
    nnodes: i64,
    ncores: i64,
    queue: String,
    deps: Vec<String>,
}

/// A term of a priority: `weight * factor` points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) weight: i64,
    pub(super) factor: f64,
}

impl Term {
    pub(super) fn points(self) -> f64 {
        self.weight as f64 * self.factor
    }
}

/// The terms of a job's priority.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Terms {
    pub(super) fairshare: Term,
    pub(super) queue: Term,
    pub(super) bank: Term,
    pub(super) urgency: Term,
}

impl Terms {
    /// Returns the terms in the order of the output.
    pub(super) fn all(&self) -> [Term; 4] {
        [self.fairshare, self.queue, self.bank, self.urgency]
    }

    /// Returns the rounded sum of the terms. Urgencies 0 and 31 set the priority to 0 and 4294967295.
    pub(super) fn priority(&self, urgency: i64) -> i64 {
        match urgency {
            0 => 0,
            31 => EXPEDITED,
            _ => self.all().iter().map(|term| term.points()).sum::<f64>().round().clamp(0.0, CEILING) as i64,
        }
    }
}

/// A limit that holds a job: its dependency, and a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) name: String,
    pub(super) text: String,
}

impl View {
    pub(super) fn read(document: Value) -> Result<View, String> {
        serde_json::from_value(document).map_err(|error| format!("the plugin's query document: {error}"))
    }

    fn association(&self, job: &Active) -> Result<&Association, String> {
        let user = self.users.iter().find(|user| user.userid == job.userid);
        let bank = user.and_then(|user| user.banks.iter().find(|bank| bank.bank_name == job.bank));
        bank.ok_or_else(|| format!("the plugin has no association of user {} in {}", job.userid, job.bank))
    }

    /// Returns the terms of a job's priority from the plugin's current weights and factors.
    pub(super) fn terms(&self, job: &Active) -> Result<Terms, String> {
        let term = |name: &str, factor: f64| {
            let weight = self.factors.get(name).copied();
            weight
                .map(|weight| Term { weight, factor })
                .ok_or_else(|| format!("the plugin has no factor {name}"))
        };
        Ok(Terms {
            fairshare: term("fairshare", self.association(job)?.fairshare)?,
            queue: term("queue", self.queues.get(&job.queue).map_or(0.0, |queue| queue.priority as f64))?,
            bank: term("bank", self.banks.get(&job.bank).copied().unwrap_or(0.0))?,
            urgency: term("urgency", (job.urgency - 16) as f64)?,
        })
    }

    /// Returns the limits that hold `job`, with a description that names `user`, the user of the job.
    pub(super) fn holds(&self, job: &Active, user: &str) -> Result<Vec<Hold>, String> {
        let association = self.association(job)?;
        let Some(held) = association.held_jobs.get(&job.id) else { return Ok(Vec::new()) };
        let association_text = format!("{user} in {}", job.bank);
        let to_hold = |name: &String| Hold {
            name: name.clone(),
            text: self.describe_hold(&association_text, association, held, name),
        };
        Ok(held.deps.iter().map(to_hold).collect())
    }

    fn describe_hold(
        &self,
        user_in_bank: &str,
        association: &Association,
        held: &HeldJob,
        name: &str,
    ) -> String {
        let usage = association.queue_usage.get(&held.queue).copied().unwrap_or_default();
        let queue = format!("in queue {}", held.queue);
        let jobs = |used, limit| Measure { used, limit, need: 1, what: "jobs" };
        let nodes = |used, limit| Measure { used, limit, need: held.nnodes, what: "nodes" };
        let cores = |used, limit| Measure { used, limit, need: held.ncores, what: "cores" };
        // The plugin adds a dependency again as NAME.2, NAME.3, and so on: Flux allows each dependency only once.
        let kind = name.split('.').next().unwrap_or(name);
        match (kind, self.queues.get(&held.queue).and_then(|queue| queue.cap(kind))) {
            ("max-run-jobs-queue", Some(cap)) => {
                let measure = jobs(usage.cur_run_jobs, cap);
                format!("{user_in_bank} runs {measure} {queue}{}", measure.details())
            }
            ("max-sched-jobs-queue-limit", Some(cap)) => {
                let measure = jobs(usage.cur_sched_jobs, cap);
                format!("{user_in_bank} has {measure} pending {queue}{}", measure.details())
            }
            ("max-sched-nodes-queue-limit", Some(cap)) => {
                let measure = nodes(usage.cur_sched_nodes, cap);
                format!("pending jobs of {user_in_bank} ask for {measure} {queue}{}", measure.details())
            }
            ("max-sched-cores-queue-limit", Some(cap)) => {
                let measure = cores(usage.cur_sched_cores, cap);
                format!("pending jobs of {user_in_bank} ask for {measure} {queue}{}", measure.details())
            }
            ("max-resources-queue", Some(cap)) => {
                let measure = nodes(usage.cur_nodes + usage.cur_sched_nodes, cap);
                format!(
                    "running and pending jobs of {user_in_bank} ask for {measure} {queue}{}",
                    measure.details()
                )
            }
            ("max-running-jobs-user-limit", _) => {
                let measure = jobs(association.cur_run_jobs, association.max_run_jobs);
                format!("{user_in_bank} runs {measure}{}", measure.details())
            }
            ("max-sched-jobs-user-limit", _) => {
                let measure = jobs(association.cur_sched_jobs, association.max_sched_jobs);
                format!("{user_in_bank} has {measure} pending{}", measure.details())
            }
            ("max-resources-user-limit", _) => {
                let nodes = nodes(association.cur_nodes, association.max_nodes);
                let cores = cores(association.cur_cores, association.max_cores);
                let measure = if nodes.has_headroom() && !cores.has_headroom() { cores } else { nodes };
                format!("{user_in_bank} uses {measure}{}", measure.details())
            }
            _ => "the demo has no description of this limit".to_owned(),
        }
    }
}

/// A limit, its usage, and the additional amount that a held job needs.
struct Measure {
    used: i64,
    limit: i64,
    need: i64,
    what: &'static str,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.used, self.limit, self.what)
    }
}

impl Measure {
    fn has_headroom(&self) -> bool {
        self.used + self.need <= self.limit
    }

    /// Describes the amount that the job needs, and any headroom that is reserved for another job.
    fn details(&self) -> String {
        let need =
            if self.what == "jobs" { String::new() } else { format!(", this job needs {} more", self.need) };
        // If the limit has headroom, the plugin has reserved the headroom for a job that it released earlier.
        let reserved = if self.has_headroom() {
            "; the headroom left is reserved for a job released earlier"
        } else {
            ""
        };
        need + reserved
    }
}
