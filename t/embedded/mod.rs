// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that the embedded job manager follows the rules of Flux. A C plugin (the probe) performs the steps of a script.

use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::sync::OnceLock;

use fairshare_embedded::{Cred, Host, Options, Shape, State, Submission};
use serde_json::{Value, json};

mod life;
mod reload;
mod rules;
mod walk;

/// Compiles the probe plugin at the first call. Returns the path of its .so.
pub fn probe() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../t/data/probe.c");
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("probe.so");
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wall", "-Werror", "-O1", "-o"])
            .arg(&target)
            .arg(source)
            .status();
        assert!(status.expect("cc runs").success(), "probe.c does not compile");
        target
    })
    .clone()
}

/// An embedded job manager for the probe plugin.
pub struct Bench {
    pub host: Rc<Host>,
}

impl Bench {
    /// Returns a host with the probe, which performs the steps that `script` lists for each topic.
    pub fn new(script: Value) -> Bench {
        let bench = Bench::empty();
        bench.host.load(&probe(), Some(&json!({"script": script}))).expect("the probe loads");
        bench
    }

    /// Returns a host without a plugin.
    pub fn empty() -> Bench {
        let options = Options { nodes: 2, cores: 4, priority_default: false, ..Options::default() };
        Bench { host: Host::new(options).expect("the C side is linked in") }
    }

    pub fn submit(&self, cores: u64) -> u64 {
        self.host.submit(&job(cores)).expect("accepted")
    }

    /// Makes the test plugin perform a step while no callback runs.
    pub fn perform_step(&self, step: Value) -> Result<Option<String>, fairshare_embedded::RequestError> {
        self.host.request("job-manager.probe.do", Some(&json!({"step": step}).to_string()), Cred::owner(1000))
    }

    /// Removes and returns the log lines of the probe.
    pub fn take_log(&self) -> Vec<String> {
        let lines = self.host.take_log().into_iter().filter(|line| line.level == 6);
        lines.map(|line| line.text).collect()
    }

    /// Removes the log lines of the probe, and returns the callbacks in these lines, each as "topic state".
    pub fn take_logged_topics(&self) -> Vec<String> {
        let is_callback = |line: &String| line.starts_with("job.");
        let shorten = |line: String| {
            let words: Vec<&str> = line.split(' ').collect();
            format!("{} {}", words[0].trim_start_matches("job."), words[2])
        };
        self.take_log().into_iter().filter(is_callback).map(shorten).collect()
    }

    pub fn state(&self, id: u64) -> State {
        self.host.state(id).expect("the job is known")
    }
}

/// Returns a job that runs until the test ends it.
pub fn job(cores: u64) -> Submission {
    Submission::simple(5001, &Shape { cores, ..Shape::default() })
}

pub const PRIORITY: &str = "job.state.priority";
