// SPDX-License-Identifier: LGPL-3.0-only
//! `hand_over`: the fate of jobs if an admin goes back to flux-accounting's plugin.

use crate::jobtap::{EAGAIN, Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy, error, refuse};
use crate::plugin::why::reply;
use fairshare_engine::engine;
use fairshare_protocol::request::read_selection;

/// Answers with the fate of held jobs, and of other jobs that would end, under flux-accounting's plugin, in pages by
/// id.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let flux = host.plugin();
    let wanted = read_selection(payload).map_err(|fault| refuse(flux, "hand_over", &fault))?;
    let page =
        plugin.engine.view(|view| engine::hand_over(view, wanted.after, wanted.most)).ok_or_else(busy)?;
    let unread = || error(EAGAIN, "eventlogs of jobs are still being read; try again".to_owned());
    let mut page = page.ok_or_else(unread)?;
    for job in &mut page.jobs {
        job.urgency = flux.urgency(job.id.0).ok();
    }
    reply(&page)
}
