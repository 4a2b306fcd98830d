// SPDX-License-Identifier: LGPL-3.0-only
//! Asks the job manager for the states of queues: started and enabled. Plugins cannot read these otherwise.

use crate::jobtap::{EINVAL, Error};
use fairshare::insert_all;
use fairshare_engine::engine::QueueReport;
use fairshare_engine::ids::QueueName;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The seconds during which a reported state is up to date.
const FRESH_SECONDS: f64 = 1.0;
/// The maximum number of queues whose states are stored.
const MAX_KNOWN: usize = 1000;

/// The name of a queue; `None` for the queue without a name.
pub(super) type Name = Option<QueueName>;

/// The state of a queue, as `job-manager.queue-status` reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct QueueState {
    /// True if the queue accepts jobs.
    pub enable: bool,
    /// Why the queue is disabled.
    pub disable_reason: Option<String>,
    /// True if the jobs of the queue are scheduled.
    pub start: bool,
    /// Why the queue is stopped.
    pub stop_reason: Option<String>,
    /// Why the jobs of a started queue do not reach the scheduler: `scheduler` or `parent`.
    pub blocked: Option<String>,
    /// True if Flux does not have the queue.
    #[serde(skip)]
    pub is_missing: bool,
}

impl QueueState {
    /// Reads the job manager's reply about a queue. Returns `None` if the state is unknown.
    pub fn read(reply: Result<&str, Error>) -> Option<QueueState> {
        match reply {
            Ok(reply) => serde_json::from_str(reply).ok(),
            // Flux answered that it does not have the queue.
            Err(Error { call: "flux_rpc_get", errno: EINVAL }) => {
                Some(QueueState { is_missing: true, ..QueueState::default() })
            }
            Err(_) => None,
        }
    }

    /// Returns true if the queue or its parent is stopped. Returns `None` while no scheduler is loaded, because Flux
    /// then reports every queue as stopped.
    fn is_stopped(&self) -> Option<bool> {
        let is_offline = self.blocked.as_deref() == Some("scheduler")
            || self.stop_reason.as_deref() == Some("Scheduler is offline");
        (!is_offline).then_some(!self.start)
    }
}

/// The states of queues.
pub(super) type QueueAnswers = Vec<(Name, QueueReport)>;

/// The states that the job manager reported, and the questions that it has not answered.
#[derive(Default)]
pub(super) struct QueueStates {
    /// For each queue, the state that the job manager reported last, and the time of the report in seconds
    /// since the epoch. The state is `None` if the reply could not be read.
    known: BTreeMap<Name, (f64, Option<QueueState>)>,
    /// The queues in requests that the job manager has not answered, by the number of the request.
    under_way: BTreeMap<u32, Name>,
    next: u32,
    pub by_engine: QueueStateRequests,
}

/// The requests for queue states that the engine waits for.
#[derive(Default)]
pub(super) struct QueueStateRequests {
    /// The queues in the engine's requests that have no answer, by the number of the request.
    pub open: BTreeMap<u32, Name>,
    /// The answers received.
    answers: QueueAnswers,
}

impl QueueStateRequests {
    /// Records the answer to question `number`. After the last answer, returns all answers, except for queues
    /// whose states are unknown.
    pub fn note_reply(&mut self, number: u32, state: Option<&QueueState>) -> Option<QueueAnswers> {
        let name = self.open.remove(&number)?;
        let report = match state.map(|state| (state.is_missing, state.is_stopped())) {
            None => Some(QueueReport::Unknown),
            Some((true, _)) => Some(QueueReport::Missing),
            Some((false, is_stopped)) => is_stopped.map(|is_stopped| match is_stopped {
                true => QueueReport::Stopped,
                false => QueueReport::Started,
            }),
        };
        self.answers.extend(report.map(|report| (name, report)));
        self.open.is_empty().then(|| std::mem::take(&mut self.answers))
    }
}

impl QueueStates {
    /// Returns the last reported state of queue `name`, or `None` if Flux has not reported it.
    pub fn state(&self, name: &Name) -> Option<&QueueState> {
        self.known.get(name)?.1.as_ref()
    }

