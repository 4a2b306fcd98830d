// SPDX-License-Identifier: LGPL-3.0-only
//! The host: what a running job manager knows, and how it calls its plugins.
//!
//! A plugin may call back into the host from any callback, and the host may call the plugin again before that call
//! returns. So everything is behind `&self`, and no `RefCell` borrow is alive across a call into a plugin.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::abi::{Abi, Args, IN, OUT};
use super::aux::Aux;
use super::cluster::Cluster;
use super::job::{Errno, Job, State};
use super::plugin::Plugin;
use super::reactor::Agenda;

/// How the instance is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of nodes.
    pub nodes: usize,
    /// Cores of each node.
    pub cores: usize,
    /// Userid of the instance owner.
    pub owner: u32,
    /// Whether `.priority-default` (priority = urgency) runs before the plugins.
    pub priority_default: bool,
    /// Whether job-list is loaded.
    pub job_list: bool,
    /// Queue names that `flux update` knows; empty: any.
    pub queues: Vec<String>,
    /// Whether to keep every event in the order it was handled, for [`Host::take_trace`].
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

/// Everything that changes while the instance runs.
pub(super) struct Store {
    pub(super) jobs: BTreeMap<u64, Job>,
    /// Jobs of the running callbacks, innermost last.
    pub(super) stack: Vec<u64>,
    /// Jobspec updates collected for "the current job" and not posted yet.
    pub(super) pending_update: Option<Map<String, Value>>,
    /// Jobs accepted but not committed: their events wait.
    pub(super) batch: Vec<u64>,
    /// Jobs with eventlog entries that the KVS does not have yet.
    pub(super) unstored: BTreeSet<u64>,
    /// Jobs whose eventlog can't be read.
    pub(super) unreadable: BTreeSet<u64>,
    /// What fails.
    pub(super) faults: super::fault::Faults,
    /// The annotations of jobs, by volatile memos.
    pub(super) annotations: BTreeMap<u64, Value>,
    /// Answers that tests chose.
    pub(super) told: BTreeMap<String, String>,
    pub(super) last_id: u64,
    pub(super) agenda: Agenda,
    pub(super) cluster: Cluster,
    pub(super) log: Vec<LogLine>,
    pub(super) violations: Vec<String>,
    /// Events of all jobs in the order they were handled, if the options ask for them.
    pub(super) trace: Vec<(u64, Value)>,
    /// `afterany`: (job waited for, waiting job, dependency name).
    pub(super) after: Vec<(u64, u64, String)>,
    pub(super) replies: BTreeMap<usize, super::service::Reply>,
    /// Answers that came later.
    pub(super) late: Vec<super::service::Late>,
    pub(super) callbacks: u64,
    /// While Flux asks for all priorities.
    pub(super) walk: Option<super::active::Walk>,
    /// What `flux_jobtap_reprioritize_all` fails with.
    pub(super) reprioritize_fails: Option<Errno>,
}

/// An embedded job manager with a small cluster in virtual time.
pub struct Host {
    pub(super) abi: &'static Abi,
    pub(super) options: Options,
    pub(super) store: RefCell<Store>,
    pub(super) plugins: RefCell<Vec<Rc<Plugin>>>,
    /// Where Flux is as it tells its plugins of a configuration.
    pub(super) cursor: Cell<Option<usize>>,
    pub(super) next_uid: Cell<usize>,
    /// Flux's configuration.
    pub(super) config: RefCell<Value>,
    /// What plugins keep with the handle.
    pub(super) aux: RefCell<Aux>,
}

