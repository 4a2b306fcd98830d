// SPDX-License-Identifier: LGPL-3.0-only
//! Starts and ends of jobs. Each may be recorded repeatedly, and in any order.

use std::fmt;

use super::usage::Tracked;
use super::{Place, Retention, Slot, Standing};
use crate::ids::{BankName, JobId, UserId};
use fairshare::accrual::{HalfLife, MAX_RATE, Run};
use fairshare::periods::Resources;

/// A job that started.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Unique in the Flux instance.
    pub id: JobId,
    /// The user id of the job.
    pub user: UserId,
    /// The bank it is charged to.
    pub bank: BankName,
    /// The allocated resources.
    pub ran_on: Resources,
    /// The start in seconds since the epoch.
    pub start: f64,
    /// The time limit in seconds; 0 for none.
    pub limit: f64,
}

/// A job that cannot be counted because its start or end is not a valid time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadJob {
    /// The id of the job.
    pub id: JobId,
    /// The invalid time.
    pub time: f64,
}

impl fmt::Display for BadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} is not counted: expected a time in seconds since 1970, got {}", self.id, self.time)
    }
}

impl std::error::Error for BadJob {}

impl Standing {
    /// Records that a job runs. For a known job it updates the time limit. Returns an error if the start is not a valid time.
    pub fn started(&mut self, job: &Job) -> Result<(), BadJob> {
        if let Some(place) = self.by_id.get(&job.id).copied() {
            self.set_time_limit(place, job.limit);
            return Ok(());
        }
        let mut tracked = self.track(job)?;
        let at = self.entry_for_jobs(job.user, &job.bank);
        let Some(entry) = self.entries.get_mut(at as usize) else { return Ok(()) };
        tracked.doubtful = entry.may_be_evicted(job.start);
        let jobs = entry.jobs.get_or_insert_default();
        let slot = Slot::Running(jobs.running.len() as u32);
        jobs.running.push(tracked);
        self.by_id.insert(job.id, Place { entry: at, slot });
        self.work.mark_changed(entry, at);
        Ok(())
    }

    /// Records that `job` ended at `end`, in seconds since the epoch. Returns an error if its start or `end` is not a valid time.
    pub fn ended(&mut self, job: &Job, end: f64) -> Result<(), BadJob> {
        let at = match self.by_id.get(&job.id).copied() {
            Some(Place { slot: Slot::Running(_), .. }) => return self.record_end_of_running(job.id, end),
            Some(Place { entry, slot: Slot::Ended(slot) }) => {
                self.merge_end(entry, slot, job, end);
                entry
            }
            None => {
                let mut tracked = self.track(job)?;
                tracked.run = tracked.run.ended_at(end).ok_or(BadJob { id: job.id, time: end })?;
                let entry = self.entry_for_jobs(job.user, &job.bank);
                if self.may_be_evicted(entry, end) {
                    return Ok(());
                }
                self.add_ended(entry, tracked);
                entry
            }
        };
        self.clear_sum(at);
        Ok(())
    }

    /// Records the end of a job that is known to run. Does nothing for any other id.
    pub fn record_end_of_running(&mut self, id: JobId, end: f64) -> Result<(), BadJob> {
        let Some(Place { entry, slot: Slot::Running(slot) }) = self.by_id.get(&id).copied() else {
            return Ok(());
        };
        let tracked = self.take_running(entry, slot);
        let ended = tracked.and_then(|tracked| Some(Tracked { run: tracked.run.ended_at(end)?, ..tracked }));
        let Some(tracked) = ended else {
            self.by_id.remove(&id);
            return Err(BadJob { id, time: end });
        };
        if tracked.doubtful && self.may_be_evicted(entry, end) {
            self.by_id.remove(&id);
        } else {
            self.add_ended(entry, tracked);
        }
        self.clear_sum(entry);
        Ok(())
    }

    /// Schedules an association for the next refresh, including the sum of its ended jobs.
    pub(super) fn clear_sum(&mut self, at: u32) {
        if let Some(entry) = self.entries.get_mut(at as usize) {
            entry.clear_sum();
            self.work.mark_changed(entry, at);
        }
    }

    /// Removes a running job: it never started, or this instance no longer has it.
    pub fn never_ran(&mut self, id: JobId) {
        if let Some(Place { entry: at, slot: Slot::Running(slot) }) = self.by_id.get(&id).copied() {
            self.take_running(at, slot);
            self.by_id.remove(&id);
            if let Some(entry) = self.entries.get_mut(at as usize) {
                self.work.mark_changed(entry, at);
            }
        }
    }

    fn set_time_limit(&mut self, Place { entry, slot }: Place, seconds: f64) {
        let Slot::Running(slot) = slot else { return };
        let jobs = self.entries.get_mut(entry as usize).and_then(|entry| entry.jobs.as_mut());
        let tracked = jobs.and_then(|jobs| jobs.running.get_mut(slot as usize));
        if let Some(tracked) = tracked {
            let limited = tracked.run.limited_to(seconds);
            if limited != tracked.run {
                tracked.run = limited;
                self.clear_sum(entry);
            }
        }
    }

