// SPDX-License-Identifier: LGPL-3.0-only
//! Stores the results of interleave: the position of each pending job in its association, and the fair-share for this
//! position ([`Turn`]). `refresh/interleave.rs` has the rules.

use crate::accounts::AssociationId;
use crate::ids::JobId;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The position of a job among the pending jobs of its association, and the fair-share for this position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// The position of the job in its association; the first is 1.
    pub number: usize,
    /// The fair-share from which its priority is computed.
    pub fairshare: f64,
}

/// The positions of jobs in their associations, and the fair-shares for these positions, as the last refresh computed
/// them.
#[derive(Clone, Debug, Default)]
pub(super) struct InterleavingTurns {
    /// The position of each job in its association, the fair-share for this position, and the job's association at the
    /// last refresh.
    of_job: HashMap<JobId, (AssociationId, Turn)>,
    /// The position of the last job of each association, and the fair-share for this position.
    last: HashMap<AssociationId, Turn>,
}

impl InterleavingTurns {
    /// Stores the position of the next job of an association, and the fair-share for this position.
    pub fn store_interleaving_turn(&mut self, id: JobId, association: AssociationId, turn: Turn) {
        self.of_job.insert(id, (association, turn));
        self.last.insert(association, turn);
    }

    /// Returns the position of job `id` in its association, and the fair-share for this position. If the last refresh
    /// did not include the job, returns the values of the association's last job, or `None` if there is no such job.
    pub fn turn(&self, id: JobId, association: AssociationId) -> Option<Turn> {
        let own = self.of_job.get(&id).filter(|(of, _)| *of == association).map(|(_, turn)| turn);
        own.or_else(|| self.last.get(&association)).copied()
    }
}
