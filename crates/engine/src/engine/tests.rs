// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the engine against a model of Flux: examples from the specification, and random histories of jobs.

mod admission;
mod age_events;
mod age_terms;
mod allocations;
mod answers;
mod blocked;
mod budgets;
mod cached_priorities;
mod committed_accrual;
mod data_order;
mod edge_cases;
mod ended_jobs;
mod event_fuzzer;
mod examples;
mod first_push;
mod hand_over;
mod host;
mod in_sched;
mod incomplete_replay;
mod interleave;
mod levels;
mod live;
mod live_random;
mod new_jobs;
mod oracle;
mod partial_push;
mod past_depend;
mod pending_eventlogs;
mod posting;
mod preview;
mod properties;
mod reasons;
mod refreshes;
mod refused_effects;
mod release_bounds;
mod requests;
mod reservations_after_reload;
mod restart_order;
mod resync;
mod resync_results;
mod saved_data;
mod scopes;
mod several_associations;
pub(crate) mod site;
mod states;
mod strict;
mod subscriptions;
mod tables;
mod turns;
mod updates;
mod urgency;
mod whole_answers;
mod why;
mod why_helps;

use super::Engine;
use super::age::advance_age_reference_time;
use super::{Batches, Shared, Tables};
use crate::accounts::Book;
use crate::ids::JobId;
use crate::limits::Ledger;
use crate::priority::Ages;
use std::ops::{Deref, DerefMut};

/// Batch sizes so small that a test with a few jobs needs several batches.
pub(super) const FEW: Batches = Batches {
    put_off: 4,
    unmoved: 3,
    sought: 3,
    annotated: 2,
    subscribed: 4,
    ordered: 1_000,
    posted: 2_000,
    longest_loop: 50_000,
};
/// The batch sizes of `FEW`, but Flux's loop over all pending jobs always counts as too long. So the engine posts
/// priorities by id, unless more than 75 jobs have no priority at a push.
pub(super) const SINGLE_POSTS: Batches = Batches { longest_loop: 0, ..FEW };

impl Deref for Engine {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl DerefMut for Engine {
    fn deref_mut(&mut self) -> &mut Shared {
        &mut self.shared
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::with_small_batches()
    }
}

impl Engine {
    /// Returns an engine without data, with small batches.
    fn with_small_batches() -> Engine {
        Engine::with_batches(FEW)
    }

    fn with_batches(batches: Batches) -> Engine {
        Engine::with_tables(site::OWNER, Tables { batches, ..Tables::default() })
    }

    fn ages(&self) -> Ages {
        self.ages
    }

    fn advance_age_reference_time(&mut self) -> bool {
        advance_age_reference_time(&mut self.shared)
    }

    fn book(&self) -> &Book {
        &self.book
    }

    /// Makes the next refresh post stale priorities too, as a push does.
    fn post_stale(&mut self) {
        self.refresh.post_stale();
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn drop_cached_priority(&mut self, id: JobId) {
        self.ledger.cache_priority(id, None);
    }

    /// Returns the name and the number of jobs of each collection of the engine that is not empty. Flux never reuses a
    /// job id, so a job that stays in a collection after its end stays there indefinitely.
    fn count_stored_jobs(&self) -> Vec<(&'static str, usize)> {
        let all = [
            ("jobs", self.ledger.job_count()),
            ("validated", self.validated.len()),
            ("due", self.due.count_jobs()),
            ("unmoved", self.unmoved.len()),
            ("unasked", self.recovery.counts()[0]),
            ("unreadable", self.recovery.counts()[1]),
            ("unprioritized", self.unprioritized.len()),
            ("annotations", self.annotations.len()),
            ("foreign", self.subscriptions.counts()[0]),
            ("unwatched", self.subscriptions.counts()[1]),
            ("posted", self.posted.entry_count()),
        ];
        all.into_iter().filter(|(_, jobs)| *jobs > 0).collect()
    }
}
