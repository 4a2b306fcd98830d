// SPDX-License-Identifier: LGPL-3.0-only
//! Performs `flux update`, and the jobspec updates that plugins request. Also notifies plugins of Flux's configuration, and reports calls
//! of plugins that disturb this notification.
//!
//! Flux loops over its list of plugins with the single cursor of this list. Before Flux calls plugins about a job, it counts the handlers
//! of the topic with the same cursor, which is then at the end of the list. If a plugin causes such a call during the notification, the
//! notification starts again with the first plugin.

use serde_json::{Map, Value, json};

use super::abi::{Args, IN, OUT};
use super::host::{Host, error_text};
use super::job::{Errno, Job, State, are_updates_allowed, with_updates};
use super::plugin::Plugin;
use super::service::{Cred, RequestError};
use std::rc::Rc;

impl Host {
    /// Performs `flux update JOB KEY=VALUE..` with the keys in the given order.
    ///
    /// # Errors
    /// Returns the error text of the command.
    pub fn update(&self, id: u64, updates: &[(&str, Value)], cred: Cred) -> Result<(), RequestError> {
        let invalid = |text: &str| RequestError::new(Errno::EINVAL, text);
        let mut all: Map<String, Value> =
            updates.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        if !are_updates_allowed(&all) {
            return Err(invalid("one or more jobspec updates are invalid"));
        }
        let read = |job: &Job| (job.state(), job.userid, job.immutable);
        let (state, userid, immutable) =
            self.job(id, read).ok_or_else(|| RequestError::new(Errno::ENOENT, "unknown job id"))?;
        if state == State::Inactive {
            return Err(invalid("job is inactive"));
        }
        if !cred.is_owner() && cred.userid != userid {
            return Err(RequestError::new(Errno::EPERM, "guests may only update their own jobs"));
        }
        if immutable && !cred.is_owner() {
            return Err(RequestError::new(
                Errno::EPERM,
                "job is immutable due to previous instance owner update",
            ));
        }
        let mut needs_validation = false;
        for (key, value) in updates {
            let (validates_update, more) =
                self.ask_plugins_about_update(id, key, value, cred).map_err(|text| invalid(&text))?;
            needs_validation |= validates_update;
            all.extend(more);
        }
        if needs_validation {
            self.validate_updates(id, &all).map_err(|text| invalid(&text))?;
        } else if cred.is_owner() && cred.userid != userid {
            let _ = self.post_event(id, "set-flags", Some(json!({"flags": ["immutable"]})));
        }
        let posted = self.post_event(id, "jobspec-update", Some(Value::Object(all)));
        posted.map_err(|errno| RequestError::new(errno, "failed to pack jobspec-update event"))?;
        self.settle();
        Ok(())
    }

    /// Changes the time limit of the instance, and of all running jobs without a time limit of their own.
    pub fn set_instance_expiration(&self, expiration: f64) {
        for id in self.jobs() {
            let follows_instance = |job: &Job| {
                let duration = job.jobspec.pointer("/attributes/system/duration").and_then(Value::as_f64);
                job.state() == State::Run && duration.unwrap_or(0.0) == 0.0
            };
            if self.job(id, follows_instance) == Some(true) {
                let _ = self.post_event(id, "resource-update", Some(json!({"expiration": expiration})));
            }
        }
        self.settle();
    }

    fn ask_plugins_about_update(
        &self,
        id: u64,
        key: &str,
        value: &Value,
        cred: Cred,
    ) -> Result<(bool, Map<String, Value>), String> {
        let extra = [
            ("cred", json!({"userid": cred.userid, "rolemask": cred.rolemask})),
            ("key", json!(key)),
            ("value", value.clone()),
        ];
        let args = self.job_args(id, &extra).ok_or("jobtap_job_update: failed to create args")?;
        let agreed = self.ask_plugins(
            id,
            &format!("job.update.{key}"),
            &args,
            "update rejected by job-manager plugin",
        )?;
        if agreed == 0 {
            return Err(format!("update of {key} not supported"));
        }
        let out = args.get(OUT).unwrap_or(Value::Null);
        let validated = out.get("validated").and_then(Value::as_i64).unwrap_or(0) != 0;
        let more = out.get("updates").and_then(Value::as_object).cloned().unwrap_or_default();
        Ok((!validated, more))
    }

