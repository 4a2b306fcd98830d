// SPDX-License-Identifier: LGPL-3.0-only
//! Asking the plugin in the job manager: the methods that answer guests and owners alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Once;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::installed::load_command;
use crate::outcome::{Failure, failure};
use crate::ui::messages::remark;
use crate::ui::printable::printable;
use fairshare_client::{Flux, FluxError};
use fairshare_engine::engine::answers::Overruled;

/// Which instance.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InstanceArg {
    /// The Flux instance; otherwise the enclosing or the system's
    #[arg(long, value_name = "URI")]
    pub(crate) uri: Option<String>,
}

impl InstanceArg {
    /// Connects to it.
    pub(crate) fn connect(&self) -> Result<Flux, Failure> {
        Flux::connect(self.uri.as_deref()).map_err(failure)
    }
}

/// What is said in place of an answer that a plugin without data can't give.
pub(crate) const NO_DATA: &str = "the plugin has no data: nothing was pushed since it was loaded, and all jobs wait; \
                                  \"flux fairshare push\", by the owner of the instance, sends the data";

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// What was asked for is not there, or not for him who asks; the plugin's words.
    No(String),
    /// Anything else.
    Failed(Failure),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::No(text) => Failure::Message(text),
            Refusal::Failed(failure) => failure,
        }
    }
}

/// Calls a method of the plugin.
pub(crate) fn ask<T: DeserializeOwned>(flux: &Flux, method: &str, payload: &Value) -> Result<T, Refusal> {
    let topic = format!("job-manager.mf_priority.{method}");
    match flux.rpc(&topic, &payload.to_string()) {
        Ok(answer) => serde_json::from_str(warned(flux, answer.as_deref().unwrap_or_default())).map_err(|error| {
            let text = format!(
                "the plugin's answer to \"{method}\" is not understood ({error}): is it of another version?"
            );
            Refusal::Failed(Failure::Message(text))
        }),
        Err(FluxError::Request { errno: libc::ENOSYS, .. }) => {
            Err(Refusal::Failed(Failure::Message(missing(flux, method))))
        }
        Err(FluxError::Request { errno: libc::ENOENT | libc::EPERM | libc::EACCES, text, .. }) => {
            Err(Refusal::No(printable(&text).into_owned()))
        }
        Err(error) => Err(Refusal::Failed(failure(error))),
    }
}

/// Warns once if another priority plugin decides, which makes the priorities in any answer those that Flux does not use.
fn warned<'a>(flux: &Flux, answer: &'a str) -> &'a str {
    #[derive(Deserialize)]
    struct Heading {
        overruled: Option<Overruled>,
    }
    static WARNED: Once = Once::new();
    // A long answer is read once if no other plugin decides.
    if !answer.contains("\"overruled\":{") {
        return answer;
    }
    if let Ok(Heading { overruled: Some(overruled) }) = serde_json::from_str(answer) {
        WARNED.call_once(|| {
            let text = overruled.sentence(&flux.format_job_id(overruled.job.0));
            remark(format_args!(
                "warning: {text}; \"flux jobtap list\", by the owner of the instance, names the plugins"
            ));
        });
    }
    answer
}

/// Why nobody answers, and what to do.
fn missing(flux: &Flux, method: &str) -> String {
    if is_loaded(flux) {
        return format!(
            "the priority plugin of this instance does not answer \"{method}\": it is flux-accounting's, or an older one. The \
             instance's owner can load this version's: \"{}\"",
            load_command(Some("mf_priority.so"))
        );
    }
    if let Some(text) = in_a_job(flux) {
        return text;
    }
    let load = load_command(None);
    format!("no fair-share plugin is loaded in this instance: its owner can load it with \"{load}\"")
}

/// What a person is told who asks within `flux batch` or `flux alloc`: a job's own instance has no priorities of the site. `None` in
/// an instance that no other one started.
pub(crate) fn in_a_job(flux: &Flux) -> Option<String> {
    let level: u32 = flux.attribute("instance-level").ok()?.parse().ok().filter(|level| *level > 0)?;
    let job = flux.attribute("jobid").map_or(String::new(), |job| format!(", that of job {job}"));
    let parents = " --parent".repeat(usize::try_from(level).unwrap_or(1));
    Some(format!(
        "this is a Flux instance at level {level}{job}, where no fair-share plugin is loaded; \"flux{parents} fairshare ...\" asks \
         the instance of the site"
    ))
}

/// Whether any plugin of that name is loaded. Guests may not see the list of plugins; to them a method that is the owner's
/// alone tells it, by refusing them.
fn is_loaded(flux: &Flux) -> bool {
    #[derive(Deserialize)]
    struct Plugins {
        plugins: Vec<String>,
    }
    match flux.rpc("job-manager.jobtap", r#"{"query_only": true}"#) {
        Ok(answer) => serde_json::from_str::<Plugins>(&answer.unwrap_or_default())
            .is_ok_and(|list| list.plugins.iter().any(|name| name.starts_with("mf_priority"))),
        Err(FluxError::Request { errno: libc::EPERM, .. }) => {
            let answer = flux.rpc("job-manager.mf_priority.rec_update", "{}");
            matches!(answer, Err(FluxError::Request { errno: libc::EPERM, .. }))
        }
        Err(_) => false,
    }
}

/// The configuration that Flux has read, as far as it matters here.
#[derive(Default, Deserialize)]
struct Configuration {
    #[serde(default)]
    queues: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    fairshare: Fairshare,
}

#[derive(Default, Deserialize)]
struct Fairshare {
    #[serde(default)]
    limits: Vec<serde_json::Map<String, Value>>,
}

/// Returns the configuration that Flux has read; an empty one if Flux does not answer.
fn configuration(flux: &Flux) -> Configuration {
    let answer = flux.rpc("config.get", "{}").ok().flatten().unwrap_or_default();
    serde_json::from_str(&answer).unwrap_or_default()
}

/// The named queues of Flux's configuration; empty if there are none, or if Flux does not say.
pub(crate) fn queues(flux: &Flux) -> BTreeSet<String> {
    configuration(flux).queues.into_keys().collect()
}

/// The tables `[[fairshare.limits]]` of Flux's configuration; empty if there are none, or if Flux does not answer.
pub(crate) fn limits(flux: &Flux) -> Vec<serde_json::Map<String, Value>> {
    configuration(flux).fairshare.limits
}
