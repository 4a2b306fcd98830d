// SPDX-License-Identifier: LGPL-3.0-only
//! The document `flux jobtap query` shows. Keys, nesting and order are an interface; keys may be added at the top.

use super::wire::Page;
use crate::accounts::{Association, AssociationId, Book, Queue, ZeroScore};
use crate::engine::ids::{ProjectName, QueueName, UserId};
use crate::engine::{Check, Engine, Knowledge};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Serialize)]
pub struct Document<'a> {
    mf_priority_map: Vec<ShownUser<'a>>,
    queues: BTreeMap<&'a str, ShownQueue<'a>>,
    #[serde(serialize_with = "texts")]
    projects: &'a [ProjectName],
    generation: u64,
    factors: BTreeMap<&'a str, i64>,
    banks: BTreeMap<&'a str, f64>,
    config: ShownConfig,
    waiting: usize,
    waiting_users: Vec<u32>,
    removed_associations: Vec<ShownRemoved<'a>>,
    version: &'static str,
    /// When data last came, in seconds since the epoch.
    updated: Option<f64>,
}

/// Some of the associations.
#[derive(Serialize)]
struct ShownPage<'a> {
    generation: u64,
    mf_priority_map: Vec<ShownUser<'a>>,
    /// Where the next page begins; null if this is the last.
    next: Option<(u32, &'a str)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_associations: Option<Vec<ShownRemoved<'a>>>,
}

/// An association that a push removed while jobs of it live: they go on counting in it.
#[derive(Serialize)]
struct ShownRemoved<'a> {
    userid: u32,
    removed: bool,
    #[serde(flatten)]
    bank: ShownBank<'a>,
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
    #[serde(serialize_with = "by_id")]
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

/// Keys of an object are texts: decimal job ids.
fn by_id<S: Serializer>(held: &BTreeMap<u64, ShownHold<'_>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(held.iter().map(|(id, hold)| (id.to_string(), hold)))
}

/// What a page shows at most of held jobs before it ends, however few the associations.
const MAX_HELD: usize = 2000;
/// Users without data who are shown by id; before the first push that may be everybody.
const MAX_WAITING: usize = 1000;

/// The document. `updated` is when data last came.
pub fn document(engine: &Engine, updated: Option<SystemTime>) -> Document<'_> {
    let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
    let book = engine.book();
    let config = book.config();
    Document {
        mf_priority_map: users(
            book.associations(None).map(|(id, record)| (record.user, bank(engine, id, record))),
        ),
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
        waiting_users: engine.ledger().waiting_users().take(MAX_WAITING).map(|user| user.0).collect(),
        removed_associations: removed(engine, |_| true),
        version: env!("CARGO_PKG_VERSION"),
        updated: updated.and_then(since_epoch).map(|since| since.as_secs_f64()),
    }
}

/// One page of the associations, in the order and form of the document; the last one also shows removed ones.
pub fn page(engine: &Engine, wanted: &Page) -> Result<String, serde_json::Error> {
    let book = engine.book();
    let is_wanted = |user: UserId| wanted.user.is_none_or(|only| only == user.0);
    let first = wanted.user.map(|user| (user, String::new()));
    let after = wanted.after.as_ref().max(first.as_ref()).map(|(user, bank)| (UserId(*user), bank.as_str()));
    let mut rest = book.associations(after).take_while(|(_, record)| is_wanted(record.user)).peekable();
    let mut shown = Vec::new();
    let mut held = 0;
    while shown.len() < wanted.limit && held < MAX_HELD {
        let Some((id, record)) = rest.next() else { break };
        let bank = bank(engine, id, record);
        held += bank.held_jobs.len();
        shown.push((record.user, bank));
    }
    let next = rest.peek().and(shown.last()).map(|(user, bank)| (user.0, bank.bank_name));
    let removed = next.is_none().then(|| removed(engine, is_wanted));
    serde_json::to_string(&ShownPage {
        generation: book.generation(),
        mf_priority_map: users(shown.into_iter()),
        next,
        removed_associations: removed,
    })
}

/// Associations in order, gathered by user.
fn users<'a>(banks: impl Iterator<Item = (UserId, ShownBank<'a>)>) -> Vec<ShownUser<'a>> {
    let mut users: Vec<ShownUser<'a>> = Vec::new();
    for (user, bank) in banks {
        match users.last_mut().filter(|last| last.userid == user.0) {
            Some(last) => last.banks.push(bank),
            None => users.push(ShownUser { userid: user.0, banks: vec![bank] }),
        }
    }
    users
}

fn removed(engine: &Engine, is_wanted: impl Fn(UserId) -> bool) -> Vec<ShownRemoved<'_>> {
    let has_jobs = |id| engine.ledger().usage(id).is_some_and(|usage| usage.active_jobs > 0);
    let gone = engine.book().removed().filter(|(id, record)| has_jobs(*id) && is_wanted(record.user));
    gone.map(|(id, record)| ShownRemoved {
        userid: record.user.0,
        removed: true,
        bank: bank(engine, id, record),
    })
    .collect()
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
            cur_run_jobs: tally.charged.run.jobs(),
            cur_nodes: tally.charged.run.nodes(),
            cur_sched_jobs: tally.charged.sched.jobs(),
            cur_sched_nodes: tally.charged.sched.nodes(),
            cur_sched_cores: tally.charged.sched.cores(),
        };
        (name.as_str(), shown)
    });
    ShownBank {
        bank_name: association.bank.as_str(),
        fairshare: engine.book().fairshare(id).unwrap_or_default(),
        max_run_jobs: association.max_running_jobs.0,
        cur_run_jobs: counts.run.jobs(),
        max_active_jobs: association.max_active_jobs.0,
        cur_active_jobs: usage.map_or(0, |usage| usage.active_jobs),
        queues: &association.queues,
        queue_factor: latest.map_or(0, |queue| queue.priority),
        projects: &association.projects,
        def_project: association.def_project.as_ref().map_or("", |p| p.as_str()),
        max_nodes: association.max_nodes.0,
        max_cores: association.max_cores.0,
        cur_nodes: counts.run.nodes(),
        cur_cores: counts.run.cores(),
        active: u8::from(association.active),
        cur_sched_jobs: counts.sched.jobs(),
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
    let running = check.running;
    let drift: Vec<Value> = check
        .drift
        .iter()
        .map(|(user, bank, what)| json!({"userid": user.0, "bank": bank.as_str(), "what": what}))
        .collect();
    json!({
        "jobs": check.jobs,
        "waiting": check.waiting,
        "associations": check.associations,
        "running": {
            "jobs": running.jobs, "unread": running.unread,
            "nodes": running.nodes, "cores": running.cores, "gpus": running.gpus,
            "since": running.since, "submitted": running.submitted,
        },
        "drift": drift,
    })
    .to_string()
}
