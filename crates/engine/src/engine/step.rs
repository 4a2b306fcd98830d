// SPDX-License-Identifier: LGPL-3.0-only
//! What the engine goes on with by itself. A step comes after the effects before it; it is no event, nothing happened.

use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::Walk;

/// What the engine goes on with when its effects so far were carried out.
#[derive(Clone, Debug)]
pub enum Step {
    /// What a pass decided so far was carried out.
    Pass(Box<Pass>),
    /// Release whoever may go, in all associations.
    ReleaseAll,
    /// Of the association's replayed jobs everything is known, and whoever could be released was.
    ReplayRead(AssociationId),
    /// Flux begins to ask for every priority: until it is done, no other job may be touched.
    LoopBegins,
    /// Flux has asked for every priority.
    LoopEnded,
}

/// A pass under way. A job that is freed goes before the next one is decided upon: only then is it known whether it
/// needs a place to run (its urgency may be 0 by now), and what its callbacks changed.
#[derive(Clone, Debug)]
pub struct Pass {
    pub(super) walk: Walk,
    pub(super) freed: Vec<JobId>,
}
