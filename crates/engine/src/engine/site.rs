// SPDX-License-Identifier: LGPL-3.0-only
//! Handles pushes of site documents and of flux-accounting's records, and settings. New priorities apply at the next
//! reprioritize or refresh.

use super::{
    Effect, Level, Settings, Shared, Timer, accrual,
    age::{self, ask_site_nodes},
    budgets,
    due::Scan,
    life::running_limits,
    recovery::Recovery,
    refresh::Refresh,
};
use crate::accounts::{AssociationId, AssociationRecord, Book, RunningLimits, SiteRecords, TreeChange};
use crate::ids::{JobId, UserId};
use crate::limits::{Admission, Job, Origin, Phase};
use crate::standing::{SharedIds, SiteChange, SitePart, StagedSite};
use fairshare::insert_all;
use std::collections::BTreeSet;

/// The staged push.
#[derive(Clone, Debug, Default)]
pub(super) struct StagedPush {
    /// The parts of the site that have arrived, without the records.
    site: StagedSite,
}

impl StagedPush {
    /// Returns true if the staged push contains no nodes of a tree yet.
    #[cfg(test)]
    pub fn is_tree_empty(&self) -> bool {
        self.site.is_empty()
    }

    pub fn push_site_document(
        &mut self,
        shared: &mut Shared,
        recovery: &mut Recovery,
        refresh: &mut Refresh,
        records: SiteRecords,
        site: SitePart,
    ) -> Vec<Effect> {
        // A push that comes in one part replaces a staged push.
        self.begin_push(shared, false);
        self.stage_part(shared, records, site);
        self.commit_push(shared, recovery, refresh)
    }

    /// Replaces the site document by the staged push. If the tree of the new document is invalid, rejects the whole document.
    pub fn commit_push(
        &mut self,
        shared: &mut Shared,
        recovery: &mut Recovery,
        refresh: &mut Refresh,
    ) -> Vec<Effect> {
        let staged = std::mem::take(&mut self.site);
        let change = match shared.standing.push_staged(staged, shared.settings.accrual) {
            Ok(change) => change,
            Err(fault) => {
                shared.book.abort_staging();
                return vec![Effect::RejectPush(fault)];
            }
        };
        refresh.record_site_change(shared, &change);
        let rules = usize::from(change.policy) + usize::from(change.accounting);
        let SiteChange { associations, banks, budgets, .. } = change;
        let changed = shared.budgets.compare(&budgets);
        shared.book.commit_records(&TreeChange { associations, banks, rules, budgets: changed });
        shared.has_push_ended = true;
        recovery.mark_limits_changed();
        shared.ledger.apply_scope_limits(&shared.book);
        budgets::replace_budgets(shared, budgets);
        let mut effects = ask_for_ended_jobs(shared);
        effects.extend(update_weights(shared, recovery, refresh));
        effects.extend(
            shared.standing.shared_ids().map(|shared| Effect::Log(Level::Warning, shared_ids_text(shared))),
        );
        let waiting: Vec<JobId> = shared.ledger.waiting().values().flatten().copied().collect();
        effects.extend(assign_waiting_jobs(shared, recovery, waiting));
        effects.extend(refresh.post_all_priorities(shared, recovery));
        effects
    }

    pub fn begin_push(&mut self, shared: &mut Shared, keeps_config: bool) -> Vec<Effect> {
        self.drop_staged_site(shared);
        shared.book.begin_staging(keeps_config);
        Vec::new()
    }

    /// Adds a part to the staged push. The part affects no job before the commit.
    pub fn stage_part(&mut self, shared: &mut Shared, records: SiteRecords, site: SitePart) -> Vec<Effect> {
        self.site.absorb(site, &mut shared.standing);
        shared.book.stage_records(records);
        Vec::new()
    }

    pub fn abort_push(&mut self, shared: &mut Shared) -> Vec<Effect> {
        self.drop_staged_site(shared);
        shared.book.abort_staging();
        Vec::new()
    }

    /// Drops the site of the staged push, and the usage entries that were created for its associations.
    fn drop_staged_site(&mut self, shared: &mut Shared) {
        if !std::mem::take(&mut self.site).is_empty() {
            shared.standing.usages.remove_unused();
        }
    }
}

