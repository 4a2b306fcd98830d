// SPDX-License-Identifier: LGPL-3.0-only
//! `explain`: the priority of each job, and the reasons why it is held or blocked.

use crate::jobtap::{Caller, Host, Reply, Request, Result};
use crate::plugin::services::{make_heading, make_reply, payload_error};
use crate::plugin::{MfPriority, jobspec::read_job_without_size, queue_states::QueueStates};
use fairshare_engine::engine::answers::{self, Blocker, Explained, Note, Open, Refused, Why, note};
use fairshare_engine::engine::{State, View};
use fairshare_engine::ids::{JobId, QueueName, UserId};
use fairshare_protocol::request::read_explain_request;

/// The maximum number of held jobs that one request of a guest explains. For each of these jobs, the engine
/// may visit hundreds of jobs ahead of it, and blocks the job manager meanwhile.
const MAX_HELD: usize = 2;

/// Answers with an explanation of each job in the request.
pub fn explain_jobs(plugin: &MfPriority, host: Host<'_, MfPriority>, request: &Request<'_>) -> Reply {
    let ids = read_explain_request(request.payload).map_err(|fault| payload_error("explain", &fault))?;
    let (mut jobs, mut refused) = (Vec::new(), Vec::new());
    let mut held = 0;
    for id in ids {
        let own_user = UserId(request.caller.userid);
        let is_held = |view: &View<'_>| view.user_of(id) == Some(own_user) && view.is_held(id);
        let is_held = !request.caller.is_privileged() && plugin.engine.view(is_held) == Some(true);
        held += usize::from(is_held);
        if is_held && held > MAX_HELD {
            let text = format!(
                "one request explains at most {MAX_HELD} held jobs; ask about this job in another request"
            );
            refused.push(Refused { id, reason: note("later", text) });
            continue;
        }
        match explain_job(plugin, host, request.caller, id)? {
            Ok(job) => jobs.push(job),
            Err(reason) => refused.push(Refused { id, reason }),
        }
    }
    if !plugin.hides_other_jobs_from(request.caller) {
        let places =
            plugin.engine.view(|view| view.places(jobs.iter().map(|job| job.id))).unwrap_or_default();
        jobs.iter_mut().for_each(|job| job.place = places.get(&job.id).copied());
    }
    make_reply(&Explained { heading: make_heading(plugin, host, request.caller)?, jobs, refused })
}

fn explain_job(
    plugin: &MfPriority,
    host: Host<'_, MfPriority>,
    caller: Caller,
    id: JobId,
) -> Result<Result<Why, Note>> {
    let unknown = || note("unknown", "no active job has this id, or Flux's private mode hides the job");
    let Some(user) = plugin.view(|view| view.user_of(id))? else {
        return Ok(Err(unknown()));
    };
    let (own_user, is_private) = (UserId(caller.userid), plugin.hides_other_jobs_from(caller));
    let is_of_other = !caller.is_privileged() && user != own_user;
    if is_of_other && is_private {
        return Ok(Err(unknown()));
    }
    if is_of_other && plugin.read_guest_access()? != Open::All {
        let text = format!("job {id} is not yours: only its owner, the instance owner and admins may ask");
        return Ok(Err(note("not-yours", text)));
    }
    let explain = if is_of_other { answers::explain_priority } else { answers::why };
    let found = host.plugin().read_job(id.0, |job| {
        let facts = read_job_without_size(job);
        let why = plugin.engine.view(|view| explain(view, &facts, host.now())).flatten();
        why.map(|mut why| {
            if facts.state <= State::Sched {
                add_queue_state(&plugin.queues.borrow(), &mut why);
            }
            if is_private {
                remove_jobs_of_others(&mut why, |id| {
                    plugin.engine.view(|view| view.user_of(id)).flatten() == Some(own_user)
                });
            }
            why
        })
    });
    Ok(found.ok().flatten().ok_or_else(unknown))
}

/// Removes the ids of jobs for which `is_own` is false. In private mode, a guest does not see the jobs of others.
fn remove_jobs_of_others(why: &mut Why, is_own: impl Fn(JobId) -> bool) {
    for hold in &mut why.holds {
        hold.frees.retain(|freeing| is_own(freeing.id));
        hold.frees_total = hold.frees.len();
        if hold.kept_for.is_some_and(|id| !is_own(id)) {
            hold.remove_reservation_owner();
        }
    }
}

/// If the job's queue is stopped or disabled, adds this to the reasons.
fn add_queue_state(queues: &QueueStates, why: &mut Why) {
    let unlisted = why.others_total.saturating_sub(why.others.len());
    let Some(state) = queues.state(&why.queue) else { return };
    let label = why.queue.as_ref().map_or("the queue".to_owned(), |name| format!("queue {name}"));
    let format_reason =
        |reason: &Option<String>| reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    if !state.start {
        why.others.retain(|blocker| blocker.cause != "resources");
        let text = if state.is_missing {
            format!(
                "{label} is not in Flux's configuration: cancel the job, or ask an administrator to add the queue"
            )
        } else {
            format!("{label} is stopped{}", format_reason(&state.stop_reason))
        };
        why.others.push(Blocker::plain("queue-stopped", text));
    }
    if !state.enable && !state.is_missing {
        let text = format!("{label} takes no new jobs{}", format_reason(&state.disable_reason));
        why.others.push(Blocker::plain("queue-disabled", text));
    }
    why.others_total = why.others.len() + unlisted;
}

impl MfPriority {
    /// Returns the queues of those jobs in an `explain` request that do not run yet, without duplicates.
    pub(in crate::plugin) fn list_queues_to_ask(&self, request: &Request<'_>) -> Vec<Option<QueueName>> {
        let ids = read_explain_request(request.payload).unwrap_or_default();
        let list_names = |view: &View<'_>| {
            ids.iter().filter_map(|id| view.queue_of_unstarted_job(*id)).map(Option::<&_>::cloned).collect()
        };
        let mut names: Vec<Option<QueueName>> = self.engine.view(list_names).unwrap_or_default();
        names.sort_unstable();
        names.dedup();
        names
    }
}
