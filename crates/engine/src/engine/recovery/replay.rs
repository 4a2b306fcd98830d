// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that Flux shows when the plugin is loaded or the job manager restarts.
//!
//! In the callback of a replayed job, the engine only counts the job, for three reasons. Dependencies that were
//! added before the replay are only in the eventlog. Flux does not ask for the priority of a replayed job in
//! PRIORITY. A jobspec update that is posted in this callback may reach another job. When Flux has shown all jobs,
//! a timer without delay starts the reads of eventlogs and the requests for priorities. The engine releases jobs of
//! an association when it has read the eventlogs of all its jobs.

use super::unasked::is_in_reach;
use crate::accounts::AssociationId;
use crate::engine::{
    Effect, JobFacts, Level, Recovery, Shared, State, Timer,
    accrual::{self, lacks_start, log_unreadable_allocation},
    blocked,
    due::{Scan, Task},
    effect::reprioritize_all,
    hold,
    subscriptions::ForeignNames,
};
use crate::ids::JobId;
use crate::limits::{BlockState, HoldName, HoldNames, Job, Knowledge, Origin, Phase, Reservation};
use crate::priority::{AGE, URGENCY_HOLD};
use std::collections::BTreeSet;

/// Replayed jobs whose eventlogs the engine has not requested yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    /// True if the next reactor turn must finish a replay.
    pub is_due: bool,
    /// Jobs in DEPEND, PRIORITY and SCHED.
    pending: Vec<JobId>,
    /// True if a replayed job is in PRIORITY.
    has_unprioritized: bool,
}

impl Recovery {
    /// Counts a replayed job in the state in which Flux shows it. Flux has accepted the job, so it is neither
    /// rejected nor ended.
    pub fn count_replayed(&mut self, shared: &mut Shared, mut job: Job, facts: &JobFacts<'_>) -> Vec<Effect> {
        job.phase = match facts.state {
            State::New => Phase::New,
            State::Depend => Phase::Depend,
            // The scheduler has allocated resources, but Flux could not record them while the job was in PRIORITY.
            State::Priority if facts.resources.are_allocated() => Phase::Run,
            State::Priority => Phase::Priority,
            State::Sched => Phase::Sched,
            State::Run => Phase::Run,
            // The job holds its resources until INACTIVE.
            State::Cleanup if facts.resources.are_allocated() => Phase::Run,
            State::Cleanup => Phase::Cleanup,
            State::Inactive => return Vec::new(),
        };
        match job.phase {
            // The job waited for data, was held, has a score of 0, or was just released. In each case the
            // engine holds the job, and a release scan decides whether to release it.
            Phase::Priority => job.hold_past_depend(),
            Phase::Sched if facts.priority == 0 && facts.urgency != URGENCY_HOLD => job.hold_past_depend(),
            Phase::Depend | Phase::Sched => job.knowledge = Knowledge::Unread,
            _ => {}
        }
        if matches!(job.phase, Phase::Depend | Phase::Priority | Phase::Sched) {
            self.replay.pending.push(facts.id);
            // The timer is armed below, once for all replayed jobs.
            shared.due.schedule_job_task(Task::CompleteJobspec, facts.id);
        }
        self.replay.has_unprioritized |= facts.state == State::Priority;
        let mut effects = log_uncountable_job_resources(facts);
        if job.phase == Phase::Run {
            job.allocation = facts.resources.allocation().map(Box::new);
            job.elapsed_ms = job.compute_elapsed_time(shared.now);
            effects.extend(log_unreadable_allocation(facts.id, &facts.resources));
        }
        shared.ledger.insert(facts.id, job);
        // If R has no start, the eventlog has the time of the allocation.
        let lacks_start = lacks_start(shared, facts.id);
        effects.extend(if lacks_start {
            Some(Effect::ReadEventlog(facts.id))
        } else {
            accrual::record_start_of_job(shared, facts.id)
        });
        effects.extend(shared.expirations.update_job(&shared.ledger, facts.id, facts.state == State::Run));
        if !self.replay.is_due {
            self.replay.is_due = true;
            effects.push(Effect::Arm(Timer::ReactorTurn));
        }
        effects
    }

