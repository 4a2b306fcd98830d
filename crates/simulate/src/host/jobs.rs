// SPDX-License-Identifier: LGPL-3.0-only
//! A job's way through its states, as Flux takes it.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use super::{Active, Answer, COUNTED, Host, REJECTED, URGENCY, id_of};
use crate::scheduler::{Number, Time};
use crate::trace::Job;
use fairshare_engine::engine::{Event, JobFacts, State};
use fairshare_engine::limits::{Allocation, Resources, Size};

impl<'a> Host<'a> {
    fn facts(&self, number: Number, job: &Job) -> Option<JobFacts<'a>> {
        let party = self.trace.parties().get(self.trace.party_of(job))?;
        Some(JobFacts {
            id: id_of(number),
            user: party.user,
            state: State::New,
            urgency: URGENCY,
            priority: -1,
            bank: Some(party.bank.as_str()),
            queue: party.queue.as_ref().map(|queue| queue.as_str()),
            project: None,
            size: Ok(Size { nodes: job.nodes.into(), cores: job.cores.into(), gpus: job.gpus.into() }),
            submitted: Some(job.submit),
            // 0 is no limit.
            duration: if job.walltime.is_finite() { job.walltime } else { 0.0 },
            resources: Resources::None,
        })
    }

    pub(super) fn submit(&mut self, number: Number) {
        let Some((job, facts)) = self.job(number).and_then(|job| Some((job, self.facts(number, job)?)))
        else {
            return;
        };
        let id = id_of(number);
        // Flux's scheduler refuses what it can never place.
        let is_feasible = u64::from(job.cores) <= self.cluster.cores;
        self.tell(Event::Created { id, state: State::New, has_dependencies: false });
        if !is_feasible || self.tell(Event::Validate(facts.clone())) == Answer::Rejected {
            self.tell(Event::Gone(id));
            self.set_start(number, REJECTED);
            self.count();
            return;
        }
        self.meter.wanted(self.bank(job));
        self.active.insert(number, Active { state: State::Depend, priority: 0, holds: Vec::new() });
        self.tell(Event::New(facts));
        self.tell(Event::Depend(id));
        self.go_on(number);
    }

    /// A job in DEPEND that nothing holds goes on.
    pub(super) fn go_on(&mut self, number: Number) {
        let Some(active) = self.active.get_mut(&number) else { return };
        if active.state == State::Depend && active.holds.is_empty() {
            active.state = State::Priority;
            let answer = self.tell(Event::Priority(id_of(number), URGENCY));
            self.set_priority(number, &answer);
        }
    }

    pub(super) fn set_priority(&mut self, number: Number, answer: &Answer) {
        let Answer::Priority(priority) = *answer else { return };
        let (Some(job), Some(active)) = (self.job(number), self.active.get_mut(&number)) else { return };
        if !matches!(active.state, State::Priority | State::Sched) {
            return;
        }
        let before = std::mem::replace(&mut active.priority, priority);
        let is_new = active.state == State::Priority;
        active.state = State::Sched;
        self.priceless += usize::from(priority == 0);
        self.priceless -= usize::from(before == 0 && !is_new);
        if before != priority {
            self.queue.remove(before, number, job.cores);
            if priority > 0 {
                self.queue.insert(priority, number, job.cores);
            }
        }
        if is_new {
            self.tell(Event::Sched(id_of(number)));
        }
    }

    pub(super) fn start(&mut self, number: Number) {
        let (Some(job), Some(active)) = (self.job(number), self.active.get_mut(&number)) else { return };
        active.state = State::Run;
        self.queue.remove(active.priority, number, job.cores);
        self.cluster.take(number, job, self.now);
        self.meter.start(job.cores);
        self.set_start(number, self.now);
        self.ends.push(Reverse((Time(self.now + job.run), number)));
        let given = Allocation {
            nodes: job.nodes.into(),
            cores: job.cores.into(),
            gpus: job.gpus.into(),
            start: Some(self.now),
            expiration: Some(self.now + job.walltime).filter(|end| end.is_finite()),
        };
        self.tell(Event::Run(id_of(number), Resources::Allocated(given)));
    }

    /// A job is over, whether it ran or not.
    pub(super) fn end(&mut self, number: Number) {
        let (Some(job), Some(active)) = (self.job(number), self.active.remove(&number)) else { return };
        let mut used = 0.0;
        if active.state == State::Run {
            let started = self.starts.get(number as usize).copied().unwrap_or(self.now);
            self.cluster.give_back(number, job, started);
            self.meter.end(job.cores);
            used = f64::from(job.cores) * (self.now - started);
        } else {
            self.queue.remove(active.priority, number, job.cores);
            self.priceless -= usize::from(active.state == State::Sched && active.priority == 0);
            self.set_start(number, REJECTED);
        }
        self.meter.gone(self.bank(job), used);
        let id = id_of(number);
        self.tell(Event::Cleanup(id));
        self.tell(Event::Inactive(id));
        self.tell(Event::Gone(id));
        self.count();
    }

    fn bank(&self, job: &Job) -> usize {
        self.bank_of.get(self.trace.party_of(job)).copied().unwrap_or(usize::MAX)
    }

    fn set_start(&mut self, number: Number, start: f64) {
        if let Some(at) = self.starts.get_mut(number as usize) {
            *at = start;
        }
    }

    fn count(&mut self) {
        self.uncounted += 1;
        if let Some(done) = self.done.filter(|_| self.uncounted >= COUNTED) {
            done.fetch_add(std::mem::take(&mut self.uncounted), Ordering::Relaxed);
        }
    }
}
