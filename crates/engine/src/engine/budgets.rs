// SPDX-License-Identifier: LGPL-3.0-only
//! Keeps the budgets up to date: at pushes, at the ends of jobs, and at the start and the end of windows.

use super::{Effect, JobFacts, Shared, life, recovery::Recovery};
use crate::accounts::{AssociationId, Budget, Target};
use crate::budgets::BudgetMode;
use crate::ids::JobId;
use crate::limits::{Phase, Size};
use crate::standing::UsageTable;
use fairshare::charging::ChargeHistory;

/// Replaces all budgets by the budgets of a push.
pub(super) fn replace_budgets(shared: &mut Shared, budgets: Vec<Budget>) {
    if budgets.is_empty() && shared.budgets.is_empty() {
        return;
    }
    shared.standing.usages.keeps_uncovered = !budgets.is_empty();
    shared.budgets.replace_all_budgets(budgets);
    recount_charges(shared);
}

/// Counts all jobs again with the present charge factors of queues, and computes the amounts that ended jobs
/// have spent since the last push.
pub(super) fn recount_charges(shared: &mut Shared) {
    let has_budgets = !shared.budgets.is_empty();
    let charges = shared.standing.usages.charging().history();
    shared.ledger.set_charges(if has_budgets { charges.clone() } else { ChargeHistory::default() });
    let Shared { budgets, standing, book, now, .. } = shared;
    budgets.clear_charges();
    // The engine charges a job to the banks above the job's bank only if there are limits on banks. So the engine sets
    // the limits of budgets before it charges jobs.
    book.set_budget_limits(budgets.in_force(*now, true).0);
    for run in standing.usages.ended_jobs().filter(|_| has_budgets) {
        budgets.charge_job(book.site_limits(), &run, true, *now);
    }
    apply_budget_windows(shared);
    // Held jobs may fit now that the balance is known.
    shared.needs_budget_scan |= has_budgets && shared.ended.is_done();
}

/// Counts all jobs again, if there are budgets and all ended jobs are known. Until then no job fits into a budget, so a
/// recount would have no effect.
pub(super) fn recount_if_ended_jobs_are_known(shared: &mut Shared) {
    if !shared.budgets.is_empty() && shared.ended.is_done() {
        recount_charges(shared);
    }
}

/// Applies the budget windows that contain the present time.
fn apply_budget_windows(shared: &mut Shared) {
    let (limits, accounts) = shared.budgets.in_force(shared.now, shared.ended.is_done());
    shared.book.set_budget_limits(limits);
    shared.ledger.apply_budget_limits(&shared.book, accounts);
}

/// Applies the present budget windows if a window has started or ended, or if the balances of budgets have become known
/// or unknown. Then requests a release scan of all held jobs.
pub(super) fn follow_clock(shared: &mut Shared, recovery: &mut Recovery) {
    if shared.budgets.is_outdated(shared.now, shared.ended.is_done()) {
        apply_budget_windows(shared);
        recovery.mark_limits_changed();
        shared.needs_budget_scan = true;
    }
}

/// Schedules a release scan of all held jobs if a change of the budgets requires the scan.
pub(super) fn scan_if_changed(shared: &mut Shared) -> Vec<Effect> {
    if std::mem::take(&mut shared.needs_budget_scan) { shared.scan_all_held_later() } else { Vec::new() }
}

/// Records the end of job `id` by calling `record`, and charges the job. The job was live until now, so the
/// last push does not include it.
pub(super) fn charge_job_at_end<R>(
    shared: &mut Shared,
    id: JobId,
    record: impl FnOnce(&mut UsageTable) -> R,
) -> R {
    if shared.budgets.is_empty() {
        return record(&mut shared.standing.usages);
    }
    charge_recorded_job(shared, id, false);
    let result = record(&mut shared.standing.usages);
    charge_recorded_job(shared, id, true);
    result
}

/// Adds the charge of the ended job `id` if `is_in` is true, and subtracts the charge otherwise. Does nothing if the
/// usage of the job is not stored. The job ended after the last push, so its charge counts even if the watermark of the
/// push is later.
fn charge_recorded_job(shared: &mut Shared, id: JobId, is_in: bool) {
    let Shared { budgets, standing, book, ledger, now, .. } = shared;
    let Some(run) = standing.usages.ended_job(id) else { return };
    if is_in && run.is_included {
        budgets.record_late_end(id);
    }
    for (target, amount, spent) in budgets.charge_job(book.site_limits(), &run, is_in, *now) {
        ledger.set_spent_amount(target, amount, spent);
    }
}

/// Returns true if budgets reject new jobs that do not fit. While ended jobs are being read, the balance is unknown.
/// Then such a job is held, not rejected.
pub(super) fn rejects_beyond_budget(shared: &Shared) -> bool {
    shared.budgets.mode() == BudgetMode::Reject && shared.ended.is_done()
}

/// Returns the text that rejects a job because of a budget. The job may lack a time limit, or may not fit into a
/// budget. In the mode "reject", a new job must fit. A pending job with a longer time limit must fit too.
pub(super) fn budget_rejection(shared: &Shared, id: AssociationId, facts: &JobFacts<'_>) -> Option<String> {
    if shared.budgets.is_empty() || shared.budgets.mode() == BudgetMode::Warn {
        return None;
    }
    let known = shared.ledger.job(facts.id);
    let (size, before) = (facts.full_size()?, known.map(|job| job.size));
    let moves = known.is_some_and(|job| job.association() != Some(id));
    let lacks_time_limit = !size.has_time_limit() && (moves || before.is_none_or(Size::has_time_limit));
    let is_checked = match known {
        None => rejects_beyond_budget(shared),
        Some(job) => {
            matches!(job.phase, Phase::Priority | Phase::Sched) && size.time_limit_ms > job.size.time_limit_ms
        }
    };
    if !lacks_time_limit && !is_checked {
        return None;
    }
    let mut moved = known.cloned().unwrap_or_else(|| life::build_job(shared, facts, true));
    moved.admission = moved.admission.get_admission_after_move(id);
    (moved.queue, moved.size) = (life::queue_name(shared, facts.queue), size);
    moved.size = moved.charged_size(shared.standing.usages.charging().history());
    let mut limits = shared.limits().list_limits_on_job(facts.id, known, &moved);
    limits.retain(|limit| limit.amount.is_budget() && limit.needed > 0);
    let target = |target: &Option<Target>| target.as_ref().map_or_else(String::new, Target::to_string);
    if lacks_time_limit {
        let limit = limits.first()?;
        let (target, unit) = (target(&limit.target), limit.amount.measure.name());
        return Some(format!(
            "the budget of {target} counts {unit}, so each job needs a time limit: set one with -t"
        ));
    }
    let exceeded = limits.iter().find(|limit| limit.count_fitting_jobs() == 0)?;
    let (target, measure, cap) = (target(&exceeded.target), exceeded.amount.measure, exceeded.limit.cap());
    Some(format!(
        "the job may use {}, and the budget of {target} has {} of {} left: request less time with -t, or ask for a deposit",
        measure.show_amount(exceeded.needed),
        measure.format_headroom(cap.saturating_sub(exceeded.used)),
        measure.format_headroom(cap),
    ))
}