impl Host {
    /// An instance without jobs and plugins. It stays where the `Rc` put it: plugins hold its address.
    ///
    /// # Errors
    /// A sentence, when this executable was built without the C side.
    pub fn new(options: Options) -> Result<Rc<Host>, String> {
        let store = Store {
            jobs: BTreeMap::new(),
            stack: Vec::new(),
            pending_update: None,
            batch: Vec::new(),
            unstored: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            faults: super::fault::Faults::default(),
            annotations: BTreeMap::new(),
            told: BTreeMap::new(),
            last_id: 0,
            agenda: Agenda::default(),
            cluster: Cluster::new(options.nodes, options.cores),
            log: Vec::new(),
            violations: Vec::new(),
            trace: Vec::new(),
            after: Vec::new(),
            replies: BTreeMap::new(),
            late: Vec::new(),
            callbacks: 0,
            walk: None,
            reprioritize_fails: None,
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

    /// Runs `read` on a job, `None` if it does not exist. `read` must not call the host.
    pub fn job<T>(&self, id: u64, read: impl FnOnce(&Job) -> T) -> Option<T> {
        self.store.borrow().jobs.get(&id).map(read)
    }

    pub(super) fn job_mut<T>(&self, id: u64, change: impl FnOnce(&mut Job) -> T) -> Option<T> {
        self.store.borrow_mut().jobs.get_mut(&id).map(change)
    }

    /// State of a job.
    pub fn state(&self, id: u64) -> Option<State> {
        self.job(id, Job::state)
    }

    /// The annotations of a job, by volatile memos.
    pub fn annotations(&self, id: u64) -> Option<Value> {
        self.store.borrow().annotations.get(&id).cloned()
    }

    /// Takes a request `job-manager.memo`. Only volatile ones are of use here.
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

    /// Ids of all jobs known, inactive ones included, ascending.
    pub fn jobs(&self) -> Vec<u64> {
        self.store.borrow().jobs.keys().copied().collect()
    }

    /// Virtual time, seconds.
    pub fn now(&self) -> f64 {
        self.store.borrow().agenda.now()
    }

    /// Takes the log lines so far.
    pub fn take_log(&self) -> Vec<LogLine> {
        std::mem::take(&mut self.store.borrow_mut().log)
    }

    /// Rules that a plugin has broken: what a real broker would crash on or leak.
    pub fn violations(&self) -> Vec<String> {
        self.store.borrow().violations.clone()
    }

    /// Takes the events so far, of all jobs in the order they were handled.
    pub fn take_trace(&self) -> Vec<(u64, Value)> {
        std::mem::take(&mut self.store.borrow_mut().trace)
    }

    /// Number of plugin callbacks called so far.
    pub fn callbacks(&self) -> u64 {
        self.store.borrow().callbacks
    }

    /// Values that plugins keep on jobs.
    pub fn job_aux_count(&self) -> usize {
        self.store.borrow().jobs.values().flat_map(|job| job.aux.values()).map(|aux| aux.len()).sum()
    }

    /// Subscriptions to job events that Flux keeps, also those of inactive jobs: what it searches when a job is freed.
    pub fn subscriptions(&self) -> usize {
        self.store.borrow().jobs.values().map(|job| job.subscribers.len()).sum()
    }

    pub(super) fn log(&self, level: i32, text: impl Into<String>) {
        self.store.borrow_mut().log.push(LogLine { level, text: text.into() });
    }

    pub(super) fn violation(&self, text: String) {
        self.store.borrow_mut().violations.push(text);
    }

    pub(super) fn current_job(&self) -> Option<u64> {
        self.store.borrow().stack.last().copied()
    }

    /// IN of a job's callbacks, with `extra` on top, and an empty OUT.
    pub(super) fn job_args(&self, id: u64, extra: &[(&str, Value)]) -> Option<Args> {
        let input = self.job(id, |job| {
            let mut input = json!({
                "jobspec": job.jobspec, "id": job.id, "userid": job.userid, "urgency": job.urgency,
                "state": job.state() as i32, "priority": job.priority, "t_submit": job.t_submit,
            });
            if let Some(map) = input.as_object_mut() {
                // The environment can be large and may hold secrets: plugins do not get it.
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
        self.leaves_cursor(topic);
        self.builtin_handles(topic) || self.plugins.borrow().iter().any(|plugin| plugin.handles(topic))
    }

    /// Calls `topic` in every plugin in load order; the first failure ends the chain. > 0: that many handled it.
    pub(super) fn call_chain(&self, id: u64, topic: &str, args: &Args) -> i32 {
        let plugins = self.plugins.borrow().clone();
        self.call_plugins(&plugins, id, topic, args)
    }

    pub(super) fn call_plugins(&self, plugins: &[Rc<Plugin>], id: u64, topic: &str, args: &Args) -> i32 {
        self.store.borrow_mut().stack.push(id);
        let mut handled = self.builtin_call(id, topic, args);
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

    /// Updates that were collected go to the job of *this* call, whoever collected them: the host's own behaviour.
    fn post_collected_updates(&self, id: u64) -> Result<(), Errno> {
        let updates = self.store.borrow_mut().pending_update.take();
        updates.map_or(Ok(()), |updates| self.post(id, "jobspec-update", Some(Value::Object(updates))))
    }

    /// A callback about a job whose OUT counts: priority and annotations.
    pub(super) fn notify(&self, id: u64, topic: &str, extra: &[(&str, Value)]) {
        if topic == "job.state.inactive" {
            self.release_waiting_for(id);
        }
        if !self.has_handler(topic) {
            return;
        }
        let Some(args) = self.job_args(id, extra) else { return };
        if self.call_chain(id, topic, &args) < 0 {
            self.log(LOG_ERR, format!("jobtap: {topic}: callback returned error"));
        }
        match args.get(OUT).as_ref().and_then(|out| out.get("priority")) {
            None => {}
            Some(Value::Number(n)) if n.is_i64() => {
                let priority = n.as_i64().unwrap_or(-1);
                if priority >= 0 {
                    self.reprioritize_job(id, priority);
                }
            }
            Some(other) => {
                let note = format!("arg_unpack: Expected integer, got {other}");
                let _ = self.raise(id, topic, 4, self.options.owner, &note);
            }
        }
    }

    /// A callback that may refuse with a text (`job.create`, `job.validate`, `job.update.*`, `job.dependency.*`).
    ///
    /// `Ok(n)`: n handlers agreed.
    pub(super) fn ask(&self, id: u64, topic: &str, args: &Args, default: &str) -> Result<i32, String> {
        let rc = self.call_chain(id, topic, args);
        if rc >= 0 {
            return Ok(rc);
        }
        Err(error_text(args).unwrap_or_else(|| default.to_string()))
    }

    /// `flux jobtap query`: the plugin's OUT document.
    ///
    /// # Errors
    /// The text that the command would print.
    pub fn query(&self, basename: &str) -> Result<Value, String> {
        serde_json::from_str(&self.query_text(basename)?).map_err(|error| error.to_string())
    }

    /// Returns the plugin's OUT document as the text that Flux would send.
    ///
    /// # Errors
    /// The text that the command would print.
    pub fn query_text(&self, basename: &str) -> Result<String, String> {
        let plugin = self.find(basename).ok_or(format!("{basename}: plugin not found"))?;
        let out = json!({"name": plugin.basename(), "path": plugin.path()});
        let args = Args::new(self.abi, None, Some(&out)).ok_or("out of memory")?;
        if plugin.call(self, "plugin.query", &args) < 0 {
            return Err("plugin.query failed".into());
        }
        args.text(OUT).ok_or_else(|| "plugin.query returned no document".into())
    }

    /// Calls one topic of one plugin with arguments of the caller's choice, as no real host would: hostile IN
    /// documents for tests. `id` is the current job meanwhile. Returns the callback's code (0: no handler) and OUT.
    pub fn call_raw(
        &self,
        basename: &str,
        topic: &str,
        id: u64,
        input: Option<&Value>,
    ) -> Option<(i32, Option<Value>)> {
        let plugin = self.find(basename)?;
        let args = Args::new(self.abi, input, Some(&json!({})))?;
        let rc = self.call_plugins(&[plugin], id, topic, &args);
        Some((rc, args.get(OUT)))
    }

    pub(super) fn find(&self, basename: &str) -> Option<Rc<Plugin>> {
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

/// OUT.errmsg, cut as the host cuts it.
pub(super) fn error_text(args: &Args) -> Option<String> {
    args.get(OUT)?.get("errmsg")?.as_str().map(str::to_string)
}

/// IN of an argument object, for tests and lookups.
#[allow(dead_code, reason = "used by tests of this module")]
pub(super) fn input(args: &Args) -> Option<Value> {
    args.get(IN)
}
