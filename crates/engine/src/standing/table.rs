// SPDX-License-Identifier: LGPL-3.0-only
//! The usages of all associations, and the jobs that count in them.

use super::agenda::Agenda;
use super::charging::ChargeFactors;
use super::export::{Ended, EvictedUsage};
use super::jobs::{InvalidJobTime, Job};
use super::usage::{Key, Tracked, UsageEntry};
use super::{Leaf, Retention};
use crate::ids::{BankName, JobId, QueueName, UserId};
use fairshare::accrual::{HalfLife, MAX_RATE, Run};
use fairshare::periods::{Resources, Weights};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// An ended job, with the values that determine its charge to a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedRun {
    /// The job with its end.
    pub ended: Ended,
    /// The charge factor of the job's queue at the start of the job.
    pub charge_factor: f64,
    /// True if the spent amounts of the push include the job. The push includes the job if the watermark of the job's
    /// association covers the end of the job, or if the push lacks the association.
    pub is_included: bool,
}

/// The position of a job in the usage table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    entry: u32,
    /// The index of the job among the running or the ended jobs of its association.
    slot: u32,
    has_ended: bool,
}

/// The usages of all associations, and the jobs that count in them.
#[derive(Clone, Debug, Default)]
pub struct UsageTable {
    entries: Vec<UsageEntry>,
    /// The indices of entries that are not in use.
    free: Vec<u32>,
    by_key: FxHashMap<Key, u32>,
    by_id: FxHashMap<JobId, Place>,
    retention: Retention,
    /// The number of ended jobs that are kept.
    ended: usize,
    keeps_all_ended: bool,
    /// True if the table keeps all ended jobs that no pushed usage includes. Budgets need these jobs, because budgets
    /// charge each job separately, up to its time limit.
    pub keeps_uncovered: bool,
    /// The usage per second of a node, a core and a GPU.
    pub(super) weights: Weights,
    pub(super) charging: ChargeFactors,
    agenda: Agenda,
}

impl UsageTable {
    pub(super) fn new(retention: Retention) -> UsageTable {
        UsageTable { retention, ..UsageTable::default() }
    }

    /// Sets whether all ended jobs are kept, whatever their number. This is on while a restart reads ended jobs.
    pub fn keep_all_ended_jobs(&mut self, on: bool) {
        self.keeps_all_ended = on;
    }

    /// Returns all ended jobs that were not evicted.
    pub fn ended_jobs(&self) -> impl Iterator<Item = EndedRun> {
        self.entries.iter().flat_map(move |entry| {
            entry.jobs().ended.iter().filter_map(move |tracked| self.build_run(entry, tracked))
        })
    }

    /// Returns an ended job that was not evicted.
    pub fn ended_job(&self, id: JobId) -> Option<EndedRun> {
        let Place { entry, slot, has_ended: true } = *self.by_id.get(&id)? else { return None };
        let entry = self.entries.get(entry as usize)?;
        self.build_run(entry, entry.jobs().ended.get(slot as usize)?)
    }

    fn build_run(&self, entry: &UsageEntry, tracked: &Tracked) -> Option<EndedRun> {
        let ended = self.build_ended_record(entry, tracked)?;
        let queue = ended.job.queue.as_deref();
        let charge_factor = self.charging.history().factor(queue, ended.job.start);
        let is_included = entry.covers(tracked) || entry.leaf.is_none();
        Some(EndedRun { ended, charge_factor, is_included })
    }

    /// Returns the record of an ended job. It has the queue if the queue has a charge factor, and the time limit if budgets need it.
    pub(super) fn build_ended_record(&self, entry: &UsageEntry, tracked: &Tracked) -> Option<Ended> {
        let (user, bank) = entry.job_key()?;
        let queue = self.charging.charged_queue(self.charging.queue(tracked.queue)).cloned();
        let (ran_on, start) = (tracked.resources(), tracked.run.start());
        let limit = if self.keeps_uncovered { tracked.run.time_limit() } else { 0.0 };
        let job = Job { id: tracked.id, user, bank: bank.clone(), queue, ran_on, start, limit };
        Some(Ended { job, end: tracked.run.end()? })
    }

    /// Returns all entries, including free ones.
    pub(super) fn entries(&self) -> &[UsageEntry] {
        &self.entries
    }

    /// Returns all entries of the usage table, and the list of entries that the next refresh updates.
    pub(super) fn entries_mut(&mut self) -> (&mut [UsageEntry], &mut Agenda) {
        (&mut self.entries, &mut self.agenda)
    }

    pub(super) fn entry_mut(&mut self, at: u32) -> Option<&mut UsageEntry> {
        self.entries.get_mut(at as usize)
    }

