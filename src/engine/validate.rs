// SPDX-License-Identifier: LGPL-3.0-only
//! `job.validate`: may the job be accepted, or updated as shown? The order of the checks is part of the interface.

use super::{Effect, Engine, JobFacts, Level, State};
use crate::accounts::{Association, AssociationId};
use crate::ids::UserId;
use std::fmt::Display;

const UNCOUNTABLE: &str = "unable to count resources for job";

impl Engine {
    pub(super) fn validate(&mut self, facts: &JobFacts<'_>) -> Vec<Effect> {
        if let (true, Some(id)) = (facts.state != State::New, self.book.find(facts.user, facts.bank)) {
            self.ledger.meet(&self.book, id);
        }
        match self.rejection(facts) {
            Some(text) => match &facts.size {
                // The text is an interface; what is wrong with the size is for whoever looks into it.
                Err(error) if text == UNCOUNTABLE => {
                    let text = format!("job of uid {}: unable to count resources: {error}", facts.user);
                    vec![Effect::Log(Level::Debug, text), Effect::Reject(UNCOUNTABLE.to_owned())]
                }
                _ => vec![Effect::Reject(text)],
            },
            None => {
                // Nothing is counted yet: another plugin may still reject the job.
                if facts.state == State::New {
                    self.validated.insert(facts.id);
                }
                Vec::new()
            }
        }
    }

    fn rejection(&self, facts: &JobFacts<'_>) -> Option<String> {
        let uncountable = || facts.size.is_err().then(|| UNCOUNTABLE.to_owned());
        let Some(id) = self.book.find(facts.user, facts.bank) else {
            let text = || Some(Engine::unknown_association(facts.user));
            return if self.book.has_data() { text() } else { uncountable() };
        };
        let association = self.book.association(id)?;
        if !association.active {
            return Some("user/bank entry has been disabled from flux-accounting DB".to_owned());
        }
        let unknown_queue = facts.queue.filter(|q| self.book.queue(q).is_none());
        if let Some(queue) = unknown_queue.filter(|_| self.book.config().deny_unknown_queues) {
            return Some(format!(
                "queue \"{queue}\" is unknown to flux-accounting and deny-unknown-queues is enabled"
            ));
        }
        self.forbidden_queue(id, facts.queue)
            .or_else(|| self.forbidden_project(id, facts.project))
            .or_else(|| self.too_many_active(id, association, facts))
            .or_else(uncountable)
            .or_else(|| self.too_large(id, association, facts))
            .or_else(|| self.move_rejection(id, facts))
    }

    /// The text for a (user, bank) that is not in the data.
    pub(super) fn unknown_association(user: UserId) -> String {
        format!("cannot find user/bank or user/default bank entry for uid: {user}")
    }

    /// The rejection of a queue the site has but the association may not use. The instance owner's record, where a push
    /// makes one up, lists no queue because none is to be closed to him.
    pub(super) fn forbidden_queue(&self, association: AssociationId, queue: Option<&str>) -> Option<String> {
        let queue = queue.filter(|q| self.book.queue(q).is_some())?;
        let association = self.book.association(association)?;
        let is_made_up = self.is_owner(association.user) && association.queues.is_empty();
        if is_made_up || association.permits_queue(queue) {
            return None;
        }
        let valid = joined(&association.queues);
        Some(format!("queue \"{queue}\" not valid for user; valid queues for user: {valid}"))
    }

    /// The rejection of a project the association may not charge.
    pub(super) fn forbidden_project(
        &self,
        association: AssociationId,
        project: Option<&str>,
    ) -> Option<String> {
        let (project, association) = (project?, self.book.association(association)?);
        let is_known = self.book.has_project(project) || association.is_default_project(project);
        if is_known && association.permits_project(project) {
            return None;
        }
        let valid = joined(&association.projects);
        Some(format!("project \"{project}\" not valid for user; valid projects for user: {valid}"))
    }

    fn too_many_active(
        &self,
        id: AssociationId,
        association: &Association,
        facts: &JobFacts<'_>,
    ) -> Option<String> {
        let active = self.ledger.usage(id).map_or(0, |usage| usage.active_jobs);
        let is_rejected = facts.state == State::New && association.is_full(active);
        is_rejected.then(|| "user has max active jobs".to_owned())
    }

    fn too_large(
        &self,
        id: AssociationId,
        association: &Association,
        facts: &JobFacts<'_>,
    ) -> Option<String> {
        let size = *facts.size.as_ref().ok()?;
        let queue = facts.queue.and_then(|q| self.book.queue(q));
        let by_records =
            self.ledger.rules().all().find_map(|(_, rule)| rule.rejection(association, queue, size));
        by_records.or_else(|| self.ledger.rejection_over_scopes(&self.book, id, facts.queue, size))
    }
}

fn joined<T: Display>(names: &[T]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
