// SPDX-License-Identifier: LGPL-3.0-only
//! Sends requests to the plugin in the job manager.

use std::collections::BTreeSet;
use std::sync::Once;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::installed::load_command;
use crate::outcome::{Failure, Result, failure};
use crate::ui::messages::remark;
use crate::ui::printable::printable;
use fairshare::periods::Resources;
use fairshare_accounting::pipeline::resources;
use fairshare_accounting::store::quote_for_shell;
use fairshare_client::{Flux, FluxError};
use fairshare_engine::engine::answers::Heading;

/// The option that names the Flux instance.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InstanceArg {
    /// The Flux instance; by default the enclosing instance or the system instance
    #[arg(long, value_name = "URI")]
    pub(crate) uri: Option<String>,
}

impl InstanceArg {
    /// Returns the option ` --uri URI` for a command of this project. Empty without `--uri`.
    pub(crate) fn option(&self) -> String {
        self.uri.as_ref().map_or(String::new(), |uri| format!(" --uri {}", quote_for_shell(uri)))
    }

    /// Returns the prefix `FLUX_URI=URI ` for a command of Flux, which has no option `--uri`. Empty without `--uri`.
    pub(crate) fn variable(&self) -> String {
        self.uri.as_ref().map_or(String::new(), |uri| format!("FLUX_URI={} ", quote_for_shell(uri)))
    }

    /// Connects to the instance.
    pub(crate) fn connect(&self) -> Result<Flux> {
        Flux::connect(self.uri.as_deref()).map_err(failure)
    }
}

/// The message if the plugin has no data to answer with.
pub(crate) const NO_DATA: &str = "the plugin has no data: nothing was pushed since it was loaded, and all jobs wait; the \
                                  instance owner can send the data with \"flux fairshare push\"";

/// Sends the request `method` to the plugin and parses its answer. Returns [`Failure::No`] with the text of the plugin if the job, user or
/// bank does not exist, or if the caller may not see it.
pub(crate) fn ask<T: DeserializeOwned>(flux: &Flux, method: &str, payload: &Value) -> Result<T> {
    let topic = format!("job-manager.mf_priority.{method}");
    match flux.rpc(&topic, &payload.to_string()) {
        Ok(answer) => serde_json::from_str(warn_if_other_plugin_sets_priorities(flux, answer.as_deref().unwrap_or_default())).map_err(|error| {
            failure(format!(
                "the plugin's answer to \"{method}\" is invalid ({error}); the plugin may have another version"
            ))
        }),
        Err(FluxError::Request { errno: libc::ENOSYS, .. }) => Err(failure(describe_missing(flux, method))),
        Err(FluxError::Request { errno: libc::ENOENT | libc::EPERM | libc::EACCES, text, .. }) => {
            Err(Failure::No(printable(&text).into_owned()))
        }
        Err(error) => Err(failure(error)),
    }
}

/// Sends a request to a service of Flux. Returns `None` if Flux refuses it, or if the answer has another form.
pub(crate) fn ask_flux<T: DeserializeOwned>(flux: &Flux, topic: &str, payload: &Value) -> Option<T> {
    let answer = flux.rpc(topic, &payload.to_string()).ok()??;
    serde_json::from_str(&answer).ok()
}

/// States in answers of job-list. Pending jobs have values below RUN, and CLEANUP is between RUN and INACTIVE.
pub(crate) const RUN: u64 = 16;
pub(crate) const INACTIVE: u64 = 64;

/// Asks job-list for attributes of a job. Returns `None` if job-list does not have the job, or does not show it to the caller.
pub(crate) fn ask_listed<T: DeserializeOwned>(flux: &Flux, id: u64, attributes: &[&str]) -> Option<T> {
    let wanted = json!({"id": id, "attrs": attributes});
    let mut answer: Value = ask_flux(flux, "job-list.list-id", &wanted)?;
    serde_json::from_value(answer.get_mut("job")?.take()).ok()
}

/// Returns the answer unchanged. If another priority plugin overrules the plugin, warns once that Flux does not use the priorities in
/// the answer.
fn warn_if_other_plugin_sets_priorities<'a>(flux: &Flux, answer: &'a str) -> &'a str {
    static WARNED: Once = Once::new();
    // Parse only answers that contain the key. Searching the text is cheaper than parsing it.
    if !answer.contains("\"overruled\":{") {
        return answer;
    }
    if let Ok(Heading { overruled: Some(overruled), .. }) = serde_json::from_str(answer) {
        WARNED.call_once(|| {
            let text = overruled.sentence(&flux.format_job_id(overruled.job.0));
            remark(format_args!(
                "warning: {text}; the instance owner can list the plugins with \"flux jobtap list\""
            ));
        });
    }
    answer
}