    /// Drops all questions after a panic, which cancelled their replies.
    pub fn drop_queue_state_requests(&mut self) {
        self.under_way.clear();
    }

    /// Returns the queues of `names` whose states are unknown or older than `FRESH_SECONDS`.
    pub fn select_stale(&mut self, mut names: Vec<Name>, now: f64) -> Vec<Name> {
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
        names.retain(|name| !self.is_fresh(name, now));
        names
    }

    fn is_fresh(&self, name: &Name, now: f64) -> bool {
        self.known.get(name).is_some_and(|(when, _)| (now - when).abs() < FRESH_SECONDS)
    }

    /// Assigns a number to a new request for the state of each queue in `names`. Skips queues for which a
    /// request has no answer yet. Returns the numbers and the queues.
    pub fn create_queue_state_requests(&mut self, mut names: Vec<Name>) -> Vec<(u32, Name)> {
        names.retain(|name| !self.under_way.values().any(|asked| asked == name));
        let requests: Vec<_> = names.into_iter().map(|name| (self.take_number(), name)).collect();
        self.under_way.extend(requests.iter().cloned());
        requests
    }

    /// Returns a number for the next request. The number 0 belongs to the ping to sched-simple.
    fn take_number(&mut self) -> u32 {
        self.next = self.next.checked_add(1).unwrap_or(1);
        self.next
    }

    /// Assigns a number to the engine's request for the state of each queue in `names`. Drops the engine's
    /// earlier requests. Returns the numbers and the queues.
    pub fn assign_engine_request_numbers(&mut self, names: Vec<Name>) -> Vec<(u32, Name)> {
        let open: Vec<_> = names.into_iter().map(|name| (self.take_number(), name)).collect();
        self.by_engine =
            QueueStateRequests { open: insert_all(open.clone()), ..QueueStateRequests::default() };
        open
    }

    /// Records the reply to question `number`. Returns true if no question is open.
    pub fn note_reply(&mut self, number: u32, state: Option<QueueState>, now: f64) -> bool {
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
    fn a_queue_counts_as_stopped_unless_only_its_scheduler_is_missing() {
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
            // Before flux-core 0.88, Flux reports a queue without a scheduler as stopped.
            (r#"{"enable": true, "start": false, "stop_reason": "Scheduler is offline"}"#, None),
        ] {
            let state = QueueState::read(Ok(reply)).unwrap();
            assert_eq!(state.is_stopped(), is_stopped, "{reply}");
        }
    }

    /// The ping to sched-simple has the number 0.
    #[test]
    fn no_request_for_the_state_of_a_queue_has_the_number_0() {
        let mut queues = QueueStates { next: u32::MAX - 1, ..QueueStates::default() };
        let names = || ["a", "b"].map(|name| Some(QueueName::from(name))).to_vec();
        assert_eq!(queues.create_queue_state_requests(names())[1].0, 1);
        queues.next = u32::MAX;
        assert_eq!(queues.assign_engine_request_numbers(names())[0].0, 1);
    }

    #[test]
    fn the_engine_gets_the_states_of_all_queues_after_the_last_reply() {
        let name = |name: &str| Some(QueueName::from(name));
        let open = [(1, name("a")), (2, name("b")), (3, name("c")), (4, name("d"))].into();
        let mut queues = QueueStateRequests { open, ..QueueStateRequests::default() };
        let state = |start| QueueState { enable: true, start, ..QueueState::default() };
        assert_eq!(queues.note_reply(1, Some(&state(false))), None);
        assert_eq!(queues.note_reply(1, Some(&state(false))), None, "an answer counts once");
        let offline = QueueState { blocked: Some("scheduler".to_owned()), ..state(false) };
        assert_eq!(queues.note_reply(2, Some(&offline)), None);
        assert_eq!(queues.note_reply(3, None), None);
        let all = queues
            .note_reply(4, QueueState::read(Err(Error { call: "flux_rpc_get", errno: EINVAL })).as_ref());
        let reports = [QueueReport::Stopped, QueueReport::Unknown, QueueReport::Missing];
        assert_eq!(all, Some(["a", "c", "d"].map(name).into_iter().zip(reports).collect()));
    }
}
