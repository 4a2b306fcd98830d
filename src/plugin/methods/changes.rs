// SPDX-License-Identifier: LGPL-3.0-only
//! The changes that a push makes or would make: the reply to its sender, and the log line.

use crate::jobtap::{LogLevel, Plugin};
use fairshare_engine::accounts::{ChangeCounts, Difference};
use fairshare_engine::engine::Preview;
use serde_json::{Value, json};

/// Returns the changes that a whole site document makes, for its sender. `generation` is that of the data in force.
pub fn reply(generation: u64, difference: Difference, dry_run: bool) -> Value {
    let mut reply = json!({
        "generation": generation,
        "dry_run": dry_run,
        "added": difference.added,
        "changed": difference.changed,
        "removed": difference.removed,
        "unchanged": difference.unchanged,
        "config": {"changed": difference.others.config},
    });
    let kinds =
        difference.others.kinds().into_iter().map(|(kind, ChangeCounts { added, changed, removed })| {
            (kind.to_owned(), json!({"added": added, "changed": changed, "removed": removed}))
        });
    if let Value::Object(members) = &mut reply {
        members.extend(kinds);
    }
    reply
}

/// Returns the changes that a whole site document would make, including those of jobs.
pub fn preview(generation: u64, preview: &Preview) -> Value {
    /// The most jobs that would end, and associations, that are listed.
    const MOST_NAMED: usize = 100;
    let mut reply = reply(generation, preview.difference, true);
    let moves = preview.moves.iter().map(|job| {
        json!({
            "id": job.id.0,
            "userid": job.user.0,
            "bank": job.bank.as_ref().map(|bank| bank.as_str()),
            "queue": job.queue.as_ref().map(|queue| queue.as_str()),
            "priority": [job.from, job.to],
            "place": [job.place, job.next],
        })
    });
    let rejected = preview.rejected.iter().take(MOST_NAMED);
    let rejected = rejected.map(|(id, user, text)| json!({"id": id.0, "userid": user.0, "reason": text}));
    let removed = preview.removed.iter().take(MOST_NAMED);
    let removed =
        removed.map(|(user, bank, jobs)| json!({"userid": user.0, "bank": bank.as_str(), "jobs": jobs}));
    let of_jobs = json!({
        "pending": preview.pending,
        "repriced": preview.repriced,
        "moved": preview.moved,
        "moves": moves.collect::<Vec<_>>(),
        "rejected": rejected.collect::<Vec<_>>(),
        "rejected_count": preview.rejected.len(),
        "removed_with_jobs": removed.collect::<Vec<_>>(),
        "removed_with_jobs_count": preview.removed.len(),
    });
    if let (Value::Object(reply), Value::Object(of_jobs)) = (&mut reply, of_jobs) {
        reply.extend(of_jobs);
    }
    reply
}

/// Logs the changes of a push in one line.
pub fn log_push(plugin: Plugin, what: &str, generation: u64, difference: Difference) {
    let Difference { added, changed, removed, unchanged, others } = difference;
    let mut text = format!(
        "mf_priority: {what}: generation {generation}, associations: {added} added, {changed} changed, \
         {removed} removed, {unchanged} unchanged"
    );
    for (kind, counts @ ChangeCounts { added, changed, removed }) in others.kinds() {
        if !counts.is_empty() {
            text += &format!("; {kind}: {added} added, {changed} changed, {removed} removed");
        }
    }
    if others.config > 0 {
        text += &format!("; config: {} changed", others.config);
    }
    plugin.log(LogLevel::Info, &text);
}
