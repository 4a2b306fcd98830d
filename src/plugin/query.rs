// SPDX-License-Identifier: LGPL-3.0-only
//! The document `flux jobtap query` shows. Keys, nesting and order are an interface; keys may be added at the top.

use crate::accounts::{Association, AssociationId, Book, Queue, ZeroScore};
use crate::engine::ids::{ProjectName, QueueName};
use crate::engine::{Check, Engine, Knowledge};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Document<'a> {
    mf_priority_map: Vec<ShownUser<'a>>,
    queues: BTreeMap<&'a str, ShownQueue<'a>>,
    #[serde(serialize_with = "texts")]
    projects: &'a [ProjectName],
    generation: u64,
    factors: BTreeMap<&'a str, i64>,
    banks: BTreeMap<&'a str, f64>,
    config: ShownConfig,
    waiting: usize,
}

#[derive(Serialize)]
struct ShownConfig {
    deny_unknown_queues: bool,
    zero_score: &'static str,
}

#[derive(Serialize)]
struct ShownUser<'a> {
    userid: u32,
    banks: Vec<ShownBank<'a>>,
}

#[derive(Serialize)]
struct ShownBank<'a> {
    bank_name: &'a str,
    fairshare: f64,
    max_run_jobs: i64,
    cur_run_jobs: u64,
    max_active_jobs: i64,
    cur_active_jobs: u64,
    #[serde(serialize_with = "texts")]
    queues: &'a [QueueName],
    queue_factor: i64,
    #[serde(serialize_with = "texts")]
    projects: &'a [ProjectName],
    def_project: &'a str,
    max_nodes: i64,
    max_cores: i64,
    cur_nodes: u64,
    cur_cores: u64,
    active: u8,
    cur_sched_jobs: u64,
    max_sched_jobs: i64,
    queue_usage: BTreeMap<&'a str, ShownUsage>,
    /// Keys are decimal job ids.
    held_jobs: BTreeMap<u64, ShownHold<'a>>,
}

#[derive(Serialize)]
struct ShownUsage {
    cur_run_jobs: u64,
    cur_nodes: u64,
    cur_sched_jobs: u64,
    cur_sched_nodes: u64,
    cur_sched_cores: u64,
}

#[derive(Serialize)]
struct ShownHold<'a> {
    nnodes: u64,
    ncores: u64,
    queue: &'a str,
    deps: Vec<String>,
}

#[derive(Serialize)]
struct ShownQueue<'a> {
    name: &'a str,
    min_nodes_per_job: i64,
    max_nodes_per_job: i64,
    max_time_per_job: i64,
    priority: i64,
    max_running_jobs: i64,
    max_nodes_per_assoc: i64,
    max_sched_jobs: i64,
    max_sched_nodes_per_assoc: i64,
    max_sched_cores_per_assoc: i64,
}

fn texts<T: Borrow<str>, S: Serializer>(names: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter().map(Borrow::borrow))
}

/// The document as JSON text.
pub fn document(engine: &Engine) -> Result<String, serde_json::Error> {
    let book = engine.book();
    let banks = |(id, association)| bank(engine, id, association);
    let users =
        book.users().map(|(user, entries)| ShownUser { userid: user.0, banks: entries.map(banks).collect() });
    let config = book.config();
    serde_json::to_string(&Document {
        mf_priority_map: users.collect(),
        queues: book.queues().map(|queue| (queue.name.as_str(), self::queue(queue))).collect(),
        projects: book.projects(),
        generation: book.generation(),
        factors: factors(book),
        banks: book.banks().map(|(bank, priority)| (bank.as_str(), priority)).collect(),
        config: ShownConfig {
            deny_unknown_queues: config.deny_unknown_queues,
            zero_score: match config.zero_score {
                ZeroScore::Hold => "hold",
                ZeroScore::Floor => "floor",
            },
        },
        waiting: engine.ledger().waiting().count(),
    })
}

fn factors(book: &Book) -> BTreeMap<&str, i64> {
    let weights = book.weights();
    let others = weights.others.iter().map(|(name, weight)| (name.as_str(), *weight));
    let known = [
        ("fairshare", weights.fairshare),
        ("queue", weights.queue),
        ("bank", weights.bank),
        ("urgency", weights.urgency),
    ];
    others.chain(known).collect()
}

