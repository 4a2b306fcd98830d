// SPDX-License-Identifier: LGPL-3.0-only
//! Posts events of a job, calls the plugins, and performs the actions of each state.

use serde_json::{Value, json};

use super::host::{Host, LOG_ERR};
use super::job::{Errno, State, entry_name, make_entry};

impl Host {
    /// Posts an event now, or appends the event to the queue of the job if the job is busy. Returns the error of an event
    /// that is handled at once. A queued event that fails later drops the events after it without an error.
    pub(super) fn post_event(&self, id: u64, name: &str, context: Option<Value>) -> Result<(), Errno> {
        let entry = make_entry(self.now(), name, context);
        let idle = self.job_mut(id, |job| {
            if job.readonly {
                return Err(Errno::EROFS);
            }
            job.queue.push_back(entry);
            Ok(job.queue.len() == 1 && !job.hold_events)
        });
        if idle.ok_or(Errno::ENOENT)?? { self.handle_queued_events(id) } else { Ok(()) }
    }

    /// Handles the queued events of an idle job. The event in progress stays at the head of the queue, which marks the job as
    /// busy.
    pub(super) fn handle_queued_events(&self, id: u64) -> Result<(), Errno> {
        let next_event =
            || self.job(id, |job| if job.readonly { None } else { job.queue.front().cloned() }).flatten();
        while let Some(entry) = next_event() {
            let done = self.handle_event(id, entry);
            self.job_mut(id, |job| match done {
                Ok(()) => {
                    job.queue.pop_front();
                }
                Err(_) => job.queue.clear(),
            });
            done?;
        }
        Ok(())
    }

    fn handle_event(&self, id: u64, entry: Value) -> Result<(), Errno> {
        let name = entry_name(&entry).to_string();
        let before = self.state(id).ok_or(Errno::ENOENT)?;
        let severity = entry.pointer("/context/severity").and_then(Value::as_i64);
        if before == State::New && name == "exception" && severity == Some(0) {
            self.log(LOG_ERR, "fatal job exception was posted in NEW state");
            return Err(Errno::EINVAL);
        }
        self.job_mut(id, |job| {
            job.apply_event(&entry)?;
            job.eventlog.push(entry.clone());
            Ok(())
        })
        .ok_or(Errno::ENOENT)??;
        self.store.borrow_mut().unstored.insert(id);
        if self.options.trace {
            self.store.borrow_mut().trace.push((id, entry.clone()));
        }
        self.event_callbacks(id, &name, &entry, before);
        self.perform_action(id)
    }

    fn event_callbacks(&self, id: u64, name: &str, entry: &Value, before: State) {
        let subscribers = self.job(id, |job| job.subscribers.clone()).unwrap_or_default();
        if !subscribers.is_empty() {
            // A plugin that subscribed twice is called twice.
            let loaded = self.plugins.borrow().clone();
            let find = |uid: &usize| loaded.iter().find(|plugin| plugin.uid == *uid).cloned();
            let plugins: Vec<_> = subscribers.iter().filter_map(find).collect();
            if let Some(args) = self.job_args(id, &[("entry", entry.clone())])
                && self.call_plugins(&plugins, id, &format!("job.event.{name}"), &args) < 0
            {
                self.log(LOG_ERR, format!("jobtap: event.{name} callback failed"));
            }
        }
        if name == "jobspec-update" {
            let updates = entry.get("context").cloned().unwrap_or(Value::Null);
            self.notify_plugins(id, "job.update", &[("updates", updates)]);
        }
        match self.state(id) {
            Some(state) if state != before => {
                let extra = [("entry", entry.clone()), ("prev_state", json!(before as i32))];
                self.notify_plugins(id, &state.topic(), &extra);
            }
            _ => {}
        }
    }

    /// Performs the action of the state of a job. The host calls this method after every event, so each action first
    /// checks its condition.
    pub(super) fn perform_action(&self, id: u64) -> Result<(), Errno> {
        match self.state(id).ok_or(Errno::ENOENT)? {
            State::New => {}
            State::Depend => {
                let ready = self.job(id, |job| {
                    job.dependencies.is_empty() && !job.is_queued("dependency-add") && !job.depend_posted
                });
                if ready == Some(true) {
                    // Set the flag first: if `post_event` only queues the event, this action may run again.
                    self.job_mut(id, |job| job.depend_posted = true);
                    self.post_event(id, "depend", None)?;
                }
            }
            state @ (State::Priority | State::Sched) => {
                self.job_mut(id, |job| job.alloc_pending = state == State::Sched);
            }
            State::Run => {
                if self.job(id, |job| job.start_pending) == Some(false) {
                    self.job_mut(id, |job| job.start_pending = true);
                    self.start_job(id);
                }
            }
            State::Cleanup => self.clean_up(id)?,
            State::Inactive => self.finish_inactive_job(id),
        }
        Ok(())
    }

    fn clean_up(&self, id: u64) -> Result<(), Errno> {
        let read = |job: &super::job::Job| {
            (job.alloc_pending || job.start_pending, job.has_resources, job.free_posted)
        };
        let (busy, has_resources, free_posted) = self.job(id, read).ok_or(Errno::ENOENT)?;
        if busy {
            self.schedule_end(id);
            return Ok(());
        }
        if has_resources && !free_posted {
            self.job_mut(id, |job| job.free_posted = true);
            self.free_resources(id);
            return self.post_event(id, "free", None);
        }
        if !has_resources && self.job(id, |job| job.is_queued("clean")) == Some(false) {
            return self.post_event(id, "clean", None);
        }
        Ok(())
    }

    /// Makes the last callbacks about a job that became inactive.
    fn finish_inactive_job(&self, id: u64) {
        if self.job(id, |job| job.readonly) != Some(false) {
            return;
        }
        self.job_mut(id, |job| job.readonly = true);
        self.on_hash_removal(id);
        self.notify_plugins(id, "job.inactive-add", &[]);
        self.notify_plugins(id, "job.destroy", &[]);
    }

    pub(super) fn raise_exception(
        &self,
        id: u64,
        kind: &str,
        severity: i32,
        userid: u32,
        note: &str,
    ) -> Result<(), Errno> {
        let context = json!({"type": kind, "severity": severity, "note": note, "userid": userid});
        self.post_event(id, "exception", Some(context))
    }

    /// Commits the batch. Stores all events in the KVS, responds to requests that wait for the commit, and handles the queued
    /// events of accepted jobs. Returns false if there was nothing to do.
    pub(super) fn commit(&self) -> bool {
        let (batch, is_answering) = {
            let mut store = self.store.borrow_mut();
            for id in std::mem::take(&mut store.unstored) {
                if let Some(job) = store.jobs.get_mut(&id) {
                    job.stored = job.eventlog.len();
                }
            }
            let is_answering = store.agenda.complete_commit_futures();
            (std::mem::take(&mut store.batch), is_answering)
        };
        for &id in &batch {
            self.job_mut(id, |job| job.hold_events = false);
            if self.handle_queued_events(id).is_err() {
                self.log(LOG_ERR, format!("{}: error posting deferred events", super::job::f58(id)));
            }
        }
        is_answering || !batch.is_empty()
    }

    /// Returns true if accepted jobs are not yet committed to the KVS.
    pub fn has_uncommitted(&self) -> bool {
        !self.store.borrow().batch.is_empty()
    }
}
