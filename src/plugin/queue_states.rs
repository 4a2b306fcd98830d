// SPDX-License-Identifier: LGPL-3.0-only
//! Whether queues are started and enabled: only the job manager knows, and it says so when it is asked.

use super::answers::Asked;
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
}

impl QueueState {
    pub fn read(reply: &str) -> Option<QueueState> {
        serde_json::from_str(reply).ok()
    }
}

/// What was told of queues, and who waits to be told.
#[derive(Default)]
pub(super) struct QueueStates {
    /// When, and what; `None` for a queue that does not exist.
    known: BTreeMap<Name, (f64, Option<QueueState>)>,
    /// What is being asked, by number.
    under_way: BTreeMap<u32, Name>,
    next: u32,
    waiting: Vec<Asked>,
}

impl QueueStates {
    /// How a queue is, as last told.
    pub fn state(&self, name: &Name) -> Option<&QueueState> {
        self.known.get(name)?.1.as_ref()
    }

    pub fn parked(&self) -> usize {
        self.waiting.len()
    }

    /// Whether any of these is to be asked about.
    pub fn lacks(&mut self, names: &[Name], now: f64) -> bool {
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
        names.iter().any(|name| !self.is_fresh(name, now))
    }

    fn is_fresh(&self, name: &Name, now: f64) -> bool {
        self.known.get(name).is_some_and(|(when, _)| (now - when).abs() < FRESH)
    }

    /// Nothing that is being asked will be answered: who waits for it goes on without.
    pub fn lost(&mut self) -> Vec<Asked> {
        self.under_way.clear();
        std::mem::take(&mut self.waiting)
    }

    /// Takes a request over, and says what to ask for it.
    pub fn park(&mut self, asked: Asked, names: Vec<Name>, now: f64) -> Vec<(u32, Name)> {
        self.waiting.push(asked);
        let mut questions = Vec::new();
        for name in names {
            if self.is_fresh(&name, now) || self.under_way.values().any(|asked| *asked == name) {
                continue;
            }
            self.next = self.next.wrapping_add(1);
            self.under_way.insert(self.next, name.clone());
            questions.push((self.next, name));
        }
        questions
    }

    /// An answer has come: whose requests can be answered now.
    pub fn told(&mut self, number: u32, state: Option<QueueState>, now: f64) -> Vec<Asked> {
        if let Some(name) = self.under_way.remove(&number) {
            self.known.insert(name, (now, state));
        }
        if self.under_way.is_empty() { std::mem::take(&mut self.waiting) } else { Vec::new() }
    }
}
