// SPDX-License-Identifier: LGPL-3.0-only
//! Restarts the job manager: plugins are removed without a callback, and jobs are replayed from their eventlogs.

use std::path::PathBuf;

use serde_json::Value;

use super::host::{Host, LOG_ERR};
use super::job::{State, f58};

/// Order in which a restart replays jobs. Flux uses the order of a hash, so a plugin must not rely on any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By ascending id.
    #[default]
    Ascending,
    /// By descending id.
    Descending,
}

impl Host {
    /// Restarts with the same plugins, loaded before the replay, as with `[job-manager] plugins=`.
    ///
    /// # Errors
    /// Returns an error if a plugin can't be loaded again.
    pub fn restart(&self, order: Order) -> Result<(), String> {
        self.restart_with_confs(order, |loaded| loaded)
    }

    /// Restarts with the load-time configuration of each plugin changed to `conf`.
    ///
    /// # Errors
    /// Returns an error if a plugin can't be loaded again.
    pub fn restart_with_configuration(&self, order: Order, conf: Option<&Value>) -> Result<(), String> {
        self.restart_with_confs(order, |_| conf.cloned())
    }

    fn restart_with_confs(
        &self,
        order: Order,
        conf: impl Fn(Option<Value>) -> Option<Value>,
    ) -> Result<(), String> {
        self.commit();
        let plugins: Vec<(PathBuf, String, Option<Value>)> = self
            .plugins
            .borrow()
            .iter()
            .map(|plugin| (plugin.path().into(), plugin.basename().to_string(), conf(plugin.conf.clone())))
            .collect();
        for (_, basename, _) in &plugins {
            self.remove(basename)?;
        }
        {
            let mut store = self.store.borrow_mut();
            let jobs = std::mem::take(&mut store.jobs);
            store.jobs = jobs.into_iter().map(|(id, job)| (id, job.replay())).collect();
            store.dependents.clear();
            store.pending_update = None;
        }
        for (path, _, conf) in &plugins {
            self.open_plugin(path, conf.as_ref())?;
        }
        self.replay_jobs(order);
        Ok(())
    }

    fn replay_jobs(&self, order: Order) {
        let mut ids = self.jobs();
        if order == Order::Descending {
            ids.reverse();
        }
        // As in Flux, each job continues from its state before plugins are called about any job. A job in CLEANUP may end, and a job in
        // DEPEND may lose its last dependency.
        for &id in &ids {
            if self.perform_action(id).is_err() {
                self.log(LOG_ERR, format!("replay warning: action failed on job {}", f58(id)));
            }
        }
        for &id in &ids {
            let state = self.state(id);
            match state {
                None | Some(State::Inactive) => continue,
                Some(State::New | State::Depend) => {
                    if let Err(text) = self.check_dependencies(id) {
                        let note = format!("{text} (job may be stuck in DEPEND state)");
                        let _ = self.raise_exception(id, "dependency", 4, self.options.owner, &note);
                    }
                }
                Some(_) => {}
            }
            self.notify_plugins(id, "job.create", &[]);
            self.notify_plugins(id, "job.new", &[]);
            if self.state(id) == Some(State::Sched) {
                // Reset the priority. Otherwise Flux would post no event for an unchanged priority, and the job would not return to SCHED.
                self.job_mut(id, |job| job.priority = -1);
                let _ = self.post_event(id, "flux-restart", None);
            }
        }
    }
}
