// SPDX-License-Identifier: LGPL-3.0-only
//! Records as lines of texts, and the texts as parts of a push: what is read back goes the way of a push, and is judged
//! as one.
//!
//! Where a text ends depends on the users in it alone: an association that comes, goes or changes leaves all texts but its
//! own as they are.

use super::record::{Fault, Group, hash};
use crate::accounts::ZeroScore;
use crate::engine::{Kept, Rest};
use crate::fairshare::Shares;
use crate::ids::UserId;
use crate::plugin::limits::{self, LIMITS};
use crate::standing::{Leaf, Rule};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::{Display, Write};
use xxhash_rust::xxh3::xxh3_64;

/// One user in so many ends a text of fair-shares or usages, and one in so many, of these, a group.
const USERS_OF_TEXT: u64 = 64;
const USERS_OF_GROUP: u64 = 256;
/// A group is a part of a push: where no user ends one for so long, it ends nevertheless.
const MAX_RECORDS: usize = 900;
const MAX_BYTES: usize = 512 << 10;
/// Records of the rest that go together.
const REST_AT_ONCE: usize = 500;

/// A text with its hash.
pub(super) type Text = (String, String);

/// A group that is complete, and its texts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Complete {
    pub group: Group,
    pub texts: Vec<Text>,
}

/// Puts records into groups.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    open: Complete,
    last: Option<UserId>,
    records: usize,
    limits: String,
    fairshares: String,
    usages: String,
}

/// What is rarely changed of an association: keys and values as in a push.
#[derive(Serialize)]
struct Limits<'a> {
    userid: u32,
    bank: &'a str,
    def_bank: &'a str,
    max_running_jobs: i64,
    max_active_jobs: i64,
    max_sched_jobs: i64,
    max_nodes: i64,
    max_cores: i64,
    queues: String,
    projects: String,
    def_project: &'a str,
    active: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shares: Option<u64>,
}

