// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that start and end. Each may be told any number of times, in any order.

use std::fmt;

use super::cell::Held;
use super::{Memory, Place, Slot, Standing};
use crate::ids::{BankName, JobId, UserId};
use fairshare::accrual::{HalfLife, MAX_RATE, Run};
use fairshare::periods::Resources;

/// A job that started.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub user: UserId,
    /// The bank it is charged to.
    pub bank: BankName,
    /// What it runs on.
    pub ran_on: Resources,
    /// When it started.
    pub start: f64,
    /// Its time limit in seconds; 0 for none.
    pub limit: f64,
}

/// A job that can't be counted: its start or its end is no time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadJob {
    /// Which.
    pub id: JobId,
    /// The time.
    pub time: f64,
}

impl fmt::Display for BadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} can't be counted: {} is no time in seconds since 1970", self.id, self.time)
    }
}

impl std::error::Error for BadJob {}

impl Standing {
    /// A job runs. Of one that is known to, its time limit may be another one now.
    pub fn started(&mut self, job: &Job) -> Result<(), BadJob> {
        if let Some(place) = self.by_id.get(&job.id).copied() {
            self.limit(place, job.limit);
            return Ok(());
        }
        let mut held = self.held(job)?;
        let at = self.cell_for(job.user, &job.bank);
        let Some(cell) = self.cells.get_mut(at as usize) else { return Ok(()) };
        held.doubtful = cell.has_given_up(job.start);
        let jobs = cell.jobs.get_or_insert_default();
        let slot = Slot::Running(jobs.running.len() as u32);
        jobs.running.push(held);
        self.by_id.insert(job.id, Place { cell: at, slot });
        self.work.changed(cell, at);
        Ok(())
    }

    /// A job that started so ended then.
    pub fn ended(&mut self, job: &Job, end: f64) -> Result<(), BadJob> {
        let at = match self.by_id.get(&job.id).copied() {
            Some(Place { slot: Slot::Running(_), .. }) => return self.over(job.id, end),
            Some(Place { cell, slot: Slot::Ended(slot) }) => {
                self.ended_again(cell, slot, job, end);
                cell
            }
            None => {
                let mut held = self.held(job)?;
                held.run = held.run.ended_at(end).ok_or(BadJob { id: job.id, time: end })?;
                let cell = self.cell_for(job.user, &job.bank);
                if self.has_given_up(cell, end) {
                    return Ok(());
                }
                self.keep(cell, held);
                cell
            }
        };
        self.unsettle(at);
        Ok(())
    }

    /// Whoever is known to run under this id ended then.
    pub fn over(&mut self, id: JobId, end: f64) -> Result<(), BadJob> {
        let Some(Place { cell, slot: Slot::Running(slot) }) = self.by_id.get(&id).copied() else {
            return Ok(());
        };
        let held = self.stop(cell, slot);
        let ended = held.and_then(|held| Some(Held { run: held.run.ended_at(end)?, ..held }));
        let Some(held) = ended else {
            self.by_id.remove(&id);
            return Err(BadJob { id, time: end });
        };
        if held.doubtful && self.has_given_up(cell, end) {
            self.by_id.remove(&id);
        } else {
            self.keep(cell, held);
        }
        self.unsettle(cell);
        Ok(())
    }

    /// What runs no more in a cell has to be added up again.
    pub(super) fn unsettle(&mut self, at: u32) {
        if let Some(cell) = self.cells.get_mut(at as usize) {
            cell.unsettle();
            self.work.changed(cell, at);
        }
    }

    /// A job that was said to run and never did, or whose place is not here any more.
    pub fn never_ran(&mut self, id: JobId) {
        if let Some(Place { cell: at, slot: Slot::Running(slot) }) = self.by_id.get(&id).copied() {
            self.stop(at, slot);
            self.by_id.remove(&id);
            if let Some(cell) = self.cells.get_mut(at as usize) {
                self.work.changed(cell, at);
            }
        }
    }

    fn limit(&mut self, Place { cell, slot }: Place, seconds: f64) {
        let Slot::Running(slot) = slot else { return };
        let jobs = self.cells.get_mut(cell as usize).and_then(|cell| cell.jobs.as_mut());
        let held = jobs.and_then(|jobs| jobs.running.get_mut(slot as usize));
        if let Some(held) = held {
            let limited = held.run.limited_to(seconds);
            if limited != held.run {
                held.run = limited;
                self.unsettle(cell);
            }
        }
    }

