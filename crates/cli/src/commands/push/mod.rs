// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare push`: sends the accounting data to the priority plugin.

pub(super) mod parts;

use std::path::Path;

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::clock::now;
use crate::outcome::{Answer, Failure, Outcome, Result, failure, mark_stored};
use crate::plugin::ask::{InstanceArg, describe_job_instance};
use crate::site::database::{DatabaseArg, Found};
use crate::site::document;
use crate::site::input::Wait;
use crate::site::mending;
use crate::ui::companions::add_companion_members;
use crate::ui::messages::{remark, say_wrapped};
use crate::ui::output::print_json_line;
use crate::ui::printable::count;
use crate::ui::words::Words;
use fairshare_accounting::pipeline::budgets;
use fairshare_accounting::pipeline::fairshare::read_and_check_tree;
use fairshare_accounting::store::{Access, PolicyData, Snapshot, StoreError};
use fairshare_client::{Flux, FluxError, user_name};
use fairshare_engine::engine::answers::{Preview, PushChanges};
use fairshare_engine::ids::f58;
use fairshare_import as formats;
use fairshare_protocol::records::AssociationRecord;
use parts::PushDocument;

/// Send the database to the priority plugin
///
/// Does what "flux account-priority-update" does: associations, queues, projects, banks, factors, config and the instance
/// owner's record, then reprioritize; each answer is checked. If the database has no record of the instance owner, push adds one.
/// This project's mf_priority plugin takes over all data or none, removes records that the database lacks, and handles other
/// requests between the parts of a push. To flux-accounting's plugin, push sends one record table after the other.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    instance: InstanceArg,
    /// Change nothing; show what would be sent, and what the plugin would do
    ///
    /// If this project's plugin is loaded, it answers how many pending jobs would get another priority, which ten jobs would
    /// move most, which jobs would end and why, and which associations with jobs would be removed. Otherwise the command
    /// checks the database as the plugin would.
    #[arg(long, short_alias = 'n')]
    dry_run: bool,
    /// Print a summary of the push
    #[arg(short, long)]
    verbose: bool,
    /// Print the result as JSON; the changes are null if the plugin does not report them
    #[arg(long)]
    json: bool,
}

/// The body of every update request.
#[derive(Serialize)]
struct Payload<'a, T: ?Sized> {
    data: &'a T,
}

/// The source and the target of a push.
pub(super) struct Push<'a> {
    /// The accounting database, or a document with its data.
    pub(super) found: &'a Found,
    /// The option for the time to wait for a locked database.
    pub(super) wait: Wait,
    /// The Flux instance [default: the enclosing one, or the system's].
    pub(super) uri: Option<&'a str>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let push =
        Push { found: args.database.found(), wait: args.database.wait, uri: args.instance.uri.as_deref() };
    let data = read_push_data(&push, args.dry_run, &mut |note| remark(note))?;
    if let (Some(by), true) = (push.found.by, (args.dry_run || args.verbose) && !args.json) {
        say_wrapped(format_args!("database {} ({by})", push.found.path.display()))?;
    }
    if args.dry_run {
        let (answer, owner) = ask(&push, &data)?;
        return print_preview(
            answer,
            args.json,
            &format!("would send {}", summarize_data(&data, owner.is_some())),
        );
    }
    let sent = deliver(&push, &data)?;
    if args.json {
        let document = PushDocument::new(&data, sent.owner.as_ref(), sent.changes.as_ref());
        print_json_line(&document)?;
    } else if args.verbose {
        say_wrapped(sent.describe(&data))?;
    }
    Ok(Answer::Yes)
}

/// Prints the plugin's answer about the effects of a push, below the line `head`.
pub(super) fn print_preview(answer: Option<Preview>, json: bool, head: &str) -> Outcome {
    if json {
        let mut document = serde_json::to_value(&answer).map_err(failure)?;
        add_companion_members(&mut document, &f58);
        print_json_line(&document)?;
        return Ok(Answer::Yes);
    }
    say_wrapped(head)?;
    for line in answer.iter().flat_map(parts::describe_preview) {
        say_wrapped(line)?;
    }
    Ok(Answer::Yes)
}

