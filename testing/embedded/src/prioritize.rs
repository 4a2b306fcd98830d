// SPDX-License-Identifier: LGPL-3.0-only
//! Gets priorities from the plugins, and applies a new priority to a job.

use serde_json::json;

use super::abi::{Args, OUT};
use super::host::{Host, LOG_ERR};
use super::job::{Errno, State, f58};

const UNAVAILABLE: i64 = -2;
const HIGHEST: i64 = 4_294_967_295;

impl Host {
    /// Sets the priority of a job in PRIORITY or SCHED. If the priority of a job in SCHED stays the same, posts no event.
    pub(super) fn reprioritize_job(&self, id: u64, priority: i64) {
        let Some((state, urgency, current)) = self.job(id, |job| (job.state(), job.urgency, job.priority))
        else {
            return;
        };
        if !matches!(state, State::Priority | State::Sched) {
            return;
        }
        let priority = match urgency {
            0 => 0,
            31 => HIGHEST,
            _ => priority,
        };
        if state == State::Sched && priority == current {
            return;
        }
        if self.post_event(id, "priority", Some(json!({"priority": priority}))).is_err() {
            self.log(LOG_ERR, format!("reprioritize_job: {}", f58(id)));
        }
        // The job gets the priority at once, even if the event `priority` is still queued.
        self.job_mut(id, |job| job.priority = priority);
    }

    pub(super) fn reprioritize_id(&self, id: u64, priority: i64) -> Result<(), Errno> {
        self.move_cursor(id, "flux_jobtap_reprioritize_job");
        if matches!(self.state(id), None | Some(State::Inactive)) {
            return Err(Errno::ENOENT);
        }
        self.reprioritize_job(id, priority);
        Ok(())
    }

    /// Requests the priority of every job in PRIORITY or SCHED, in the order of a hash with a cursor (see `active`).
    pub fn reprioritize_all(&self) {
        if !self.begin_loop() {
            return self.report_violation("a reprioritize loop in the reprioritize loop".into());
        }
        while let Some(id) = self.find_next_job_of_active_loop() {
            if !matches!(self.state(id), Some(State::Priority | State::Sched)) {
                continue;
            }
            let Ok(priority) = self.ask_priority(id) else { continue };
            if priority > -1 && self.job(id, |job| job.priority) != Some(priority) {
                self.reprioritize_job(id, priority);
            }
        }
        self.end_active_job_loop();
    }

    fn ask_priority(&self, id: u64) -> Result<i64, Errno> {
        let current = self.job(id, |job| job.priority).ok_or(Errno::ENOENT)?;
        let args = self.job_args(id, &[]).ok_or(Errno::EINVAL)?;
        let rc = self.call_chain(id, "job.priority.get", &args);
        if rc < 0 {
            self.log(LOG_ERR, "jobtap: job.priority.get: callback failed");
            return Err(Errno::EINVAL);
        }
        if rc == 0 {
            return Ok(UNAVAILABLE);
        }
        let answer = read_priority(&args).map_err(|text| {
            self.log(LOG_ERR, format!("jobtap: job.priority.get: {text}"));
            Errno::EINVAL
        })?;
        let answer = answer.unwrap_or(UNAVAILABLE);
        if answer == UNAVAILABLE {
            if self.state(id) == Some(State::Sched) {
                self.log(LOG_ERR, format!("jobtap: {}: BUG: plugin didn't return priority", f58(id)));
            }
            return Ok(current);
        }
        Ok(answer)
    }
}

/// Returns the priority that the plugins set, if any. Returns an error if it is not an integer.
pub(super) fn read_priority(args: &Args) -> Result<Option<i64>, String> {
    let out = args.get(OUT).unwrap_or_default();
    let Some(priority) = out.get("priority") else { return Ok(None) };
    priority.as_i64().map(Some).ok_or_else(|| format!("arg_unpack: Expected integer, got {priority}"))
}
