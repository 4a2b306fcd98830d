// SPDX-License-Identifier: LGPL-3.0-only
//! Measures a push: its allocations, the memory that it leaves allocated, and its processor time. The
//! measurements of processor time are run by hand.
//! Rules: D12

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fairshare_engine::accounts::{Association, AssociationRecord, SiteRecords};
use fairshare_engine::engine::{Engine, Event};
use fairshare_engine::ids::{Limit, UserId};
use fairshare_engine::standing::SitePart;
use serde_json::{Value, json};

use super::push::split_document;
use super::{OWNER, SO, Site, association, document, job, plugin, topic};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all memory comes from the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the processor time of this thread, which does not depend on other processes.
pub(super) fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) fills the structure.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The processor time of each request of a push, in seconds.
struct PushTimes {
    begin: f64,
    parts: Vec<f64>,
    commit: f64,
}

/// Pushes a document in parts of `size` associations, and returns the times.
fn measure_push(site: &Site, document: &Value, size: usize) -> PushTimes {
    let call = |method: &str, payload: &Value| {
        let payload = payload.to_string();
        let start = now();
        let answer = site.host.request_now(&topic(method), Some(&payload), OWNER).unwrap();
        (now() - start, answer)
    };
    let (begin, begun) = call("policy_begin", &json!({}));
    let push = serde_json::from_str::<Value>(&begun.unwrap()).unwrap()["push"].clone();
    let parts = split_document(document, size).into_iter().map(|mut part| {
        part["push"] = push.clone();
        call("policy_part", &part).0
    });
    let parts = parts.collect();
    let (commit, _) = call("policy_commit", &json!({ "push": push }));
    PushTimes { begin, parts, commit }
}

/// Returns a document with `count` associations.
fn make_large_document(count: u32, fairshare: f64) -> Value {
    let mut document = document();
    let record = |n| association(10_000 + n, "A", json!({"fairshare": fairshare, "queues": "q"}));
    document["associations"] = (0..count).map(record).collect();
    document
}

fn record(user: u32, fairshare: f64) -> AssociationRecord {
    let unlimited = Limit(2_147_483_647);
    let association = Association {
        user: UserId(user),
        bank: "A".into(),
        max_running_jobs: unlimited,
        max_active_jobs: unlimited,
        max_sched_jobs: unlimited,
        max_nodes: unlimited,
        max_cores: unlimited,
        queues: ["q"].map(Into::into).into(),
        projects: ["*"].map(Into::into).into(),
        def_project: Some("*".into()),
        active: true,
    };
    AssociationRecord { association, fairshare, def_bank: "A".into() }
}

/// Pushes to an engine with `count` associations. Returns the largest number of allocations for a part with
/// 500 records, and the number of allocations for the commit.
fn count_allocations(count: u32) -> [u64; 2] {
    let mut engine = Engine::new(UserId(1));
    let records = |users: std::ops::Range<u32>, fairshare| users.map(|n| record(n, fairshare)).collect();
    engine.handle(1.0, Event::Associations(records(0..count, 0.5)));
    let mut last = [0; 2];
    // The first push allocates the memory for staged records, which the second push uses again.
    for fairshare in [0.25, 0.125] {
        let mut counted = |event: Event<'_>| {
            let before = ALLOCATIONS.get();
            drop(engine.handle(1.0, event));
            ALLOCATIONS.get() - before
        };
        counted(Event::PolicyBegin { keeps_config: false });
        let parts = (0..count).step_by(500).map(|first| {
            let associations = records(first..first + 500, fairshare);
            let part = SiteRecords { associations, ..SiteRecords::default() };
            counted(Event::PolicyPart(part, SitePart::default()))
        });
        last[0] = parts.max().unwrap();
        last[1] = counted(Event::PolicyCommit);
        assert_eq!(engine.view().last_difference().changed, count as usize);
    }
    last
}

#[test]
fn the_allocations_for_a_part_of_a_push_depend_only_on_its_records() {
    let [few, many] = [1_000, 50_000].map(count_allocations);
    assert_eq!(
        few, many,
        "the allocations of a part and of the commit must not depend on the number of associations"
    );
    assert!(few[0] <= 500 * 4, "{} for 500 records", few[0]);
    assert!(few[1] <= 16, "{} for the commit", few[1]);
}

