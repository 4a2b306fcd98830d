// SPDX-License-Identifier: LGPL-3.0-only
//! Live fair-share at work: jobs accrue as they run, and pending jobs follow.
//!
//! ```text
//! job.state.run, inactive, replay ──> accrual ──> standing
//! timer, push, settings ──> refresh: standing in slices ──> exact prices ──> posting: a plan ──> posts in slices, or Flux's loop
//! whoever posts a price ──> prices: what was posted, and by which terms
//! ```
//!
//! # Rules
//! - The **exact price** of a job is [`Engine::explain`](super::Engine): its terms as they are now. The **posted** one is what
//!   Flux sorts by. What is posted is always an exact price of its time, and its terms are kept.
//! - A price that Flux asks for is the exact one, except in a loop over all jobs. In a loop that a refresh began, a job keeps
//!   its posted price unless the plan names the job. In any other loop, a job keeps a stale price for up to an hour.
//! - A refresh posts a price only where the order of a scheduler queue needs it, or where a job is held or expedited
//!   ([`crate::priority::order`]). A stale price in the right place stays, because Flux keeps each posted price in the job's
//!   eventlog. A push, a reload of the configuration and a request post stale prices too, at most once an hour.
//! - While fair-share is live, that of an association in the pushed tree is what [`Standing`](crate::standing::Standing) says.
//!   Of any other it is the number that was pushed for it. Upstream's own pushes leave the tree in force; a policy
//!   without a tree ends it.
//! - A push begins a refresh, and so does a change of settings; one that is under way begins anew. Where all of it is
//!   small it is done before the push is answered.
//! - A job accrues under the association in which it counts when it starts, for as long as it runs. One without
//!   association accrues from its start when its association comes; if it ends before that, in the bank that it names. If it
//!   names none, it counts when the accounting database has it. A job whose R can't be read, likewise.

pub(super) mod accrual;
pub(super) mod changes;
pub(super) mod cost;
pub(super) mod ended;
pub(super) mod interleave;
pub(super) mod outline;
pub(super) mod posting;
pub(super) mod prices;
pub(super) mod refresh;
pub(super) mod stale;
pub(super) mod terms;

pub use changes::{Change, Changes};
pub use interleave::Turn;
pub use outline::{LiveOutline, RefreshProgress};
pub(super) use posting::budget;
pub use prices::{Price, PricedJob};
pub use refresh::{LastRefresh, LiveSnapshot, Used};

use crate::ids::{JobId, QueueName};
use crate::priority::{Pending, Priced};
use ended::Asking;
use interleave::InTurn;
pub(super) use prices::shown;
use prices::{Groups, Posted, Weighing};
use refresh::Stage;
use stale::StaleRefresh;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use terms::Terms;

/// What is known of pending jobs' prices, and how far a refresh is.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    /// Every job with a posted price, in its queue.
    pending: Pending<Posted>,
    groups: Groups,
    /// What pushes changed since the last refresh that priced all jobs.
    site_change: changes::Pushed,
    /// Pending jobs whose jobspec was updated since their priority was posted.
    updated: HashSet<JobId>,
    /// Jobs that had a priority, and that limits hold since.
    held_again: HashSet<JobId>,
    /// The weights of the price posted last.
    weighing: Option<Arc<Weighing>>,
    stage: Stage,
    /// Prices that may be others for other reasons than a fair-share: all are worked out at the next refresh.
    reprice: bool,
    /// What all prices have in common, as of the last refresh.
    terms: Option<Terms>,
    /// A push waits for its refresh: then those that have no price are asked for, and whoever may go goes.
    pushed: bool,
    /// While Flux asks for prices because of a refresh.
    touching: Option<Touching>,
    /// Prices that are being posted, with what was posted before: for those that Flux refuses.
    under_way: HashMap<JobId, (Priced, Posted)>,
    /// A job has come to the wrong place of its queue since the last plan.
    is_misplaced: bool,
    /// The posts under way correct the order after the last refresh.
    is_correction: bool,
    /// When priorities that are merely stale are posted too.
    pub stale: StaleRefresh,
    /// Whether the timer runs.
    is_armed: bool,
    /// How long from when it was armed.
    period: f64,
    /// When the timer of refreshes fires.
    due: f64,
    asking: Asking,
    /// How often nobody answered.
    unanswered: u32,
    /// Whether settings came: what was asked for when the plugin was loaded is asked for again, since nobody was listening.
    began: bool,
    /// Whether anything moved since the last plan.
    moved: bool,
    last: Option<LastRefresh>,
    /// Turns of pending jobs, where they interleave.
    turns: Option<InTurn>,
    posting: LastRefresh,
    /// Refreshes that have ended, and the priorities that they posted.
    totals: (u64, u64),
}

#[cfg(test)]
impl Live {
    /// How many jobs and groups of jobs it has something of.
    pub fn keeps(&self) -> usize {
        self.pending.len()
            + self.groups.len()
            + self.under_way.len()
            + self.updated.len()
            + self.held_again.len()
    }
}

/// Jobs are being annotated: all up to this one are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Annotating(pub(super) Option<JobId>);

/// What Flux's loop is to do for a refresh.
#[derive(Clone, Debug)]
struct Touching {
    /// Who is to get another price.
    jobs: HashSet<JobId>,
    /// Whether a push waited for it.
    is_pushs: bool,
    /// Whether the plan posts stale priorities too.
    refreshes_stale: bool,
}

impl Live {
    /// The job pends no more.
    pub fn forget(&mut self, id: JobId) {
        self.under_way.remove(&id);
        self.updated.remove(&id);
        self.held_again.remove(&id);
        let Some(posted) = self.pending.remove(id) else { return };
        self.moved = true;
        self.groups.leave(posted.association, id);
    }

    /// Puts each pending job into the order of the scheduler queue that `queue` names. The next refresh corrects the orders.
    pub fn regroup(&mut self, queue: impl Fn(JobId) -> Option<QueueName>) {
        self.pending.regroup(queue);
        self.moved = true;
    }

    /// Flux refused its loop: what a refresh was to post by it is tried again at the next refresh.
    pub fn loop_refused(&mut self) {
        let Some(Touching { jobs, is_pushs, refreshes_stale }) = self.touching.take() else { return };
        self.moved = true;
        self.stale.is_due |= refreshes_stale;
        self.pushed |= is_pushs;
        // It may be told as done already.
        let is_told = self.last.as_ref().is_some_and(|last| last.when == self.posting.when);
        for told in [Some(&mut self.posting), self.last.as_mut().filter(|_| is_told)].into_iter().flatten() {
            told.touched = told.touched.saturating_sub(jobs.len());
            told.lagging += jobs.len();
            if !jobs.is_empty() {
                told.right_to = Some(0);
            }
        }
        if is_told {
            self.totals.1 = self.totals.1.saturating_sub(jobs.len() as u64);
        }
    }

    /// No loop of a refresh is under way, if one was.
    pub fn loop_ended(&mut self) {
        self.touching = None;
    }
}
