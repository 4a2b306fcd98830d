// SPDX-License-Identifier: LGPL-3.0-only
//! Sends events to the engine and carries out its effects.

use super::{Answer, DEFAULT_URGENCY, Host, to_id, to_job_index};
use crate::scheduler::JobIndex;
use fairshare_engine::engine::{Effect, Event, State, Timer};

impl Host<'_> {
    pub(super) fn send_event(&mut self, event: Event<'_>) -> Answer {
        let effects = self.engine.handle(self.now, event);
        self.apply_effects(effects)
    }

    /// Carries out effects in order. The effects that follow from an effect precede the remaining ones.
    fn apply_effects(&mut self, effects: Vec<Effect>) -> Answer {
        let mut answer = Answer::Nothing;
        let mut stack = vec![effects.into_iter()];
        while let Some(effects) = stack.last_mut() {
            let Some(effect) = effects.next() else {
                stack.pop();
                continue;
            };
            let following = match effect {
                Effect::Reject(_) => {
                    answer = Answer::Rejected;
                    continue;
                }
                Effect::SetPriority(priority) => {
                    answer = Answer::Priority(priority);
                    continue;
                }
                Effect::AskUrgency(id) => self.engine.handle(self.now, Event::Urgency(id, DEFAULT_URGENCY)),
                Effect::ReadSiteNodes => self.engine.handle(self.now, Event::SiteNodes(Some(self.nodes))),
                Effect::ListEnded { .. } => self.engine.handle(self.now, Event::Ended(Some(Vec::new()))),
                Effect::Then(step) => self.engine.execute_step(step),
                other => {
                    self.apply_effect(other);
                    continue;
                }
            };
            stack.push(following.into_iter());
        }
        answer
    }

    /// Carries out an effect on jobs or timers.
    fn apply_effect(&mut self, effect: Effect) {
        match effect {
            Effect::RejectPush(text) => self.refused = Some(text),
            Effect::AddDependency(id, name) => {
                if let Some(active) = self.active.get_mut(&to_job_index(id)) {
                    active.holds.push(name);
                }
            }
            Effect::RemoveDependency(id, name) => {
                if let Some(active) = self.active.get_mut(&to_job_index(id)) {
                    active.holds.retain(|hold| *hold != name);
                    self.move_job_out_of_depend(to_job_index(id));
                }
            }
            Effect::Prioritize(id, priority) => {
                self.set_priority(to_job_index(id), &Answer::Priority(priority));
            }
            Effect::ReprioritizeAll => {
                let has_priority = |state| matches!(state, State::Priority | State::Sched);
                let jobs = self.active.iter().filter(|(_, job)| has_priority(job.state));
                let jobs: Vec<JobIndex> = jobs.map(|(number, _)| *number).collect();
                for number in jobs {
                    let answer = self.send_event(Event::PriorityGet(to_id(number), DEFAULT_URGENCY));
                    self.set_priority(number, &answer);
                }
            }
            Effect::Raise(id, _) => self.end_job(to_job_index(id)),
            Effect::Arm(Timer::ReactorTurn) => self.turns = true,
            // Posting priorities takes no time in a simulation.
            Effect::Arm(Timer::Slice) | Effect::ArmIn(Timer::Slice, _) => self.slices = true,
            Effect::ArmIn(Timer::TimeLeft, _) => self.updates_time_left = true,
            Effect::ArmIn(Timer::Refresh, period) => self.refresh = Some((self.now + period, period)),
            // The other effects do not matter here: jobs have no dependencies and all name their bank, and notes, logs
            // and memos are not read.
            _ => {}
        }
    }
}
