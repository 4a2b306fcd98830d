// SPDX-License-Identifier: LGPL-3.0-only
//! How ages count, and what the shadow policy would make of it, in queries.

use fairshare_engine::engine::{AgeSnapshot, ShadowReport};
use serde_json::{Value, json};

/// As of when ages are shown, what they weigh, and who waits for long.
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

/// What another policy would make of the tree and of the pending jobs.
pub(super) fn shadow(shadow: &ShadowReport) -> Value {
    let movers = shadow.movers.iter().map(|(user, bank, rank, other)| {
        json!({"userid": user.0, "bank": bank.as_str(), "rank": rank, "shadow_rank": other})
    });
    json!({
        "policy": shadow.policy.name(),
        "when": shadow.when,
        "fault": shadow.fault.as_ref().map(|fault| fault.to_string()),
        "associations": shadow.associations,
        "kendall_tau": shadow.tau,
        "moved": shadow.moved,
        "movers": movers.collect::<Vec<_>>(),
        "pending": shadow.pending,
        "inversions": shadow.inversions,
        "pairs": shadow.pairs,
    })
}
