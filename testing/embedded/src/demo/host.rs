// SPDX-License-Identifier: LGPL-3.0-only
//! What the demo needs of the job manager that runs the plugin, be it Flux's or the embedded one.

use serde_json::Value;

use super::site::DemoJob;

/// Where an active job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// On its way; not for long.
    Moving,
    /// In DEPEND.
    Held,
    /// In SCHED.
    Pending,
    Running,
}

/// An active job, as the host and its jobspec have it now.
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
    /// Takes bank, queue and nodes from the current jobspec; `None` while it names no bank.
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

/// A job manager that runs the plugin. Every error is a sentence.
///
/// Whatever a call sets in motion has come to rest when it returns.
pub(super) trait DemoHost {
    /// Which job manager this is, for people.
    fn name(&self) -> String;
    /// A request to the plugin's own services, by method.
    fn request(&self, method: &str, payload: &Value) -> Result<Value, String>;
    /// What `flux jobtap query` shows.
    fn query(&self) -> Result<Value, String>;
    /// Submits a job as a user: its id, or why it was refused.
    fn submit(&self, userid: u32, job: &DemoJob, jobspec: &Value) -> Result<Result<u64, String>, String>;
    /// All active jobs, in order of submission.
    fn jobs(&self) -> Result<Vec<Active>, String>;
    /// The tasks of a running job end.
    fn finish(&self, job: &Active) -> Result<(), String>;
}
