// SPDX-License-Identifier: LGPL-3.0-only
//! Calls all methods of the plugin as owner and as guest, with any payload. An input is a line `METHOD USERID ROLE` and the payload.

use std::ffi::CString;

use fairshare_embedded::Cred;
use mf_priority_testing::jobtap::Jobtap;
use mf_priority_testing::plugin::MfPriority;
use serde_json::{Value, json};

use super::drive::{Mutate, Rng, fuzz, hash_feature, strip_values};
use super::{SiteCache, assert_no_control_characters, check_log, configured_data, document_with_tree, json};
use crate::abi::{Site, document, job, topic};

const EPERM: i32 = 1;
/// The number of the first push of a site: the time at which the embedded job manager starts, in milliseconds.
const FIRST_PUSH: u64 = 1_700_000_000_000;
/// The methods that guests may call.
const GUEST_METHODS: [&str; 4] = ["explain", "standing", "jobs", "check_job"];

/// Returns valid payloads of a method.
fn list_payloads(method: &str) -> Vec<Value> {
    let all = document_with_tree();
    let data = |key: &str| vec![json!({"data": all[key]})];
    match method {
        "rec_update" => data("associations"),
        "rec_q_update" => data("queues"),
        "rec_proj_update" => data("projects"),
        "rec_bank_update" => data("banks"),
        "rec_fac_update" => data("priority_factors"),
        "rec_config_update" => vec![json!({"data": {"deny_unknown_queues": true, "zero_score": "floor"}})],
        "policy_update" => vec![all.clone(), json!({"data": all, "dry_run": true})],
        "policy_begin" => vec![json!({"dry_run": false, "keep_config": true, "expires": 60})],
        "policy_part" => {
            vec![json!({"push": FIRST_PUSH, "associations": all["associations"], "banks": all["banks"]})]
        }
        "policy_commit" | "policy_abort" => vec![json!({"push": FIRST_PUSH})],
        "associations" => vec![json!({"after": [5001, "A"], "user": 5002, "limit": 10})],
        "priorities" | "prices" => vec![json!({"ids": [1, 2, 3], "after": 1, "limit": 10})],
        "hand_over" => vec![json!({"after": 1, "limit": 10})],
        "rest" => vec![json!({"ids": [1, 2, 3]})],
        "tree" => vec![json!({"after": 1, "limit": 10})],
        "explain" => vec![json!({"id": 1}), json!({"id": 1, "userid": 5002}), json!({"ids": [1, 2]})],
        "standing" => vec![json!({"user": 5002, "bank": "A", "after": [5001, "A"], "limit": 10})],
        "jobs" => vec![json!({"user": 5002, "bank": "A", "queue": "q", "ids": [1], "after": 1, "limit": 10})],
        "check_job" => {
            let jobspec = job(5001, 2).jobspec;
            vec![json!({"user": 5001, "urgency": 16, "count": 3, "jobspec": jobspec})]
        }
        _ => vec![json!({})],
    }
}

fn list_methods() -> Vec<&'static str> {
    MfPriority::METHODS.iter().map(|method| method.title()).collect()
}

fn list_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for method in list_methods() {
        for payload in list_payloads(method) {
            for who in ["1000 1", "5002 2", "5001 2", "0 0"] {
                seeds.push(format!("{method} {who}\n{payload}").into_bytes());
            }
        }
    }
    seeds
}

/// Returns `input` with a changed payload, and sometimes another method and user in the first line.
fn mutate(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let changed = json::mutate_after_first_line(rng, input, other);
    if !rng.happens_once_in(8) {
        return changed;
    }
    let body = changed.iter().position(|byte| *byte == b'\n').map_or(&[][..], |at| &changed[at..]);
    let methods = list_methods();
    let line = format!(
        "{} {}",
        rng.pick(&methods),
        rng.pick(&["1000 1", "5002 2", "4294967295 2", "0 3", "1000 0"])
    );
    [line.as_bytes(), body].concat()
}

/// Returns a site with a running job, a held job and a job of another user.
fn make_site_with_some_jobs() -> Site {
    let site = Site::new();
    for (user, nodes) in [(5001, 2), (5001, 1), (5002, 1)] {
        site.submit(&job(user, nodes));
    }
    site.host.take_log();
    site
}

