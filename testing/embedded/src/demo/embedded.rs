// SPDX-License-Identifier: LGPL-3.0-only
//! Runs the demo in the embedded job manager.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::host::{CommandArgs, DemoHost, run_and_answer};
use super::site::{DemoJob, Site};
use fairshare_embedded::{Cred, Host, Options, Submission};

const OWNER: u32 = 1000;

/// The embedded job manager with the plugin loaded.
pub(super) struct Embedded {
    host: Rc<Host>,
}

impl Embedded {
    /// Starts the job manager with the nodes and queues of the site, and loads the plugin.
    pub(super) fn start(site: &Site, plugin: &Path) -> Result<Embedded, String> {
        let host = Host::new(Options {
            nodes: site.cluster.nodes,
            cores: site.cluster.cores_per_node,
            owner: OWNER,
            priority_default: false,
            queues: site.queue_names(),
            // The plugin reads the time of the last push from the clock of the machine.
            start: SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO),
            ..Options::default()
        })?;
        host.load(plugin, None)?;
        Ok(Embedded { host })
    }
}

impl DemoHost for Embedded {
    fn name(&self) -> String {
        "the embedded job manager (no Flux), in virtual time".to_owned()
    }

    fn now(&self) -> f64 {
        self.host.now()
    }

    fn request(&self, method: &str, payload: &Value) -> Result<Value, String> {
        let topic = format!("job-manager.mf_priority.{method}");
        let answer = self.host.request(&topic, Some(&payload.to_string()), Cred::owner(OWNER));
        let answer = answer.map_err(|refused| format!("{topic}: {}", refused.text))?;
        let text = answer.as_deref().unwrap_or("null");
        serde_json::from_str(text).map_err(|error| format!("{topic}: the response is not JSON: {error}"))
    }

    fn submit(&self, userid: u32, job: &DemoJob, jobspec: &Value) -> Result<Result<u64, String>, String> {
        let submission = Submission { userid, urgency: job.urgency(), jobspec: jobspec.clone() };
        Ok(self.host.submit(&submission))
    }

    fn finish(&self, id: u64, _userid: u32) -> Result<(), String> {
        self.host.finish(id);
        self.host.settle();
        Ok(())
    }

    fn run_command(&self, args: &CommandArgs, command: &mut Command) -> Result<String, String> {
        args.replace_library(command);
        run_and_answer(command, |topic, payload| {
            let answer = self.host.request(topic, Some(payload), Cred::owner(OWNER));
            answer.map_err(|refused| (refused.errno.0, refused.text))
        })
    }
}
