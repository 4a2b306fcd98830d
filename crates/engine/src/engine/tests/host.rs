// SPDX-License-Identifier: LGPL-3.0-only
//! A model of the job manager, as strict as the real one and as re-entrant: removing a job's last dependency runs its
//! priority and sched callbacks before the removal is over; events of a job are told only to who subscribed to it;
//! and in the loop that asks for priorities a look at any other job would make Flux lose its place, so it fails here.

#![allow(clippy::redundant_closure)] // the bare variants do not borrow generally enough

mod actions;
mod effects;
mod reactor;

use super::oracle::Oracle;
use super::settled;
use super::site::{HostJob, NOW};
use crate::accounts::{AssociationRecord, Queue};
use crate::engine::{EndedJob, Engine, Event, JobFacts, Past, Refusal, State};
use crate::ids::{JobId, QueueName, UserId};
use crate::limits::Job;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone)]
pub struct Host {
    /// What jobs were annotated with.
    pub notes: Vec<String>,
    pub engine: Engine,
    pub jobs: BTreeMap<JobId, HostJob>,
    pub exceptions: Vec<(JobId, String)>,
    pub logged: Vec<String>,
    /// The reactor's time.
    pub now: f64,
    /// Jobs whose events are told.
    pub subscribed: BTreeSet<JobId>,
    /// Jobs whose eventlog can't be read.
    pub unreadable: BTreeSet<JobId>,
    /// Jobs of whose eventlog nothing is ever heard.
    pub never_answered: BTreeSet<JobId>,
    /// Whether job-list answers.
    pub has_job_list: bool,
    /// How many eventlogs were asked for.
    pub reads_asked: usize,
    /// What must be released, and in which order, worked out without the engine.
    pub oracle: Oracle,
    next: u64,
    defers: usize,
    reads: VecDeque<JobId>,
    /// Jobs whose eventlogs the effects that are being carried out ask for.
    to_be_read: BTreeSet<JobId>,
    asks: Vec<JobId>,
    retries: usize,
    /// What job-list knows, and what it is about to answer.
    pub ended: Vec<EndedJob>,
    pub listed: Option<Option<Vec<EndedJob>>>,
    /// How many prices were posted by id.
    pub posts: usize,
    /// Jobs that such a price took from PRIORITY, in turn.
    pub gone_on: Vec<JobId>,
    /// How often Flux went through all its jobs.
    pub loops: usize,
    /// Why prices are refused.
    pub refuse_prices: Option<Refusal>,
    /// Why nobody is shown who is asked for by id.
    pub refuse_asks: Option<Refusal>,
    /// Why Flux does not go through all its jobs.
    pub refuse_loops: Option<Refusal>,
    slices: usize,
    /// Whether the timer of questions about queues is due, if it is armed; and the queues that are asked about.
    queue_timer: Option<bool>,
    queues_asked: Option<Vec<Option<QueueName>>>,
    /// Queues that are stopped.
    pub stopped: BTreeSet<String>,
    /// The parents of virtual queues, where the configuration does not have them.
    pub parents: BTreeMap<String, String>,
    /// When the next refresh is due.
    pub refresh_at: Option<f64>,
    /// The next callback of a job with such an event panics before it does anything.
    pub panics_at: Option<fn(&Event<'_>) -> bool>,
    /// The jobs that [rest](is_resting), and some that did: a look at all jobs at each event would make large histories slow.
    resting: BTreeSet<JobId>,
    /// The job that the loop over all jobs asks about.
    asked_about: Option<JobId>,
    /// Jobs inside a callback: what is posted to them waits for its end.
    busy: Vec<JobId>,
    /// Names that are taken off such jobs then.
    queued: Vec<(JobId, String)>,
    answer: Option<Answer>,
}

/// In SCHED with priority 0, or sent from there to PRIORITY without a price: where it may be put in line.
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

