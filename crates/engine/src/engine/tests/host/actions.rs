// SPDX-License-Identifier: LGPL-3.0-only
//! The actions of users, the scheduler and the administrator on the model host.

use super::super::site::HostJob;
use super::{Answer, Host, find_jobs_that_may_be_held};
use crate::accounts::AssociationRecord;
use crate::engine::answers::{Heading, Stats, stats};
use crate::engine::{Effect, EndedJob, Engine, Event, Past, State};
use crate::ids::{JobId, UserId};
use std::collections::VecDeque;

impl Host {
    pub fn submit(&mut self, job: HostJob) -> Result<JobId, String> {
        let id = JobId(self.next);
        self.next += 1;
        self.now += 1.0;
        // Flux posts the declared dependencies 0.125 s after the submission in this model, and then accepts the job.
        let depends = |name: &String| (self.now + 0.125, Past::Dependency(name.clone(), true));
        let mut past = vec![(self.now, Past::Urgency(job.urgency))];
        past.extend(job.dependencies.iter().map(depends));
        past.push((self.now + 0.25, Past::Accepted));
        self.jobs.insert(id, HostJob { submitted: self.now, past, urgency_at_first: job.urgency, ..job });
        self.create_job(id);
        let answer = self.run_callback(id, |facts| Event::Validate(facts));
        let rejection = if let Some(Answer::Rejected(text)) = answer { Some(text) } else { None };
        self.oracle.check_submission(&self.jobs, id, rejection.as_deref());
        if let Some(text) = rejection {
            self.destroy_job(id);
            return Err(text);
        }
        for name in self.jobs[&id].dependencies.clone() {
            self.send_dependency_event(id, &name, true);
        }
        self.run_callback(id, |facts| Event::New(facts));
        self.jobs.get_mut(&id).unwrap().state = State::Depend;
        self.run_callback(id, |facts| Event::Depend(facts.id));
        if self.jobs.get(&id).is_some_and(|job| job.dependencies.is_empty() && job.state == State::Depend) {
            self.enter_priority(id);
        }
        self.run_until_idle();
        Ok(id)
    }

    /// Submits a job, and starts it if it is in SCHED with a priority above 0.
    pub fn run_new_job(&mut self, job: HostJob) -> JobId {
        let id = self.submit(job).unwrap();
        self.start_job(id);
        id
    }

    /// Sends records, and then a reprioritize.
    pub fn push(&mut self, records: Vec<AssociationRecord>) {
        self.send_event(Event::Associations(records));
        self.send_event(Event::Reprioritize);
    }

    /// Sends weights, and then a reprioritize.
    pub fn push_weights(&mut self, weights: Vec<(String, i64)>) {
        self.send_event(Event::Weights(weights));
        self.send_event(Event::Reprioritize);
    }

    pub fn stats(&self) -> Stats {
        stats(&self.engine.view(), Heading::new(&self.engine.view(), self.now, None))
    }

    /// Removes a dependency, and runs the reactor until it is idle.
    pub fn unblock(&mut self, id: JobId, name: &str) {
        self.remove_dependency(id, name);
        self.run_until_idle();
    }

    /// Starts a job that is in SCHED with a priority above 0.
    pub fn start_job(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.state == State::Sched && job.priority > Some(0) {
            self.now += 1.0;
            job.state = State::Run;
            job.started = Some(self.now);
            self.run_callback(id, |facts| Event::Run(facts.id, facts.resources));
            self.run_until_idle();
        }
    }

