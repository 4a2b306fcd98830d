// SPDX-License-Identifier: LGPL-3.0-only
//! Decides when the plugin answers the methods that every user may call. Requests of guests may be delayed
//! ([`super::pace`]). An `explain` waits until the job manager has reported the states of its queues.

use super::queue_states::{Name, QueueState};
use super::{MfPriority, pace::Verdict, services::request_error};
use crate::jobtap::{Deferred, EAGAIN, EINVAL, Error, Host, Method, Reply, Request};
use fairshare_engine::engine::{Event, Timer, answers::RequestStats};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// The time that delayed requests may take in one reactor turn.
const ANSWER_TIME: Duration = Duration::from_millis(2);
const QUEUE_STATUS: &CStr = c"job-manager.queue-status";
/// The maximum size of a payload in bytes. A list of 2,000 job ids is smaller.
const MAX_PAYLOAD: usize = 64 * 1024;

/// A request that is answered later.
pub(super) struct DelayedRequest {
    method: &'static Method<MfPriority>,
    request: Deferred,
    /// The guest that sent the request; `None` for the instance owner and admins.
    guest: Option<u32>,
    /// True if the request was delayed to ask for the states of its queues.
    has_waited: bool,
}

/// Counts of calls, by method name.
pub(super) type AllCalls = BTreeMap<&'static str, RequestStats>;

/// The number of the ping to sched-simple. Requests about queues have the numbers from 1 on.
const SCHEDULER: u32 = 0;

/// Pings sched-simple, which keeps the jobs of all queues in one list. A reply means that sched-simple is
/// loaded.
pub(super) fn ping_sched_simple(host: Host<'_, MfPriority>) {
    host.send_service_request(SCHEDULER, c"sched-simple.ping", "{}");
}

fn ask_queues(host: Host<'_, MfPriority>, questions: Vec<(u32, Name)>) {
    for (number, name) in questions {
        let payload = name.map_or_else(|| serde_json::json!({}), |name| serde_json::json!({"name": name}));
        host.send_service_request(number, QUEUE_STATUS, &payload.to_string());
    }
}

impl MfPriority {
    /// Handles a request for a method that every user may call. Returns `None` if the request is answered later.
    pub(super) fn handle_open_request(
        &self,
        host: Host<'_, Self>,
        method: &'static Method<Self>,
        request: &Request<'_>,
    ) -> Option<Reply> {
        let user = request.caller.userid;
        let guest = (!request.caller.is_privileged()).then_some(user);
        let delay = || DelayedRequest { method, request: request.defer(), guest, has_waited: false };
        let mut counts_by_method = self.calls.borrow_mut();
        let counts = counts_by_method.entry(method.title()).or_default();
        counts.total += 1;
        if let Some(length) = request.payload.map(str::len).filter(|length| *length > MAX_PAYLOAD) {
            counts.refused += 1;
            let text = format!("the request has {length} bytes; at most {MAX_PAYLOAD} are allowed");
            return Some(Err(request_error(EINVAL, text)));
        }
        match guest.map(|user| self.pace.borrow_mut().admit(user, host.now(), delay)) {
            None | Some(Verdict::Now) => drop(counts_by_method),
            Some(Verdict::Later) => {
                counts.deferred += 1;
                drop(counts_by_method);
                self.arm_answer_timer(host);
                return None;
            }
            Some(Verdict::Full(seconds)) => {
                counts.refused += 1;
                let text = format!("too many requests of user {user} wait already; try again in {seconds} s");
                return Some(Err(request_error(EAGAIN, text)));
            }
        }
        self.charge_guest(host, guest, || {
            let stale = self.stale_queues(host, method, request);
            if stale.is_empty() {
                return Some((method.answer)(self, host, request));
            }
            self.delay_until_queue_states(host, delay(), stale);
            None
        })
    }

    /// Runs `work`, and charges the guest for the time that it takes.
    fn charge_guest<R>(&self, host: Host<'_, Self>, guest: Option<u32>, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = work();
        if let Some(user) = guest {
            self.pace.borrow_mut().charge(user, host.now(), began.elapsed().as_secs_f64());
        }
        result
    }