/// Sends the request in `input` to the plugin. Returns hashes that describe how the plugin behaved.
fn run_input(cache: &mut SiteCache, input: &[u8]) -> Vec<u64> {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let line = String::from_utf8_lossy(&input[..end]).into_owned();
    let mut words = line.split(' ');
    let method = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok()).unwrap_or(0);
    let cred = Cred { userid: number(), rolemask: number() };
    let body: Vec<u8> =
        input.get(end + 1..).unwrap_or_default().iter().copied().filter(|byte| *byte != 0).collect();
    let payload = CString::new(body).unwrap();
    let site = cache.site.take().unwrap_or_else(make_site_with_some_jobs);
    site.host.take_log();
    let before = cache.data.take().unwrap_or_else(|| configured_data(&site));
    let answer = site.host.request_bytes(&topic(method), Some(&payload), cred);
    let mut features: Vec<u64> = Vec::new();
    let late: Vec<_> = {
        // The plugin delays answers to guests.
        site.host.advance(2.0);
        site.host.take_late_answers().into_iter().map(|late| late.answer).collect()
    };
    let is_known = list_methods().contains(&method);
    let mut changes = false;
    for answer in std::iter::once(answer).chain(late) {
        match answer {
            Ok(text) => {
                assert!(is_known, "the plugin answered {method}, which is not one of its methods");
                assert!(
                    cred.is_owner() || GUEST_METHODS.contains(&method) && cred.rolemask != 0,
                    "{cred:?} called {method}"
                );
                let text = text.unwrap_or_else(|| "{}".to_owned());
                assert_no_control_characters("an answer", &text);
                let shape: Value = serde_json::from_str(&text).expect("an answer is JSON");
                assert!(shape.is_object(), "{text}");
                features.push(hash_feature((method, shape.as_object().unwrap().keys().collect::<Vec<_>>())));
                changes |= cred.is_owner();
            }
            Err(refused) if refused.errno.0 == 115 => {}
            Err(refused) => {
                assert!(!refused.text.is_empty(), "{method} is refused without a text: {refused:?}");
                assert!(refused.text.len() < 1000, "{} bytes: {}", refused.text.len(), refused.text);
                assert_no_control_characters("a refusal", &refused.text);
                if is_known && !cred.is_owner() && !GUEST_METHODS.contains(&method) {
                    assert_eq!(refused.errno.0, EPERM, "{method} as {cred:?}: {}", refused.text);
                }
                features.push(hash_feature((method, refused.errno.0, strip_values(&refused.text))));
            }
        }
    }
    features.extend(check_log(&site));
    if changes {
        site.check();
        // A push in one message restores the data, and drops a staged push.
        let push = document().to_string();
        let result = site.host.request(&topic("policy_update"), Some(&push), crate::abi::OWNER);
        assert!(result.is_ok(), "a valid push after {line}: {result:?}");
        site.host.take_log();
        // The input may have changed the jobs, or the associations of jobs. So all jobs end, and new ones are submitted.
        if site.host.jobs().len() > 40 || method.starts_with("rec_") || method.starts_with("policy_") {
            let ended: Vec<u64> = site.host.jobs();
            ended.iter().for_each(|id| drop(site.host.cancel(*id, crate::abi::OWNER)));
            site.host.settle();
            assert_eq!(site.check()["jobs"], 0);
            if site.host.jobs().len() <= 40 {
                for (user, nodes) in [(5001, 2), (5001, 1), (5002, 1)] {
                    site.submit(&job(user, nodes));
                }
                cache.put_back(site);
            }
            return features;
        }
    } else {
        let now = configured_data(&site);
        assert_eq!(now, before, "{line} changed something");
        cache.data = Some(now);
    }
    cache.put_back(site);
    features
}

#[test]
fn the_plugin_survives_any_payload_of_any_method() {
    let mut cache = SiteCache::default();
    fuzz("rpc", list_seeds(), mutate as Mutate, |input| run_input(&mut cache, input));
}