    /// Handles the replayed jobs after all their callbacks: asks for the eventlogs that affect a decision. If a job
    /// is in PRIORITY, makes Flux ask for all priorities.
    pub fn finish_replay(&mut self, shared: &mut Shared) -> Vec<Effect> {
        let Replay { is_due, pending, has_unprioritized } = std::mem::take(&mut self.replay);
        if !is_due {
            return Vec::new();
        }
        let depends =
            pending.iter().filter_map(|id| shared.ledger.job(*id).filter(|job| job.phase == Phase::Depend));
        self.undecided.extend(depends.filter_map(Job::association));
        let mut effects = self.read_eventlogs(shared, pending);
        // A replayed job that was held may fit now. While the jobs are compared with Flux after a panic, counters in
        // the ledger may be wrong, and a new job may be held by mistake.
        shared.scan_all_held_later();
        self.end_comparison_if_complete(shared);
        // Flux asks for the priority of jobs in PRIORITY at plugin load, but not after a restart.
        if has_unprioritized {
            effects.extend(reprioritize_all());
        }
        effects
    }

    /// Asks for the eventlogs of replayed jobs that affect a decision. For a job in DEPEND, the eventlog
    /// contains the outstanding dependencies. For a job in SCHED, the eventlog shows whether the job was
    /// released and has a reservation. The engine needs this if a limit on running jobs could be reached, now or
    /// [later](Recovery::request_noted_eventlogs). If ages have a weight, the eventlogs of all jobs are
    /// read for their eligible time, but no release scan waits for these eventlogs.
    pub fn read_eventlogs(&mut self, shared: &mut Shared, pending: Vec<JobId>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in pending {
            let Some(job) = shared.ledger.job(id) else { continue };
            let can_decide = match job.phase {
                Phase::Depend => true,
                Phase::Sched => {
                    job.association().is_some_and(|of| is_in_reach(shared, of, job.queue.as_ref()))
                }
                Phase::New | Phase::Priority | Phase::Run | Phase::Cleanup => false,
            };
            // At first a job in SCHED is marked as unread, so that no other job takes its reservation. The mark is
            // removed if no limit on running jobs can be reached.
            let (is_unread, counts_age) = (job.is_unread(), shared.weighed.weight(AGE) != 0);
            if let (Phase::Sched, false, Some(association)) = (job.phase, can_decide, job.association()) {
                self.unasked.entry((association, job.queue.clone())).or_default().insert(id);
            }
            if can_decide != is_unread {
                let knowledge = if can_decide { Knowledge::Unread } else { Knowledge::Known };
                shared.ledger.change(id, |job| job.knowledge = knowledge);
            }
            effects.extend((can_decide || counts_age).then_some(Effect::ReadEventlog(id)));
        }
        effects
    }

    /// Stores the dependency names of an eventlog. `history` is `None` if the eventlog cannot be read.
    pub fn store_eventlog_names(
        &mut self,
        shared: &mut Shared,
        id: JobId,
        history: Option<Vec<(String, bool)>>,
    ) -> Vec<Effect> {
        let Some(knowledge) = shared.ledger.job(id).map(|job| job.knowledge) else { return Vec::new() };
        let now = shared.now;
        let start = accrual::begin_accrual(shared, id, now);
        let Some(history) = history else {
            return start.into_iter().chain(self.handle_unreadable_eventlog(shared, id)).collect();
        };
        let rules = shared.ledger.rules();
        let mut effects = Vec::from_iter(start);
        let (our_names, foreign): (Vec<_>, Vec<_>) =
            history.into_iter().partition(|(name, _)| rules.parse(name).is_some());
        // Callbacks may have reported names after this eventlog was read. These names are stored already, and
        // may be newer.
        effects.extend(store_foreign_names(shared, id, &foreign));
        if knowledge != Knowledge::Known {
            shared.ledger.change(id, |job| {
                let our_names =
                    our_names.iter().filter_map(|(text, added)| Some((rules.parse(text)?, *added)));
                our_names.for_each(|(name, added)| job.names.replay(name, added));
            });
            effects.extend(self.mark_names_known(shared, id));
        }
        effects
    }

