// SPDX-License-Identifier: LGPL-3.0-only
//! Requests that every user may send: when they are answered. Those of guests in their turn ([`super::pace`]); those that need to know
//! how a queue is when the job manager has told.

use super::MfPriority;
use super::pace::Verdict;
use super::queue_states::QueueState;
use super::services::error;
use crate::jobtap::{EAGAIN, EINVAL, Host, Kept, Method, Reply, Request};
use fairshare_engine::engine::{Event, Timer};
use fairshare_engine::ids::QueueName;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// What is answered in one turn of the reactor, before others get theirs.
const TURN: Duration = Duration::from_millis(2);
const QUEUE_STATUS: &CStr = c"job-manager.queue-status";
/// So many requests wait for the states of queues; more are answered without.
const MOST_PARKED: usize = 1000;
/// No payload is longer: a list of 2,000 job ids is shorter. What waits is kept as it came.
const LONGEST: usize = 64 * 1024;

/// A request that was put aside.
pub(super) struct Asked {
    pub method: &'static Method<MfPriority>,
    pub kept: Kept,
    /// The guest who sent it; `None` for the instance owner and admins.
    guest: Option<u32>,
    /// It waited for the states of its queues already.
    knows_queues: bool,
}

impl Asked {
    fn new(method: &'static Method<MfPriority>, request: &Request<'_>) -> Asked {
        let caller = request.caller;
        let guest = (!caller.is_privileged()).then_some(caller.userid);
        Asked { method, kept: request.keep(), guest, knows_queues: false }
    }
}

/// How often a method was called.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub total: u64,
    /// Of these, those that had to wait for their turn.
    pub deferred: u64,
    /// Those that were refused for want of room.
    pub refused: u64,
}

/// By the name of the method.
pub(super) type AllCalls = BTreeMap<&'static str, Calls>;

/// The number of the question which scheduler is loaded; queues are asked about by numbers from 1 on.
const SCHEDULER: u32 = 0;

/// Asks whether sched-simple answers, which keeps the jobs of all queues in one list.
pub(super) fn ask_scheduler(host: Host<'_, MfPriority>) {
    host.ask_service(SCHEDULER, c"sched-simple.ping", "{}");
}

fn ask_queue(host: Host<'_, MfPriority>, number: u32, name: Option<String>) {
    let payload = name.map_or_else(|| serde_json::json!({}), |name| serde_json::json!({"name": name}));
    host.ask_service(number, QUEUE_STATUS, &payload.to_string());
}

impl MfPriority {
    /// A request has come that every user may send.
    pub(super) fn asked(
        &self,
        host: Host<'_, Self>,
        method: &'static Method<Self>,
        request: &Request<'_>,
    ) -> Option<Reply> {
        let caller = request.caller;
        let mut calls = Calls { total: 1, ..Calls::default() };
        if let Some(length) = request.payload.map(str::len).filter(|length| *length > LONGEST) {
            self.count_call(method, Calls { refused: 1, ..calls });
            let text = format!("a request of {length} bytes; at most {LONGEST} are read");
            return Some(Err(error(EINVAL, text)));
        }
        let verdict = match caller.is_privileged() {
            true => Verdict::Now,
            false => {
                let keep = || Asked::new(method, request);
                self.pace.borrow_mut().ask(caller.userid, host.now(), keep)
            }
        };
        let refused = match verdict {
            Verdict::Now => None,
            Verdict::Later => {
                calls.deferred = 1;
                None
            }
            Verdict::Full(seconds) => {
                calls.refused = 1;
                Some(seconds)
            }
        };
        self.count_call(method, calls);
        if let Some(seconds) = refused {
            let user = caller.userid;
            let text = format!("too many requests of user {user} wait already; try again in {seconds} s");
            return Some(Err(error(EAGAIN, text)));
        }
        if calls.deferred > 0 {
            self.arm_answers(host);
            return None;
        }
        let guest = (!caller.is_privileged()).then_some(caller.userid);
        self.charged(host, guest, || {
            if self.needs_queues(host, method, request) {
                self.park(host, Asked::new(method, request));
                return None;
            }
            Some((method.answer)(self, host, request))
        })
    }

    /// Work for a guest, whose turn comes the later for it.
    fn charged<R>(&self, host: Host<'_, Self>, guest: Option<u32>, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = work();
        if let Some(user) = guest {
            self.pace.borrow_mut().charge(user, host.now(), began.elapsed().as_secs_f64());
        }
        result
    }

