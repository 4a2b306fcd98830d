// SPDX-License-Identifier: LGPL-3.0-only
//! Sends a site document in parts. The plugin commits all parts or none, and handles other requests between two parts.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::outcome::{Failure, Result, failure};
use crate::ui::printable::{count, printable};
use crate::ui::progress::Progress;
use crate::ui::words::format_user_or_id;
use fairshare_accounting::store::PolicyData;
use fairshare_client::{Flux, FluxError};
use fairshare_engine::accounts::{ChangeCounts, Difference};
use fairshare_engine::engine::answers::{Preview, PushChanges, RemovedAssociation};
use fairshare_engine::ids::f58;
use fairshare_protocol::records::AssociationRecord;
use fairshare_protocol::wire::BeginPushAnswer;

/// The most records of one part. The plugin accepts more, but handles other requests only between parts.
const RECORDS: usize = 500;

/// Sends all records of `data`, and the record `owner` of the instance owner. Returns `None` if the plugin can't
/// receive a push in several parts.
pub(crate) fn send(
    flux: &Flux,
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
) -> Result<Option<PushChanges>> {
    // The plugin keeps settings that were made at load or by another push, unless the database sets them.
    send_push(flux, data, owner, r#"{"keep_config":true}"#)
}

/// Asks for the effects of a push without committing the push.
pub(crate) fn ask(
    flux: &Flux,
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
) -> Result<Option<Preview>> {
    send_push(flux, data, owner, r#"{"keep_config":true,"dry_run":true}"#)
}

fn send_push<T: for<'de> Deserialize<'de>>(
    flux: &Flux,
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
    beginning: &str,
) -> Result<Option<T>> {
    let begun = match flux.rpc(&method_topic("policy_begin"), beginning) {
        Ok(answer) => answer,
        Err(FluxError::Request { errno: libc::ENOSYS, .. }) => return Ok(None),
        Err(error) => return Err(describe_refusal(&error)),
    };
    let push: BeginPushAnswer = serde_json::from_str(&begun.unwrap_or_default()).map_err(failure)?;
    let sent = send_parts(flux, &push, data, owner);
    if sent.is_err() {
        // A failure of `policy_abort` is ignored. If the plugin refused a part, it has already ended the push. Otherwise it
        // drops the staged push after a minute.
        let _ = flux.rpc(&method_topic("policy_abort"), &json!({ "push": push.push }).to_string());
    }
    sent?;
    let answer = flux.rpc(&method_topic("policy_commit"), &json!({ "push": push.push }).to_string());
    let answer = answer.map_err(|error| failure(error.to_string()))?;
    serde_json::from_str(&answer.unwrap_or_default()).map(Some).map_err(failure)
}

fn send_parts(
    flux: &Flux,
    push: &BeginPushAnswer,
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
) -> Result<()> {
    let mut progress = Progress::start();
    progress.phase("sending associations", || data.associations.len() as u64);
    let mut sending = Sending { flux, push, progress };
    sending.send_array("associations", &data.associations)?;
    if let Some(owner) = owner {
        sending.send_array("associations", std::slice::from_ref(owner))?;
    }
    sending.progress.phase("sending the rest", || 0);
    sending.send_array("queues", &data.queues)?;
    sending.send_array("projects", &data.projects)?;
    sending.send_array("banks", &data.banks)?;
    sending.send_array("priority_factors", &data.priority_factors)?;
    sending.send_records("limits", &data.limits)?;
    sending.send_records("charges", &data.charges)?;
    sending.send_records("charge_by", &data.charge_by)?;
    sending.send_records("budgets", &data.budgets)?;
    if let Some(tree) = &data.tree {
        sending.send_push_part("tree", tree)?;
    }
    sending.send_push_part("config", &data.config)
}

struct Sending<'a> {
    flux: &'a Flux,
    push: &'a BeginPushAnswer,
    progress: Progress,
}

impl Sending<'_> {
    /// Sends the records of one kind. Also sends an empty list, so that the plugin removes its old records of this kind.
    fn send_array<T: Serialize>(&mut self, key: &str, records: &[T]) -> Result<()> {
        let size = self.push.max_records.clamp(1, RECORDS);
        let mut remaining = records;
        loop {
            let (chunk, more) = remaining.split_at(size.min(remaining.len()));
            self.send_chunk(key, chunk)?;
            remaining = more;
            self.progress.set_finished_steps((records.len() - remaining.len()) as u64);
            if remaining.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sends the records of one kind. If there are none, sends nothing.
    fn send_records<T: Serialize>(&mut self, key: &str, records: &[T]) -> Result<()> {
        if records.is_empty() { Ok(()) } else { self.send_array(key, records) }
    }

    /// Sends the records in one request. If the request is too long, splits the list of records in half and sends
    /// each half. If a single record is too long, the plugin refuses the request.
    fn send_chunk<T: Serialize>(&self, key: &str, records: &[T]) -> Result<()> {
        let payload = self.payload(key, records)?;
        if payload.len() <= self.push.max_bytes || records.len() < 2 {
            return self.send_request(&payload);
        }
        let (one, other) = records.split_at(records.len() / 2);
        self.send_chunk(key, one)?;
        self.send_chunk(key, other)
    }

    fn send_push_part<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<()> {
        self.send_request(&self.payload(key, value)?)
    }

    fn payload<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<String> {
        let value = serde_json::to_string(value).map_err(failure)?;
        Ok(format!("{{\"push\":{},\"{key}\":{value}}}", self.push.push))
    }

    fn send_request(&self, payload: &str) -> Result<()> {
        self.flux
            .rpc(&method_topic("policy_part"), payload)
            .map(drop)
            .map_err(|error| describe_refusal(&error))
    }
}

fn method_topic(method: &str) -> String {
    format!("job-manager.mf_priority.{method}")
}

fn describe_refusal(error: &FluxError) -> Failure {
    let hint = match error {
        FluxError::Request { errno: libc::EPERM, .. } => "; only the instance owner may push",
        _ => "",
    };
    failure(format!("nothing was accepted: {error}{hint}"))
}

/// The document of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct PushDocument<'a> {
    sent: SentRecords,
    /// The bank of the instance owner's record, if the database had none and the command added it.
    owner: Option<&'a str>,
    /// The changes that the push made; null for flux-accounting's plugin.
    changes: Option<&'a PushChanges>,
}

/// The number of records that were sent.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SentRecords {
    associations: usize,
    queues: usize,
    projects: usize,
    banks: usize,
    factors: usize,
}

