// SPDX-License-Identifier: LGPL-3.0-only
//! Other plugins' dependencies: who keeps a job in DEPEND, and what happens when they let it go.
//!
//! Flux tells of a job's events only who subscribed to it, and searches the list of subscriptions from the front for
//! every one that is given back. So a job is subscribed to while others may keep it, from NEW to the end of DEPEND, and no longer:
//! at once if its jobspec declares dependencies, else when it turns out to stay in DEPEND without a name of ours.
//!
//! And not more than [`Batches::subscribed`](super::Batches) are at a time: anybody may have any number of jobs wait for others, or for a time to begin. Of
//! the rest nobody tells when they are let go. None of them gets a name of ours, by which it would stand in line for ever as one that
//! others keep; one that carries some, from before a reload, stands there as if nobody else kept it. When it is let go it
//! is in PRIORITY, and is judged there: it goes no further before there is room.

use super::foreign::ForeignNames;
use super::{Effect, Engine, State};
use crate::engine::View;
use crate::ids::JobId;
use crate::limits::{Grant, Job, Keepers, Line, Phase};

impl Engine {
    /// Subscribes to a job that declares dependencies, before other plugins see them.
    pub(super) fn created(&mut self, id: JobId, state: State, has_dependencies: bool) -> Vec<Effect> {
        let others = match state {
            State::New => ForeignNames::of_new(),
            State::Depend => ForeignNames::unknown(),
            _ => return Vec::new(),
        };
        if !has_dependencies {
            return Vec::new();
        }
        self.subscribe(id, others).unwrap_or_default()
    }

    /// Subscribes to a job that others keep, and has its eventlog tell by which names.
    pub(super) fn watch(&mut self, id: JobId) -> Vec<Effect> {
        if self.foreign.contains_key(&id) {
            return Vec::new();
        }
        let Some(mut effects) = self.subscribe(id, ForeignNames::unknown()) else { return Vec::new() };
        self.ledger.change(id, |job| job.keepers = Keepers::Others);
        self.note_eligible(id, None);
        effects.push(Effect::ReadEventlog(id));
        effects
    }

    fn subscribe(&mut self, id: JobId, others: ForeignNames) -> Option<Vec<Effect>> {
        if self.foreign.len() >= self.batches.subscribed {
            self.leave_unwatched(id);
            return None;
        }
        self.unwatched.remove(&id);
        self.foreign.insert(id, others);
        let is_heard = self.heard.remove(&id);
        Some(if is_heard { Vec::new() } else { vec![Effect::Subscribe(id)] })
    }

    /// Subscribes to overtaken jobs: of an urgency that changes in DEPEND or PRIORITY Flux tells nobody else. It may have changed before,
    /// so it is asked for once.
    pub(super) fn hear_of_overtaken(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in self.ledger.take_newly_protected() {
            let is_subscribed = self.foreign.contains_key(&id) || self.heard.contains(&id);
            if !is_subscribed && self.heard.len() < self.batches.subscribed {
                self.heard.insert(id);
                effects.push(Effect::Subscribe(id));
            }
            effects.push(Effect::AskUrgency(id));
        }
        effects
    }

    /// Nobody tells when others let the job go. That they keep it now counts for its age and for what is told, where it is in no line.
    pub(super) fn leave_unwatched(&mut self, id: JobId) {
        self.unwatched.insert(id);
        self.ledger.change(id, |job| {
            let is_ours = !job.names.outstanding().is_empty();
            job.keepers = if is_ours { Keepers::NobodyElse } else { Keepers::Others };
        });
        self.note_eligible(id, None);
    }

    /// Gives the subscription back: the job is leaving DEPEND.
    pub(super) fn unwatch(&mut self, id: JobId) -> Option<Effect> {
        self.due.unheld.remove(&id);
        self.unwatched.remove(&id);
        let was_subscribed = self.foreign.remove(&id).is_some() | self.heard.remove(&id);
        was_subscribed.then_some(Effect::Unsubscribe(id))
    }

    /// Flux moves a job on from DEPEND in the same turn if nobody keeps it. Who is still there is kept by others.
    pub(super) fn discover(&mut self) -> Vec<Effect> {
        let is_here = |job: &Job| job.phase == Phase::Depend;
        let unheld = std::mem::take(&mut self.due.unheld);
        unheld
            .into_iter()
            .flat_map(|id| match self.ledger.job(id).is_some_and(is_here) {
                true => self.watch(id),
                false => Vec::new(),
            })
            .collect()
    }

    /// A dependency of the job was added or removed.
    pub(super) fn dependency(&mut self, id: JobId, name: &str, added: bool) -> Vec<Effect> {
        if self.ledger.rules().parse(name).is_some() {
            return Vec::new();
        }
        let Some(others) = self.foreign.get_mut(&id) else { return Vec::new() };
        others.note(name, added);
        let may_go = !added && others.know_none();
        let mut effects = self.note_keepers(id);
        effects.extend(may_go.then(|| self.judge(id)).into_iter().flatten());
        effects
    }

    /// Takes over whether others keep the job. When they have let it go and only our names are left, it may go in the
    /// next reactor turn: the running callback is the job's own.
    pub(super) fn note_keepers(&mut self, id: JobId) -> Vec<Effect> {
        let keepers = other_keepers_of(&self.view(), id);
        let Some(job) = self.ledger.job(id).filter(|job| job.keepers != keepers) else {
            return Vec::new();
        };
        let (association, is_held) = (job.association(), job.is_held());
        self.ledger.change(id, |job| job.keepers = keepers);
        self.note_eligible(id, None);
        match association {
            Some(association) if keepers == Keepers::NobodyElse && is_held => {
                self.due.scan_later(association, Line::KeptByNobodyElse)
            }
            _ => Vec::new(),
        }
    }

    /// Others let go of a job that carries no name of ours: this may have been their last, and the job goes on when the
    /// running callback is over. What counts is what the limits say now, whatever they said when it came, or when it
    /// was released. Of all the dependents of one job, that is after those that were let go before it.
    fn judge(&mut self, id: JobId) -> Vec<Effect> {
        let Some(job) = self.ledger.job(id).filter(|job| job.is_up_to_others()) else { return Vec::new() };
        // What a pass under way has just promised to it is counted already.
        if job.grant == Grant::Given { Vec::new() } else { self.hold(id) }
    }
}

/// Who else keeps the job, as far as is known.
pub(super) fn other_keepers_of(view: &View<'_>, id: JobId) -> Keepers {
    match view.foreign.get(&id) {
        Some(others) if others.keep_it() => Keepers::Others,
        None if view.unwatched.contains(&id) => Keepers::Others,
        _ => Keepers::NobodyElse,
    }
}