/// Sends the database, and returns a description of the push.
pub(super) fn send(push: &Push<'_>) -> Result<String> {
    let data = read(push, &mut |note| remark(note))?;
    Ok(deliver(push, &data)?.describe(&data))
}

/// If `push` is true, pushes the database, so that a stored change takes effect. Otherwise prints the command that pushes.
pub(super) fn apply_change(database: &DatabaseArg, uri: Option<&str>, push: bool, is_table: bool) -> Outcome {
    if push {
        let sent = send(&Push { found: database.found(), wait: database.wait, uri }).map_err(mark_stored)?;
        if is_table {
            remark(sent);
        }
    } else if is_table {
        remark(format_args!(
            "Takes effect at the next push: {}",
            mending::format_command(database, uri, "push")
        ));
    }
    Ok(Answer::Yes)
}

/// Sends `data`. Returns the generation that the plugin has then, or `None` if the plugin does not report it.
pub(super) fn send_data(push: &Push<'_>, data: &PolicyData) -> Result<Option<u64>> {
    Ok(deliver(push, data)?.changes.map(|changes| changes.generation))
}

/// Result of a push.
struct PushResult {
    /// The instance owner's record, if the database had none.
    owner: Option<AssociationRecord>,
    /// The plugin's report; `None` for flux-accounting's plugin.
    changes: Option<PushChanges>,
}

/// Asks the plugin for the effects of a push. Returns `None` if no instance runs or the plugin is flux-accounting's. Also returns the
/// record of the instance owner, if a push would add it.
pub(super) fn ask(
    push: &Push<'_>,
    data: &PolicyData,
) -> Result<(Option<Preview>, Option<AssociationRecord>)> {
    let flux = match Flux::connect(push.uri) {
        Ok(flux) => flux,
        Err(error) if push.uri.is_some() => return Err(describe_connection_failure(error)),
        Err(_) => return Ok((None, None)),
    };
    let owner = make_owner_record(&flux, data)?;
    let sending = Sending { flux: &flux, path: &push.found.path, data };
    let answer = parts::ask(&flux, data, owner.as_ref());
    Ok((answer.map_err(|error| sending.explain_refusal(&error))?, owner))
}

fn deliver(push: &Push<'_>, data: &PolicyData) -> Result<PushResult> {
    let flux = Flux::connect(push.uri).map_err(describe_connection_failure)?;
    let owner = make_owner_record(&flux, data)?;
    let sending = Sending { flux: &flux, path: &push.found.path, data };
    let changes =
        parts::send(&flux, data, owner.as_ref()).map_err(|error| sending.explain_refusal(&error))?;
    if changes.is_none() {
        sending.send_tables(owner.as_ref())?;
    }
    Ok(PushResult { owner, changes })
}

impl PushResult {
    fn describe(&self, data: &PolicyData) -> String {
        let changes = self.changes.as_ref().map_or(String::new(), |changes| {
            format!(
                "; {}; generation {} is in the plugin",
                parts::describe_difference(&changes.difference),
                changes.generation
            )
        });
        format!("sent {}{changes}", summarize_data(data, self.owner.is_some()))
    }
}

/// Counts the records. `with_owner` is true if a record of the instance owner is added to those of the database.
fn summarize_data(data: &PolicyData, with_owner: bool) -> String {
    let owner = if with_owner { " (with the instance owner)" } else { "" };
    [
        count(data.associations.len() + usize::from(with_owner), "association") + owner,
        count(data.queues.len(), "queue"),
        count(data.projects.len(), "project"),
        count(data.banks.len(), "bank"),
        count(data.priority_factors.len(), "factor weight"),
        "the config".to_owned(),
    ]
    .join(", ")
}

/// Reads the data of a push. Passes messages about records that are not sent to `note`.
pub(super) fn read(push: &Push<'_>, note: &mut dyn FnMut(String)) -> Result<PolicyData> {
    read_push_data(push, false, note)
}