    /// Marks the dependencies of a job as known. If the job once had dependencies of this plugin and has none now, it
    /// was released, and its reservation is restored.
    fn mark_names_known(&mut self, shared: &mut Shared, id: JobId) -> Vec<Effect> {
        self.unreadable.remove(&id);
        let is_unwatched = shared.subscriptions.is_unwatched(id);
        shared.ledger.change(id, |job| {
            job.knowledge = Knowledge::Known;
            if is_unwatched && !job.names.outstanding().is_empty() {
                job.block_state = BlockState::Unblocked;
            }
            if job.names.was_job_ever_held() && job.names.outstanding().is_empty() {
                job.reservation = match job.phase {
                    Phase::Depend => Reservation::Blocked,
                    Phase::Sched => Reservation::Given,
                    Phase::New | Phase::Priority | Phase::Run | Phase::Cleanup => job.reservation,
                };
            }
        });
        self.end_comparison_if_complete(shared);
        let association = shared.ledger.job(id).and_then(Job::association);
        self.scan_if_all_read(shared, association)
    }

    /// Handles an eventlog that cannot be read. For a job in DEPEND, the engine asks Flux for the outstanding
    /// dependencies until Flux answers. Meanwhile the job is not released, but other jobs of its association are. A job
    /// in SCHED gets a reservation, as if it had been released.
    fn handle_unreadable_eventlog(&mut self, shared: &mut Shared, id: JobId) -> Vec<Effect> {
        let Some(job) = shared.ledger.job(id) else { return Vec::new() };
        let (knowledge, association) = (job.knowledge, job.association());
        if job.phase != Phase::Depend {
            self.unreadable.remove(&id);
            shared.ledger.change(id, |job| {
                job.knowledge = Knowledge::Known;
                if job.phase == Phase::Sched {
                    job.reservation = Reservation::Given;
                }
            });
            self.end_comparison_if_complete(shared);
            // The job may be held in PRIORITY, where its dependencies have no effect.
            let was_known = knowledge == Knowledge::Known;
            return if was_known { Vec::new() } else { self.scan_if_all_read(shared, association) };
        }
        let mut effects = Vec::new();
        if self.unreadable.insert(id) {
            let text = format!(
                "job {id}: its eventlog can't be read; the plugin retries until it has read the dependencies of the job"
            );
            effects.push(Effect::Log(Level::Error, text));
        }
        effects.push(Effect::ReadDependencies(id));
        if knowledge == Knowledge::Unread {
            shared.ledger.change(id, |job| job.knowledge = Knowledge::Unreadable);
            effects.extend(self.scan_if_all_read(shared, association));
        }
        effects
    }

    /// Stores the outstanding dependencies of a job whose eventlog cannot be read.
    pub fn store_outstanding_dependencies(
        &mut self,
        shared: &mut Shared,
        id: JobId,
        names: Option<Vec<String>>,
    ) -> Vec<Effect> {
        let Some(names) = names else { return vec![Effect::Arm(Timer::Retry)] };
        let Some(knowledge) = shared.ledger.job(id).map(|job| job.knowledge) else { return Vec::new() };
        let rules = shared.ledger.rules();
        let our_names: Vec<HoldName> = names.iter().filter_map(|name| rules.parse(name)).collect();
        let foreign = names.into_iter().filter(|name| rules.parse(name).is_none());
        let foreign: Vec<(String, bool)> = foreign.map(|name| (name, true)).collect();
        self.unreadable.remove(&id);
        let mut effects = store_foreign_names(shared, id, &foreign);
        if knowledge != Knowledge::Known {
            let names = HoldNames::from_outstanding(rules, our_names, shared.now);
            shared.ledger.change(id, |job| job.names = names);
            effects.extend(self.mark_names_known(shared, id));
        }
        effects
    }

    /// If all eventlogs of the association are read, schedules its release scan, and checks its replayed jobs against
    /// the limits. If the eventlogs of all jobs are read, also does this for the associations that waited for them.
    pub fn scan_if_all_read(
        &mut self,
        shared: &mut Shared,
        association: Option<AssociationId>,
    ) -> Vec<Effect> {
        let is_read =
            |of: &AssociationId| !shared.ledger.accounts().is_unread(*of) && !self.half_pushed.contains(of);
        if let Some(association) = association.filter(is_read) {
            shared.due.scan_after_event(association);
            if self.undecided.contains(&association) {
                shared.due.add_release_scan_after_event(Scan::HoldReplayed(association));
            }
        }
        if shared.ledger.has_unread() {
            return Vec::new();
        }
        for association in self.undecided.difference(&self.half_pushed) {
            shared.due.add_release_scan_after_event(Scan::HoldReplayed(*association));
        }
        let deferred = shared.ledger.take_associations_skipped_by_scans();
        shared.due.schedule_scans(deferred.into_iter())
    }

