// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that are held in PRIORITY: limits came to concern them when they were past DEPEND.
//!
//! Flux takes a dependency only in NEW and DEPEND. What keeps a job in PRIORITY is that it is given no price: asked for one, the
//! plugin says that there is none, and Flux leaves the job alone until it is given one by id. So a job that waits for data, that a
//! restart finds in PRIORITY, that an update moves into a full place, or that wakes when its place to run is taken, stands in line
//! there ([`Grant::Awaited`](crate::limits::Grant)), and a pass releases it like any other held job.
//!
//! A job in SCHED stays there whatever the limits say: to `job.priority.get` Flux takes no such answer of it, but logs an error
//! and leaves it as it is. It goes back to PRIORITY, and may be held there, only when its urgency or its jobspec changes.

use super::price::Completion;
use super::{Effect, Engine, Posting, Timer};
use crate::accounts::{AssociationId, RunningLimits};
use crate::ids::{JobId, Stage};
use crate::limits::{Demand, Holding, Job, Phase, Rule, rows_of_queues};

impl Engine {
    /// The answer for a job that is held in PRIORITY: it has no price before its turn comes.
    pub(super) fn stays(&mut self, id: JobId, answer: Effect) -> Vec<Effect> {
        match self.admit(id, Completion::Now(Posting::Current)) {
            Ok(mut effects) => {
                effects.push(answer);
                effects.extend(self.annotation(id));
                effects
            }
            Err(pending) => self.unpriced(id, pending, Some(answer)),
        }
    }

    /// A job in PRIORITY has no price, for whatever reason, and waits there for its turn.
    pub(super) fn stays_in_priority(&mut self, id: JobId) {
        if self.ledger.job(id).is_some_and(|job| job.phase == Phase::Priority) {
            self.ledger.change(id, Job::await_room);
        }
    }

    /// By the strict rule a job that rested, and would be scheduled now, may find that its place to run is taken: then it
    /// goes no further than PRIORITY. Flux asks for every job: of one that did not rest this is known at once.
    pub(super) fn wakes_too_late(&self, id: JobId, job: &Job, urgency: i64) -> bool {
        let is_full = |hold: &Holding| hold.amount.stage == Stage::Running;
        (job.phase, job.demand, job.running) == (Phase::Sched, Demand::Resting, RunningLimits::Strict)
            && self.explain(id, job, urgency).is_some_and(|it| it.priority > 0)
            && self.ledger.holding(&self.book, id).iter().any(is_full)
    }

    /// A job that was in SCHED stays in PRIORITY, where Flux has it now, and gives up what it had.
    pub(super) fn take_back(&mut self, id: JobId) {
        self.ledger.change(id, Job::await_room);
        self.live.forget(id);
    }

    /// A job that is still in SCHED, at priority 0, and wakes too late. Flux takes it to PRIORITY only for an update: it gets
    /// one that changes nothing, in the next reactor turn, and until then no price.
    pub(super) fn send_round_later(&mut self, id: JobId) -> Effect {
        self.due.sent_round.insert(id);
        Effect::Arm(Timer::Turn)
    }

    /// Sends jobs from SCHED to PRIORITY.
    pub(super) fn send_round(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in std::mem::take(&mut self.due.sent_round) {
            let Some(job) = self.ledger.job(id).filter(|job| job.phase == Phase::Sched) else { continue };
            let bank =
                job.association().and_then(|id| self.book.association(id)).map(|known| known.bank.clone());
            effects.push(Effect::SetJobspec { id, posting: Posting::ById, bank, project: None });
        }
        effects
    }

    /// A job that an update takes from SCHED to PRIORITY, and into a full place, goes no further until there is room. What
    /// it counted in before is no matter: of the limits of its association only if that is another one, or if it counts by
    /// another rule.
    pub(super) fn take_back_moved(&mut self, id: JobId, former: Option<AssociationId>, is_all: bool) -> bool {
        let is_scheduled = |job: &Job| job.phase == Phase::Sched && former.is_some();
        let of_queue = self.ledger.rules().select(Rule::is_of_queue).or(rows_of_queues());
        let is_new = |hold: &Holding| is_all || of_queue.contains(hold.hold);
        let is_late = self.ledger.job(id).is_some_and(is_scheduled)
            && self.ledger.holding(&self.book, id).iter().any(is_new);
        if is_late {
            self.take_back(id);
        }
        is_late
    }
}