pub fn store_associations(
    shared: &mut Shared,
    recovery: &mut Recovery,
    records: Vec<AssociationRecord>,
) -> Vec<Effect> {
    // Most pushes contain many records, and few users have jobs that wait for data. So only records of these users
    // are collected.
    let users = records.iter().map(|record| record.association.user);
    let users_with_records: BTreeSet<UserId> =
        insert_all(users.filter(|user| shared.ledger.waiting().contains_key(user)));
    let is_over = shared.has_push_ended;
    let are_owners = records.iter().all(|record| shared.is_owner(record.association.user));
    shared.has_push_ended = is_over && are_owners;
    shared.book.upsert(records, shared.owner);
    recovery.mark_limits_changed();
    shared.ledger.mark_priorities_changed();
    let jobs: Vec<JobId> = users_with_records
        .into_iter()
        .flat_map(|user| shared.ledger.waiting().get(&user).into_iter().flatten().copied())
        .collect();
    let effects = assign_waiting_jobs(shared, recovery, jobs);
    if is_over {
        scan_owner_associations(shared, recovery);
    }
    effects
}

/// Assigns associations to jobs that waited for them. The jobs keep their state until Flux next asks for their
/// priority. The record of the instance owner comes after the reprioritize of a push, so the engine posts by
/// id the priorities of the owner's jobs that the reprioritize skipped.
fn assign_waiting_jobs(shared: &mut Shared, recovery: &mut Recovery, waiting: Vec<JobId>) -> Vec<Effect> {
    let (mut effects, mut replayed) = (Vec::new(), Vec::new());
    for id in waiting {
        let Some(job) = shared.ledger.job(id) else { continue };
        let association_found = shared.book.find(job.user, job.bank.as_deref());
        let Some(association) = association_found else { continue };
        let was_passed_over = job.admission == (Admission::Waiting { was_passed_over: true });
        if shared.is_owner(job.user) && was_passed_over && shared.unprioritized.contains(&id) {
            effects.push(shared.unmoved.request_urgency_later(id, Timer::ReactorTurn));
        }
        if job.origin == Origin::Replayed {
            recovery.add_association_of_incomplete_push(association);
            // When Flux replayed the job, the job had no association and could reach no limit. So the engine did not
            // read the eventlog.
            replayed.extend(matches!(job.phase, Phase::Priority | Phase::Sched).then_some(id));
        }
        shared.ledger.assign_scopes(&shared.book, association);
        shared.ledger.change(id, |job| job.admission = job.admission.get_admission_after_move(association));
        effects.extend(accrual::record_start_of_job(shared, id));
    }
    effects.extend(recovery.read_eventlogs(shared, replayed));
    recovery.end_comparison_if_complete(shared);
    effects
}

/// Handles the record of the instance owner, which comes after the reprioritize in a push by flux-accounting. At the
/// reprioritize, the owner's jobs had no association yet. So this function requests a scan of the owner's
/// associations.
fn scan_owner_associations(shared: &mut Shared, recovery: &mut Recovery) {
    let is_owners = |id: &AssociationId| {
        shared.book.association(*id).is_some_and(|association| shared.is_owner(association.user))
    };
    for association in recovery.end_push(is_owners) {
        shared.due.scan_after_event(association);
        shared.due.add_release_scan_after_event(Scan::HoldReplayed(association));
    }
}

pub fn change_configuration(
    shared: &mut Shared,
    recovery: &mut Recovery,
    refresh: &mut Refresh,
    change: impl FnOnce(&mut Book),
) -> Vec<Effect> {
    shared.has_push_ended = false;
    recovery.mark_limits_changed();
    change(&mut shared.book);
    shared.ledger.apply_scope_limits(&shared.book);
    update_weights(shared, recovery, refresh)
}

/// Computes the weights again, and makes Flux ask for all priorities if the reference time of ages moved. If
/// the weights changed, the caller posts priorities.
fn update_weights(shared: &mut Shared, recovery: &Recovery, refresh: &mut Refresh) -> Vec<Effect> {
    let (mut effects, has_moved) = apply_weights(shared, recovery, refresh);
    effects.extend(age::reprioritize_if_changed(shared, has_moved));
    effects
}

/// Computes the weights from the settings and the pushed weights. Also returns whether the reference time of ages has
/// moved. Without a weight of the age, this is false.
fn apply_weights(shared: &mut Shared, recovery: &Recovery, refresh: &mut Refresh) -> (Vec<Effect>, bool) {
    let (weighed_before, has_moved) = age::compute_weights(shared);
    let mut effects = Vec::from_iter(refresh.arm_refresh_timer(shared));
    effects.extend(age::ask_for_eventlogs_of_age(shared, recovery.is_replaying(), weighed_before));
    effects.extend(ask_site_nodes(shared));
    (effects, has_moved)
}

/// Returns the log line about users of a bank that share a user id.
fn shared_ids_text(SharedIds { leaves, example: (name, user, bank), counts_in }: &SharedIds) -> String {
    let suffix = match leaves - 1 {
        0 => String::new(),
        1 => "; 1 more user shares a user id".to_owned(),
        suffix => format!("; {suffix} more users share user ids"),
    };
    format!(
        "users {name} and {counts_in} have user id {user} in bank {bank}: the record of {counts_in} applies \
         to jobs of this user id, because it is the last{suffix}"
    )
}

