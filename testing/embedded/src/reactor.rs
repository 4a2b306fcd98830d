// SPDX-License-Identifier: LGPL-3.0-only
//! Virtual time: an agenda of timers, responses and job ends in the order of their times. `turns` runs the agenda.

mod turns;

use std::collections::{BTreeMap, HashMap};
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
    Timer(usize),
    Answer(usize),
    /// The tasks of the job end by themselves.
    Finish(u64),
    /// The tasks of the job have ended, or the scheduler has dropped its request.
    Released(u64),
}

/// The referent of a `flux_watcher_t` or `flux_future_t` in C: the host and the key of the entry.
pub(super) struct Tag {
    pub(super) host: *const Host,
    pub(super) key: usize,
}

/// Returns the address of a tag, which identifies its watcher or future. The tag is in an Rc because moving a Box
/// would invalidate pointers to its content.
fn tag_address(tag: &Rc<Tag>) -> *mut c_void {
    Rc::as_ptr(tag).cast_mut().cast()
}

/// A timer watcher.
struct Watcher {
    tag: Rc<Tag>,
    owner: usize,
    after: u64,
    callback: WatcherFn,
    data: *mut c_void,
    armed: Option<(u64, u64)>,
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

/// A request in progress.
struct Future {
    tag: Rc<Tag>,
    owner: usize,
    wanted: FutureRequest,
    then: Option<(ContinuationFn, *mut c_void)>,
    due: Option<(u64, u64)>,
    text: Option<CString>,
}

/// Future events, ordered by time. Events at the same time have the order in which they were scheduled.
#[derive(Default)]
pub(super) struct Agenda {
    now: u64,
    sequence: u64,
    due: BTreeMap<(u64, u64), DueEvent>,
    watchers: HashMap<usize, Watcher>,
    futures: HashMap<usize, Future>,
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

    /// Returns the number of existing timers and futures.
    pub(super) fn count_live(&self) -> usize {
        self.watchers.len() + self.futures.len()
    }

    /// Destroys the timers and futures of a removed plugin, and returns their names.
    pub(super) fn drop_owned_by(&mut self, owner: usize) -> Vec<String> {
        let watchers: Vec<usize> =
            self.watchers.iter().filter(|(_, w)| w.owner == owner).map(|(&k, _)| k).collect();
        let futures: Vec<usize> =
            self.futures.iter().filter(|(_, f)| f.owner == owner).map(|(&k, _)| k).collect();
        watchers.iter().for_each(|&key| self.destroy_watcher(key));
        futures.iter().for_each(|&key| self.destroy_future(key));
        let timers = watchers.iter().map(|_| "a timer".to_string());
        timers.chain(futures.iter().map(|_| "a future".to_string())).collect()
    }

    fn next_key(&mut self) -> usize {
        self.sequence += 1;
        self.sequence as usize
    }

    pub(super) fn create_watcher(
        &mut self,
        host: *const Host,
        after: f64,
        callback: WatcherFn,
        data: *mut c_void,
    ) -> *mut c_void {
        let owner = self.calling.last().copied().unwrap_or(0);
        let key = self.next_key();
        let tag = Rc::new(Tag { host, key });
        let pointer = tag_address(&tag);
        let after = to_micros(after);
        self.watchers.insert(key, Watcher { tag, owner, after, callback, data, armed: None });
        pointer
    }

    /// Starts (`Some(true)`), stops (`Some(false)`) or only resets a timer. Resetting a started timer does not change
    /// its present deadline, as in libev.
    pub(super) fn arm(&mut self, key: usize, start: Option<bool>, reset: Option<f64>) {
        let Some(watcher) = self.watchers.get_mut(&key) else { return };
        if let Some(after) = reset {
            watcher.after = to_micros(after);
        }
        if start.is_none() || start == Some(true) && watcher.armed.is_some() {
            return;
        }
        if let Some(at) = watcher.armed.take() {
            self.due.remove(&at);
        }
        if start == Some(true) {
            self.sequence += 1;
            let at = (self.now.saturating_add(watcher.after), self.sequence);
            watcher.armed = Some(at);
            self.due.insert(at, DueEvent::Timer(key));
        }
    }