    fn answer_request(&self, host: Host<'_, Self>, delayed: DelayedRequest) {
        let reply =
            delayed.request.decode().and_then(|request| (delayed.method.answer)(self, host, &request));
        delayed.request.answer(reply);
    }

    fn arm_answer_timer(&self, host: Host<'_, Self>) {
        let seconds = self.pace.borrow_mut().seconds_to_next(host.now());
        if let Some(seconds) = seconds {
            host.arm_timer(Timer::Answer.index(), seconds.max(0.001));
        }
    }

    /// Answers delayed requests for `ANSWER_TIME`, and arms the timer for the remaining requests.
    pub(super) fn answer_delayed_requests(&self, host: Host<'_, Self>) {
        let began = Instant::now();
        while began.elapsed() < ANSWER_TIME {
            let next = self.pace.borrow_mut().take_next(host.now());
            let Some(delayed) = next else { break };
            self.charge_guest(host, delayed.guest, || {
                let stale = match delayed.request.decode() {
                    Ok(request) if !delayed.has_waited => self.stale_queues(host, delayed.method, &request),
                    _ => Vec::new(),
                };
                if stale.is_empty() {
                    self.answer_request(host, delayed)
                } else {
                    self.delay_until_queue_states(host, delayed, stale)
                }
            });
        }
        self.arm_answer_timer(host);
    }

    /// Returns the queues whose states the job manager must report before the request is answered.
    fn stale_queues(&self, host: Host<'_, Self>, method: &Method<Self>, request: &Request<'_>) -> Vec<Name> {
        let names = if method.name == c"explain" { self.list_queues_to_ask(request) } else { Vec::new() };
        self.queues.borrow_mut().select_stale(names, host.now())
    }

    /// Delays a request until the job manager has reported the states of the queues `names`.
    fn delay_until_queue_states(&self, host: Host<'_, Self>, delayed: DelayedRequest, names: Vec<Name>) {
        let delayed = DelayedRequest { has_waited: true, ..delayed };
        self.pace.borrow_mut().park(delayed.guest, delayed);
        let questions = self.queues.borrow_mut().create_queue_state_requests(names);
        ask_queues(host, questions);
    }

    /// Answers the parked requests of owners. The parked requests of guests are delayed again, because
    /// thousands of explanations take seconds.
    fn answer_delayed_owner_requests(&self, host: Host<'_, Self>) {
        let owners = self.pace.borrow_mut().unpark();
        self.arm_answer_timer(host);
        owners.into_iter().for_each(|delayed| self.answer_request(host, delayed));
    }

    /// Asks the job manager, for the engine, which of the queues `names` are stopped.
    pub(super) fn ask_queues_for_engine(&self, host: Host<'_, Self>, names: Vec<Name>) {
        let questions = self.queues.borrow_mut().assign_engine_request_numbers(names);
        ask_queues(host, questions);
    }

    /// Handles the reply of a service of Flux to the question `number`.
    pub(super) fn receive_service_reply(
        &self,
        host: Host<'_, Self>,
        number: u32,
        reply: Result<&str, Error>,
    ) {
        if number == SCHEDULER {
            let _ = self.feed_event(host, None, Event::OneQueueList(reply.is_ok()));
            return;
        }
        let state = QueueState::read(reply);
        if self.queues.borrow().by_engine.open.contains_key(&number) {
            let states = self.queues.borrow_mut().by_engine.note_reply(number, state.as_ref());
            let Some(states) = states else { return };
            let _ = self.feed_event(host, None, Event::QueueStates(states));
            return;
        }
        let has_all_answers = self.queues.borrow_mut().note_reply(number, state, host.now());
        if has_all_answers {
            self.answer_delayed_owner_requests(host);
        }
        self.answer_delayed_requests(host);
    }

    /// Restores the delayed requests after a panic, which may have lost the timer and the plugin's requests to Flux.
    /// Also pauses the answers to guests: an answer to a guest may have caused the panic, and after each panic the
    /// engine compares all jobs.
    pub(super) fn restore_delayed_requests(&self, host: Host<'_, Self>) {
        self.pace.borrow_mut().pause(host.now());
        self.queues.borrow_mut().drop_queue_state_requests();
        self.answer_delayed_owner_requests(host);
    }
}
