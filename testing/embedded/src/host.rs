// SPDX-License-Identifier: LGPL-3.0-only
//! The host: the state of a running job manager, and the calls of its plugins.
//!
//! A plugin may call the host from any callback, and the host may call the plugin again before that call returns.
//! Therefore all methods take `&self`, and no `RefCell` borrow is alive during a call into a plugin.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::abi::{Abi, Args, OUT};
use super::aux::Aux;
use super::cluster::Cluster;
use super::job::{Errno, Job, State};
use super::plugin::Plugin;
use super::prioritize::read_priority;
use super::reactor::{Agenda, START};

/// Setup of the instance.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of nodes.
    pub nodes: usize,
    /// Cores per node.
    pub cores: usize,
    /// Userid of the instance owner.
    pub owner: u32,
    /// True if `.priority-default` (priority = urgency) runs before the plugins.
    pub priority_default: bool,
    /// True if job-list is loaded.
    pub job_list: bool,
    /// Names of the queues that `flux update` accepts; empty means any.
    pub queues: Vec<String>,
    /// Virtual time at the start, since the epoch.
    pub start: Duration,
    /// True if all events are recorded for [`Host::take_recorded_events`].
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            nodes: 4,
            cores: 4,
            owner: 1000,
            priority_default: true,
            job_list: true,
            queues: Vec::new(),
            start: START,
            trace: false,
        }
    }
}

/// A line of the broker's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// syslog level: 3 error, 4 warning, 6 info, 7 debug.
    pub level: i32,
    /// The text.
    pub text: String,
}

/// syslog level of an error.
pub const LOG_ERR: i32 = 3;
const LOG_DEBUG: i32 = 7;

/// The mutable state of the instance.
#[derive(Default)]
pub(super) struct Store {
    pub(super) jobs: BTreeMap<u64, Job>,
    /// The jobs of the running callbacks. The job of the innermost callback is the last.
    pub(super) stack: Vec<u64>,
    /// Jobspec updates of the current job that are collected and not yet posted.
    pub(super) pending_update: Option<Map<String, Value>>,
    /// Jobs that are accepted and not yet committed. Their events wait for the commit.
    pub(super) batch: Vec<u64>,
    /// Jobs with eventlog entries that are not yet in the KVS.
    pub(super) unstored: BTreeSet<u64>,
    /// Jobs whose eventlog can't be read.
    pub(super) unreadable: BTreeSet<u64>,
    /// Injected faults.
    pub(super) faults: super::fault::Faults,
    /// Annotations of jobs from volatile memos.
    pub(super) annotations: BTreeMap<u64, Value>,
    /// Responses that a test has set, by KVS key or topic.
    pub(super) forced_answers: BTreeMap<String, String>,
    pub(super) last_id: u64,
    pub(super) agenda: Agenda,
    pub(super) cluster: Cluster,
    pub(super) log: Vec<LogLine>,
    pub(super) violations: Vec<String>,
    /// Events of all jobs in the order of handling, if enabled in the options.
    pub(super) trace: Vec<(u64, Value)>,
    /// `afterany` dependencies: (job to wait for, waiting job, dependency name).
    pub(super) dependents: Vec<(u64, u64, String)>,
    pub(super) replies: BTreeMap<usize, super::service::Reply>,
    /// Responses that were sent after the handler had returned.
    pub(super) late: Vec<super::service::LateAnswer>,
    /// The loop over all jobs in `reprioritize_all`, while it runs.
    pub(super) active_loop: Option<super::active::ActiveJobLoop>,
}

/// An embedded job manager with a small cluster in virtual time.
pub struct Host {
    pub(super) abi: &'static Abi,
    pub(super) options: Options,
    pub(super) store: RefCell<Store>,
    pub(super) plugins: RefCell<Vec<Rc<Plugin>>>,
    /// The index of the plugin that is being notified of a configuration, if any.
    pub(super) cursor: Cell<Option<usize>>,
    pub(super) next_uid: Cell<usize>,
    /// Flux's configuration.
    pub(super) config: RefCell<Value>,
    /// Values that plugins attach to the handle.
    pub(super) aux: RefCell<Aux>,
}

impl Host {
    /// Creates an instance without jobs and plugins. The instance stays at its address, to which plugins have pointers.
    ///
    /// # Errors
    /// Returns an error if the executable was built without the C side.
    pub fn new(options: Options) -> Result<Rc<Host>, String> {
        let store = Store {
            agenda: Agenda::new(options.start),
            cluster: Cluster::new(options.nodes, options.cores),
            ..Store::default()
        };
        Ok(Rc::new(Host {
            abi: Abi::load()?,
            options,
            store: RefCell::new(store),
            plugins: RefCell::new(Vec::new()),
            cursor: Cell::default(),
            next_uid: Cell::new(1),
            config: RefCell::new(json!({})),
            aux: RefCell::default(),
        }))
    }

