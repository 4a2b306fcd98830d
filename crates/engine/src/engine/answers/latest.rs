// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the latest time at which limits release a held job (`wanted`), for all orders and times in which other jobs
//! may start.
//!
//! More headroom does not always release a job sooner. With more headroom, a job that comes before the held job may
//! fit, and may take more headroom than was added. So the computation uses two ledgers as bounds:
//!
//! - The ledger `fullest` counts as many jobs as possible. A job that does not run yet counts as running and never
//!   ends. A held job counts in the same way as soon as it may have been released before the job `wanted`.
//! - The ledger `emptiest` counts only running jobs. If a job exceeds a limit in this ledger, the job exceeds the limit
//!   in every possible course of events.
//!
//! In both ledgers, running jobs end at their time limit.

use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use crate::limits::{
    Candidates, Demand, HoldSet, Ledger, Limits, Phase, Released, Reservation, Rule, ScanCursor,
};
use std::collections::BTreeSet;

pub(super) struct Bounds<'a> {
    book: &'a Book,
    association: AssociationId,
    /// The job whose release time is computed.
    wanted: JobId,
    fullest: Ledger,
    emptiest: Ledger,
    /// Held jobs that fit in the ledger `emptiest`, but come after the job `wanted` in the order of release.
    behind: Vec<JobId>,
    /// The time at which each job ends, and the job. The time is stored as the bits of seconds since the epoch.
    ends: BTreeSet<(u64, JobId)>,
    now: f64,
}

impl<'a> Bounds<'a> {
    /// Builds the ledgers `fullest` and `emptiest`. `excerpt` is a ledger with the jobs in `counted`, and with the held
    /// jobs that may be released before `wanted`. `counted` has the latest end of each counted job.
    pub fn new(
        book: &'a Book,
        association: AssociationId,
        wanted: JobId,
        excerpt: Ledger,
        counted: &[(JobId, Option<f64>)],
        now: f64,
    ) -> Bounds<'a> {
        let (mut fullest, mut emptiest) = (excerpt.clone(), excerpt);
        let mut ends = BTreeSet::new();
        for (id, by) in counted {
            if fullest.job(*id).is_some_and(|job| job.phase < Phase::Run) {
                count_as_running_indefinitely(&mut fullest, *id);
            }
            match by {
                Some(by) => {
                    ends.insert((by.max(now).to_bits(), *id));
                }
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
            let ended = self.take_next_ending_jobs(&mut at)?;
            for id in &ended {
                self.emptiest.remove(*id);
            }
            if ended.len() > 1 {
                // The ended jobs may end in any order. After some of them have ended, another job may fit while the job
                // `wanted` does not fit.
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

    /// Sets `at` to the time of the next end. Removes and returns the jobs that end at this time, or returns `None`
    /// if no job is left.
    fn take_next_ending_jobs(&mut self, at: &mut f64) -> Option<Vec<JobId>> {
        let (end, first) = self.ends.pop_first()?;
        let mut ended = vec![first];
        while let Some((_, id)) = self.ends.first().filter(|(next, _)| *next == end) {
            ended.push(*id);
            self.ends.pop_first();
        }
        *at = f64::from_bits(end);
        Some(ended)
    }

    /// Finds the held jobs that may have been released by now. The jobs that come before the job `wanted` count as
    /// running from now on. Returns the number of examined jobs.
    fn simulate_start_of_fitting_jobs(&mut self) -> usize {
        let mut walk = ScanCursor::new(self.association, Candidates::All);
        let order = |ledger: &Ledger, id| ledger.job(id).map(|job| (job.keepers, id));
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

    /// Counts the jobs in `behind` as running, because they may be released before the job `wanted`. If all limits that
    /// may hold `wanted` also hold a job in `behind`, this job does not count. Returns the number of examined jobs.
    fn count_overtaking_jobs(&mut self, blocking: HoldSet) -> usize {
        let Some(wanted) = self.fullest.job(self.wanted) else { return 0 };
        let (queue, size) = (wanted.queue.clone(), wanted.size);
        let of_queue = blocking.and(self.fullest.rules().select_limits(Rule::is_of_queue));
        let behind = std::mem::take(&mut self.behind);
        let visits = behind.len();
        for id in behind {
            let Some(job) = self.fullest.job(id) else { continue };
            let is_elsewhere = job.queue != queue && !of_queue.is_empty();
            if is_elsewhere || size.take_least_measures(job.size) != size {
                count_as_running_indefinitely(&mut self.fullest, id);
            } else {
                self.behind.push(id);
            }
        }
        visits
    }
}

/// Makes a job count as scheduled and running. The job never ends in the ledger.
fn count_as_running_indefinitely(ledger: &mut Ledger, id: JobId) {
    ledger.change(id, |job| {
        (job.reservation, job.demand, job.is_queue_stopped) = (Reservation::Given, Demand::ToRun, false);
    });
}
