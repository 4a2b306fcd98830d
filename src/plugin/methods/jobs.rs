// SPDX-License-Identifier: LGPL-3.0-only
//! `jobs`: pending and held jobs, briefly.

use crate::jobtap::{Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::services::busy_error;
use crate::plugin::why::{make_ordered_reply, payload_error, select_user};
use fairshare_engine::engine::answers::jobs_page;
use fairshare_protocol::request::read_jobs;

/// Answers with a page of pending and held jobs.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let mut wanted = read_jobs(request.payload).map_err(|fault| payload_error("jobs", fault))?;
    wanted.user = select_user(request.caller, wanted.user)?;
    let mut page = plugin.engine.view(|view| jobs_page(view, &wanted, host.now())).ok_or_else(busy_error)?;
    if plugin.hides_others_from(request.caller) {
        page.jobs.iter_mut().for_each(|job| job.place = None);
    }
    page.overruled = plugin.others.overruled_job();
    make_ordered_reply(&page)
}