    fn validate_updates(&self, id: u64, updates: &Map<String, Value>) -> Result<(), String> {
        let jobspec = self.job(id, |job| with_updates(&job.jobspec, updates)).flatten();
        let jobspec = jobspec.ok_or("update: Invalid argument")?;
        let args = self.job_args(id, &[]).ok_or("out of memory")?;
        args.merge(IN, &json!({"jobspec": jobspec}));
        if self.call_chain(id, "job.validate", &args) < 0 {
            return Err(error_text(&args).unwrap_or_else(|| "rejected by job-manager plugin".into()));
        }
        Ok(())
    }

    /// Implements flux_jobtap_jobspec_update_pack: collects updates, which are posted after the callback.
    pub(super) fn collect_update(&self, updates: Map<String, Value>) -> Result<(), Errno> {
        let id = self.current_job().ok_or(Errno::EINVAL)?;
        self.check_updatable(id, &updates)?;
        self.store.borrow_mut().pending_update.get_or_insert_default().extend(updates);
        Ok(())
    }

    /// Implements flux_jobtap_jobspec_update_id_pack: posts updates at once for any job except the current job.
    pub(super) fn update_by_id(&self, id: u64, updates: Map<String, Value>) -> Result<(), Errno> {
        if self.current_job() == Some(id) {
            return Err(Errno::EINVAL);
        }
        self.check_updatable(id, &updates)?;
        self.post_event(id, "jobspec-update", Some(Value::Object(updates)))
    }

    fn check_updatable(&self, id: u64, updates: &Map<String, Value>) -> Result<(), Errno> {
        let state = self.state(id).ok_or(Errno::EINVAL)?;
        let is_updatable = state < State::Run && are_updates_allowed(updates);
        if is_updatable { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

impl Host {
    /// Notifies every plugin of the configuration, in load order, until a plugin rejects the
    /// configuration. Plugins that are loaded later also get the configuration. Returns the number of calls.
    ///
    /// # Errors
    /// Returns the error text of the plugin.
    pub fn reload_config(&self, config: &Value) -> Result<usize, String> {
        let mut calls = 0;
        while let Some(plugin) = self.next_plugin() {
            self.send_conf_update(&plugin, config).inspect_err(|_| self.cursor.set(None))?;
            calls += 1;
            if calls > 4 * self.plugins.borrow().len() + 16 {
                return Err("plugins would be notified of the configuration indefinitely".into());
            }
        }
        self.config.replace(config.clone());
        Ok(calls)
    }

    /// Moves the cursor to the next plugin, and returns that plugin. At the end of the list, resets the cursor and returns `None`.
    fn next_plugin(&self) -> Option<Rc<Plugin>> {
        let at = self.cursor.get().map_or(0, |at| at + 1);
        let plugin = self.plugins.borrow().get(at).cloned();
        self.cursor.set(plugin.as_ref().map(|_| at));
        plugin
    }

    /// Resets the cursor. In Flux, counting the handlers of `topic` does this.
    pub(super) fn reset_cursor(&self, topic: &str) {
        if self.cursor.take().is_some() {
            self.report_violation(format!("{topic} while plugins are notified of the configuration"));
        }
    }

    pub(super) fn send_conf_update(&self, plugin: &Rc<Plugin>, config: &Value) -> Result<(), String> {
        let args = Args::new(self.abi, Some(&json!({"conf": config})), None).ok_or("out of memory")?;
        if plugin.call(self, "conf.update", &args) < 0 {
            let default = format!("config rejected by {} jobtap plugin", plugin.name());
            return Err(error_text(&args).unwrap_or(default));
        }
        Ok(())
    }
}
