// SPDX-License-Identifier: LGPL-3.0-only
//! What is about no association, as parts of a push.

use fairshare_engine::accounts::ZeroScore;
use fairshare_engine::engine::Rest;
use fairshare_engine::ids::ProjectName;
use fairshare_engine::standing::{Leaf, Rule};
use fairshare_protocol::field::Record;
use fairshare_protocol::limits::{self, LIMITS};
use fairshare_protocol::records::{
    BankRecord, BorrowedAssociation, FactorRecord, ProjectRecord, QueueRecord,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Records that go together.
const AT_ONCE: usize = 500;

/// Each text is a part of a push. What moves with each push is in the last one.
pub(super) fn texts(rest: &Rest) -> Vec<String> {
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
    let project = |name: &ProjectName| ProjectRecord { project: name.to_string() };
    let factor = |(name, weight): &(String, i64)| FactorRecord { factor: name.clone(), weight: *weight };
    arrays(BorrowedAssociation::ARRAY, rest.leaves.iter().map(leaf).collect());
    arrays(QueueRecord::ARRAY, rest.queues.iter().map(|queue| json(&QueueRecord::from(queue))).collect());
    arrays(ProjectRecord::ARRAY, rest.projects.iter().map(|name| json(&project(name))).collect());
    arrays(BankRecord::ARRAY, rest.banks.iter().map(|bank| json(&BankRecord::from(bank))).collect());
    arrays(FactorRecord::ARRAY, rest.weights.iter().map(|pair| json(&factor(pair))).collect());
    // Where there are none nothing is told, as nothing was before there were any.
    if !rest.limits.is_empty() {
        arrays(LIMITS, rest.limits.iter().map(limits::record).collect());
    }
    parts.extend(rest.rule.as_ref().map(|rule| json!({"tree": tree(rule)})));
    parts.iter().map(Value::to_string).collect()
}

fn json(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// Returns a leaf that no job matches as the record of a user without a valid id: reading it back restores just the leaf.
fn leaf(leaf: &Leaf) -> Value {
    let mut value = json(&BorrowedAssociation::from_leaf(leaf));
    // The fair-share of nobody: an integer, so that the text is the one that older versions wrote.
    if let Some(fairshare) = value.get_mut("fairshare") {
        *fairshare = 0.into();
    }
    value
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
