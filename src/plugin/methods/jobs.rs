// SPDX-License-Identifier: LGPL-3.0-only
//! `jobs`: pending and held jobs, briefly.

use crate::jobtap::{Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::services::busy;
use crate::plugin::why::{reply_in_order, subject, unreadable};
use fairshare_engine::engine::answers::jobs_page;
use fairshare_protocol::request::read_jobs;

/// Answers with a page of pending and held jobs.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let mut wanted = read_jobs(request.payload).map_err(|fault| unreadable("jobs", fault))?;
    wanted.user = subject(request.caller, wanted.user)?;
    let mut page = plugin.engine.view(|view| jobs_page(view, &wanted, host.now())).ok_or_else(busy)?;
    if plugin.hides_others_from(request.caller) {
        page.jobs.iter_mut().for_each(|job| job.place = None);
    }
    page.overruled = plugin.others.overruled();
    reply_in_order(&page)
}
