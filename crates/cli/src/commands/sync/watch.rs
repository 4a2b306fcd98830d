// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare sync --watch`: syncs repeatedly.

use std::collections::HashSet;
use std::time::Duration;

use super::Args;
use super::steps::run_sync_steps_in_transaction;
use crate::commands::push::{self, Push};
use crate::outcome::{Answer, Outcome, Result, failure};
use crate::ui::messages::remark;
use crate::ui::printable::count;
use fairshare_accounting::pipeline::watch::{Cause, Done, System, watch};
use fairshare_accounting::store::{Access, PolicyData};

/// Syncs until a signal ends it.
pub(super) fn run(args: &Args, every: Duration) -> Outcome {
    // Prints a message only once, even if several steps cause it.
    let mut known = HashSet::new();
    let mut sent = None;
    let step = |cause: Cause| {
        let mut note = |text: String| {
            if known.insert(text.clone()) {
                remark(text);
            }
        };
        run_step(args, cause, &mut sent, &mut note).map_err(|error| error.to_string())
    };
    let mut world = System::new(args.database.path(), args.uri.as_deref(), step, |line| remark(line))
        .map_err(|error| {
            let about = || failure(format_args!("{}: {error}", args.database.path().display()));
            // This error also names a remedy.
            args.database.open(Access::Read).err().unwrap_or_else(about)
        })?;
    watch(&mut world, every);
    Ok(Answer::Yes)
}

/// Runs one step. `sent` is the data of the last accepted push. If the data have not changed since then, the
/// step pushes only if `cause` means that the plugin may have lost its data.
fn run_step(
    args: &Args,
    cause: Cause,
    sent: &mut Option<PolicyData>,
    note: &mut dyn FnMut(String),
) -> Result<Done> {
    let done = run_sync_steps_in_transaction(args, note)?;
    let push = Push { found: args.database.found(), wait: args.database.wait, uri: args.uri.as_deref() };
    let data = push::read(&push, note)?;
    // The rates of budgets change all the time. A change of a rate alone causes no push; the next push sends
    // the new rate.
    for (was, is) in sent.iter_mut().flat_map(|sent| &mut sent.budgets).zip(&data.budgets) {
        was.rate = is.rate;
    }
    let differs = sent.as_ref() != Some(&data);
    let mut news = list_changes(&done);
    if differs || !matches!(cause, Cause::Jobs | Cause::Database) {
        // Until the push is accepted, the plugin's data are unknown.
        let is_other = has_changed(sent.take(), &data);
        let generation = push::send_data(&push, &data)?;
        *sent = Some(data);
        // A regular push is logged only if more than decay has changed the data. A push after a start, a failure or a request is
        // always logged.
        if is_other || !matches!(cause, Cause::Time | Cause::Jobs | Cause::Database) {
            news.push(
                generation.map_or("sent".to_owned(), |generation| format!("sent generation {generation}")),
            );
        }
    }
    // If the usage count failed, the push still ran, so that other changes of the database reach the plugin.
    let trouble = done.check_usage_was_counted().err().map(|error| error.to_string());
    Ok(Done { changed: (!news.is_empty()).then(|| news.join("; ")), problem: trouble })
}

/// Returns true if `data` differ from `before` by more than the decay of usage since then.
fn has_changed(before: Option<PolicyData>, data: &PolicyData) -> bool {
    let Some(mut before) = before else { return true };
    if let (Some(was), Some(is)) = (before.tree.as_mut(), &data.tree) {
        let decay = if is.half_life > 0.0 { ((was.at - is.at) / is.half_life).exp2() } else { 1.0 };
        was.at = is.at;
        for (was, is) in before.associations.iter_mut().zip(&data.associations) {
            let Some(usage) = is.usage else { continue };
            if was.usage.is_some_and(|before| are_nearly_equal(before * decay, usage)) {
                was.usage = Some(usage);
            }
        }
    }
    before != *data
}

/// Returns true if two usages differ by no more than rounding.
fn are_nearly_equal(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

/// Returns the log texts about stored changes.
fn list_changes(done: &super::steps::Done) -> Vec<String> {
    let mut news = Vec::new();
    let mut add = |number: usize, text: String| {
        if number > 0 {
            news.push(text);
        }
    };
    if let Some(stored) = &done.fetched {
        let new = usize::try_from(stored.new).unwrap_or(usize::MAX);
        add(new, format!("{} ended", count(new, "job")));
    }
    super::fetch::describe_charges(&done.charges).into_iter().for_each(|text| add(1, text));
    if let Some(plan) = &done.usage {
        let (boundaries, changed) = (plan.tally.boundaries, plan.changes.usages.len());
        add(boundaries, format!("{boundaries} period boundary crossed"));
        add(changed, format!("{} changed", count(changed, "usage")));
    }
    if let Some(ranked) = &done.ranked {
        let changed = ranked.changes.len();
        add(changed, format!("{} changed", count(changed, "fair-share")));
    }
    news
}
