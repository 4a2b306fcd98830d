// SPDX-License-Identifier: LGPL-3.0-only
//! The methods whose answers are pages: `associations`, `jobs`, `priorities`, `standing` and `tree`. Also `stats`,
//! which reports counts and costs of the whole instance, and `check`, which compares the counters in use with a recount.

use crate::jobtap::{ENOENT, Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::services::{
    accept, make_heading, make_reply, payload_error, request_error, select_user, show_overruled,
};
use fairshare::insert_all;
use fairshare_engine::engine::answers::{self, LastPush, PushStats};
use fairshare_engine::ids::UserId;
use fairshare_protocol::request::{
    read_jobs, read_page, read_selection, read_standing_request, read_stats, read_tree_page,
};
use std::borrow::Cow;

/// Answers with one page of the associations of `query`.
pub fn list_associations(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let wanted = accept(host, "associations", read_page(request.payload))?;
    make_reply(&plugin.view(|view| answers::page(view, &wanted))?)
}

/// Answers with a page of pending and held jobs.
pub fn list_jobs(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let mut wanted = read_jobs(request.payload).map_err(|fault| payload_error("jobs", &fault))?;
    wanted.user = select_user(request.caller, wanted.user)?;
    let mut page = plugin.view(|view| answers::jobs_page(view, &wanted, host.now()))?;
    if plugin.hides_other_jobs_from(request.caller) {
        page.jobs.iter_mut().for_each(|job| job.place = None);
    }
    page.overruled = show_overruled(plugin, request.caller);
    make_reply(&page)
}

/// Answers with the posted and the current priorities of the jobs in the request, or of a page of all pending jobs by
/// id.
pub fn list_priorities(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let wanted = accept(host, "priorities", read_selection(request.payload))?;
    make_reply(&plugin.view(|view| answers::priorities(view, wanted, host.now()))?)
}

/// Answers with a page of associations: usage, fair-share, limits, and rank.
pub fn list_standings(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let (mut wanted, all) =
        read_standing_request(request.payload).map_err(|fault| payload_error("standing", &fault))?;
    wanted.user = select_user(request.caller, wanted.user)?;
    if wanted.user.is_none() && !all {
        wanted.user = Some(UserId(request.caller.userid));
    }
    let public = plugin.read_guest_access()?;
    if !request.caller.is_privileged() {
        wanted.open = public;
    }
    let heading = make_heading(plugin, host, request.caller)?;
    make_reply(&plugin.view(|view| answers::standing(view, &wanted, public, heading))?)
}

/// Answers with a page of the banks and associations of the live tree, with their present usage and their ranks.
pub fn list_tree(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let (first, most) = accept(host, "tree", read_tree_page(request.payload))?;
    let found = plugin.view(|view| view.tree_page(first, most, host.now()))?;
    let text = "live fair-share is off: no push contained a tree, or \"live\" is false in the configuration";
    make_reply(&found.ok_or_else(|| request_error(ENOENT, text.to_owned()))?)
}

/// Answers with the counts and costs of the instance.
pub fn show_stats(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let check = read_stats(request.payload).map_err(|fault| payload_error("stats", &fault))?;
    let heading = make_heading(plugin, host, request.caller)?;
    let mut stats = plugin.view(|view| answers::stats(view, heading))?;
    stats.version = Some(Cow::Borrowed(env!("CARGO_PKG_VERSION")));
    stats.updated = plugin.update_time();
    let refreshes = plugin.costs.refreshes.get();
    stats.refresh.seconds_total = refreshes.seconds;
    if let Some(last) = &mut stats.refresh.last {
        last.seconds = refreshes.last.map(|(_, seconds)| seconds);
    }
    let pushes = plugin.costs.pushes.get();
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

/// Recounts all live jobs, and answers with the counters that differ from the recount.
pub fn answer_check(plugin: &MfPriority, _: Host<'_, MfPriority>, _: &Request<'_>) -> Reply {
    let mut check = plugin.view(answers::check)?;
    check.overruled = plugin.overruled.get();
    make_reply(&check)
}
