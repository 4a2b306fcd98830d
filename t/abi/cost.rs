// SPDX-License-Identifier: LGPL-3.0-only
//! Measures the heap per live job and per association, the time of a reprioritize that changes nothing, and
//! the time and peak memory of a query. The heap and the reprioritize are also measured for a plugin that
//! does nothing, and for flux-accounting's plugin (`UPSTREAM_PLUGIN`).
//! Run by hand: `cargo test --test abi -- --ignored --nocapture cost`, with PLUGIN_UNDER_TEST a release build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use super::{SO, Site, association, job_in, plugin};

const PLUGIN: &str = "MF_COST_OF";
const ASSOCIATIONS: u32 = 50_000;
const JOBS: usize = 100_000;
const REPRIORITIZED: usize = 10_000;

/// Compiles the plugin that does nothing, and returns its path.
fn compile_empty_plugin() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nothing.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../t/data/nothing.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).arg(&target).arg(source).status();
    assert!(built.expect("cc runs").success());
    target
}

/// Returns the number of bytes that all libraries of this process have allocated.
fn allocated_bytes() -> i64 {
    #[repr(C)]
    struct MallInfo {
        arena: usize,
        ordblks: usize,
        smblks: usize,
        hblks: usize,
        hblkhd: usize,
        usmblks: usize,
        fsmblks: usize,
        uordblks: usize,
        fordblks: usize,
        keepcost: usize,
    }
    unsafe extern "C" {
        fn mallinfo2() -> MallInfo;
    }
    // SAFETY: mallinfo2(3) has no arguments and reads no data of this program.
    let info = unsafe { mallinfo2() };
    (info.uordblks + info.hblkhd) as i64
}

#[test]
#[ignore = "a measurement"]
fn cost() {
    let mut plugins = vec![("nothing", compile_empty_plugin()), ("ours", plugin().to_path_buf())];
    plugins.extend(std::env::var_os("UPSTREAM_PLUGIN").map(|path| ("upstream", PathBuf::from(path))));
    for (name, path) in plugins {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "abi::cost::of_one", "--ignored", "--nocapture", "--test-threads=1"])
            .env(PLUGIN, &path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text.lines()
            .filter_map(|line| line.split_once("cost: "))
            .for_each(|(_, line)| println!("{name}: {line}"));
    }
}

#[test]
#[ignore = "run by its sibling, in a process of its own"]
fn of_one() {
    let path = PathBuf::from(std::env::var_os(PLUGIN).expect("run by a sibling"));
    let site = Site::empty(&path);
    site.host.load(&site.so.path(), None).unwrap();

    let records: Vec<_> = (0..ASSOCIATIONS)
        .map(|n| association(10_000 + n, "A", json!({"def_project": "", "queues": "q"})))
        .collect();
    let payload = json!({"data": records}).to_string();
    drop(records);
    let before = allocated_bytes();
    let start = Instant::now();
    site.host.request(&super::topic("rec_update"), Some(&payload), super::OWNER).unwrap();
    let per_association = (allocated_bytes() - before) / i64::from(ASSOCIATIONS);
    println!(
        "cost: rec_update of {ASSOCIATIONS}: {:.3} s, {per_association} bytes per association",
        start.elapsed().as_secs_f64()
    );
    drop(payload);

    let users = 1000;
    let submit = |count: usize| {
        let jobs: Vec<_> = (0..count)
            .map(|n| {
                // The job names its bank and no project, so no plugin updates its jobspec. So runs with
                // different plugins differ only in the memory of the plugin.
                job_in(10_000 + (n % users) as u32, "A", 4)
            })
            .collect();
        for result in site.host.submit_batch(&jobs) {
            result.unwrap();
        }
        site.host.settle();
    };
    submit(REPRIORITIZED);
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        site.host.request(&super::topic("reprioritize"), Some("{}"), super::OWNER).unwrap();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("cost: reprioritize of {REPRIORITIZED} unchanged jobs: {:.1} ms", best * 1e3);

    submit(JOBS - REPRIORITIZED);
    let jobs = allocated_bytes();
    let ids = site.host.jobs();
    assert_eq!(ids.len(), JOBS);
    // The printed number includes the memory of the embedded job manager. A run with a plugin that does nothing
    // measures this memory alone.
    println!("cost: {} bytes per job, host's own included", (jobs - before) / JOBS as i64);
    let start = allocated_bytes();
    site.host.remove(SO).unwrap();
    println!("cost: {} bytes freed by removal", start - allocated_bytes());
}

const QUERIED: u32 = 100_000;

/// Returns the value of a field of this process's status, in kilobytes.
fn read_status(field: &str) -> i64 {
    let read_status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = read_status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    value.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// Prints the best and the median time of seven queries, from the callback to the text that Flux sends, and the increase of the peak resident
/// memory.
#[test]
#[ignore = "a measurement"]
fn the_cost_of_a_query_is_printed() {
    let site = Site::empty(plugin());
    site.host.load(&site.so.path(), None).unwrap();
    let records: Vec<_> = (0..QUERIED).map(|n| association(10_000 + n, "A", json!({}))).collect();
    site.rpc("rec_update", &json!({"data": records})).unwrap();
    drop(records);
    let mut times = Vec::new();
    let (mut bytes, mut rise) = (0, 0);
    for _ in 0..7 {
        // SAFETY: malloc_trim(3) has no preconditions.
        unsafe { libc::malloc_trim(0) };
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = read_status("VmRSS");
        let start = super::push_cost::now();
        let text = site.host.query_text(SO).unwrap();
        times.push((super::push_cost::now() - start) * 1e3);
        rise = rise.max(read_status("VmHWM") - before);
        bytes = text.len();
    }
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    println!(
        "cost: query of {QUERIED}: best {best:.0} ms, median {median:.0} ms, {bytes} bytes, peak +{} MB",
        rise / 1024
    );
}
