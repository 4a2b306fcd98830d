// SPDX-License-Identifier: LGPL-3.0-only
//! A model of the job manager, with the callback order and the restrictions of Flux's job manager.
//!
//! - The removal of a job's last dependency runs the job's priority and sched callbacks before the removal returns.
//! - Only subscribers get the events of a job.
//! - A lookup of another job during the loop over all jobs fails the test. In Flux it would move the loop's cursor.

#![allow(clippy::redundant_closure)] // the bare variants do not borrow generally enough

mod actions;
mod effects;
mod reactor;

use super::cached_priorities;
use super::oracle::Oracle;
use super::site::{HostJob, NOW};
use crate::accounts::{AssociationRecord, Queue};
use crate::engine::{EndedJob, Engine, Event, JobFacts, Past, Refusal, State};
use crate::ids::{JobId, QueueName, UserId};
use crate::limits::Job;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Default)]
pub struct Host {
    /// The annotations of all jobs, in order.
    pub notes: Vec<String>,
    pub engine: Engine,
    pub jobs: BTreeMap<JobId, HostJob>,
    pub exceptions: Vec<(JobId, String)>,
    pub logged: Vec<String>,
    /// The time of the reactor, in seconds since the epoch.
    pub now: f64,
    /// Jobs to whose events the plugin is subscribed.
    pub subscribed: BTreeSet<JobId>,
    /// Jobs whose eventlog cannot be read.
    pub unreadable: BTreeSet<JobId>,
    /// Jobs whose eventlog requests never get a response.
    pub never_answered: BTreeSet<JobId>,
    /// Whether job-list answers.
    pub has_job_list: bool,
    /// The number of eventlogs that the engine has requested.
    pub requested_reads: usize,
    /// Checks which jobs the engine releases, and in which order. The checks do not use code of the engine.
    pub oracle: Oracle,
    next: u64,
    defers: usize,
    reads: VecDeque<JobId>,
    /// Jobs whose eventlogs are requested by effects that the host has not carried out yet.
    to_be_read: BTreeSet<JobId>,
    asks: Vec<JobId>,
    retries: usize,
    /// The ended jobs in job-list.
    /// `listed` is the response of job-list to the pending request.
    pub ended: Vec<EndedJob>,
    pub listed: Option<Option<Vec<EndedJob>>>,
    /// The number of priorities that the engine has posted one by one.
    pub posts: usize,
    /// Jobs that went from PRIORITY to SCHED because the engine posted their priorities by id, in order.
    pub moved_to_sched: Vec<JobId>,
    /// The number of Flux's loops over all jobs.
    pub loops: usize,
    /// If set, Flux refuses with this error each priority that the engine posts one by one.
    pub refuse_priorities: Option<Refusal>,
    /// If set, Flux refuses with this error each request for the urgency of a job.
    pub refuse_urgency_requests: Option<Refusal>,
    /// If set, Flux refuses each request to reprioritize all jobs with this error.
    pub refuse_loops: Option<Refusal>,
    slices: usize,
    /// `Some(true)` if the timer for queue states fires now, `Some(false)` if it fires later, and `None` if it is not
    /// armed.
    queue_timer: Option<bool>,
    queues_asked: Option<Vec<Option<QueueName>>>,
    pub stopped: BTreeSet<String>,
    /// When the refresh timer fires.
    pub refresh_at: Option<f64>,
    /// The time of the next update of the remaining time of running jobs.
    pub time_left_at: Option<f64>,
    /// If set, the next job event for which this returns true makes the engine panic at the start of its callback.
    pub panics_at: Option<fn(&Event<'_>) -> bool>,
    /// All jobs for which [`is_hold_candidate`] is true, and some jobs for which it is no longer true. A search of all
    /// jobs at each event would make long histories slow.
    hold_candidates: BTreeSet<JobId>,
    /// The job that Flux's loop over all jobs asks about.
    job_in_loop: Option<JobId>,
    /// Jobs whose callbacks are running. An event posted to such a job is handled when its callback has returned.
    busy: Vec<JobId>,
    /// Dependencies to remove from jobs in `busy` when the callbacks of these jobs have returned.
    queued: Vec<(JobId, String)>,
    answer: Option<Answer>,
}

/// Returns true if the engine may hold the job: it is in SCHED with priority 0, or it returned from SCHED to PRIORITY and has no priority.
fn is_hold_candidate(job: &HostJob) -> bool {
    let is_sent_back = job.state == State::Priority && job.was_sched && job.lacks_priority;
    is_sent_back || job.is_scheduled() && job.priority == Some(0)
}

fn find_jobs_that_may_be_held(jobs: &BTreeMap<JobId, HostJob>) -> BTreeSet<JobId> {
    jobs.iter().filter(|(_, job)| is_hold_candidate(job)).map(|(id, _)| *id).collect()
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Rejected(String),
    Priority(i64),
    Keep,
    Unavailable,
}

impl Host {
    pub fn new() -> Self {
        Host { now: NOW, has_job_list: true, next: 1, ..Host::default() }
    }