    /// Calls `read` with a job and returns its result, or `None` if the job does not exist. `read` must not call the
    /// host.
    pub fn job<T>(&self, id: u64, read: impl FnOnce(&Job) -> T) -> Option<T> {
        self.store.borrow().jobs.get(&id).map(read)
    }

    pub(super) fn job_mut<T>(&self, id: u64, change: impl FnOnce(&mut Job) -> T) -> Option<T> {
        self.store.borrow_mut().jobs.get_mut(&id).map(change)
    }

    /// Returns the state of job `id`, or `None` for an unknown job.
    pub fn state(&self, id: u64) -> Option<State> {
        self.job(id, Job::state)
    }

    /// Returns the annotations of job `id` from volatile memos, or `None` if it has none.
    pub fn annotations(&self, id: u64) -> Option<Value> {
        self.store.borrow().annotations.get(&id).cloned()
    }

    /// Handles a request `job-manager.memo`. Memos that are not volatile are ignored.
    pub(super) fn annotate(&self, request: &Value) {
        let id = request.get("id").and_then(Value::as_u64).filter(|id| self.state(*id).is_some());
        let is_volatile = request.get("volatile") == Some(&Value::Bool(true));
        let memo = request.get("memo").and_then(Value::as_object);
        if let (Some(id), Some(memo), true) = (id, memo, is_volatile) {
            let annotations = &mut self.store.borrow_mut().annotations;
            let known = annotations.entry(id).or_insert_with(|| json!({}));
            known.as_object_mut().into_iter().for_each(|known| known.extend(memo.clone()));
        }
    }

    /// Returns the ids of all jobs, including inactive ones, in ascending order.
    pub fn jobs(&self) -> Vec<u64> {
        self.store.borrow().jobs.keys().copied().collect()
    }

    /// Returns the virtual time in seconds.
    pub fn now(&self) -> f64 {
        self.store.borrow().agenda.now()
    }

    /// Removes and returns the log lines.
    pub fn take_log(&self) -> Vec<LogLine> {
        std::mem::take(&mut self.store.borrow_mut().log)
    }

    /// Returns a message for each forbidden call of a plugin. In a broker, such a call would cause a crash or a memory leak.
    pub fn violations(&self) -> Vec<String> {
        self.store.borrow().violations.clone()
    }

    /// Removes and returns the recorded events of all jobs, in the order of handling.
    pub fn take_recorded_events(&self) -> Vec<(u64, Value)> {
        std::mem::take(&mut self.store.borrow_mut().trace)
    }

    /// Returns the number of subscriptions to job events, including the subscriptions of inactive jobs. Flux
    /// searches all subscriptions when it frees a job.
    pub fn subscriptions(&self) -> usize {
        self.store.borrow().jobs.values().map(|job| job.subscribers.len()).sum()
    }

    pub(super) fn log(&self, level: i32, text: impl Into<String>) {
        self.store.borrow_mut().log.push(LogLine { level, text: text.into() });
    }

    pub(super) fn report_violation(&self, text: String) {
        self.store.borrow_mut().violations.push(text);
    }

    pub(super) fn current_job(&self) -> Option<u64> {
        self.store.borrow().stack.last().copied()
    }

    /// Returns the arguments of a callback for job `id`: IN with `extra`, and an empty OUT. Returns `None` for an unknown job.
    pub(super) fn job_args(&self, id: u64, extra: &[(&str, Value)]) -> Option<Args> {
        let input = self.job(id, |job| {
            let mut input = json!({
                "jobspec": job.jobspec, "id": job.id, "userid": job.userid, "urgency": job.urgency,
                "state": job.state() as i32, "priority": job.priority, "t_submit": job.t_submit,
            });
            if let Some(map) = input.as_object_mut() {
                // Plugins do not get the environment, which may be large and contain secrets.
                if let Some(Value::Object(system)) =
                    map.get_mut("jobspec").and_then(|j| j.pointer_mut("/attributes/system"))
                {
                    system.remove("environment");
                }
                let more = [("R", &job.r), ("end_event", &job.end_event)];
                map.extend(more.into_iter().filter_map(|(key, v)| Some((key.to_string(), v.clone()?))));
                map.extend(extra.iter().map(|(key, value)| (key.to_string(), value.clone())));
            }
            input
        })?;
        Args::new(self.abi, Some(&input), Some(&json!({})))
    }

    pub(super) fn has_handler(&self, topic: &str) -> bool {
        self.reset_cursor(topic);
        self.has_builtin_handler(topic) || self.plugins.borrow().iter().any(|plugin| plugin.handles(topic))
    }

    /// Calls the handlers of `topic` in all plugins in load order. The first failure ends the chain. Returns the number of
    /// plugins that handled the topic, or a negative number after a failure.
    pub(super) fn call_chain(&self, id: u64, topic: &str, args: &Args) -> i32 {
        let plugins = self.plugins.borrow().clone();
        self.call_plugins(&plugins, id, topic, args)
    }