    /// Feeds an event that belongs to no job, then runs the reactor until it rests.
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
        self.take_off_queued(id);
        answer
    }

    fn call(&mut self, id: JobId, event: Event<'_>) {
        let panics = self.panics_at.take_if(|panics| panics(&event)).is_some();
        let event = if panics { Event::Panicked(Some(id)) } else { event };
        let effects = self.engine.handle(self.now, event);
        self.apply(effects);
    }

    /// Carries out what was posted to a job while it was inside a callback.
    fn take_off_queued(&mut self, id: JobId) {
        while !self.busy.contains(&id)
            && let Some(at) = self.queued.iter().position(|(queued, _)| *queued == id)
        {
            let (_, name) = self.queued.remove(at);
            self.remove_dependency(id, &name);
        }
    }

    /// Removes a name; when it was the last, the job goes on before this returns.
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
        self.take_off_queued(id);
    }

    fn enter_priority(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).unwrap();
        job.state = State::Priority;
        let urgency = job.urgency;
        let answer = self.callback(id, |facts| Event::Priority(facts.id, urgency));
        self.set_priority(id, answer);
    }

    /// A job that was in SCHED gets its price, or finds no room and is held there.
    pub(super) fn ask_again(&mut self, id: JobId, urgency: i64) {
        let posted = self.jobs[&id].priority.and_then(|posted| u32::try_from(posted).ok()).unwrap_or(0);
        let answer = self.callback(id, |facts| Event::Bounced { id: facts.id, urgency, posted });
        // Resources may be on their way to the job: only in SCHED can it take them.
        assert!(
            matches!(answer, Some(Answer::Priority(_))),
            "job {id} was in SCHED, and is kept in PRIORITY"
        );
        if urgency == 31
            && let Some(job) = self.jobs.get_mut(&id)
        {
            job.is_in_line = false;
        }
        self.set_priority(id, answer);
    }

    /// Jobs in SCHED may have been put in line there, by what a query tells: they have priority 0, and
    /// find no room when all that was decided with that is done.
    pub(super) fn find_in_line(&mut self) -> Vec<JobId> {
        self.resting.retain(|id| self.jobs.get(id).is_some_and(is_resting));
        if self.jobs.len() < 100 {
            assert_eq!(self.resting, all_resting(&self.jobs), "a job rests of which it is not noted");
        }
        let mut found = Vec::new();
        for id in &self.resting {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            if self.engine.ledger().job(*id).is_some_and(Job::is_awaiting) {
                // One that a restart sent to PRIORITY may be put in line there.
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
            // It stands in line in PRIORITY: once released, a place to run is reserved for it.
            job.was_awaiting |= !job.was_sched;
        }
        let Some(Answer::Priority(priority)) = answer else { return };
        // Flux has a priority of its own for jobs that are held and expedited.
        let priority = match job.urgency {
            0 => 0,
            31 => i64::from(u32::MAX),
            _ => priority,
        };
        assert!(!job.is_in_line || priority == 0, "job {id} is held in SCHED, and priced");
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
        // Flux's order is that of a hash.
        let mut pending: Vec<JobId> = self.jobs.keys().copied().collect();
        pending.sort_by_key(|id| id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for id in pending {
            self.asked_about = Some(id);
            let Some(job) = self.jobs.get(&id) else { continue };
            if !matches!(job.state, State::Priority | State::Sched) {
                continue;
            }
            let urgency = job.urgency;
            settled::agrees(&self.engine, self.now, id, urgency);
            let answer = self.callback(id, |facts| Event::PriorityGet(facts.id, urgency));
            // Flux does nothing about a priority that is what it was, not even in PRIORITY.
            let present = self.jobs.get(&id).and_then(|job| job.priority);
            if answer != present.map(Answer::Priority) {
                self.set_priority(id, answer);
            }
        }
        self.asked_about = None;
    }

    /// Jobs of a user in a bank and state. What is held in SCHED is none of those there.
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
