// SPDX-License-Identifier: LGPL-3.0-only
//! A job in the host: its state, its dependencies, its eventlog, and the effect of each event.

use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, VecDeque};

/// An errno value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Errno = Errno(1);
    /// No such job, name, service or key.
    pub const ENOENT: Errno = Errno(2);
    /// The key is a directory.
    pub const EISDIR: Errno = Errno(21);
    /// The argument is invalid, or the state does not allow the call.
    pub const EINVAL: Errno = Errno(22);
    /// Operation now in progress.
    pub const EINPROGRESS: Errno = Errno(115);
    /// The job's eventlog is closed.
    pub const EROFS: Errno = Errno(30);
    /// No such service.
    pub const ENOSYS: Errno = Errno(38);
    /// The payload does not have the expected shape.
    pub const EPROTO: Errno = Errno(71);
}

/// A job state with its number in callbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[repr(i32)]
#[strum(serialize_all = "UPPERCASE")]
pub enum State {
    /// Submitted and not yet accepted.
    #[default]
    New = 1,
    /// Waiting for its dependencies.
    Depend = 2,
    /// Waiting for a priority.
    Priority = 4,
    /// Waiting for resources.
    Sched = 8,
    /// Has resources.
    Run = 16,
    /// The job has ended, and its resources are being released.
    Cleanup = 32,
    /// Complete.
    Inactive = 64,
}

impl State {
    /// Returns Flux's name of the state.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the topic of the callback for entering the state.
    pub(super) fn topic(self) -> String {
        format!("job.state.{}", self.name().to_lowercase())
    }
}

/// A job. The fields that are in the KVS (submitted jobspec, R, eventlog) survive a restart. The other fields
/// do not.
#[derive(Default)]
pub struct Job {
    /// Job id.
    pub id: u64,
    /// Submitting user.
    pub userid: u32,
    /// 0 (hold) to 31 (expedite); the default is 16.
    pub urgency: i32,
    /// -1 until a plugin sets the priority.
    pub priority: i64,
    state: State,
    /// Virtual time of submission in seconds.
    pub t_submit: f64,
    /// Jobspec with all updates applied.
    pub jobspec: Value,
    pub(super) submitted_jobspec: Value,
    /// Allocated resource set.
    pub r: Option<Value>,
    pub(super) end_event: Option<Value>,
    /// The names of the outstanding dependencies.
    pub dependencies: Vec<String>,
    used_dependencies: BTreeSet<String>,
    /// All events, in the order of handling.
    pub eventlog: Vec<Value>,
    /// Number of eventlog entries in the KVS, from committed batches.
    pub(super) stored: usize,
    pub(super) queue: VecDeque<Value>,
    pub(super) hold_events: bool,
    pub(super) readonly: bool,
    pub(super) depend_posted: bool,
    pub(super) alloc_pending: bool,
    pub(super) start_pending: bool,
    pub(super) has_resources: bool,
    pub(super) free_posted: bool,
    pub(super) immutable: bool,
    /// The plugins that get the events of this job, by the numbers that the host gave them.
    pub subscribers: Vec<usize>,
}

/// Makes an eventlog entry (RFC 18).
pub(super) fn make_entry(timestamp: f64, name: &str, context: Option<Value>) -> Value {
    let mut entry = json!({"timestamp": timestamp, "name": name});
    if let (Some(context), Some(map)) = (context, entry.as_object_mut()) {
        map.insert("context".into(), context);
    }
    entry
}

pub(super) fn entry_name(entry: &Value) -> &str {
    entry.get("name").and_then(Value::as_str).unwrap_or("")
}

impl Job {
    pub(super) fn new(id: u64, userid: u32, urgency: i32, jobspec: Value) -> Job {
        Job {
            id,
            userid,
            urgency,
            priority: -1,
            submitted_jobspec: jobspec.clone(),
            jobspec,
            ..Job::default()
        }
    }

