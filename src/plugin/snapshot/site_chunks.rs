// SPDX-License-Identifier: LGPL-3.0-only
//! Builds the chunks without associations. Each chunk is the payload of a part of a staged push.

use fairshare::periods::Weights;
use fairshare_engine::engine::SavedSite;
use fairshare_engine::ids::ProjectName;
use fairshare_engine::standing::{Charges, Leaf, Rule};
use fairshare_protocol::charges::{CHARGE_BY, CHARGES};
use fairshare_protocol::field::Record;
use fairshare_protocol::limits::LIMITS;
use fairshare_protocol::records::budget::BUDGETS;
use fairshare_protocol::records::{
    BankRecord, BorrowedAssociation, BudgetRecord, FactorRecord, LimitRecord, ProjectRecord, QueueRecord,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The maximum number of records of a chunk.
const MAX_RECORDS: usize = 500;

/// Returns the chunks. The last chunk has the settings of the tree and the time of the pushed usages, so a push without
/// other changes changes only that chunk.
pub(super) fn build_chunks(rest: &SavedSite) -> Vec<String> {
    let SavedSite { queues, projects, banks, weights, limits, charges, budgets, config, leaves, rule } = rest;
    let Charges { factors, rules } = charges;
    let mut parts = vec![json!({"config": config})];
    let mut arrays = |name: &str, records: Vec<Value>| {
        // An empty array needs a chunk too, because a push must contain every array.
        let empty = records.is_empty().then(Vec::new);
        let pieces = records.chunks(MAX_RECORDS).map(<[Value]>::to_vec).chain(empty);
        parts.extend(pieces.map(|piece| json!({name: piece})));
    };
    let project = |name: &ProjectName| ProjectRecord { project: name.to_string() };
    let factor = |(name, weight): &(String, i64)| FactorRecord { factor: name.clone(), weight: *weight };
    // These records describe users without a valid user id. No job can match them, so the plugin reads them as leaves
    // of the tree and not as associations.
    let leaf = |leaf: &Leaf| to_json(&BorrowedAssociation::from_leaf(leaf));
    arrays(BorrowedAssociation::ARRAY, leaves.iter().map(leaf).collect());
    arrays(QueueRecord::ARRAY, queues.iter().map(|queue| to_json(&QueueRecord::from(queue))).collect());
    arrays(ProjectRecord::ARRAY, projects.iter().map(|name| to_json(&project(name))).collect());
    arrays(BankRecord::ARRAY, banks.iter().map(|bank| to_json(&BankRecord::from(bank))).collect());
    arrays(FactorRecord::ARRAY, weights.iter().map(|pair| to_json(&factor(pair))).collect());
    // If the array `limits` is empty, no chunk is written for it, as in earlier versions.
    if !limits.is_empty() {
        arrays(LIMITS, limits.iter().map(|limit| to_json(&LimitRecord::from(limit))).collect());
    }
    if !factors.is_empty() {
        arrays(CHARGES, factors.iter().map(to_json).collect());
    }
    if !rules.is_empty() {
        arrays(CHARGE_BY, rules.iter().map(to_json).collect());
    }
    if !budgets.is_empty() {
        arrays(BUDGETS, budgets.iter().map(|budget| to_json(&BudgetRecord::from(budget))).collect());
    }
    parts.extend(rule.as_ref().map(|rule| json!({"tree": tree_record(rule)})));
    parts.iter().map(Value::to_string).collect()
}

fn to_json(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

fn tree_record(rule: &Rule) -> Value {
    let Rule { instant, half_life, reset, weights, policy, options, replaces_all } = rule;
    let Weights { node, core, gpu } = weights;
    let options: Map<String, Value> =
        options.settings().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({
        "at": instant,
        "half_life": half_life.seconds().unwrap_or(0.0),
        "reset": reset,
        "node_weight": node,
        "core_weight": core,
        "gpu_weight": gpu,
        "policy": policy.to_string(),
        "options": options,
        "replaces_all": replaces_all,
    })
}