/// Applies settings.
pub fn apply_settings(
    shared: &mut Shared,
    recovery: &mut Recovery,
    refresh: &mut Refresh,
    settings: Settings,
) -> Vec<Effect> {
    let was_live = shared.is_live();
    let before = std::mem::replace(&mut shared.settings, settings);
    let is_first = refresh.record_new_settings();
    if shared.standing.usages.configure_charges(&shared.settings.charges, shared.now) {
        // The snapshot has the changes of charge factors.
        shared.unsaved_ended.require_whole_snapshot();
        if !shared.budgets.is_empty() {
            budgets::recount_charges(shared);
        }
    }
    if is_first {
        shared.time_left.mark_timer_lost();
        // If a site document arrived while Flux loaded the plugin, the engine's request to job-list was lost.
        shared.ended.restart_query();
        shared.standing.usages.keep_all_ended_jobs(false);
    }
    if before == shared.settings && !(is_first && (was_live || !shared.budgets.is_empty())) {
        let asked =
            if is_first { [refresh.arm_refresh_timer(shared), ask_site_nodes(shared)] } else { [None, None] };
        return asked.into_iter().flatten().collect();
    }
    if !shared.settings.annotate {
        shared.annotations.clear();
    }
    shared.standing.set_mode(shared.settings.accrual);
    if before.accrual != shared.settings.accrual {
        refresh.record_site_change(shared, &SiteChange { accounting: true, ..SiteChange::default() });
    }
    let Settings { limits, exempt, .. } = &shared.settings;
    shared.book.set_configured_limits(limits.clone(), exempt.clone());
    shared.budgets.set_mode(shared.settings.budgets);
    shared.ledger.apply_scope_limits(&shared.book);
    // While Flux loads the plugin, the plugin is not in Flux's list of plugins yet, so a loop over all pending jobs
    // would ask only the other plugins. After the load, Flux asks for all priorities. After a restart, the end of the
    // replay makes Flux ask if a job is in PRIORITY.
    let is_loading = is_first && shared.ledger.job_count() == 0;
    let (mut effects, has_moved) = apply_weights(shared, recovery, refresh);
    let age_terms = |it: &Settings| (it.age_max, it.age_weight, it.size_weight, it.max_wait_behind);
    let has_new_terms = age_terms(&before) != age_terms(&shared.settings)
        || before.max_priorities != shared.settings.max_priorities;
    // In the next reactor turn, Flux asks for all priorities. This is not needed while Flux loads the plugin.
    if !is_loading && (has_moved || has_new_terms) {
        effects.push(shared.due.note_changed_priority_settings());
    }
    if before.running != shared.settings.running {
        effects.extend(recount_jobs_by_new_rules(shared));
    }
    // Jobs that fit under the new limits are released at the end of the refresh, or after Flux's loop over all pending
    // jobs, which begins in the next reactor turn. The engine must not release them now. Flux is iterating over its
    // plugins, and a callback about a job would disturb this iteration.
    if (&before.limits, &before.exempt) != (&shared.settings.limits, &shared.settings.exempt) {
        recovery.mark_limits_changed();
        if shared.is_live() || !is_loading {
            effects.push(refresh.release_after_refresh());
        }
    }
    effects.extend(ask_for_ended_jobs(shared));
    if shared.is_live() {
        effects.extend(refresh.restart_refresh(shared));
    } else if was_live {
        // All priorities are computed from the pushed fair-shares again.
        effects.push(refresh.release_after_refresh());
    }
    effects
}

/// If there are budgets or fair-share is live, asks job-list for ended jobs that the push does not include.
fn ask_for_ended_jobs(shared: &mut Shared) -> Vec<Effect> {
    if shared.budgets.is_empty() && !shared.is_live() {
        return Vec::new();
    }
    shared.ended.ask_job_list(&mut shared.standing, shared.now)
}

/// Counts jobs again whose rule for limits on running jobs has changed. Holds no job, but requests a release scan.
fn recount_jobs_by_new_rules(shared: &mut Shared) -> Vec<Effect> {
    let find_changed = |(id, job): (JobId, &Job)| {
        let rule = running_limits(shared, job.queue.as_ref());
        (job.running != rule).then_some((id, rule))
    };
    let changed_jobs: Vec<(JobId, RunningLimits)> = shared.ledger.jobs().filter_map(find_changed).collect();
    for (id, rule) in changed_jobs {
        shared.ledger.change(id, |job| job.running = rule);
    }
    shared.scan_all_held_later()
}
