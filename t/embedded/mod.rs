// SPDX-License-Identifier: LGPL-3.0-only
//! Tests the embedded job manager against the rules of Flux, with a scriptable C plugin.

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

/// Returns the path of the compiled probe plugin.
pub fn probe() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../t/data/probe.c");
            let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("probe.so");
            let built = Command::new("cc")
                .args(["-shared", "-fPIC", "-Wall", "-Werror", "-O1", "-o"])
                .arg(&target)
                .arg(source)
                .status();
            assert!(built.expect("cc runs").success(), "probe.c does not compile");
            target
        })
        .clone()
}

/// A host for the probe plugin.
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

    /// Makes the probe perform a step outside of a callback.
    pub fn step(&self, step: Value) -> Result<Option<String>, fairshare_embedded::RequestError> {
        self.host.request("job-manager.probe.do", Some(&json!({"step": step}).to_string()), Cred::owner(1000))
    }

    /// Returns the log lines of the probe since the last call.
    pub fn log(&self) -> Vec<String> {
        let lines = self.host.take_log().into_iter().filter(|line| line.level == 6);
        lines.map(|line| line.text).collect()
    }

    /// Returns the callbacks since the last call of a log method, each as "topic state".
    pub fn topics(&self) -> Vec<String> {
        let callback = |line: &String| line.starts_with("job.");
        let short = |line: String| {
            let words: Vec<&str> = line.split(' ').collect();
            format!("{} {}", words[0].trim_start_matches("job."), words[2])
        };
        self.log().into_iter().filter(callback).map(short).collect()
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
