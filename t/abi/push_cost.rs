// SPDX-License-Identifier: LGPL-3.0-only
//! What a push costs the job manager: in one message, in parts, page by page. In processor time of this thread.

use serde_json::{Value, json};

use super::push::parts;
use super::{OWNER, SO, Site, association, document, job, topic};

/// Processor time of this thread: what a call costs, whoever else wants the processor.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) fills the structure.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds that each request of a push takes, alone.
struct Timed {
    begin: f64,
    parts: Vec<f64>,
    commit: f64,
}

fn timed(site: &Site, document: &Value, size: usize) -> Timed {
    let call = |method: &str, payload: &Value| {
        let payload = payload.to_string();
        let start = now();
        let answer = site.host.request_now(&topic(method), Some(&payload), OWNER).unwrap();
        (now() - start, answer)
    };
    let (begin, begun) = call("policy_begin", &json!({}));
    let push = serde_json::from_str::<Value>(&begun.unwrap()).unwrap()["push"].clone();
    let parts = parts(document, size).into_iter().map(|mut part| {
        part["push"] = push.clone();
        call("policy_part", &part).0
    });
    let parts = parts.collect();
    let (commit, _) = call("policy_commit", &json!({ "push": push }));
    Timed { begin, parts, commit }
}

fn large(count: u32, fairshare: f64) -> Value {
    let mut document = document();
    let record = |n| association(10_000 + n, "A", json!({"fairshare": fairshare, "queues": "q"}));
    document["associations"] = (0..count).map(record).collect();
    document
}

/// No part of a push, nor its commit, costs a fraction worth mentioning of what the whole costs in one message.
#[test]
fn a_part_costs_what_its_records_cost() {
    const COUNT: u32 = 20_000;
    let site = Site::with(&large(COUNT, 0.5));
    let (mut whole, mut longest) = (f64::INFINITY, f64::INFINITY);
    for round in 0..3 {
        let payload = large(COUNT, f64::from(round)).to_string();
        let start = now();
        site.host.request_now(&topic("policy_update"), Some(&payload), OWNER).unwrap();
        whole = whole.min(now() - start);
        let timed = timed(&site, &large(COUNT, 10.0 + f64::from(round)), 500);
        longest = longest.min(timed.parts.iter().copied().fold(timed.begin.max(timed.commit), f64::max));
    }
    assert!(longest * 5.0 < whole, "the longest of a push in parts {longest} s, in one message {whole} s");
}

/// `cargo test --release --test abi -- --ignored --nocapture longest_call`, with PLUGIN_UNDER_TEST a release build.
#[test]
#[ignore = "a measurement"]
fn longest_call() {
    let count = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let site = Site::bare();
    let call = |method: &str, payload: &Value| {
        let payload = payload.to_string();
        let start = now();
        let answer = site.host.request_now(&topic(method), Some(&payload), OWNER).unwrap();
        ((now() - start) * 1e3, answer)
    };
    for (what, fairshare) in [("new", 0.1), ("each changed", 0.2)] {
        let payload = json!({"data": large(count, fairshare)["associations"]});
        println!("rec_update, {what}: {:.1} ms", call("rec_update", &payload).0);
        println!("policy_update, {what}: {:.1} ms", call("policy_update", &large(count, fairshare + 1.0)).0);
        if !site.host.request_now(&topic("policy_begin"), None, OWNER).is_ok_and(|answer| answer.is_some()) {
            continue;
        }
        for size in [500, 1000] {
            let Timed { begin, parts, commit } =
                timed(&site, &large(count, fairshare + 2.0 + size as f64), size);
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
