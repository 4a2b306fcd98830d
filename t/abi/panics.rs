// SPDX-License-Identifier: LGPL-3.0-only
//! A panic in each callback, method, timer and eventlog read: that one call fails in the safe direction, the log
//! names the place, and the job manager lives on with counters that agree with a recount.
//!
//! What panics is named by the environment, so each case is a process of its own: this binary, with one test.

use std::process::Command;

use mf_priority::embedded::{Order, State};
use serde_json::json;

use super::{OWNER, SO, Site, document, faulty, job, topic};

const FAULT: &str = "MF_PRIORITY_FAULT";

const TOPICS: [&str; 13] = [
    "job.validate",
    "job.new",
    "job.state.depend",
    "job.state.priority",
    "job.priority.get",
    "job.state.sched",
    "job.state.run",
    "job.state.inactive",
    "job.destroy",
    "job.update",
    "job.update.attributes.system.queue",
    "job.update.attributes.system.bank",
    "plugin.query",
];

const METHODS: [&str; 9] = [
    "rec_update",
    "rec_q_update",
    "rec_proj_update",
    "rec_bank_update",
    "rec_fac_update",
    "rec_config_update",
    "policy_update",
    "reprioritize",
    "check",
];

/// Runs the ignored test below in a process where `what` panics.
fn in_a_process(what: &str) {
    faulty();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "abi::panics::one_fault", "--ignored", "--nocapture"])
        .env(FAULT, what)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{what}:\n{text}");
}

#[test]
fn in_each_callback() {
    TOPICS.iter().for_each(|topic| in_a_process(topic));
}

#[test]
fn in_each_method() {
    METHODS.iter().for_each(|method| in_a_process(method));
}

#[test]
fn in_timer_and_eventlog() {
    ["timer", "eventlog"].iter().for_each(|what| in_a_process(what));
}

#[test]
#[ignore = "run by its siblings, in a process where MF_PRIORITY_FAULT names what panics"]
fn one_fault() {
    let what = std::env::var(FAULT).expect("run by a sibling");
    let site = Site::empty(faulty());
    let refusals = provoke(&site, &what);
    let log = site.host.take_log();
    let said = |text: String| log.iter().any(|line| line.level == 3 && line.text.contains(&text));
    assert!(said("panic at src/".to_string()), "no place in {log:?}");
    assert!(said(format!("internal error in {what}")), "no topic in {log:?}");
    for text in &refusals {
        assert!(text.contains("internal error in mf_priority"), "{text}");
    }
    let text_expected = METHODS.contains(&what.as_str())
        || what == "job.validate"
        || what.starts_with("job.update.")
        || what == "plugin.query";
    assert_eq!(refusals.is_empty(), !text_expected, "{what}: {refusals:?}");

    // SAFETY: the one test of this process runs in this thread; the main thread waits for it.
    unsafe { std::env::remove_var(FAULT) };
    site.check();
    site.push(&document());
    let healthy = site.submit(&job(5002, 1));
    for id in site.host.jobs() {
        let _ = site.host.cancel(id, OWNER);
    }
    assert_eq!(site.state(healthy), State::Inactive);
    assert_eq!(site.check()["jobs"], 0, "nothing is left of the jobs");
    let counts = site.association(5001, "A");
    assert_eq!([&counts["cur_active_jobs"], &counts["cur_run_jobs"], &counts["cur_sched_jobs"]], [0, 0, 0]);
    site.host.remove(SO).unwrap();
    assert_eq!((site.host.live_watchers(), site.host.plugin_aux_count()), (0, 0));
    assert_eq!(site.host.violations(), Vec::<String>::new());
}

/// Everything a host does; the texts of what was refused.
fn provoke(site: &Site, what: &str) -> Vec<String> {
    let host = &site.host;
    let mut refusals = Vec::new();
    let mut note = |text: Option<String>| refusals.extend(text);
    site.load(&document());
    if METHODS.contains(&what) {
        let payload = json!({"data": []}).to_string();
        let refused = host.request(&topic(what), Some(&payload), OWNER).unwrap_err();
        assert_eq!(refused.errno.0, libc_eio());
        note(Some(refused.text));
        return refusals;
    }
    // One job runs, one is held, one is scheduled behind a full cluster.
    let ids: Vec<_> =
        [job(5001, 4), job(5001, 1), job(5002, 1), job(5002, 1)].iter().map(|job| host.submit(job)).collect();
    for result in &ids {
        note(result.as_ref().err().cloned());
    }
    let ids: Vec<u64> = ids.into_iter().flatten().collect();
    host.reprioritize_all();
    for (id, value) in ids.iter().skip(1).zip(["q", "r", "r"]) {
        for key in ["attributes.system.queue", "attributes.system.bank"] {
            let value = if key.ends_with("bank") { "B" } else { value };
            let refused = host.update(*id, &[(key, json!(value))], OWNER).err().map(|refused| refused.text);
            note(refused.filter(|text| text.contains("internal error")));
        }
    }
    if what == "plugin.query" {
        assert_eq!(host.query(SO), Err("plugin.query failed".to_string()));
        note(Some("internal error in mf_priority".to_string()));
    }
    // A reload reads eventlogs and works in a timer.
    host.restart(Order::Descending).unwrap();
    host.settle();
    if let Some(&first) = ids.first() {
        host.finish(first);
        host.settle();
    }
    refusals
}

fn libc_eio() -> i32 {
    5
}
