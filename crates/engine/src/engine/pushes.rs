// SPDX-License-Identifier: LGPL-3.0-only
//! Data from the accounting database. It changes no job before the next reprioritize, only who is counted where.

use super::due::Scan;
use super::step::reprioritize_all;
use super::{Effect, Engine, Level, Step, Timer};
use crate::accounts::{AssociationId, AssociationRecord, Book, Difference, Policy, PolicyPart, TreeChange};
use crate::engine::age;
use crate::engine::live::accrual;
use crate::ids::{JobId, UserId};
use crate::limits::{Admission, Origin, Phase};
use crate::standing::{Draft, SharedIds, SiteChange, SitePart};
use std::collections::BTreeSet;

impl Engine {
    pub(super) fn associations(&mut self, records: Vec<AssociationRecord>) -> Vec<Effect> {
        // Most pushes serve nobody who waits, and bring many.
        let who_wait: BTreeSet<UserId> = self.shared.ledger.waiting_users().collect();
        let users = records.iter().map(|record| record.association.user);
        let served: BTreeSet<UserId> = users.filter(|user| who_wait.contains(user)).collect();
        let is_over = self.shared.due.push_ended;
        self.shared.due.push_ended &=
            records.iter().all(|record| self.shared.is_owner(record.association.user));
        self.shared.book.upsert(records, self.shared.owner);
        self.shared.due.limits_moved = true;
        self.shared.ledger.prices_moved();
        let jobs: Vec<JobId> =
            served.into_iter().flat_map(|user| self.shared.ledger.waiting_of(user)).collect();
        let effects = self.attach(jobs);
        if is_over {
            self.owner_pushed();
        }
        effects
    }

    /// The owner's record comes last in a push of flux-accounting's, after the reprioritize that ends it: whoever that released was
    /// released without his jobs, which had no association yet.
    fn owner_pushed(&mut self) {
        let is_owners = |id: &AssociationId| {
            self.shared
                .book
                .association(*id)
                .is_some_and(|association| self.shared.is_owner(association.user))
        };
        let due: Vec<AssociationId> = self.shared.due.half_pushed.iter().copied().filter(is_owners).collect();
        for association in due {
            self.shared.due.half_pushed.remove(&association);
            // Where eventlogs are still being read this is decided when they are read.
            if self.shared.ledger.is_unread(association) {
                self.shared.due.unjudged.insert(association);
            } else {
                self.shared.due.scan(association);
                self.shared.due.scans.push(Scan::HoldReplayed(association));
            }
        }
    }

    pub(super) fn policy(&mut self, policy: Policy, site: SitePart) -> Vec<Effect> {
        // It takes the place of an open push.
        self.abandon_draft();
        let mut draft = Draft::default();
        draft.absorb(site, &mut self.shared.standing);
        self.replaced(draft, |book| book.replace(policy))
    }

    pub(super) fn policy_commit(&mut self) -> Vec<Effect> {
        let draft = std::mem::take(&mut self.draft);
        self.replaced(draft, Book::commit)
    }

    /// Puts a whole policy in force. A tree that can't be right rejects all of it.
    fn replaced(&mut self, draft: Draft, replace: impl FnOnce(&mut Book) -> Difference) -> Vec<Effect> {
        match self.shared.standing.push_draft(draft, self.shared.settings.accrual) {
            Ok(change) => {
                self.note_site_change(&change);
                let rules = usize::from(change.policy) + usize::from(change.accounting);
                let SiteChange { associations, banks, .. } = change;
                self.shared.book.note_tree(TreeChange { associations, banks, rules });
            }
            Err(fault) => {
                self.shared.book.abort();
                return vec![Effect::RejectPolicy(fault.to_string())];
            }
        }
        replace(&mut self.shared.book);
        (self.shared.due.push_ended, self.shared.due.limits_moved) = (true, true);
        self.shared.ledger.regroup(&self.shared.book);
        let mut effects = self.weigh();
        effects.extend(
            self.shared.standing.shared_ids().map(|shared| Effect::Log(Level::Warning, told_of(shared))),
        );
        let waiting: Vec<JobId> = self.shared.ledger.waiting().collect();
        effects.extend(self.attach(waiting));
        effects.extend(if self.shared.is_live() { self.pushed_tree() } else { self.reprioritize() });
        effects
    }

