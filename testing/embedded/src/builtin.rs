// SPDX-License-Identifier: LGPL-3.0-only
//! The built-in plugins of the job manager that scenarios need: `.priority-default`, `.update-queue`,
//! `.update-duration` and the `afterany` dependency. The built-in plugins run before all loaded plugins.

use serde_json::{Value, json};

use super::abi::{Args, IN, OUT};
use super::host::Host;
use super::job::{State, f58};

const UPDATE_QUEUE: &str = "job.update.attributes.system.queue";
const UPDATE_DURATION: &str = "job.update.attributes.system.duration";
const AFTER_ANY: &str = "job.dependency.afterany";

impl Host {
    pub(super) fn has_builtin_handler(&self, topic: &str) -> bool {
        match topic {
            "job.state.priority" | "job.priority.get" => self.options.priority_default,
            UPDATE_QUEUE | UPDATE_DURATION | AFTER_ANY => true,
            _ => false,
        }
    }

    /// Returns the number of built-in handlers that accepted, or -1 with OUT.errmsg set.
    pub(super) fn call_builtin(&self, id: u64, topic: &str, args: &Args) -> i32 {
        if !self.has_builtin_handler(topic) {
            return 0;
        }
        let input = args.get(IN).unwrap_or(Value::Null);
        let done = match topic {
            UPDATE_QUEUE => self.update_queue(&input),
            UPDATE_DURATION => update_duration(&input),
            AFTER_ANY => self.add_afterany_dependency(id, &input),
            _ => Ok(json!({"priority": input.get("urgency")})),
        };
        let (rc, out) = match done {
            Ok(out) => (1, out),
            Err(text) => (-1, json!({"errmsg": text})),
        };
        args.merge(OUT, &out);
        rc
    }

    fn update_queue(&self, input: &Value) -> Result<Value, String> {
        let name = input.get("value").and_then(Value::as_str).ok_or("plugin args unpack failed")?;
        if is_running(input) {
            return Err("update of queue for running job not supported".into());
        }
        let current = input.pointer("/jobspec/attributes/system/queue").and_then(Value::as_str);
        if current == Some(name) {
            return Err(format!("job queue is already set to {name}"));
        }
        let known = &self.options.queues;
        if !known.is_empty() && !known.iter().any(|queue| queue == name) {
            return Err(format!("'{name}' is not a valid queue"));
        }
        // Flux replaces the constraints of the old queue by the constraints of the new queue. In this host, queues have no constraints.
        Ok(json!({"feasibility": 1, "updates": {"attributes.system.constraints": {}}}))
    }

    fn add_afterany_dependency(&self, id: u64, input: &Value) -> Result<Value, String> {
        let value = input.pointer("/dependency/value");
        let wanted = match value {
            Some(Value::Number(n)) => n.as_u64(),
            Some(Value::String(text)) => {
                text.parse().ok().or_else(|| self.jobs().into_iter().find(|&other| f58(other) == *text))
            }
            _ => None,
        };
        let wanted = wanted.ok_or("afterany: no job id")?;
        let state = self.state(wanted).ok_or_else(|| format!("{}: job not found", f58(wanted)))?;
        if state == State::Inactive {
            return Ok(json!({}));
        }
        let name = format!("after-finish={}", f58(wanted));
        let is_outstanding = self.job(id, |job| job.dependencies.contains(&name)) == Some(true);
        if !is_outstanding {
            self.post_event(id, "dependency-add", Some(json!({"description": name})))
                .map_err(|_| "dependency-add failed")?;
        }
        self.store.borrow_mut().dependents.push((wanted, id, name));
        Ok(json!({}))
    }

    /// Releases the jobs that wait for the end of job `id`.
    pub(super) fn release_dependents(&self, id: u64) {
        let is_waiting = |(wanted, _, _): &mut (u64, u64, String)| *wanted == id;
        let waiting: Vec<_> = self.store.borrow_mut().dependents.extract_if(.., is_waiting).collect();
        for (_, job, name) in waiting {
            if self.state(job) == Some(State::Depend) {
                let _ = self.post_event(job, "dependency-remove", Some(json!({"description": name})));
            }
        }
    }
}

fn is_running(input: &Value) -> bool {
    let state = input.get("state").and_then(Value::as_i64);
    state == Some(State::Run as i64) || state == Some(State::Cleanup as i64)
}

fn update_duration(input: &Value) -> Result<Value, String> {
    let seconds = input.get("value").and_then(Value::as_f64).ok_or("plugin args unpack failed")?;
    if seconds < 0.0 {
        return Err("duration must not be negative".into());
    }
    if is_running(input) {
        return Err("duration update of running job requires instance owner privileges".into());
    }
    Ok(json!({}))
}
