// SPDX-License-Identifier: LGPL-3.0-only
//! The job manager's loop over its active jobs, and the calls of a plugin that disturb the loop.
//!
//! Flux stores active jobs in a hash with a single cursor. A lookup by id that finds a job moves the cursor there, so
//! the loop continues with that job and its successors in the hash: jobs in between are skipped or visited again.
//! Removing a job from the hash ends the loop over its bucket. In this host all jobs are in one bucket, the latest
//! first, which is the worst case. Flux does not look up the job of the innermost callback.

use super::host::Host;
use super::job::State;

/// A running loop over the active jobs.
pub(super) struct ActiveJobLoop {
    order: Vec<u64>,
    /// The index of the next job in `order`.
    cursor: usize,
    visits: usize,
}

impl Host {
    /// Begins a reprioritize loop over all active jobs, and returns true. If a reprioritize loop is already running, ends the running loop
    /// instead, and returns false.
    pub(super) fn begin_loop(&self) -> bool {
        let mut store = self.store.borrow_mut();
        if let Some(active_loop) = store.active_loop.as_mut() {
            active_loop.cursor = active_loop.order.len();
            return false;
        }
        let active = store.jobs.values().filter(|job| job.state() != State::Inactive).map(|job| job.id);
        let order = active.rev().collect();
        store.active_loop = Some(ActiveJobLoop { order, cursor: 0, visits: 0 });
        true
    }

    /// Returns the next job, or `None` at the end of the loop. If a plugin makes the loop endless, returns `None` after a limited number of visits.
    pub(super) fn find_next_job_of_active_loop(&self) -> Option<u64> {
        let mut store = self.store.borrow_mut();
        let active_loop = store.active_loop.as_mut()?;
        let id = active_loop.order.get(active_loop.cursor).copied()?;
        active_loop.cursor += 1;
        active_loop.visits += 1;
        if active_loop.visits > 4 * active_loop.order.len() + 16 {
            drop(store);
            self.report_violation("the reprioritize loop would never end".into());
            return None;
        }
        Some(id)
    }

    pub(super) fn end_active_job_loop(&self) {
        self.store.borrow_mut().active_loop = None;
    }

    /// Handles a call in which a plugin names job `id`. Flux looks this job up, unless the running callback is about this job.
    pub(super) fn on_lookup(&self, id: u64, call: &str) {
        if self.current_job() != Some(id) {
            self.move_cursor(id, call);
        }
    }

    /// Moves the cursor to a job that a plugin named, including the job of the callback.
    pub(super) fn move_cursor(&self, id: u64, call: &str) {
        let mut store = self.store.borrow_mut();
        let Some(active_loop) = store.active_loop.as_mut() else { return };
        if let Some(at) = active_loop.order.iter().position(|other| *other == id) {
            active_loop.cursor = at;
        }
        drop(store);
        self.report_violation(format!("{call} of job {id} in the reprioritize loop"));
    }

    /// Ends the running reprioritize loop and reports a violation, because job `id` has ended during the loop.
    pub(super) fn on_hash_removal(&self, id: u64) {
        let mut store = self.store.borrow_mut();
        let Some(active_loop) = store.active_loop.as_mut() else { return };
        active_loop.cursor = active_loop.order.len();
        drop(store);
        self.report_violation(format!("job {id} ended in the reprioritize loop"));
    }
}
