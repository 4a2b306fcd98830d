// SPDX-License-Identifier: LGPL-3.0-only
//! Sending a policy in parts: the plugin is never busy for long, and takes over all of it or nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::changes::Changes;
use super::preview::Preview;
use crate::outcome::{Failure, failure};
use crate::ui::progress::Progress;
use fairshare_accounting::store::PolicyData;
use fairshare_client::{Flux, FluxError};
use fairshare_protocol::records::AssociationRecord;

/// Records of one part: fewer than the plugin takes, since other requests come between two parts only.
const RECORDS: usize = 500;

/// An open push, and how large its parts may be.
#[derive(Deserialize)]
struct OpenPush {
    push: u64,
    max_records: usize,
    max_bytes: usize,
}

/// Sends all, the owner's record too. `None`: this plugin does not know of parts.
pub(crate) fn send(
    flux: &Flux,
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
) -> Result<Option<Changes>, Failure> {
    // Whoever asked for a switch, at load or in another push, keeps it unless the database knows better.
    put(flux, data, owner, r#"{"keep_config":true}"#)
}

/// The same without effect: what the plugin would do.
pub(crate) fn ask(
    flux: &Flux,
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
) -> Result<Option<Preview>, Failure> {
    put(flux, data, owner, r#"{"keep_config":true,"dry_run":true}"#)
}

fn put<T: for<'de> Deserialize<'de>>(
    flux: &Flux,
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
    beginning: &str,
) -> Result<Option<T>, Failure> {
    let begun = match flux.rpc(&topic("policy_begin"), beginning) {
        Ok(answer) => answer,
        Err(FluxError::Request { errno: libc::ENOSYS, .. }) => return Ok(None),
        Err(error) => return Err(refused(&error)),
    };
    let push: OpenPush = serde_json::from_str(&begun.unwrap_or_default()).map_err(failure)?;
    let sent = send_parts(flux, &push, data, owner);
    if sent.is_err() {
        // The plugin has ended a push of which it refused a part, and forgets any other in a minute.
        let _ = flux.rpc(&topic("policy_abort"), &json!({ "push": push.push }).to_string());
    }
    sent?;
    let answer = flux.rpc(&topic("policy_commit"), &json!({ "push": push.push }).to_string());
    let answer = answer.map_err(|error| Failure::Message(error.to_string()))?;
    serde_json::from_str(&answer.unwrap_or_default()).map(Some).map_err(failure)
}

fn send_parts(
    flux: &Flux,
    push: &OpenPush,
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
) -> Result<(), Failure> {
    let mut progress = Progress::start();
    progress.phase("sending associations", || data.associations.len() as u64);
    let mut sending = Sending { flux, push, progress };
    sending.array("associations", &data.associations)?;
    if let Some(owner) = owner {
        sending.array("associations", std::slice::from_ref(owner))?;
    }
    sending.progress.phase("sending the rest", || 0);
    sending.array("queues", &data.queues)?;
    sending.array("projects", &data.projects)?;
    sending.array("banks", &data.banks)?;
    sending.array("priority_factors", &data.priority_factors)?;
    if !data.limits.is_empty() {
        sending.array("limits", &data.limits)?;
    }
    if let Some(tree) = &data.tree {
        sending.part("tree", tree)?;
    }
    sending.part("config", &data.config)
}

struct Sending<'a> {
    flux: &'a Flux,
    push: &'a OpenPush,
    progress: Progress,
}

impl Sending<'_> {
    /// Sends an array, also an empty one: the plugin must know that there is no more.
    fn array<T: Serialize>(&mut self, key: &str, records: &[T]) -> Result<(), Failure> {
        let size = self.push.max_records.clamp(1, RECORDS);
        let mut rest = records;
        loop {
            let (chunk, more) = rest.split_at(size.min(rest.len()));
            self.chunk(key, chunk)?;
            rest = more;
            self.progress.at((records.len() - rest.len()) as u64);
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sends records, in halves where they are too long for one part. One that is too long alone is the plugin's to refuse.
    fn chunk<T: Serialize>(&self, key: &str, records: &[T]) -> Result<(), Failure> {
        let payload = self.payload(key, records)?;
        if payload.len() <= self.push.max_bytes || records.len() < 2 {
            return self.request(&payload);
        }
        let (one, other) = records.split_at(records.len() / 2);
        self.chunk(key, one)?;
        self.chunk(key, other)
    }

    fn part<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<(), Failure> {
        self.request(&self.payload(key, value)?)
    }

    fn payload<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<String, Failure> {
        let value = serde_json::to_string(value).map_err(failure)?;
        Ok(format!("{{\"push\":{},\"{key}\":{value}}}", self.push.push))
    }

    fn request(&self, payload: &str) -> Result<(), Failure> {
        self.flux.rpc(&topic("policy_part"), payload).map(drop).map_err(|error| refused(&error))
    }
}

fn topic(method: &str) -> String {
    format!("job-manager.mf_priority.{method}")
}

fn refused(error: &FluxError) -> Failure {
    let hint = match error {
        FluxError::Request { errno: libc::EPERM, .. } => "; only the instance owner may push",
        _ => "",
    };
    Failure::Message(format!("nothing was accepted: {error}{hint}"))
}

/// What was sent and what that changed, as `--json` shows it.
pub(crate) fn report(
    data: &PolicyData,
    owner: Option<&AssociationRecord>,
    changes: Option<&Changes>,
) -> Value {
    json!({
        "sent": {
            "associations": data.associations.len(),
            "queues": data.queues.len(),
            "projects": data.projects.len(),
            "banks": data.banks.len(),
            "factors": data.priority_factors.len(),
        },
        "owner": owner.map(|owner| &owner.bank),
        "changes": changes,
    })
}