    pub(super) fn begin(&mut self, keeps_config: bool) -> Vec<Effect> {
        self.abandon_draft();
        self.shared.book.begin(keeps_config);
        Vec::new()
    }

    /// What shows only when a push is committed concerns no job.
    pub(super) fn stage(&mut self, part: PolicyPart, site: SitePart) -> Vec<Effect> {
        self.draft.absorb(site, &mut self.shared.standing);
        self.shared.book.stage(part);
        Vec::new()
    }

    pub(super) fn abort(&mut self) -> Vec<Effect> {
        self.abandon_draft();
        self.shared.book.abort();
        Vec::new()
    }

    /// What came of a push goes with it, the cells of associations that came first with it included.
    fn abandon_draft(&mut self) {
        if !std::mem::take(&mut self.draft).is_empty() {
            self.shared.standing.tidy();
        }
    }

    pub(super) fn configure(&mut self, change: impl FnOnce(&mut Book)) -> Vec<Effect> {
        (self.shared.due.push_ended, self.shared.due.limits_moved) = (false, true);
        change(&mut self.shared.book);
        self.weigh()
    }

    /// New prices for all, then whoever may go by the new data.
    pub(super) fn reprioritize(&mut self) -> Vec<Effect> {
        self.shared.due.push_ended = true;
        if self.shared.is_live() {
            return self.refresh_on_request();
        }
        age::move_reference(&mut self.shared);
        self.forget_terms();
        let mut effects = reprioritize_all();
        effects.push(Effect::Then(Step::ReleaseAll));
        effects
    }

    /// Counts waiting jobs whose association has come. They stay where they are until their next priority, but for those
    /// of the instance owner that a reprioritize passed over: his record comes after the reprioritize of the same push.
    fn attach(&mut self, waiting: Vec<JobId>) -> Vec<Effect> {
        let (mut effects, mut replayed) = (Vec::new(), Vec::new());
        for id in waiting {
            let Some(job) = self.shared.ledger.job(id) else { continue };
            let found = self.shared.book.find(job.user, job.bank.as_ref().map(|b| b.as_str()));
            let Some(association) = found else { continue };
            let is_owner = self.shared.is_owner(job.user);
            let was_passed_over = job.admission == (Admission::Waiting { was_passed_over: true });
            if is_owner && was_passed_over && self.shared.unpriced.contains(&id) {
                self.shared.due.unmoved.insert(id);
                effects.push(Effect::Arm(Timer::Turn));
            }
            if job.origin == Origin::Replayed {
                self.shared.due.half_pushed.insert(association);
                // Whether a limit concerns it was not known when eventlogs were read.
                replayed.extend(matches!(job.phase, Phase::Priority | Phase::Sched).then_some(id));
            }
            self.shared.ledger.meet(&self.shared.book, association);
            self.shared.ledger.change(id, |job| job.admission = job.admission.moved_to(association));
            effects.extend(accrual::accrues(&mut self.shared, id));
        }
        effects.extend(self.recovery.read_eventlogs(&mut self.shared, replayed));
        self.recovery.all_may_be_known(&mut self.shared);
        effects
    }
}

/// The log line about leaves whose user id another leaf of their bank has, too.
fn told_of(SharedIds { leaves, example: (name, user, bank), counts_in }: &SharedIds) -> String {
    let more = match leaves - 1 {
        0 => String::new(),
        1 => "; 1 more user shares an id like that".to_owned(),
        more => format!("; {more} more users share an id like that"),
    };
    format!(
        "{name} and {counts_in} have user id {user} in bank {bank}: jobs of that id go by the last record, that of \
         {counts_in}{more}"
    )
}
