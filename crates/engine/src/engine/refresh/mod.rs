// SPDX-License-Identifier: LGPL-3.0-only
//! Live fair-share: usage accrues while jobs run, and the priorities of pending jobs are updated.
//!
//! ```text
//! job.state.run, inactive, replay ──> accrual.rs ──> standing
//! timer, push, settings ──> stage.rs: standing in slices ──> current priorities ──> posting.rs: a plan ──> posts in slices, or Flux's loop
//! each posted priority ──> posted: the priority, with the terms that made it
//! ```
//!
//! # Rules
//! - The **current priority** of a job is [`Shared::explain`]: its terms as they are now. The **posted
//!   priority** is the last value given to Flux, by which Flux schedules. The posted priority was the current
//!   priority when it was posted, and its terms are stored.
//! - If Flux asks for a priority, the answer is the current priority, except in a loop over all jobs. In a
//!   loop that a refresh began, a job keeps its posted priority unless the plan names the job. In any other
//!   loop, a job keeps a stale priority for up to an hour.
//! - A refresh posts a priority only where the order of a scheduler queue needs it, or where a job is held or
//!   expedited ([`crate::priority::order`]). A stale priority that leaves the order correct is not posted
//!   again, because Flux keeps each posted priority in the job's eventlog. A push, a reload of the
//!   configuration and a request post stale priorities too, at most once an hour.
//! - While fair-share is live, [`Standing`](crate::standing::Standing) computes the fair-share of each
//!   association in the pushed tree. An association outside the tree has its pushed fair-share.
//!   flux-accounting's own pushes leave the tree in force; a site document without a tree removes the tree.
//! - A push or a change of settings begins a refresh; if one is in progress, it begins again. On a small site the refresh ends before
//!   the push is answered.
//! - A job accrues under the association in which it counts when it starts, for as long as it runs. If a job
//!   starts without an association, and a push contains the association later, the job accrues from its
//!   start. If the job ends before such a push, its usage counts in the bank that the job names. If the job
//!   names no bank, or if its R cannot be read, the usage counts when the accounting database has the job.

mod cost;
mod interleave;
mod outline;
mod posting;
mod stage;
mod stale;
mod terms;

pub use outline::{LiveSummary, RefreshProgress};
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
    /// Whether the next refresh computes all current priorities, because something other than fair-shares may have
    /// changed them.
    recomputes_all: bool,
    /// The terms that all priorities share, as of the last refresh.
    terms: Option<Terms>,
    /// True if a push waits for its refresh. After this refresh, jobs without a priority get one, and a
    /// release scan covers all associations.
    pushed: bool,
    /// The posts that Flux's loop makes for a refresh; `None` outside of such a loop.
    loop_posts: Option<LoopPosts>,
    /// Whether a new priority has put a job at a wrong position of its queue since the last plan.
    is_misplaced: bool,
    /// Whether the posts in progress only correct the order, after a refresh that has ended.
    is_correction: bool,
    /// Decides when a refresh also posts stale priorities whose order is correct.
    stale: StaleRefresh,
    /// Whether the timer of refreshes is armed.
    is_armed: bool,
    /// The period with which the timer of refreshes was armed, in seconds.
    period: f64,
    /// When the timer of refreshes fires, in seconds since the epoch.
    due: f64,
    /// False until the first settings came. Requests to Flux before then are not carried out, so the engine repeats
    /// them.
    began: bool,
    last: Option<LastRefresh>,
    posting: LastRefresh,
    /// The number of refreshes that have ended, and the number of priorities that they posted.
    totals: (u64, u64),
}

/// The posts that a refresh leaves to Flux's loop.
#[derive(Clone, Debug)]
struct LoopPosts {
    /// The jobs whose priorities would change.
    jobs: HashSet<JobId>,
    /// Whether a push waited for this loop.
    is_of_push: bool,
    /// Whether the plan posts stale priorities too.
    refreshes_stale: bool,
}

impl Refresh {
    /// Handles a refusal of Flux's loop. The next refresh tries again to post the priorities that the loop would have
    /// posted.
    pub fn handle_refused_loop(&mut self, shared: &mut Shared) {
        let Some(LoopPosts { jobs, is_of_push, refreshes_stale }) = self.loop_posts.take() else { return };
        shared.posted.note_change();
        self.stale.is_due |= refreshes_stale;
        self.pushed |= is_of_push;
        // The refresh that began the loop may have ended already.
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

    /// Notes that Flux's loop has ended, or that none is running.
    pub fn exit_loop(&mut self) {
        self.loop_posts = None;
    }

    /// Makes the next refresh post stale priorities too, as after a push.
    #[cfg(test)]
    pub fn post_stale(&mut self) {
        self.stale.is_due = true;
    }
}