#[test]
fn an_abandoned_push_frees_its_memory_without_a_further_request() {
    super::run_in_own_process("push_cost::an_abandoned_push_leaves_the_memory_use_unchanged");
}

#[test]
#[ignore = "run by its sibling, in a process of its own"]
fn an_abandoned_push_leaves_the_memory_use_unchanged() {
    let mut site_document = make_large_document(20_000, 0.5);
    for (n, record) in site_document["associations"].as_array_mut().unwrap().iter_mut().enumerate() {
        let leaf = json!({"username": format!("u{n}"), "shares": 1, "usage": n, "counted_until": 1.0});
        record.as_object_mut().unwrap().extend(leaf.as_object().unwrap().clone());
    }
    let bank = |name: &str, parent: &str| json!({"bank": name, "priority": 0, "parent": parent, "shares": 1, "active": 1});
    site_document["banks"] = json!([bank("root", ""), bank("A", "root")]);
    site_document["tree"] = json!({
        "policy": "fair-tree", "at": 1.0, "half_life": 604_800, "node_weight": 1, "core_weight": 0, "gpu_weight": 0,
    });
    let site = Site::empty(plugin());
    site.load(&json!({}));
    let all = split_document(&site_document, 500);
    let begin = |expires: u32| site.ask("policy_begin", &json!({ "expires": expires }))["push"].clone();
    let send = |push: &Value| {
        for part in &all {
            let mut part = part.clone();
            part["push"] = push.clone();
            site.ask("policy_part", &part);
        }
    };
    // After two pushes, the memory for staged records is allocated.
    for _ in 0..2 {
        let push = begin(60);
        send(&push);
        site.ask("policy_commit", &json!({ "push": push }));
        site.host.advance(61.0);
    }
    let now = || {
        site.host.take_log();
        site.host.take_recorded_events();
        super::allocated_bytes()
    };
    let before = now();
    send(&begin(60));
    let taken = now().saturating_sub(before);
    site.host.advance(61.0);
    let left = now().saturating_sub(before);
    println!("{taken} bytes of an open push of 20,000 associations, {left} after it expired");
    assert!(taken > 2 << 20, "{taken} bytes");
    assert!(left < 64 << 10, "{left} of {taken} bytes");
}

/// Run this test by hand, and set PLUGIN_UNDER_TEST to a release build: `cargo test --release --test abi -- --ignored
/// --nocapture longest_call`.
#[test]
#[ignore = "a measurement"]
fn longest_call() {
    let count = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let site = Site::without_pushed_data();
    let call = |method: &str, payload: &Value| {
        let payload = payload.to_string();
        let start = now();
        let answer = site.host.request_now(&topic(method), Some(&payload), OWNER).unwrap();
        ((now() - start) * 1e3, answer)
    };
    for (what, fairshare) in [("new", 0.1), ("each changed", 0.2)] {
        let payload = json!({"data": make_large_document(count, fairshare)["associations"]});
        println!("rec_update, {what}: {:.1} ms", call("rec_update", &payload).0);
        println!(
            "policy_update, {what}: {:.1} ms",
            call("policy_update", &make_large_document(count, fairshare + 1.0)).0
        );
        if !site.host.request_now(&topic("policy_begin"), None, OWNER).is_ok_and(|answer| answer.is_some()) {
            continue;
        }
        for size in [500, 1000] {
            let PushTimes { begin, parts, commit } =
                measure_push(&site, &make_large_document(count, fairshare + 2.0 + size as f64), size);
            let longest = parts.iter().copied().fold(0.0, f64::max);
            let mean = parts.iter().sum::<f64>() / parts.len() as f64;
            println!(
                "parts of {size}, {what}: begin {:.3} ms, part at most {:.2} (mean {:.2}), commit {:.3} ms",
                begin * 1e3,
                longest * 1e3,
                mean * 1e3,
                commit * 1e3
            );
        }
        let mut after = Value::Null;
        let mut longest = 0.0f64;
        loop {
            let (time, answer) = call("associations", &json!({"after": after, "limit": 1000}));
            longest = longest.max(time);
            let page: Value = serde_json::from_str(&answer.unwrap()).unwrap();
            after = page["next"].clone();
            if after.is_null() {
                break;
            }
        }
        println!("a page of 1000: at most {longest:.2} ms");
    }
    let start = now();
    site.submit(&job(10_000 + count - 1, 1));
    println!("the first job, of the last association: {:.2} ms", (now() - start) * 1e3);
    let start = now();
    site.host.query(SO).unwrap();
    println!("the query as one document: {:.0} ms, the host's own reading included", (now() - start) * 1e3);
}

