// SPDX-License-Identifier: LGPL-3.0-only
//! Prints the results of sync: warnings, a summary line, and the table of --dry-run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Args;
use super::fetch::{FetchOutcome, describe_charges};

use super::steps::Done;
use crate::ui::figures::Unit;
use crate::ui::output::{Facts, Report};
use crate::ui::printable::{count, printable};
use crate::ui::rows::{Rows, Style, ValueColumn, value_column};
use crate::ui::words::format_user_or_id;
use fairshare_accounting::pipeline::fairshare::Ranked;
use fairshare_accounting::pipeline::{Plan, Tally};
use fairshare_engine::ids::f58;

/// Returns texts about the records that were not counted: unreadable records, and those without an association.
pub(in crate::commands) fn describe_uncounted_records(tally: &Tally) -> Vec<String> {
    let unreadable = (tally.unreadable_count > 0).then(|| {
        let id = |id: &String| id.parse().map_or_else(|_| printable(id).into_owned(), f58);
        let jobs = tally.unreadable.iter().map(id).collect::<Vec<_>>().join(", ");
        let more = if tally.unreadable_count > tally.unreadable.len() { ", ..." } else { "" };
        let records = count(tally.unreadable_count, "record");
        format!("{records} left out, because the resources or times can't be read: job {jobs}{more}")
    });
    let unplaced = tally.unplaced.iter().map(|(userid, bank, jobs)| {
        let place = if bank.is_empty() { "a default bank".to_owned() } else { format!("bank {bank}") };
        let user = u32::try_from(*userid).map_or_else(|_| userid.to_string(), format_user_or_id);
        format!("{} of user {user} not counted yet: no association in {place}", count(*jobs, "record"))
    });
    unreadable.into_iter().chain(unplaced).collect()
}

/// Passes warnings about the usage count to `note`.
pub(super) fn warn_about_usage_count(args: &Args, tally: &Tally, note: &mut dyn FnMut(String)) {
    let mut say = |text: String| note(format!("{}: {text}", args.database.path().display()));
    if let Some(why) = tally.recounted {
        say(format!("all usage was recounted from {}: {why}", count(tally.counted, "record")));
    }
    if tally.repaired > 0 {
        say(format!(
            "usage that flux-accounting had counted twice was removed from {}",
            count(tally.repaired, "association")
        ));
    }
    describe_uncounted_records(tally).into_iter().for_each(&mut say);
    if tally.ignored_credits > 0 {
        say(format!("{} ignored by usage rule flux-accounting", count(tally.ignored_credits, "credit")));
    }
    if tally.from_the_future > 0 {
        say(format!(
            "{} of jobs that ended in a future period are counted in the present period: check the clock",
            count(tally.from_the_future, "record")
        ));
    }
}

/// Returns the summary line of the steps in `done`.
pub(super) fn summarize_steps(args: &Args, done: &Done) -> String {
    let mut parts = Vec::new();
    parts.extend(done.fetched.as_ref().map(FetchOutcome::summary));
    parts.extend(describe_charges(&done.charges));
    if let Some(Plan { tally, changes, .. }) = &done.usage {
        let details = [(tally.in_default_bank, "in a default bank"), (tally.late, "late")];
        let details = describe_counts(&details).collect::<Vec<_>>().join(", ");
        let details = if details.is_empty() { String::new() } else { format!(" ({details})") };
        parts.push(format!(
            "{} counted{details} by usage rule {}",
            count(tally.counted, "record"),
            args.usage_rule
        ));
        parts.extend(describe_counts(&[
            (tally.boundaries, "period boundary crossed"),
            (tally.ignored, "before a cut-off"),
            (tally.too_old, "too old to count"),
            (tally.waiting, "without an association"),
        ]));
        parts.push(format!(
            "usage of {} and {} changed",
            count(changes.usages.len(), "association"),
            count(changes.banks.len(), "bank")
        ));
    }
    if let Some(ranked) = &done.ranked {
        parts.push(format!(
            "{} ranked by {}, {} changed",
            count(ranked.ranking.ranked(), "association"),
            ranked.ranking.policy(),
            count(ranked.changes.len(), "fair-share")
        ));
    }
    if parts.is_empty() { "nothing to do".to_owned() } else { parts.join("; ") }
}

