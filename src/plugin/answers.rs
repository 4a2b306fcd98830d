// SPDX-License-Identifier: LGPL-3.0-only
//! Decides when the plugin answers the methods that every user may call. Requests of guests are paced
//! ([`super::pace`]). An `explain` waits until the job manager has reported the states of its queues.

use super::MfPriority;
use super::pace::Verdict;
use super::queue_states::{Name, QueueState};
use super::services::error;
use crate::jobtap::{Deferred, EAGAIN, EINVAL, Host, Method, Reply, Request};
use fairshare_engine::engine::answers::RequestStats;
use fairshare_engine::engine::{Event, Timer};
use fairshare_engine::ids::QueueName;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// The time that delayed requests may take in one reactor turn.
const TURN: Duration = Duration::from_millis(2);
const QUEUE_STATUS: &CStr = c"job-manager.queue-status";
/// Bytes of a payload. A list of 2,000 job ids is shorter.
const LONGEST: usize = 64 * 1024;

/// A request that is answered later.
pub(super) struct Delayed {
    method: &'static Method<MfPriority>,
    request: Deferred,
    /// The guest that sent the request; `None` for the instance owner and admins.
    guest: Option<u32>,
    /// True if the request has waited for the states of its queues.
    knows_queues: bool,
}

/// Counts of calls, by method name.
pub(super) type AllCalls = BTreeMap<&'static str, RequestStats>;

/// The number of the request that identifies the loaded scheduler. Requests about queues have numbers from 1 on.
const SCHEDULER: u32 = 0;

/// Pings sched-simple, which keeps the jobs of all queues in one list. A reply means that it is loaded.
pub(super) fn ask_scheduler(host: Host<'_, MfPriority>) {
    host.ask_service(SCHEDULER, c"sched-simple.ping", "{}");
}

fn ask_queues(host: Host<'_, MfPriority>, questions: Vec<(u32, Name)>) {
    for (number, name) in questions {
        let payload = name.map_or_else(|| serde_json::json!({}), |name| serde_json::json!({"name": name}));
        host.ask_service(number, QUEUE_STATUS, &payload.to_string());
    }
}

impl MfPriority {
    /// Handles a request for a method that every user may call. Returns `None` if the request is answered later.
    pub(super) fn receive(
        &self,
        host: Host<'_, Self>,
        method: &'static Method<Self>,
        request: &Request<'_>,
    ) -> Option<Reply> {
        let user = request.caller.userid;
        let guest = (!request.caller.is_privileged()).then_some(user);
        let delay = || Delayed { method, request: request.defer(), guest, knows_queues: false };
        let mut all_calls = self.calls.borrow_mut();
        let calls = all_calls.entry(method.title()).or_default();
        calls.total += 1;
        if let Some(length) = request.payload.map(str::len).filter(|length| *length > LONGEST) {
            calls.refused += 1;
            let text = format!("a request of {length} bytes; at most {LONGEST} are read");
            return Some(Err(error(EINVAL, text)));
        }
        match guest.map(|user| self.pace.borrow_mut().admit(user, host.now(), delay)) {
            None | Some(Verdict::Now) => drop(all_calls),
            Some(Verdict::Later) => {
                calls.deferred += 1;
                drop(all_calls);
                self.arm_answers(host);
                return None;
            }
            Some(Verdict::Full(seconds)) => {
                calls.refused += 1;
                let text = format!("too many requests of user {user} wait already; try again in {seconds} s");
                return Some(Err(error(EAGAIN, text)));
            }
        }
        self.charge(host, guest, || {
            let stale = self.stale_queues(host, method, request);
            if stale.is_empty() {
                return Some((method.answer)(self, host, request));
            }
            self.park(host, delay(), stale);
            None
        })
    }

    /// Runs `work`, and charges the guest for the time that it takes.
    fn charge<R>(&self, host: Host<'_, Self>, guest: Option<u32>, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = work();
        if let Some(user) = guest {
            self.pace.borrow_mut().charge(user, host.now(), began.elapsed().as_secs_f64());
        }
        result
    }

