// SPDX-License-Identifier: LGPL-3.0-only
//! What is about no association, as parts of a push.

use super::lines::Text;
use super::record::hash;
use fairshare::Shares;
use fairshare::accrual::MAX_TIME;
use fairshare_engine::accounts::ZeroScore;
use fairshare_engine::engine::Rest;
use fairshare_engine::standing::{Leaf, Rule};
use fairshare_protocol::limits::{self, LIMITS};
use serde_json::{Map, Value, json};

/// Records that go together.
const AT_ONCE: usize = 500;

/// A push counts shares; only documents know of others.
pub(super) fn count(shares: Shares) -> u64 {
    match shares {
        Shares::Count(count) => count,
        Shares::Parent => 0,
    }
}

/// Each text is a part of a push. What moves with each push is in the last one.
pub(super) fn texts(rest: &Rest) -> Vec<Text> {
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
        let pieces = records.chunks(AT_ONCE).map(<[Value]>::to_vec).chain(empty);
        parts.extend(pieces.map(|piece| json!({name: piece})));
    };
    arrays("associations", rest.leaves.iter().map(leaf).collect());
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

/// Returns a leaf that no job matches as the record of a user without a valid id: reading it back restores just the leaf.
fn leaf(leaf: &Leaf) -> Value {
    json!({
        "userid": u32::MAX,
        "bank": leaf.bank.as_str(),
        "def_bank": leaf.bank.as_str(),
        "fairshare": 0,
        "max_running_jobs": 0,
        "max_active_jobs": 0,
        "max_sched_jobs": 0,
        "max_nodes": 0,
        "max_cores": 0,
        "queues": "",
        "projects": "",
        "def_project": "",
        "active": i64::from(leaf.active),
        "username": &*leaf.name,
        "shares": count(leaf.shares),
        "usage": leaf.usage.unwrap_or(0.0),
        "counted_until": leaf.counted.end().max(-MAX_TIME),
    })
}

fn tree(rule: &Rule) -> Value {
    let options: Map<String, Value> =
        rule.options.settings().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({
        "at": rule.instant,
        "half_life": rule.half_life.seconds().unwrap_or(0.0),
        "reset": rule.reset,
        "node_weight": rule.weights.node,
        "core_weight": rule.weights.core,
        "gpu_weight": rule.weights.gpu,
        "policy": rule.policy.to_string(),
        "options": options,
        "replaces_all": rule.replaces_all,
    })
}
