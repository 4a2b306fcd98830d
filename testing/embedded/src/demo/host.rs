// SPDX-License-Identifier: LGPL-3.0-only
//! The interface between the demo and the job manager: a real Flux instance or the embedded job manager.

use std::process::Command;

use serde_json::Value;

use super::commands::CommandArgs;
use super::site::DemoJob;

/// The stage of an active job. A stage may contain several states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// In NEW, PRIORITY, or CLEANUP: the job will leave this state by itself.
    Moving,
    /// In DEPEND.
    Held,
    /// In SCHED.
    Pending,
    Running,
}

/// An active job: values from the job manager and from the current jobspec.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub(super) id: u64,
    pub(super) userid: u32,
    pub(super) urgency: i64,
    pub(super) priority: i64,
    pub(super) stage: Stage,
    pub(super) bank: String,
    pub(super) queue: String,
    pub(super) nodes: u64,
}

impl Active {
    /// Reads bank, queue and nodes from the current jobspec. Returns `None` if the jobspec has no bank.
    pub(super) fn new(
        (id, userid): (u64, u32),
        (urgency, priority): (i64, i64),
        stage: Stage,
        jobspec: &Value,
    ) -> Option<Active> {
        let text = |path| jobspec.pointer(path).and_then(Value::as_str).map(str::to_owned);
        Some(Active {
            id,
            userid,
            urgency,
            priority,
            stage,
            bank: text("/attributes/system/bank")?,
            queue: text("/attributes/system/queue").unwrap_or_default(),
            nodes: jobspec.pointer("/resources/0/count").and_then(Value::as_u64).unwrap_or(0),
        })
    }
}

/// A job manager that runs the plugin. Errors are texts for the user.
///
/// Each method returns only when no job will change its state by itself.
pub(super) trait DemoHost {
    /// Returns the description of the job manager that the demo prints.
    fn name(&self) -> String;
    /// Returns the time of the job manager, in seconds since the epoch.
    fn now(&self) -> f64;
    /// Sends a request to the service `job-manager.mf_priority.<method>`, and returns the response.
    fn request(&self, method: &str, payload: &Value) -> Result<Value, String>;
    /// Returns the query document of the plugin (`flux jobtap query`).
    fn query(&self) -> Result<Value, String>;
    /// Submits a job as user `userid`. Returns the job id, or the text of the rejection.
    fn submit(&self, userid: u32, job: &DemoJob, jobspec: &Value) -> Result<Result<u64, String>, String>;
    /// Returns all active jobs in order of submission.
    fn jobs(&self) -> Result<Vec<Active>, String>;
    /// Ends the tasks of a running job.
    fn finish(&self, job: &Active) -> Result<(), String>;
    /// Runs a command of `flux fairshare` with this job manager, and returns the output of the command.
    fn run_command(&self, args: &CommandArgs, command: &mut Command) -> Result<String, String>;
}
