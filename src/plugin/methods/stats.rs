// SPDX-License-Identifier: LGPL-3.0-only
//! `stats`: the instance in numbers.

use crate::jobtap::{Host, Reply};
use crate::plugin::services::busy;
use crate::plugin::why::wanted::Wanted;
use crate::plugin::why::{heading, put, show, unreadable};
use crate::plugin::{MfPriority, query};
use fairshare_engine::engine::answers;
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;

/// Answers with the numbers of the instance.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let check = Wanted::of(payload).and_then(|wanted| wanted.flag("check"));
    let check = check.map_err(|fault| unreadable("stats", fault))?;
    let mut reply = heading(plugin, host)?;
    let stats = plugin.engine.view(|view| answers::stats(view, host.now())).ok_or_else(busy)?;
    show::stats(&mut reply, &stats, plugin.costs.refreshes());
    let since_epoch = plugin.updated.get().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    put(&mut reply, "version", json!(env!("CARGO_PKG_VERSION")));
    put(&mut reply, "updated", json!(since_epoch.map(|since| since.as_secs_f64())));
    let pushes = plugin.costs.pushes();
    put(
        &mut reply,
        "push",
        json!({
            "total": pushes.total,
            "seconds_total": pushes.seconds,
            "last": pushes.last.map(|(when, seconds)| json!({"when": when, "seconds": seconds})),
        }),
    );
    let calls = plugin.calls.borrow();
    let calls = calls.iter().map(|(method, calls)| {
        let shown = json!({"total": calls.total, "deferred": calls.deferred, "refused": calls.refused});
        ((*method).to_owned(), shown)
    });
    put(&mut reply, "requests", Value::Object(calls.collect()));
    put(&mut reply, "waiting_requests", json!(plugin.pace.borrow().waiting()));
    if check {
        let check = plugin.engine.view(answers::check).ok_or_else(busy)?;
        put(&mut reply, "drift", json!(query::drifting(&check)));
    }
    Ok(Some(reply.to_string()))
}
