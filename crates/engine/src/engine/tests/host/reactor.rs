// SPDX-License-Identifier: LGPL-3.0-only
//! The reactor of the model host: timers, responses, and the passing of time.

use super::Host;
use crate::engine::{Event, QueueReport, Timer};
use crate::ids::QueueName;

impl Host {
    /// Runs timers and delivers responses until nothing is due.
    pub fn run_until_idle(&mut self) {
        self.oracle.end_scans();
        self.oracle.now = self.now;
        while self.listed.is_some()
            || self.queue_timer == Some(true)
            || self.queues_asked.is_some()
            || self.time_left_at.is_some_and(|at| at <= self.now)
            || self.slices > 0
            || self.defers > 0
            || !self.reads.is_empty()
            || !self.asks.is_empty()
        {
            if let Some(jobs) = self.listed.take() {
                let effects = self.engine.handle(self.now, Event::Ended(jobs));
                self.apply_effects(effects);
            }
            if self.queue_timer == Some(true) {
                self.queue_timer = None;
                let effects = self.engine.handle(self.now, Event::Timer(Timer::Queues));
                self.apply_effects(effects);
            }
            if self.time_left_at.is_some_and(|at| at <= self.now) {
                self.time_left_at = None;
                let effects = self.engine.handle(self.now, Event::Timer(Timer::TimeLeft));
                self.apply_effects(effects);
                self.oracle.end_scans();
            }
            if let Some(names) = self.queues_asked.take() {
                let state = |name: Option<QueueName>| {
                    let is_stopped = name.as_ref().is_some_and(|name| self.stopped.contains(name.as_str()));
                    (name, if is_stopped { QueueReport::Stopped } else { QueueReport::Started })
                };
                let states = names.into_iter().map(state).collect();
                self.oracle.scans_all = true;
                let effects = self.engine.handle(self.now, Event::QueueStates(states));
                self.apply_effects(effects);
                self.oracle.scans_all = false;
                self.oracle.end_scans();
            }
            if std::mem::take(&mut self.slices) > 0 {
                let effects = self.engine.handle(self.now, Event::Timer(Timer::Slice));
                self.apply_effects(effects);
                self.oracle.end_scans();
            }
            if std::mem::take(&mut self.defers) > 0 {
                self.oracle.is_deferred_turn = true;
                let effects = self.engine.handle(self.now, Event::Timer(Timer::ReactorTurn));
                self.apply_effects(effects);
                self.oracle.is_deferred_turn = false;
                self.oracle.end_scans();
            }
            while let Some(id) = self.reads.pop_front() {
                let can_read = !self.unreadable.contains(&id);
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.was_unreadable |= !can_read;
                }
                if let Some(job) = self.jobs.get(&id).filter(|_| can_read) {
                    let past = job.past.clone();
                    let effects = self.engine.handle(self.now, Event::Past(id, past));
                    self.apply_effects(effects);
                }
                let history = self.jobs.get(&id).filter(|_| can_read).map(|job| job.log.clone());
                let effects = self.engine.handle(self.now, Event::Eventlog(id, history));
                self.apply_effects(effects);
                self.oracle.end_scans();
            }
            for id in std::mem::take(&mut self.asks) {
                let job = self.jobs.get(&id).filter(|_| self.has_job_list);
                let names = job.map(|job| job.dependencies.iter().cloned().collect());
                let effects = self.engine.handle(self.now, Event::Dependencies(id, names));
                self.apply_effects(effects);
                self.oracle.end_scans();
            }
        }
    }

    /// Advances the time by `seconds`. If the refresh timer is armed, the timer fires.
    pub fn advance_time_and_refresh(&mut self, seconds: f64) {
        self.now += seconds;
        if self.refresh_at.take().is_some() {
            let effects = self.engine.handle(self.now, Event::Timer(Timer::Refresh));
            self.apply_effects(effects);
            self.run_until_idle();
        }
    }

    /// Stops or starts a queue as `flux queue` does. An armed queue timer becomes due.
    pub fn set_queue_started(&mut self, name: &str, is_started: bool) {
        if is_started {
            self.stopped.remove(name)
        } else {
            self.stopped.insert(name.to_owned())
        };
        self.oracle.stopped = self.stopped.clone();
        self.queue_timer = self.queue_timer.map(|_| true);
        self.run_until_idle();
    }

    /// Fires the retry timer if it is armed.
    pub fn fire_retry_timer(&mut self) {
        if std::mem::take(&mut self.retries) > 0 {
            let effects = self.engine.handle(self.now, Event::Timer(Timer::Retry));
            self.apply_effects(effects);
            self.run_until_idle();
        }
    }
}
