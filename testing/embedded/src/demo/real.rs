// SPDX-License-Identifier: LGPL-3.0-only
//! Runs the demo in the enclosing Flux instance, which `etc/demo.sh` starts for the demo only.
//!
//! The demo submits jobs as other users: the instance owner may send messages with any user id, and accepts
//! signatures of mechanism `none` (RFC 39). No process runs as these users: `[exec.testexec]` simulates the tasks.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::host::{CommandArgs, DemoHost, run_and_answer};
use super::site::DemoJob;
use fairshare_client::{Flux, FluxError};

/// The maximum time of each wait.
const TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// The enclosing instance with the plugin loaded.
pub(super) struct FluxInstance {
    owner: Flux,
    /// Sends messages with the user id of the job's user.
    guest: Flux,
    version: String,
}

impl FluxInstance {
    pub(super) fn start(plugin: &Path) -> Result<FluxInstance, String> {
        let connect = || Flux::connect(None).map_err(|error| error.to_string());
        let (owner, guest) = (connect()?, connect()?);
        let version = owner.attribute("version").unwrap_or_default();
        let instance = FluxInstance { owner, guest, version };
        // A new instance starts with its named queues stopped.
        instance.rpc("job-manager.queue-start", &json!({"start": true, "all": true}))?;
        instance.rpc("job-manager.jobtap", &json!({"load": plugin, "remove": ".priority-default"}))?;
        Ok(instance)
    }

    fn rpc(&self, topic: &str, payload: &Value) -> Result<Value, String> {
        send_request(&self.owner, topic, payload).map_err(|error| error.to_string())
    }

    fn list_jobs(&self) -> Result<Vec<Value>, String> {
        let attributes = ["priority", "state"];
        let list = self.rpc("job-manager.list", &json!({"max_entries": 0, "attrs": attributes}))?;
        let mut jobs = list.get("jobs").and_then(Value::as_array).cloned().unwrap_or_default();
        jobs.sort_by_key(|job| job.get("id").and_then(Value::as_u64));
        Ok(jobs)
    }

    /// Waits until the list of jobs stays the same for three polls and no job is in a transient state.
    fn settle(&self) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        let mut quiet = 0;
        let mut last = Vec::new();
        while quiet < 3 {
            if Instant::now() > deadline {
                return Err("the jobs still change their states after 30 s".to_owned());
            }
            // Brokers process requests in order. After the next two calls, the scheduler has received all earlier requests of
            // the job manager, and the job manager has received the scheduler's earlier responses.
            self.rpc("job-manager.stats-get", &json!({}))?;
            self.rpc("sched.resource-status", &json!({}))?;
            let now = self.list_jobs()?;
            let moving = now.iter().any(is_in_transient_state);
            quiet = if moving || now != last { 0 } else { quiet + 1 };
            last = now;
            sleep(PAUSE);
        }
        Ok(())
    }

    fn send_requests_as_user(&self, userid: u32) -> Result<(), String> {
        self.guest.send_requests_as_user(userid).map_err(|error| error.to_string())
    }
}

fn send_request(flux: &Flux, topic: &str, payload: &Value) -> Result<Value, FluxError> {
    let answer = flux.rpc(topic, &payload.to_string())?;
    // Services of Flux respond with JSON or without a payload.
    Ok(answer.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null))
}

/// Returns true unless a job in the job manager's list is in DEPEND, SCHED or RUN.
fn is_in_transient_state(job: &Value) -> bool {
    !matches!(job.get("state").and_then(Value::as_i64), Some(2 | 8 | 16))
}

/// Wraps a jobspec with the signing mechanism `none` (RFC 39): header and payload in base64, without a signature.
fn wrap_unsigned(userid: u32, jobspec: &Value) -> String {
    let header = format!("version\0i1\0mechanism\0snone\0userid\0i{userid}\0");
    format!("{}.{}.none", BASE64_STANDARD.encode(header), BASE64_STANDARD.encode(jobspec.to_string()))
}

impl DemoHost for FluxInstance {
    fn name(&self) -> String {
        format!("a real Flux instance, flux-core {}", self.version)
    }

    fn now(&self) -> f64 {
        SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64())
    }

    fn request(&self, method: &str, payload: &Value) -> Result<Value, String> {
        self.rpc(&format!("job-manager.mf_priority.{method}"), payload)
    }

    fn submit(&self, userid: u32, job: &DemoJob, jobspec: &Value) -> Result<Result<u64, String>, String> {
        self.send_requests_as_user(userid)?;
        let payload = json!({"J": wrap_unsigned(userid, jobspec), "urgency": job.urgency(), "flags": 0});
        let submitted = match send_request(&self.guest, "job-ingest.submit", &payload) {
            Ok(answer) => {
                answer.get("id").and_then(Value::as_u64).map(Ok).ok_or("job-ingest gave no job id")?
            }
            Err(FluxError::Request { text, .. }) => Err(text),
            Err(other) => return Err(other.to_string()),
        };
        self.settle()?;
        Ok(submitted)
    }

    fn finish(&self, id: u64, userid: u32) -> Result<(), String> {
        self.send_requests_as_user(userid)?;
        let override_exec = |event: &str| {
            let payload = json!({"event": event, "jobid": id, "status": 0});
            send_request(&self.guest, "job-exec.override", &payload).map_err(|error| error.to_string())
        };
        override_exec("start")?;
        let deadline = Instant::now() + TIMEOUT;
        // job-exec refuses `finish` until the tasks have started.
        while let Err(text) = override_exec("finish") {
            if Instant::now() > deadline {
                return Err(text);
            }
            sleep(PAUSE);
        }
        while self.list_jobs()?.iter().any(|other| other.get("id").and_then(Value::as_u64) == Some(id)) {
            if Instant::now() > deadline {
                return Err(format!("job {id} has not ended after 30 s"));
            }
            sleep(PAUSE);
        }
        self.settle()
    }

    fn run_command(&self, _args: &CommandArgs, command: &mut Command) -> Result<String, String> {
        run_and_answer(command, |_, _| Err((libc::ENOSYS, String::new())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unsigned_wrapper_of_a_jobspec_contains_the_user_id() {
        let want = "dmVyc2lvbgBpMQBtZWNoYW5pc20Ac25vbmUAdXNlcmlkAGk1MDAxAA==.e30=.none";
        assert_eq!(wrap_unsigned(5001, &json!({})), want);
    }
}
