// SPDX-License-Identifier: LGPL-3.0-only
//! `prices`: posted and current priorities of pending jobs.

use crate::jobtap::{Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy, refuse};
use fairshare_engine::engine::PricedJob;
use fairshare_engine::ids::JobId;
use fairshare_protocol::wire;
use serde_json::{Value, json};

/// Answers with the posted and the current priorities of the jobs in the request, or of a page of all pending jobs by
/// id.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let wanted = wire::prices(payload).map_err(|fault| refuse(host.plugin(), "prices", &fault))?;
    let found = plugin.engine.view(|view| {
        let ids = wanted.ids.unwrap_or_else(|| view.pending_after(wanted.after, wanted.most));
        let is_last = ids.len() < wanted.most;
        let next = ids.last().filter(|_| !is_last).map(|id| id.0);
        let jobs = ids
            .into_iter()
            .filter_map(|id| Some(show_priorities(id, &view.priced(id)?, view.age_of(id, host.now()))));
        json!({"jobs": jobs.collect::<Vec<_>>(), "next": next})
    });
    Ok(Some(found.ok_or_else(busy)?.to_string()))
}

fn show_priorities(id: JobId, priced: &PricedJob, age: f64) -> Value {
    let [posted, exact] = [&priced.posted, &priced.exact]
        .map(|priority| {
            json!({"priority": priority.priority, "sum": priority.sum, "terms": priority.shown_terms(age)})
        });
    json!({
        "id": id.0,
        "when": priced.when,
        "generation": priced.generation,
        "posted": posted,
        "exact": exact,
        "turn": priced.turn.map(|turn| turn.number),
    })
}
