// SPDX-License-Identifier: LGPL-3.0-only
//! Data from the accounting database. It changes no job before the next reprioritize, only who is counted where.

use super::{Effect, Engine, Step, Timer};
use crate::accounts::{AssociationRecord, Book, Difference, Policy};
use crate::ids::{JobId, UserId};
use crate::limits::{Admission, Origin, Phase};
use crate::priority::Weighed;
use std::collections::BTreeSet;

impl Engine {
    pub(super) fn associations(&mut self, records: Vec<AssociationRecord>) -> Vec<Effect> {
        let users: BTreeSet<UserId> = records.iter().map(|record| record.association.user).collect();
        self.book.upsert(records, self.owner);
        let waiting: Vec<JobId> = users.into_iter().flat_map(|user| self.ledger.waiting_of(user)).collect();
        self.attach(waiting)
    }

    pub(super) fn policy(&mut self, policy: Policy) -> Vec<Effect> {
        self.replaced(|book| book.replace(policy))
    }

    pub(super) fn policy_commit(&mut self) -> Vec<Effect> {
        self.replaced(Book::commit)
    }

    fn replaced(&mut self, replace: impl FnOnce(&mut Book) -> Difference) -> Vec<Effect> {
        replace(&mut self.book);
        self.weigh();
        let waiting: Vec<JobId> = self.ledger.waiting().collect();
        let mut effects = self.attach(waiting);
        effects.extend(self.reprioritize());
        effects
    }

    /// What shows only when a push is committed concerns no job.
    pub(super) fn stage(&mut self, change: impl FnOnce(&mut Book)) -> Vec<Effect> {
        change(&mut self.book);
        Vec::new()
    }

    pub(super) fn configure(&mut self, change: impl FnOnce(&mut Book)) -> Vec<Effect> {
        change(&mut self.book);
        self.weigh();
        Vec::new()
    }

    /// The weights may have changed.
    fn weigh(&mut self) {
        self.weighed = Weighed::new(self.weighed.factors(), self.book.weights());
    }

    /// New prices for all, then whoever may go by the new data.
    pub(super) fn reprioritize(&mut self) -> Vec<Effect> {
        let mut effects = Engine::reprioritize_all();
        effects.push(Effect::Then(Step::ReleaseAll));
        effects
    }

    /// Flux's loop over its jobs, marked.
    pub(super) fn reprioritize_all() -> Vec<Effect> {
        vec![Effect::Then(Step::LoopBegins), Effect::ReprioritizeAll, Effect::Then(Step::LoopEnded)]
    }

    /// Counts waiting jobs whose association has come. They stay where they are until their next priority, but for those
    /// of the instance owner that a reprioritize passed over: his record comes after the reprioritize of the same push.
    fn attach(&mut self, waiting: Vec<JobId>) -> Vec<Effect> {
        let (mut effects, mut replayed) = (Vec::new(), Vec::new());
        for id in waiting {
            let Some(job) = self.ledger.job(id) else { continue };
            let found = self.book.find(job.user, job.bank.as_ref().map(|b| b.as_str()));
            let Some(association) = found else { continue };
            let is_owner = self.is_owner(job.user);
            if is_owner
                && job.admission == (Admission::Waiting { was_passed_over: true })
                && job.phase == Phase::Priority
            {
                self.due.unmoved.insert(id);
                effects = vec![Effect::Arm(Timer::Turn)];
            }
            // Whether a limit concerns it was not known when eventlogs were read.
            if job.origin == Origin::Replayed && matches!(job.phase, Phase::Priority | Phase::Sched) {
                replayed.push(id);
            }
            self.ledger.change(id, |job| job.admission = job.admission.moved_to(association));
            // The owner's record ends a push.
            if !is_owner {
                self.due.half_pushed.insert(association);
            }
        }
        effects.extend(self.read_eventlogs(replayed));
        effects
    }
}
