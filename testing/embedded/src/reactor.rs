// SPDX-License-Identifier: LGPL-3.0-only
//! Virtual time: an agenda of timers, responses and job ends in the order of their times. `turns` runs the agenda.

mod turns;

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::abi::{ContinuationFn, WatcherFn};
use super::cluster::all_resources;
use super::host::Host;
use super::job::Errno;
use super::job_list::list_ended;
use super::kvs::Kvs;

/// Virtual start time of an instance unless its options give another, so that plugins get plausible times.
pub(super) const START: Duration = Duration::from_secs(1_700_000_000);

/// An event on the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueEvent {
    /// A timer expires, or the response to a request arrives.
    Object(usize),
    /// The tasks of the job end by themselves.
    Finish(u64),
    /// The tasks of the job have ended, or the scheduler has dropped its request.
    Released(u64),
}

/// The referent of a `flux_watcher_t` or `flux_future_t` in C: the host and the key of the object.
pub(super) struct Tag {
    pub(super) host: *const Host,
    pub(super) key: usize,
}

/// Returns the address of a tag, which identifies its watcher or future. The tag is in an Rc because moving a Box
/// would invalidate pointers to its content.
fn tag_address(tag: &Rc<Tag>) -> *mut c_void {
    Rc::as_ptr(tag).cast_mut().cast()
}

/// A timer watcher or a future of a plugin.
pub(super) struct Object {
    tag: Rc<Tag>,
    owner: usize,
    /// The position on the agenda, if the object is there.
    due: Option<(u64, u64)>,
    kind: ObjectKind,
}

pub(super) enum ObjectKind {
    /// A timer, with its delay in seconds.
    Timer { after: f64, callback: WatcherFn, data: *mut c_void },
    /// A request in progress.
    Future { wanted: FutureRequest, then: Option<(ContinuationFn, *mut c_void)>, text: Option<CString> },
}

/// The request whose reply fulfils a future.
pub(super) enum FutureRequest {
    /// A lookup of a KVS key.
    Key(String),
    /// A commit of all events posted until now.
    Commit,
    /// A query for the outstanding dependencies of a job.
    Dependencies(u64),
    /// A query to job-list for ended jobs.
    EndedJobs(Value),
    /// Another request, by its topic. Only a test can set a response to it.
    Other(String),
}

/// Future events, ordered by time. Events at the same time have the order in which they were scheduled.
#[derive(Default)]
pub(super) struct Agenda {
    now: u64,
    sequence: u64,
    due: BTreeMap<(u64, u64), DueEvent>,
    objects: BTreeMap<usize, Object>,
    /// Plugins whose code is running, innermost last. They own the objects that they create.
    pub(super) calling: Vec<usize>,
    pub(super) kvs: Kvs,
}

fn to_micros(seconds: f64) -> u64 {
    // The conversion saturates, so a negative delay becomes 0, and a huge one the latest possible time.
    (seconds * 1e6) as u64
}

impl Agenda {
    /// Makes an empty agenda that begins at time `start` since the epoch.
    pub(super) fn new(start: Duration) -> Agenda {
        Agenda { now: to_micros(start.as_secs_f64()), ..Agenda::default() }
    }

    pub(super) fn now(&self) -> f64 {
        self.now as f64 / 1e6
    }

    pub(super) fn schedule_event(&mut self, seconds: f64, due: DueEvent) -> (u64, u64) {
        self.sequence += 1;
        let at = (self.now.saturating_add(to_micros(seconds)), self.sequence);
        self.due.insert(at, due);
        at
    }

    pub(super) fn cancel(&mut self, what: DueEvent) {
        self.due.retain(|_, due| *due != what);
    }

    pub(super) fn is_due(&self, what: DueEvent) -> bool {
        self.due.values().any(|due| *due == what)
    }

    fn pop_due_event(&mut self) -> Option<DueEvent> {
        let (&at, _) = self.due.first_key_value()?;
        if at.0 > self.now { None } else { self.due.remove(&at) }
    }

