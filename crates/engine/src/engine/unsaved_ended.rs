// SPDX-License-Identifier: LGPL-3.0-only
//! Stores ended jobs that the snapshot does not contain yet.

use crate::standing::{self, Ended};

/// The maximum number of stored jobs. If more jobs end before the plugin takes them, the snapshot reads all ended jobs
/// again.
const MAX_STORED: usize = 20_000;

/// The ended jobs that the snapshot does not contain yet.
#[derive(Clone, Debug, Default)]
pub struct UnsavedEndedJobs {
    ended: Vec<Ended>,
    too_many: bool,
}

impl UnsavedEndedJobs {
    /// Stores a job that ended at `end`, in seconds since the epoch.
    pub(super) fn store_ended_job(&mut self, job: standing::Job, end: f64) {
        self.too_many |= self.ended.len() >= MAX_STORED;
        if self.too_many {
            self.ended = Vec::new();
        } else {
            self.ended.push(Ended { job, end });
        }
    }

    /// Removes and returns at most `most` stored jobs. Returns `None` if more jobs ended than are stored: then the
    /// snapshot must read [`uncovered`](super::uncovered).
    pub fn take(&mut self, most: usize) -> Option<Vec<Ended>> {
        let count = self.ended.len().min(most);
        (!self.too_many).then(|| self.ended.drain(..count).collect())
    }

    /// Drops the stored jobs. Called when a new snapshot begins, because that snapshot reads all ended jobs with
    /// [`uncovered`](super::uncovered).
    pub fn clear(&mut self) {
        *self = UnsavedEndedJobs::default();
    }

    /// Returns true if at least `most` jobs are stored.
    pub(super) fn has_at_least_n_jobs(&self, most: usize) -> bool {
        self.too_many || self.ended.len() >= most
    }
}
