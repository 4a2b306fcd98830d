// SPDX-License-Identifier: LGPL-3.0-only
//! Requests that are malformed or come from the wrong user are refused with a text and change nothing.

use fairshare_embedded::Cred;
use serde_json::{Value, json};

use super::{METHODS, OWNER, Site, association, document, job, topic};

/// Returns a site with a running, a held and a scheduled job, so that changes would be visible.
fn busy() -> Site {
    let site = Site::new();
    for (userid, nodes) in [(5001, 4), (5001, 1), (5002, 1)] {
        site.submit(&job(userid, nodes));
    }
    site
}

/// Checks that the request fails with this errno and a text, is logged, and changes nothing. Returns the text.
fn refused(site: &Site, method: &str, payload: Option<&str>, errno: i32) -> String {
    let before = site.query();
    site.host.take_log();
    let shown = payload.map(|text| text.chars().take(200).collect::<String>());
    let answer = site.host.request(&topic(method), payload, OWNER);
    let Err(refused) = answer else { panic!("{method} accepted {shown:?}") };
    assert_eq!(refused.errno.0, errno, "{method} {shown:?}: {}", refused.text);
    assert!(!refused.text.is_empty(), "{method} {shown:?}: no text");
    // A payload of 10 MB is not repeated, and the reply to an unreadable payload has more details than the log.
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
fn no_payload_or_no_json() {
    let site = busy();
    for (_, method) in METHODS {
        for payload in [None, Some(""), Some("{"), Some("[]"), Some("null"), Some("{}"), Some("{\"dat\":[]}")]
        {
            refused(&site, method, payload, EPROTO);
        }
    }
    refused(&site, "policy_update", None, EPROTO);
    refused(&site, "policy_update", Some("{"), EPROTO);
    site.check();
}

/// Methods that need no payload, but refuse an unreadable one.
const WITHOUT: [&str; 9] = [
    "policy_begin",
    "jobs",
    "standing",
    "priorities",
    "usages",
    "tree",
    "associations",
    "hand_over",
    "stats",
];

#[test]
fn not_utf8() {
    let site = busy();
    for bytes in
        [c"\xff\xfe{}", c"{\"data\":[{\"userid\":5001,\"bank\":\"\xc3\x28\"}]}", c"{\"data\":[]}\xff"]
    {
        for method in METHODS.map(|(_, method)| method).into_iter().chain(WITHOUT) {
            let before = site.query();
            let refused = site.host.request_bytes(&topic(method), Some(bytes), OWNER).unwrap_err();
            assert_eq!(refused.errno.0, EPROTO, "{method}");
            assert_eq!(site.query(), before);
        }
    }
}

#[test]
fn data_of_the_wrong_type() {
    let site = busy();
    for (_, method) in METHODS {
        for data in [json!(null), json!(1), json!("text"), json!(true), json!(0.5)] {
            refused(&site, method, Some(&json!({"data": data}).to_string()), EINVAL);
        }
        let other = if method == "rec_config_update" { json!([]) } else { json!({}) };
        refused(&site, method, Some(&json!({"data": other}).to_string()), EINVAL);
    }
    site.check();
}

/// A record with a missing member, or a member of another type, is refused, and the valid record before it is not applied.
#[test]
fn each_member_of_each_record() {
    let site = busy();
    let data = document();
    let odd = [json!(null), json!([]), json!({}), json!(true), json!(1e300), json!("text"), json!(2.5)];
    for (kind, method) in METHODS.iter().filter(|(kind, _)| *kind != "config") {
        let good = data[*kind][0].clone();
        for key in good.as_object().unwrap().keys() {
            let mut other = good.clone();
            other.as_object_mut().unwrap().remove(key);
            let payload = json!({"data": [changed(&good), other]}).to_string();
            let text = refused(&site, method, Some(&payload), EINVAL);
            assert!(text.contains(&format!("{kind}[1]")) && text.contains(key.as_str()), "{text}");
            for odd in &odd {
                let same_type = std::mem::discriminant(odd) == std::mem::discriminant(&good[key]);
                let whole = odd.as_f64() == Some(2.5) || odd.as_f64() == Some(1e300);
                let any_number = matches!(key.as_str(), "fairshare" | "priority") && *kind != "queues";
                // Plugin 3.6 #1: a record with a user id that no job can have is skipped.
                let is_left_out = key == "userid" && odd.as_f64() == Some(1e300);
                if is_left_out || (same_type && (!whole || any_number)) {
                    continue;
                }
                let mut other = good.clone();
                other[key] = odd.clone();
                let payload = json!({"data": [changed(&good), other]}).to_string();
                let text = refused(&site, method, Some(&payload), EINVAL);
                assert!(text.contains(&format!("{kind}[1]")) && text.contains(key.as_str()), "{text}");
            }
        }
    }
    refused(&site, "rec_config_update", Some(r#"{"data":{"deny_unknown_queues":1}}"#), EINVAL);
    refused(&site, "rec_config_update", Some(r#"{"data":{"zero_score":"other"}}"#), EINVAL);
    site.check();
}

/// Returns a valid record that would be visible in the query.
fn changed(good: &Value) -> Value {
    let mut changed = good.clone();
    for key in ["bank", "queue", "project", "factor"] {
        if changed.get(key).is_some() {
            changed[key] = json!("shown");
        }
    }
    changed
}

#[test]
fn numbers_beyond_their_range() {
    let site = busy();
    for userid in ["1e3", "-0.0"] {
        let text = association(5001, "A", json!({}))
            .to_string()
            .replace("\"userid\":5001", &format!("\"userid\":{userid}"));
        refused(&site, "rec_update", Some(&format!("{{\"data\":[{text}]}}")), EINVAL);
    }
    // Plugin 3.6: such a record matches no job, and the other records are applied.
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
    refused(&site, "rec_update", Some(&format!("{{\"data\":[{text}]}}")), EINVAL);
    site.check();
}

#[test]
fn huge_and_deep() {
    let site = busy();
    let long =
        json!({"data": [association(5001, "A", json!({"active": "x".repeat(10_000_000)}))]}).to_string();
    refused(&site, "rec_update", Some(&long), EINVAL);
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
fn guests_get_nothing() {
    let site = busy();
    let before = site.query();
    let methods = METHODS.iter().map(|(_, method)| *method).chain(OTHERS);
    for method in methods {
        for cred in [Cred::guest(5001), Cred::guest(1000), Cred { userid: 0, rolemask: 0 }] {
            let refused = site.host.request(&topic(method), Some("{\"data\":[]}"), cred).unwrap_err();
            // Admins may read.
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
fn a_document_with_one_fault() {
    let site = busy();
    let mut document = document();
    document["associations"].as_array_mut().unwrap().push(association(5009, "Z", json!({})));
    for (key, fault) in
        [("queues", json!([{"queue": ""}])), ("banks", json!([{"bank": "A"}])), ("projects", json!(5))]
    {
        let mut faulty_plugin = document.clone();
        faulty_plugin[key] = fault;
        refused(&site, "policy_update", Some(&faulty_plugin.to_string()), EINVAL);
        let mut lacking = document.clone();
        lacking.as_object_mut().unwrap().remove(key);
        refused(&site, "policy_update", Some(&lacking.to_string()), EINVAL);
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

/// A dry run refuses each tree that a push would refuse, in one message and in parts.
#[test]
fn a_dry_run_judges_the_tree() {
    let site = busy();
    let mut whole = document();
    let bank = |name: &str, parent: &str| json!({"bank": name, "priority": 0, "parent": parent, "shares": 1, "active": 1});
    whole["tree"] = json!({
        "policy": "fair-tree", "at": 1.0, "half_life": 604_800, "node_weight": 1, "core_weight": 0, "gpu_weight": 0,
    });
    let before = site.query();
    for (parent, is_right) in [("root", true), ("nowhere", false)] {
        whole["banks"] = json!([bank("root", ""), bank("A", parent), bank("B", "root")]);
        whole["dry_run"] = json!(true);
        let asked = site.rpc("policy_update", &whole);
        let push = site.rpc("policy_begin", &json!({"dry_run": true})).unwrap().unwrap();
        let mut part = whole.clone();
        part["push"] = serde_json::from_str::<Value>(&push).unwrap()["push"].clone();
        site.rpc("policy_part", &part).unwrap();
        let committed = site.rpc("policy_commit", &part);
        assert_eq!(site.query(), before);
        assert_eq!([asked.is_ok(), committed.is_ok()], [is_right; 2], "{asked:?} {committed:?}");
        if is_right {
            continue;
        }
        whole["dry_run"] = json!(false);
        let ordered = site.rpc("policy_update", &whole).unwrap_err();
        let [asked, committed] = [asked, committed].map(Result::unwrap_err);
        assert_eq!((asked.errno, &asked.text), (ordered.errno, &ordered.text));
        assert_eq!((asked.errno, &asked.text), (committed.errno, &committed.text));
        assert_eq!(site.query(), before);
    }
    site.check();
}