    fn may_be_evicted(&self, entry: u32, end: f64) -> bool {
        self.entries.get(entry as usize).is_some_and(|entry| entry.may_be_evicted(end))
    }

    fn track(&self, job: &Job) -> Result<Tracked, BadJob> {
        let rate = self.weights().rate(job.ran_on).clamp(0.0, MAX_RATE);
        let run = Run::new(rate, job.start).ok_or(BadJob { id: job.id, time: job.start })?;
        let ran_on = clamp_counts(job.ran_on);
        Ok(Tracked { id: job.id, run: run.limited_to(job.limit), ran_on, doubtful: false })
    }

    /// Removes a job from the running ones of its association.
    fn take_running(&mut self, entry: u32, slot: u32) -> Option<Tracked> {
        let jobs = self.entries.get_mut(entry as usize)?.jobs.as_mut()?;
        if slot as usize >= jobs.running.len() {
            return None;
        }
        let tracked = jobs.running.swap_remove(slot as usize);
        if let Some(moved) = jobs.running.get(slot as usize)
            && let Some(place) = self.by_id.get_mut(&moved.id)
        {
            place.slot = Slot::Running(slot);
        }
        Some(tracked)
    }

    fn add_ended(&mut self, at: u32, tracked: Tracked) {
        if let Some(entry) = self.entries.get_mut(at as usize) {
            let jobs = entry.jobs.get_or_insert_default();
            let slot = Slot::Ended(jobs.ended.len() as u32);
            jobs.ended.push(tracked);
            self.by_id.insert(tracked.id, Place { entry: at, slot });
            self.ended += 1;
        }
    }

    /// Evicts ended jobs of an association, if there are too many of all associations and of this one.
    pub(super) fn evict_ended(&mut self, at: u32, now: f64, half_life: HalfLife) {
        let Some(entry) = self.entries.get_mut(at as usize) else { return };
        let many = entry.jobs.as_ref().map_or(0, |jobs| jobs.ended.len());
        let Retention { jobs, each } = self.memory;
        if self.keep_all || self.ended <= jobs || many <= each.saturating_mul(2) {
            return;
        }
        let gone = entry.evict_ended(each, now, half_life);
        self.remove_evicted(at, gone);
    }

    /// Removes evicted jobs from the index of jobs, and updates the positions of the remaining ended jobs of their association.
    pub(super) fn remove_evicted(&mut self, at: u32, gone: Vec<JobId>) {
        if gone.is_empty() {
            return;
        }
        self.ended = self.ended.saturating_sub(gone.len());
        for id in gone {
            self.by_id.remove(&id);
        }
        let Some(entry) = self.entries.get(at as usize) else { return };
        for (slot, tracked) in (0..).zip(entry.jobs.iter().flat_map(|jobs| &jobs.ended)) {
            self.by_id.insert(tracked.id, Place { entry: at, slot: Slot::Ended(slot) });
        }
    }

    /// Evicts ended jobs of the association of job `id`, for sites without refreshes. If no job could be evicted at `now`, a
    /// second call with the same `now` does nothing: many jobs may end in one turn.
    pub fn evict_ended_in_association_of(&mut self, id: JobId, now: f64) {
        let half_life = self.site.as_ref().map(|site| site.scale.half_life());
        let Some((half_life, place)) = half_life.zip(self.by_id.get(&id).copied()) else { return };
        let jobs = self.entries.get(place.entry as usize).and_then(|entry| entry.jobs.as_ref());
        if jobs.is_some_and(|jobs| jobs.unevictable_at != now) {
            self.evict_ended(place.entry, now, half_life);
        }
    }

    /// Merges a second report of an end. The earlier end counts, because a job does not run again. Of each resource the larger
    /// count counts, because job-list does not report GPUs.
    fn merge_end(&mut self, entry: u32, slot: u32, job: &Job, end: f64) {
        let weights = self.weights();
        let jobs = self.entries.get_mut(entry as usize).and_then(|entry| entry.jobs.as_mut());
        let Some(tracked) = jobs.and_then(|jobs| jobs.ended.get_mut(slot as usize)) else { return };
        if let Some(ended) = tracked.run.ended_at(end)
            && ended.end() < tracked.run.end()
        {
            tracked.run = ended;
        }
        let most = std::iter::zip(&mut tracked.ran_on, clamp_counts(job.ran_on));
        most.for_each(|(known, reported)| *known = reported.max(*known));
        tracked.run = tracked.run.with_rate(weights.rate(tracked.resources()));
    }
}

/// Converts counts to 32 bits. A larger count becomes `u32::MAX`.
fn clamp_counts(Resources { nodes, cores, gpus }: Resources) -> [u32; 3] {
    [nodes, cores, gpus].map(|many| u32::try_from(many).unwrap_or(u32::MAX))
}
