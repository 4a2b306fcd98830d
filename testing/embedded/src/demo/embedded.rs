// SPDX-License-Identifier: LGPL-3.0-only
//! Runs the demo in the embedded job manager.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::host::{Active, CommandArgs, DemoHost, Stage, run_and_answer};
use super::site::{DemoJob, Site};
use fairshare_embedded::{Cred, Options, State, Submission};

const OWNER: u32 = 1000;

/// The embedded job manager with the plugin loaded.
pub(super) struct Embedded {
    host: Rc<fairshare_embedded::Host>,
    basename: String,
}

impl Embedded {
    /// Starts the job manager with the nodes and queues of the site, and loads the plugin.
    pub(super) fn start(site: &Site, plugin: &Path) -> Result<Embedded, String> {
        let host = fairshare_embedded::Host::new(Options {
            nodes: site.cluster.nodes,
            cores: site.cluster.cores_per_node,
            owner: OWNER,
            priority_default: false,
            trace: false,
            queues: site.queue_names(),
            // The plugin reads the time of the last push from the clock of the machine.
            start: SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO),
            ..fairshare_embedded::Options::default()
        })?;
        host.load(plugin, None)?;
        let basename = plugin.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Embedded { host, basename })
    }
}

fn convert_state_to_stage(state: State) -> Option<Stage> {
    match state {
        State::New | State::Priority | State::Cleanup => Some(Stage::Moving),
        State::Depend => Some(Stage::Held),
        State::Sched => Some(Stage::Pending),
        State::Run => Some(Stage::Running),
        State::Inactive => None,
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

    fn query(&self) -> Result<Value, String> {
        self.host.query(&self.basename)
    }

    fn submit(&self, userid: u32, job: &DemoJob, jobspec: &Value) -> Result<Result<u64, String>, String> {
        let submission = Submission { userid, urgency: job.urgency, jobspec: jobspec.clone() };
        Ok(self.host.submit(&submission))
    }

    fn jobs(&self) -> Result<Vec<Active>, String> {
        let mut jobs = Vec::new();
        for id in self.host.jobs() {
            let read = |job: &fairshare_embedded::Job| {
                let stage = convert_state_to_stage(job.state())?;
                let values = (i64::from(job.urgency), job.priority);
                Some(Active::new((job.id, job.userid), values, stage, &job.jobspec))
            };
            match self.host.job(id, read).flatten() {
                None => {}
                Some(job) => jobs.push(job.ok_or_else(|| format!("job {id} has no bank in its jobspec"))?),
            }
        }
        Ok(jobs)
    }

    fn finish(&self, job: &Active) -> Result<(), String> {
        self.host.finish(job.id);
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
