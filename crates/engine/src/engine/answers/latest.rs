// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the latest time at which a held job, called `wanted`, is released. The time is valid for every order in
//! which other jobs may start.
//!
//! More headroom does not always release a job sooner: another held job may fit first, and take more headroom than was
//! added. So the computation uses two copies of the engine's [`Ledger`], which counts jobs under limits:
//!
//! - `fullest` counts as many jobs as possible. A released job that has not started counts as running, and never ends.
//!   The same applies to a held job as soon as it may be released before `wanted`.
//! - `emptiest` counts only running jobs with a known latest end, because other jobs may end at any time. If a job
//!   exceeds a limit here, the job exceeds this limit whatever other jobs do.
//!
//! In both ledgers, running jobs end at their time limit.

use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use crate::limits::{
    Candidates, Demand, HoldSet, Ledger, Limits, Phase, Released, Reservation, Rule, ScanCursor,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Bounds<'a> {
    book: &'a Book,
    association: AssociationId,
    /// The job whose release time is computed.
    wanted: JobId,
    fullest: Ledger,
    emptiest: Ledger,
    /// Held jobs that come after `wanted` in the order of release, but may fit before `wanted` does.
    behind: Vec<JobId>,
    /// The jobs by the time of their end, in seconds since the epoch. A time is stored as the bits of an `f64`, so that
    /// times can be sorted.
    ends: BTreeMap<u64, Vec<JobId>>,
    now: f64,
}

impl<'a> Bounds<'a> {
    /// Builds both ledgers from `excerpt`. This ledger contains the counted jobs, and the held jobs that may be
    /// released before `wanted`. `counted` lists the counted jobs with the latest time of their end.
    pub fn new(
        book: &'a Book,
        association: AssociationId,
        wanted: JobId,
        excerpt: Ledger,
        counted: &[(JobId, Option<f64>)],
        now: f64,
    ) -> Bounds<'a> {
        let (mut fullest, mut emptiest) = (excerpt.clone(), excerpt);
        let mut ends: BTreeMap<u64, Vec<JobId>> = BTreeMap::new();
        for (id, by) in counted {
            if fullest.job(*id).is_some_and(|job| job.phase < Phase::Run) {
                count_as_running_indefinitely(&mut fullest, *id);
            }
            match by {
                Some(by) => ends.entry(by.max(now).to_bits()).or_default().push(*id),
                // A running job without a time limit may end at any time.
                None => {
                    emptiest.remove(*id);
                }
            }
        }
        Bounds { book, association, wanted, fullest, emptiest, behind: Vec::new(), ends, now }
    }

    /// Returns the latest time at which limits release the job, in seconds since the epoch, or `None` if the time is
    /// unknown. `visits` limits the work: each examined held job subtracts 1. If `visits` reaches 0, the time is
    /// unknown.
    pub fn latest_release(mut self, visits: &mut usize) -> Option<f64> {
        let mut at = self.now;
        loop {
            *visits = visits.saturating_sub(self.simulate_start_of_fitting_jobs());
            let blocking = Limits::new(&self.fullest, self.book).exceeded_by(self.wanted);
            if blocking.is_empty() {
                return Some(at);
            }
            *visits = visits.saturating_sub(self.count_overtaking_jobs(blocking));
            let (end, ended) = self.ends.pop_first()?;
            at = f64::from_bits(end);
            for id in &ended {
                self.emptiest.remove(*id);
            }
            if ended.len() > 1 {
                // Jobs with the same end time may end in any order. After some of them have ended, another job may fit
                // before `wanted` does.
                *visits = visits.saturating_sub(self.simulate_start_of_fitting_jobs());
                *visits = visits.saturating_sub(self.count_overtaking_jobs(blocking));
            }
            if *visits == 0 {
                return None;
            }
            for id in ended {
                self.fullest.remove(id);
            }
        }
    }

    /// Finds the held jobs that may fit now. A job that comes before `wanted` then counts as running in `fullest`. A
    /// job that comes after `wanted` is added to `behind`. Returns the number of examined jobs.
    fn simulate_start_of_fitting_jobs(&mut self) -> usize {
        let mut walk = ScanCursor::new(self.association, Candidates::All);
        let order = |ledger: &Ledger, id| ledger.job(id).map(|job| (job.block_state, id));
        let wanted = order(&self.fullest, self.wanted);
        while let Some(Released { id, is_free, .. }) =
            walk.release_next(&mut self.emptiest, self.book, &BTreeSet::new())
        {
            if !is_free {
                continue;
            }
            // The job is removed again, so that it does not affect the test of the next job.
            self.emptiest.remove(id);
            if order(&self.fullest, id) < wanted {
                count_as_running_indefinitely(&mut self.fullest, id);
            } else if id != self.wanted {
                self.behind.push(id);
            }
        }
        walk.comparisons()
    }

    /// Counts jobs in `behind` as running if they may fit while `wanted` does not. `blocking` has the limits that hold
    /// `wanted`. Returns the number of examined jobs.
    fn count_overtaking_jobs(&mut self, blocking: HoldSet) -> usize {
        let Some(wanted) = self.fullest.job(self.wanted) else { return 0 };
        let (queue, size) = (wanted.queue.clone(), wanted.size);
        let of_queue = blocking.and(self.fullest.rules().select_limits(Rule::is_of_queue));
        let behind = std::mem::take(&mut self.behind);
        let visits = behind.len();
        for id in behind {
            let Some(job) = self.fullest.job(id) else { continue };
            // The limits of the association do not hold a job in an exempt queue.
            let is_exempt = !self.book.site_limits().counts_in(None, None, job.queue.as_deref());
            let is_elsewhere = job.queue != queue && (is_exempt || !of_queue.is_empty());
            if is_elsewhere || size.take_least_measures(job.size) != size {
                count_as_running_indefinitely(&mut self.fullest, id);
            } else {
                self.behind.push(id);
            }
        }
        visits
    }
}

/// Counts a job as running in `ledger` from now on, without an end.
fn count_as_running_indefinitely(ledger: &mut Ledger, id: JobId) {
    ledger.change(id, |job| {
        (job.reservation, job.demand, job.is_queue_stopped) = (Reservation::Given, Demand::ToRun, false);
    });
}
