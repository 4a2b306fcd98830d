// SPDX-License-Identifier: LGPL-3.0-only
//! The methods that tell people why: `explain`, `standing` and `jobs` for every user, `stats` for the instance owner.
//!
//! A guest is told of his own jobs and associations. Who he is is what Flux vouches for; what he asks for beyond that is refused with
//! a text. Nothing of what a guest sends is written to the log.

mod show;
mod show_standing;
mod wanted;

use super::jobspec::lenient_facts;
use super::services::{busy, error};
use super::wire::WireError;
use super::{MfPriority, query};
use crate::engine::{Engine, JobsWanted, Open, StandingsWanted};
use crate::ids::{JobId, UserId};
use crate::jobtap::{Caller, EINVAL, EPERM, EPROTO, Host, Reply, Request, RequestError};
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;
use wanted::Wanted;

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
        named if caller.is_owner() => Ok(named),
        Some(other) if other != own => {
            let text = format!("user {own} may not ask for user {other}: only the instance owner may");
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
        for id in ids {
            match self.explained(host, request.caller, id)? {
                Ok(job) => jobs.push(job),
                Err((code, text)) => refused.push(json!({"id": id.0, "code": code, "text": text})),
            }
        }
        let mut reply = self.heading(host)?;
        reply["jobs"] = Value::Array(jobs);
        reply["refused"] = Value::Array(refused);
        Ok(Some(reply.to_string()))
    }

    fn explained(
        &self,
        host: Host<'_, Self>,
        caller: Caller,
        id: JobId,
    ) -> Result<Result<Value, (&'static str, String)>, RequestError> {
        let unknown = || ("unknown", "no active job has this id: it has ended, or never was".to_owned());
        let Some(user) = self.read(|engine| engine.user_of(id)).ok_or_else(busy)? else {
            return Ok(Err(unknown()));
        };
        if !caller.is_owner() && user != UserId(caller.userid) {
            let text = format!("job {id} is not yours: only its owner and the instance owner may ask");
            return Ok(Err(("not-yours", text)));
        }
        let found = host.plugin().job(id.0, |job| {
            let facts = lenient_facts(job);
            let why = self.read(|engine| engine.why(&facts, host.now())).flatten();
            why.map(|why| show::job(&why, &facts))
        });
        Ok(found.ok().flatten().ok_or_else(unknown))
    }

    /// What every answer begins with.
    fn heading(&self, host: Host<'_, Self>) -> Result<Value, RequestError> {
        let about = |engine: &Engine| {
            let live = engine.outline();
            json!({
                "now": host.now(),
                "generation": engine.generation(),
                "live": live.is_on,
                "live_generation": live.generation,
                "policy": live.rule.map(|(policy, _)| policy.name()),
            })
        };
        self.read(about).ok_or_else(busy)
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
        let page = self.read(|engine| show::jobs(engine, &wanted, host.now())).ok_or_else(busy)?;
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
        let public = self.read(|engine| engine.settings().public).ok_or_else(busy)?;
        if !request.caller.is_owner() {
            wanted.open = public;
        }
        let now = host.now();
        let mut reply = self.heading(host)?;
        let page = self.read(|engine| (engine.standings(&wanted, now), engine.outline())).ok_or_else(busy)?;
        show_standing::page(&mut reply, &page.0, &page.1, public);
        Ok(Some(reply.to_string()))
    }

    /// The instance in numbers.
    pub(super) fn stats(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let check = Wanted::of(payload).and_then(|wanted| wanted.flag("check"));
        let check = check.map_err(|fault| unreadable("stats", fault))?;
        let mut reply = self.heading(host)?;
        let stats = self.read(|engine| engine.stats(host.now())).ok_or_else(busy)?;
        show::stats(&mut reply, &stats);
        let since_epoch = self.updated.get().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        reply["version"] = json!(env!("CARGO_PKG_VERSION"));
        reply["updated"] = json!(since_epoch.map(|since| since.as_secs_f64()));
        let pushes = self.pushes.get();
        reply["push"] = json!({
            "total": pushes.total,
            "seconds_total": pushes.seconds,
            "last": pushes.last.map(|(when, seconds)| json!({"when": when, "seconds": seconds})),
        });
        if check {
            let check = self.read(Engine::check).ok_or_else(busy)?;
            reply["drift"] = json!(query::drifting(&check));
        }
        Ok(Some(reply.to_string()))
    }
}
