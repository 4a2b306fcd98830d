// SPDX-License-Identifier: LGPL-3.0-only
//! The release scan, which releases held jobs. In this list, each function calls the functions that are indented below it.
//!
//! ```text
//! run_requested_scans           runs the scans that an event requested, in order
//! └── scan_associations     scans each association, and all associations that share a limit with it
//!     └── continue_scan     removes dependencies until a job has lost its last; Effect::Then continues the scan
//!         ├── place_associations    orders associations that share a limit by the priorities of their first jobs
//!         ├── ScanCursor::release_next   returns the next job that loses a dependency (limits/release.rs)
//!         └── end_scan          ends reservations of released jobs that other plugins block in DEPEND
//! scan_all_held         scans all associations with held jobs, after a push or a reprioritize
//! ```

use super::{
    Effect, Shared, blocked,
    due::Scan,
    recovery::Recovery,
    step::{ScanInProgress, Step},
};
use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::{BlockState, Candidates, Job, Phase, Released, Reservation, ScanCursor};

/// Begins and continues release scans. Its fields say whether a scan may begin.
#[derive(Clone, Debug, Default)]
pub(super) struct ReleaseScanner {
    /// True while Flux iterates over its jobs. Meanwhile the plugin may change only the job that Flux asks about.
    is_looping: bool,
    /// True while the plugin carries out a release that a scan decided on. After that, the scan continues.
    is_releasing: bool,
}

impl ReleaseScanner {
    /// Notes that Flux begins to loop over its jobs. Returns false if the engine is already in a loop.
    pub fn note_flux_loop_start(&mut self) -> bool {
        !std::mem::replace(&mut self.is_looping, true)
    }

    /// Records that Flux's loop over all pending jobs has ended.
    pub fn exit_loop(&mut self) {
        self.is_looping = false;
    }

    /// Resets the state when a reactor turn begins: at this time, neither Flux's loop nor a scan is in progress.
    /// After a panic, the state may still show a loop or a scan.
    pub fn begin_reactor_turn(&mut self) {
        *self = ReleaseScanner::default();
    }

    /// Carries out the scans that the event noted.
    pub fn run_requested_scans(&mut self, shared: &mut Shared, recovery: &mut Recovery) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(scan) = shared.due.take_next_scan() {
            match scan {
                Scan::Associations(scans) => effects.extend(self.scan_associations(shared, recovery, scans)),
                Scan::HoldReplayed(association) => effects.push(Effect::Then(Step::ReplayRead(association))),
            }
        }
        effects
    }

    /// Begins scans of several associations. Each scan begins after the effects of the previous scan were carried
    /// out, because only these effects show whether the released jobs reserve headroom of limits on running jobs.
    pub fn scan_associations(
        &mut self,
        shared: &mut Shared,
        recovery: &mut Recovery,
        due: impl IntoIterator<Item = (AssociationId, Candidates)>,
    ) -> Vec<Effect> {
        // Within Flux's loop over its jobs, a scan would make Flux lose its position. During the release of a job, scans
        // could nest as deep as there are held jobs, because the job may end before Flux returns. The value is read
        // before the first scan, because the first scan may change it.
        let is_later = self.is_looping || self.is_releasing;
        let mut effects = recovery.request_eventlogs_after_change(shared);
        for (nth, (association, candidates)) in due.into_iter().enumerate() {
            effects.extend(match nth {
                _ if is_later => shared.due.schedule_scan(association, candidates),
                0 => {
                    let scan = ScanInProgress::new(association, Vec::new(), candidates);
                    self.continue_scan(shared, recovery, scan)
                }
                _ => vec![make_scan_step(association, Vec::new(), candidates)],
            });
        }
        effects
    }

    pub fn scan_all_held(&mut self, shared: &mut Shared, recovery: &mut Recovery) -> Vec<Effect> {
        shared.due.take_scans_for_reactor_turn();
        // Eventlogs are requested before the scans, because a scan skips associations whose requested eventlogs are
        // unread.
        let eventlog_requests = recovery.request_eventlogs_after_change(shared);
        let to_hold = recovery.end_push(|_| true);
        shared.ledger.request_all_position_updates();
        let held = shared.ledger.associations_with_held().map(|association| (association, Candidates::All));
        let held: Vec<_> = held.collect();
        let mut effects = self.scan_associations(shared, recovery, held);
        effects.extend(to_hold.into_iter().map(|association| Effect::Then(Step::ReplayRead(association))));
        effects.extend(eventlog_requests);
        effects
    }

    pub fn continue_scan(
        &mut self,
        shared: &mut Shared,
        recovery: &mut Recovery,
        mut scan: ScanInProgress,
    ) -> Vec<Effect> {
        self.is_releasing = false;
        if recovery.is_comparing() {
            // A panic may have changed which jobs exist, so the scan waits until all jobs were looked up.
            return shared.due.schedule_scan(scan.cursor.association(), Candidates::All);
        }
        let mut effects = Vec::new();
        loop {
            effects.extend(place_associations(shared, recovery, &mut scan.cursor));
            // This scan skips associations whose push has not ended. `ScanAllHeld` scans them at the end of the push.
            let half_pushed = recovery.half_pushed();
            let released = scan.cursor.release_next(&mut shared.ledger, &shared.book, half_pushed);
            let Some(Released { id, names, is_free }) = released else { break };
            effects.extend(is_free.then_some(Effect::AskUrgency(id)));
            effects.extend(names.into_iter().map(|name| Effect::RemoveDependency(id, name)));
            if is_free {
                scan.freed.push(id);
                self.is_releasing = true;
                effects.push(Effect::Then(Step::Scan(Box::new(scan))));
                return effects;
            }
        }
        effects.extend(end_scan(shared, &scan));
        effects
    }
}

