// SPDX-License-Identifier: LGPL-3.0-only
//! The plugin must refuse malformed requests and requests of users without permission. It must give a reason, and change nothing.

use fairshare_embedded::Cred;
use serde_json::{Value, json};

use super::{METHODS, OWNER, Site, association, document, job, topic};

/// Returns a site with a running, a held and a scheduled job, so that the query would show a change.
fn make_site_with_some_jobs() -> Site {
    let site = Site::new();
    for (userid, nodes) in [(5001, 4), (5001, 1), (5002, 1)] {
        site.submit(&job(userid, nodes));
    }
    site
}

/// Checks that a request fails with `errno` and a text, is logged, and changes nothing. Returns the text.
fn check_refused(site: &Site, method: &str, payload: Option<&str>, errno: i32) -> String {
    let before = site.query();
    site.host.take_log();
    let shown = payload.map(|text| text.chars().take(200).collect::<String>());
    let answer = site.host.request(&topic(method), payload, OWNER);
    let Err(refused) = answer else { panic!("{method} accepted {shown:?}") };
    assert_eq!(refused.errno.0, errno, "{method} {shown:?}: {}", refused.text);
    assert!(!refused.text.is_empty(), "{method} {shown:?}: no text");
    // The text must not repeat a payload of 10 MB. For an unreadable payload, the reply has more details than the log.
    let is_short = refused.text.len() < 500;
    assert!(is_short, "{method} {shown:?}: {} bytes of text", refused.text.len());
    let logged = match refused.text.split_once("Protocol error: ") {
        Some((before, _)) => format!("{before}Protocol error"),
        None => refused.text.clone(),
    };
    assert!(site.errors().iter().any(|line| line.contains(&logged)), "{logged}: {:?}", site.errors());
    assert_eq!(site.query(), before, "{method} {shown:?} changed something");
    refused.text
}

const EPROTO: i32 = 71;
const EINVAL: i32 = 22;

#[test]
fn a_request_without_payload_or_with_invalid_json_is_refused() {
    let site = make_site_with_some_jobs();
    for (_, method) in METHODS {
        for payload in [None, Some(""), Some("{"), Some("[]"), Some("null"), Some("{}"), Some("{\"dat\":[]}")]
        {
            check_refused(&site, method, payload, EPROTO);
        }
    }
    check_refused(&site, "policy_update", None, EPROTO);
    check_refused(&site, "policy_update", Some("{"), EPROTO);
    site.check();
}

/// Methods that need no payload, but must refuse an unreadable one.
const WITH_OPTIONAL_PAYLOAD: [&str; 8] =
    ["policy_begin", "jobs", "standing", "priorities", "tree", "associations", "hand_over", "stats"];

#[test]
fn a_payload_that_is_not_utf8_is_refused() {
    let site = make_site_with_some_jobs();
    for bytes in
        [c"\xff\xfe{}", c"{\"data\":[{\"userid\":5001,\"bank\":\"\xc3\x28\"}]}", c"{\"data\":[]}\xff"]
    {
        for method in METHODS.map(|(_, method)| method).into_iter().chain(WITH_OPTIONAL_PAYLOAD) {
            let before = site.query();
            let refused = site.host.request_bytes(&topic(method), Some(bytes), OWNER).unwrap_err();
            assert_eq!(refused.errno.0, EPROTO, "{method}");
            assert_eq!(site.query(), before);
        }
    }
}

#[test]
fn data_of_the_wrong_type_are_refused() {
    let site = make_site_with_some_jobs();
    for (_, method) in METHODS {
        for data in [json!(null), json!(1), json!("text"), json!(true), json!(0.5)] {
            check_refused(&site, method, Some(&json!({"data": data}).to_string()), EINVAL);
        }
        let other = if method == "rec_config_update" { json!([]) } else { json!({}) };
        check_refused(&site, method, Some(&json!({"data": other}).to_string()), EINVAL);
    }
    site.check();
}

