// SPDX-License-Identifier: LGPL-3.0-only
//! A loaded plugin: its .so, its handlers and its values. This module also loads plugins with a replay, and
//! removes plugins.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::rc::Rc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use serde_json::{Value, json};

use super::abi::{Args, IN, OUT, PluginFn, PluginHandle, make_c_string_from_text};
use super::aux::Aux;
use super::host::{Host, LOG_ERR};
use super::job::State;
use super::service::Service;

pub(super) struct Handler {
    topic: String,
    callback: PluginFn,
    data: *mut c_void,
}

/// A plugin and its registrations. Fields are dropped in order, the .so last.
pub struct Plugin {
    handle: OnceCell<PluginHandle>,
    pub(super) uid: usize,
    pub(super) host: *const Host,
    path: String,
    basename: String,
    pub(super) conf: Option<Value>,
    pub(super) set_name: RefCell<Option<String>>,
    handlers: RefCell<Vec<Handler>>,
    pub(super) services: RefCell<Vec<Service>>,
    pub(super) aux: RefCell<Aux>,
    /// True if the plugin gets jobs in later states first when it is loaded. Otherwise it gets the jobs in the order of their ids.
    pub(super) loads_last_state_first: Cell<bool>,
    library: RefCell<Option<Library>>,
}

impl Plugin {
    /// Returns the basename of the path, by which users address the plugin.
    pub fn basename(&self) -> &str {
        &self.basename
    }

    /// Returns the path of the .so.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the registered name, which is part of service topics.
    pub fn name(&self) -> String {
        self.set_name.borrow().clone().unwrap_or_else(|| self.basename.clone())
    }

    pub(super) fn add_handler(&self, topic: String, callback: PluginFn, data: *mut c_void) {
        self.handlers.borrow_mut().push(Handler { topic, callback, data });
    }

    pub(super) fn handles(&self, topic: &str) -> bool {
        self.handlers.borrow().iter().any(|handler| matches_glob(&handler.topic, topic))
    }

    /// Calls the first matching handler. Returns 1 if it succeeded, 0 without a handler, -1 if it failed.
    pub(super) fn call(&self, host: &Host, topic: &str, args: &Args) -> c_int {
        let found = self
            .handlers
            .borrow()
            .iter()
            .find(|handler| matches_glob(&handler.topic, topic))
            .map(|handler| (handler.callback, handler.data));
        let (Some((callback, data)), Some(handle)) = (found, self.handle.get()) else { return 0 };
        let topic = make_c_string_from_text(topic);
        // SAFETY: the contract is that of flux_plugin_register(3). The callback gets its own handle, a NUL-terminated topic,
        // its registered data, and an argument object that lives until the call returns. The .so is still loaded.
        let rc = host.run_as_plugin(self.uid, || unsafe {
            callback(handle.as_ptr(), topic.as_ptr(), args.as_ptr(), data)
        });
        if rc < 0 { -1 } else { 1 }
    }
}

/// Matches a topic with a pattern, which may end with `*`. Plugins use no other wildcards.
fn matches_glob(pattern: &str, topic: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => topic.starts_with(prefix),
        None => topic == pattern,
    }
}

impl Host {
    /// Performs `flux jobtap load PATH [conf]`: opens and initializes the .so, replays all active jobs,
    /// reprioritizes.
    ///
    /// # Errors
    /// Returns the error text of the command.
    pub fn load(&self, path: &Path, conf: Option<&Value>) -> Result<(), String> {
        let plugin = self.open_plugin(path, conf)?;
        self.replay_jobs_to_plugin(&plugin);
        self.reprioritize_all();
        Ok(())
    }

