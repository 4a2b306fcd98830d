// SPDX-License-Identifier: LGPL-3.0-only
//! `stats`, counts and costs of the whole instance, and `check`, which compares the counters in use with a recount.

use crate::jobtap::{Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::services::{make_heading, make_reply, payload_error};
use fairshare::insert_all;
use fairshare_engine::engine::answers::{self, LastPush, PushStats};
use fairshare_protocol::request::read_stats;
use std::borrow::Cow;

/// Answers with the counts and costs of the instance.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let check = read_stats(request.payload).map_err(|fault| payload_error("stats", &fault))?;
    let heading = make_heading(plugin, host)?;
    let mut stats = plugin.view(|view| answers::stats(view, heading))?;
    stats.version = Some(Cow::Borrowed(env!("CARGO_PKG_VERSION")));
    stats.updated = plugin.update_time();
    let refreshes = plugin.costs.refreshes();
    stats.refresh.seconds_total = refreshes.seconds;
    if let Some(last) = &mut stats.refresh.last {
        last.seconds = refreshes.last.map(|(_, seconds)| seconds);
    }
    let pushes = plugin.costs.pushes();
    stats.push = PushStats {
        total: pushes.total,
        seconds_total: pushes.seconds,
        last: pushes.last.map(|(when, seconds)| LastPush { when, seconds }),
    };
    let calls = plugin.calls.borrow();
    stats.requests = insert_all(calls.iter().map(|(method, calls)| (Cow::Borrowed(*method), *calls)));
    stats.waiting_requests = plugin.pace.borrow().count_waiting();
    if check {
        stats.drift = Some(plugin.view(answers::check)?.drift.len());
    }
    make_reply(&stats)
}

/// Recounts all live jobs, and answers with the counters that differ from those in use.
pub fn check(plugin: &MfPriority, _: Host<'_, MfPriority>, _: &Request<'_>) -> Reply {
    let mut check = plugin.view(answers::check)?;
    check.overruled = plugin.others.overruled_job();
    make_reply(&check)
}