    fn answer(&self, host: Host<'_, Self>, delayed: Delayed) {
        let reply =
            delayed.request.request().and_then(|request| (delayed.method.answer)(self, host, &request));
        delayed.request.answer(reply);
    }

    fn arm_answers(&self, host: Host<'_, Self>) {
        let seconds = self.pace.borrow_mut().seconds_to_next(host.now());
        if let Some(seconds) = seconds {
            host.arm(Timer::Answer.index(), seconds.max(0.001));
        }
    }

    /// Answers delayed requests for `TURN`, and arms the timer for the remaining ones.
    pub(super) fn answer_delayed(&self, host: Host<'_, Self>) {
        let began = Instant::now();
        while began.elapsed() < TURN {
            let next = self.pace.borrow_mut().take_next(host.now());
            let Some(delayed) = next else { break };
            self.charge(host, delayed.guest, || {
                let stale = match delayed.request.request() {
                    Ok(request) if !delayed.knows_queues => self.stale_queues(host, delayed.method, &request),
                    _ => Vec::new(),
                };
                if stale.is_empty() { self.answer(host, delayed) } else { self.park(host, delayed, stale) }
            });
        }
        self.arm_answers(host);
    }

    /// Returns the queues whose states the job manager must report before the request is answered.
    fn stale_queues(&self, host: Host<'_, Self>, method: &Method<Self>, request: &Request<'_>) -> Vec<Name> {
        let names = if method.name == c"explain" { self.queues_of(request) } else { Vec::new() };
        self.queues.borrow_mut().stale(names, host.now())
    }

    /// Delays a request until the job manager has reported the states of the queues `names`.
    fn park(&self, host: Host<'_, Self>, delayed: Delayed, names: Vec<Name>) {
        let delayed = Delayed { knows_queues: true, ..delayed };
        self.pace.borrow_mut().park(delayed.guest, delayed);
        let questions = self.queues.borrow_mut().number_questions(names);
        ask_queues(host, questions);
    }

    /// Answers the parked requests of owners. Those of guests are paced again, because thousands of explanations take
    /// seconds.
    fn unpark(&self, host: Host<'_, Self>) {
        let owners = self.pace.borrow_mut().unpark();
        self.arm_answers(host);
        owners.into_iter().for_each(|delayed| self.answer(host, delayed));
    }

    /// Asks the job manager, for the engine, which of the queues `names` are stopped.
    pub(super) fn ask_for_engine(&self, host: Host<'_, Self>, names: Vec<Option<QueueName>>) {
        let names = names.into_iter().map(|name| name.map(|name| name.as_str().to_owned())).collect();
        let questions = self.queues.borrow_mut().ask_for_engine(names);
        ask_queues(host, questions);
    }

    /// Handles the reply of a service of Flux to the question `number`.
    pub(super) fn receive_reply(&self, host: Host<'_, Self>, number: u32, reply: Option<&str>) {
        if number == SCHEDULER {
            let _ = self.drive(host, None, Event::OneQueueList(reply.is_some()));
            return;
        }
        let state = reply.and_then(QueueState::read);
        if self.queues.borrow().is_from_engine(number) {
            let states = self.queues.borrow_mut().note_for_engine(number, state.as_ref());
            let Some(states) = states else { return };
            let name = |name: Option<String>| name.map(|name| QueueName::from(name.as_str()));
            let states = states.into_iter().map(|(queue, state)| (name(queue), state)).collect();
            let _ = self.drive(host, None, Event::QueueStates(states));
            return;
        }
        let are_all_known = self.queues.borrow_mut().note(number, state, host.now());
        if are_all_known {
            self.unpark(host);
        }
        self.answer_delayed(host);
    }

    /// Restores the delayed requests after a panic: Flux will not reply to open questions, and the timer may be lost.
    /// An answer to a guest may have caused the panic, and each panic makes the engine compare all jobs, so answers
    /// to guests pause.
    pub(super) fn recover_answers(&self, host: Host<'_, Self>) {
        self.pace.borrow_mut().pause(host.now());
        self.queues.borrow_mut().drop_questions();
        self.unpark(host);
    }
}
