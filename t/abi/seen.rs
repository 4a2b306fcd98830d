// SPDX-License-Identifier: LGPL-3.0-only
//! The state of jobs in the host, for comparisons with the plugin.

use std::collections::BTreeMap;

use fairshare_embedded::{Job, State};
use serde_json::{Value, json};

fn sort_texts(list: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// The state of a job in the host.
#[derive(Debug)]
pub struct JobInHost {
    pub id: u64,
    pub user: u32,
    pub state: State,
    pub bank: String,
    /// The dependencies by which our limits hold the job.
    pub holds: Vec<String>,
    pub priorities: Vec<i64>,
    pub subscriptions: usize,
}

impl JobInHost {
    pub fn from_job(job: &Job) -> JobInHost {
        let mut holds: Vec<String> =
            job.dependencies.iter().filter(|name| !name.starts_with("after")).cloned().collect();
        holds.sort();
        let posted = job.eventlog.iter().filter(|entry| entry["name"] == "priority");
        JobInHost {
            id: job.id,
            user: job.userid,
            state: job.state(),
            bank: job.attribute("bank").unwrap_or("A").to_owned(),
            holds,
            subscriptions: job.subscribers.len(),
            priorities: posted.filter_map(|entry| entry["context"]["priority"].as_i64()).collect(),
        }
    }
}

/// Checks that the counters and held jobs of each association in the query equal those of the host's jobs. `text` explains a failure.
pub fn assert_counts(query: &Value, jobs: &[JobInHost], text: impl Fn() -> String) {
    for user in query["mf_priority_map"].as_array().unwrap() {
        for bank in user["banks"].as_array().unwrap() {
            let mine: Vec<&JobInHost> = jobs
                .iter()
                .filter(|job| json!(job.user) == user["userid"] && json!(job.bank) == bank["bank_name"])
                .collect();
            let count = |states: &[State]| mine.iter().filter(|job| states.contains(&job.state)).count();
            let active = mine.iter().filter(|job| job.state != State::Inactive).count();
            // A job that is held in SCHED does not count as scheduled.
            let held = bank["held_jobs"].as_object().unwrap();
            let is_held_there =
                |job: &&&JobInHost| job.state == State::Sched && held.contains_key(&job.id.to_string());
            let scheduled = count(&[State::Sched]) - mine.iter().filter(is_held_there).count();
            let want = [active, count(&[State::Run, State::Cleanup]), scheduled];
            let have = ["cur_active_jobs", "cur_run_jobs", "cur_sched_jobs"].map(|key| bank[key].clone());
            assert_eq!(have.to_vec(), want.map(|n| json!(n)).to_vec(), "{}", text());
            let want: BTreeMap<String, Vec<String>> = mine
                .iter()
                .filter(|job| job.state == State::Depend && !job.holds.is_empty())
                .map(|job| (job.id.to_string(), job.holds.clone()))
                .collect();
            // In the host, jobs in PRIORITY and SCHED have no dependencies.
            let is_here = |id: &&String| {
                let past = |job: &&JobInHost| matches!(job.state, State::Priority | State::Sched);
                !mine.iter().any(|job| job.id.to_string() == **id && past(job))
            };
            let have = bank["held_jobs"].as_object().unwrap().iter().filter(|(id, _)| is_here(id));
            let have: BTreeMap<String, Vec<String>> =
                have.map(|(id, held)| (id.clone(), sort_texts(&held["deps"]))).collect();
            assert_eq!(have, want, "names: {}", text());
        }
    }
}
