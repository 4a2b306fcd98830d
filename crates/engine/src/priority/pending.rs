// SPDX-License-Identifier: LGPL-3.0-only
//! All jobs that have a price, by queue, with both prices and what else is known of each.
//!
//! A price is asked for and changed far more often than jobs come and go, so all of a job is found by one look for its place.

use crate::ids::{JobId, JobMap, QueueName};
use std::collections::{BTreeMap, BTreeSet};

/// A pending job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priced {
    /// Which.
    pub id: JobId,
    /// What the scheduler sorts it by.
    pub posted: u32,
    /// What it should.
    pub exact: u32,
    /// The posted one was made of other weights, or the like, than are in force: it says nothing of where the job would stand among
    /// exact prices.
    pub is_outdated: bool,
}

impl Priced {
    /// Whether it should be sorted by another price.
    pub fn lags(&self) -> bool {
        self.posted != self.exact
    }
}

/// Jobs of a queue: `notes` is parallel to `jobs`, apart from it since a plan looks at prices alone.
#[derive(Clone, Debug)]
struct Queue<T> {
    name: Option<QueueName>,
    jobs: Vec<Priced>,
    notes: Vec<T>,
}

/// Where a job is: its queue, and which of the queue's jobs it is.
#[derive(Clone, Copy, Debug)]
struct Place {
    queue: u32,
    slot: u32,
}

/// All pending jobs by queue, each with a `T`.
#[derive(Clone, Debug)]
pub struct Pending<T> {
    queues: Vec<Queue<T>>,
    by_name: BTreeMap<Option<QueueName>, u32>,
    places: JobMap<Place>,
    lagging: BTreeSet<JobId>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Pending {
            queues: Vec::new(),
            by_name: BTreeMap::new(),
            places: JobMap::default(),
            lagging: BTreeSet::new(),
        }
    }
}

impl<T> Pending<T> {
    /// A job that has come, or one whose queue or prices are others now; gives what was noted of it before.
    pub fn put(&mut self, queue: Option<&QueueName>, job: Priced, note: T) -> Option<T> {
        let place = self.places.get(job.id).copied();
        if let Some(place) = place
            && let Some(known) = self.queues.get_mut(place.queue as usize)
            && known.name.as_ref() == queue
            && let (Some(at), Some(noted)) =
                (known.jobs.get_mut(place.slot as usize), known.notes.get_mut(place.slot as usize))
        {
            let before = std::mem::replace(at, job);
            let noted = std::mem::replace(noted, note);
            self.lag(before.lags(), job);
            return Some(noted);
        }
        let noted = place.and_then(|_| self.remove(job.id));
        let at = self.queue(queue);
        if let Some(queue) = self.queues.get_mut(at as usize) {
            self.places.insert(job.id, Place { queue: at, slot: queue.jobs.len() as u32 });
            queue.jobs.push(job);
            queue.notes.push(note);
            self.lag(false, job);
        }
        noted
    }

    /// Puts each job into the queue that `queue` names for it.
    pub fn regroup(&mut self, queue: impl Fn(JobId) -> Option<QueueName>) {
        let before = std::mem::take(self);
        for Queue { jobs, notes, .. } in before.queues {
            for (job, note) in jobs.into_iter().zip(notes) {
                self.put(queue(job.id).as_ref(), job, note);
            }
        }
    }

    /// A queue's number; it gets one if it has none.
    fn queue(&mut self, name: Option<&QueueName>) -> u32 {
        let name = name.cloned();
        if let Some(at) = self.by_name.get(&name) {
            return *at;
        }
        let at = self.queues.len() as u32;
        self.queues.push(Queue { name: name.clone(), jobs: Vec::new(), notes: Vec::new() });
        self.by_name.insert(name, at);
        at
    }

    /// A job that pends no more; gives what was noted of it.
    pub fn remove(&mut self, id: JobId) -> Option<T> {
        let place = self.places.remove(id)?;
        self.lagging.remove(&id);
        let queue = self.queues.get_mut(place.queue as usize)?;
        let (last, mut note) = (queue.jobs.pop()?, queue.notes.pop()?);
        // The last of the queue comes in its place, if it is not the last itself.
        let slot = place.slot as usize;
        if let (Some(job), Some(noted)) = (queue.jobs.get_mut(slot), queue.notes.get_mut(slot)) {
            *job = last;
            std::mem::swap(noted, &mut note);
            if let Some(moved) = self.places.get_mut(last.id) {
                moved.slot = place.slot;
            }
        }
        Some(note)
    }

