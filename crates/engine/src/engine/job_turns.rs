// SPDX-License-Identifier: LGPL-3.0-only
//! The turns of pending jobs, if jobs of different associations are interleaved. `refresh/interleave.rs` has the
//! rules.

use crate::accounts::AssociationId;
use crate::ids::JobId;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The position of a job among the pending jobs of its association, and the fair-share that follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// The number of the job in its association; the first is 1.
    pub number: usize,
    /// The fair-share from which its priority is computed.
    pub fairshare: f64,
}

/// The turns as of the last refresh.
#[derive(Clone, Debug, Default)]
pub(super) struct JobTurns {
    /// The turn of each job, with the association that the job had then.
    of_job: HashMap<JobId, (AssociationId, Turn)>,
    /// The turn of the last job of each association.
    last: HashMap<AssociationId, Turn>,
}

impl JobTurns {
    /// Adds the next job of an association.
    pub fn add_turn(&mut self, id: JobId, association: AssociationId, turn: Turn) {
        self.of_job.insert(id, (association, turn));
        self.last.insert(association, turn);
    }

    /// Returns the turn of job `id`, or else the turn of the last job of its association. Returns `None` if neither
    /// has a turn.
    pub fn turn(&self, id: JobId, association: AssociationId) -> Option<Turn> {
        let own = self.of_job.get(&id).filter(|(of, _)| *of == association).map(|(_, turn)| turn);
        own.or_else(|| self.last.get(&association)).copied()
    }
}