/// Describes the counts that are not 0.
fn describe_counts(counts: &[(usize, &str)]) -> impl Iterator<Item = String> {
    counts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}"))
}

/// The changes of an association: old and new values.
#[derive(Default)]
pub(in crate::commands) struct AssociationChange {
    usage_stored: Option<f64>,
    usage: Option<f64>,
    fairshare_stored: Option<f64>,
    fairshare: Option<f64>,
}

/// Prints the table of --dry-run.
pub(super) fn print_dry_run(args: &Args, done: &Done) -> std::io::Result<()> {
    let mut moves: BTreeMap<(&str, &str), AssociationChange> = BTreeMap::new();
    if let Some(Plan { ledger, changes, .. }) = &done.usage {
        for (at, usage) in &changes.usages {
            if let Some(account) = ledger.accounts.get(*at) {
                let moved = moves.entry((ledger.bank_name(account), account.user.as_str())).or_default();
                (moved.usage_stored, moved.usage) = (Some(account.usage), Some(*usage));
            }
        }
    }
    if let Some(Ranked { tree, changes, .. }) = &done.ranked {
        for change in changes {
            let bank = tree.parent(change.node).map_or("", |bank| tree.name(bank));
            let moved = moves.entry((bank, tree.name(change.node))).or_default();
            (moved.fairshare_stored, moved.fairshare) = (change.stored.fairshare, Some(change.fairshare));
        }
    }
    let (shown, mut notes) = args.output.limit_rows(moves.len(), args.limit);
    let mut rows: Vec<_> = moves.into_iter().collect();
    let distance = |moved: &AssociationChange| {
        let usages = moved.usage_stored.zip(moved.usage);
        usages.map_or(0.0, |(before, after)| (after - before).abs())
    };
    rows.sort_by(|(_, one), (_, other)| distance(other).total_cmp(&distance(one)));
    notes.push(format!("{}; nothing was stored or sent", summarize_steps(args, done)));
    let facts = done.usage.as_ref().map(|plan| Facts::new(&SyncJsonFields::new(args, &plan.tally)));
    args.output.print(Report {
        facts: facts.transpose()?.unwrap_or_default(),
        rows: Rows::new("changes", columns(), rows.into_iter().take(shown)),
        notes,
        ..Report::default()
    })
}

/// A row of --dry-run: bank, user and changes.
type ChangeRow<'a> = ((&'a str, &'a str), AssociationChange);

/// Returns the columns of --dry-run.
pub(in crate::commands) fn columns<'a>() -> [ValueColumn<'static, ChangeRow<'a>>; 6] {
    let usage = Style::Usage(Unit::Unknown);
    [
        value_column("user", "User", Style::Text, |((_, user), _)| (*user).into()),
        value_column("bank", "Bank", Style::Text, |((bank, _), _)| (*bank).into()),
        value_column("usage_stored", "Usage (decayed)", usage, |(_, moved)| moved.usage_stored.into()),
        value_column("usage", "NewUsage (decayed)", usage, |(_, moved)| moved.usage.into()),
        value_column("fairshare_stored", "FairShare", Style::Fraction, |(_, moved)| {
            moved.fairshare_stored.into()
        }),
        value_column("fairshare", "NewFairShare", Style::Fraction, |(_, moved)| moved.fairshare.into()),
    ]
}

/// The members of the JSON document besides the list of changes, if sync counted usage.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct SyncJsonFields {
    usage_rule: String,
    /// The number of job records that were counted.
    counted: usize,
    /// The number of counted records that are charged to the default bank of their user.
    in_default_bank: usize,
    /// The number of counted records of jobs that ended before the last count.
    late: usize,
    /// The number of records that cannot be read.
    unreadable: usize,
    /// The number of records of users without an association.
    waiting: usize,
    /// The number of period boundaries that have passed since the last count.
    boundaries: usize,
}

impl SyncJsonFields {
    fn new(args: &Args, tally: &Tally) -> SyncJsonFields {
        SyncJsonFields {
            usage_rule: args.usage_rule.to_string(),
            counted: tally.counted,
            in_default_bank: tally.in_default_bank,
            late: tally.late,
            unreadable: tally.unreadable_count,
            waiting: tally.waiting,
            boundaries: tally.boundaries,
        }
    }
}
