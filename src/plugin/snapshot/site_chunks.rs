// SPDX-License-Identifier: LGPL-3.0-only
//! Builds the chunks without associations. Each chunk is the payload of a part of a staged push.

use fairshare::periods::Weights;
use fairshare_engine::engine::SavedSite;
use fairshare_engine::ids::ProjectName;
use fairshare_engine::standing::{Charges, Rule};
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
    let project = |name: &ProjectName| ProjectRecord { project: name.to_string() };
    let factor = |(name, weight): &(String, i64)| FactorRecord { factor: name.clone(), weight: *weight };
    // Each of these arrays needs a chunk even if it is empty, because a push must contain these arrays. The leaves describe users
    // without a valid user id. No job can match them, so the plugin reads them as leaves of the tree and not as
    // associations.
    for (name, records) in [
        (BorrowedAssociation::ARRAY, to_values(leaves, BorrowedAssociation::from_leaf)),
        (QueueRecord::ARRAY, to_values(queues, QueueRecord::from)),
        (ProjectRecord::ARRAY, to_values(projects, project)),
        (BankRecord::ARRAY, to_values(banks, BankRecord::from)),
        (FactorRecord::ARRAY, to_values(weights, factor)),
    ] {
        let empty = records.is_empty().then_some(json!({name: []}));
        parts.extend(split_array(name, &records).chain(empty));
    }
    // If one of these arrays is empty, no chunk is written for it, as in earlier versions.
    for (name, records) in [
        (LIMITS, to_values(limits, LimitRecord::from)),
        (CHARGES, to_values(factors, Clone::clone)),
        (CHARGE_BY, to_values(rules, Clone::clone)),
        (BUDGETS, to_values(budgets, BudgetRecord::from)),
    ] {
        parts.extend(split_array(name, &records));
    }
    parts.extend(rule.as_ref().map(|rule| json!({"tree": tree_record(rule)})));
    parts.iter().map(Value::to_string).collect()
}

fn to_values<'a, T, R: Serialize>(items: &'a [T], to_record: impl Fn(&'a T) -> R) -> Vec<Value> {
    items.iter().map(|item| serde_json::to_value(to_record(item)).unwrap_or_default()).collect()
}

/// Returns documents with at most `MAX_RECORDS` records of the array `name` each.
fn split_array(name: &str, records: &[Value]) -> impl Iterator<Item = Value> {
    records.chunks(MAX_RECORDS).map(move |piece| json!({name: piece}))
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
