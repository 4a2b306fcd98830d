// SPDX-License-Identifier: LGPL-3.0-only
//! Whether queues are started and enabled: only the job manager knows, and it says so when it is asked.

use fairshare_engine::engine::QueueTold;
use fairshare_engine::ids::QueueName;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What was told is good for so many seconds.
const FRESH: f64 = 1.0;
/// So many queues are remembered.
const MOST_KNOWN: usize = 1000;

/// The name of a queue; `None` for that without a name.
pub(super) type Name = Option<String>;

/// How a queue is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct QueueState {
    /// Whether jobs are accepted.
    pub enable: bool,
    /// Why not.
    pub disable_reason: Option<String>,
    /// Whether jobs are scheduled.
    pub start: bool,
    /// Why not.
    pub stop_reason: Option<String>,
    /// The queue whose resources a virtual queue uses.
    pub parent: Option<String>,
    /// What keeps the jobs of a queue that is started from the scheduler: `scheduler` or `parent`.
    pub blocked: Option<String>,
}

impl QueueState {
    pub fn read(reply: &str) -> Option<QueueState> {
        serde_json::from_str(reply).ok()
    }

    /// Whether the queue is stopped, or the queue that it is a part of; `None` while no scheduler is loaded: then Flux reports every queue
    /// as not started.
    fn is_stopped(&self) -> Option<bool> {
        let is_offline = self.blocked.as_deref() == Some("scheduler")
            || self.stop_reason.as_deref() == Some("Scheduler is offline");
        (!is_offline).then_some(!self.start)
    }
}

/// What the job manager says of each queue; nothing is known of one for which it did not answer.
pub(super) type Stopped = Vec<(Name, QueueTold)>;

/// The states of queues that the job manager reported, and the questions that it has not answered.
#[derive(Default)]
pub(super) struct QueueStates {
    /// When, and what; `None` for a queue that does not exist.
    known: BTreeMap<Name, (f64, Option<QueueState>)>,
    /// What is being asked, by number.
    under_way: BTreeMap<u32, Name>,
    next: u32,
    by_engine: AskedByEngine,
}

/// What the engine asked about.
#[derive(Default)]
struct AskedByEngine {
    /// Queues whose answers have not come, by number.
    open: BTreeMap<u32, Name>,
    /// Answers that have come.
    answers: Stopped,
}

impl AskedByEngine {
    /// Notes an answer. Returns all answers when the last has come; a queue is left out while its state is unknown.
    fn told(&mut self, number: u32, state: Option<&QueueState>) -> Option<Stopped> {
        let name = self.open.remove(&number)?;
        match state.map(|state| (state, state.is_stopped())) {
            None => self.answers.push((name, QueueTold::default())),
            Some((state, is_stopped @ Some(_))) => {
                let parent = state.parent.as_deref().map(QueueName::from);
                self.answers.push((name, QueueTold { is_stopped, parent }));
            }
            Some((_, None)) => {}
        }
        self.open.is_empty().then(|| std::mem::take(&mut self.answers))
    }
}

impl QueueStates {
    /// How a queue is, as last told.
    pub fn state(&self, name: &Name) -> Option<&QueueState> {
        self.known.get(name)?.1.as_ref()
    }

    /// Returns those of `names` whose states are not known or too old.
    pub fn stale(&mut self, mut names: Vec<Name>, now: f64) -> Vec<Name> {
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
        names.retain(|name| !self.is_fresh(name, now));
        names
    }

    fn is_fresh(&self, name: &Name, now: f64) -> bool {
        self.known.get(name).is_some_and(|(when, _)| (now - when).abs() < FRESH)
    }

    /// Drops all questions, after a panic has dropped their replies.
    pub fn drop_questions(&mut self) {
        self.under_way.clear();
    }

    /// Returns a question about each of `names`, with its number, except where one is under way.
    pub fn number_questions(&mut self, mut names: Vec<Name>) -> Vec<(u32, Name)> {
        names.retain(|name| !self.under_way.values().any(|asked| asked == name));
        let mut number = |name: Name| {
            self.next = self.next.wrapping_add(1);
            self.under_way.insert(self.next, name.clone());
            (self.next, name)
        };
        names.into_iter().map(&mut number).collect()
    }

    /// What to ask for the engine. What it asked before and was not answered is given up.
    pub fn ask_for_engine(&mut self, names: Vec<Name>) -> Vec<(u32, Name)> {
        self.by_engine = AskedByEngine::default();
        for name in names {
            self.next = self.next.wrapping_add(1);
            self.by_engine.open.insert(self.next, name);
        }
        self.by_engine.open.iter().map(|(number, name)| (*number, name.clone())).collect()
    }

    /// Whether the engine asked the question of this number.
    pub fn is_of_engine(&self, number: u32) -> bool {
        self.by_engine.open.contains_key(&number)
    }

    /// Notes an answer for the engine. Returns all answers when the last has come.
    pub fn told_engine(&mut self, number: u32, state: Option<&QueueState>) -> Option<Stopped> {
        self.by_engine.told(number, state)
    }

    /// Notes the reply to the question `number`. Returns true if no question is under way any more.
    pub fn note(&mut self, number: u32, state: Option<QueueState>, now: f64) -> bool {
        if let Some(name) = self.under_way.remove(&number) {
            self.known.insert(name, (now, state));
        }
        self.under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_stopped_by_itself_or_by_its_parent_and_not_by_a_missing_scheduler() {
        for (reply, is_stopped) in [
            (r#"{"enable": true, "start": true}"#, Some(false)),
            (r#"{"enable": false, "disable_reason": "full", "start": true}"#, Some(false)),
            (r#"{"enable": true, "start": false, "stop_reason": "maintenance"}"#, Some(true)),
            (r#"{"enable": true, "start": false}"#, Some(true)),
            (r#"{"enable": true, "start": false, "parent": "batch", "blocked": "parent"}"#, Some(true)),
            (
                r#"{"enable": true, "start": false, "blocked": "scheduler", "stop_reason": "Scheduler is offline"}"#,
                None,
            ),
            // Before flux-core 0.88 nothing tells such a queue from one that is stopped.
            (r#"{"enable": true, "start": false, "stop_reason": "Scheduler is offline"}"#, None),
        ] {
            let state = QueueState::read(reply).unwrap();
            assert_eq!(state.is_stopped(), is_stopped, "{reply}");
        }
    }

    #[test]
    fn the_engine_is_told_when_the_last_answer_has_come() {
        let name = |name: &str| Some(name.to_owned());
        let told = |is_stopped| QueueTold { is_stopped, parent: None };
        let open = [(1, name("a")), (2, name("b")), (3, name("c"))].into();
        let mut queues = AskedByEngine { open, ..AskedByEngine::default() };
        let state = |start| QueueState { enable: true, start, ..QueueState::default() };
        assert_eq!(queues.told(1, Some(&state(false))), None);
        assert_eq!(queues.told(1, Some(&state(false))), None, "once");
        let offline = QueueState { blocked: name("scheduler"), ..state(false) };
        assert_eq!(queues.told(2, Some(&offline)), None);
        let all = queues.told(3, None);
        assert_eq!(all, Some(vec![(name("a"), told(Some(true))), (name("c"), told(None))]));
    }
}
