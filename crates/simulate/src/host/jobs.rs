// SPDX-License-Identifier: LGPL-3.0-only
//! Takes a job through its states like Flux.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use super::{Active, Answer, COUNTED, Host, REJECTED, URGENCY, to_id};
use crate::scheduler::{Number, Time};
use crate::trace::Job;
use fairshare_engine::engine::{Event, JobFacts, State};
use fairshare_engine::limits::{Allocation, Resources, Size};

impl<'a> Host<'a> {
    fn facts(&self, number: Number, job: &Job) -> Option<JobFacts<'a>> {
        let party = self.trace.parties().get(self.trace.party_of(job))?;
        Some(JobFacts {
            id: to_id(number),
            user: party.user,
            state: State::New,
            urgency: URGENCY,
            priority: -1,
            bank: Some(party.bank.as_str()),
            queue: party.queue.as_ref().map(|queue| queue.as_str()),
            project: None,
            size: Ok(Size::new(job.nodes.into(), job.cores.into(), job.gpus.into())),
            submitted: Some(job.submit),
            // 0 means no limit.
            duration: if job.walltime.is_finite() { job.walltime } else { 0.0 },
            resources: Resources::None,
        })
    }

    pub(super) fn submit(&mut self, number: Number) {
        let Some((job, facts)) = self.job(number).and_then(|job| Some((job, self.facts(number, job)?)))
        else {
            return;
        };
        let id = to_id(number);
        // Flux's scheduler rejects jobs that it can never start.
        let is_feasible = u64::from(job.cores) <= self.cluster.cores;
        self.send(Event::Created { id, state: State::New, has_dependencies: false });
        if !is_feasible || self.send(Event::Validate(facts.clone())) == Answer::Rejected {
            self.send(Event::Gone(id));
            self.set_start(number, REJECTED);
            self.count_done();
            return;
        }
        self.meter.add_job(self.bank_index(job));
        self.active.insert(number, Active { state: State::Depend, priority: 0, holds: Vec::new() });
        self.send(Event::New(facts));
        self.send(Event::Depend(id));
        self.leave_depend(number);
    }

    /// Moves a job from DEPEND to PRIORITY, unless a limit holds it.
    pub(super) fn leave_depend(&mut self, number: Number) {
        let Some(active) = self.active.get_mut(&number) else { return };
        if active.state == State::Depend && active.holds.is_empty() {
            active.state = State::Priority;
            let answer = self.send(Event::Priority(to_id(number), URGENCY));
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
        self.with_priority_0 += usize::from(priority == 0);
        self.with_priority_0 -= usize::from(before == 0 && !is_new);
        if before != priority {
            self.queue.remove(before, number, job.cores);
            if priority > 0 {
                self.queue.insert(priority, number, job.cores);
            }
        }
        if is_new {
            self.send(Event::Sched(to_id(number)));
        }
    }

    pub(super) fn start(&mut self, number: Number) {
        let (Some(job), Some(active)) = (self.job(number), self.active.get_mut(&number)) else { return };
        active.state = State::Run;
        self.queue.remove(active.priority, number, job.cores);
        self.cluster.allocate(number, job, self.now);
        self.meter.add_cores(job.cores);
        self.set_start(number, self.now);
        self.ends.push(Reverse((Time(self.now + job.run), number)));
        let given = Allocation {
            nodes: job.nodes.into(),
            cores: job.cores.into(),
            gpus: job.gpus.into(),
            start: Some(self.now),
            expiration: Some(self.now + job.walltime).filter(|end| end.is_finite()),
        };
        self.send(Event::Run(to_id(number), Resources::Allocated(given)));
    }

    /// Ends a job, whether it is running or pending.
    pub(super) fn end(&mut self, number: Number) {
        let (Some(job), Some(active)) = (self.job(number), self.active.remove(&number)) else { return };
        let mut used = 0.0;
        if active.state == State::Run {
            let started = self.starts.get(number as usize).copied().unwrap_or(self.now);
            self.cluster.release(number, job, started);
            self.meter.remove_cores(job.cores);
            used = f64::from(job.cores) * (self.now - started);
        } else {
            self.queue.remove(active.priority, number, job.cores);
            self.with_priority_0 -= usize::from(active.state == State::Sched && active.priority == 0);
            self.set_start(number, REJECTED);
        }
        self.meter.remove_job(self.bank_index(job), used);
        let id = to_id(number);
        self.send(Event::Cleanup(id));
        self.send(Event::Inactive(id));
        self.send(Event::Gone(id));
        self.count_done();
    }

    fn bank_index(&self, job: &Job) -> usize {
        self.bank_of.get(self.trace.party_of(job)).copied().unwrap_or(usize::MAX)
    }

    fn set_start(&mut self, number: Number, start: f64) {
        if let Some(at) = self.starts.get_mut(number as usize) {
            *at = start;
        }
    }

    fn count_done(&mut self) {
        self.uncounted += 1;
        if let Some(done) = self.done.filter(|_| self.uncounted >= COUNTED) {
            done.fetch_add(std::mem::take(&mut self.uncounted), Ordering::Relaxed);
        }
    }
}
