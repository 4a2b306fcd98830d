// SPDX-License-Identifier: LGPL-3.0-only
//! Interleave: the position of each pending job in its association, and the fair-share for this position (a
//! [`Turn`]). `refresh/interleave.rs` has the rules.

use crate::accounts::AssociationId;
use crate::ids::JobId;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The position of a job among the pending jobs of its association, and the fair-share for this position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// The position; the first is 1.
    pub number: usize,
    /// The fair-share from which its priority is computed.
    pub fairshare: f64,
}

/// The turns that the last refresh computed.
#[derive(Clone, Debug, Default)]
pub(super) struct JobTurns {
    /// The turn of each job, and the association that the job had when the turn was computed.
    of_job: HashMap<JobId, (AssociationId, Turn)>,
    /// For each association, the turn of its last job.
    last: HashMap<AssociationId, Turn>,
}

impl JobTurns {
    /// Stores the turn of the next job of an association.
    pub fn add_turn(&mut self, id: JobId, association: AssociationId, turn: Turn) {
        self.of_job.insert(id, (association, turn));
        self.last.insert(association, turn);
    }

    /// Returns the turn of job `id`. A job without a turn has that of the last job of its association, if there is
    /// one.
    pub fn turn(&self, id: JobId, association: AssociationId) -> Option<Turn> {
        let own = self.of_job.get(&id).filter(|(of, _)| *of == association).map(|(_, turn)| turn);
        own.or_else(|| self.last.get(&association)).copied()
    }
}
