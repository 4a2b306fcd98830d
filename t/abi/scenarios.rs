// SPDX-License-Identifier: LGPL-3.0-only
//! The scenarios of t/t0900-embedded-drift.t without a comparison with Flux. At the end of each scenario, all jobs must be inactive and all
//! counters must be 0.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{PluginCopy, plugin};

#[test]
fn every_scenario_file_runs_to_its_last_step() {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/data/scenarios");
    let so = PluginCopy::new(plugin());
    let mut played = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let scenario = entry.unwrap().path();
        let output = Command::new(env!("CARGO_BIN_EXE_fairshare-embedded"))
            .args(["run", "--plugin"])
            .args([so.path(), scenario.clone()])
            .output()
            .unwrap();
        let shown = format!("{}: {}", scenario.display(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{shown}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for answer in lines.iter().filter_map(|line| line["answers"][0].as_str()) {
            assert!(!answer.starts_with("unknown step"), "{shown}{answer}");
        }
        let last = lines.last().unwrap();
        for (job, state) in last["states"].as_object().unwrap() {
            assert_eq!(state, "INACTIVE", "{shown}{job}");
        }
        let users = last["query"]["mf_priority_map"].as_array().unwrap();
        for bank in users.iter().flat_map(|user| user["banks"].as_array().unwrap()) {
            for key in ["cur_active_jobs", "cur_run_jobs", "cur_sched_jobs", "cur_nodes", "cur_cores"] {
                assert_eq!(bank[key], 0, "{shown}{bank}");
            }
        }
        played += 1;
    }
    assert!(played >= 5);
}