    /// Loads a plugin without a replay, as Flux does at its start for `[job-manager] plugins=`.
    pub(super) fn open_plugin(&self, path: &Path, conf: Option<&Value>) -> Result<Rc<Plugin>, String> {
        let shown = path.display();
        // SAFETY: loading runs the initializers of the .so; the caller names a jobtap plugin.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| format!("{shown}: {error}"))?;
        type Init = unsafe extern "C" fn(*mut c_void) -> c_int;
        // SAFETY: every Flux plugin has flux_plugin_init(3) with this prototype.
        let init: Init = *unsafe { library.get(b"flux_plugin_init\0") }
            .map_err(|_| format!("{shown}: flux_plugin_init symbol not found"))?;
        // The name by which users address the plugin.
        let basename = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let uid = self.next_uid.replace(self.next_uid.get() + 1);
        let plugin = Rc::new(Plugin {
            handle: OnceCell::new(),
            uid,
            host: self,
            path: path.to_string_lossy().into_owned(),
            basename: basename.clone(),
            conf: conf.cloned(),
            set_name: RefCell::new(None),
            handlers: RefCell::default(),
            services: RefCell::default(),
            aux: RefCell::default(),
            loads_last_state_first: Cell::default(),
            library: RefCell::new(Some(library)),
        });
        let slot = Rc::as_ptr(&plugin).cast_mut().cast::<c_void>();
        let handle = plugin.handle.get_or_init(|| PluginHandle::new(self.abi, slot, conf));
        // SAFETY: called once, right after loading, with a handle that outlives the plugin.
        let rc = self.run_as_plugin(uid, || unsafe { init(handle.as_ptr().cast()) });
        let outcome = if rc < 0 {
            Err(format!("{shown}: flux_plugin_init failed"))
        } else if self.find_plugin(&basename).is_some() {
            // As in Flux, this check comes after the call of flux_plugin_init.
            Err(format!("{basename} already loaded"))
        } else {
            self.send_conf_update(&plugin, &self.config.borrow().clone())
        };
        if let Err(text) = outcome {
            self.unload_plugin(&plugin);
            return Err(text);
        }
        // A name with '/' or '.' can't be part of a service name. Flux uses the basename up to its first dot instead.
        let is_valid = |name: &String| !name.contains(['/', '.']);
        if !plugin.set_name.borrow().as_ref().is_some_and(is_valid) {
            plugin.set_name.replace(basename.split('.').next().map(str::to_string));
        }
        self.plugins.borrow_mut().push(plugin.clone());
        Ok(plugin)
    }

    fn replay_jobs_to_plugin(&self, plugin: &Rc<Plugin>) {
        let mut jobs: Vec<(State, u64)> = self
            .store
            .borrow()
            .jobs
            .values()
            .filter(|job| job.state() != State::Inactive)
            .map(|job| (job.state(), job.id))
            .collect();
        if plugin.loads_last_state_first.get() {
            jobs.sort_by_key(|&(state, id)| (std::cmp::Reverse(state), id));
        }
        for (_, id) in jobs {
            let Some(args) = self.job_args(id, &[]) else { continue };
            self.store.borrow_mut().stack.push(id);
            // Only the newly loaded plugin gets the next callbacks. Flux ignores their return codes and OUT arguments. If the plugin
            // requests a jobspec update here, Flux posts the update after the next callback to all plugins.
            plugin.call(self, "job.create", &args);
            plugin.call(self, "job.new", &args);
            if self.state(id) == Some(State::Depend) {
                self.replay_dependencies(plugin, id, &args);
                plugin.call(self, "job.state.depend", &args);
            }
            self.store.borrow_mut().stack.pop();
        }
    }

    fn replay_dependencies(&self, plugin: &Rc<Plugin>, id: u64, args: &Args) {
        for dependency in self.declared_dependencies(id) {
            let scheme = dependency.get("scheme").and_then(Value::as_str).unwrap_or_default();
            let topic = format!("job.dependency.{scheme}");
            if plugin.handles(&topic) {
                args.merge(IN, &json!({"dependency": dependency}));
                args.merge(OUT, &json!({}));
                if plugin.call(self, &topic, args) < 0 {
                    self.log(LOG_ERR, format!("plugin_check_dependencies: {topic} failed"));
                }
            }
        }
    }

    /// Performs `flux jobtap remove`: destroys services and values of the plugin, then closes the .so. There is no
    /// callback.
    ///
    /// # Errors
    /// Returns the error text of the command.
    pub fn remove(&self, basename: &str) -> Result<(), String> {
        let plugin = self.find_plugin(basename).ok_or("Failed to find plugin to remove")?;
        for id in self.jobs() {
            self.job_mut(id, |job| job.subscribers.retain(|&uid| uid != plugin.uid));
        }
        self.plugins.borrow_mut().retain(|other| other.uid != plugin.uid);
        self.unload_plugin(&plugin);
        Ok(())
    }

    fn unload_plugin(&self, plugin: &Plugin) {
        plugin.services.borrow_mut().clear();
        plugin.handlers.borrow_mut().clear();
        // A destructor may call the host, for example to destroy a timer. So take the values out of `plugin.aux` first.
        plugin.aux.take().destroy();
        let left = self.store.borrow_mut().agenda.drop_owned_by(plugin.uid);
        for what in left {
            self.report_violation(format!("{}: {what} left behind at removal", plugin.basename));
        }
        plugin.library.take();
    }

    /// Returns the number of values that loaded plugins attached to themselves.
    pub fn plugin_aux_count(&self) -> usize {
        self.plugins.borrow().iter().map(|plugin| plugin.aux.borrow().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn globs_match_topics() {
        assert!(matches_glob("job.state.*", "job.state.run"));
        assert!(matches_glob("job.new", "job.new"));
        assert!(!matches_glob("job.new", "job.newer"));
        assert!(!matches_glob("job.state.*", "job.new"));
        assert!(matches_glob("*", ""));
    }
}
