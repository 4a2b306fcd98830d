// SPDX-License-Identifier: LGPL-3.0-only
//! The real .so in the embedded job manager, which makes all calls that a broker can make through the C interface.
//!
//! `built::plugin` returns the .so. Some tests run in a process of their own. Such a process gets the paths
//! in `PLUGIN_UNDER_TEST` and `FAULTY_UNDER_TEST`, because a call of cargo would take longer than the test.
//! Each test loads its own copy of the .so, because the dynamic linker maps a file only once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use crate::built::plugin;
use crate::built::{PLUGIN, strip};
use fairshare_embedded::{Cred, Host, Options, RequestError, Shape, State, Submission};
use serde_json::{Value, json};

mod cost;
mod cycles;
mod damaged;
mod facts;
mod faults;
mod growth;
mod hostile;
mod interrupted;
mod memory;
mod nested;
mod odd_sites;
mod panics;
mod payloads;
mod play;
mod push;
mod push_cost;
mod random;
mod recalled;
mod remember;
mod replay;
mod rewritten;
mod roles;
mod scenarios;
mod seen;
mod strict;
mod why;

/// The file name of the .so, which is the name of the plugin in Flux.
pub const SO: &str = "mf_priority.so";
const UNLIMITED: i64 = 2_147_483_647;

const FAULTY: &str = "FAULTY_UNDER_TEST";
const FAULTY_SO: &str = "libmf_priority_testing.so";

/// Returns the plugin that panics in the place that `MF_PRIORITY_FAULT` names. Cargo builds it together with this test program.
fn faulty_plugin() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        std::env::var_os(FAULTY).map_or_else(
            || {
                let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(FAULTY_SO);
                strip(&find_built_faulty_plugin(), &copy)
            },
            PathBuf::from,
        )
    })
}

/// Returns the file that cargo built. It is beside this program, or newer versions of cargo put it into
/// `build/mf-priority-testing/HASH/out`, and this program into `build/fairshare-embedded/HASH/out`.
fn find_built_faulty_plugin() -> PathBuf {
    let beside = std::env::current_exe().unwrap().with_file_name(FAULTY_SO);
    if beside.exists() {
        return beside;
    }
    let builds = beside.ancestors().nth(4).unwrap().join("mf-priority-testing");
    let outputs = std::fs::read_dir(&builds).unwrap_or_else(|error| panic!("{}: {error}", builds.display()));
    let built =
        outputs.map(|entry| entry.unwrap().path().join("out").join(FAULTY_SO)).filter(|so| so.exists());
    built.max_by_key(|so| so.metadata().unwrap().modified().unwrap()).expect("cargo builds the faulty plugin")
}

/// Runs an ignored test in a process of its own, so that other tests allocate no memory there.
fn run_in_own_process(test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("abi::{test}"), "--ignored", "--nocapture"])
        .env(PLUGIN, plugin())
        // Disables malloc's thread caches, because malloc counts their free memory as allocated.
        .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Returns the number of bytes that this process has allocated, including mapped blocks.
