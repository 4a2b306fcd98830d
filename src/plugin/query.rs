// SPDX-License-Identifier: LGPL-3.0-only
//! The document of `flux jobtap query`. Keys, nesting and order are an interface; keys may be added at the top.

use super::costs::Cost;
use super::live;
use fairshare_engine::accounts::{Queue, ZeroScore};
use fairshare_engine::engine::answers::{AssociationSnapshot, HeldJob, Page, Snapshot};
use fairshare_engine::ids::{ProjectName, QueueName};
use fairshare_protocol::records::QueueValues;
use fairshare_protocol::{limits, settings};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Serialize)]
pub struct Document<'a> {
    mf_priority_map: Vec<ShownUser<'a>>,
    queues: BTreeMap<&'a str, ShownQueue<'a>>,
    #[serde(serialize_with = "serialize_texts")]
    projects: &'a [ProjectName],
    generation: u64,
    factors: &'a BTreeMap<String, i64>,
    banks: BTreeMap<&'a str, f64>,
    limits: Vec<Value>,
    config: ShownConfig,
    waiting: usize,
    waiting_users: Vec<u32>,
    removed_associations: Vec<ShownRemoved<'a>>,
    version: &'static str,
    /// The time of the last data, in seconds since the epoch.
    updated: Option<f64>,
    live: Value,
    running_limits: Value,
}

/// A page of the associations.
#[derive(Serialize)]
struct ShownPage<'a> {
    generation: u64,
    mf_priority_map: Vec<ShownUser<'a>>,
    /// The user id and bank after which the next page begins; null on the last page.
    next: Option<(u32, &'a str)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_associations: Option<Vec<ShownRemoved<'a>>>,
}

/// An association that a push removed, whose live jobs still count in it.
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
    #[serde(serialize_with = "serialize_texts")]
    queues: &'a [QueueName],
    queue_factor: i64,
    #[serde(serialize_with = "serialize_texts")]
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
    #[serde(serialize_with = "serialize_by_id")]
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
    deps: &'a [String],
}

#[derive(Serialize)]
struct ShownQueue<'a> {
    name: &'a str,
    #[serde(flatten)]
    values: QueueValues,
}

fn serialize_texts<T: Borrow<str>, S: Serializer>(names: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter().map(Borrow::borrow))
}

/// Serializes job ids as decimal texts, because the keys of a JSON object are texts.
fn serialize_by_id<S: Serializer>(
    held: &BTreeMap<u64, ShownHold<'_>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(held.iter().map(|(id, hold)| (id.to_string(), hold)))
}

/// Users without data that are shown. Before the first push these may be all users.
const MAX_WAITING: usize = 1000;

/// Returns the document. `updated` is the time of the last data, `cost` the cost of refreshes.
pub(super) fn document(snapshot: &Snapshot, updated: Option<SystemTime>, cost: Cost) -> Document<'_> {
    let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
    Document {
        mf_priority_map: group_by_user(&snapshot.associations),
        queues: snapshot.queues.iter().map(|queue| (queue.name.as_str(), show_queue(queue))).collect(),
        projects: &snapshot.projects,
        generation: snapshot.generation,
        factors: &snapshot.weights,
        banks: snapshot.banks.iter().map(|(bank, priority)| (bank.as_str(), *priority)).collect(),
        limits: snapshot.limits.iter().map(|one| limits::shown(&one.limit, one.used, one.reserved)).collect(),
        config: ShownConfig {
            deny_unknown_queues: snapshot.config.deny_unknown_queues,
            zero_score: match snapshot.config.zero_score {
                ZeroScore::Hold => "hold",
                ZeroScore::Floor => "floor",
            },
        },
        waiting: snapshot.waiting,
        waiting_users: snapshot.waiting_users.iter().take(MAX_WAITING).map(|user| user.0).collect(),
        removed_associations: show_removed(&snapshot.removed),
        version: env!("CARGO_PKG_VERSION"),
        updated: updated.and_then(since_epoch).map(|since| since.as_secs_f64()),
        live: live::document(&snapshot.live, cost),
        running_limits: settings::running_limits(&snapshot.live.settings),
    }
}

/// Returns a page of the associations as JSON, in the order and form of the document.
pub fn page(page: &Page) -> Result<String, serde_json::Error> {
    let last = page.associations.last().filter(|_| page.removed.is_none());
    serde_json::to_string(&ShownPage {
        generation: page.generation,
        mf_priority_map: group_by_user(&page.associations),
        next: last.map(|last| (last.association.user.0, last.association.bank.as_str())),
        removed_associations: page.removed.as_deref().map(show_removed),
    })
}

/// Groups sorted associations by user.
fn group_by_user(associations: &[AssociationSnapshot]) -> Vec<ShownUser<'_>> {
    let by_user = associations.chunk_by(|one, next| one.association.user == next.association.user);
    let user = |banks: &[AssociationSnapshot]| banks.first().map_or(0, |one| one.association.user.0);
    by_user
        .map(|banks| ShownUser { userid: user(banks), banks: banks.iter().map(show_bank).collect() })
        .collect()
}

fn show_removed<'a>(associations: &'a [AssociationSnapshot]) -> Vec<ShownRemoved<'a>> {
    let shown = |association: &'a AssociationSnapshot| ShownRemoved {
        userid: association.association.user.0,
        removed: true,
        bank: show_bank(association),
    };
    associations.iter().map(shown).collect()
}

fn show_bank(shown: &AssociationSnapshot) -> ShownBank<'_> {
    let AssociationSnapshot { association, occupied, .. } = shown;
    let queue_usage = shown.occupied_in.iter().map(|(name, occupied)| {
        let shown = ShownUsage {
            cur_run_jobs: occupied.run.jobs(),
            cur_nodes: occupied.run.nodes(),
            cur_sched_jobs: occupied.sched.jobs(),
            cur_sched_nodes: occupied.sched.nodes(),
            cur_sched_cores: occupied.sched.cores(),
        };
        (name.as_str(), shown)
    });
    ShownBank {
        bank_name: association.bank.as_str(),
        fairshare: shown.fairshare,
        max_run_jobs: association.max_running_jobs.0,
        cur_run_jobs: occupied.run.jobs(),
        max_active_jobs: association.max_active_jobs.0,
        cur_active_jobs: shown.active_jobs,
        queues: &association.queues,
        queue_factor: shown.queue_priority,
        projects: &association.projects,
        def_project: association.def_project.as_ref().map_or("", |p| p.as_str()),
        max_nodes: association.max_nodes.0,
        max_cores: association.max_cores.0,
        cur_nodes: occupied.run.nodes(),
        cur_cores: occupied.run.cores(),
        active: u8::from(association.active),
        cur_sched_jobs: occupied.sched.jobs(),
        max_sched_jobs: association.max_sched_jobs.0,
        queue_usage: queue_usage.collect(),
        held_jobs: shown.held.iter().map(|held| (held.id.0, show_hold(held))).collect(),
    }
}

fn show_hold(held: &HeldJob) -> ShownHold<'_> {
    let queue = held.queue.as_ref().map_or("", |queue| queue.as_str());
    ShownHold { nnodes: held.size.nodes, ncores: held.size.cores, queue, deps: &held.names }
}

fn show_queue(queue: &Queue) -> ShownQueue<'_> {
    ShownQueue { name: queue.name.as_str(), values: queue.into() }
}
