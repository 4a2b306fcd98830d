// SPDX-License-Identifier: LGPL-3.0-only
//! Live fair-share in queries: the key `live` of the document.

use super::costs::Cost;
use super::terms;
use fairshare::accrual::Mode;
use fairshare_engine::engine::LiveSnapshot;
use fairshare_engine::engine::answers::LastRefreshStats;
use serde_json::{Map, Value, json};

/// Returns the value of the key `live`.
pub(super) fn document(live: &LiveSnapshot, cost: Cost) -> Value {
    let (associations, running, ended) = live.counts;
    let settings = &live.settings;
    let options = live.rule.map(|(policy, options)| {
        let of_policy = options.settings().into_iter();
        let of_policy = of_policy.filter(|(name, _)| fairshare::Options::applies(name, policy));
        of_policy.map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>()
    });
    json!({
        "on": live.is_on,
        "policy": live.rule.map(|(policy, _)| policy.name()),
        "options": options,
        "generation": live.generation,
        "refresh": settings.refresh,
        "accrual": match settings.accrual { Mode::Elapsed => "elapsed", Mode::Committed => "committed" },
        "associations": associations,
        "running": running,
        "ended": ended,
        "pending": live.pending,
        "lagging": live.lagging,
        "refreshing": live.is_refreshing,
        "last": live.last.map(|last| LastRefreshStats {
            seconds: cost.last.map(|(_, seconds)| seconds),
            refresh: last,
        }),
        "interleave": settings.interleave,
        "ages": terms::ages(&live.ages),
    })
}
