// SPDX-License-Identifier: LGPL-3.0-only
//! Repeated loads and removals of the plugin leave no memory mapped or allocated, and no data.

use fairshare_embedded::Submission;
use serde_json::{Value, json};

use super::{OWNER, SO, Site, document, job, plugin};

/// Returns whether this copy of the .so is mapped into this process.
fn is_plugin_mapped(site: &Site) -> bool {
    let path = site.so.path();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains(&*path.to_string_lossy())
}

/// Checks that the removed plugin has left no mapping, value, timer or service.
fn assert_plugin_is_gone(site: &Site) {
    assert!(!is_plugin_mapped(site), "the .so is still mapped");
    let host = &site.host;
    assert_eq!((host.plugin_aux_count(), host.live_watchers()), (0, 0));
    let error = host.request(&super::topic("check"), None, OWNER).unwrap_err();
    assert_eq!(error.errno.0, 38, "the service is still there");
    assert_eq!(host.violations(), Vec::<String>::new());
}

#[test]
fn a_thousand_loads_and_removals_leak_no_memory() {
    super::run_in_own_process("cycles::a_thousand_load_cycles_leak_no_memory");
}

#[test]
#[ignore = "run by its sibling, in a process of its own, and with CYCLES=10000 by t/run.sh --long"]
fn a_thousand_load_cycles_leak_no_memory() {
    let site = Site::empty(plugin());
    site.load(&document());
    // A running, a held and a scheduled job exist during all loads. The scheduled job has urgency 0: otherwise each load would post a memo for the
    // job, and the host would store all memos.
    let waiting = Submission { urgency: 0, ..job(5002, 1) };
    let ids = [site.submit(&job(5001, 4)), site.submit(&job(5001, 1)), site.submit(&waiting)];
    let states: Vec<_> = ids.iter().map(|&id| site.state(id)).collect();
    let before = site.query();
    let mut after_warm_up = 0;
    let cycles = std::env::var("CYCLES").ok().and_then(|count| count.parse().ok()).unwrap_or(1000);
    for cycle in 0..cycles {
        site.host.remove(SO).unwrap();
        if cycle % 100 == 0 {
            assert_plugin_is_gone(&site);
        }
        site.host.take_log();
        if cycle == 200 {
            after_warm_up = super::allocated_bytes();
        } else if cycle + 1 == cycles {
            // Even a leak of 24 bytes in each cycle would exceed this limit of 4 KiB.
            let grown = super::allocated_bytes().saturating_sub(after_warm_up);
            println!("{} cycles: {grown} bytes more", cycles - 201);
            assert!(grown < 4 * 1024, "{grown} bytes more after {} cycles", cycles - 201);
        }
        site.load(&document());
        if cycle % 10 == 0 {
            site.host.settle();
            let mut now = site.query();
            now["generation"] = before["generation"].clone();
            assert_eq!(now, before, "cycle {cycle}");
        }
    }
    site.check();
    assert_eq!(ids.iter().map(|&id| site.state(id)).collect::<Vec<_>>(), states);
    site.host.remove(SO).unwrap();
    assert_plugin_is_gone(&site);
}

#[test]
fn removing_the_plugin_stops_its_timers_and_reads() {
    let site = Site::new();
    site.submit(&job(5001, 4));
    site.submit(&job(5001, 1));
    site.host.remove(SO).unwrap();
    site.load(&document());
    // The timer for the next turn of the reactor is due but has not fired.
    assert!(site.host.live_watchers() > 0);
    site.host.remove(SO).unwrap();
    assert_plugin_is_gone(&site);
    site.host.settle();
}

#[test]
fn a_load_that_fails_leaves_no_data() {
    for bad in [
        json!({"associations": 5}),
        json!({"config": {"deny_unknown_queues": 1}}),
        json!({"associations": [{"userid": 1}]}),
        json!({"queues": {}}),
        json!({"priority_factors": [{"factor": "fairshare", "weight": "x"}]}),
        json!([]),
        json!("text"),
        Value::Null,
        json!(7),
    ] {
        let site = Site::empty(plugin());
        let error = site.host.load(&site.so.path(), Some(&json!({"config": bad})));
        let logged = site.errors();
        let text = "error initializing plugin with JSON object: ";
        let line = logged.iter().find(|line| line.contains(text) && !line.contains("Success"));
        let line = line.unwrap_or_else(|| panic!("{bad}: {logged:?}"));
        assert_eq!(error.as_ref(), Err(line), "the client gets the text of the log");
        assert_plugin_is_gone(&site);
        site.load(&document());
        site.check();
    }
}

#[test]
fn load_time_data_are_not_written_to_the_kvs() {
    let site = Site::new();
    site.host.settle();
    site.host.remove(SO).unwrap();
    site.host.load(&site.so.path(), None).unwrap();
    site.host.settle();
    assert!(site.host.kvs().is_empty());
    let query = site.query();
    assert_eq!([&query["mf_priority_map"], &query["projects"]], [&json!([]), &json!([])]);
    assert_eq!(query["queues"], json!({}));
}

#[test]
fn the_plugin_library_exports_only_its_entry_point() {
    let output = std::process::Command::new("nm").args(["-D", "--defined-only"]).arg(plugin()).output();
    let text = String::from_utf8(output.expect("nm comes with gcc").stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["flux_plugin_init"]);
    let bytes = std::fs::read(plugin()).unwrap();
    for word in ["sqlite3_open", "SQLITE_", "clap_builder", "embedded_set_host"] {
        assert!(!bytes.windows(word.len()).any(|window| window == word.as_bytes()), "{word}");
    }
}
