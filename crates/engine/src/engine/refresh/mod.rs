// SPDX-License-Identifier: LGPL-3.0-only
//! Live fair-share: running jobs accrue usage, and the engine updates the priorities of pending jobs.
//!
//! # Steps of a refresh
//! 1. A timer, a push or new settings begin a refresh. `accrual.rs` has recorded the starts and ends of jobs before.
//! 2. `stage.rs` computes the fair-shares, and then the current priorities.
//! 3. `posting.rs` decides which priorities to post. It posts them by id, or lets Flux's loop over all pending jobs ask
//!    for them.
//! 4. `posted` stores each posted priority with its terms.
//!
//! # Rules
//! - The **current priority** of a job is computed from its present terms ([`Shared::explain`]). The **posted
//!   priority** is the last value given to Flux, by which Flux schedules.
//! - If Flux asks for a priority, the engine answers with the current priority, except in a loop over all jobs. In a
//!   loop that a refresh began, the engine changes only the priorities that the refresh has chosen. In any other loop,
//!   a job keeps a stale priority for up to an hour.
//! - A refresh posts a priority only if the order of a scheduler queue needs it, or if the job is held or expedited
//!   ([`crate::priority::order`]). Flux keeps each posted priority in the job's eventlog, so other stale priorities are
//!   not posted. After a push, a reload of the configuration or a request, a refresh also posts stale priorities, at
//!   most once an hour.
//! - While fair-share is live, [`Standing`](crate::standing::Standing) computes the fair-share of each association from
//!   the pushed tree. An association that is not in the tree keeps its pushed fair-share. A push by flux-accounting
//!   does not change the tree. A site document without a tree removes the tree.
//! - A push or a change of settings begins a refresh. If a refresh is in progress, the refresh begins again. On a small
//!   site, the refresh ends before the push is answered.
//! - A job accrues usage for the association that the job has when it starts, until the job ends. If a job starts
//!   without an association, and a later push contains the association, the job accrues usage from its start. If the
//!   job ends before this push, its usage is added to the bank that the job names. If the job names no bank, or if its
//!   R cannot be read, its usage is added when the accounting database has the job.

mod cost;
mod interleave;
mod posting;
mod stage;
mod stale;
mod terms;

pub(super) use interleave::InterleavingTurns;
pub use interleave::Turn;
pub(super) use posting::post_budget;
pub use stage::{LastRefresh, LiveSnapshot};

use crate::engine::Shared;
use crate::ids::JobId;
use stage::Stage;
use stale::StaleRefresh;
use std::collections::HashSet;
use terms::Terms;

/// The progress of a refresh, and the time of the next refresh.
#[derive(Clone, Debug, Default)]
pub(super) struct Refresh {
    stage: Stage,
    /// Whether the next refresh computes all priorities, even if no fair-share changes.
    recomputes_all: bool,
    /// The terms that all priorities share, as of the last refresh.
    terms: Option<Terms>,
    /// True if a release scan of all associations follows the next refresh, for example after a push. In this refresh,
    /// jobs without a priority get one.
    needs_release_scan: bool,
    /// The priorities that Flux's loop over all pending jobs posts for a refresh; `None` outside of this loop.
    loop_posts: Option<LoopPosts>,
    /// Whether a job has come to a wrong position of its queue since the engine last chose the priorities to post.
    is_misplaced: bool,
    /// Whether the engine is posting only to correct the order of jobs, after a refresh has ended.
    is_correction: bool,
    /// Decides when a refresh also posts stale priorities that do not change the order of jobs.
    stale: StaleRefresh,
    /// The period with which the timer of refreshes was armed, in seconds; `None` if the timer is not armed.
    period: Option<f64>,
    /// When the timer of refreshes fires, in seconds since the epoch.
    due: f64,
    /// False until the first settings came. Earlier requests to Flux were lost, so the engine repeats them.
    began: bool,
    last: Option<LastRefresh>,
    posting: LastRefresh,
    /// The number of refreshes that have ended, and the number of priorities that they posted.
    totals: (u64, u64),
}

/// The progress of refreshes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshProgress {
    /// Refreshes that have ended.
    pub total: u64,
    /// Whether a refresh is in progress.
    pub is_under_way: bool,
}

/// The priorities that a refresh posts in Flux's loop over all pending jobs.
#[derive(Clone, Debug)]
struct LoopPosts {
    /// The jobs whose priorities would change.
    jobs: HashSet<JobId>,
    /// True if a release scan of all associations follows the loop.
    needs_release_scan: bool,
    /// True if the refresh also posts stale priorities.
    refreshes_stale: bool,
}

impl Refresh {
    /// Returns the number of refreshes that have ended, and the number of priorities that they posted.
    pub fn totals(&self) -> (u64, u64) {
        self.totals
    }

    /// Returns the last refresh that has ended, and whether one is in progress.
    pub fn last_refresh(&self) -> (Option<LastRefresh>, bool) {
        (self.last, !matches!(self.stage, Stage::Idle))
    }

    /// Handles a refusal of Flux's loop. The next refresh tries again to post the priorities that the loop would have
    /// posted.
    pub fn handle_refused_flux_loop(&mut self, shared: &mut Shared) {
        let Some(LoopPosts { jobs, needs_release_scan, refreshes_stale }) = self.loop_posts.take() else {
            return;
        };
        shared.posted.note_change();
        self.stale.is_due |= refreshes_stale;
        self.needs_release_scan |= needs_release_scan;
        // The refresh that began Flux's loop may have ended already.
        let has_ended = self.last.as_ref().is_some_and(|last| last.when == self.posting.when);
        for result in
            [Some(&mut self.posting), self.last.as_mut().filter(|_| has_ended)].into_iter().flatten()
        {
            result.touched = result.touched.saturating_sub(jobs.len());
            result.lagging += jobs.len();
            if !jobs.is_empty() {
                result.right_to = Some(0);
            }
        }
        if has_ended {
            self.totals.1 = self.totals.1.saturating_sub(jobs.len() as u64);
        }
    }

    /// Notes that no loop of Flux is running.
    pub fn exit_loop(&mut self) {
        self.loop_posts = None;
    }

    /// Makes the next refresh post stale priorities too, as after a push.
    #[cfg(test)]
    pub fn post_stale(&mut self) {
        self.stale.is_due = true;
    }
}