/// `t/run.sh --long` runs this test. To run it by hand, set PLUGIN_UNDER_TEST to a release build: `cargo test --release
/// --test abi -- --ignored --nocapture a_million`.
#[test]
#[ignore = "takes gigabytes, and a minute"]
fn a_million_associations_are_pushed_in_short_calls() {
    const SIZE: u32 = 1000;
    let count = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000u32);
    let site = Site::empty(plugin());
    site.load(&json!({}));
    let longest = [const { Cell::new(0.0f64) }; 4];
    let call = |kind: usize, method: &str, payload: &str| {
        let start = now();
        let answer = site.host.request_now(&topic(method), Some(payload), OWNER).unwrap();
        longest[kind].set(longest[kind].get().max((now() - start) * 1e3));
        answer.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    };
    let before = super::allocated_bytes();
    let bank = |name: String, parent: &str| json!({"bank": name, "priority": 0, "parent": parent, "shares": 1, "active": 1});
    let mut banks = vec![bank("root".into(), "")];
    banks.extend((0..1000).map(|n| bank(format!("B{n}"), "root")));
    let mut first = document();
    first["associations"] = json!([]);
    first["tree"] = json!({
        "policy": "fair-tree", "at": 1.0, "half_life": 604_800, "node_weight": 1, "core_weight": 0, "gpu_weight": 0,
    });
    for fairshare in [0.25, 0.5] {
        let push = call(0, "policy_begin", "{}")["push"].clone();
        let mut head = first.clone();
        head["push"] = push.clone();
        for some in banks.chunks(500) {
            head["banks"] = json!(some);
            call(1, "policy_part", &head.to_string());
            head = json!({ "push": push });
        }
        // The payload is built from texts, because building a million JSON values would take longer than the push.
        let sample = association(
            7_777_777,
            "BANK",
            json!({
                "def_bank": "BANK", "fairshare": fairshare, "queues": "q", "username": "NAME", "shares": 3, "usage": 8_888_888,
                "counted_until": 1.0,
            }),
        );
        let sample = sample.to_string();
        for at in (0..count).step_by(SIZE as usize) {
            let record = |n: u32| {
                let record = sample.replace("7777777", &(10_000 + n).to_string());
                let record =
                    record.replace("BANK", &format!("B{}", n % 1000)).replace("NAME", &format!("u{n}"));
                record.replace("8888888", &(f64::from(n % 977) * fairshare).to_string())
            };
            let records: Vec<String> = (at..count.min(at + SIZE)).map(record).collect();
            call(1, "policy_part", &format!("{{\"push\":{push},\"associations\":[{}]}}", records.join(",")));
        }
        let open = super::allocated_bytes() - before;
        let answer = call(2, "policy_commit", &json!({ "push": push }).to_string());
        // After the commit, timers continue the work of the plugin. Each round advances the virtual time by 50 ms, and
        // `longest` keeps the processor time of the longest round.
        for _ in 0..100 {
            let start = now();
            site.host.advance(0.05);
            longest[3].set(longest[3].get().max((now() - start) * 1e3));
        }
        site.host.take_log();
        site.host.take_recorded_events();
        let kept = super::allocated_bytes() - before;
        println!("{answer}");
        println!("{count} associations: {} MiB while the push is open, {} MiB after", open >> 20, kept >> 20);
        assert!(kept / (count as usize) < 2048, "{} bytes of each", kept / count as usize);
    }
    let [begin, part, commit, after] = longest.map(|longest| longest.get());
    println!(
        "longest, in ms of processor time: begin {begin:.2}, part {part:.2}, commit {commit:.2}, 50 ms after it {after:.2}"
    );
    let start = now();
    let id = site.submit(&job(10_000 + count - 1, 1));
    println!("a job of the last association: {:.2} ms", (now() - start) * 1e3);
    let check = site.check();
    assert_eq!([&check["associations"], &check["jobs"]], [&json!(count), &json!(1)], "{check}");
    site.finish(id);
}
