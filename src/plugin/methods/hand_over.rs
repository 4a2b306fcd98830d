// SPDX-License-Identifier: LGPL-3.0-only
//! `hand_over` and `rest` help an administrator to return to flux-accounting's plugin. `hand_over` lists how
//! that plugin would treat held jobs, and `rest` removes dependencies from jobs with urgency 0.

use crate::jobtap::{EAGAIN, Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::services::{accept, make_reply, request_error};
use fairshare_engine::engine::{self, Event, Resting};
use fairshare_engine::ids::JobId;
use fairshare_protocol::{request::read_selection, wire::WireError};

/// Lists how flux-accounting's plugin would treat the jobs if it replaced this plugin. The page contains held
/// jobs, and jobs that flux-accounting's plugin would end.
pub fn list_job_outcomes(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let flux = host.plugin();
    let wanted = accept(host, "hand_over", read_selection(request.payload))?;
    let page = plugin.view(|view| engine::hand_over(view, wanted.after, wanted.most))?;
    let unread_error =
        || request_error(EAGAIN, "eventlogs of jobs are still being read; try again".to_owned());
    let mut page = page.ok_or_else(unread_error)?;
    for job in &mut page.jobs {
        job.urgency = flux.read_urgency(job.id.0).ok();
    }
    make_reply(&page)
}

/// Removes this plugin's dependencies from held jobs with urgency 0, so that the jobs enter SCHED and stay
/// there. A job that another plugin blocks would not enter SCHED, so its dependencies are not removed.
pub fn answer_rest_request(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let flux = host.plugin();
    let missing = || WireError::Record("ids: they are missing".to_owned());
    let wanted = read_selection(request.payload).and_then(|wanted| wanted.ids.ok_or_else(missing));
    let ids = accept(host, "rest", wanted)?;
    let can_rest = |id: &JobId| {
        matches!(flux.read_urgency(id.0), Ok(0))
            && plugin.engine.view(|view| view.can_rest(*id)) == Some(true)
    };
    let (resting, left) = ids.into_iter().partition(can_rest);
    let answer = Resting { resting, left };
    plugin.feed_request_event(host, Event::Rest(answer.resting.clone()))?;
    make_reply(&answer)
}
