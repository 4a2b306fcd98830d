// SPDX-License-Identifier: LGPL-3.0-only
//! Allocations of jansson fail in the plugin or in its calls into Flux. The plugin must neither panic nor abort. After another push, all jobs
//! must run to their end, and no counter may stay above 0. Failures of Rust's allocator are not tested, because they abort the process.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fairshare_embedded::is_in_plugin;
use serde_json::{Value, json};

use super::play::{Play, full_document};
use super::{METHODS, OWNER, SO, Site, document, job};

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    // The plugin and this program use the same libjansson, so this function also affects the plugin.
    fn json_set_alloc_funcs(malloc: Malloc, free: Free);
}

static COUNT: AtomicU64 = AtomicU64::new(0);
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
static LAST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Acts as malloc, but fails for the allocations `FIRST` to `LAST` that are made for a plugin.
unsafe extern "C" fn malloc_or_fail(size: usize) -> *mut c_void {
    if is_in_plugin() {
        let number = COUNT.fetch_add(1, Relaxed);
        if (FIRST.load(Relaxed)..LAST.load(Relaxed)).contains(&number) {
            return std::ptr::null_mut();
        }
    }
    // SAFETY: malloc(3).
    unsafe { libc::malloc(size) }
}

/// Makes `times` allocations fail after `after` successful ones.
fn schedule_allocation_failures(after: u64, times: u64) {
    COUNT.store(0, Relaxed);
    FIRST.store(after, Relaxed);
    LAST.store(after.saturating_add(times), Relaxed);
}

/// Plays a history in which `times` allocations fail after `after` successful ones. Returns the number of allocations.
fn run_history_with_failed_allocations(after: u64, times: u64) -> u64 {
    let mut play = Play::new("memory");
    (play.is_trusting, play.refusable) = (true, times);
    schedule_allocation_failures(after, times);
    play.history();
    play.site.host.settle();
    let count = COUNT.load(Relaxed);
    schedule_allocation_failures(u64::MAX, 0);
    let log = &play.log;
    assert!(
        !log.iter().any(|line| line.contains("panic")),
        "{times} failures after {after} allocations: {log:#?}"
    );
    play.site.push(&full_document());
    play.site.host.advance(70.0);
    play.site.host.reprioritize_all();
    play.end();
    count
}

/// Runs the same job history many times, with one or five failing allocations in each run. The first failing allocation
/// is `STEP` allocations later than in the previous run (1499 by default).
#[test]
fn the_plugin_survives_a_failed_jansson_allocation_anywhere() {
    super::run_in_own_process("memory::job_histories_survive_failed_jansson_allocations");
}

