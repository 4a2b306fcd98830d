// SPDX-License-Identifier: LGPL-3.0-only
//! `check_job`: what would happen to a job if it were submitted now.

use crate::jobtap::{Host, JobArgs, Json, Reply, Request};
use crate::plugin::services::{make_heading, make_reply, payload_error, select_user};
use crate::plugin::{
    MfPriority,
    jobspec::{UNREADABLE_NAMES, read_facts},
};
use fairshare_engine::engine::answers::{self, CheckedJob, HoldNow, Open};
use fairshare_engine::ids::UserId;
use fairshare_protocol::{request::read_check_job_request, wire::WireError};

/// Answers about the jobspec in the request. The plugin reads that jobspec as the callback `job.validate` reads the
/// jobspec of a submitted job.
pub fn answer_check_job(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let to_error = |fault| payload_error("check_job", &fault);
    let (user, urgency, count) = read_check_job_request(request.payload).map_err(to_error)?;
    let userid = select_user(request.caller, user)?.map_or(request.caller.userid, |user| user.0);
    let heading = make_heading(plugin, host, request.caller)?;
    let open = if request.caller.is_privileged() { Open::All } else { plugin.read_guest_access()? };
    let check_jobspec = |payload: Json<'_>| {
        let jobspec = payload.get(c"jobspec").filter(|jobspec| jobspec.is_object())?;
        let submitted = Some(heading.now);
        // No job has this id.
        let id = u64::MAX;
        let job =
            JobArgs { id, userid, urgency, state: 1, priority: -1, jobspec, submitted, resources: None };
        let Some(facts) = read_facts(&job) else {
            return Some(Ok(CheckedJob {
                heading,
                userid: UserId(userid),
                rejection: Some(UNREADABLE_NAMES.to_owned()),
                jobs_rejected: count,
                jobs: count,
                ..CheckedJob::default()
            }));
        };
        Some(plugin.view(|view| answers::check_job(view, &facts, count, open, heading)))
    };
    let missing_error = || to_error(WireError::Record("jobspec: expected an object".to_owned()));
    let parsed = Json::parse(request.payload.unwrap_or_default(), check_jobspec);
    let mut checked =
        parsed.map_err(|reason| to_error(WireError::Undecodable(reason)))?.ok_or_else(missing_error)??;
    if plugin.hides_other_jobs_from(request.caller) {
        checked.holds.iter_mut().for_each(HoldNow::remove_job_ids);
        (checked.place, checked.place_of) = (None, 0);
    }
    make_reply(&checked)
}
