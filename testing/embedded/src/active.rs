// SPDX-License-Identifier: LGPL-3.0-only
//! The job manager's walk over its active jobs, as a plugin can disturb it.
//!
//! Flux keeps active jobs in a hash that has one cursor for everybody: a lookup by id that finds a job moves it there,
//! so the walk goes on with that job and what follows it in the hash, and skips, or visits again, what lies between. A
//! job that is taken out of the hash ends the walk of its bucket. Here all jobs are in one bucket, the latest first,
//! which is the worst that job ids can do. Only the job of the innermost callback is not looked up.

use super::host::Host;
use super::job::State;

/// The walk under way.
pub(super) struct Walk {
    order: Vec<u64>,
    /// The next to be visited.
    cursor: usize,
    visits: usize,
}

impl Host {
    /// Begins a walk, unless one is under way: that one then ends, as it has lost its cursor.
    pub(super) fn begin_walk(&self) -> bool {
        let mut store = self.store.borrow_mut();
        if let Some(walk) = store.walk.as_mut() {
            walk.cursor = walk.order.len();
            return false;
        }
        let active = store.jobs.values().filter(|job| job.state() != State::Inactive).map(|job| job.id);
        let order = active.rev().collect();
        store.walk = Some(Walk { order, cursor: 0, visits: 0 });
        true
    }

    /// The next job; `None` at the end, or when a plugin has the walk go round and round.
    pub(super) fn next_of_walk(&self) -> Option<u64> {
        let mut store = self.store.borrow_mut();
        let walk = store.walk.as_mut()?;
        let id = walk.order.get(walk.cursor).copied()?;
        walk.cursor += 1;
        walk.visits += 1;
        if walk.visits > 4 * walk.order.len() + 16 {
            drop(store);
            self.violation("the reprioritize loop would never end".into());
            return None;
        }
        Some(id)
    }

    pub(super) fn end_walk(&self) {
        self.store.borrow_mut().walk = None;
    }

    /// A plugin names a job other than that of its callback: Flux looks it up.
    pub(super) fn looked_up(&self, id: u64, call: &str) {
        if self.current_job() != Some(id) {
            self.moved_cursor(id, call);
        }
    }

    /// A plugin names a job, and Flux looks it up, also the job of the running callback.
    pub(super) fn moved_cursor(&self, id: u64, call: &str) {
        let mut store = self.store.borrow_mut();
        let Some(walk) = store.walk.as_mut() else { return };
        if let Some(at) = walk.order.iter().position(|other| *other == id) {
            walk.cursor = at;
        }
        drop(store);
        self.violation(format!("{call} of job {id} in the reprioritize loop"));
    }

    /// A job is taken out of the hash.
    pub(super) fn left_hash(&self, id: u64) {
        let mut store = self.store.borrow_mut();
        let Some(walk) = store.walk.as_mut() else { return };
        walk.cursor = walk.order.len();
        drop(store);
        self.violation(format!("job {id} ended in the reprioritize loop"));
    }
}
