// SPDX-License-Identifier: LGPL-3.0-only
//! The methods that tell people why: `explain`, `standing` and `jobs` for every user, `stats` for the instance owner.
//!
//! A guest is told of his own jobs and associations. Who he is is what Flux vouches for; what he asks for beyond that is refused with
//! a text. Nothing of what a guest sends is written to the log.

mod show;
mod show_standing;
mod wanted;

use super::jobspec::brief_facts;
use super::services::{busy, error};
use super::{MfPriority, query};
use crate::jobtap::{Caller, EINVAL, EPERM, EPROTO, Host, Reply, Request, RequestError};
use fairshare_engine::engine::State;
use fairshare_engine::engine::answers::{JobsWanted, Keeper, Open, StandingsWanted, Why};
use fairshare_engine::engine::{View, answers};
use fairshare_engine::ids::{JobId, QueueName, UserId};
use fairshare_protocol::wire::WireError;
use serde_json::{Value, json};
pub(super) use show::put;
use std::time::UNIX_EPOCH;
use wanted::Wanted;

/// So many held jobs of others than the instance owner's one request explains. Of each the hundreds may be looked at that are held
/// before it, and nobody else is served meanwhile.
const MOST_HELD: usize = 2;

fn unreadable(method: &str, fault: WireError) -> RequestError {
    match fault {
        WireError::Undecodable(detail) => {
            error(EPROTO, format!("failed to unpack {method} msg: Protocol error: {detail}"))
        }
        WireError::WrongType(what) => error(EINVAL, format!("mf_priority unpack: {what} has the wrong type")),
        WireError::Record(text) => error(EINVAL, format!("mf_priority unpack: {text}")),
    }
}

/// The user whose jobs or associations are asked about. A guest asks about himself alone.
fn subject(caller: Caller, named: Option<UserId>) -> Result<Option<UserId>, RequestError> {
    let own = UserId(caller.userid);
    match named {
        named if caller.is_privileged() => Ok(named),
        Some(other) if other != own => {
            let text =
                format!("user {own} may not ask for user {other}: only the instance owner and admins may");
            Err(error(EPERM, text))
        }
        _ => Ok(Some(own)),
    }
}

impl MfPriority {
    /// Why jobs are where they are.
    pub(super) fn explain(&self, host: Host<'_, Self>, request: &Request<'_>) -> Reply {
        let wanted = Wanted::of(request.payload).and_then(|wanted| wanted.explained());
        let ids = wanted.map_err(|fault| unreadable("explain", fault))?;
        let (mut jobs, mut refused) = (Vec::new(), Vec::new());
        let mut held = 0;
        for id in ids {
            let own = UserId(request.caller.userid);
            let is_held = |view: &View<'_>| view.user_of(id) == Some(own) && view.is_held(id);
            let is_held = !request.caller.is_privileged() && self.engine.view(is_held) == Some(true);
            held += usize::from(is_held);
            if is_held && held > MOST_HELD {
                let text = format!("one request explains {MOST_HELD} held jobs: ask for this one by itself");
                refused.push(json!({"id": id.0, "code": "later", "text": text}));
                continue;
            }
            match self.explained(host, request.caller, id)? {
                Ok(job) => jobs.push(job),
                Err((code, text)) => refused.push(json!({"id": id.0, "code": code, "text": text})),
            }
        }
        let mut reply = self.heading(host)?;
        put(&mut reply, "jobs", Value::Array(jobs));
        put(&mut reply, "refused", Value::Array(refused));
        Ok(Some(reply.to_string()))
    }

    fn explained(
        &self,
        host: Host<'_, Self>,
        caller: Caller,
        id: JobId,
    ) -> Result<Result<Value, (&'static str, String)>, RequestError> {
        let unknown = || ("unknown", "no active job has this id: it has ended, or never was".to_owned());
        let Some(user) = self.engine.view(|view| view.user_of(id)).ok_or_else(busy)? else {
            return Ok(Err(unknown()));
        };
        let (own, is_guest) = (UserId(caller.userid), !caller.is_privileged());
        let is_private = is_guest && self.is_private.get();
        if is_guest && user != own {
            if is_private {
                return Ok(Err(unknown()));
            }
            let text =
                format!("job {id} is not yours: only its owner, the instance owner and admins may ask");
            return Ok(Err(("not-yours", text)));
        }
        let found = host.plugin().job(id.0, |job| {
            let facts = brief_facts(job);
            let why = self.engine.view(|view| answers::why(view, &facts, host.now())).flatten();
            why.map(|mut why| {
                if facts.state <= State::Sched {
                    self.add_queue(&mut why);
                }
                if is_private {
                    self.leave_out_others(&mut why, own);
                }
                show::job(&why, &facts)
            })
        });
        Ok(found.ok().flatten().ok_or_else(unknown))
    }

    /// Takes the ids of other users' jobs out of an answer: in private mode a guest does not learn of them (live 5 #2).
    fn leave_out_others(&self, why: &mut Why, own: UserId) {
        let is_own = |id: JobId| self.engine.view(|view| view.user_of(id)).flatten() == Some(own);
        for hold in &mut why.holds {
            hold.frees.retain(|freeing| is_own(freeing.id));
            hold.frees_total = hold.frees.len();
            if hold.kept_for.is_some_and(|id| !is_own(id)) {
                hold.forget_kept_for();
            }
        }
    }

