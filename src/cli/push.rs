// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare push`: send the accounting data to the priority plugin.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::input::Wait;
use super::parts::{self, Changes};
use super::printable::count;
use super::{Answer, Failure, Outcome, failure, remark, say};
use crate::flux::{Flux, FluxError, user_name};
use crate::store::{self, Access, AssociationRecord, PolicyData, formats};

/// Send the database to the priority plugin
///
/// Does what "flux account-priority-update" does: associations, queues, projects, banks, factors, config and the instance
/// owner's record, then reprioritize, each answer checked. The owner gets a record of their own only if the database has
/// none for them. This project's mf_priority plugin takes over all of it or nothing, what the database does not list is
/// removed, and it never works on more than a part at a time; flux-accounting's is sent piece by piece.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The accounting database, or what "flux account export-json" printed; - is standard input
    #[arg(short, long, value_name = "FILE", default_value = store::DEFAULT_PATH)]
    path: PathBuf,
    #[command(flatten)]
    wait: Wait,
    /// The Flux instance; otherwise the enclosing or the system's
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
    /// Send nothing; say what would be sent
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Say what was sent
    #[arg(short, long)]
    verbose: bool,
    /// The same as JSON; what changed is null if the plugin, flux-accounting's, does not tell
    #[arg(long, conflicts_with = "dry_run")]
    json: bool,
}

/// The body of every update request.
#[derive(Serialize)]
struct Payload<'a, T: ?Sized> {
    data: &'a T,
}

/// What is sent, and where to.
pub(super) struct Push<'a> {
    /// The accounting database, or a document that stands for it.
    pub(super) path: &'a Path,
    /// How long to wait for others.
    pub(super) wait: Wait,
    /// The Flux instance; otherwise the enclosing or the system's.
    pub(super) uri: Option<&'a str>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let push = Push { path: &args.path, wait: args.wait, uri: args.uri.as_deref() };
    if args.dry_run {
        say(format_args!("would send {}", summary(&read(&push)?)))?;
        return Ok(Answer::Yes);
    }
    let data = read(&push)?;
    let sent = deliver(&push, &data)?;
    if args.json {
        say(parts::report(&data, sent.owner.as_ref(), sent.changes.as_ref()))?;
    } else if args.verbose {
        say(sent.told(&data))?;
    }
    Ok(Answer::Yes)
}

/// Sends all of it, and says what was sent.
pub(super) fn send(push: &Push<'_>) -> Result<String, Failure> {
    send_data(push, &read(push)?)
}

/// Sends what was read before.
pub(super) fn send_data(push: &Push<'_>, data: &PolicyData) -> Result<String, Failure> {
    Ok(deliver(push, data)?.told(data))
}

/// What came of a push.
struct Sent {
    /// The instance owner's record, if the database had none.
    owner: Option<AssociationRecord>,
    /// What the plugin says has changed; flux-accounting's does not tell.
    changes: Option<Changes>,
}

fn deliver(push: &Push<'_>, data: &PolicyData) -> Result<Sent, Failure> {
    let flux = Flux::connect(push.uri).map_err(refused)?;
    let owner = owner_record(&flux, data)?;
    let sending = Sending { flux: &flux, path: push.path };
    let changes = parts::send(&flux, data, owner.as_ref())
        .map_err(|error| Failure::Message(format!("{}: {error}", push.path.display())))?;
    if changes.is_none() {
        sending.all(data, owner.as_ref())?;
    }
    Ok(Sent { owner, changes })
}

impl Sent {
    fn told(&self, data: &PolicyData) -> String {
        let owner = self.owner.as_ref().map_or(String::new(), |owner| {
            format!(
                "; the database does not know the instance owner ({}): sent a record without limits",
                owner.bank
            )
        });
        let changes = self.changes.as_ref().map_or(String::new(), |changes| {
            let Changes { generation, added, changed, removed, unchanged } = changes;
            format!(
                "; associations: {added} added, {changed} changed, {removed} removed, {unchanged} unchanged; \
                 generation {generation} is in the plugin"
            )
        });
        format!("sent {}{owner}{changes}", summary(data))
    }
}

fn summary(data: &PolicyData) -> String {
    [
        count(data.associations.len(), "association"),
        count(data.queues.len(), "queue"),
        count(data.projects.len(), "project"),
        count(data.banks.len(), "bank"),
        count(data.priority_factors.len(), "factor"),
        "the config".to_owned(),
    ]
    .join(", ")
}

