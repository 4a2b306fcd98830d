// SPDX-License-Identifier: LGPL-3.0-only
//! Takes a job through its states like Flux.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use super::{ActiveJob, Answer, DEFAULT_URGENCY, Host, REJECTED, to_id};
use crate::scheduler::{JobIndex, Time};
use crate::trace::Job;
use fairshare_engine::engine::{Event, JobFacts, State};
use fairshare_engine::limits::{Allocation, Resources, Size};

impl<'a> Host<'a> {
    fn build_facts(&self, number: JobIndex, job: &Job) -> Option<JobFacts<'a>> {
        let party = self.trace.parties().get(self.trace.get_trace_job_owner_index(job))?;
        Some(JobFacts {
            id: to_id(number),
            user: party.user,
            state: State::New,
            urgency: DEFAULT_URGENCY,
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

    pub(super) fn submit_job(&mut self, number: JobIndex) {
        let Some((job, facts)) = self.job(number).and_then(|job| Some((job, self.build_facts(number, job)?)))
        else {
            return;
        };
        let id = to_id(number);
        // Flux's scheduler rejects jobs that it can never start.
        let is_feasible = u64::from(job.cores) <= self.cluster.cores;
        self.send_event(Event::Created { id, state: State::New, has_dependencies: false });
        if !is_feasible || self.send_event(Event::Validate(facts.clone())) == Answer::Rejected {
            self.send_event(Event::Gone(id));
            self.set_start(number, REJECTED);
            self.done.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.meter.add_job(self.bank_index(job));
        self.active.insert(number, ActiveJob { state: State::Depend, priority: 0, holds: Vec::new() });
        self.send_event(Event::New(facts));
        self.send_event(Event::Depend(id));
        self.move_job_out_of_depend(number);
    }

    /// Moves a job from DEPEND to PRIORITY, unless a limit holds it.
    pub(super) fn move_job_out_of_depend(&mut self, number: JobIndex) {
        let Some(active) = self.active.get_mut(&number) else { return };
        if active.state == State::Depend && active.holds.is_empty() {
            active.state = State::Priority;
            let answer = self.send_event(Event::Priority(to_id(number), DEFAULT_URGENCY));
            self.set_priority(number, &answer);
        }
    }

    pub(super) fn set_priority(&mut self, number: JobIndex, answer: &Answer) {
        let Answer::Priority(priority) = *answer else { return };
        let (Some(job), Some(active)) = (self.job(number), self.active.get_mut(&number)) else { return };
        if !matches!(active.state, State::Priority | State::Sched) {
            return;
        }
        let before = std::mem::replace(&mut active.priority, priority);
        let is_new = active.state == State::Priority;
        active.state = State::Sched;
        self.jobs_with_priority_0 += usize::from(priority == 0);
        self.jobs_with_priority_0 -= usize::from(before == 0 && !is_new);
        if before != priority {
            self.queue.remove(before, number, job.cores);
            if priority > 0 {
                self.queue.insert(priority, number, job.cores);
            }
        }
        if is_new {
            self.send_event(Event::Sched(to_id(number)));
        }
    }

    pub(super) fn start_job(&mut self, number: JobIndex) {
        let (Some(job), Some(active)) = (self.job(number), self.active.get_mut(&number)) else { return };
        active.state = State::Run;
        self.queue.remove(active.priority, number, job.cores);
        self.cluster.allocate(number, job, self.now);
        self.meter.add_cores(job.cores);
        self.set_start(number, self.now);
        self.ends.push(Reverse((Time(self.now + job.run), number)));
        let allocation = Allocation {
            nodes: job.nodes.into(),
            cores: job.cores.into(),
            gpus: job.gpus.into(),
            start: Some(self.now),
            expiration: Some(self.now + job.walltime).filter(|end| end.is_finite()),
        };
        self.send_event(Event::Run(to_id(number), Resources::Allocated(allocation)));
    }

    /// Ends a job, whether it is running or pending.
    pub(super) fn end_job(&mut self, number: JobIndex) {
        let (Some(job), Some(active)) = (self.job(number), self.active.remove(&number)) else { return };
        let mut used = 0.0;
        if active.state == State::Run {
            let started = self.starts.get(number as usize).copied().unwrap_or(self.now);
            self.cluster.release(number, job, started);
            self.meter.remove_cores(job.cores);
            used = f64::from(job.cores) * (self.now - started);
            self.last = self.now;
        } else {
            self.queue.remove(active.priority, number, job.cores);
            self.jobs_with_priority_0 -= usize::from(active.state == State::Sched && active.priority == 0);
            self.set_start(number, REJECTED);
        }
        self.meter.remove_job(self.bank_index(job), used);
        let id = to_id(number);
        self.send_event(Event::Cleanup(id));
        self.send_event(Event::Inactive(id));
        self.send_event(Event::Gone(id));
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn bank_index(&self, job: &Job) -> usize {
        self.bank_of.get(self.trace.get_trace_job_owner_index(job)).copied().unwrap_or(usize::MAX)
    }

    fn set_start(&mut self, number: JobIndex, start: f64) {
        if let Some(at) = self.starts.get_mut(number as usize) {
            *at = start;
        }
    }
}