/// The plugin must not apply the valid record that comes before the invalid one.
#[test]
fn a_record_with_a_missing_or_wrong_member_is_refused() {
    let site = make_site_with_some_jobs();
    let data = document();
    let odd = [json!(null), json!([]), json!({}), json!(true), json!(1e300), json!("text"), json!(2.5)];
    for (kind, method) in METHODS.iter().filter(|(kind, _)| *kind != "config") {
        let good = data[*kind][0].clone();
        for key in good.as_object().unwrap().keys() {
            let mut other = good.clone();
            other.as_object_mut().unwrap().remove(key);
            let payload = json!({"data": [rename_record(&good), other]}).to_string();
            let text = check_refused(&site, method, Some(&payload), EINVAL);
            assert!(text.contains(&format!("{kind}[1]")) && text.contains(key.as_str()), "{text}");
            for odd in &odd {
                let same_type = std::mem::discriminant(odd) == std::mem::discriminant(&good[key]);
                let whole = odd.as_f64() == Some(2.5) || odd.as_f64() == Some(1e300);
                let any_number = matches!(key.as_str(), "fairshare" | "priority") && *kind != "queues";
                // The plugin skips a record with a user id that no job can have.
                let is_left_out = key == "userid" && odd.as_f64() == Some(1e300);
                if is_left_out || (same_type && (!whole || any_number)) {
                    continue;
                }
                let mut other = good.clone();
                other[key] = odd.clone();
                let payload = json!({"data": [rename_record(&good), other]}).to_string();
                let text = check_refused(&site, method, Some(&payload), EINVAL);
                assert!(text.contains(&format!("{kind}[1]")) && text.contains(key.as_str()), "{text}");
            }
        }
    }
    check_refused(&site, "rec_config_update", Some(r#"{"data":{"deny_unknown_queues":1}}"#), EINVAL);
    check_refused(&site, "rec_config_update", Some(r#"{"data":{"zero_score":"other"}}"#), EINVAL);
    site.check();
}

/// Renames a valid record. If the plugin applied the record, the query would show the new names.
fn rename_record(good: &Value) -> Value {
    let mut renamed = good.clone();
    for key in ["bank", "queue", "project", "factor"] {
        if renamed.get(key).is_some() {
            renamed[key] = json!("shown");
        }
    }
    renamed
}

#[test]
fn numbers_beyond_their_range_are_refused_or_skipped() {
    let site = make_site_with_some_jobs();
    for userid in ["1e3", "-0.0"] {
        let text = association(5001, "A", json!({}))
            .to_string()
            .replace("\"userid\":5001", &format!("\"userid\":{userid}"));
        check_refused(&site, "rec_update", Some(&format!("{{\"data\":[{text}]}}")), EINVAL);
    }
    // No job can have one of these user ids. The plugin skips the record, so that the other records take effect.
    for userid in ["-1", "4294967295", "4294967296", "18446744073709551616"] {
        let before = site.query();
        let text = association(5001, "A", json!({}))
            .to_string()
            .replace("\"userid\":5001", &format!("\"userid\":{userid}"));
        let answer = site.host.request(&topic("rec_update"), Some(&format!("{{\"data\":[{text}]}}")), OWNER);
        assert_eq!(answer, Ok(None));
        assert_eq!(site.query()["mf_priority_map"], before["mf_priority_map"]);
    }
    let text = association(5001, "A", json!({})).to_string();
    let text = text.replace("\"max_cores\":2147483647", "\"max_cores\":99999999999999999999");
    check_refused(&site, "rec_update", Some(&format!("{{\"data\":[{text}]}}")), EINVAL);
    site.check();
}

#[test]
fn huge_and_deeply_nested_payloads_are_refused() {
    let site = make_site_with_some_jobs();
    let long =
        json!({"data": [association(5001, "A", json!({"active": "x".repeat(10_000_000)}))]}).to_string();
    check_refused(&site, "rec_update", Some(&long), EINVAL);
    for depth in [100, 10_000, 1_000_000] {
        let deep = format!("{{\"data\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        let before = site.query();
        assert!(site.host.request(&topic("rec_update"), Some(&deep), OWNER).is_err());
        assert_eq!(site.query(), before);
    }
    let unknown = "[".repeat(100) + &"]".repeat(100);
    let text =
        association(5009, "A", json!({})).to_string().replacen('{', &format!("{{\"new\":{unknown},"), 1);
    let answer = site.host.request(&topic("rec_update"), Some(&format!("{{\"data\":[{text}]}}")), OWNER);
    assert_eq!(answer, Ok(None), "unknown keys are ignored");
    site.check();
}

const OTHERS: [&str; 8] = [
    "reprioritize",
    "policy_update",
    "policy_begin",
    "policy_part",
    "policy_commit",
    "policy_abort",
    "associations",
    "check",
];

#[test]
fn guests_cannot_call_the_methods_of_the_owner_and_of_admins() {
    let site = make_site_with_some_jobs();
    let before = site.query();
    let methods = METHODS.iter().map(|(_, method)| *method).chain(OTHERS);
    for method in methods {
        for cred in [Cred::guest(5001), Cred::guest(1000), Cred { userid: 0, rolemask: 0 }] {
            let refused = site.host.request(&topic(method), Some("{\"data\":[]}"), cred).unwrap_err();
            // Admins may also call `associations` and `check`.
            let text = match method {
                "associations" | "check" => "Request rejected due to insufficient privilege",
                _ => "Request requires owner credentials",
            };
            assert_eq!((refused.errno.0, refused.text.as_str()), (1, text), "{method}");
        }
    }
    assert_eq!(site.query(), before);
}

#[test]
fn a_document_with_one_fault_is_refused_as_a_whole() {
    let site = make_site_with_some_jobs();
    let mut document = document();
    document["associations"].as_array_mut().unwrap().push(association(5009, "Z", json!({})));
    for (key, fault) in
        [("queues", json!([{"queue": ""}])), ("banks", json!([{"bank": "A"}])), ("projects", json!(5))]
    {
        let mut faulty_plugin = document.clone();
        faulty_plugin[key] = fault;
        check_refused(&site, "policy_update", Some(&faulty_plugin.to_string()), EINVAL);
        let mut lacking = document.clone();
        lacking.as_object_mut().unwrap().remove(key);
        check_refused(&site, "policy_update", Some(&lacking.to_string()), EINVAL);
    }
    let before = site.query();
    document["dry_run"] = json!(true);
    site.rpc("policy_update", &document).unwrap();
    assert_eq!(site.query(), before);
    document["dry_run"] = json!(false);
    site.rpc("policy_update", &document).unwrap();
    assert_ne!(site.query(), before);
    site.check();
}

/// A dry run, in one message or in parts, must refuse the tree with the same text as the push.
#[test]
fn a_dry_run_refuses_an_invalid_tree() {
    let site = make_site_with_some_jobs();
    let mut site_document = document();
    let bank = |name: &str, parent: &str| json!({"bank": name, "priority": 0, "parent": parent, "shares": 1, "active": 1});
    site_document["tree"] = json!({
        "policy": "fair-tree", "at": 1.0, "half_life": 604_800, "node_weight": 1, "core_weight": 0, "gpu_weight": 0,
    });
    let before = site.query();
    for (parent, is_right) in [("root", true), ("nowhere", false)] {
        site_document["banks"] = json!([bank("root", ""), bank("A", parent), bank("B", "root")]);
        site_document["dry_run"] = json!(true);
        let asked = site.rpc("policy_update", &site_document);
        let push = site.rpc("policy_begin", &json!({"dry_run": true})).unwrap().unwrap();
        let mut part = site_document.clone();
        part["push"] = serde_json::from_str::<Value>(&push).unwrap()["push"].clone();
        site.rpc("policy_part", &part).unwrap();
        let committed = site.rpc("policy_commit", &part);
        assert_eq!(site.query(), before);
        assert_eq!([asked.is_ok(), committed.is_ok()], [is_right; 2], "{asked:?} {committed:?}");
        if is_right {
            continue;
        }
        site_document["dry_run"] = json!(false);
        let ordered = site.rpc("policy_update", &site_document).unwrap_err();
        let [asked, committed] = [asked, committed].map(Result::unwrap_err);
        assert_eq!((asked.errno, &asked.text), (ordered.errno, &ordered.text));
        assert_eq!((asked.errno, &asked.text), (committed.errno, &committed.text));
        assert_eq!(site.query(), before);
    }
    site.check();
}