/// Reads the data of a push; for a dry run, also checks them as the plugin would.
fn read_push_data(push: &Push<'_>, dry_run: bool, note: &mut dyn FnMut(String)) -> Result<PolicyData> {
    let path = push.found.path.as_path();
    let missing = |error: StoreError| mending::open_failure(&error, push.found, Access::Write, false);
    let data = if let Some(text) = formats::read_site_text(path).map_err(missing)? {
        if dry_run {
            warn(path, &text)?;
        }
        formats::parse_site_text(path, &text)?
    } else {
        let data = {
            let mut database = push.wait.open(push.found, Access::Read)?;
            let snapshot = database.snapshot()?;
            read_snapshot(&snapshot, now(None), note)?
        };
        if dry_run {
            warn(path, &serde_json::to_string(&data).map_err(failure)?)?;
        }
        data
    };
    let path = path.display();
    if !data.notes.is_empty() {
        let notes = data.notes.join(", ");
        note(format!("{path}: old schema; sent these defaults for missing columns: {notes}"));
    }
    for text in mending::describe_lost_limits(&data.lost_limits) {
        note(format!("{path}: {text}"));
    }
    Ok(data)
}

/// Reads the data that a push would send at `now`, in seconds since the epoch. Fails if update or sync would refuse the database.
fn read_snapshot(snapshot: &Snapshot<'_>, now: f64, note: &mut dyn FnMut(String)) -> Result<PolicyData> {
    let mut data = snapshot.policy_data(now)?;
    for text in budgets::add_to_push(snapshot, &mut data, now)? {
        note(format!("{}: {text}", snapshot.path().display()));
    }
    if data.tree.is_some() {
        let inactive = snapshot.site_policy()?.options.inactive_usage;
        read_and_check_tree(snapshot, inactive, &mut |_| ())?;
    }
    Ok(data)
}

/// Checks the data that a push would send at `now`, as the plugin would. Returns the plugin's warnings.
pub(super) fn check_snapshot(snapshot: &Snapshot<'_>, now: f64) -> Result<Vec<String>> {
    let data = read_snapshot(snapshot, now, &mut |note| remark(note))?;
    check_document(snapshot.path(), &serde_json::to_string(&data).map_err(failure)?)
}

fn warn(path: &Path, text: &str) -> Result<()> {
    check_document(path, text)?.iter().for_each(remark);
    Ok(())
}

/// Checks a site document as the plugin would, and returns the warnings.
fn check_document(path: &Path, text: &str) -> Result<Vec<String>> {
    let place = path.display();
    match document::check(text) {
        Ok((warnings, more)) => {
            let named = |warning: &String| format!("{place}: {}", add_user_names(warning));
            let more = (more > 0).then(|| format!("{place}: more warnings of this kind: {more}"));
            Ok(warnings.iter().map(named).chain(more).collect())
        }
        Err(fault) => {
            let fault = add_user_names(&fault);
            Err(failure(format!("{place}: the plugin would refuse the data: {fault}")))
        }
    }
}

/// Adds the names of users to a message of the plugin, which has only their ids.
fn add_user_names(said: &str) -> String {
    let name = |userid| user_name(userid).map(|name| format!("{name}, {userid}"));
    Words::new(f58, name, TimeZone::UTC, 0.0).named(said)
}

/// Describes a failed connection; if permission is missing, adds that only the instance owner may push.
fn describe_connection_failure(error: FluxError) -> Failure {
    match error {
        FluxError::Connect { errno: libc::EACCES | libc::EPERM, .. } => {
            failure(format!("{error}: only the instance owner may push"))
        }
        _ => failure(error),
    }
}

/// Returns a record of the instance owner, practically without limits and in a bank of its own, if the database has none.
fn make_owner_record(flux: &Flux, data: &PolicyData) -> Result<Option<AssociationRecord>> {
    const PLENTY: i64 = 1_000_000;
    let text = flux.attribute("security.owner").map_err(failure)?;
    let uid: u32 =
        text.parse().map_err(|_| failure(format!("security.owner is \"{text}\", expected a user id")))?;
    if data.associations.iter().any(|record| record.userid == i64::from(uid)) {
        return Ok(None);
    }
    let name = user_name(uid).unwrap_or(text);
    // In the plugin, an owner's record without queues permits all queues.
    Ok(Some(AssociationRecord {
        projects: "*".to_owned(),
        def_project: "*".to_owned(),
        max_sched_jobs: i32::MAX.into(),
        ..AssociationRecord::with_limits(uid.into(), name, PLENTY)
    }))
}

