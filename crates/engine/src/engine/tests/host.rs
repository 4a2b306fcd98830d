// SPDX-License-Identifier: LGPL-3.0-only
//! A model of the job manager, as strict and as re-entrant as the real one. The removal of a job's last dependency runs
//! its priority and sched callbacks before the removal returns. Only subscribers get the events of a job. A lookup of
//! another job inside the loop that asks for priorities would move Flux's cursor, so it fails here.

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

#[derive(Clone)]
pub struct Host {
    /// The annotations of all jobs, in order.
    pub notes: Vec<String>,
    pub engine: Engine,
    pub jobs: BTreeMap<JobId, HostJob>,
    pub exceptions: Vec<(JobId, String)>,
    pub logged: Vec<String>,
    /// The reactor's time.
    pub now: f64,
    /// Jobs to whose events the plugin is subscribed.
    pub subscribed: BTreeSet<JobId>,
    /// Jobs whose eventlog can't be read.
    pub unreadable: BTreeSet<JobId>,
    /// Jobs whose eventlog requests get no answer.
    pub never_answered: BTreeSet<JobId>,
    /// Whether job-list answers.
    pub has_job_list: bool,
    /// Number of requested eventlogs.
    pub reads_asked: usize,
    /// Computes the released jobs and their order without the engine.
    pub oracle: Oracle,
    next: u64,
    defers: usize,
    reads: VecDeque<JobId>,
    /// Jobs whose eventlogs the current effects request.
    to_be_read: BTreeSet<JobId>,
    asks: Vec<JobId>,
    retries: usize,
    /// The ended jobs that job-list has. `listed` is its next answer.
    pub ended: Vec<EndedJob>,
    pub listed: Option<Option<Vec<EndedJob>>>,
    /// Number of priorities posted by id.
    pub posts: usize,
    /// Jobs that such a priority moved out of PRIORITY, in order.
    pub gone_on: Vec<JobId>,
    /// Number of loops over all jobs.
    pub loops: usize,
    /// The refusal of priorities by id.
    pub refuse_prices: Option<Refusal>,
    /// The refusal of urgency requests.
    pub refuse_asks: Option<Refusal>,
    /// The refusal of loops over all jobs.
    pub refuse_loops: Option<Refusal>,
    slices: usize,
    /// Whether the queue timer is due, if it is armed. `queues_asked` are the queues of the pending request.
    queue_timer: Option<bool>,
    queues_asked: Option<Vec<Option<QueueName>>>,
    /// Stopped queues.
    pub stopped: BTreeSet<String>,
    /// The parents of virtual queues, in place of the configuration's.
    pub parents: BTreeMap<String, String>,
    /// When the next refresh is due.
    pub refresh_at: Option<f64>,
    /// The next callback of a job whose event matches panics before it does anything.
    pub panics_at: Option<fn(&Event<'_>) -> bool>,
    /// The jobs that [rest](is_resting), and some that did before. A search of all jobs at each event would make long
    /// histories slow.
    resting: BTreeSet<JobId>,
    /// The job that the loop over all jobs asks about.
    asked_about: Option<JobId>,
    /// Jobs inside a callback. Events that are posted to them wait for its end.
    busy: Vec<JobId>,
    /// Dependencies that are removed from such jobs then.
    queued: Vec<(JobId, String)>,
    answer: Option<Answer>,
}

/// Returns true if the job is in SCHED with priority 0, or was sent from there to PRIORITY and has no priority. The
/// engine may hold such a job.
fn is_resting(job: &HostJob) -> bool {
    let is_sent_back = job.state == State::Priority && job.was_sched && job.waits;
    is_sent_back || job.is_scheduled() && job.priority == Some(0)
}

fn all_resting(jobs: &BTreeMap<JobId, HostJob>) -> BTreeSet<JobId> {
    jobs.iter().filter(|(_, job)| is_resting(job)).map(|(id, _)| *id).collect()
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
        Host {
            notes: Vec::new(),
            engine: Engine::small(),
            jobs: BTreeMap::new(),
            exceptions: Vec::new(),
            logged: Vec::new(),
            now: NOW,
            subscribed: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            never_answered: BTreeSet::new(),
            has_job_list: true,
            reads_asked: 0,
            oracle: Oracle::default(),
            next: 1,
            defers: 0,
            reads: VecDeque::new(),
            to_be_read: BTreeSet::new(),
            asks: Vec::new(),
            retries: 0,
            ended: Vec::new(),
            listed: None,
            posts: 0,
            gone_on: Vec::new(),
            loops: 0,
            refuse_prices: None,
            refuse_asks: None,
            refuse_loops: None,
            slices: 0,
            queue_timer: None,
            queues_asked: None,
            stopped: BTreeSet::new(),
            parents: BTreeMap::new(),
            refresh_at: None,
            panics_at: None,
            resting: BTreeSet::new(),
            asked_about: None,
            busy: Vec::new(),
            queued: Vec::new(),
            answer: None,
        }
    }