/// Returns why no plugin answers `method`, and what to do.
fn describe_missing(flux: &Flux, method: &str) -> String {
    if is_loaded(flux) {
        return format!(
            "the priority plugin of this instance does not answer \"{method}\": it is the plugin of flux-accounting, or an older version; \
             the instance owner can load the plugin of this version: \"{}\"",
            load_command(Some("mf_priority.so"))
        );
    }
    if let Some(text) = describe_job_instance(flux) {
        return text;
    }
    let load = find_load_command(flux);
    format!("no fair-share plugin is loaded in this instance; its owner can load it with \"{load}\"")
}

/// Flux's own priority plugin. Flux loads it before all other plugins.
pub(crate) const DEFAULT_PLUGIN: &str = ".priority-default";

/// Returns the command that loads the plugin into an instance without it. If Flux's default plugin is loaded, the command removes it.
pub(crate) fn find_load_command(flux: &Flux) -> String {
    let plugins = request_plugins(flux).unwrap_or_default();
    load_command(plugins.iter().map(String::as_str).find(|name| *name == DEFAULT_PLUGIN))
}

/// Returns the message for a request within `flux batch` or `flux alloc`, where the job's own instance has no site priorities.
/// Returns `None` in an instance that no other instance started.
pub(crate) fn describe_job_instance(flux: &Flux) -> Option<String> {
    let level: u32 = flux.attribute("instance-level").ok()?.parse().ok().filter(|level| *level > 0)?;
    let job = flux.attribute("jobid").map_or(String::new(), |job| format!(" in job {job}"));
    let parents = " --parent".repeat(usize::try_from(level).unwrap_or(1));
    Some(format!(
        "this is a Flux instance at level {level}{job}, where no fair-share plugin is loaded; \"flux{parents} fairshare ...\" asks \
         the instance of the site"
    ))
}

/// Returns all plugins of the job manager, in the order in which Flux calls them. Guests may not ask.
pub(crate) fn request_plugins(flux: &Flux) -> Result<Vec<String>, FluxError> {
    #[derive(Default, Deserialize)]
    struct Plugins {
        plugins: Vec<String>,
    }
    let answer = flux.rpc("job-manager.jobtap", r#"{"query_only": true}"#)?.unwrap_or_default();
    Ok(serde_json::from_str::<Plugins>(&answer).unwrap_or_default().plugins)
}

/// Returns true if a plugin named mf_priority is loaded. Guests may not list the plugins. For guests, the
/// plugin is loaded if `rec_update`, a method for the instance owner, is refused with EPERM.
fn is_loaded(flux: &Flux) -> bool {
    match request_plugins(flux) {
        Ok(plugins) => plugins.iter().any(|name| name.starts_with("mf_priority")),
        Err(FluxError::Request { errno: libc::EPERM, .. }) => {
            let answer = flux.rpc("job-manager.mf_priority.rec_update", "{}");
            matches!(answer, Err(FluxError::Request { errno: libc::EPERM, .. }))
        }
        Err(_) => false,
    }
}

/// Returns a part of the configuration that Flux has read; the default if Flux does not answer.
pub(crate) fn configuration<T: DeserializeOwned + Default>(flux: &Flux) -> T {
    ask_flux(flux, "config.get", &json!({})).unwrap_or_default()
}

/// Returns the named queues of Flux's configuration; empty if there are none, or if Flux does not answer.
pub(crate) fn configured_queues(flux: &Flux) -> BTreeSet<String> {
    let configuration: Value = configuration(flux);
    configuration.get("queues").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect()
}

/// Returns the resources that `flux resource list` shows, or `None` if Flux does not answer.
pub(crate) fn scheduler_status<T: DeserializeOwned>(flux: &Flux) -> Option<T> {
    let ask = |topic: &str| ask_flux(flux, topic, &json!({}));
    // In older versions of Flux, the scheduler answers this request instead of the module `resource`.
    ask("resource.sched-status").or_else(|| ask("sched.resource-status"))
}

/// Returns all resources of the instance, or `None` if Flux does not answer or has none.
pub(crate) fn site_resources(flux: &Flux) -> Option<Resources> {
    let status: Value = scheduler_status(flux)?;
    resources::count(&status.get("all")?.to_string()).filter(|all| all.nodes > 0 && all.cores > 0)
}

/// Returns the tables `[[fairshare.limits]]` of Flux's configuration; empty if there are none, or if Flux does not answer.
pub(crate) fn configured_limits(flux: &Flux) -> Vec<Map<String, Value>> {
    let mut configuration: Value = configuration(flux);
    let limits = configuration.pointer_mut("/fairshare/limits").map(Value::take);
    limits.and_then(|limits| serde_json::from_value(limits).ok()).unwrap_or_default()
}