    /// Returns the present state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the text `key` of `attributes.system`, for example `queue` or `bank`, or `None` if the jobspec lacks
    /// it.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.jobspec.pointer("/attributes/system")?.get(key)?.as_str()
    }

    pub(super) fn is_queued(&self, name: &str) -> bool {
        self.queue.iter().any(|entry| entry_name(entry) == name)
    }

    /// Builds the job after a restart from its values in the KVS, by applying its eventlog again.
    pub(super) fn replay(self) -> Job {
        let mut job = Job::new(self.id, self.userid, self.urgency, self.submitted_jobspec);
        job.r = self.r;
        for entry in &self.eventlog {
            // The log contains only entries that were applied successfully before.
            let _ = job.apply_event(entry);
        }
        job.stored = self.eventlog.len();
        job.eventlog = self.eventlog;
        job
    }

    /// Applies an event according to the state machine of RFC 21.
    pub(super) fn apply_event(&mut self, entry: &Value) -> Result<(), Errno> {
        let null = Value::Null;
        let context = entry.get("context").unwrap_or(&null);
        let state = self.state();
        let int = |key: &str| context.get(key).and_then(Value::as_i64).ok_or(Errno::EPROTO);
        match entry_name(entry) {
            "submit" => {
                self.t_submit = entry.get("timestamp").and_then(Value::as_f64).unwrap_or(0.0);
                self.urgency = int("urgency")? as i32;
            }
            "invalidate" => self.readonly = true,
            "validate" => self.state = State::Depend,
            "jobspec-update" => {
                let updates = context.as_object().ok_or(Errno::EPROTO)?;
                self.jobspec = with_updates(&self.jobspec, updates).ok_or(Errno::EINVAL)?;
                if state == State::Sched {
                    self.state = State::Priority;
                }
            }
            name @ ("dependency-add" | "dependency-remove") => {
                if matches!(state, State::Depend | State::New) {
                    let text = context.get("description").and_then(Value::as_str).ok_or(Errno::EPROTO)?;
                    if name == "dependency-add" {
                        self.add_dependency(text);
                    } else {
                        self.remove_dependency(text)?;
                    }
                }
            }
            "set-flags" => self.immutable = true,
            "depend" if state == State::Depend => self.state = State::Priority,
            "priority" if matches!(state, State::Priority | State::Sched) => {
                self.priority = int("priority")?;
                self.state = State::Sched;
            }
            "urgency" => {
                self.urgency = int("urgency")? as i32;
                if state == State::Sched {
                    self.state = State::Priority;
                }
            }
            "exception" if !matches!(state, State::Inactive | State::New) && int("severity")? == 0 => {
                self.end_event.get_or_insert_with(|| entry.clone());
                self.state = State::Cleanup;
            }
            "alloc" => {
                self.has_resources = true;
                if state == State::Sched {
                    self.state = State::Run;
                }
            }
            "resource-update" => {
                let expiration = entry.pointer("/context/expiration").ok_or(Errno::EINVAL)?;
                let present = self.r.as_mut().and_then(|r| r.pointer_mut("/execution/expiration"));
                *present.ok_or(Errno::EINVAL)? = expiration.clone();
            }
            "release" => self.start_pending = false,
            "free" => self.has_resources = false,
            "finish" if state == State::Run => {
                self.end_event.get_or_insert_with(|| entry.clone());
                self.state = State::Cleanup;
            }
            "clean" if state == State::Cleanup => self.state = State::Inactive,
            "flux-restart" if state == State::Sched => self.state = State::Priority,
            _ => {}
        }
        Ok(())
    }

    /// Adds a dependency. If its name was used before, the event has no effect, as in Flux.
    fn add_dependency(&mut self, name: &str) {
        if self.used_dependencies.insert(name.to_string()) {
            self.dependencies.push(name.to_string());
        }
    }

    fn remove_dependency(&mut self, name: &str) -> Result<(), Errno> {
        let at = self.dependencies.iter().position(|d| d == name).ok_or(Errno::ENOENT)?;
        self.dependencies.remove(at);
        Ok(())
    }
}

/// Returns the jobspec with values set at dotted paths, or `None` if a path leads through a value that is not an
/// object.
pub(super) fn with_updates(jobspec: &Value, updates: &Map<String, Value>) -> Option<Value> {
    let mut jobspec = jobspec.clone();
    for (path, value) in updates {
        let mut at = &mut jobspec;
        for key in path.split('.') {
            let map = at.as_object_mut()?;
            at = map.entry(key).or_insert_with(|| json!({}));
        }
        *at = value.clone();
    }
    Some(jobspec)
}

/// Returns true if all updates are below keys of a jobspec that may be updated.
pub(super) fn are_updates_allowed(updates: &Map<String, Value>) -> bool {
    let is_allowed = |key: &str| matches!(key.split('.').next(), Some("attributes" | "resources" | "tasks"));
    updates.keys().all(|key| is_allowed(key))
}

/// Formats a job id like Flux (RFC 19, F58).
pub fn f58(id: u64) -> String {
    const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut digits = Vec::new();
    let mut rest = id;
    loop {
        digits.push(char::from(DIGITS.get((rest % 58) as usize).copied().unwrap_or(b'1')));
        rest /= 58;
        if rest == 0 {
            break;
        }
    }
    std::iter::once('ƒ').chain(digits.into_iter().rev()).collect()
}