    pub(super) fn destroy_watcher(&mut self, key: usize) {
        if let Some(at) = self.watchers.remove(&key).and_then(|watcher| watcher.armed) {
            self.due.remove(&at);
        }
    }

    pub(super) fn create_future(&mut self, host: *const Host, wanted: FutureRequest) -> *mut c_void {
        let owner = self.calling.last().copied().unwrap_or(0);
        let key = self.next_key();
        let tag = Rc::new(Tag { host, key });
        let pointer = tag_address(&tag);
        self.futures.insert(key, Future { tag, owner, wanted, then: None, due: None, text: None });
        pointer
    }

    pub(super) fn then(
        &mut self,
        key: usize,
        callback: ContinuationFn,
        data: *mut c_void,
    ) -> Result<(), Errno> {
        let future = self.futures.get_mut(&key).ok_or(Errno::EINVAL)?;
        future.then = Some((callback, data));
        if !matches!(future.wanted, FutureRequest::Commit) {
            self.schedule_answer(key);
        }
        Ok(())
    }

    fn schedule_answer(&mut self, key: usize) {
        let at = self.schedule_event(0.0, DueEvent::Answer(key));
        if let Some(future) = self.futures.get_mut(&key) {
            future.due = Some(at);
        }
    }

    /// Responds to the futures that wait for a commit. Returns true if there were any.
    pub(super) fn complete_commit_futures(&mut self) -> bool {
        self.kvs.apply_sent_changes();
        let is_waiting =
            |f: &Future| matches!(f.wanted, FutureRequest::Commit) && f.then.is_some() && f.due.is_none();
        let mut waiting: Vec<usize> =
            self.futures.iter().filter(|(_, f)| is_waiting(f)).map(|(&k, _)| k).collect();
        waiting.sort_unstable();
        waiting.iter().for_each(|&key| self.schedule_answer(key));
        !waiting.is_empty()
    }

    pub(super) fn destroy_future(&mut self, key: usize) {
        if let Some(at) = self.futures.remove(&key).and_then(|future| future.due) {
            self.due.remove(&at);
        }
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
        let mut store = self.store.borrow_mut();
        let wanted = store.agenda.futures.get(&key).map(|future| &future.wanted);
        let name = wanted.map_or("", FutureRequest::name);
        let text = match wanted {
            Some(_) if store.forced_answers.contains_key(name) => {
                store.forced_answers.get(name).cloned().unwrap_or_default()
            }
            Some(FutureRequest::Key(name)) if name == RESOURCES => all_resources(&self.options).to_string(),
            Some(FutureRequest::Key(name)) if !name.starts_with("job.") => store.agenda.kvs.look_up(name)?,
            Some(FutureRequest::Key(name)) => {
                let id = job_in_key(name).filter(|id| !store.unreadable.contains(id));
                let job = id.and_then(|id| store.jobs.get(&id)).ok_or(Errno::ENOENT)?;
                job.eventlog.iter().take(job.stored).map(|entry| format!("{entry}\n")).collect()
            }
            Some(FutureRequest::Dependencies(_) | FutureRequest::EndedJobs(_)) if !self.options.job_list => {
                return Err(Errno::ENOSYS);
            }
            Some(FutureRequest::EndedJobs(request)) => list_ended(store.jobs.values(), request),
            Some(FutureRequest::Dependencies(id)) => {
                let job = store.jobs.get(id).ok_or(Errno::ENOENT)?;
                // Like job-list, leave out `dependencies` if the job has none.
                match job.dependencies.is_empty() {
                    true => json!({"job": {"id": id}}),
                    false => json!({"job": {"id": id, "dependencies": job.dependencies}}),
                }
                .to_string()
            }
            Some(FutureRequest::Commit) => store.agenda.kvs.commit_result()?,
            Some(FutureRequest::Other(_)) => return Err(Errno::ENOSYS),
            None => return Err(Errno::EINVAL),
        };
        let future = store.agenda.futures.get_mut(&key).ok_or(Errno::EINVAL)?;
        Ok(future.text.get_or_insert_with(|| CString::new(text).unwrap_or_default()).as_ptr())
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
        self.store.borrow().agenda.count_live()
    }
}