    pub fn with(associations: Vec<AssociationRecord>, queues: Vec<Queue>) -> Self {
        let mut host = Host::new();
        host.event(Event::Queues(queues));
        host.event(Event::Projects(vec!["*".into()]));
        host.event(Event::Associations(associations));
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

    /// Passes an event that belongs to no job to the engine, then runs the reactor until it is idle.
    pub fn event(&mut self, event: Event<'_>) {
        self.oracle.learn(&event);
        let effects = self.engine.handle(self.now, event);
        self.apply(effects);
        self.settle();
        self.oracle.is_all_looked_at = false;
    }

    fn callback(&mut self, id: JobId, make: impl FnOnce(JobFacts<'_>) -> Event<'_>) -> Option<Answer> {
        self.callback_of(id, |facts, _| make(facts))
    }

    fn callback_of(
        &mut self,
        id: JobId,
        make: impl for<'a> FnOnce(JobFacts<'a>, &'a HostJob) -> Event<'a>,
    ) -> Option<Answer> {
        self.busy.push(id);
        let outer = self.answer.take();
        let job = self.jobs[&id].clone();
        self.call(id, make(Host::facts(id, &job), &job));
        self.busy.pop();
        let answer = std::mem::replace(&mut self.answer, outer);
        self.remove_queued_dependencies(id);
        answer
    }

    fn call(&mut self, id: JobId, event: Event<'_>) {
        let panics = self.panics_at.take_if(|panics| panics(&event)).is_some();
        let event = if panics { Event::Panicked(Some(id)) } else { event };
        let effects = self.engine.handle(self.now, event);
        self.apply(effects);
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

    /// Removes a dependency. If it was the last, the job enters PRIORITY before this returns.
    pub fn remove_dependency(&mut self, id: JobId, name: &str) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.dependencies.remove(name) {
            job.dead.insert(name.to_owned());
            job.log.push((name.to_owned(), false));
            job.past.push((self.now, Past::Dependency(name.to_owned(), false)));
            self.dependency_event(id, name, false);
        }
        let Some(job) = self.jobs.get(&id) else { return };
        if job.dependencies.is_empty() && job.state == State::Depend {
            self.enter_priority(id);
        }
    }

    fn dependency_event(&mut self, id: JobId, name: &str, added: bool) {
        if !self.subscribed.contains(&id) {
            return;
        }
        self.busy.push(id);
        self.call(id, Event::Dependency { id, name, added });
        self.busy.pop();
        self.remove_queued_dependencies(id);
    }

    fn enter_priority(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).unwrap();
        job.state = State::Priority;
        let urgency = job.urgency;
        let answer = self.callback(id, |facts| Event::Priority(facts.id, urgency));
        self.set_priority(id, answer);
    }

    /// Asks for the priority of a job that was in SCHED. The engine answers 0 if it holds the job there.
    pub(super) fn ask_again(&mut self, id: JobId, urgency: i64) {
        let posted = self.jobs[&id].priority.and_then(|posted| u32::try_from(posted).ok()).unwrap_or(0);
        let answer = self.callback(id, |facts| Event::Bounced { id: facts.id, urgency, posted });
        // The scheduler may have allocated resources already, and only a job in SCHED can take them.
        assert!(matches!(answer, Some(Answer::Priority(_))), "job {id} was in SCHED, and stays in PRIORITY");
        if urgency == 31
            && let Some(job) = self.jobs.get_mut(&id)
        {
            job.is_in_line = false;
        }
        self.set_priority(id, answer);
    }

    /// Marks the resting jobs that the engine holds now, and returns those in SCHED. They have priority 0, and must
    /// exceed a limit once all effects are carried out.
    pub(super) fn find_in_line(&mut self) -> Vec<JobId> {
        self.resting.retain(|id| self.jobs.get(id).is_some_and(is_resting));
        if self.jobs.len() < 100 {
            assert_eq!(self.resting, all_resting(&self.jobs), "`resting` lacks a job");
        }
        let mut found = Vec::new();
        for id in &self.resting {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            if self.engine.ledger().job(*id).is_some_and(Job::is_awaiting) {
                // A job that a restart sent to PRIORITY may be held there.
                (job.was_sched, job.was_awaiting) = (false, true);
                job.is_in_line = job.state == State::Sched;
                found.extend(job.is_in_line.then_some(*id));
            }
        }
        found
    }

    fn set_priority(&mut self, id: JobId, answer: Option<Answer>) {
        self.resting.insert(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if answer == Some(Answer::Unavailable) {
            (job.answered, job.waits) = (None, true);
            // The job is held in PRIORITY. Once released, it has a reservation.
            job.was_awaiting |= !job.was_sched;
        }
        let Some(Answer::Priority(priority)) = answer else { return };
        // Flux sets its own priority at urgency 0 and 31.
        let priority = match job.urgency {
            0 => 0,
            31 => i64::from(u32::MAX),
            _ => priority,
        };
        assert!(!job.is_in_line || priority == 0, "job {id} is held in SCHED, and has a priority above 0");
        (job.priority, job.answered, job.waits) = (Some(priority), Some(priority), false);
        if job.state == State::Priority {
            job.state = State::Sched;
            if !std::mem::replace(&mut job.was_sched, true) {
                self.oracle.took(&self.jobs, id);
            }
            self.callback(id, |facts| Event::Sched(facts.id));
        }
    }

    pub fn reprioritize_all(&mut self) {
        self.loops += 1;
        // Flux loops in the order of a hash table.
        let mut pending: Vec<JobId> = self.jobs.keys().copied().collect();
        pending.sort_by_key(|id| id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for id in pending {
            self.asked_about = Some(id);
            let Some(job) = self.jobs.get(&id) else { continue };
            if !matches!(job.state, State::Priority | State::Sched) {
                continue;
            }
            let urgency = job.urgency;
            cached_priorities::agrees(&self.engine, self.now, id, urgency);
            let answer = self.callback(id, |facts| Event::PriorityGet(facts.id, urgency));
            // Flux ignores an unchanged priority, also of a job in PRIORITY.
            let present = self.jobs.get(&id).and_then(|job| job.priority);
            if answer != present.map(Answer::Priority) {
                self.set_priority(id, answer);
            }
        }
        self.asked_about = None;
    }

    /// Returns the number of jobs of a user in a bank and state, without jobs that are held in SCHED.
    pub fn count(&self, user: u32, bank: &str, state: State) -> u64 {
        let is = |job: &&HostJob| {
            job.user == user && job.bank.as_deref() == Some(bank) && job.state == state && !job.is_in_line
        };
        self.jobs.values().filter(is).count() as u64
    }

    pub fn state(&self, id: JobId) -> Option<State> {
        self.jobs.get(&id).map(|job| job.state)
    }

    pub fn names(&self, id: JobId) -> Vec<String> {
        self.jobs.get(&id).map(|job| job.dependencies.iter().cloned().collect()).unwrap_or_default()
    }
}