/// What is there to be sent.
pub(super) fn read(push: &Push<'_>) -> Result<PolicyData, Failure> {
    let data = match formats::policy_data(push.path).map_err(failure)? {
        Some(data) => data,
        None => {
            let mut database = push.wait.open(push.path, Access::Read)?;
            let snapshot = database.snapshot().map_err(failure)?;
            snapshot.policy_data().map_err(failure)?
        }
    };
    if !data.notes.is_empty() {
        let notes = data.notes.join(", ");
        remark(format_args!("{}: an old schema; sent for what it lacks: {notes}", push.path.display()));
    }
    Ok(data)
}

/// A failure to reach the instance; where it is a refusal, with the reason.
fn refused(error: FluxError) -> Failure {
    match error {
        FluxError::Connect { errno: libc::EACCES | libc::EPERM, .. } => {
            Failure::Message(format!("{error}: only the instance owner may push"))
        }
        _ => failure(error),
    }
}

/// The record of an instance owner whom the database does not know: practically no limits, a bank of their own.
fn owner_record(flux: &Flux, data: &PolicyData) -> Result<Option<AssociationRecord>, Failure> {
    const PLENTY: i64 = 1_000_000;
    let text = flux.attribute("security.owner").map_err(failure)?;
    let uid: u32 = text
        .parse()
        .map_err(|_| Failure::Message(format!("security.owner is \"{text}\", expected a user id")))?;
    if data.associations.iter().any(|record| record.userid == i64::from(uid)) {
        return Ok(None);
    }
    let name = user_name(uid).unwrap_or(text);
    Ok(Some(AssociationRecord {
        userid: uid.into(),
        bank: name.clone(),
        def_bank: name,
        fairshare: 0.5,
        max_running_jobs: PLENTY,
        max_active_jobs: PLENTY,
        queues: String::new(),
        active: 1,
        projects: "*".to_owned(),
        def_project: "*".to_owned(),
        max_nodes: PLENTY,
        max_cores: PLENTY,
        max_sched_jobs: i32::MAX.into(),
    }))
}

struct Sending<'a> {
    flux: &'a Flux,
    path: &'a Path,
}

impl Sending<'_> {
    /// Piece by piece, as flux-accounting's plugin takes it.
    fn all(&self, data: &PolicyData, owner: Option<&AssociationRecord>) -> Result<(), Failure> {
        self.send("rec_update", &data.associations)?;
        self.send("rec_q_update", &data.queues)?;
        self.send("rec_proj_update", &data.projects)?;
        self.send("rec_bank_update", &data.banks)?;
        self.send("rec_fac_update", &data.priority_factors)?;
        self.send("rec_config_update", &data.config)?;
        // Before reprioritize: the owner's waiting jobs must find their record then.
        if let Some(owner) = owner {
            self.send("rec_update", std::slice::from_ref(owner))?;
        }
        self.request("reprioritize", "{}")
    }

    fn send<T: Serialize + ?Sized>(&self, method: &str, data: &T) -> Result<(), Failure> {
        let payload = serde_json::to_string(&Payload { data }).map_err(failure)?;
        self.request(method, &payload)
    }

    fn request(&self, method: &str, payload: &str) -> Result<(), Failure> {
        let topic = format!("job-manager.mf_priority.{method}");
        match self.flux.rpc(&topic, payload) {
            Ok(_) => Ok(()),
            Err(error) => {
                let hint = match &error {
                    FluxError::Request { errno, .. } if *errno == libc::ENOSYS => {
                        "; is the plugin loaded? \"flux jobtap list\" tells"
                    }
                    FluxError::Request { errno, .. } if *errno == libc::EPERM => {
                        "; only the instance owner may push"
                    }
                    _ => "",
                };
                Err(Failure::Message(format!("{}: not all was accepted: {error}{hint}", self.path.display())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_told_who_may_push() {
        let told = |errno| refused(FluxError::Connect { errno, text: "no".to_owned() }).to_string();
        assert_eq!(told(libc::EPERM), "can't connect to Flux: no: only the instance owner may push");
        assert_eq!(told(libc::EACCES), "can't connect to Flux: no: only the instance owner may push");
        assert_eq!(told(libc::ECONNREFUSED), "can't connect to Flux: no");
    }
}
