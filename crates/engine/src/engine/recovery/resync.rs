// SPDX-License-Identifier: LGPL-3.0-only
//! The comparison of all jobs with Flux after a panic.
//!
//! A panic may come between two effects. Then Flux lacks decisions that the engine has recorded, and the facts of the
//! callback are lost. So the engine looks up each known job in Flux, some of them in every reactor turn, and replays
//! the job with the dependencies from its eventlog. It removes a job that Flux does not have. No release scan runs
//! before the last lookup. After the last lookup, Flux asks for all priorities. `panicked.rs` has the code for these
//! steps.

use super::Recovery;
use crate::engine::{Effect, Shared, Timer};
use crate::ids::JobId;
use std::collections::BTreeSet;

/// The number of jobs that the engine looks up in one reactor turn.
const SLICE: usize = 250;
/// The largest number of panics in a row after which the engine compares its jobs with Flux. If every comparison
/// panics, the reactor must not stay busy indefinitely.
const TRIES: u8 = 3;

/// The progress of the comparison of all jobs with Flux.
#[derive(Clone, Debug, Default)]
pub(super) struct Resync {
    due: Vec<JobId>,
    /// Jobs whose lookups have no answer yet.
    in_hand: Vec<JobId>,
    /// Jobs whose callbacks panicked. The ledger may lack them.
    suspects: BTreeSet<JobId>,
    /// The number of panics since a comparison last ended.
    panics: u8,
    /// Whether a comparison began after the last panic.
    is_begun: bool,
}

impl Resync {
    /// Returns true while jobs are still to be looked up.
    pub fn is_on(&self) -> bool {
        !(self.due.is_empty() && self.in_hand.is_empty())
    }

    /// Returns true if all jobs were looked up since the last panic.
    pub fn is_over(&self) -> bool {
        self.is_begun && !self.is_on()
    }
}

impl Recovery {
    /// Returns true from a panic of a callback until all jobs have been compared with Flux, eventlogs included.
    pub fn needs_comparison(&self) -> bool {
        self.resync.panics > 0
    }

    /// Notes that a callback panicked. `id` is the job that it handled, if known. Returns true if the engine must
    /// compare its jobs with Flux, and false after too many panics in a row.
    ///
    /// The ledger recounts all jobs at once, not in slices. The panic may have come between the two halves of a
    /// change, so any counter may be wrong, and the next callback uses the counters. The cost is one insertion in
    /// memory for each job, without a call to Flux (`cargo bench --bench scale` has the figure).
    pub fn record_callback_panic(&mut self, shared: &mut Shared, id: Option<JobId>) -> bool {
        self.resync.panics = self.resync.panics.saturating_add(1);
        shared.ledger.recount();
        if let Some(id) = id {
            self.resync.suspects.insert(id);
            // Flux may not have received the job's memo, so the engine must post the memo again.
            shared.ledger.change(id, |job| job.memo = None);
        }
        self.resync.panics <= TRIES
    }

    /// Begins to compare all jobs with Flux.
    pub fn begin_comparison(&mut self, shared: &mut Shared) -> Vec<Effect> {
        self.resync.is_begun = true;
        self.resync.suspects.extend(self.resync.in_hand.drain(..));
        let suspects = self.resync.suspects.iter().copied();
        self.resync.due = shared.ledger.jobs().map(|(id, _)| id).chain(suspects).collect();
        vec![Effect::Arm(Timer::ReactorTurn)]
    }

    /// If the engine has abandoned the comparison of its jobs with Flux, begins a new comparison of all jobs.
    pub fn retry_comparison(&mut self, shared: &mut Shared) -> Vec<Effect> {
        if self.resync.panics <= TRIES || self.resync.is_on() {
            return Vec::new();
        }
        self.resync.panics = TRIES;
        self.begin_comparison(shared)
    }

    /// Abandons the comparison of jobs with Flux, without a change to any job. Returns the jobs whose eventlogs are
    /// unread and will not be read.
    pub fn abandon_comparison(&mut self, shared: &Shared) -> Vec<JobId> {
        self.resync.is_begun = false;
        self.resync.due.clear();
        self.resync.suspects.extend(self.resync.in_hand.drain(..));
        shared.ledger.jobs().filter(|(_, job)| job.is_unread()).map(|(id, _)| id).collect()
    }

    /// Returns the next jobs to look up, and true if they are the last jobs. Returns `None` if no jobs are left. After
    /// the last jobs, the next reactor turn ends the replay.
    pub fn take_next_lookups(&mut self) -> Option<(Vec<JobId>, bool)> {
        if self.resync.due.is_empty() {
            return None;
        }
        let rest_len = self.resync.due.len().saturating_sub(SLICE);
        let slice = self.resync.due.split_off(rest_len);
        self.resync.in_hand.clone_from(&slice);
        if rest_len == 0 {
            self.replay.is_due = true;
            // The panic may have prevented the end of a push.
            self.half_pushed.clear();
        }
        Some((slice, rest_len == 0))
    }

    /// Notes that Flux has answered the lookup of a job.
    pub fn record_job_lookup(&mut self, id: JobId) {
        self.resync.in_hand.retain(|other| *other != id);
    }

    /// Ends the comparison with Flux if all jobs were looked up and all eventlogs were read. The end resets the
    /// number of panics. If it came earlier, answers about unreadable eventlogs could cause panics without end.
    pub fn end_comparison_if_complete(&mut self, shared: &Shared) {
        if self.resync.is_over() && !shared.ledger.has_unread() && self.unreadable.is_empty() {
            self.resync = Resync::default();
        }
    }
}