#[test]
#[ignore = "run by its sibling, in a process of its own, and with STEP=97 by t/run.sh --long"]
fn job_histories_survive_failed_jansson_allocations() {
    super::faulty_plugin();
    // SAFETY: no jansson object exists yet, and both functions have the types that jansson requires.
    unsafe { json_set_alloc_funcs(malloc_or_fail, libc::free) };
    let step = std::env::var("STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(1499u64);
    let all = run_history_with_failed_allocations(u64::MAX, 0);
    let (mut after, mut histories) = (0, 0);
    while after < all {
        run_history_with_failed_allocations(after, if histories % 5 == 4 { 5 } else { 1 });
        after += step;
        histories += 1;
    }
    println!("{histories} histories, in each of which one or five of {all} allocations failed");
    assert!(all > 1000, "expected a history of more than 1,000 allocations, got {all}");
}

/// The name of an action, and the action.
type Act = (&'static str, fn(&Site));

fn ask(site: &Site, method: &str, payload: &Value) {
    if let Err(refused) = site.rpc(method, payload) {
        assert!(!refused.text.is_empty() && refused.errno.0 > 0, "{method}: {refused:?}");
    }
}

fn push_in_parts(site: &Site) {
    let begun = site.rpc("policy_begin", &json!({}));
    let Ok(Some(begun)) = begun else { return };
    let push = serde_json::from_str::<Value>(&begun).unwrap()["push"].clone();
    let mut part = document();
    part["push"] = push.clone();
    ask(site, "policy_part", &part);
    ask(site, "policy_commit", &json!({ "push": push }));
}

fn reload(site: &Site) {
    let _ = site.host.remove(SO);
    if site.host.load(&site.so.path(), Some(&json!({"config": document()}))).is_err() {
        schedule_allocation_failures(u64::MAX, 0);
        site.load(&document());
    }
}

const ACTS: [Act; 17] = [
    ("a job that runs", |site| drop(site.host.submit(&job(5002, 1)))),
    ("a job that is held", |site| {
        for _ in 0..3 {
            let _ = site.host.submit(&job(5001, 1));
        }
    }),
    ("a job ends", |site| site.host.jobs().into_iter().take(1).for_each(|id| site.finish(id))),
    ("an update", |site| {
        let id = site.host.jobs().into_iter().next_back().unwrap();
        let _ = site.host.update(id, &[("attributes.system.bank", json!("B"))], OWNER);
    }),
    ("a new urgency", |site| {
        site.host.jobs().into_iter().for_each(|id| drop(site.host.set_urgency(id, 20, OWNER)));
    }),
    ("the query", |site| drop(site.host.query(SO))),
    ("questions", |site| {
        let jobs = json!({"jobs": site.host.jobs()});
        ask(site, "explain", &jobs);
        ["standing", "jobs", "stats", "priorities", "tree", "associations", "check"]
            .into_iter()
            .for_each(|method| ask(site, method, &json!({})));
    }),
    ("rec_update", |site| ask(site, METHODS[0].1, &json!({"data": document()["associations"]}))),
    ("rec_q_update", |site| ask(site, METHODS[1].1, &json!({"data": document()["queues"]}))),
    ("rec_proj_update", |site| ask(site, METHODS[2].1, &json!({"data": document()["projects"]}))),
    ("rec_bank_update", |site| ask(site, METHODS[3].1, &json!({"data": document()["banks"]}))),
    ("rec_fac_update", |site| ask(site, METHODS[4].1, &json!({"data": document()["priority_factors"]}))),
    ("policy_update", |site| ask(site, "policy_update", &json!({"data": document()}))),
    ("a push in parts", push_in_parts),
    ("reprioritize", |site| ask(site, "reprioritize", &json!({}))),
    ("a configuration", |site| {
        drop(site.host.reload_config(&json!({"fairshare": {"refresh": 7, "annotate": true}})))
    }),
    ("a reload", reload),
];

#[test]
fn each_request_and_callback_survives_each_failed_jansson_allocation() {
    super::run_in_own_process("memory::each_action_survives_each_failed_allocation");
}

#[test]
#[ignore = "run by its sibling, in a process of its own"]
fn each_action_survives_each_failed_allocation() {
    // SAFETY: no jansson object exists yet, and both functions have the types that jansson requires.
    unsafe { json_set_alloc_funcs(malloc_or_fail, libc::free) };
    let site = Site::new();
    for (what, act) in ACTS {
        let mut after = 0;
        loop {
            // `act` must find running, pending and held jobs.
            let submitted = [job(5002, 1), job(5001, 1), job(5001, 1), job(5001, 1)]
                .map(|job| site.host.submit(&job).ok());
            assert!(
                submitted.iter().all(Option::is_some),
                "{what}, a failure after {after} allocations: {submitted:?}"
            );
            schedule_allocation_failures(after, 1);
            act(&site);
            site.host.settle();
            let is_over = COUNT.load(Relaxed) <= after;
            schedule_allocation_failures(u64::MAX, 0);
            let errors = site.errors();
            assert!(
                !errors.iter().any(|line| line.contains("panic")),
                "{what}, a failure after {after} allocations: {errors:#?}"
            );
            site.push(&document());
            site.host.reload_config(&json!({})).unwrap();
            site.host.advance(11.0);
            for id in site.host.jobs() {
                let _ = site.host.cancel(id, OWNER);
            }
            site.host.settle();
            let check = site.check();
            assert_eq!(check["jobs"], 0, "{what}, a failure after {after} allocations: {check}");
            if is_over {
                break;
            }
            // A query makes hundreds of equal allocations, so not all of them are tested.
            after += if after < 60 { 1 } else { 7 };
        }
        println!("{what}: each of its allocations failed, up to the {after}th");
    }
}