    /// The queues of jobs that wait among those a request asks about.
    pub(super) fn queues_of(&self, request: &Request<'_>) -> Vec<Option<String>> {
        let ids = Wanted::of(request.payload).and_then(|wanted| wanted.explained()).unwrap_or_default();
        let name = |queue: Option<&QueueName>| queue.map(|queue| queue.as_str().to_owned());
        let of_waiting =
            |view: &View<'_>| ids.iter().filter_map(|id| Some(name(view.queue_of_waiting(*id)?))).collect();
        let mut names: Vec<Option<String>> = self.engine.view(of_waiting).unwrap_or_default();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Adds that the job's queue is stopped or disabled.
    fn add_queue(&self, why: &mut Why) {
        let name = why.queue.as_ref().map(|queue| queue.as_str().to_owned());
        let queues = self.queues.borrow();
        let Some(state) = queues.state(&name) else { return };
        let called = name.as_ref().map_or("the queue".to_owned(), |name| format!("queue {name}"));
        let because = |reason: &Option<String>| reason.as_ref().map_or(String::new(), |it| format!(": {it}"));
        if !state.start {
            why.others.retain(|keeper| keeper.cause.code != "resources");
            let text = format!("{called} is stopped{}", because(&state.stop_reason));
            why.others.push(Keeper::plain("queue-stopped", text));
        }
        if !state.enable {
            let text = format!("{called} takes no new jobs{}", because(&state.disable_reason));
            why.others.push(Keeper::plain("queue-disabled", text));
        }
    }

    /// What every answer begins with.
    fn heading(&self, host: Host<'_, Self>) -> Result<Value, RequestError> {
        let about = |view: &View<'_>| {
            let live = view.outline();
            json!({
                "now": host.now(),
                "generation": view.generation(),
                "live": live.is_on,
                "live_generation": live.generation,
                "policy": live.rule.map(|(policy, _)| policy.name()),
                "overruled": self.others.overruled(),
            })
        };
        self.engine.view(about).ok_or_else(busy)
    }

    /// Pending and held jobs in short.
    pub(super) fn jobs(&self, host: Host<'_, Self>, request: &Request<'_>) -> Reply {
        let read = || {
            let wanted = Wanted::of(request.payload)?;
            let asked = JobsWanted {
                after: wanted.after_job()?,
                ids: wanted.ids()?,
                user: wanted.user()?,
                bank: wanted.text("bank")?,
                queue: wanted.text("queue")?,
                most: wanted.most_jobs()?,
            };
            Ok(asked)
        };
        let mut wanted = read().map_err(|fault| unreadable("jobs", fault))?;
        wanted.user = subject(request.caller, wanted.user)?;
        let overruled = self.others.overruled();
        let page =
            self.engine.view(|view| show::jobs(view, &wanted, host.now(), overruled)).ok_or_else(busy)?;
        page.map(Some).map_err(|fault| error(crate::jobtap::EIO, format!("mf_priority: {fault}")))
    }

    /// Where associations stand.
    pub(super) fn standing(&self, host: Host<'_, Self>, request: &Request<'_>) -> Reply {
        let read = || {
            let wanted = Wanted::of(request.payload)?;
            let asked = StandingsWanted {
                user: wanted.user()?,
                bank: wanted.text("bank")?,
                after: wanted.after_association()?,
                most: wanted.most_standings()?,
                open: Open::All,
            };
            Ok((asked, wanted.flag("all")?))
        };
        let (mut wanted, all) = read().map_err(|fault| unreadable("standing", fault))?;
        wanted.user = subject(request.caller, wanted.user)?;
        if wanted.user.is_none() && !all {
            wanted.user = Some(UserId(request.caller.userid));
        }
        let public = self.engine.view(|view| view.settings().public).ok_or_else(busy)?;
        if !request.caller.is_privileged() {
            wanted.open = if self.is_private.get() { Open::Own } else { public };
        }
        let public = if self.is_private.get() { Open::Own } else { public };
        let now = host.now();
        let mut reply = self.heading(host)?;
        let page = self
            .engine
            .view(|view| (answers::standings(view, &wanted, now), view.outline()))
            .ok_or_else(busy)?;
        show_standing::page(&mut reply, &page.0, &page.1, public);
        Ok(Some(reply.to_string()))
    }

    /// The instance in numbers.
    pub(super) fn stats(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let check = Wanted::of(payload).and_then(|wanted| wanted.flag("check"));
        let check = check.map_err(|fault| unreadable("stats", fault))?;
        let mut reply = self.heading(host)?;
        let stats = self.engine.view(|view| answers::stats(view, host.now())).ok_or_else(busy)?;
        show::stats(&mut reply, &stats, self.costs.refreshes());
        let since_epoch = self.updated.get().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        put(&mut reply, "version", json!(env!("CARGO_PKG_VERSION")));
        put(&mut reply, "updated", json!(since_epoch.map(|since| since.as_secs_f64())));
        let pushes = self.costs.pushes();
        put(
            &mut reply,
            "push",
            json!({
                "total": pushes.total,
                "seconds_total": pushes.seconds,
                "last": pushes.last.map(|(when, seconds)| json!({"when": when, "seconds": seconds})),
            }),
        );
        let calls = self.calls.borrow();
        let calls = calls.iter().map(|(method, calls)| {
            let shown = json!({"total": calls.total, "deferred": calls.deferred, "refused": calls.refused});
            ((*method).to_owned(), shown)
        });
        put(&mut reply, "requests", Value::Object(calls.collect()));
        put(&mut reply, "waiting_requests", json!(self.pace.borrow().waiting()));
        if check {
            let check = self.engine.view(answers::check).ok_or_else(busy)?;
            put(&mut reply, "drift", json!(query::drifting(&check)));
        }
        Ok(Some(reply.to_string()))
    }
}