    /// The exact price of a job is this now.
    pub fn set_exact(&mut self, id: JobId, exact: u32) {
        self.change(id, |job, _| {
            job.exact = exact;
            job.is_outdated &= job.lags();
        });
    }

    /// A price was posted for a job, of which this is noted. Gives the job and the note as they were before.
    pub fn set_posted(&mut self, id: JobId, posted: u32, note: T) -> Option<(Priced, T)> {
        self.change(id, |job, noted| {
            let before = *job;
            (job.posted, job.is_outdated) = (posted, false);
            (before, std::mem::replace(noted, note))
        })
    }

    /// What was posted was not: the job's posted price is the one of before.
    pub fn take_back(&mut self, before: Priced, note: T) {
        self.change(before.id, |job, noted| {
            (job.posted, job.is_outdated) = (before.posted, before.is_outdated);
            *noted = note;
        });
    }

    /// What all prices are made of is another: those that were posted before don't compare with those that are now.
    pub fn outdate(&mut self) {
        let all = self.queues.iter_mut().flat_map(|queue| &mut queue.jobs);
        all.for_each(|job| job.is_outdated = true);
    }

    /// A job with both prices, and what is noted of it.
    pub fn get(&self, id: JobId) -> Option<(Priced, &T)> {
        let place = self.places.get(id)?;
        let queue = self.queues.get(place.queue as usize)?;
        Some((*queue.jobs.get(place.slot as usize)?, queue.notes.get(place.slot as usize)?))
    }

    /// Jobs by id, from the one that comes after `after`.
    pub fn ids_after(&self, after: Option<JobId>) -> impl Iterator<Item = JobId> {
        self.places.ids_after(after)
    }

    /// How many jobs pend.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many have another posted price than the exact one.
    pub fn lagging(&self) -> usize {
        self.lagging.len()
    }

    /// These.
    pub(super) fn laggards(&self) -> impl Iterator<Item = Priced> {
        self.lagging.iter().filter_map(|id| self.get(*id)).map(|(job, _)| job)
    }

    /// Whether a job among the first `depth` of its queue, by either price, has others before it by one price than by the other.
    pub fn is_misplaced(&self, id: JobId, depth: usize) -> bool {
        let queue = self.places.get(id).and_then(|place| self.queues.get(place.queue as usize));
        let Some((queue, (job, _))) = queue.zip(self.get(id)).filter(|_| self.lagging() > 0) else {
            return false;
        };
        let (mut by_posted, mut by_exact, mut differs) = (0, 0, false);
        for other in &queue.jobs {
            let [posted, exact] =
                [other.by_posted().is_before(job.by_posted()), other.by_exact().is_before(job.by_exact())];
            by_posted += usize::from(posted);
            by_exact += usize::from(exact);
            differs |= posted != exact;
        }
        differs && by_posted.min(by_exact) < depth
    }

    /// The jobs of each queue.
    pub(super) fn queues(&self) -> impl Iterator<Item = &[Priced]> {
        self.queues.iter().map(|queue| queue.jobs.as_slice())
    }

    fn change<R>(&mut self, id: JobId, change: impl FnOnce(&mut Priced, &mut T) -> R) -> Option<R> {
        let place = self.places.get(id)?;
        let queue = self.queues.get_mut(place.queue as usize)?;
        let slot = place.slot as usize;
        let (job, note) = (queue.jobs.get_mut(slot)?, queue.notes.get_mut(slot)?);
        let lagged = job.lags();
        let result = change(job, note);
        let job = *job;
        self.lag(lagged, job);
        Some(result)
    }

    /// Prices of a job were replaced; of the former ones it is known whether they differed.
    fn lag(&mut self, lagged: bool, job: Priced) {
        match (lagged, job.lags()) {
            (false, true) => {
                self.lagging.insert(job.id);
            }
            (true, false) => {
                self.lagging.remove(&job.id);
            }
            _ => {}
        }
    }
}