fn bank<'a>(engine: &'a Engine, id: AssociationId, association: &'a Association) -> ShownBank<'a> {
    let ledger = engine.ledger();
    let usage = ledger.usage(id);
    let counts = usage.map(|usage| usage.total.charged).unwrap_or_default();
    let latest = ledger.latest_queue(id).and_then(|queue| engine.book().queue(queue.as_str()));
    let queue_usage = usage.into_iter().flat_map(|usage| usage.queues()).map(|(name, tally)| {
        let shown = ShownUsage {
            cur_run_jobs: tally.charged.run.jobs,
            cur_nodes: tally.charged.run.nodes,
            cur_sched_jobs: tally.charged.sched.jobs,
            cur_sched_nodes: tally.charged.sched.nodes,
            cur_sched_cores: tally.charged.sched.cores,
        };
        (name.as_str(), shown)
    });
    ShownBank {
        bank_name: association.bank.as_str(),
        fairshare: association.fairshare,
        max_run_jobs: association.max_running_jobs.0,
        cur_run_jobs: counts.run.jobs,
        max_active_jobs: association.max_active_jobs.0,
        cur_active_jobs: usage.map_or(0, |usage| usage.active_jobs),
        queues: &association.queues,
        queue_factor: latest.map_or(0, |queue| queue.priority),
        projects: &association.projects,
        def_project: association.def_project.as_ref().map_or("", |p| p.as_str()),
        max_nodes: association.max_nodes.0,
        max_cores: association.max_cores.0,
        cur_nodes: counts.run.nodes,
        cur_cores: counts.run.cores,
        active: u8::from(association.active),
        cur_sched_jobs: counts.sched.jobs,
        max_sched_jobs: association.max_sched_jobs.0,
        queue_usage: queue_usage.collect(),
        held_jobs: held(engine, id),
    }
}

/// Held jobs. Of a replayed job whose eventlog is not read yet, the limits that it exceeds now are shown.
fn held(engine: &Engine, id: AssociationId) -> BTreeMap<u64, ShownHold<'_>> {
    let ledger = engine.ledger();
    let mut held = BTreeMap::new();
    for job_id in ledger.in_depend(id) {
        let Some(job) = ledger.job(job_id) else { continue };
        let rules = ledger.rules();
        let deps: Vec<String> = match job.knowledge {
            Knowledge::Known => job.names.iter(rules).map(|name| name.to_string()).collect(),
            Knowledge::Unread | Knowledge::Unreadable => {
                let exceeded = ledger.exceeded_by(engine.book(), job_id);
                rules.members(exceeded).map(|hold| hold.name().to_owned()).collect()
            }
        };
        if deps.is_empty() {
            continue;
        }
        let queue = job.queue.as_ref().map_or("", |q| q.as_str());
        held.insert(job_id.0, ShownHold { nnodes: job.size.nodes, ncores: job.size.cores, queue, deps });
    }
    held
}

fn queue(queue: &Queue) -> ShownQueue<'_> {
    ShownQueue {
        name: queue.name.as_str(),
        min_nodes_per_job: queue.min_nodes_per_job,
        max_nodes_per_job: queue.max_nodes_per_job,
        max_time_per_job: queue.max_time_per_job,
        priority: queue.priority,
        max_running_jobs: queue.max_running_jobs.0,
        max_nodes_per_assoc: queue.max_nodes_per_assoc.0,
        max_sched_jobs: queue.max_sched_jobs.0,
        max_sched_nodes_per_assoc: queue.max_sched_nodes_per_assoc.0,
        max_sched_cores_per_assoc: queue.max_sched_cores_per_assoc.0,
    }
}

/// The answer to `check`.
pub fn check(check: &Check) -> String {
    let drift: Vec<Value> = check
        .drift
        .iter()
        .map(|(user, bank, what)| json!({"userid": user.0, "bank": bank.as_str(), "what": what}))
        .collect();
    json!({
        "jobs": check.jobs,
        "waiting": check.waiting,
        "associations": check.associations,
        "drift": drift,
    })
    .to_string()
}
