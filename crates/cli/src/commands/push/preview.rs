// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare push --dry-run`: the plugin's preview of a push.

use super::changes;
use crate::ui::printable::{count, printable};
use crate::ui::words::user_or_id;
use fairshare_engine::engine::answers::{Preview, RemovedAssociation};
use fairshare_engine::ids::f58;

/// Describes a preview, one line for each fact.
pub(crate) fn describe(preview: &Preview) -> Vec<String> {
    let mut lines = vec![
        format!("the plugin would accept the push: {}", changes::describe(&preview.changes.difference)),
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
        let user = user_or_id(job.user.0);
        format!(
            "  {} of {user}{bank}{queue}: place {place} to {next}, priority {from} to {to}",
            f58(job.id.0)
        )
    }));
    lines.extend(preview.rejected.iter().map(|job| {
        let (id, user, reason) = (f58(job.id.0), user_or_id(job.user.0), printable(&job.reason));
        format!("job {id} of {user} would end: {reason}")
    }));
    lines.extend(describe_more(preview.rejected_count, preview.rejected.len(), "job", "would end"));
    lines.extend(preview.removed_with_jobs.iter().map(|association| {
        let RemovedAssociation { user, bank, jobs } = association;
        let jobs = count(usize::try_from(*jobs).unwrap_or(usize::MAX), "live job");
        format!(
            "user {} in {} would be removed with {jobs}, which continue",
            user_or_id(user.0),
            printable(bank)
        )
    }));
    let (all, shown) = (preview.removed_with_jobs_count, preview.removed_with_jobs.len());
    lines.extend(describe_more(all, shown, "association", "would be removed with live jobs"));
    lines
}

fn describe_more(all: usize, shown: usize, what: &str, would: &str) -> Option<String> {
    (all > shown).then(|| format!("and {} more {would}", count(all - shown, what)))
}
