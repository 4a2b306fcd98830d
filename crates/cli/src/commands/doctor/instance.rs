// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the state of the instance: plugins, queues, configuration on disk, and the effects of a push.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::commands::config::{self, Fault};
use crate::commands::push::{self, Push, changes};
use crate::commands::status::{find_plugin, list_plugins, request_recount, state_of};
use crate::outcome::{Result, failure};
use crate::plugin::ask::{configured_queues, describe_job_instance};
use fairshare_accounting::store::PolicyData;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{Check, Snapshot};

/// The state of the instance.
#[derive(Default)]
pub(super) struct Instance {
    /// The job manager's plugins, in the order in which Flux calls them.
    pub plugins: Vec<String>,
    /// The state of the priority plugin, if one is loaded.
    pub loaded: Option<LoadedPlugin>,
    /// A message if the instance belongs to a job and has no priority plugin.
    pub of_job: Option<String>,
    /// The named queues of Flux's configuration; empty if there are none.
    pub queues: BTreeSet<String>,
    /// Faults of the configuration on disk; a single fault if it can't be read.
    pub refused: Vec<Fault>,
    /// The plugin's answer to a dry push of the database, in words: the changes, or the reason of a refusal.
    pub push: Option<Result<String, String>>,
}

/// The state and the recount of the loaded plugin.
pub(super) struct LoadedPlugin {
    pub state: Snapshot,
    pub check: Option<Check>,
}

impl Instance {
    /// Connects to the instance and reads its state. `data` is the data of a push, if the database can be read.
    pub(super) fn ask(uri: Option<&str>, push: &Push<'_>, data: Option<&PolicyData>) -> Result<Self> {
        let flux = Flux::connect(uri).map_err(failure)?;
        let plugins = list_plugins(&flux)?;
        let mut instance = Instance {
            queues: configured_queues(&flux),
            refused: check_files_on_disk(&flux),
            ..Instance::default()
        };
        if let Some(name) = find_plugin(&plugins) {
            instance.loaded =
                Some(LoadedPlugin { state: state_of(&flux, name)?, check: request_recount(&flux)? });
        }
        instance.plugins = plugins;
        instance.of_job = if instance.loaded.is_none() { describe_job_instance(&flux) } else { None };
        if let (Some(_), Some(data)) = (&instance.loaded, data) {
            instance.push = match push::ask(push, data) {
                Ok(None) => None,
                Ok(Some(preview)) => changes::describe_kinds(&preview.changes.difference).map(Ok),
                Err(fault) => Some(Err(fault.to_string())),
            };
        }
        Ok(instance)
    }
}

/// Returns the faults of the configuration files that this instance reads at its next start.
fn check_files_on_disk(flux: &Flux) -> Vec<Fault> {
    let path = flux.attribute("config.path").unwrap_or_default();
    if path.is_empty() {
        return Vec::new();
    }
    let file = PathBuf::from(path);
    let checked = config::check(std::slice::from_ref(&file));
    checked.map(|(_, faults)| faults).unwrap_or_else(|failure| {
        let remedy = "make it readable for this account, or run this as the owner of the instance".to_owned();
        vec![Fault { file, key: String::new(), value: Value::Null, text: failure.to_string(), remedy }]
    })
}
