// SPDX-License-Identifier: LGPL-3.0-only
//! Random configurations: options at load, Flux's configuration, complete pushes, and the snapshot in the KVS. After an accepted push, the
//! plugin must read the same data from its snapshot that it wrote.

use fairshare_embedded::Host;
use serde_json::{Value, json};

use super::drive::{fuzz, hash_feature, strip_values};
use super::{SiteCache, check_log, configured_data, document_with_tree, json, seeds};
use crate::abi::{OWNER, SO, Site, document, plugin, topic};

const MANIFEST: &str = "mf_priority.remember.manifest";

fn parse(input: &[u8]) -> Option<Value> {
    serde_json::from_slice(input).ok()
}

/// Returns a table `[fairshare]` that sets most of its keys.
fn make_table() -> Value {
    json!({
        "live": true, "refresh": "30s", "accrual": "elapsed", "max-stall": "50ms",
        "age_max": "7d", "age_weight": 5, "size_weight": 1, "max_wait_behind": "1h",
        "interleave": true, "remember": true, "public": "banks", "annotate": true,
        "limits": [{"scope": "bank", "name": "A", "run-nodes": 5}, {"scope": "association", "name": "*", "sched-jobs": 3, "queue": "q"}],
    })
}

#[test]
fn the_plugin_survives_any_configuration_at_load() {
    let site = Site::empty(plugin());
    let all = document_with_tree();
    let mut options = make_table();
    options["config"] = all.clone();
    let seeds = seeds([json!({"config": all}), options, json!({"config": document()}), json!({})]);
    fuzz("load", seeds, json::mutate_document, |input| {
        let Some(conf) = parse(input) else { return Vec::new() };
        let mut features = Vec::new();
        match site.host.load(&site.so.path(), Some(&conf)) {
            Ok(()) => {
                site.host.settle();
                site.query();
                site.check();
                site.host.remove(SO).unwrap();
                features.push(hash_feature("loaded"));
            }
            Err(text) => features.push(hash_feature(strip_values(&text))),
        }
        clear_kvs(&site.host);
        features.extend(check_log(&site));
        features
    });
}

fn clear_kvs(host: &Host) {
    host.kvs().keys().for_each(|key| host.kvs_put(key, None));
}

#[test]
fn the_plugin_survives_any_fairshare_table_in_the_configuration() {
    let mut cache = SiteCache::default();
    let seeds = seeds([json!({"fairshare": make_table()}), json!({"fairshare": {}}), json!({})]);
    fuzz("table", seeds, json::mutate_document, |input| {
        let Some(conf) = parse(input) else { return Vec::new() };
        let site = cache.take();
        let live_settings = |site: &Site| {
            let mut live = site.query()["live"].clone();
            if let Some(live) = live.as_object_mut() {
                live.retain(|key, _| !["last", "now", "next"].contains(&key.as_str()));
            }
            live
        };
        let before = live_settings(&site);
        let mut features = Vec::new();
        match site.host.reload_config(&conf) {
            Ok(_) => {
                site.host.settle();
                let after = configured_data(&site);
                site.host.reload_config(&conf).expect("an accepted table is accepted again");
                site.host.settle();
                assert_eq!(configured_data(&site), after, "the same table changed something");
                features.push(hash_feature((
                    "accepted",
                    conf["fairshare"].as_object().map(serde_json::Map::len),
                )));
            }
            Err(text) => {
                assert!(!text.is_empty() && text.len() < 1000, "{text}");
                super::assert_no_control_characters("a refusal", &text);
                assert_eq!(live_settings(&site), before, "a refused table changed something");
                features.push(hash_feature(strip_values(&text)));
            }
        }
        site.check();
        features.extend(check_log(&site));
        cache.put_back(site);
        features
    });
}

#[test]
fn any_pushed_site_document_is_restored_as_it_was_written() {
    let mut cache = SiteCache::default();
    let seeds = seeds([document_with_tree(), document()]);
    fuzz("policy", seeds, json::mutate_document, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return Vec::new() };
        let text = text.replace('\0', "");
        let site = cache.site.take().unwrap_or_else(Site::without_pushed_data);
        site.host.take_log();
        let mut features = Vec::new();
        match site.host.request(&topic("policy_update"), Some(&text), OWNER) {
            Ok(answer) => {
                let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
                site.host.settle();
                let pushed = configured_data(&site);
                features.push(hash_feature(("accepted", answer["dry_run"] == true)));
                features.extend(check_log(&site));
                site.host.remove(SO).unwrap();
                site.host.load(&site.so.path(), None).unwrap();
                site.host.settle();
                if answer["dry_run"] != true {
                    assert_eq!(
                        configured_data(&site),
                        pushed,
                        "the snapshot contains other data than the push"
                    );
                }
            }
            Err(refused) => features.push(hash_feature(strip_values(&refused.text))),
        }
        features.extend(check_log(&site));
        cache.put_back(site);
        features
    });
}

/// The first byte of an input selects a key of the snapshot, and the rest replaces its value. The other keys stay valid.
#[test]
fn the_plugin_survives_any_content_of_the_kvs() {
    let site = Site::without_pushed_data();
    site.rpc("policy_update", &document_with_tree()).unwrap();
    site.host.settle();
    let written: Vec<(String, String)> = site.host.kvs().into_iter().collect();
    assert!(written.iter().any(|(key, _)| key == MANIFEST) && written.len() < 200, "{}", written.len());
    let seeds = written.iter().enumerate().map(|(at, (_, text))| format!("{at}\n{text}").into_bytes());
    let seeds = seeds.collect();
    fuzz("remembered", seeds, json::mutate_after_first_line, |input| {
        let text = String::from_utf8_lossy(input).replace('\0', "");
        let (line, text) = text.split_once('\n').unwrap_or(("0", ""));
        let at = line.parse::<usize>().unwrap_or(0) % written.len();
        site.host.remove(SO).unwrap();
        clear_kvs(&site.host);
        for (place, (key, old)) in written.iter().enumerate() {
            site.host.kvs_put(key, Some(if place == at { text } else { old.as_str() }));
        }
        site.host.load(&site.so.path(), None).expect("the plugin loads with any snapshot");
        site.host.advance(5.0);
        site.check();
        let is_in_force = configured_data(&site)["mf_priority_map"] != json!([]);
        let features = check_log(&site).into_iter().chain([hash_feature(is_in_force)]).collect();
        site.rpc("policy_update", &document()).expect("a valid push is accepted afterwards");
        site.host.settle();
        check_log(&site);
        features
    });
}
