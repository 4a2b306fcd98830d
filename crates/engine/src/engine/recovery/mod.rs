// SPDX-License-Identifier: LGPL-3.0-only
//! Finds out facts about jobs from before a load, a restart or a panic: the dependencies of the jobs, and
//! whether the engine's records agree with Flux.
//!
//! ```text
//! replay.rs    jobs that Flux shows at a load or a restart: counted at once, eventlogs read in the next reactor turn
//! unasked.rs   replayed jobs whose eventlogs the engine reads only when a limit could be reached
//! resync.rs    after a panic: all jobs are looked up in Flux and replayed
//! ```

mod replay;
mod resync;
mod unasked;

use crate::accounts::AssociationId;
use crate::ids::{JobId, QueueName};
use replay::Replay;
use resync::Resync;
use std::collections::{BTreeMap, BTreeSet};

/// Jobs whose state or dependencies the engine must still find out after a load, a restart or a panic.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    replay: Replay,
    /// Replayed jobs in SCHED whose eventlogs were not read, because no limit on running jobs could be reached
    /// ([`unasked`]).
    unasked: BTreeMap<(AssociationId, Option<QueueName>), BTreeSet<JobId>>,
    /// Jobs in DEPEND whose eventlogs cannot be read.
    unreadable: BTreeSet<JobId>,
    resync: Resync,
    /// Associations to which an incomplete push has assigned replayed jobs. Until the reprioritize at the end
    /// of the push, no job of these associations is released, and no replayed job is held.
    half_pushed: BTreeSet<AssociationId>,
    /// Associations with replayed jobs in DEPEND that are not checked against the limits yet. The check needs all
    /// eventlogs of the association and of jobs under the same limits.
    undecided: BTreeSet<AssociationId>,
    /// Associations that no longer wait for the unread eventlog of a job, because the job has left the association or
    /// is held again.
    unread_left: BTreeSet<AssociationId>,
    /// True if limits may have changed since the engine last checked the jobs in `unasked`. The engine may have to read
    /// the eventlogs of these jobs now.
    limits_moved: bool,
}

impl Recovery {
    /// Returns true while replayed jobs wait for the reactor turn that asks for their eventlogs.
    pub fn is_replaying(&self) -> bool {
        self.replay.is_due
    }

    /// Returns true while jobs are being looked up after a panic.
    pub fn is_comparing(&self) -> bool {
        self.resync.is_on()
    }

    /// Returns the jobs in DEPEND whose eventlogs cannot be read.
    pub fn unreadable(&self) -> &BTreeSet<JobId> {
        &self.unreadable
    }

    /// Removes a job that has left DEPEND.
    pub fn remove_job(&mut self, id: JobId) {
        self.unreadable.remove(&id);
    }

    /// Returns the number of entries in `unasked` and in `unreadable`.
    #[cfg(test)]
    pub fn counts(&self) -> [usize; 2] {
        [self.unasked.len(), self.unreadable.len()]
    }
}