    /// Notes an association that no longer waits for the unread eventlog of a job, because the job has left the
    /// association or is held again.
    pub fn add_association_with_unread_eventlog(&mut self, association: AssociationId) {
        self.unread_left.insert(association);
    }

    /// Schedules release scans for the noted associations whose eventlogs are all read.
    pub fn scan_associations_with_read_eventlogs(&mut self, shared: &mut Shared) -> Vec<Effect> {
        let left = std::mem::take(&mut self.unread_left);
        left.into_iter().flat_map(|association| self.scan_if_all_read(shared, Some(association))).collect()
    }

    /// Notes that an incomplete push has assigned a replayed job to an association.
    pub fn add_association_of_incomplete_push(&mut self, association: AssociationId) {
        self.half_pushed.insert(association);
    }

    /// Returns the associations to which an incomplete push has assigned replayed jobs.
    pub fn half_pushed(&self) -> &BTreeSet<AssociationId> {
        &self.half_pushed
    }

    /// Removes and returns the associations whose data are complete according to `is_whole`. Their jobs can be released
    /// and held again.
    pub fn end_push(&mut self, is_whole: impl Fn(&AssociationId) -> bool) -> Vec<AssociationId> {
        self.half_pushed.extract_if(.., |association| is_whole(association)).collect()
    }

    /// Holds replayed jobs of the association that exceed a limit and have no dependency of this plugin. Does nothing
    /// while eventlogs of jobs under the same limits are unread. Until an eventlog is read, a job in SCHED counts as if
    /// it had a reservation.
    pub fn hold_replayed_jobs(&mut self, shared: &mut Shared, association: AssociationId) -> Vec<Effect> {
        let (ledger, accounts) = (&shared.ledger, shared.ledger.accounts());
        let free_job = |id: JobId| {
            let is_free = |job: &&Job| {
                job.origin == Origin::Replayed
                    && job.is_only_blocked_by_plugins()
                    && job.reservation == Reservation::None
            };
            Some((id, ledger.job(id).filter(is_free)?))
        };
        let free: Vec<_> = accounts.list_jobs_before_sched(association, None).filter_map(free_job).collect();
        let shares = |(_, job): &(JobId, &Job)| accounts.shares_unread_scope(association, job.queue.as_ref());
        if accounts.is_unread(association) || free.iter().any(shares) {
            self.undecided.insert(association);
            return Vec::new();
        }
        self.undecided.remove(&association);
        let free: Vec<JobId> = free.into_iter().map(|(id, _)| id).collect();
        free.into_iter().flat_map(|id| hold::hold_in_depend(shared, id)).collect()
    }
}

/// Notes the dependencies that other plugins added to job `id`. If other plugins block the job and the plugin is not
/// subscribed to the job yet, subscribes to it and reads the eventlog again.
fn store_foreign_names(shared: &mut Shared, id: JobId, foreign: &[(String, bool)]) -> Vec<Effect> {
    if let Some(others) = shared.subscriptions.names_mut(id) {
        foreign.iter().for_each(|(name, added)| others.record_dependency_of_other_plugin(name, *added));
        others.mark_dependencies_complete();
        return blocked::update_block_state(shared, id);
    }
    let mut others = ForeignNames::complete();
    foreign.iter().for_each(|(name, added)| others.record_dependency_of_other_plugin(name, *added));
    let is_here = shared.ledger.job(id).is_some_and(|job| job.phase == Phase::Depend);
    if others.may_block_job() && is_here { blocked::watch_job(shared, id) } else { Vec::new() }
}

fn log_uncountable_job_resources(facts: &JobFacts<'_>) -> Vec<Effect> {
    let Err(error) = &facts.size else { return Vec::new() };
    let text = format!("job {}: unable to count resources ({error}); counting 1 node, 1 core", facts.id);
    vec![Effect::Log(Level::Error, text)]
}
