// SPDX-License-Identifier: LGPL-3.0-only
//! `standing`: associations with their usage, limits and rank.

use crate::jobtap::{Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::services::busy;
use crate::plugin::why::{heading, reply, subject, unreadable};
use fairshare_engine::engine::answers::{self, Open};
use fairshare_engine::ids::UserId;
use fairshare_protocol::request::read_standings;

/// Answers with a page of associations: usage, fair-share, limits, and rank.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let (mut wanted, all) = read_standings(request.payload).map_err(|fault| unreadable("standing", fault))?;
    wanted.user = subject(request.caller, wanted.user)?;
    if wanted.user.is_none() && !all {
        wanted.user = Some(UserId(request.caller.userid));
    }
    let public = plugin.engine.view(|view| view.settings().public).ok_or_else(busy)?;
    let public = if plugin.is_private.get() { Open::Own } else { public };
    if !request.caller.is_privileged() {
        wanted.open = public;
    }
    let heading = heading(plugin, host)?;
    let standing =
        plugin.engine.view(|view| answers::standing(view, &wanted, public, heading)).ok_or_else(busy)?;
    reply(&standing)
}
