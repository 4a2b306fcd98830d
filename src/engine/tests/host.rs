// SPDX-License-Identifier: LGPL-3.0-only
//! A model of the job manager, as strict as the real one and as re-entrant: removing a job's last dependency runs its
//! priority and sched callbacks before the removal is over; events of a job are told only to who subscribed to it;
//! and in the loop that asks for priorities a look at any other job would make Flux lose its place, so it fails here.

#![allow(clippy::redundant_closure)] // the bare variants do not borrow generally enough

mod acts;

use super::oracle::Oracle;
use super::site::{HostJob, NOW, OWNER, SITE_NODES};
use crate::accounts::{AssociationRecord, Queue};
use crate::engine::{Effect, EndedJob, Engine, Event, JobFacts, Past, Posting, Refusal, State, Timer};
use crate::ids::{JobId, UserId};
use std::collections::{BTreeMap, BTreeSet};

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
    reads: Vec<JobId>,
    asks: Vec<JobId>,
    retries: usize,
    /// What job-list knows, and what it is about to answer.
    pub ended: Vec<EndedJob>,
    pub listed: Option<Option<Vec<EndedJob>>>,
    /// How many prices were posted by id.
    pub posts: usize,
    /// How often Flux went through all its jobs.
    pub loops: usize,
    /// Why prices are refused.
    pub refuse_prices: Option<Refusal>,
    slices: usize,
    /// When the next refresh is due.
    pub refresh_at: Option<f64>,
    /// The job that the loop over all jobs asks about.
    asked_about: Option<JobId>,
    /// Jobs inside a callback: what is posted to them waits for its end.
    busy: Vec<JobId>,
    queued: Vec<Effect>,
    answer: Option<Answer>,
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
            engine: Engine::new(OWNER),
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
            reads: Vec::new(),
            asks: Vec::new(),
            retries: 0,
            ended: Vec::new(),
            listed: None,
            posts: 0,
            loops: 0,
            refuse_prices: None,
            slices: 0,
            refresh_at: None,
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
        let effects = self.engine.handle(self.now, make(Host::facts(id, &job), &job));
        self.apply(effects);
        self.busy.pop();
        let answer = std::mem::replace(&mut self.answer, outer);
        if !self.busy.contains(&id) {
            let queued = std::mem::take(&mut self.queued);
            self.apply(queued);
        }
        answer
    }

    pub fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Err(why) = self.apply_one(&effect) {
                let more = self.engine.refused(effect, why);
                self.apply(more);
            }
        }
    }

    /// Looking a job up moves the place of Flux's loop over its jobs, unless it is the job of the running callback.
    fn look_up(&self, id: JobId) {
        let is_current = self.busy.last() == Some(&id);
        assert!(
            self.asked_about.is_none() || is_current,
            "job {id} is looked up while Flux asks about {:?}",
            self.asked_about
        );
    }

    fn apply_one(&mut self, effect: &Effect) -> Result<(), Refusal> {
        match effect {
            Effect::AddDependency(id, _)
            | Effect::AskUrgency(id)
            | Effect::RemoveDependency(id, _)
            | Effect::SetJobspec { id, .. }
            | Effect::Subscribe(id)
            | Effect::Unsubscribe(id)
            | Effect::Memo(id, _)
            | Effect::Raise(id, _)
            | Effect::Prioritize(id, _) => self.look_up(*id),
            _ => {}
        }
        match effect {
            Effect::RejectPolicy(text) | Effect::Reject(text) => {
                self.answer = Some(Answer::Rejected(text.clone()))
            }
            Effect::SetPriority(priority) => {
                self.answer = Some(Answer::Priority(i64::from(*priority)));
                if let Some(job) = self.busy.last().and_then(|id| self.jobs.get_mut(id)) {
                    job.answered = Some(i64::from(*priority));
                }
            }
            Effect::Annotate(text) => self.notes.push(text.clone()),
            Effect::KeepPriority => self.answer = Some(Answer::Keep),
            Effect::PriorityUnavailable => self.answer = Some(Answer::Unavailable),
            Effect::AddDependency(id, name) => {
                let job = self.jobs.get_mut(id).ok_or(Refusal::Absent)?;
                if !matches!(job.state, State::New | State::Depend) {
                    return Err(Refusal::TooLate);
                }
                let name = name.to_string();
                assert!(!job.dead.contains(&name), "{name} of job {id} was removed once: it holds nothing");
                if job.dependencies.insert(name.clone()) {
                    job.log.push((name.clone(), true));
                    self.dependency_event(*id, &name, true);
                }
            }
            Effect::AskUrgency(id) => {
                let urgency = self.jobs.get(id).ok_or(Refusal::Absent)?.urgency;
                let more = self.engine.handle(self.now, Event::Urgency(*id, urgency));
                self.apply(more);
            }
            Effect::LookUp(id) => {
                let job = self.jobs.get(id).cloned().ok_or(Refusal::Absent)?;
                let more = self.engine.handle(self.now, Event::Shown(Host::facts(*id, &job)));
                self.apply(more);
            }
            Effect::RemoveDependency(id, name) => {
                let job = self.jobs.get(id).ok_or(Refusal::Absent)?;
                if !job.dependencies.contains(&name.to_string()) {
                    return Err(Refusal::Absent);
                }
                if !matches!(job.state, State::New | State::Depend) {
                    return Err(Refusal::TooLate);
                }
                self.oracle.unknown = self.unreadable.clone();
                self.oracle.subscribed = self.subscribed.clone();
                self.oracle.taken_off(&self.jobs, *id, &name.to_string());
                if self.busy.contains(id) {
                    self.queued.push(effect.clone());
                } else {
                    self.remove_dependency(*id, &name.to_string());
                }
            }
            Effect::SetJobspec { id, posting, bank, project } => {
                let is_current = self.busy.last() == Some(id);
                assert_eq!(is_current, *posting == Posting::Current, "job {id}: the wrong kind of update");
                let job = self.jobs.get_mut(id).ok_or(Refusal::Absent)?;
                assert!(job.state < State::Run, "job {id} is {:?}: too late for an update", job.state);
                if let Some(bank) = bank {
                    assert_eq!(job.bank, None, "a bank that is named is never overwritten");
                    job.bank = Some(bank.to_string());
                }
                if let Some(project) = project {
                    assert_eq!(job.project, None);
                    job.project = Some(project.to_string());
                }
                self.callback(*id, |facts| Event::Updated(facts));
            }
            Effect::Memo(id, fairshare) => {
                self.jobs.get_mut(id).ok_or(Refusal::Absent)?.memos.push(*fairshare);
            }
            Effect::Raise(id, note) => {
                let job = self.jobs.get(id).ok_or(Refusal::Absent)?;
                assert!(job.state > State::New, "an exception in NEW is refused");
                assert!(self.busy.is_empty(), "whoever called back may not be done with job {id}");
                self.exceptions.push((*id, note.clone()));
                self.end(*id);
            }
            Effect::Log(_, text) => self.logged.push(text.clone()),
            Effect::Subscribe(id) => {
                self.jobs.get(id).ok_or(Refusal::Absent)?;
                self.subscribed.insert(*id);
            }
            // After a panic nobody knows to whom we are subscribed: there a subscription too many is given back.
            Effect::Unsubscribe(id) => {
                let was = self.subscribed.remove(id);
                assert!(was || self.engine.is_doubtful(), "job {id} was not subscribed to");
            }
            Effect::Arm(Timer::Turn) => self.defers += 1,
            Effect::Arm(Timer::Retry) => self.retries += 1,
            Effect::Arm(Timer::Slice) => self.slices += 1,
            Effect::Arm(timer @ (Timer::Refresh | Timer::Remember | Timer::Answer)) => {
                panic!("{timer:?} is not the engine's to arm")
            }
            Effect::ArmIn(timer, seconds) => {
                assert_eq!(*timer, Timer::Refresh);
                self.refresh_at = Some(self.now + seconds);
            }
            Effect::ReadEventlog(id) => {
                self.reads_asked += 1;
                if !self.never_answered.contains(id) {
                    self.reads.push(*id);
                }
            }
            Effect::ReadSiteNodes => {
                let more = self.engine.handle(self.now, Event::SiteNodes(Some(SITE_NODES)));
                self.apply(more);
            }
            Effect::ReadDependencies(id) => self.asks.push(*id),
            Effect::ListEnded { since, before, most } => {
                let mut page: Vec<EndedJob> =
                    self.ended.iter().filter(|job| job.end > *since).cloned().collect();
                page.retain(|job| before.is_none_or(|before| job.end <= before));
                page.sort_by(|a, b| b.end.total_cmp(&a.end));
                page.truncate(*most);
                self.listed = Some(self.has_job_list.then_some(page));
            }
            Effect::Prioritize(id, priority) => {
                let state = self.jobs.get(id).ok_or(Refusal::Absent)?.state;
                if let Some(why) = &self.refuse_prices {
                    return Err(why.clone());
                }
                if matches!(state, State::Priority | State::Sched) {
                    self.posts += 1;
                    self.set_priority(*id, Some(Answer::Priority(i64::from(*priority))));
                }
            }
            Effect::ReprioritizeAll => self.reprioritize_all(),
            Effect::Then(step) => {
                let more = self.engine.step(step.clone());
                self.apply(more);
            }
        }
        Ok(())
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
        let effects = self.engine.handle(self.now, Event::Dependency { id, name, added });
        self.apply(effects);
        self.busy.pop();
        let queued = std::mem::take(&mut self.queued);
        self.apply(queued);
    }

    fn enter_priority(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).unwrap();
        job.state = State::Priority;
        let urgency = job.urgency;
        let answer = self.callback(id, |facts| Event::Priority(facts.id, urgency));
        self.set_priority(id, answer);
    }

    fn set_priority(&mut self, id: JobId, answer: Option<Answer>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(Answer::Priority(priority)) = answer else { return };
        (job.priority, job.answered) = (Some(priority), Some(priority));
        if job.state == State::Priority {
            job.state = State::Sched;
            job.was_sched = true;
            self.callback(id, |facts| Event::Sched(facts.id));
        }
    }

    fn reprioritize_all(&mut self) {
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
            let answer = self.callback(id, |facts| Event::PriorityGet(facts.id, urgency));
            // Flux does nothing about a priority that is what it was, not even in PRIORITY.
            let present = self.jobs.get(&id).and_then(|job| job.priority);
            if answer != present.map(Answer::Priority) {
                self.set_priority(id, answer);
            }
        }
        self.asked_about = None;
    }

    /// Runs timers and reads until none is left.
    pub fn settle(&mut self) {
        self.oracle.turn();
        while self.listed.is_some()
            || self.slices > 0
            || self.defers > 0
            || !self.reads.is_empty()
            || !self.asks.is_empty()
        {
            if let Some(jobs) = self.listed.take() {
                let effects = self.engine.handle(self.now, Event::Ended(jobs));
                self.apply(effects);
            }
            if std::mem::take(&mut self.slices) > 0 {
                let effects = self.engine.handle(self.now, Event::Timer(Timer::Slice));
                self.apply(effects);
                self.oracle.turn();
            }
            if std::mem::take(&mut self.defers) > 0 {
                let effects = self.engine.handle(self.now, Event::Timer(Timer::Turn));
                self.apply(effects);
                self.oracle.turn();
            }
            for id in std::mem::take(&mut self.reads) {
                let can_read = !self.unreadable.contains(&id);
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.was_unreadable |= !can_read;
                }
                if let Some(job) = self.jobs.get(&id).filter(|_| can_read) {
                    let past = job.past.clone();
                    let effects = self.engine.handle(self.now, Event::Past(id, past));
                    self.apply(effects);
                }
                let history = self.jobs.get(&id).filter(|_| can_read).map(|job| job.log.clone());
                let effects = self.engine.handle(self.now, Event::Eventlog(id, history));
                self.apply(effects);
                self.oracle.turn();
            }
            for id in std::mem::take(&mut self.asks) {
                let job = self.jobs.get(&id).filter(|_| self.has_job_list);
                let names = job.map(|job| job.dependencies.iter().cloned().collect());
                let effects = self.engine.handle(self.now, Event::Dependencies(id, names));
                self.apply(effects);
                self.oracle.turn();
            }
        }
    }

    /// The time of a refresh comes, some seconds later.
    pub fn refresh(&mut self, seconds: f64) {
        self.now += seconds;
        if self.refresh_at.take().is_some() {
            let effects = self.engine.handle(self.now, Event::Timer(Timer::Refresh));
            self.apply(effects);
            self.settle();
        }
    }

    /// The time to try again comes.
    pub fn retry(&mut self) {
        if std::mem::take(&mut self.retries) > 0 {
            let effects = self.engine.handle(self.now, Event::Timer(Timer::Retry));
            self.apply(effects);
            self.settle();
        }
    }

    /// Jobs of a user in a bank and state.
    pub fn count(&self, user: u32, bank: &str, state: State) -> u64 {
        let is = |job: &&HostJob| job.user == user && job.bank.as_deref() == Some(bank) && job.state == state;
        self.jobs.values().filter(is).count() as u64
    }

    pub fn state(&self, id: JobId) -> Option<State> {
        self.jobs.get(&id).map(|job| job.state)
    }

    pub fn names(&self, id: JobId) -> Vec<String> {
        self.jobs.get(&id).map(|job| job.dependencies.iter().cloned().collect()).unwrap_or_default()
    }
}
