// SPDX-License-Identifier: LGPL-3.0-only
//! Flux's configuration, and how plugins are told of it, as a plugin can disturb it.
//!
//! Flux goes through its plugins by the cursor of their list. Before it calls them about a job it counts who handles the topic, by the
//! same cursor, and leaves it at the end of the list: from there it goes on with the first again.

use std::rc::Rc;

use serde_json::{Value, json};

use super::abi::Args;
use super::host::{Host, error_text};
use super::plugin::Plugin;

impl Host {
    /// Tells every plugin the configuration, in load order; the first refusal ends it. Plugins that are loaded later are
    /// told the same. Says how many calls that took.
    ///
    /// # Errors
    /// The plugin's text.
    pub fn reload_config(&self, config: &Value) -> Result<usize, String> {
        let mut told = 0;
        while let Some(plugin) = self.next_plugin() {
            self.conf_update(&plugin, config).inspect_err(|_| self.cursor.set(None))?;
            told += 1;
            if told > 4 * self.plugins.borrow().len() + 16 {
                return Err("plugins would be told of the configuration for ever".into());
            }
        }
        self.config.replace(config.clone());
        Ok(told)
    }

    /// The plugin after the cursor; at the end of the list that is the first.
    fn next_plugin(&self) -> Option<Rc<Plugin>> {
        let at = self.cursor.get().map_or(0, |at| at + 1);
        let plugin = self.plugins.borrow().get(at).cloned();
        self.cursor.set(plugin.as_ref().map(|_| at));
        plugin
    }

    /// Who handles a topic is counted.
    pub(super) fn leaves_cursor(&self, topic: &str) {
        if self.cursor.take().is_some() {
            self.violation(format!("{topic} while plugins are told of the configuration"));
        }
    }

    pub(super) fn conf_update(&self, plugin: &Rc<Plugin>, config: &Value) -> Result<(), String> {
        let args = Args::new(self.abi, Some(&json!({"conf": config})), None).ok_or("out of memory")?;
        if plugin.call(self, "conf.update", &args) < 0 {
            let default = format!("config rejected by {} jobtap plugin", plugin.name());
            return Err(error_text(&args).unwrap_or(default));
        }
        Ok(())
    }
}
