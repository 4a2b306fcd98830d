// SPDX-License-Identifier: LGPL-3.0-only
//! What the engine is told, and what is done about what it wants.

use super::{Answer, Host, URGENCY, id_of, number_of};
use crate::scheduler::Number;
use fairshare_engine::engine::{Effect, Event, State, Timer};

impl Host<'_> {
    pub(super) fn tell(&mut self, event: Event<'_>) -> Answer {
        let effects = self.engine.handle(self.now, event);
        self.apply(effects)
    }

    /// Carries out what the engine wants, in order; what comes of it is carried out before what is behind it.
    fn apply(&mut self, effects: Vec<Effect>) -> Answer {
        let mut answer = Answer::Nothing;
        let mut todo = vec![effects.into_iter()];
        while let Some(effects) = todo.last_mut() {
            let Some(effect) = effects.next() else {
                todo.pop();
                continue;
            };
            let more = match effect {
                Effect::Reject(_) => {
                    answer = Answer::Rejected;
                    continue;
                }
                Effect::SetPriority(priority) => {
                    answer = Answer::Priority(priority);
                    continue;
                }
                Effect::AskUrgency(id) => self.engine.handle(self.now, Event::Urgency(id, URGENCY)),
                Effect::ReadSiteNodes => self.engine.handle(self.now, Event::SiteNodes(Some(self.nodes))),
                Effect::ListEnded { .. } => self.engine.handle(self.now, Event::Ended(Some(Vec::new()))),
                Effect::Then(step) => self.engine.step(step),
                other => {
                    self.carry_out(other);
                    continue;
                }
            };
            todo.push(more.into_iter());
        }
        answer
    }

    /// Carries out what is to be done to jobs and timers.
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::RejectPolicy(text) => self.refused = Some(text),
            Effect::AddDependency(id, name) => {
                if let Some(active) = self.active.get_mut(&number_of(id)) {
                    active.holds.push(name);
                }
            }
            Effect::RemoveDependency(id, name) => {
                if let Some(active) = self.active.get_mut(&number_of(id)) {
                    active.holds.retain(|hold| *hold != name);
                    self.go_on(number_of(id));
                }
            }
            Effect::Prioritize(id, priority) => {
                self.set_priority(number_of(id), &Answer::Priority(priority));
            }
            Effect::ReprioritizeAll => {
                let asked = |state| matches!(state, State::Priority | State::Sched);
                let jobs = self.active.iter().filter(|(_, job)| asked(job.state));
                let jobs: Vec<Number> = jobs.map(|(number, _)| *number).collect();
                for number in jobs {
                    let answer = self.tell(Event::PriorityGet(id_of(number), URGENCY));
                    self.set_priority(number, &answer);
                }
            }
            Effect::Raise(id, _) => self.end(number_of(id)),
            Effect::Arm(Timer::Turn) => self.turns = true,
            // What posting costs Flux takes no time here.
            Effect::Arm(Timer::Slice) | Effect::ArmIn(Timer::Slice, _) => self.slices = true,
            Effect::ArmIn(Timer::Refresh, period) => self.refresh = Some((self.now + period, period)),
            // No job declares dependencies, none is read back, each names its bank, and nobody reads notes, logs and memos.
            _ => {}
        }
    }
}