    /// Destroys the timers and futures of a removed plugin, and returns their names.
    pub(super) fn drop_owned_by(&mut self, owner: usize) -> Vec<&'static str> {
        let is_owned = |object: &Object| object.owner == owner;
        let keys: Vec<usize> = self.objects.iter().filter(|(_, it)| is_owned(it)).map(|(&k, _)| k).collect();
        let objects = keys.into_iter().filter_map(|key| self.destroy(key));
        let name = |object: Object| match object.kind {
            ObjectKind::Timer { .. } => "a timer",
            ObjectKind::Future { .. } => "a future",
        };
        objects.map(name).collect()
    }

    /// Creates a timer or a future of the running plugin. Returns the address of its tag.
    pub(super) fn create(&mut self, host: *const Host, kind: ObjectKind) -> *mut c_void {
        let owner = self.calling.last().copied().unwrap_or(0);
        self.sequence += 1;
        let key = self.sequence as usize;
        let tag = Rc::new(Tag { host, key });
        let pointer = tag_address(&tag);
        self.objects.insert(key, Object { tag, owner, due: None, kind });
        pointer
    }

    pub(super) fn create_future(&mut self, host: *const Host, wanted: FutureRequest) -> *mut c_void {
        self.create(host, ObjectKind::Future { wanted, then: None, text: None })
    }

    pub(super) fn destroy(&mut self, key: usize) -> Option<Object> {
        let object = self.objects.remove(&key)?;
        object.due.map(|at| self.due.remove(&at));
        Some(object)
    }

    fn schedule_object(&mut self, key: usize, seconds: f64) {
        let at = self.schedule_event(seconds, DueEvent::Object(key));
        if let Some(object) = self.objects.get_mut(&key) {
            object.due = Some(at);
        }
    }

    /// Starts or stops a timer.
    pub(super) fn arm(&mut self, key: usize, is_started: bool) {
        let Some(Object { due, kind: ObjectKind::Timer { after, .. }, .. }) = self.objects.get_mut(&key)
        else {
            return;
        };
        let after = *after;
        match (is_started, *due) {
            (true, None) => self.schedule_object(key, after),
            (false, Some(at)) => {
                *due = None;
                self.due.remove(&at);
            }
            _ => {}
        }
    }

    /// Changes the delay of a timer. The deadline of a started timer does not change, as in libev.
    pub(super) fn reset_timer(&mut self, key: usize, seconds: f64) {
        if let Some(Object { kind: ObjectKind::Timer { after, .. }, .. }) = self.objects.get_mut(&key) {
            *after = seconds;
        }
    }

    pub(super) fn then(
        &mut self,
        key: usize,
        callback: ContinuationFn,
        data: *mut c_void,
    ) -> Result<(), Errno> {
        let object = self.objects.get_mut(&key);
        let Some(Object { kind: ObjectKind::Future { wanted, then, .. }, .. }) = object else {
            return Err(Errno::EINVAL);
        };
        *then = Some((callback, data));
        if !matches!(wanted, FutureRequest::Commit) {
            self.schedule_object(key, 0.0);
        }
        Ok(())
    }

    /// Responds to the futures that wait for a commit. Returns true if there were any.
    pub(super) fn complete_commit_futures(&mut self) -> bool {
        self.kvs.apply_sent_changes();
        let is_waiting = |object: &Object| {
            let kind = &object.kind;
            matches!(kind, ObjectKind::Future { wanted: FutureRequest::Commit, then: Some(_), .. })
                && object.due.is_none()
        };
        let waiting: Vec<usize> =
            self.objects.iter().filter(|(_, it)| is_waiting(it)).map(|(&k, _)| k).collect();
        waiting.iter().for_each(|&key| self.schedule_object(key, 0.0));
        !waiting.is_empty()
    }
}

/// KVS key of the resources of the instance.
const RESOURCES: &str = "resource.R";

/// Returns the job of a key `job.XXXX.XXXX.XXXX.XXXX.eventlog`, or `None` for any other key.
fn job_in_key(key: &str) -> Option<u64> {
    let hex: String = key.strip_prefix("job.")?.strip_suffix(".eventlog")?.split('.').collect();
    u64::from_str_radix(&hex, 16).ok()
}

impl Host {
    /// Returns the text of a response, which stays valid until the future is destroyed.
    pub(super) fn lookup_text(&self, key: usize) -> Result<*const std::ffi::c_char, Errno> {
        let store = &mut *self.store.borrow_mut();
        let object = store.agenda.objects.get_mut(&key);
        let Some(Object { kind: ObjectKind::Future { wanted, text, .. }, .. }) = object else {
            return Err(Errno::EINVAL);
        };
        let found = match wanted {
            wanted if store.forced_answers.contains_key(wanted.name()) => {
                store.forced_answers.get(wanted.name()).cloned().unwrap_or_default()
            }
            FutureRequest::Key(name) if name == RESOURCES => all_resources(&self.options).to_string(),
            FutureRequest::Key(name) if !name.starts_with("job.") => store.agenda.kvs.look_up(name)?,
            FutureRequest::Key(name) => {
                let id = job_in_key(name).filter(|id| !store.unreadable.contains(id));
                let job = id.and_then(|id| store.jobs.get(&id)).ok_or(Errno::ENOENT)?;
                job.eventlog.iter().take(job.stored).map(|entry| format!("{entry}\n")).collect()
            }
            FutureRequest::Dependencies(_) | FutureRequest::EndedJobs(_) if !self.options.job_list => {
                return Err(Errno::ENOSYS);
            }
            FutureRequest::EndedJobs(request) => list_ended(store.jobs.values(), request),
            FutureRequest::Dependencies(id) => {
                let job = store.jobs.get(id).ok_or(Errno::ENOENT)?;
                // Like job-list, leave out `dependencies` if the job has none.
                match job.dependencies.is_empty() {
                    true => json!({"job": {"id": id}}),
                    false => json!({"job": {"id": id, "dependencies": job.dependencies}}),
                }
                .to_string()
            }
            FutureRequest::Commit => store.agenda.kvs.commit_result()?,
            FutureRequest::Other(_) => return Err(Errno::ENOSYS),
        };
        Ok(text.get_or_insert_with(|| CString::new(found).unwrap_or_default()).as_ptr())
    }

    /// Makes the eventlog of a job unreadable, or readable again.
    pub fn set_readable(&self, id: u64, is_readable: bool) {
        let unreadable = &mut self.store.borrow_mut().unreadable;
        if is_readable {
            unreadable.remove(&id)
        } else {
            unreadable.insert(id)
        };
    }

    /// Returns the number of existing timers and futures, for leak checks.
    pub fn live_watchers(&self) -> usize {
        self.store.borrow().agenda.objects.len()
    }
}