    pub(super) fn call_plugins(&self, plugins: &[Rc<Plugin>], id: u64, topic: &str, args: &Args) -> i32 {
        self.store.borrow_mut().stack.push(id);
        let mut handled = self.call_builtin(id, topic, args);
        for plugin in plugins {
            if handled < 0 {
                break;
            }
            let rc = plugin.call(self, topic, args);
            if rc < 0 {
                self.log(LOG_DEBUG, format!("jobtap: {}: {topic}: rc={rc}", plugin.basename()));
                handled = -1;
            } else if self.post_collected_updates(id).is_err() {
                self.log(
                    LOG_ERR,
                    format!("jobtap: {}: {topic}: failed to apply jobspec updates", plugin.basename()),
                );
                handled = -1;
            } else {
                handled += rc;
            }
        }
        self.store.borrow_mut().stack.pop();
        handled
    }

    /// Posts all collected jobspec updates to job `id`. As in Flux, this includes updates that a plugin requested for
    /// another job.
    fn post_collected_updates(&self, id: u64) -> Result<(), Errno> {
        let updates = self.store.borrow_mut().pending_update.take();
        updates.map_or(Ok(()), |updates| self.post_event(id, "jobspec-update", Some(Value::Object(updates))))
    }

    /// Calls plugins about a job and applies the priority and annotations in OUT.
    pub(super) fn notify_plugins(&self, id: u64, topic: &str, extra: &[(&str, Value)]) {
        if topic == "job.state.inactive" {
            self.release_dependents(id);
        }
        if !self.has_handler(topic) {
            return;
        }
        let Some(args) = self.job_args(id, extra) else { return };
        if self.call_chain(id, topic, &args) < 0 {
            self.log(LOG_ERR, format!("jobtap: {topic}: callback returned error"));
        }
        match read_priority(&args) {
            Ok(Some(priority)) if priority >= 0 => self.reprioritize_job(id, priority),
            Ok(_) => {}
            Err(note) => {
                let _ = self.raise_exception(id, topic, 4, self.options.owner, &note);
            }
        }
    }

    /// Calls plugins that may reject with a text (`job.create`, `job.validate`, `job.update.*`, `job.dependency.*`).
    /// Returns the number of handlers that accepted, or the text.
    pub(super) fn ask_plugins(
        &self,
        id: u64,
        topic: &str,
        args: &Args,
        default: &str,
    ) -> Result<i32, String> {
        let rc = self.call_chain(id, topic, args);
        if rc >= 0 { Ok(rc) } else { Err(error_text(args).unwrap_or_else(|| default.to_string())) }
    }

    /// Returns the OUT document of `flux jobtap query`.
    ///
    /// # Errors
    /// Returns the error text of the command.
    pub fn query(&self, basename: &str) -> Result<Value, String> {
        serde_json::from_str(&self.query_text(basename)?).map_err(|error| error.to_string())
    }

    /// Returns the OUT document of `flux jobtap query` as the text that Flux would send.
    ///
    /// # Errors
    /// Returns the error text of the command.
    pub fn query_text(&self, basename: &str) -> Result<String, String> {
        let plugin = self.find_plugin(basename).ok_or(format!("{basename}: plugin not found"))?;
        let out = json!({"name": plugin.basename(), "path": plugin.path()});
        let args = Args::new(self.abi, None, Some(&out)).ok_or("out of memory")?;
        if plugin.call(self, "plugin.query", &args) < 0 {
            return Err("plugin.query failed".into());
        }
        args.text(OUT).ok_or_else(|| "plugin.query returned no document".into())
    }

    /// Calls one `topic` of the plugin `basename` with any `input`, for tests with invalid IN documents. `id` is the current job during the
    /// call. Returns the result of the callback (0 without a handler) and OUT, or `None` if the plugin is not loaded.
    pub fn call_raw(
        &self,
        basename: &str,
        topic: &str,
        id: u64,
        input: Option<&Value>,
    ) -> Option<(i32, Option<Value>)> {
        let plugin = self.find_plugin(basename)?;
        let args = Args::new(self.abi, input, Some(&json!({})))?;
        let rc = self.call_plugins(&[plugin], id, topic, &args);
        Some((rc, args.get(OUT)))
    }

    pub(super) fn find_plugin(&self, basename: &str) -> Option<Rc<Plugin>> {
        self.plugins.borrow().iter().find(|plugin| plugin.basename() == basename).cloned()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let names: Vec<String> = self.plugins.borrow().iter().map(|p| p.basename().to_string()).collect();
        for name in names {
            let _ = self.remove(&name);
        }
    }
}

/// Returns OUT.errmsg, or `None` if the callback did not set it.
pub(super) fn error_text(args: &Args) -> Option<String> {
    args.get(OUT)?.get("errmsg")?.as_str().map(str::to_string)
}
