// SPDX-License-Identifier: LGPL-3.0-only
//! Stores work that the engine must not do at once: release scans for the end of the event, and tasks for the next
//! reactor turn.
//!
//! While Flux iterates over its jobs to reprioritize them, or over its plugins to pass a configuration to them, the
//! plugin must change no other job. While another plugin releases a job, our plugin must not end that job. While
//! Flux asks for the priority of a job, the plugin must not post that priority. So the engine stores such work here
//! by job id. The engine decides about a job only when it does the work, because an earlier decision could be stale.
//! The cost of a reactor turn depends on the number of stored jobs, not on the number of live jobs.

use super::{Effect, Timer};
use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::Candidates;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A release scan that runs at the end of the event that caused it.
#[derive(Clone, Debug)]
pub(super) enum Scan {
    /// Scans of associations, one after another. Each scan begins after the effects of the previous scan were carried
    /// out.
    Associations(Vec<(AssociationId, Candidates)>),
    /// Holds the replayed jobs of the association that exceed a limit and have no dependency of this plugin.
    HoldReplayed(AssociationId),
}

/// A task of the next reactor turn for one job. The turn skips a task that is no longer necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Ends the job, because it can never have a priority.
    End,
    /// Adds a missing bank or project to the jobspec of a job that has an association.
    CompleteJobspec,
    /// Subscribes to a job that entered DEPEND without a dependency of this plugin.
    WatchBlocked,
}

/// Work for the end of the current event or for a later reactor turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    jobs: BTreeMap<Task, BTreeSet<JobId>>,
    /// Jobs that wait for the record of the instance owner, each with the time when its wait began. A job ends if the record does not come
    /// in time.
    expected: BTreeMap<JobId, f64>,
    /// Release scans that run at the end of this event, in order.
    scans: VecDeque<Scan>,
    /// Release scans for the next reactor turn.
    later_scans: BTreeMap<AssociationId, Candidates>,
    /// True if settings that affect all priorities were replaced.
    has_new_terms: bool,
}

impl Due {
    /// Notes that an association gets a release scan at the end of this event.
    pub fn scan_after_event(&mut self, association: AssociationId) {
        self.add_release_scan_after_event(Scan::Associations(vec![(association, Candidates::All)]));
    }

    /// Notes release scans for the end of this event.
    pub fn add_release_scan_after_event(&mut self, scan: Scan) {
        self.scans.push_back(scan);
    }

    /// Removes and returns the next release scan of this event, or `None` if no scan is left.
    pub fn take_next_scan(&mut self) -> Option<Scan> {
        self.scans.pop_front()
    }

    /// Schedules a release scan of an association for the next reactor turn.
    pub fn schedule_scan(&mut self, association: AssociationId, candidates: Candidates) -> Vec<Effect> {
        let noted = self.later_scans.entry(association).or_insert(candidates);
        *noted = candidates.max(*noted);
        vec![Effect::Arm(Timer::ReactorTurn)]
    }

    /// Schedules release scans of several associations for the next reactor turn.
    pub fn schedule_scans(&mut self, associations: impl Iterator<Item = AssociationId>) -> Vec<Effect> {
        self.later_scans.extend(associations.map(|association| (association, Candidates::All)));
        Vec::from_iter((!self.later_scans.is_empty()).then_some(Effect::Arm(Timer::ReactorTurn)))
    }

    /// Takes the release scans for this reactor turn.
    pub fn take_scans_for_reactor_turn(&mut self) -> BTreeMap<AssociationId, Candidates> {
        std::mem::take(&mut self.later_scans)
    }

    /// Schedules a task for a job in the next reactor turn.
    pub fn schedule_job_task(&mut self, task: Task, id: JobId) -> Effect {
        self.jobs.entry(task).or_default().insert(id);
        Effect::Arm(Timer::ReactorTurn)
    }

    /// Takes the jobs that were noted for this reactor turn.
    pub fn take_jobs_of_task(&mut self, task: Task) -> BTreeSet<JobId> {
        self.jobs.get_mut(&task).map(std::mem::take).unwrap_or_default()
    }

    /// Notes that a job waits for the record of the instance owner from `now` on, in seconds since the epoch.
    pub fn await_owner_record(&mut self, id: JobId, now: f64) {
        self.expected.entry(id).or_insert(now);
    }

    /// Schedules [`Task::End`] for each job that has waited too long for the record of the instance owner. `is_over`
    /// decides this from the time when the job began to wait.
    pub fn end_jobs_after_long_wait(&mut self, is_over: impl Fn(f64) -> bool) {
        let over = self.expected.extract_if(.., |_, since| is_over(*since)).map(|(id, _)| id);
        self.jobs.entry(Task::End).or_default().extend(over);
    }

    /// Returns true if a job waits for the record of the instance owner.
    pub fn is_awaiting_owner_record(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Removes a job that has ended.
    pub fn remove_job(&mut self, id: JobId) {
        for jobs in self.jobs.values_mut() {
            jobs.remove(&id);
        }
        self.expected.remove(&id);
    }

    /// Notes a change of settings that affect all priorities. The next reactor turn handles the change.
    pub fn note_changed_priority_settings(&mut self) -> Effect {
        self.has_new_terms = true;
        Effect::Arm(Timer::ReactorTurn)
    }

    /// Returns true if settings that affect all priorities were replaced since the last call.
    pub fn take_priority_settings_change(&mut self) -> bool {
        std::mem::take(&mut self.has_new_terms)
    }

    /// Returns the number of jobs with a stored task, plus the number of jobs that wait for the record of the instance
    /// owner.
    #[cfg(test)]
    pub fn count_jobs(&self) -> usize {
        self.jobs.values().map(BTreeSet::len).sum::<usize>() + self.expected.len()
    }
}
