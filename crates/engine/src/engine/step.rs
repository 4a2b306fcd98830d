// SPDX-License-Identifier: LGPL-3.0-only
//! Steps that the engine requests by [`Effect::Then`](super::Effect::Then). The plugin carries out the previous effects
//! first, and then passes the step to the engine. A step is not an event.

use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::ScanCursor;

/// A step with which the engine continues after the plugin has carried out earlier effects
/// ([`Then`](super::Effect::Then)).
#[derive(Clone, Debug)]
pub enum Step {
    /// Continues a release scan after the plugin has carried out the scan's previous effects.
    Scan(Box<ScanInProgress>),
    /// Begins a release scan for each association with held jobs.
    ScanAllHeld,
    /// Holds the replayed jobs of the association that exceed a limit, when all their eventlogs are known and the release scan has ended.
    ReplayRead(AssociationId),
    /// Flux begins to ask for all priorities. Until `LoopEnded`, no other job may be changed.
    LoopBegins,
    /// Flux has asked for all priorities.
    LoopEnded,
}

/// A release scan in progress. A released job leaves DEPEND before the scan decides on the next job. The callbacks of
/// the released job show how much headroom the job takes. A job whose urgency is 0 by then takes none.
#[derive(Clone, Debug)]
pub struct ScanInProgress {
    pub(super) cursor: ScanCursor,
    pub(super) freed: Vec<JobId>,
}