fn allocated_bytes() -> usize {
    // SAFETY: mallinfo2(3) has no arguments and reads no data of this program.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

/// A copy of a .so under the name of the plugin. The copy is removed on drop.
pub struct PluginCopy {
    directory: PathBuf,
}

impl PluginCopy {
    pub fn new(so: &Path) -> PluginCopy {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("abi-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::copy(so, directory.join(SO)).unwrap();
        PluginCopy { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(SO)
    }
}

impl Drop for PluginCopy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// An embedded job manager, and its copy of the plugin file. The job manager must be dropped before the file,
/// because it has loaded the file.
pub struct Site {
    pub host: Rc<Host>,
    pub so: PluginCopy,
}

pub const OWNER: Cred = Cred { userid: 1000, rolemask: 1 };

impl Site {
    /// Returns a site with 4 nodes of 4 cores and without a plugin.
    pub fn empty(so: &Path) -> Site {
        Site::with_options(so, Options { priority_default: false, ..Options::default() })
    }

    fn with_options(so: &Path, options: Options) -> Site {
        Site { host: Host::new(options).expect("the C side is linked in"), so: PluginCopy::new(so) }
    }

    /// Returns a site with Flux's builtin priority plugin, which flux-accounting's guide leaves loaded, and without ours.
    pub fn with_priority_default() -> Site {
        Site::with_options(plugin(), Options::default())
    }

    /// Returns a site whose plugin is loaded without data.
    pub fn without_pushed_data() -> Site {
        let site = Site::empty(plugin());
        site.host.load(&site.so.path(), None).expect("the plugin loads");
        site
    }

    /// Returns a site whose plugin is loaded with [`document`].
    pub fn new() -> Site {
        Site::with(&document())
    }

    pub fn with(document: &Value) -> Site {
        let site = Site::empty(plugin());
        site.load(document);
        site
    }

    pub fn load(&self, document: &Value) {
        self.host.load(&self.so.path(), Some(&json!({"config": document}))).expect("the plugin loads");
    }

    pub fn rpc(&self, method: &str, payload: &Value) -> Result<Option<String>, RequestError> {
        self.host.request(&topic(method), Some(&payload.to_string()), OWNER)
    }

    /// Pushes a document by the methods of `flux account-priority-update`.
    pub fn push(&self, document: &Value) {
        for (key, method) in METHODS {
            if let Some(data) = document.get(key) {
                self.rpc(method, &json!({"data": data})).unwrap();
            }
        }
        self.rpc("reprioritize", &json!({})).unwrap();
    }

    pub fn query(&self) -> Value {
        let mut document = self.host.query(SO).expect("the query answers");
        // Path, time and sender of the data differ between two loads.
        let differing = ["path", "updated", "pushed_by"];
        document.as_object_mut().unwrap().retain(|key, _| !differing.contains(&key.as_str()));
        document
    }

    /// Checks that the plugin's recount finds no difference, and that the plugin broke no rule of the host. Returns the answer to "check".
    pub fn check(&self) -> Value {
        let answer = self.rpc("check", &json!({})).expect("check answers").expect("with a document");
        let check: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(check["drift"], json!([]), "{check}");
        assert_eq!(self.host.violations(), Vec::<String>::new());
        check
    }

    pub fn submit(&self, job: &Submission) -> u64 {
        self.host.submit(job).expect("the job is accepted")
    }

    pub fn state(&self, id: u64) -> State {
        self.host.state(id).expect("the job is known")
    }

    pub fn finish(&self, id: u64) {
        self.host.finish(id);
        self.host.settle();
    }

    /// Returns the texts of log lines of level error.
    pub fn errors(&self) -> Vec<String> {
        self.host.take_log().into_iter().filter(|line| line.level <= 3).map(|line| line.text).collect()
    }

    /// Returns the association of `userid` in `bank` from the answer to a query.
    pub fn association(&self, userid: u32, bank: &str) -> Value {
        let query = self.query();
        let users = query["mf_priority_map"].as_array().unwrap().clone();
        let banks = users.into_iter().find(|user| user["userid"] == userid).expect("the user is known");
        let found = banks["banks"].as_array().unwrap().iter().find(|b| b["bank_name"] == bank).cloned();
        found.expect("the bank is known")
    }
}

pub const METHODS: [(&str, &str); 6] = [
    ("associations", "rec_update"),
    ("queues", "rec_q_update"),
    ("projects", "rec_proj_update"),
    ("banks", "rec_bank_update"),
    ("priority_factors", "rec_fac_update"),
    ("config", "rec_config_update"),
];

pub fn topic(method: &str) -> String {
    format!("job-manager.mf_priority.{method}")
}

/// Returns an association without limits, overridden by `more`.
pub fn association(userid: u32, bank: &str, more: Value) -> Value {
    let mut record = json!({
        "userid": userid, "bank": bank, "def_bank": "A", "fairshare": 0.5, "max_running_jobs": UNLIMITED,
        "max_active_jobs": UNLIMITED, "max_sched_jobs": UNLIMITED, "max_nodes": UNLIMITED, "max_cores": UNLIMITED,
        "queues": "q,r", "active": 1, "projects": "*", "def_project": "*",
    });
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

/// Returns a queue without limits, overridden by `more`.
pub fn queue(name: &str, more: Value) -> Value {
    let mut record = json!({
        "queue": name, "min_nodes_per_job": 0, "max_nodes_per_job": UNLIMITED, "max_time_per_job": UNLIMITED,
        "priority": 1, "max_running_jobs": UNLIMITED, "max_nodes_per_assoc": UNLIMITED, "max_sched_jobs": UNLIMITED,
        "max_sched_nodes_per_assoc": UNLIMITED, "max_sched_cores_per_assoc": UNLIMITED,
    });
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

/// Returns a document with queues q and r and three users. User 5001 may have one running and two scheduled jobs. User 5002 is in banks A and
/// B without limits. User 5003 may use two nodes.
pub fn document() -> Value {
    json!({
        "associations": [
            association(5001, "A", json!({"max_running_jobs": 1, "max_sched_jobs": 2})),
            association(5002, "A", json!({})),
            association(5002, "B", json!({"fairshare": 0.25})),
            association(5003, "A", json!({"max_nodes": 2})),
        ],
        "queues": [queue("q", json!({})), queue("r", json!({"max_running_jobs": 1}))],
        "projects": [{"project": "*"}],
        "banks": [{"bank": "A", "priority": 0.0}, {"bank": "B", "priority": 1.0}],
        "priority_factors": [{"factor": "fairshare", "weight": 100_000}],
        "config": {},
    })
}

/// Returns a job in queue q on whole nodes, which runs until the test ends it.
pub fn job(userid: u32, nodes: u64) -> Submission {
    Submission::simple(userid, &Shape { nodes, cores: 4, attributes: &[("queue", "q")], ..Shape::default() })
}

/// Returns a [`job`] whose jobspec names `bank`.
pub fn job_in(userid: u32, bank: &str, nodes: u64) -> Submission {
    let attributes = [("queue", "q"), ("bank", bank)];
    Submission::simple(userid, &Shape { nodes, cores: 4, attributes: &attributes, ..Shape::default() })
}

/// Returns a job of user 5002 that depends on the end of job `id`.
pub fn make_dependent_job(id: u64) -> Submission {
    let mut after = job(5002, 1);
    after.jobspec["attributes"]["system"]["dependencies"] = json!([{"scheme": "afterany", "value": id}]);
    after
}