/// Ends the reservations of released jobs that are still in DEPEND, because other plugins block them. The
/// jobs may stay in DEPEND for days, and limits are applied again when the other plugins release them. The
/// reservations may have kept headroom from jobs of this association and of others that share a limit. So a
/// scan over jobs that no other plugin blocks follows in the next reactor turn.
fn end_scan(shared: &mut Shared, scan: &ScanInProgress) -> Vec<Effect> {
    let mut effects = Vec::new();
    for id in &scan.freed {
        let Some(job) = shared.ledger.job(*id) else { continue };
        if job.phase != Phase::Depend || job.reservation != Reservation::Given {
            continue;
        }
        let (was_known, association) = (job.block_state == BlockState::Blocked, job.association());
        shared.ledger.change(*id, |job| job.reservation = Reservation::Blocked);
        let Some(association) = association else { continue };
        effects.extend(shared.due.schedule_scan(association, Candidates::Unblocked));
        effects.extend(if was_known { Vec::new() } else { blocked::watch_job(shared, *id) });
    }
    effects
}

/// Sorts associations within their limit scopes by the priorities of their first held jobs.
fn place_associations(shared: &mut Shared, recovery: &Recovery, cursor: &mut ScanCursor) -> Vec<Effect> {
    for unplaced in cursor.unplaced(&mut shared.ledger, &shared.book) {
        let heads = unplaced.heads().into_iter();
        let priorities: Vec<(JobId, u32)> =
            heads.map(|id| (id, priority_after_release(shared, recovery, id))).collect();
        cursor.put_association_into_waiting_lists(&mut shared.ledger, &shared.book, unplaced, &priorities);
    }
    subscribe_to_overtaken_jobs(shared)
}

/// Schedules release scans for associations under a limit that no longer reserves headroom for an overtaken job.
pub fn schedule_scans_after_reservations_end(shared: &mut Shared, effects: &mut Vec<Effect>) {
    for association in shared.ledger.overtaken_jobs_mut().take_associations_with_freed_headroom() {
        effects.extend(shared.due.schedule_scan(association, Candidates::All));
    }
}

/// Subscribes to overtaken jobs: Flux reports a change of urgency in DEPEND or PRIORITY only to subscribers. Looks up the urgency of each
/// job once, because the urgency may have changed before the subscription.
fn subscribe_to_overtaken_jobs(shared: &mut Shared) -> Vec<Effect> {
    let mut effects = Vec::new();
    for id in shared.ledger.overtaken_jobs_mut().take_newly_overtaken_jobs() {
        effects.extend(shared.subscriptions.subscribe_to_overtaken_job(id));
        effects.push(Effect::AskUrgency(id));
    }
    effects
}

impl ScanInProgress {
    fn new(association: AssociationId, freed: Vec<JobId>, candidates: Candidates) -> Self {
        ScanInProgress { cursor: ScanCursor::new(association, candidates), freed }
    }
}

/// Returns an effect that begins a release scan of `association`. `freed` lists the jobs that the earlier effects in
/// the same list release.
pub fn make_scan_step(association: AssociationId, freed: Vec<JobId>, candidates: Candidates) -> Effect {
    Effect::Then(Step::Scan(Box::new(ScanInProgress::new(association, freed, candidates))))
}

/// Returns the priority that a held job would have. Uses the urgency at submission, unless Flux has reported a change
/// of the urgency. Returns 0 while the push that assigned the association is incomplete. The job is not released before
/// the push ends, so it must not keep headroom from other jobs.
fn priority_after_release(shared: &Shared, recovery: &Recovery, id: JobId) -> u32 {
    let is_half_pushed = |job: &Job| job.association().is_some_and(|of| recovery.half_pushed().contains(&of));
    let job = shared.ledger.job(id).filter(|job| !is_half_pushed(job));
    job.and_then(|job| shared.priority_without_turn(job, job.urgency)).unwrap_or_default()
}
