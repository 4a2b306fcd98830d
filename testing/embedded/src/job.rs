// SPDX-License-Identifier: LGPL-3.0-only
//! One job as the host keeps it: its state, its dependencies, its eventlog, and what each event does to it.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::aux::Aux;

/// An errno value of a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Errno = Errno(1);
    /// No such job, name, service or key.
    pub const ENOENT: Errno = Errno(2);
    /// The name exists already.
    pub const EEXIST: Errno = Errno(17);
    /// The key is that of a directory.
    pub const EISDIR: Errno = Errno(21);
    /// The call is not legal here.
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

/// A job state, with the number that callbacks see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum State {
    /// Submitted, not accepted yet.
    New = 1,
    /// Waiting for its dependencies.
    Depend = 2,
    /// Waiting for a priority.
    Priority = 4,
    /// Waiting for resources.
    Sched = 8,
    /// Holding resources.
    Run = 16,
    /// Ended, giving resources back.
    Cleanup = 32,
    /// Done.
    Inactive = 64,
}

impl State {
    /// Name as Flux prints it.
    pub fn name(self) -> &'static str {
        match self {
            State::New => "NEW",
            State::Depend => "DEPEND",
            State::Priority => "PRIORITY",
            State::Sched => "SCHED",
            State::Run => "RUN",
            State::Cleanup => "CLEANUP",
            State::Inactive => "INACTIVE",
        }
    }

    /// Topic of the callback for entering this state.
    pub(super) fn topic(self) -> &'static str {
        match self {
            State::New => "job.state.new",
            State::Depend => "job.state.depend",
            State::Priority => "job.state.priority",
            State::Sched => "job.state.sched",
            State::Run => "job.state.run",
            State::Cleanup => "job.state.cleanup",
            State::Inactive => "job.state.inactive",
        }
    }
}

/// A job. Fields that the KVS keeps (jobspec as submitted, R, eventlog) survive a restart, the others do not.
#[derive(Default)]
pub struct Job {
    /// Job id.
    pub id: u64,
    /// Submitting user.
    pub userid: u32,
    /// 0 hold .. 16 default .. 31 expedite.
    pub urgency: i32,
    /// -1 = never set.
    pub priority: i64,
    /// Current state; `None` only while default-constructed.
    pub(super) phase: Option<State>,
    /// Virtual time of submission, seconds.
    pub t_submit: f64,
    /// Jobspec with all updates applied.
    pub jobspec: Value,
    pub(super) submitted_jobspec: Value,
    /// Allocated resource set.
    pub r: Option<Value>,
    pub(super) end_event: Option<Value>,
    pub(super) dependencies: Vec<String>,
    used_dependencies: BTreeSet<String>,
    pub(super) eventlog: Vec<Value>,
    /// Entries of it that the KVS has: those of the batches committed so far.
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
    pub(super) posted: BTreeSet<String>,
    pub(super) subscribers: Vec<usize>,
    pub(super) aux: BTreeMap<usize, Aux>,
}

/// An eventlog entry (RFC 18).
pub(super) fn entry(timestamp: f64, name: &str, context: Option<Value>) -> Value {
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
            phase: Some(State::New),
            submitted_jobspec: jobspec.clone(),
            jobspec,
            ..Job::default()
        }
    }

    /// Current state.
    pub fn state(&self) -> State {
        self.phase.unwrap_or(State::New)
    }

    /// Names of outstanding dependencies, in the order they were added.
    pub fn dependencies(&self) -> &[String] {
        &self.dependencies
    }

    /// How often plugins are subscribed to its events.
    pub fn subscriptions(&self) -> usize {
        self.subscribers.len()
    }

    /// The eventlog so far.
    pub fn eventlog(&self) -> &[Value] {
        &self.eventlog
    }

    /// A string of `attributes.system`, such as `queue` or `bank`.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.jobspec.pointer("/attributes/system")?.get(key)?.as_str()
    }

    pub(super) fn is_queued(&self, name: &str) -> bool {
        self.queue.iter().any(|entry| entry_name(entry) == name)
    }

    /// The job as it is after a restart: only what the KVS holds, the eventlog applied again.
    pub(super) fn replayed(self) -> Job {
        let mut job = Job::new(self.id, self.userid, self.urgency, self.submitted_jobspec);
        job.r = self.r;
        for entry in &self.eventlog {
            // An entry that was applied once applies again: the log holds only those.
            let _ = job.apply(entry);
        }
        job.posted.clear();
        job.stored = self.eventlog.len();
        job.eventlog = self.eventlog;
        job
    }

    /// Applies one event: the state machine of RFC 21.
    pub(super) fn apply(&mut self, entry: &Value) -> Result<(), Errno> {
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
            "validate" => self.phase = Some(State::Depend),
            "jobspec-update" => {
                let updates = context.as_object().ok_or(Errno::EPROTO)?;
                self.jobspec = with_updates(&self.jobspec, updates).ok_or(Errno::EINVAL)?;
                if state == State::Sched {
                    self.phase = Some(State::Priority);
                }
            }
            name @ ("dependency-add" | "dependency-remove") => {
                if matches!(state, State::Depend | State::New) {
                    let text = context.get("description").and_then(Value::as_str).ok_or(Errno::EPROTO)?;
                    if name == "dependency-add" {
                        self.dependency_add(text);
                    } else {
                        self.dependency_remove(text)?;
                    }
                }
            }
            "set-flags" => self.immutable = true,
            "depend" if state == State::Depend => self.phase = Some(State::Priority),
            "priority" if matches!(state, State::Priority | State::Sched) => {
                self.priority = int("priority")?;
                self.phase = Some(State::Sched);
            }
            "urgency" => {
                self.urgency = int("urgency")? as i32;
                if state == State::Sched {
                    self.phase = Some(State::Priority);
                }
            }
            "exception" if !matches!(state, State::Inactive | State::New) && int("severity")? == 0 => {
                self.end_event.get_or_insert_with(|| entry.clone());
                self.phase = Some(State::Cleanup);
            }
            "alloc" => {
                self.has_resources = true;
                if state == State::Sched {
                    self.phase = Some(State::Run);
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
                self.phase = Some(State::Cleanup);
            }
            "clean" if state == State::Cleanup => self.phase = Some(State::Inactive),
            "flux-restart" if state == State::Sched => self.phase = Some(State::Priority),
            _ => {}
        }
        Ok(())
    }

    /// A name that was used once never holds again: the event is posted, nothing else happens.
    fn dependency_add(&mut self, name: &str) {
        if self.used_dependencies.insert(name.to_string()) {
            self.dependencies.push(name.to_string());
        }
    }

    fn dependency_remove(&mut self, name: &str) -> Result<(), Errno> {
        let at = self.dependencies.iter().position(|d| d == name).ok_or(Errno::ENOENT)?;
        self.dependencies.remove(at);
        Ok(())
    }
}

/// The jobspec with period-delimited paths set; `None` if a path runs through something that is no object.
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

/// Only these parts of a jobspec may be updated.
pub(super) fn updates_allowed(updates: &Map<String, Value>) -> bool {
    let root = |key: &str| matches!(key.split('.').next(), Some("attributes" | "resources" | "tasks"));
    updates.keys().all(|key| root(key))
}

/// A job id as Flux prints it (RFC 19, F58).
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
