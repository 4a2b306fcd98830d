// SPDX-License-Identifier: LGPL-3.0-only
//! The age factor in the answer of `query`.

use fairshare_engine::engine::AgeSnapshot;
use serde_json::{Value, json};

/// Returns the reference time of ages, the weight of age, and the jobs that are near the bound of max-wait-behind.
pub(super) fn ages(ages: &AgeSnapshot) -> Value {
    let near = ages.near.iter().map(|(id, seconds)| json!({"id": id.0, "seconds": seconds}));
    json!({
        "reference": ages.reference,
        "weight": ages.weight,
        "per_day": ages.per_day,
        "site_nodes": ages.site_nodes,
        "max_wait_behind": ages.promise,
        "near_the_bound": near.collect::<Vec<_>>(),
        "near_the_bound_total": ages.near_total,
    })
}