impl<'a> PushDocument<'a> {
    pub(super) fn new(
        data: &PolicyData,
        owner: Option<&'a AssociationRecord>,
        changes: Option<&'a PushChanges>,
    ) -> PushDocument<'a> {
        let sent = SentRecords {
            associations: data.associations.len() + usize::from(owner.is_some()),
            queues: data.queues.len(),
            projects: data.projects.len(),
            banks: data.banks.len(),
            factors: data.priority_factors.len(),
        };
        PushDocument { sent, owner: owner.map(|owner| owner.bank.as_str()), changes }
    }
}

/// Describes the preview of a push in one line for each effect.
pub(crate) fn describe_preview(preview: &Preview) -> Vec<String> {
    let mut lines = vec![
        format!("the plugin would accept the push: {}", describe_difference(&preview.changes.difference)),
        format!(
            "{} of {} would get another priority, and {} would move in {}",
            preview.repriced,
            count(preview.pending, "pending job"),
            preview.moved,
            if preview.moved == 1 { "its queue" } else { "their queues" }
        ),
    ];
    lines.extend(preview.moves.iter().map(|job| {
        let [from, to] = job.priority;
        let [place, next] = job.place;
        let bank = job.bank.as_ref().map_or(String::new(), |bank| format!(" in {}", printable(bank)));
        let queue = job.queue.as_ref().map_or(String::new(), |queue| format!(", queue {}", printable(queue)));
        let user = format_user_or_id(job.user.0);
        format!(
            "  {} of {user}{bank}{queue}: place {place} to {next}, priority {from} to {to}",
            f58(job.id.0)
        )
    }));
    lines.extend(preview.rejected.iter().map(|job| {
        let (id, user, reason) = (f58(job.id.0), format_user_or_id(job.user.0), printable(&job.reason));
        format!("job {id} of {user} would end: {reason}")
    }));
    lines.extend(describe_omitted_items(preview.rejected_count, preview.rejected.len(), "job", "would end"));
    lines.extend(preview.removed_with_jobs.iter().map(|association| {
        let RemovedAssociation { user, bank, jobs } = association;
        let jobs = count(*jobs, "live job");
        format!(
            "user {} in bank {} would be removed; {jobs} of this association would continue",
            format_user_or_id(user.0),
            printable(bank)
        )
    }));
    let (all, shown) = (preview.removed_with_jobs_count, preview.removed_with_jobs.len());
    lines.extend(describe_omitted_items(all, shown, "association", "would be removed with live jobs"));
    lines
}

fn describe_omitted_items(all: usize, shown: usize, what: &str, would: &str) -> Option<String> {
    (all > shown).then(|| format!("and {} more {would}", count(all - shown, what)))
}

/// Describes how many records a push changes. Kinds of records without a change are left out, except associations.
pub(crate) fn describe_difference(difference: &Difference) -> String {
    let Difference { added, changed, removed, unchanged, others } = *difference;
    let others = describe_kinds(&Difference { others, ..Difference::default() });
    let others = others.map_or(String::new(), |others| format!("; {others}"));
    format!(
        "associations: {added} added, {changed} changed, {removed} removed, {unchanged} unchanged{others}"
    )
}

/// Describes how many records of each kind a push adds, changes and removes. Returns `None` if the push changes
/// nothing.
pub(crate) fn describe_kinds(difference: &Difference) -> Option<String> {
    let Difference { added, changed, removed, others, .. } = *difference;
    let associations = ("associations", ChangeCounts { added, changed, removed });
    let config = ("config", ChangeCounts { changed: others.config.changed, ..ChangeCounts::default() });
    let describe = |(kind, counts): (&str, ChangeCounts)| {
        let counted = [(counts.added, "added"), (counts.changed, "changed"), (counts.removed, "removed")];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = counted.map(|(count, what)| format!("{count} {what}")).collect();
        (!texts.is_empty()).then(|| format!("{kind}: {}", texts.join(", ")))
    };
    let kinds = [associations].into_iter().chain(others.kinds()).chain([config]);
    let kinds: Vec<String> = kinds.filter_map(describe).collect();
    (!kinds.is_empty()).then(|| kinds.join("; "))
}
