// SPDX-License-Identifier: LGPL-3.0-only
//! Passes: held jobs that may go, one after another.

use super::{Effect, Engine, Event};
use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::{Grant, Line, Phase, Released, Walk};
use crate::priority::URGENCY_HOLD;

/// A pass under way. A job that is freed goes before the next one is decided upon: only then is it known whether it
/// needs a place to run (its urgency may be 0 by now), and what its callbacks changed.
#[derive(Clone, Debug)]
pub struct Pass {
    walk: Walk,
    freed: Vec<JobId>,
}

impl Engine {
    /// Releases whoever may go in one association.
    pub(super) fn pass(&mut self, association: AssociationId) -> Vec<Effect> {
        self.pass_along(association, Line::All)
    }

    pub(super) fn pass_along(&mut self, association: AssociationId, line: Line) -> Vec<Effect> {
        self.pass_on(Pass { walk: self.ledger.walk(association, line), freed: Vec::new() })
    }

    pub(super) fn release_all(&mut self) -> Vec<Effect> {
        let associations: Vec<AssociationId> = self.ledger.in_line().collect();
        associations.into_iter().flat_map(|association| self.pass(association)).collect()
    }

    pub(super) fn pass_on(&mut self, mut pass: Pass) -> Vec<Effect> {
        if self.resync.is_on() {
            return Vec::new();
        }
        let mut effects = Vec::new();
        while let Some(Released { id, names, is_free }) = self.ledger.release_next(&self.book, &mut pass.walk)
        {
            effects.extend(is_free.then_some(Effect::AskUrgency(id)));
            effects.extend(names.into_iter().map(|name| Effect::RemoveDependency(id, name)));
            if is_free {
                pass.freed.push(id);
                effects.push(Effect::Then(Event::PassOn(pass)));
                return effects;
            }
        }
        effects.extend(self.pass_ended(&pass));
        effects
    }

    pub(super) fn told_urgency(&mut self, id: JobId, urgency: i64) -> Vec<Effect> {
        if urgency == URGENCY_HOLD {
            self.ledger.change(id, |job| job.is_urgency_hold = true);
        }
        Vec::new()
    }

    /// A job that was freed and did not move is kept in DEPEND by others. Its reservation, which held back later jobs
    /// of this pass, ends: it may stay there for days. If that was not known, it went before jobs that nobody else
    /// keeps: in the next reactor turn they may take its place.
    fn pass_ended(&mut self, pass: &Pass) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in &pass.freed {
            let Some(job) = self.ledger.job(*id) else { continue };
            if job.phase == Phase::Depend && job.grant == Grant::Given {
                if !job.is_kept_by_others {
                    self.passed_over.extend(job.association);
                    effects = vec![Effect::Defer];
                }
                self.ledger.change(*id, |job| job.grant = Grant::Blocked);
            }
        }
        effects.extend(self.withdraw_grants(pass.walk.association()));
        effects
    }

    /// Others may have filled a limit while a granted job was kept in DEPEND: it is held again, under fresh names.
    pub(super) fn withdraw_grants(&mut self, association: AssociationId) -> Vec<Effect> {
        let blocked = self.ledger.blocked(association);
        blocked.into_iter().flat_map(|id| self.hold(id)).collect()
    }

    /// Adds a name for every limit that the job, in DEPEND, would exceed now.
    pub(super) fn hold(&mut self, id: JobId) -> Vec<Effect> {
        let exceeded = self.ledger.exceeded_by(&self.book, id);
        if exceeded.is_empty() {
            return Vec::new();
        }
        let names = self.ledger.change(id, |job| {
            job.grant = Grant::None;
            exceeded.iter().filter_map(|hold| job.names.add(hold)).collect::<Vec<_>>()
        });
        names.unwrap_or_default().into_iter().map(|name| Effect::AddDependency(id, name)).collect()
    }
}