    /// Returns the entry of a user in a bank.
    pub(super) fn find(&self, user: UserId, bank: &BankName) -> Option<u32> {
        // The lookup needs its own copy of the bank name. The copy is cheap, because names are reference-counted.
        self.by_key.get(&Key::Jobs(user, bank.clone())).copied()
    }

    /// Returns the entry at an index, unless it is free.
    pub(super) fn entry(&self, at: u32) -> Option<&UsageEntry> {
        self.entries.get(at as usize).filter(|entry| entry.key.is_some())
    }

    /// Returns the numbers of associations, of running jobs, and of ended jobs that are kept.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.by_key.len(), self.by_id.len().saturating_sub(self.ended), self.ended)
    }

    /// Returns the entry of a leaf in the usage table. If the leaf has no entry, adds one. `name` is the name of the leaf's user.
    pub(super) fn find_or_add_entry(&mut self, leaf: &Leaf, name: &str) -> u32 {
        let bank = leaf.bank.clone();
        self.find_or_add(match leaf.user {
            Some(user) => Key::Jobs(user, bank),
            None => Key::Leaf(name.into(), bank),
        })
    }

    /// Returns the entry of an association. Adds an entry if it is new.
    fn find_or_add(&mut self, key: Key) -> u32 {
        if let Some(&known) = self.by_key.get(&key) {
            return known;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(UsageEntry::default());
            self.entries.len() as u32 - 1
        });
        if let Some(slot) = self.entries.get_mut(at as usize) {
            *slot = UsageEntry::new(key.clone());
        }
        self.by_key.insert(key, at);
        at
    }

    /// Returns the charge factors of queues.
    pub fn charging(&self) -> &ChargeFactors {
        &self.charging
    }

    /// Records that a configuration with these charge factors was read at `now`, in seconds since the epoch. Returns true if a factor
    /// changed.
    pub fn configure_charges(&mut self, factors: &BTreeMap<QueueName, f64>, now: f64) -> bool {
        let has_changed = self.charging.configure(factors, now);
        if has_changed {
            self.recompute_usage_rates();
        }
        has_changed
    }

    /// Recomputes the usage per second of each job.
    pub(super) fn recompute_usage_rates(&mut self) {
        let UsageTable { entries, weights, charging, .. } = self;
        for entry in entries {
            entry.set_usage_rates(|job| compute_job_rate(job, *weights, charging));
        }
    }

    /// Returns the usage per second of a job on these resources that starts at `start`, in seconds since the epoch.
    pub fn rate(&self, ran_on: Resources, queue: Option<&QueueName>, start: f64) -> f64 {
        self.charging.history().rate(self.weights, ran_on, queue.map(QueueName::as_str), start)
    }

    /// Returns the usage record of a job that started. Returns an error if the start is not a valid time.
    fn track(&mut self, job: &Job) -> Result<Tracked, InvalidJobTime> {
        let rate = self.rate(job.ran_on, job.queue.as_ref(), job.start).clamp(0.0, MAX_RATE);
        let run = Run::new(rate, job.start).ok_or(InvalidJobTime { id: job.id, time: job.start })?;
        let (ran_on, queue) =
            (clamp_counts(job.ran_on), self.charging.assign_queue_number(job.queue.as_ref()));
        Ok(Tracked { id: job.id, run: run.limit_run_time(job.limit), ran_on, queue, doubtful: false })
    }

    /// Removes associations that the tree lacks and that have no jobs, including those of a push that was not committed.
    pub fn remove_unused(&mut self) {
        for (at, entry) in (0..).zip(&mut self.entries) {
            if !entry.is_needed()
                && let Some(key) = entry.key.take()
            {
                self.by_key.remove(&key);
                // The next refresh reports that the fair-share is gone.
                self.agenda.store_removed_association(at, entry.fairshare.take());
                self.free.push(at);
            }
        }
    }

    /// Records that a job runs. If the job is known, updates its time limit. Returns an error if the start is
    /// not a valid time.
    pub fn track_start(&mut self, job: &Job) -> Result<(), InvalidJobTime> {
        if let Some(place) = self.by_id.get(&job.id).copied() {
            self.set_time_limit(place, job.limit);
            return Ok(());
        }
        let mut tracked = self.track(job)?;
        let at = self.find_or_add(Key::Jobs(job.user, job.bank.clone()));
        let Some(entry) = self.entries.get_mut(at as usize) else { return Ok(()) };
        tracked.doubtful = entry.may_be_evicted(job.start);
        let jobs = entry.jobs_mut();
        let slot = jobs.running.len() as u32;
        jobs.running.push(tracked);
        self.by_id.insert(job.id, Place { entry: at, slot, has_ended: false });
        self.agenda.mark_usage_changed(entry, at);
        Ok(())
    }

    /// Records that `job` ended at `end`, in seconds since the epoch. Returns an error if its start or `end` is not a valid time.
    pub fn track_end(&mut self, job: &Job, end: f64) -> Result<(), InvalidJobTime> {
        let at = match self.by_id.get(&job.id).copied() {
            Some(Place { has_ended: false, .. }) => return self.record_end_of_running_job(job.id, end),
            Some(Place { entry, slot, .. }) => {
                self.merge_repeated_job_end(entry, slot, job, end);
                entry
            }
            None => {
                let mut tracked = self.track(job)?;
                tracked.run = tracked.run.with_end(end).ok_or(InvalidJobTime { id: job.id, time: end })?;
                let entry = self.find_or_add(Key::Jobs(job.user, job.bank.clone()));
                if self.may_be_evicted(entry, end) {
                    return Ok(());
                }
                self.add_ended(entry, tracked);
                entry
            }
        };
        self.clear_usage_sum_of_ended_jobs(at);
        Ok(())
    }

    /// Records the end of a job that is known to run. Does nothing for any other id.
    pub fn record_end_of_running_job(&mut self, id: JobId, end: f64) -> Result<(), InvalidJobTime> {
        let Some(Place { entry, slot, has_ended: false }) = self.by_id.get(&id).copied() else {
            return Ok(());
        };
        let tracked = self.take_running_job(entry, slot);
        let ended = tracked.and_then(|tracked| Some(Tracked { run: tracked.run.with_end(end)?, ..tracked }));
        let Some(tracked) = ended else {
            self.by_id.remove(&id);
            return Err(InvalidJobTime { id, time: end });
        };
        if tracked.doubtful && self.may_be_evicted(entry, end) {
            self.by_id.remove(&id);
        } else {
            self.add_ended(entry, tracked);
        }
        self.clear_usage_sum_of_ended_jobs(entry);
        Ok(())
    }

    /// Makes the next refresh compute the usage of an association again, including its ended jobs.
    fn clear_usage_sum_of_ended_jobs(&mut self, at: u32) {
        if let Some(entry) = self.entries.get_mut(at as usize) {
            entry.ended_sum = None;
            self.agenda.mark_usage_changed(entry, at);
        }
    }

    /// Removes a job that is stored as running but never started, or that this Flux instance no longer has.
    pub fn remove_job_stored_as_running(&mut self, id: JobId) {
        if let Some(Place { entry: at, slot, has_ended: false }) = self.by_id.get(&id).copied() {
            self.take_running_job(at, slot);
            self.by_id.remove(&id);
            if let Some(entry) = self.entries.get_mut(at as usize) {
                self.agenda.mark_usage_changed(entry, at);
            }
        }
    }

    fn set_time_limit(&mut self, Place { entry, slot, has_ended }: Place, seconds: f64) {
        if has_ended {
            return;
        }
        let jobs = self.entry_mut(entry).map(UsageEntry::jobs_mut);
        let Some(tracked) = jobs.and_then(|jobs| jobs.running.get_mut(slot as usize)) else { return };
        let limited = tracked.run.limit_run_time(seconds);
        if limited != tracked.run {
            tracked.run = limited;
            self.clear_usage_sum_of_ended_jobs(entry);
        }
    }

    fn may_be_evicted(&self, entry: u32, end: f64) -> bool {
        self.entries.get(entry as usize).is_some_and(|entry| entry.may_be_evicted(end))
    }

    /// Removes a job from the running jobs of its association.
    fn take_running_job(&mut self, entry: u32, slot: u32) -> Option<Tracked> {
        let jobs = self.entries.get_mut(entry as usize)?.jobs_mut();
        if slot as usize >= jobs.running.len() {
            return None;
        }
        let tracked = jobs.running.swap_remove(slot as usize);
        if let Some(moved) = jobs.running.get(slot as usize)
            && let Some(place) = self.by_id.get_mut(&moved.id)
        {
            place.slot = slot;
        }
        Some(tracked)
    }

    fn add_ended(&mut self, at: u32, tracked: Tracked) {
        if let Some(entry) = self.entries.get_mut(at as usize) {
            let jobs = entry.jobs_mut();
            let slot = jobs.ended.len() as u32;
            jobs.ended.push(tracked);
            self.by_id.insert(tracked.id, Place { entry: at, slot, has_ended: true });
            self.ended += 1;
        }
    }

    /// Evicts ended jobs of an association. Does nothing if the number of all ended jobs, or the number of ended jobs
    /// of the association, is within its limit.
    pub(super) fn evict_ended(&mut self, at: u32, now: f64, half_life: HalfLife) {
        let Some(entry) = self.entries.get_mut(at as usize) else { return };
        let Retention { jobs, each } = self.retention;
        if self.keeps_all_ended || self.ended <= jobs || entry.jobs().ended.len() <= each.saturating_mul(2) {
            return;
        }
        let gone = entry.evict_ended(each, now, half_life, self.keeps_uncovered);
        self.remove_evicted_jobs(at, gone);
    }

    /// Removes evicted jobs from the index of jobs, and updates the positions of the remaining ended jobs of their association.
    fn remove_evicted_jobs(&mut self, at: u32, gone: Vec<JobId>) {
        if gone.is_empty() {
            return;
        }
        self.ended = self.ended.saturating_sub(gone.len());
        for id in gone {
            self.by_id.remove(&id);
        }
        let Some(entry) = self.entries.get(at as usize) else { return };
        for (slot, tracked) in (0..).zip(&entry.jobs().ended) {
            self.by_id.insert(tracked.id, Place { entry: at, slot, has_ended: true });
        }
    }

    /// Evicts ended jobs of the association of job `id`. If an earlier call with the same `now` evicted no job, does
    /// nothing. This saves time when many jobs end at once.
    pub fn evict_ended_jobs_of_same_association(&mut self, id: JobId, now: f64, half_life: HalfLife) {
        let Some(Place { entry, .. }) = self.by_id.get(&id).copied() else { return };
        if self.entry(entry).is_some_and(|entry| entry.jobs().unevictable_at != now) {
            self.evict_ended(entry, now, half_life);
        }
    }

    /// Merges a second report of an end. The earlier end applies, because a job does not run again. For each resource the larger
    /// number applies, because job-list does not report GPUs.
    fn merge_repeated_job_end(&mut self, entry: u32, slot: u32, job: &Job, end: f64) {
        let (weights, charging) = (self.weights, &self.charging);
        let jobs = self.entries.get_mut(entry as usize).map(UsageEntry::jobs_mut);
        let Some(tracked) = jobs.and_then(|jobs| jobs.ended.get_mut(slot as usize)) else { return };
        if let Some(ended) = tracked.run.with_end(end)
            && ended.end() < tracked.run.end()
        {
            tracked.run = ended;
        }
        // The snapshot may lack the time limit.
        if tracked.run.time_limit() == 0.0 {
            tracked.run = tracked.run.limit_run_time(job.limit);
        }
        let most = std::iter::zip(&mut tracked.ran_on, clamp_counts(job.ran_on));
        most.for_each(|(known, reported)| *known = reported.max(*known));
        tracked.run = tracked.run.with_rate(compute_job_rate(tracked, weights, charging));
    }

    /// Restores the usage of evicted jobs, and removes the jobs that this usage includes. The usage does not change
    /// if `is_replaced` is true, or if [`UsageEntry::accepts`] returns false.
    pub(super) fn restore_evicted(&mut self, evicted: EvictedUsage, is_replaced: bool) {
        let at = self.find_or_add(Key::Jobs(evicted.user, evicted.bank.clone()));
        let accepts = |entry: &&mut UsageEntry| !is_replaced && entry.accepts(&evicted);
        let gone = self.entries.get_mut(at as usize).filter(accepts).map(|entry| entry.restore(evicted));
        self.remove_evicted_jobs(at, gone.unwrap_or_default());
        self.clear_usage_sum_of_ended_jobs(at);
    }

    /// Asserts that each job is at the position that `by_id` stores.
    #[cfg(test)]
    pub(super) fn assert_job_positions(&self) {
        let mut found = 0;
        for (at, entry) in (0..).zip(&self.entries) {
            let jobs = entry.jobs();
            for (slot, tracked) in (0..).zip(&jobs.running) {
                assert_eq!(self.by_id[&tracked.id], Place { entry: at, slot, has_ended: false });
            }
            for (slot, tracked) in (0..).zip(&jobs.ended) {
                assert_eq!(self.by_id[&tracked.id], Place { entry: at, slot, has_ended: true });
            }
            found += jobs.running.len() + jobs.ended.len();
        }
        assert_eq!(found, self.by_id.len());
    }
}

/// Returns the usage per second of a job.
fn compute_job_rate(job: &Tracked, weights: Weights, charging: &ChargeFactors) -> f64 {
    let queue = charging.queue(job.queue).map(QueueName::as_str);
    charging.history().rate(weights, job.resources(), queue, job.run.start())
}

/// Converts counts to 32 bits. A larger count becomes `u32::MAX`.
fn clamp_counts(Resources { nodes, cores, gpus }: Resources) -> [u32; 3] {
    [nodes, cores, gpus].map(|many| u32::try_from(many).unwrap_or(u32::MAX))
}