    pub fn with_data(associations: Vec<AssociationRecord>, queues: Vec<Queue>) -> Self {
        let mut host = Host::new();
        host.send_event(Event::Queues(queues));
        host.send_event(Event::Projects(vec!["*".into()]));
        host.send_event(Event::Associations(associations));
        host
    }

    pub fn facts(id: JobId, job: &HostJob) -> JobFacts<'_> {
        JobFacts {
            id,
            user: UserId(job.user),
            state: job.state,
            urgency: job.urgency,
            priority: job.priority.unwrap_or(-1),
            bank: job.bank.as_deref(),
            queue: job.queue.as_deref(),
            project: job.project.as_deref(),
            size: Ok(job.size),
            submitted: Some(job.submitted),
            duration: job.duration,
            resources: job.resources(),
        }
    }

    /// Passes an event that does not concern a single job to the engine, then runs the reactor until it is idle.
    pub fn send_event(&mut self, event: Event<'_>) {
        self.oracle.apply_event(&event);
        let effects = self.engine.handle(self.now, event);
        self.apply_effects(effects);
        self.run_until_idle();
        self.oracle.scans_all = false;
    }

    fn run_callback(&mut self, id: JobId, make: impl FnOnce(JobFacts<'_>) -> Event<'_>) -> Option<Answer> {
        self.run_callback_in_state(id, |facts, _| make(facts))
    }

    fn run_callback_in_state(
        &mut self,
        id: JobId,
        make: impl for<'a> FnOnce(JobFacts<'a>, &'a HostJob) -> Event<'a>,
    ) -> Option<Answer> {
        self.busy.push(id);
        let outer = self.answer.take();
        let job = self.jobs[&id].clone();
        self.send_job_event(id, make(Host::facts(id, &job), &job));
        self.busy.pop();
        let answer = std::mem::replace(&mut self.answer, outer);
        self.remove_queued_dependencies(id);
        answer
    }

    fn send_job_event(&mut self, id: JobId, event: Event<'_>) {
        let panics = self.panics_at.take_if(|panics| panics(&event)).is_some();
        let event = if panics { Event::Panicked(Some(id)) } else { event };
        let effects = self.engine.handle(self.now, event);
        self.apply_effects(effects);
    }

    /// Removes the dependencies whose removal was queued while the job was inside a callback.
    fn remove_queued_dependencies(&mut self, id: JobId) {
        while !self.busy.contains(&id)
            && let Some(at) = self.queued.iter().position(|(queued, _)| *queued == id)
        {
            let (_, name) = self.queued.remove(at);
            self.remove_dependency(id, &name);
        }
    }

    /// Removes a dependency. If no dependency is left, the job enters PRIORITY before the method returns.
    pub fn remove_dependency(&mut self, id: JobId, name: &str) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.dependencies.remove(name) {
            job.removed_dependencies.insert(name.to_owned());
            job.log.push((name.to_owned(), false));
            job.past.push((self.now, Past::Dependency(name.to_owned(), false)));
            self.send_dependency_event(id, name, false);
        }
        let Some(job) = self.jobs.get(&id) else { return };
        if job.dependencies.is_empty() && job.state == State::Depend {
            self.enter_priority(id);
        }
    }

    fn send_dependency_event(&mut self, id: JobId, name: &str, added: bool) {
        if !self.subscribed.contains(&id) {
            return;
        }
        self.busy.push(id);
        self.send_job_event(id, Event::Dependency { id, name, added });
        self.busy.pop();
        self.remove_queued_dependencies(id);
    }

