// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that ended since the snapshot took them last.

use crate::standing::{self, Ended};

/// The largest number of stored jobs. If more end between two snapshots, the snapshot reads all ended jobs again.
const MOST_NEWS: usize = 20_000;

/// Jobs that ended since the snapshot took them last.
#[derive(Clone, Debug, Default)]
pub struct News {
    ended: Vec<Ended>,
    too_many: bool,
}

impl News {
    /// Stores a job that ended at `end`, in seconds since the epoch.
    pub(super) fn note(&mut self, job: standing::Job, end: f64) {
        self.too_many |= self.ended.len() >= MOST_NEWS;
        if self.too_many {
            self.ended = Vec::new();
        } else {
            self.ended.push(Ended { job, end });
        }
    }

    /// Takes at most `most` of the jobs that ended since the last call. Returns `None` if more jobs ended than are stored: then the
    /// snapshot reads [`uncovered`](super::uncovered).
    pub fn take(&mut self, most: usize) -> Option<Vec<Ended>> {
        let many = self.ended.len().min(most);
        (!self.too_many).then(|| self.ended.drain(..many).collect())
    }

    /// Drops all jobs, because the snapshot reads [`uncovered`](super::uncovered).
    pub fn clear(&mut self) {
        *self = News::default();
    }

    /// Returns true if at least `most` jobs are stored.
    pub(super) fn has(&self, most: usize) -> bool {
        self.too_many || self.ended.len() >= most
    }
}
