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
    /// True if the next write of ended jobs must write the whole snapshot.
    needs_whole_snapshot: bool,
}

impl UnsavedEndedJobs {
    /// Stores a job that ended at `end`, in seconds since the epoch.
    pub(super) fn store_ended_job(&mut self, job: standing::Job, end: f64) {
        self.needs_whole_snapshot |= self.ended.len() >= MAX_STORED;
        if self.needs_whole_snapshot {
            self.ended = Vec::new();
        } else {
            self.ended.push(Ended { job, end });
        }
    }

    /// Makes the plugin write the whole snapshot when it next writes ended jobs, because other data of the snapshot changed.
    pub(super) fn require_whole_snapshot(&mut self) {
        self.needs_whole_snapshot = true;
    }

    /// Removes and returns at most `most` stored jobs. Returns `None` if the plugin must write the whole snapshot, which reads
    /// [`uncovered`](super::uncovered).
    pub fn take(&mut self, most: usize) -> Option<Vec<Ended>> {
        let count = self.ended.len().min(most);
        (!self.needs_whole_snapshot).then(|| self.ended.drain(..count).collect())
    }

    /// Drops the stored jobs. Called when a new snapshot begins, because that snapshot reads all ended jobs with
    /// [`uncovered`](super::uncovered).
    pub fn clear(&mut self) {
        *self = UnsavedEndedJobs::default();
    }

    /// Returns true if at least `most` jobs are stored, or if the plugin must write the whole snapshot.
    pub(super) fn has_at_least_n_jobs(&self, most: usize) -> bool {
        self.needs_whole_snapshot || self.ended.len() >= most
    }
}
