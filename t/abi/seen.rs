// SPDX-License-Identifier: LGPL-3.0-only
//! A job as the host has it, to compare with what the plugin tells of it.

use mf_priority::embedded::{Job, State};
use serde_json::Value;

/// Names of a list, in order.
pub fn sorted(list: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// A job as the host has it.
#[derive(Debug)]
pub struct Seen {
    pub id: u64,
    pub user: u32,
    pub state: State,
    pub bank: String,
    /// Outstanding dependencies that are limits.
    pub ours: Vec<String>,
    pub prices: Vec<i64>,
}

impl Seen {
    pub fn of(job: &Job) -> Seen {
        let mut ours: Vec<String> =
            job.dependencies().iter().filter(|name| !name.starts_with("after")).cloned().collect();
        ours.sort();
        let prices = job.eventlog().iter().filter(|entry| entry["name"] == "priority");
        Seen {
            id: job.id,
            user: job.userid,
            state: job.state(),
            bank: job.attribute("bank").unwrap_or("A").to_owned(),
            ours,
            prices: prices.filter_map(|entry| entry["context"]["priority"].as_i64()).collect(),
        }
    }
}
