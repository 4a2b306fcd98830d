// SPDX-License-Identifier: LGPL-3.0-only
//! After a panic: what the engine believes of its jobs is compared with Flux.
//!
//! A panic may come in the middle of effects, so that Flux never heard of decisions that are booked, and it loses
//! whatever the call was to tell. So each job that is known is looked up in Flux, some in every reactor turn, and taken
//! in again as a job that is replayed, with names from its eventlog; what Flux does not have any more is forgotten.
//! Until then nothing is released. Then Flux asks for all prices.

use super::foreign::ForeignNames;
use super::{Effect, Engine, JobFacts, Level, Refusal, State, Timer};
use crate::engine::age::lacks_site_nodes;
use crate::engine::life;
use crate::engine::live::accrual;
use crate::engine::live::ended;
use crate::engine::pushes::reprioritize_all;
use crate::ids::JobId;
use crate::limits::Job;
use std::collections::BTreeSet;

/// Jobs that are looked up in one reactor turn.
const SLICE: usize = 250;
/// Panics in a row that are answered so. One that comes each time must not keep the reactor busy for ever.
const TRIES: u8 = 3;

/// What is still to be compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Resync {
    due: Vec<JobId>,
    /// Those of this turn.
    in_hand: Vec<JobId>,
    /// Those whose calls panicked; they may not be known at all.
    suspects: BTreeSet<JobId>,
    /// Panics since all was known for the last time.
    panics: u8,
    /// It was begun after the last of them.
    is_begun: bool,
}

impl Resync {
    /// Returns true if a call panicked and jobs were not compared with Flux since.
    pub fn is_doubtful(&self) -> bool {
        self.panics > 0
    }

    /// Whether jobs are still to be looked up.
    pub fn is_on(&self) -> bool {
        !(self.due.is_empty() && self.in_hand.is_empty())
    }

    /// Whether jobs were compared with Flux since the last panic, each of them.
    pub fn is_over(&self) -> bool {
        self.is_begun && !self.is_on()
    }

    /// Whatever was begun is known again.
    pub fn ended(&mut self) {
        if self.is_over() {
            *self = Resync::default();
        }
    }
}

impl Engine {
    /// A call was cut short. `id` is the job it was about.
    ///
    /// All is recounted in this turn, not a slice of the jobs in each turn as they are looked up: the panic may have come
    /// between the two halves of a change, so that any counter may be wrong, and the very next callback decides by them
    /// whom to hold and whom to refuse. It is one insertion in memory for each job, without a call to Flux, once for each
    /// call that panics (`cargo bench --bench scale` has the figure).
    pub(super) fn panicked(&mut self, id: Option<JobId>) -> Vec<Effect> {
        self.resync.panics = self.resync.panics.saturating_add(1);
        self.shared.ledger.recount();
        if let Some(id) = id {
            self.resync.suspects.insert(id);
            // Whether it was told is not known.
            self.shared.ledger.change(id, |job| job.memo = None);
        }
        let mut effects = if self.resync.panics > TRIES { self.give_up() } else { self.compare() };
        effects.extend(self.asked_in_vain());
        effects
    }

    /// With the call all was lost that others were asked for, and every timer that it was to arm.
    fn asked_in_vain(&mut self) -> Vec<Effect> {
        self.shared.queues.ask_again();
        let mut effects = ended::listed(&mut self.shared, None);
        effects.extend(self.refresh_after_panic());
        effects.extend(lacks_site_nodes(&self.shared).map(|_| Effect::Arm(Timer::Retry)));
        effects
    }

    /// Has all jobs compared with Flux.
    fn compare(&mut self) -> Vec<Effect> {
        self.resync.is_begun = true;
        self.resync.suspects.extend(self.resync.in_hand.drain(..));
        let suspects = self.resync.suspects.iter().copied();
        self.resync.due = self.shared.ledger.jobs().map(|(id, _)| id).chain(suspects).collect();
        vec![Effect::Arm(Timer::Turn)]
    }

    /// Nothing is in the way of trying once more.
    pub(super) fn try_again(&mut self) -> Vec<Effect> {
        if self.resync.panics <= TRIES || self.resync.is_on() {
            return Vec::new();
        }
        self.resync.panics = TRIES;
        self.compare()
    }