    fn count_call(&self, method: &Method<Self>, calls: Calls) {
        let mut all = self.calls.borrow_mut();
        let known = all.entry(method.title()).or_default();
        known.total += calls.total;
        known.deferred += calls.deferred;
        known.refused += calls.refused;
    }

    fn answer_kept(&self, host: Host<'_, Self>, asked: Asked) {
        let reply = asked.kept.request().and_then(|request| (asked.method.answer)(self, host, &request));
        asked.kept.answer(reply);
    }

    pub(super) fn arm_answers(&self, host: Host<'_, Self>) {
        let due = self.pace.borrow_mut().due(host.now());
        if let Some(seconds) = due {
            host.arm(Timer::Answer.index(), seconds.max(0.001));
        }
    }

    /// Those whose turn has come.
    pub(super) fn answer_in_turn(&self, host: Host<'_, Self>) {
        let began = Instant::now();
        while began.elapsed() < TURN {
            let next = self.pace.borrow_mut().next(host.now());
            let Some(asked) = next else { break };
            self.charged(host, asked.guest, || {
                let lacks = |request: Request<'_>| self.needs_queues(host, asked.method, &request);
                if !asked.knows_queues && asked.kept.request().is_ok_and(lacks) {
                    self.park(host, asked)
                } else {
                    self.answer_kept(host, asked)
                }
            });
        }
        self.arm_answers(host);
    }

    /// Whether a question is about a queue of which nobody has asked just now.
    fn needs_queues(&self, host: Host<'_, Self>, method: &Method<Self>, request: &Request<'_>) -> bool {
        if method.name != c"explain" {
            return false;
        }
        let names = self.queues_of(request);
        let mut queues = self.queues.borrow_mut();
        queues.parked() < MOST_PARKED && queues.lacks(&names, host.now())
    }

    /// Has a request wait until the job manager has told how its queues are.
    fn park(&self, host: Host<'_, Self>, asked: Asked) {
        let names = asked.kept.request().map(|request| self.queues_of(&request)).unwrap_or_default();
        if let Some(user) = asked.guest {
            self.pace.borrow_mut().set_aside(user);
        }
        let questions = self.queues.borrow_mut().park(asked, names, host.now());
        questions.into_iter().for_each(|(number, name)| ask_queue(host, number, name));
    }

    /// Asks for the engine which queues are stopped.
    pub(super) fn ask_queues(&self, host: Host<'_, Self>, names: Vec<Option<QueueName>>) {
        let names = names.into_iter().map(|name| name.map(|name| name.as_str().to_owned())).collect();
        let questions = self.queues.borrow_mut().ask_for_engine(names);
        questions.into_iter().for_each(|(number, name)| ask_queue(host, number, name));
    }

    /// How a queue is.
    pub(super) fn told_queue(&self, host: Host<'_, Self>, number: u32, reply: Option<&str>) {
        if number == SCHEDULER {
            let _ = self.drive(host, None, Event::OneQueueList(reply.is_some()));
            return;
        }
        let state = reply.and_then(QueueState::read);
        if self.queues.borrow().is_of_engine(number) {
            let told = self.queues.borrow_mut().told_engine(number, state.as_ref());
            let Some(states) = told else { return };
            let name = |name: Option<String>| name.map(|name| QueueName::from(name.as_str()));
            let states = states.into_iter().map(|(of, is_stopped)| (name(of), is_stopped)).collect();
            let _ = self.drive(host, None, Event::QueueStates(states));
            return;
        }
        let ready = self.queues.borrow_mut().told(number, state, host.now());
        self.go_on(host, ready);
        self.answer_in_turn(host);
    }

    /// Requests that waited for the states of queues: those of guests have their turn again, by what they have left then.
    fn go_on(&self, host: Host<'_, Self>, ready: Vec<Asked>) {
        let (guests, owners): (Vec<_>, Vec<_>) = ready.into_iter().partition(|asked| asked.guest.is_some());
        // Each is put before those that came later.
        for asked in guests.into_iter().rev() {
            if let Some(user) = asked.guest {
                self.pace.borrow_mut().back(user, Asked { knows_queues: true, ..asked });
            }
        }
        self.arm_answers(host);
        owners.into_iter().for_each(|asked| self.answer_kept(host, asked));
    }

    /// After a panic nothing that was asked of Flux is answered, and the timer of answers may have been lost. It may be what
    /// panics, and each panic has all jobs compared: it waits a little.
    pub(super) fn answers_recover(&self, host: Host<'_, Self>) {
        self.pace.borrow_mut().pause(host.now());
        let waiting = self.queues.borrow_mut().lost();
        self.go_on(host, waiting);
    }
}
