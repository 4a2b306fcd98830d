// SPDX-License-Identifier: LGPL-3.0-only
//! Notifies plugins of Flux's configuration, and reports calls of plugins that disturb the notification.
//!
//! Flux loops over its plugins with the cursor of their list. Before Flux calls plugins about a job, it counts the
//! handlers of the topic with the same cursor, which is then at the end of the list. So a loop in progress starts again
//! with the first plugin.

use std::rc::Rc;

use serde_json::{Value, json};

use super::abi::Args;
use super::host::{Host, error_text};
use super::plugin::Plugin;

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
