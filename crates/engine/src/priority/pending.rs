// SPDX-License-Identifier: LGPL-3.0-only
//! All pending jobs by queue, each with its posted and its current priority.
//!
//! The engine reads and changes priorities far more often than it adds and removes jobs. All values of a job are
//! therefore stored together, at one position.

use crate::ids::{JobId, JobMap, QueueName};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A pending job with its posted and its current priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingJob {
    /// The id of the job.
    pub id: JobId,
    /// The posted priority, by which the scheduler sorts the job.
    pub posted: u32,
    /// The current priority.
    pub current: u32,
    /// True if the posted priority was computed with other weights, or with another reference time for ages. The
    /// posted priority then cannot be compared with current priorities.
    pub is_incomparable: bool,
}

impl PendingJob {
    /// Returns true if the posted priority is stale.
    pub fn is_stale(&self) -> bool {
        self.posted != self.current
    }
}

/// The jobs of a queue. `notes[n]` belongs to `jobs[n]`. Code that reads only the priorities does not load the notes.
#[derive(Clone, Debug)]
struct Queue<T> {
    name: Option<QueueName>,
    jobs: Vec<PendingJob>,
    notes: Vec<T>,
}

/// The position of a job: its queue, and its index among the jobs of the queue.
#[derive(Clone, Copy, Debug)]
struct Position {
    queue: u32,
    slot: u32,
}

/// All pending jobs by queue, each with a note of type `T`.
#[derive(Clone, Debug)]
pub struct Pending<T> {
    queues: Vec<Queue<T>>,
    by_name: BTreeMap<Option<QueueName>, u32>,
    positions: JobMap<Position>,
    stale: BTreeSet<JobId>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        let (queues, by_name, positions, stale) = Default::default();
        Pending { queues, by_name, positions, stale }
    }
}

impl<T> Pending<T> {
    /// Adds a job, or replaces the data of the job. `note` is any value that the caller stores with the job. Returns
    /// the previous note, or `None` for a new job.
    pub fn put(&mut self, queue: Option<&QueueName>, job: PendingJob, note: T) -> Option<T> {
        let place = self.positions.get(job.id).copied();
        if let Some(place) = place
            && let Some(known) = self.queues.get_mut(place.queue as usize)
            && known.name.as_ref() == queue
            && let (Some(at), Some(noted)) =
                (known.jobs.get_mut(place.slot as usize), known.notes.get_mut(place.slot as usize))
        {
            let before = std::mem::replace(at, job);
            let noted = std::mem::replace(noted, note);
            self.update_stale_jobs(before.is_stale(), job);
            return Some(noted);
        }
        let noted = place.and_then(|_| self.remove(job.id));
        let at = self.find_or_add_queue(queue);
        if let Some(queue) = self.queues.get_mut(at as usize) {
            self.positions.insert(job.id, Position { queue: at, slot: queue.jobs.len() as u32 });
            queue.jobs.push(job);
            queue.notes.push(note);
            self.update_stale_jobs(false, job);
        }
        noted
    }

    /// Moves each job to the queue that `queue_of` returns for its id.
    pub fn reassign_queues(&mut self, queue_of: impl Fn(JobId) -> Option<QueueName>) {
        let before = std::mem::take(self);
        for Queue { jobs, notes, .. } in before.queues {
            for (job, note) in jobs.into_iter().zip(notes) {
                self.put(queue_of(job.id).as_ref(), job, note);
            }
        }
    }

    /// Returns the index of queue `name`, and adds the queue if it is new.
    fn find_or_add_queue(&mut self, name: Option<&QueueName>) -> u32 {
        let name = name.cloned();
        if let Some(at) = self.by_name.get(&name) {
            return *at;
        }
        let at = self.queues.len() as u32;
        self.queues.push(Queue { name: name.clone(), jobs: Vec::new(), notes: Vec::new() });
        self.by_name.insert(name, at);
        at
    }

    /// Removes job `id`. Returns the note that the caller stored with the job, or `None` if the job is not pending.
    pub fn remove(&mut self, id: JobId) -> Option<T> {
        let place = self.positions.remove(id)?;
        self.stale.remove(&id);
        let queue = self.queues.get_mut(place.queue as usize)?;
        let (last, mut note) = (queue.jobs.pop()?, queue.notes.pop()?);
        // The last job of the queue moves to the slot of the removed job.
        let slot = place.slot as usize;
        if let (Some(job), Some(noted)) = (queue.jobs.get_mut(slot), queue.notes.get_mut(slot)) {
            *job = last;
            std::mem::swap(noted, &mut note);
            if let Some(moved) = self.positions.get_mut(last.id) {
                moved.slot = place.slot;
            }
        }
        Some(note)
    }

    /// Sets the current priority of a job. Returns true if the priority has changed.
    pub fn set_current_priority(&mut self, id: JobId, current: u32) -> bool {
        let before = self.change_job(id, |job, _| {
            let before = std::mem::replace(&mut job.current, current);
            job.is_incomparable &= job.is_stale();
            before
        });
        before.is_some_and(|before| before != current)
    }

    /// Sets the posted priority of job `id` and its note. Returns the previous job and note, or `None` if the job is not pending.
    pub fn set_posted_priority(&mut self, id: JobId, posted: u32, note: T) -> Option<(PendingJob, T)> {
        self.change_job(id, |job, noted| {
            let before = *job;
            (job.posted, job.is_incomparable) = (posted, false);
            (before, std::mem::replace(noted, note))
        })
    }

    /// Restores the posted priority and the note of a job, because Flux refused the new priority.
    pub fn restore_posted_priority(&mut self, before: PendingJob, note: T) {
        self.change_job(before.id, |job, noted| {
            (job.posted, job.is_incomparable) = (before.posted, before.is_incomparable);
            *noted = note;
        });
    }

