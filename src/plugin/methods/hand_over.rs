// SPDX-License-Identifier: LGPL-3.0-only
//! `hand_over`: the fate of jobs if an admin goes back to flux-accounting's plugin.

use crate::jobtap::{EAGAIN, Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy_error, refuse_payload, request_error};
use crate::plugin::why::make_reply;
use fairshare_engine::engine;
use fairshare_protocol::request::read_selection;

/// Answers with the fate of held jobs, and of other jobs that would end, under flux-accounting's plugin, in pages by
/// id.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let flux = host.plugin();
    let wanted = read_selection(payload).map_err(|fault| refuse_payload(flux, "hand_over", &fault))?;
    let page = plugin
        .engine
        .view(|view| engine::hand_over(view, wanted.after, wanted.most))
        .ok_or_else(busy_error)?;
    let unread_error =
        || request_error(EAGAIN, "eventlogs of jobs are still being read; try again".to_owned());
    let mut page = page.ok_or_else(unread_error)?;
    for job in &mut page.jobs {
        job.urgency = flux.read_urgency(job.id.0).ok();
    }
    make_reply(&page)
}