    fn enter_priority(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).unwrap();
        job.state = State::Priority;
        let urgency = job.urgency;
        let answer = self.run_callback(id, |facts| Event::Priority(facts.id, urgency));
        self.set_priority(id, answer);
    }

    /// Asks for the priority of a job that returned from SCHED. The engine answers 0 to hold the job in SCHED.
    pub(super) fn repeat_request(&mut self, id: JobId, urgency: i64) {
        let posted = self.jobs[&id].priority.and_then(|posted| u32::try_from(posted).ok()).unwrap_or(0);
        let answer = self.run_callback(id, |facts| Event::Bounced { id: facts.id, urgency, posted });
        // The scheduler may have allocated resources already, and only a job in SCHED can take them.
        assert!(matches!(answer, Some(Answer::Priority(_))), "job {id} was in SCHED, and stays in PRIORITY");
        if urgency == 31
            && let Some(job) = self.jobs.get_mut(&id)
        {
            job.is_held_in_sched = false;
        }
        self.set_priority(id, answer);
    }

    /// Marks the host's jobs that the engine now holds in PRIORITY or SCHED. Returns the jobs that are held in SCHED.
    /// When all effects are carried out, each of the returned jobs must exceed a limit.
    pub(super) fn find_held_in_sched(&mut self) -> Vec<JobId> {
        self.hold_candidates.retain(|id| self.jobs.get(id).is_some_and(is_hold_candidate));
        if self.jobs.len() < 100 {
            assert_eq!(
                self.hold_candidates,
                find_jobs_that_may_be_held(&self.jobs),
                "`hold_candidates` lacks a job"
            );
        }
        let mut found = Vec::new();
        for id in &self.hold_candidates {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            if self.engine.ledger().job(*id).is_some_and(Job::is_awaiting) {
                // The engine may hold a job in PRIORITY that a restart sent there.
                (job.was_sched, job.was_held_in_priority) = (false, true);
                job.is_held_in_sched = job.state == State::Sched;
                found.extend(job.is_held_in_sched.then_some(*id));
            }
        }
        found
    }

    fn set_priority(&mut self, id: JobId, answer: Option<Answer>) {
        self.hold_candidates.insert(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if answer == Some(Answer::Unavailable) {
            (job.answered, job.lacks_priority) = (None, true);
            // The engine holds the job in PRIORITY. When the job is released, headroom is reserved for it.
            job.was_held_in_priority |= !job.was_sched;
        }
        let Some(Answer::Priority(priority)) = answer else { return };
        let priority = match job.urgency {
            0 => 0,
            31 => i64::from(u32::MAX),
            _ => priority,
        };
        assert!(
            !job.is_held_in_sched || priority == 0,
            "job {id} is held in SCHED, and has a priority above 0"
        );
        (job.priority, job.answered, job.lacks_priority) = (Some(priority), Some(priority), false);
        if job.state == State::Priority {
            job.state = State::Sched;
            if !std::mem::replace(&mut job.was_sched, true) {
                self.oracle.count_overtakings(&self.jobs, id);
            }
            self.run_callback(id, |facts| Event::Sched(facts.id));
        }
    }

    pub fn reprioritize_all(&mut self) {
        self.loops += 1;
        // Flux's loop visits the jobs in the order of a hash table.
        let mut pending: Vec<JobId> = self.jobs.keys().copied().collect();
        pending.sort_by_key(|id| id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for id in pending {
            self.job_in_loop = Some(id);
            let Some(job) = self.jobs.get(&id) else { continue };
            if !matches!(job.state, State::Priority | State::Sched) {
                continue;
            }
            let urgency = job.urgency;
            cached_priorities::check_cached_priority(&self.engine, self.now, id, urgency);
            let answer = self.run_callback(id, |facts| Event::PriorityGet(facts.id, urgency));
            // Flux ignores a priority that does not change, also for a job in PRIORITY.
            let present = self.jobs.get(&id).and_then(|job| job.priority);
            if answer != present.map(Answer::Priority) {
                self.set_priority(id, answer);
            }
        }
        self.job_in_loop = None;
    }

    /// Returns the number of jobs of `user` in `bank` and `state`, except jobs that are held in SCHED.
    pub fn count_jobs(&self, user: u32, bank: &str, state: State) -> u64 {
        let is = |job: &&HostJob| {
            job.user == user
                && job.bank.as_deref() == Some(bank)
                && job.state == state
                && !job.is_held_in_sched
        };
        self.jobs.values().filter(is).count() as u64
    }

    pub fn state(&self, id: JobId) -> Option<State> {
        self.jobs.get(&id).map(|job| job.state)
    }

    pub fn states<const N: usize>(&self, ids: [JobId; N]) -> [Option<State>; N] {
        ids.map(|id| self.state(id))
    }

    pub fn names(&self, id: JobId) -> Vec<String> {
        self.jobs.get(&id).map(|job| job.dependencies.iter().cloned().collect()).unwrap_or_default()
    }
}