    fn has_given_up(&self, cell: u32, end: f64) -> bool {
        self.cells.get(cell as usize).is_some_and(|cell| cell.has_given_up(end))
    }

    fn held(&self, job: &Job) -> Result<Held, BadJob> {
        let rate = self.weights().unwrap_or_default().rate(job.ran_on).clamp(0.0, MAX_RATE);
        let run = Run::new(rate, job.start).ok_or(BadJob { id: job.id, time: job.start })?;
        let ran_on = kept(job.ran_on);
        Ok(Held { id: job.id, run: run.limited_to(job.limit), ran_on, doubtful: false })
    }

    /// Takes a job from those that run.
    fn stop(&mut self, cell: u32, slot: u32) -> Option<Held> {
        let jobs = self.cells.get_mut(cell as usize)?.jobs.as_mut()?;
        if slot as usize >= jobs.running.len() {
            return None;
        }
        let held = jobs.running.swap_remove(slot as usize);
        if let Some(moved) = jobs.running.get(slot as usize)
            && let Some(place) = self.by_id.get_mut(&moved.id)
        {
            place.slot = Slot::Running(slot);
        }
        Some(held)
    }

    fn keep(&mut self, at: u32, held: Held) {
        if let Some(cell) = self.cells.get_mut(at as usize) {
            let jobs = cell.jobs.get_or_insert_default();
            let slot = Slot::Ended(jobs.ended.len() as u32);
            jobs.ended.push(held);
            self.by_id.insert(held.id, Place { cell: at, slot });
            self.ended += 1;
        }
    }

    /// Gives up what a cell remembers of ended jobs where there are too many of all, and of its own.
    pub(super) fn give_up(&mut self, at: u32, now: f64, half_life: HalfLife) {
        let Some(cell) = self.cells.get_mut(at as usize) else { return };
        let many = cell.jobs.as_ref().map_or(0, |jobs| jobs.ended.len());
        let Memory { jobs, each } = self.memory;
        if self.keep_all || self.ended <= jobs || many <= each.saturating_mul(2) {
            return;
        }
        let gone = cell.give_up(each, now, half_life);
        self.given_up(at, gone);
    }

    /// These ended jobs of a cell are gone; if there are any, the others stand elsewhere in it.
    pub(super) fn given_up(&mut self, at: u32, gone: Vec<JobId>) {
        if gone.is_empty() {
            return;
        }
        self.ended = self.ended.saturating_sub(gone.len());
        for id in gone {
            self.by_id.remove(&id);
        }
        let Some(cell) = self.cells.get(at as usize) else { return };
        for (slot, held) in (0..).zip(cell.jobs.iter().flat_map(|jobs| &jobs.ended)) {
            self.by_id.insert(held.id, Place { cell: at, slot: Slot::Ended(slot) });
        }
    }

    /// Gives up ended jobs of the association of this one; for sites without refreshes. Where none could go they are not
    /// looked through again in the same instant: all that end in one turn do so then.
    pub fn give_up_beside(&mut self, id: JobId, now: f64) {
        let half_life = self.site.as_ref().map(|site| site.scale.half_life());
        let Some((half_life, place)) = half_life.zip(self.by_id.get(&id).copied()) else { return };
        let jobs = self.cells.get(place.cell as usize).and_then(|cell| cell.jobs.as_ref());
        if jobs.is_some_and(|jobs| jobs.stuck != now) {
            self.give_up(place.cell, now, half_life);
        }
    }

    /// Of two ends the earlier stands: a job does not run again. Of what it ran on the most stands: job-list does not know GPUs.
    fn ended_again(&mut self, cell: u32, slot: u32, job: &Job, end: f64) {
        let weights = self.weights().unwrap_or_default();
        let jobs = self.cells.get_mut(cell as usize).and_then(|cell| cell.jobs.as_mut());
        let Some(held) = jobs.and_then(|jobs| jobs.ended.get_mut(slot as usize)) else { return };
        if let Some(ended) = held.run.ended_at(end)
            && ended.end() < held.run.end()
        {
            held.run = ended;
        }
        let most = std::iter::zip(&mut held.ran_on, kept(job.ran_on));
        most.for_each(|(known, told)| *known = told.max(*known));
        held.run = held.run.with_rate(weights.rate(held.resources()));
    }
}

/// What a job ran on, as it is kept.
fn kept(Resources { nodes, cores, gpus }: Resources) -> [u32; 3] {
    [nodes, cores, gpus].map(|many| u32::try_from(many).unwrap_or(u32::MAX))
}
