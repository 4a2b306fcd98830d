// SPDX-License-Identifier: LGPL-3.0-only
//! Runs sync's steps in the database.

use super::fetch::{Fetch, FetchOutcome, request_charge_rules};
use super::summary::warn_about_usage_count;
use super::{Args, Step};
use crate::clock::now;
use crate::commands::push;
use crate::outcome::{Result, failure, mark_stored};
use crate::ui::progress::Progress;
use fairshare_accounting::pipeline::budgets::Budgets;
use fairshare_accounting::pipeline::fairshare::Ranked;
use fairshare_accounting::pipeline::{PipelineError, Plan};
use fairshare_accounting::store::{Access, NewCharges, Snapshot};
use fairshare_client::Flux;

/// Runs the steps in the database as one transaction. Passes warnings to `note`.
pub(super) fn run_sync_steps_in_transaction(args: &Args, note: &mut dyn FnMut(String)) -> Result<Done> {
    let mut done = Done::default();
    if args.stores_results() {
        let mut progress = Progress::start();
        let (mut flux, mut reported) = (None, None);
        let fetch = if args.includes(Step::Fetch) {
            let fetch = Fetch { found: args.database.found(), wait: args.database.wait, now: now(args.now) };
            let flux = flux.insert(Flux::connect(args.uri.as_deref()).map_err(failure)?);
            reported = request_charge_rules(flux, &fetch)?;
            Some(fetch.begin(flux, &mut progress)?)
        } else {
            None
        };
        let mut database = args.database.open(Access::Write)?;
        let snapshot = database.snapshot()?;
        if let Some(begun) = fetch {
            done.fetched = Some(begun.store(&snapshot, &mut progress)?);
        }
        if let Some(reported) = reported {
            done.charges = snapshot.add_charges(&reported, now(args.now))?;
        }
        if args.includes(Step::Usage) {
            match count_usage(args, &snapshot, &mut progress) {
                Ok(plan) => done.usage = Some(plan),
                // If the clock was set back, usage is not counted, but the other steps run. The fetched
                // records are stored, because Flux may purge these jobs before the next sync. Edits of the
                // database still reach the plugin.
                Err(error @ PipelineError::ClockWentBack { .. }) if !args.dry_run => {
                    done.uncounted = Some(error);
                }
                Err(error) => return Err(failure(error)),
            }
        }
        if args.includes(Step::Fairshare) {
            done.ranked = Some(rank_site(args, &snapshot, &mut progress)?);
        }
        if args.dry_run {
            if args.includes(Step::Push) {
                push::check_snapshot(&snapshot, now(args.now))?.into_iter().for_each(&mut *note);
            }
            drop(snapshot);
        } else {
            progress.phase("storing", || 0);
            snapshot.commit()?;
        }
    }
    if let Some(stored) = &done.fetched {
        stored.report_unreadable_records(args.database.path(), note);
    }
    if let Some(plan) = &done.usage {
        warn_about_usage_count(args, &plan.tally, note);
    }
    Ok(done)
}

fn count_usage(args: &Args, snapshot: &Snapshot<'_>, progress: &mut Progress) -> Result<Plan, PipelineError> {
    progress.phase("counting", || snapshot.estimate_association_count());
    let now = now(args.now);
    let plan = Plan::new(snapshot, args.usage_rule, now, &mut |done| progress.set_finished_steps(done))?;
    let changes = &plan.changes;
    progress.phase("writing usage", || {
        (changes.usages.len() + changes.newest.len() + changes.bins.len() + changes.removed.len()) as u64
    });
    plan.write(snapshot, &mut |done| progress.set_finished_steps(done))?;
    Budgets::count(snapshot, None, &[], now)?.store_spent_amounts(snapshot, false)?;
    Ok(plan)
}

fn rank_site(args: &Args, snapshot: &Snapshot<'_>, progress: &mut Progress) -> Result<Ranked> {
    progress.phase("ranking", || snapshot.estimate_association_count());
    let site = snapshot.site_policy()?;
    let (policy, options) = (args.policy.over(site), args.rules.over(site)?);
    let ranked = Ranked::new(snapshot, policy, &options, &mut |done| progress.set_finished_steps(done))?;
    progress.phase("writing fair-shares", || ranked.changes.len() as u64);
    ranked.write(snapshot, &mut |done| progress.set_finished_steps(done))?;
    Ok(ranked)
}

/// Results of the steps that ran.
#[derive(Default)]
pub(super) struct Done {
    pub(super) fetched: Option<FetchOutcome>,
    /// The changes of charge factors and charged resources that this sync stored.
    pub(super) charges: NewCharges,
    pub(super) usage: Option<Plan>,
    pub(super) ranked: Option<Ranked>,
    /// The error of the usage count, if the sync continued without the count.
    pub(super) uncounted: Option<PipelineError>,
}

impl Done {
    /// Returns an error if usage was not counted. When the clock has passed the last count, the next sync counts the fetched records.
    pub(super) fn check_usage_was_counted(&self) -> Result<()> {
        let Some(error) = &self.uncounted else { return Ok(()) };
        let is_ranked = self.ranked.as_ref().is_some_and(|ranked| !ranked.changes.is_empty());
        Err(if self.fetched.is_some() || is_ranked { mark_stored(failure(error)) } else { failure(error) })
    }
}