    /// Records that the weights or the reference time for ages changed. Posted priorities can then not be compared
    /// with current priorities.
    pub fn mark_priorities_incomparable(&mut self) {
        let all = self.queues.iter_mut().flat_map(|queue| &mut queue.jobs);
        all.for_each(|job| job.is_incomparable = true);
    }

    /// Returns job `id` with its posted and current priority, and its note. Returns `None` if the job is not pending.
    pub fn get(&self, id: JobId) -> Option<(PendingJob, &T)> {
        let place = self.positions.get(id)?;
        let queue = self.queues.get(place.queue as usize)?;
        Some((*queue.jobs.get(place.slot as usize)?, queue.notes.get(place.slot as usize)?))
    }

    /// Returns the position that a new job of `priority` in `queue` would have, and the number of jobs with a
    /// position. The new job would come behind all jobs of equal priority.
    pub fn predict_position_of_new_job(&self, queue: Option<&QueueName>, priority: u32) -> (usize, usize) {
        let queue = self.by_name.get(&queue.cloned()).and_then(|at| self.queues.get(*at as usize));
        let posted = || queue.into_iter().flat_map(|queue| &queue.jobs).map(|job| job.posted);
        (
            1 + posted().filter(|other| *other >= priority).count(),
            1 + posted().filter(|other| *other > 0).count(),
        )
    }

    /// Returns the ids of the pending jobs. If `after` is given, returns only ids above `after`.
    pub fn ids_after(&self, after: Option<JobId>) -> impl Iterator<Item = JobId> {
        self.positions.ids_after(after)
    }

    /// Returns the number of pending jobs.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns true if no job is pending.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Returns the number of stale priorities.
    pub fn stale_count(&self) -> usize {
        self.stale.len()
    }

    /// Returns the jobs with stale priorities.
    pub(super) fn stale_jobs(&self) -> impl Iterator<Item = PendingJob> {
        self.stale.iter().filter_map(|id| self.get(*id)).map(|(job, _)| job)
    }

    /// Returns true if some job comes before job `id` by posted priority but behind it by current priority, or the
    /// reverse. Returns false if the job is not among the first `depth` jobs of its queue by either priority.
    pub fn is_misplaced(&self, id: JobId, depth: usize) -> bool {
        let queue = self.positions.get(id).and_then(|place| self.queues.get(place.queue as usize));
        let Some((queue, (job, _))) = queue.zip(self.get(id)).filter(|_| self.stale_count() > 0) else {
            return false;
        };
        let (mut by_posted, mut by_current, mut differs) = (0, 0, false);
        for other in &queue.jobs {
            let posted = other.posted_key().is_before(job.posted_key());
            let current = other.current_key().is_before(job.current_key());
            by_posted += usize::from(posted);
            by_current += usize::from(current);
            differs |= posted != current;
        }
        differs && by_posted.min(by_current) < depth
    }

    /// Returns the position of each pending job of `ids` in its queue by posted priority, and the number of jobs with
    /// a position. A job with the posted priority 0 has no position, because Flux does not send it to the scheduler.
    /// Reads each queue once.
    pub fn places(&self, ids: impl IntoIterator<Item = JobId>) -> HashMap<JobId, (usize, usize)> {
        let mut by_queue: BTreeMap<u32, Vec<PendingJob>> = BTreeMap::new();
        for id in ids {
            if let (Some(place), Some((job, _))) = (self.positions.get(id), self.get(id))
                && job.posted > 0
            {
                by_queue.entry(place.queue).or_default().push(job);
            }
        }
        let mut places = HashMap::new();
        for (queue, mut jobs) in by_queue {
            jobs.sort_unstable_by_key(PendingJob::posted_key);
            // Entry `n` is the number of all jobs of the queue from `jobs[n - 1]` to the job before `jobs[n]`, by
            // posted priority.
            let mut counts = vec![0; jobs.len() + 1];
            let all = self.queues.get(queue as usize).map_or(&[][..], |queue| &queue.jobs);
            for other in all.iter().filter(|other| other.posted > 0).map(PendingJob::posted_key) {
                let at = jobs.partition_point(|job| !other.is_before(job.posted_key()));
                counts.get_mut(at).into_iter().for_each(|count| *count += 1);
            }
            let total = counts.iter().sum();
            let mut before = 0;
            for (job, count) in jobs.iter().zip(counts) {
                before += count;
                places.insert(job.id, (before + 1, total));
            }
        }
        places
    }

    /// Returns the jobs of each queue.
    pub(super) fn queues(&self) -> impl Iterator<Item = &[PendingJob]> {
        self.queues.iter().map(|queue| queue.jobs.as_slice())
    }

    fn change_job<R>(&mut self, id: JobId, change: impl FnOnce(&mut PendingJob, &mut T) -> R) -> Option<R> {
        let place = self.positions.get(id)?;
        let queue = self.queues.get_mut(place.queue as usize)?;
        let slot = place.slot as usize;
        let (job, note) = (queue.jobs.get_mut(slot)?, queue.notes.get_mut(slot)?);
        let was_stale = job.is_stale();
        let result = change(job, note);
        let job = *job;
        self.update_stale_jobs(was_stale, job);
        Some(result)
    }

    /// Updates the set of stale jobs after a change of priorities. `was_stale` is true if the job was stale before.
    fn update_stale_jobs(&mut self, was_stale: bool, job: PendingJob) {
        match (was_stale, job.is_stale()) {
            (false, true) => {
                self.stale.insert(job.id);
            }
            (true, false) => {
                self.stale.remove(&job.id);
            }
            _ => {}
        }
    }
}
