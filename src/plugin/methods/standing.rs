// SPDX-License-Identifier: LGPL-3.0-only
//! `standing`: associations with their usage, limits and rank.

use crate::jobtap::{Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::services::busy_error;
use crate::plugin::why::{make_heading, make_reply, payload_error, select_user};
use fairshare_engine::engine::answers;
use fairshare_engine::ids::UserId;
use fairshare_protocol::request::read_standings;

/// Answers with a page of associations: usage, fair-share, limits, and rank.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let (mut wanted, all) =
        read_standings(request.payload).map_err(|fault| payload_error("standing", fault))?;
    wanted.user = select_user(request.caller, wanted.user)?;
    if wanted.user.is_none() && !all {
        wanted.user = Some(UserId(request.caller.userid));
    }
    let public = plugin.open_to_guests().ok_or_else(busy_error)?;
    if !request.caller.is_privileged() {
        wanted.open = public;
    }
    let heading = make_heading(plugin, host)?;
    let standing = plugin
        .engine
        .view(|view| answers::standing(view, &wanted, public, heading))
        .ok_or_else(busy_error)?;
    make_reply(&standing)
}