fn joined<T: Display>(names: &[T]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A push counts shares; only documents know of others.
fn count(shares: Shares) -> u64 {
    match shares {
        Shares::Count(count) => count,
        Shares::Parent => 0,
    }
}

fn is_end(user: UserId, every: u64) -> bool {
    xxh3_64(&user.0.to_le_bytes()).is_multiple_of(every)
}

impl Cutter {
    /// Takes the next record in, which comes after all before it. Gives the group that it ended, if it did.
    pub(super) fn add(&mut self, kept: &Kept) -> Option<Complete> {
        let user = kept.record.association.user;
        let before = self.last.replace(user).filter(|before| *before != user);
        let is_full = self.records >= MAX_RECORDS || self.limits.len() >= MAX_BYTES;
        let complete = if is_full || before.is_some_and(|before| is_end(before, USERS_OF_GROUP)) {
            self.finish()
        } else {
            if before.is_some_and(|before| is_end(before, USERS_OF_TEXT)) {
                self.cut();
            }
            None
        };
        if self.records == 0 {
            self.open.group.first = user.0;
        }
        self.records += 1;
        self.put(kept);
        complete
    }

    /// The group that is open, if there is one.
    pub(super) fn finish(&mut self) -> Option<Complete> {
        if self.records == 0 {
            return None;
        }
        self.cut();
        self.records = 0;
        let mut complete = std::mem::take(&mut self.open);
        complete.group.limits = taken(&mut self.limits, &mut complete.texts);
        Some(complete)
    }

    fn cut(&mut self) {
        let Complete { group, texts } = &mut self.open;
        group.fairshares.push(taken(&mut self.fairshares, texts));
        group.usages.push(taken(&mut self.usages, texts));
    }

    fn put(&mut self, Kept { record, leaf }: &Kept) {
        let association = &record.association;
        let limits = Limits {
            userid: association.user.0,
            bank: association.bank.as_str(),
            def_bank: record.def_bank.as_str(),
            max_running_jobs: association.max_running_jobs.0,
            max_active_jobs: association.max_active_jobs.0,
            max_sched_jobs: association.max_sched_jobs.0,
            max_nodes: association.max_nodes.0,
            max_cores: association.max_cores.0,
            queues: joined(&association.queues),
            projects: joined(&association.projects),
            def_project: association.def_project.as_ref().map_or("", |project| project.as_str()),
            active: i64::from(association.active),
            username: leaf.as_ref().map(|leaf| &*leaf.name),
            shares: leaf.as_ref().map(|leaf| count(leaf.shares)),
        };
        line(&mut self.limits, &serde_json::to_string(&limits).unwrap_or_default());
        line(&mut self.fairshares, &format!("{:?}", record.fairshare));
        line(&mut self.usages, &usage(leaf.as_ref()));
    }
}

fn usage(leaf: Option<&Leaf>) -> String {
    let Some(leaf) = leaf else { return "-".to_owned() };
    // A push always says how much, be it nothing.
    format!("{:?},{:?}", leaf.usage.unwrap_or(0.0), leaf.counted.end())
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Takes a text out, and notes it. Gives its hash.
fn taken(text: &mut String, texts: &mut Vec<Text>) -> String {
    let text = std::mem::take(text);
    let sum = hash(&text);
    texts.push((sum.clone(), text));
    sum
}

/// The associations of a group as a part of a push.
pub(super) fn associations(limits: &str, fairshares: &[String], usages: &[String]) -> Result<String, Fault> {
    let mut fairshares = fairshares.iter().flat_map(|text| text.lines());
    let mut usages = usages.iter().flat_map(|text| text.lines());
    let mut payload = String::with_capacity(limits.len() + limits.len() / 2);
    payload.push_str("{\"associations\":[");
    for (at, limits) in limits.lines().enumerate() {
        let record = limits.strip_suffix('}').ok_or("a record of limits is none")?;
        let fairshare = number(fairshares.next().ok_or("there are fewer fair-shares than limits")?)?;
        let usage = usages.next().ok_or("there are fewer usages than limits")?;
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(payload, "{comma}{record},\"fairshare\":{fairshare}");
        if usage != "-" {
            let (used, until) = usage.split_once(',').ok_or("a usage is none")?;
            let (used, until) = (number(used)?, number(until)?);
            let _ = write!(payload, ",\"usage\":{used},\"counted_until\":{until}");
        }
        payload.push('}');
    }
    if fairshares.next().is_some() || usages.next().is_some() {
        return Err("there are more fair-shares or usages than limits".to_owned());
    }
    payload.push_str("]}");
    Ok(payload)
}

fn number(text: &str) -> Result<&str, Fault> {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    if is_number { Ok(text) } else { Err(format!("\"{}\" is no number", text.escape_debug())) }
}

/// All but the associations, each text a part of a push. What moves with each push is in the last one.
pub(super) fn rest(rest: &Rest) -> Vec<Text> {
    let queues: Vec<Value> = rest
        .queues
        .iter()
        .map(|queue| {
            json!({
                "queue": queue.name.as_str(),
                "priority": queue.priority,
                "max_running_jobs": queue.max_running_jobs.0,
                "max_nodes_per_assoc": queue.max_nodes_per_assoc.0,
                "max_sched_jobs": queue.max_sched_jobs.0,
                "max_sched_nodes_per_assoc": queue.max_sched_nodes_per_assoc.0,
                "max_sched_cores_per_assoc": queue.max_sched_cores_per_assoc.0,
                "min_nodes_per_job": queue.min_nodes_per_job,
                "max_nodes_per_job": queue.max_nodes_per_job,
                "max_time_per_job": queue.max_time_per_job,
            })
        })
        .collect();
    let projects = rest.projects.iter().map(|project| json!({"project": project.as_str()})).collect();
    let banks = rest.banks.iter().map(|((name, priority), bank)| {
        let mut record = json!({"bank": name.as_str(), "priority": priority});
        if let (Some(bank), Some(record)) = (bank, record.as_object_mut()) {
            let parent = bank.parent.as_ref().map_or("", |parent| parent.as_str());
            record.insert("parent".to_owned(), parent.into());
            record.insert("shares".to_owned(), count(bank.shares).into());
            record.insert("active".to_owned(), i64::from(bank.active).into());
        }
        record
    });
    let weights = rest.weights.iter().map(|(name, weight)| json!({"factor": name, "weight": weight}));
    let zero_score = match rest.config.zero_score {
        ZeroScore::Hold => "hold",
        ZeroScore::Floor => "floor",
    };
    let config = json!({"deny_unknown_queues": rest.config.deny_unknown_queues, "zero_score": zero_score});
    let mut parts = vec![json!({"config": config})];
    let mut arrays = |name: &str, records: Vec<Value>| {
        // An array that is empty is told of too: a push is whole only if all are.
        let empty = records.is_empty().then(Vec::new);
        let pieces = records.chunks(REST_AT_ONCE).map(<[Value]>::to_vec).chain(empty);
        parts.extend(pieces.map(|piece| json!({name: piece})));
    };
    arrays("associations", Vec::new());
    arrays("queues", queues);
    arrays("projects", projects);
    arrays("banks", banks.collect());
    arrays("priority_factors", weights.collect());
    // Where there are none nothing is told, as nothing was before there were any.
    if !rest.limits.is_empty() {
        arrays(LIMITS, rest.limits.iter().map(limits::record).collect());
    }
    parts.extend(rest.rule.as_ref().map(|rule| json!({"tree": tree(rule)})));
    let texts = parts.into_iter().map(|part| part.to_string());
    texts.map(|text| (hash(&text), text)).collect()
}

fn tree(rule: &Rule) -> Value {
    let options: Map<String, Value> =
        rule.options.settings().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({
        "at": rule.instant,
        "half_life": rule.half_life.seconds().unwrap_or(0.0),
        "node_weight": rule.weights.node,
        "core_weight": rule.weights.core,
        "gpu_weight": rule.weights.gpu,
        "policy": rule.policy.to_string(),
        "options": options,
        "replaces_all": rule.replaces_all,
    })
}