struct Sending<'a> {
    flux: &'a Flux,
    path: &'a Path,
    data: &'a PolicyData,
}

impl Sending<'_> {
    /// Sends one record table after the other, as flux-accounting's plugin expects.
    fn send_tables(&self, owner: Option<&AssociationRecord>) -> Result<()> {
        let data = self.data;
        // flux-accounting's plugin has no tree.
        let mut associations = data.associations.clone();
        for record in &mut associations {
            (record.username, record.shares) = (None, None);
            (record.usage, record.counted_until) = (None, None);
        }
        self.send("rec_update", &associations)?;
        self.send("rec_q_update", &data.queues)?;
        self.send("rec_proj_update", &data.projects)?;
        let mut banks = data.banks.clone();
        for record in &mut banks {
            (record.parent, record.shares, record.active) = (None, None, None);
        }
        self.send("rec_bank_update", &banks)?;
        self.send("rec_fac_update", &data.priority_factors)?;
        self.send("rec_config_update", &data.config)?;
        // The record of the instance owner is sent before reprioritize, because reprioritize looks up this record for the owner's pending
        // jobs.
        if let Some(owner) = owner {
            self.send("rec_update", std::slice::from_ref(owner))?;
        }
        if !self.data.limits.is_empty() {
            remark("flux-accounting's plugin ignores the limits that \"flux fairshare limit\" shows");
        }
        if !self.data.budgets.is_empty() {
            remark("flux-accounting's plugin ignores the budgets that \"flux fairshare budget\" shows");
        }
        self.request("reprioritize", "{}")
    }

    fn send<T: Serialize + ?Sized>(&self, method: &str, data: &T) -> Result<()> {
        let payload = serde_json::to_string(&Payload { data }).map_err(failure)?;
        self.request(method, &payload)
    }

    fn request(&self, method: &str, payload: &str) -> Result<()> {
        let topic = format!("job-manager.mf_priority.{method}");
        match self.flux.rpc(&topic, payload) {
            Ok(_) => Ok(()),
            Err(error) => {
                let hint = match &error {
                    FluxError::Request { errno, .. } if *errno == libc::ENOSYS => {
                        if let Some(text) = describe_job_instance(self.flux) {
                            return Err(failure(text));
                        }
                        "; \"flux jobtap list\" shows whether the plugin is loaded"
                    }
                    FluxError::Request { errno, .. } if *errno == libc::EPERM => {
                        "; only the instance owner may push"
                    }
                    _ => "",
                };
                let error = add_user_names(&error.to_string());
                let message = format!("{}: only a part was accepted: {error}{hint}", self.path.display());
                Err(failure(message))
            }
        }
    }

    /// Adds the path and the names of users to the plugin's refusal of a push.
    fn explain_refusal(&self, error: &Failure) -> Failure {
        failure(format!("{}: {}", self.path.display(), add_user_names(&error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_user() {
        for (message, named) in [
            (
                "x: associations[3].bank: bad (user 0, bank chem)",
                "x: associations[3].bank: bad (user root, 0, bank chem)",
            ),
            ("associations[3].bank: bad (user 0)", "associations[3].bank: bad (user root, 0)"),
            ("queues[3].queue: bad", "queues[3].queue: bad"),
        ] {
            assert_eq!(add_user_names(message), named);
        }
    }

    #[test]
    fn a_guest_gets_the_reason_of_a_refusal() {
        let text = |errno| {
            describe_connection_failure(FluxError::Connect { errno, text: "no".to_owned() }).to_string()
        };
        assert_eq!(text(libc::EPERM), "can't connect to Flux: no: only the instance owner may push");
        assert_eq!(text(libc::EACCES), "can't connect to Flux: no: only the instance owner may push");
        assert_eq!(text(libc::ECONNREFUSED), "can't connect to Flux: no");
    }
}
