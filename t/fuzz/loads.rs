// SPDX-License-Identifier: LGPL-3.0-only
//! Configurations: options at load, Flux's configuration, whole policies, and the snapshot in the KVS. The plugin must read back the same
//! data that it wrote of an accepted configuration.

use fairshare_embedded::Host;
use serde_json::{Value, json};

use super::drive::{fuzz, gist, seen};
use super::{Stand, configured, json, said, seeds, with_a_tree};
use crate::abi::{OWNER, SO, Site, document, plugin, topic};

const MANIFEST: &str = "mf_priority.remember.manifest";

fn parsed(input: &[u8]) -> Option<Value> {
    serde_json::from_slice(input).ok()
}

/// Returns a table `[fairshare]` with all keys.
fn table() -> Value {
    json!({
        "live": true, "refresh": "30s", "accrual": "elapsed", "max-stall": "50ms",
        "age_max": "7d", "age_weight": 5, "size_weight": 1, "max_wait_behind": "1h",
        "interleave": true, "remember": true, "public": "banks", "annotate": true,
        "limits": [{"scope": "bank", "name": "A", "run-nodes": 5}, {"scope": "association", "name": "*", "sched-jobs": 3, "queue": "q"}],
    })
}

#[test]
fn any_configuration_at_load() {
    let site = Site::empty(plugin());
    let all = with_a_tree();
    let mut options = table();
    options["config"] = all.clone();
    let seeds = seeds([json!({"config": all}), options, json!({"config": document()}), json!({})]);
    fuzz("load", seeds, json::document, |input| {
        let Some(conf) = parsed(input) else { return Vec::new() };
        let mut features = Vec::new();
        match site.host.load(&site.so.path(), Some(&conf)) {
            Ok(()) => {
                site.host.settle();
                site.query();
                site.check();
                site.host.remove(SO).unwrap();
                features.push(seen("loaded"));
            }
            Err(text) => features.push(seen(gist(&text))),
        }
        forget(&site.host);
        features.extend(said(&site));
        features
    });
}

fn forget(host: &Host) {
    host.kvs().keys().for_each(|key| host.kvs_put(key, None));
}

#[test]
fn any_table_of_fluxs_configuration() {
    let mut stand = Stand::default();
    let seeds = seeds([json!({"fairshare": table()}), json!({"fairshare": {}}), json!({})]);
    fuzz("table", seeds, json::document, |input| {
        let Some(conf) = parsed(input) else { return Vec::new() };
        let site = stand.take();
        let shown = |site: &Site| {
            let mut live = site.query()["live"].clone();
            if let Some(live) = live.as_object_mut() {
                live.retain(|key, _| !["last", "now", "next"].contains(&key.as_str()));
            }
            live
        };
        let before = shown(&site);
        let mut features = Vec::new();
        match site.host.reload_config(&conf) {
            // The same table again changes nothing.
            Ok(_) => {
                site.host.settle();
                let after = configured(&site);
                site.host.reload_config(&conf).expect("an accepted table is accepted again");
                site.host.settle();
                assert_eq!(configured(&site), after);
                features.push(seen(("accepted", conf["fairshare"].as_object().map(serde_json::Map::len))));
            }
            Err(text) => {
                assert!(!text.is_empty() && text.len() < 1000, "{text}");
                super::assert_plain("a refusal", &text);
                assert_eq!(shown(&site), before, "a refused table changed something");
                features.push(seen(gist(&text)));
            }
        }
        site.check();
        features.extend(said(&site));
        stand.keep(site);
        features
    });
}

#[test]
fn any_policy_is_read_again_as_it_was_written() {
    let mut stand = Stand::default();
    let seeds = seeds([with_a_tree(), document()]);
    fuzz("policy", seeds, json::document, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return Vec::new() };
        let text = text.replace('\0', "");
        let site = stand.site.take().unwrap_or_else(Site::bare);
        site.host.take_log();
        let mut features = Vec::new();
        match site.host.request(&topic("policy_update"), Some(&text), OWNER) {
            Ok(answer) => {
                let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
                site.host.settle();
                let pushed = configured(&site);
                features.push(seen(("accepted", answer["dry_run"] == true)));
                features.extend(said(&site));
                site.host.remove(SO).unwrap();
                site.host.load(&site.so.path(), None).unwrap();
                site.host.settle();
                if answer["dry_run"] != true {
                    assert_eq!(configured(&site), pushed, "a written document reads differently");
                }
            }
            Err(refused) => features.push(seen(gist(&refused.text))),
        }
        features.extend(said(&site));
        stand.keep(site);
        features
    });
}

/// The first byte of an input selects a key of the snapshot, and the rest replaces its value. The other keys stay valid.
#[test]
fn anything_in_the_kvs() {
    let site = Site::bare();
    site.rpc("policy_update", &with_a_tree()).unwrap();
    site.host.settle();
    let written: Vec<(String, String)> = site.host.kvs().into_iter().collect();
    assert!(written.iter().any(|(key, _)| key == MANIFEST) && written.len() < 200, "{}", written.len());
    let seeds = written.iter().enumerate().map(|(at, (_, text))| format!("{at}\n{text}").into_bytes());
    let seeds = seeds.collect();
    fuzz("remembered", seeds, json::after_a_line, |input| {
        let text = String::from_utf8_lossy(input).replace('\0', "");
        let (line, text) = text.split_once('\n').unwrap_or(("0", ""));
        let at = line.parse::<usize>().unwrap_or(0) % written.len();
        site.host.remove(SO).unwrap();
        forget(&site.host);
        for (place, (key, old)) in written.iter().enumerate() {
            site.host.kvs_put(key, Some(if place == at { text } else { old.as_str() }));
        }
        site.host.load(&site.so.path(), None).expect("whatever is there, it loads");
        site.host.advance(5.0);
        site.check();
        let is_in_force = configured(&site)["mf_priority_map"] != json!([]);
        let features = said(&site).into_iter().chain([seen(is_in_force)]).collect();
        // A push is still accepted.
        site.rpc("policy_update", &document()).expect("a good document");
        site.host.settle();
        said(&site);
        features
    });
}
