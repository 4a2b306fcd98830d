// SPDX-License-Identifier: LGPL-3.0-only
//! What the plugin does not know about jobs that were there before: which dependencies they carry, and, after a panic, whether the
//! records agree with Flux.
//!
//! ```text
//! replay.rs    jobs that Flux shows at a load or a restart: counted at once, eventlogs read in the next reactor turn
//! unasked.rs   replayed jobs whose eventlogs nothing depends on until a limit comes in reach
//! resync.rs    after a panic: all jobs are looked up in Flux and replayed
//! ```

mod replay;
mod resync;
mod unasked;

pub(super) use replay::hold_replayed;

use crate::accounts::AssociationId;
use crate::ids::{JobId, QueueName};
use replay::Replay;
use resync::Resync;
use std::collections::{BTreeMap, BTreeSet};

/// Jobs of which not everything is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    replay: Replay,
    /// Replayed jobs in SCHED whose eventlogs were not read, because no limit on what runs was in reach.
    unasked: BTreeMap<(AssociationId, Option<QueueName>), BTreeSet<JobId>>,
    /// Jobs in DEPEND whose eventlogs cannot be read.
    unreadable: BTreeSet<JobId>,
    resync: Resync,
}

impl Recovery {
    /// Returns true while replayed jobs wait for the reactor turn in which their eventlogs are asked for.
    pub fn is_replaying(&self) -> bool {
        self.replay.is_due()
    }

    /// Returns true if a call panicked and jobs were not compared with Flux since.
    pub fn is_doubtful(&self) -> bool {
        self.resync.is_doubtful()
    }

    /// Returns true while jobs are being looked up after a panic.
    pub fn is_comparing(&self) -> bool {
        self.resync.is_on()
    }

    /// Returns the jobs in DEPEND whose eventlogs cannot be read.
    pub fn unreadable(&self) -> &BTreeSet<JobId> {
        &self.unreadable
    }

    /// Removes a job that has left DEPEND for good.
    pub fn forget(&mut self, id: JobId) {
        self.unreadable.remove(&id);
    }

    /// Returns the numbers of job sets that are not empty: unasked groups, and unreadable jobs.
    #[cfg(test)]
    pub fn counts(&self) -> [usize; 2] {
        [self.unasked.len(), self.unreadable.len()]
    }
}