    /// It panics again and again: the jobs stay as they are believed to be, and no read is waited for.
    fn give_up(&mut self) -> Vec<Effect> {
        self.resync.is_begun = false;
        self.resync.due.clear();
        self.resync.suspects.extend(self.resync.in_hand.drain(..));
        let text =
            "jobs could not be compared with Flux's; this is tried again at the next request".to_owned();
        let mut effects = vec![Effect::Log(Level::Error, text)];
        let unread: Vec<JobId> =
            self.shared.ledger.jobs().filter(|(_, job)| job.is_unread()).map(|(id, _)| id).collect();
        for id in unread {
            effects.extend(self.eventlog(id, None));
            effects.extend(self.scan_noted());
        }
        effects
    }

    /// The next jobs to be looked up; `None` if there are none.
    pub(super) fn resync_step(&mut self) -> Option<Vec<Effect>> {
        if self.resync.due.is_empty() {
            return None;
        }
        let rest = self.resync.due.len().saturating_sub(SLICE);
        let slice = self.resync.due.split_off(rest);
        self.resync.in_hand.clone_from(&slice);
        let mut effects: Vec<Effect> = slice.into_iter().map(Effect::LookUp).collect();
        if rest == 0 {
            // What was to be told about prices may be lost, and that a push is over. And then what follows a replay.
            self.shared.due.half_pushed.clear();
            self.replay.begin();
            self.shared.live.stale.forget();
            effects.extend(reprioritize_all());
        }
        effects.push(Effect::Arm(Timer::Turn));
        Some(effects)
    }

    /// A job as Flux has it now.
    pub(super) fn shown(&mut self, facts: &JobFacts<'_>) -> Vec<Effect> {
        let memo = self.shared.ledger.job(facts.id).and_then(|job| job.memo);
        let is_over = facts.state == State::Inactive;
        let mut effects =
            if is_over { accrual::ended_unheard(&mut self.shared, facts.id) } else { Vec::new() };
        self.take_out(facts.id);
        effects.extend(self.watch_anew(facts.id, facts.state));
        if !is_over {
            effects.extend(self.new_job(facts));
            self.shared.ledger.annotate(facts.id, memo);
        }
        self.resync.in_hand.retain(|other| *other != facts.id);
        effects.extend(self.shared.expirations.follow(
            &self.shared.ledger,
            facts.id,
            facts.state == State::Run,
        ));
        effects
    }

    /// Whether we are subscribed to the job is not known: Flux takes that as often as it is asked, so it is given back
    /// and asked for once. What others did meanwhile is in the eventlog.
    fn watch_anew(&mut self, id: JobId, state: State) -> Vec<Effect> {
        let others = self.shared.subscriptions.take_names(id);
        self.shared.expirations.forget(id);
        if state > State::Depend {
            self.shared.subscriptions.clear_unwatched(id);
        }
        let mut effects = vec![Effect::Unsubscribe(id)];
        let others = match (others, state) {
            (Some(others), State::New) => others,
            (Some(_), State::Depend) => ForeignNames::unknown(),
            _ => return effects,
        };
        self.shared.subscriptions.put_back(id, others);
        effects.push(Effect::Subscribe(id));
        effects
    }

    /// A job could not be looked up. Most likely it has ended.
    pub(super) fn not_shown(&mut self, id: JobId, why: &Refusal) -> Vec<Effect> {
        self.resync.in_hand.retain(|other| *other != id);
        if let Refusal::Other(text) = why {
            let mut effects =
                vec![Effect::Log(Level::Error, format!("job {id}: failed to look it up: {text}"))];
            // Who was to read its eventlog went with the panic.
            let is_unread = self.shared.ledger.job(id).is_some_and(Job::is_unread);
            effects.extend(is_unread.then_some(Effect::ReadEventlog(id)));
            return effects;
        }
        let mut effects = accrual::ended_unheard(&mut self.shared, id);
        effects.extend(self.shared.expirations.follow(&self.shared.ledger, id, false));
        self.take_out(id);
        self.shared.subscriptions.end_unheard(id);
        effects
    }

    fn take_out(&mut self, id: JobId) {
        self.validated.remove(&id);
        self.unreadable.remove(&id);
        life::forget(&mut self.shared, id);
        if let Some(job) = self.shared.ledger.remove(id) {
            self.forget_unasked(id, job.association(), job.queue.as_ref());
        }
    }
}