    /// Starts a job that is held in SCHED. The scheduler allocated the job's resources before the engine held the
    /// job.
    pub fn start_held_job(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).unwrap();
        assert_eq!(job.state, State::Sched, "job {id} can take resources in SCHED only");
        job.is_held_in_sched = false;
        job.priority = Some(1);
        self.start_job(id);
    }

    /// Ends or cancels a job.
    pub fn end_job(&mut self, id: JobId) {
        if self.jobs.contains_key(&id) {
            self.now += 1.0;
            self.jobs.get_mut(&id).unwrap().state = State::Cleanup;
            self.run_callback(id, |facts| Event::Cleanup(facts.id));
            let job = self.jobs.get_mut(&id).unwrap();
            job.state = State::Inactive;
            let bank = job.bank.as_deref().unwrap_or("A").into();
            self.oracle.budgets.add_record(id, &self.jobs[&id], bank, self.now);
            // From INACTIVE on, Flux rejects the end of a subscription.
            assert!(!self.subscribed.contains(&id), "job {id} ends, and is still subscribed to");
            self.run_callback(id, |facts| Event::Inactive(facts.id));
            let job = &self.jobs[&id];
            let (nodes, cores, end) = (job.size.nodes, job.size.cores, self.now);
            let (user, bank) = (UserId(job.user), job.bank.as_deref().map(Into::into));
            let ran = job.started.map(|start| (start, end));
            let queue = job.queue.as_deref().map(Into::into);
            let allocated = job.started.and_then(|start| Some((start, start + job.limit?)));
            self.ended.push(EndedJob { id, user, bank, queue, nodes, cores, ran, allocated, end });
            self.destroy_job(id);
            self.run_until_idle();
        }
    }

    fn create_job(&mut self, id: JobId) {
        self.run_callback_in_state(id, |facts, job| Event::Created {
            id: facts.id,
            state: facts.state,
            has_dependencies: job.has_declared_dependencies,
        });
    }

    fn destroy_job(&mut self, id: JobId) {
        self.run_callback(id, |facts| Event::Gone(facts.id));
        assert!(!self.subscribed.contains(&id), "job {id} is gone, and is still subscribed to");
        self.jobs.remove(&id);
    }

    pub fn set_urgency(&mut self, id: JobId, urgency: i64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.urgency = urgency;
        job.past.push((self.now, Past::Urgency(urgency)));
        if self.subscribed.contains(&id) {
            // The engine gets the event, so it sorts the job by the new urgency from now on.
            self.jobs.get_mut(&id).unwrap().urgency_at_first = urgency;
            self.run_callback(id, |facts| Event::UrgencyChanged(facts.id, facts.urgency));
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.state == State::Sched {
            job.state = State::Priority;
            self.repeat_request(id, urgency);
        }
        self.run_until_idle();
    }

    /// Asks the engine to validate an update. Returns the text of the rejection, if any.
    fn validate_update(&mut self, event: Event<'_>) -> Result<(), String> {
        let effects = self.engine.handle(self.now, event);
        let rejection = effects.iter().find_map(|effect| match effect {
            Effect::Reject(text) => Some(text.clone()),
            _ => None,
        });
        let is_other = |effect: &Effect| !matches!(effect, Effect::Reject(_));
        self.apply_effects(effects.into_iter().filter(is_other).collect());
        rejection.map_or(Ok(()), Err)
    }

    /// Updates the queue or the bank of a job as `flux update` does.
    pub fn update_job(&mut self, id: JobId, queue: Option<&str>, bank: Option<&str>) -> Result<(), String> {
        let Some(job) = self.jobs.get(&id).cloned() else { return Ok(()) };
        let (user, state) = (UserId(job.user), job.state);
        // Flux's builtin plugin `.update-queue` checks the job before our plugin does.
        if queue.is_some() && state >= State::Run {
            return Err("update of queue for running job not supported".to_owned());
        }
        let mut updated = job;
        for event in [
            queue.map(|queue| Event::UpdateQueue { id, user, state, queue }),
            bank.map(|bank| Event::UpdateBank { id, user, state, bank }),
        ] {
            let Some(event) = event else { continue };
            self.validate_update(event)?;
        }
        updated.queue = queue.map(str::to_owned).or(updated.queue);
        updated.bank = bank.map(str::to_owned).or(updated.bank);
        self.validate_update(Event::Validate(Host::facts(id, &updated)))?;
        self.oracle.is_moving = true;
        self.force_update(id, updated.queue, updated.bank);
        self.oracle.is_moving = false;
        Ok(())
    }

    /// Updates the time limit of a job that does not run, as `flux update` does.
    pub fn update_duration(&mut self, id: JobId, seconds: f64) -> Result<(), String> {
        let Some(job) = self.jobs.get(&id).cloned() else { return Ok(()) };
        let updated = HostJob { duration: seconds, limit: Some(seconds), ..job };
        self.validate_update(Event::Validate(Host::facts(id, &updated)))?;
        let (queue, bank) = (updated.queue.clone(), updated.bank.clone());
        self.jobs.insert(id, updated);
        self.force_update(id, queue, bank);
        Ok(())
    }

    /// Updates the jobspec without asking the engine to validate the update.
    pub fn force_update(&mut self, id: JobId, queue: Option<String>, bank: Option<String>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.queue, job.bank) = (queue, bank);
        let bounces = job.state == State::Sched;
        if bounces {
            job.state = State::Priority;
        }
        let urgency = job.urgency;
        self.run_callback(id, |facts| Event::Updated(facts));
        if bounces && self.jobs.contains_key(&id) {
            self.repeat_request(id, urgency);
        }
        self.run_until_idle();
    }

    /// Reloads the plugin if `is_reload`, and otherwise restarts the job manager. `engine` has the load-time data. The caller pushes all
    /// other data afterwards.
    pub fn replay_jobs(&mut self, is_reload: bool, mut engine: Engine) {
        std::mem::swap(&mut self.engine, &mut engine);
        (self.defers, self.reads, self.asks, self.retries) = (0, VecDeque::new(), Vec::new(), 0);
        (self.slices, self.refresh_at, self.time_left_at, self.listed) = (0, None, None, None);
        (self.queue_timer, self.queues_asked) = (None, None);
        self.subscribed.clear();
        self.oracle.scans_all = true;
        let first_seen = |job: &mut HostJob| {
            let is_held_in_sched = job.state == State::Sched && job.priority == Some(0) && job.urgency != 0;
            let was_held_in_priority = is_held_in_sched || job.state == State::Priority;
            (job.was_unreadable, job.was_held_in_priority, job.is_held_in_sched) =
                (false, was_held_in_priority, is_held_in_sched);
            job.was_sched |= job.state == State::Sched && !is_held_in_sched;
            job.urgency_at_first = job.urgency;
        };
        self.jobs.values_mut().for_each(first_seen);
        self.hold_candidates = find_jobs_that_may_be_held(&self.jobs);
        let mut order: Vec<JobId> = self.jobs.keys().copied().collect();
        if is_reload {
            order.sort_by_key(|id| (std::cmp::Reverse(self.jobs[id].state), *id));
        }
        for id in &order {
            self.create_job(*id);
            self.run_callback(*id, |facts| Event::New(facts));
            let state = self.jobs[id].state;
            if is_reload && state == State::Depend {
                self.run_callback(*id, |facts| Event::Depend(facts.id));
            }
            if !is_reload && state == State::Sched {
                let job = self.jobs.get_mut(id).unwrap();
                // After a restart, no job has a priority. So each answer of the engine changes the priority.
                (job.state, job.priority) = (State::Priority, None);
                let urgency = job.urgency;
                let answer = self.run_callback(*id, |facts| Event::Priority(facts.id, urgency));
                self.set_priority(*id, answer);
            }
        }
        if is_reload {
            self.reprioritize_all();
        }
        self.run_until_idle();
    }
}
