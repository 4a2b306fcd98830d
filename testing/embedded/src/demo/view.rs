// SPDX-License-Identifier: LGPL-3.0-only
//! The plugin's query document, read for people: what a priority is made of, what a limit says.
//!
//! Nothing here knows an outcome: a term is a weight times a factor, both from the document, and a hold is a name and
//! two counters from the document.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::host::Active;

/// Priority of a job of urgency 31.
const EXPEDITED: i64 = 4_294_967_295;
/// The highest priority that a sum can make.
const CEILING: f64 = 4_294_967_294.0;

/// The document, as far as the demo shows it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct View {
    factors: BTreeMap<String, i64>,
    banks: BTreeMap<String, f64>,
    queues: BTreeMap<String, Queue>,
    #[serde(rename = "mf_priority_map")]
    users: Vec<User>,
}

#[derive(Clone, Debug, Deserialize)]
struct Queue {
    priority: i64,
    max_running_jobs: i64,
    max_nodes_per_assoc: i64,
    max_sched_jobs: i64,
    max_sched_nodes_per_assoc: i64,
    max_sched_cores_per_assoc: i64,
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

/// A part of a priority: `weight * factor` points.
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

/// The parts of one job's priority.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Terms {
    pub(super) fairshare: Term,
    pub(super) queue: Term,
    pub(super) bank: Term,
    pub(super) urgency: Term,
}

impl Terms {
    /// In the order in which people read them.
    pub(super) fn all(&self) -> [Term; 4] {
        [self.fairshare, self.queue, self.bank, self.urgency]
    }

    /// The priority that the parts make; urgency 0 and 31 overrule them.
    pub(super) fn priority(&self, urgency: i64) -> i64 {
        match urgency {
            0 => 0,
            31 => EXPEDITED,
            _ => self.all().iter().map(|term| term.points()).sum::<f64>().round().clamp(0.0, CEILING) as i64,
        }
    }
}

/// A held job with what holds it: names of limits, and each in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) name: String,
    pub(super) words: String,
}

impl View {
    pub(super) fn read(document: Value) -> Result<View, String> {
        serde_json::from_value(document).map_err(|error| format!("the plugin's query document: {error}"))
    }

    fn association(&self, job: &Active) -> Result<&Association, String> {
        let user = self.users.iter().find(|user| user.userid == job.userid);
        let bank = user.and_then(|user| user.banks.iter().find(|bank| bank.bank_name == job.bank));
        bank.ok_or_else(|| format!("the plugin knows no association of user {} in {}", job.userid, job.bank))
    }

    /// What the job's priority is made of, by the plugin's present weights and factors.
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

    /// The limits that hold a job, in words, for a user of this name.
    pub(super) fn holds(&self, job: &Active, user: &str) -> Result<Vec<Hold>, String> {
        let association = self.association(job)?;
        let Some(held) = association.held_jobs.get(&job.id) else { return Ok(Vec::new()) };
        let who = format!("{user} in {}", job.bank);
        let words =
            |name: &String| Hold { name: name.clone(), words: self.words(&who, association, held, name) };
        Ok(held.deps.iter().map(words).collect())
    }

    fn words(&self, who: &str, association: &Association, held: &HeldJob, name: &str) -> String {
        let usage = association.queue_usage.get(&held.queue).copied().unwrap_or_default();
        let queue = format!("in queue {}", held.queue);
        let jobs = |used, limit| Measure { used, limit, need: 1, what: "jobs" };
        let nodes = |used, limit| Measure { used, limit, need: held.nnodes, what: "nodes" };
        let cores = |used, limit| Measure { used, limit, need: held.ncores, what: "cores" };
        // A limit that ran full again while the job waited for something else comes back as NAME.2, NAME.3, ..
        let kind = name.split('.').next().unwrap_or(name);
        match (kind, self.queues.get(&held.queue)) {
            ("max-run-jobs-queue", Some(limits)) => {
                let measure = jobs(usage.cur_run_jobs, limits.max_running_jobs);
                format!("{who} runs {measure} {queue}{}", measure.rest())
            }
            ("max-sched-jobs-queue-limit", Some(limits)) => {
                let measure = jobs(usage.cur_sched_jobs, limits.max_sched_jobs);
                format!("{who} has {measure} pending {queue}{}", measure.rest())
            }
            ("max-sched-nodes-queue-limit", Some(limits)) => {
                let measure = nodes(usage.cur_sched_nodes, limits.max_sched_nodes_per_assoc);
                format!("pending jobs of {who} ask for {measure} {queue}{}", measure.rest())
            }
            ("max-sched-cores-queue-limit", Some(limits)) => {
                let measure = cores(usage.cur_sched_cores, limits.max_sched_cores_per_assoc);
                format!("pending jobs of {who} ask for {measure} {queue}{}", measure.rest())
            }
            ("max-resources-queue", Some(limits)) => {
                let measure = nodes(usage.cur_nodes + usage.cur_sched_nodes, limits.max_nodes_per_assoc);
                format!("running and pending jobs of {who} ask for {measure} {queue}{}", measure.rest())
            }
            ("max-running-jobs-user-limit", _) => {
                let measure = jobs(association.cur_run_jobs, association.max_run_jobs);
                format!("{who} runs {measure}{}", measure.rest())
            }
            ("max-sched-jobs-user-limit", _) => {
                let measure = jobs(association.cur_sched_jobs, association.max_sched_jobs);
                format!("{who} has {measure} pending{}", measure.rest())
            }
            ("max-resources-user-limit", _) => {
                let nodes = nodes(association.cur_nodes, association.max_nodes);
                let cores = cores(association.cur_cores, association.max_cores);
                let measure = if nodes.has_room() && !cores.has_room() { cores } else { nodes };
                format!("{who} uses {measure}{}", measure.rest())
            }
            _ => "a limit that this demo has no words for".to_owned(),
        }
    }
}

/// A limit, how much of it is used, and how much more a held job needs.
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
    fn has_room(&self) -> bool {
        self.used + self.need <= self.limit
    }

    /// What else there is to say.
    fn rest(&self) -> String {
        let need =
            if self.what == "jobs" { String::new() } else { format!(", this job needs {} more", self.need) };
        // At rest, a limit with room can only hold a job because the room is kept for one that was released.
        let kept = if self.has_room() { "; the room left is kept for a job released before" } else { "" };
        need + kept
    }
}
