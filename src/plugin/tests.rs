// SPDX-License-Identifier: LGPL-3.0-only
//! What payloads say, and what is said about bad ones.

use super::jobspec::dependency_history;
use super::wire::{self, WireError};
use crate::accounts::ZeroScore;
use serde_json::{Value, json};

fn association() -> Value {
    json!({
        "userid": 5001, "bank": "A", "def_bank": "A", "fairshare": 0.5, "max_running_jobs": 5,
        "max_active_jobs": 7, "max_sched_jobs": 3, "max_nodes": 2147483647, "max_cores": 2147483647,
        "queues": " gold, ,silver,", "projects": "*", "def_project": "*", "active": 1, "extra": [1],
    })
}

fn with(key: &str, value: Value) -> Value {
    let mut record = association();
    record[key] = value;
    record
}

fn without(key: &str) -> Value {
    let mut record = association();
    record.as_object_mut().unwrap().remove(key);
    record
}

fn read(records: Value) -> Result<usize, WireError> {
    let payload = json!({ "data": records }).to_string();
    wire::associations(Some(&payload), &mut Vec::new()).map(|records| records.len())
}

#[test]
fn an_association_reads_as_it_is_written() {
    let payload = json!({"data": [association()]}).to_string();
    let records = wire::associations(Some(&payload), &mut Vec::new()).unwrap();
    let one = &records[0].association;
    assert_eq!(one.queues.iter().map(|q| q.as_str()).collect::<Vec<_>>(), ["gold", "silver"]);
    assert_eq!((one.user.0, one.max_running_jobs.0, one.max_nodes.0), (5001, 5, 2_147_483_647));
    assert!(one.active && one.is_default_project("*"));
}

#[test]
fn a_bad_record_is_named_with_key_and_fault() {
    let good = association;
    for (records, text) in [
        (
            json!([good(), with("max_nodes", json!("7"))]),
            "associations[1].max_nodes: expected integer, got string",
        ),
        (json!([without("queues")]), "associations[0].queues: key is missing"),
        (json!([7]), "associations[0]: expected object, got integer 7"),
        (json!([with("userid", json!(-1))]), "associations[0].userid: expected 0 to 4294967294, got -1"),
        (
            json!([with("userid", json!(4_294_967_295u64))]),
            "associations[0].userid: expected 0 to 4294967294, got 4294967295",
        ),
        (json!([with("max_cores", json!(1.5))]), "associations[0].max_cores: expected integer, got real 1.5"),
        (
            json!([with("max_cores", json!(9_223_372_036_854_775_808u64))]),
            "associations[0].max_cores: expected integer, got 9223372036854775808, which exceeds 9223372036854775807",
        ),
        (json!([with("active", json!(true))]), "associations[0].active: expected integer, got boolean true"),
        (json!([with("bank", json!(""))]), "associations[0].bank: expected a name, got an empty string"),
        (json!([with("fairshare", json!(null))]), "associations[0].fairshare: expected number, got null"),
    ] {
        assert_eq!(read(records.clone()), Err(WireError::Record(text.to_owned())), "{records}");
    }
    assert_eq!(read(json!([good(), with("fairshare", json!(1))])), Ok(2));
    assert_eq!(read(json!([])), Ok(0));
}

#[test]
fn payloads_that_are_none_are_told_apart() {
    for payload in [None, Some(""), Some("{"), Some("[]"), Some("{}"), Some("7"), Some("{\"data\":[1e999]}")]
    {
        assert_eq!(wire::associations(payload, &mut Vec::new()), Err(WireError::Undecodable), "{payload:?}");
        assert_eq!(wire::config(payload), Err(WireError::Undecodable), "{payload:?}");
    }
    for data in [json!(null), json!({}), json!("x"), json!(3)] {
        let payload = json!({ "data": data }).to_string();
        assert_eq!(wire::queues(Some(&payload), &mut Vec::new()), Err(WireError::WrongType("queues")));
        let is_object = data.is_object();
        assert_eq!(wire::config(Some(&payload)).is_ok(), is_object, "{payload}");
    }
}

#[test]
fn duplicates_within_a_record_do_not_matter_and_the_last_wins() {
    let text = association().to_string().replacen('{', "{\"max_nodes\":1,", 1);
    let payload = format!("{{\"data\":[{text}]}}");
    let records = wire::associations(Some(&payload), &mut Vec::new()).unwrap();
    assert_eq!(records[0].association.max_nodes.0, 2_147_483_647);
}

#[test]
fn negative_limits_are_accepted_with_a_warning() {
    let mut warnings = Vec::new();
    let payload = json!({"data": [association(), with("max_cores", json!(-3))]}).to_string();
    assert!(wire::associations(Some(&payload), &mut warnings).is_ok());
    assert_eq!(warnings, ["associations[1].max_cores: negative limit -3 admits nothing"]);
}

#[test]
fn switches_are_booleans_and_words() {
    let config = |data: Value| wire::config(Some(&json!({ "data": data }).to_string()));
    assert!(config(json!({"deny_unknown_queues": true})).unwrap().deny_unknown_queues);
    assert_eq!(config(json!({"zero_score": "floor"})).unwrap().zero_score, ZeroScore::Floor);
    assert_eq!(config(json!({"other": 1})), Ok(crate::accounts::Config::default()));
    for (data, text) in [
        (json!({"deny_unknown_queues": 1}), "deny_unknown_queues: expected boolean, got integer 1"),
        (json!({"deny_unknown_queues": "true"}), "deny_unknown_queues: expected boolean, got string"),
        (json!({"zero_score": "none"}), "zero_score: expected \"hold\" or \"floor\", got \"none\""),
    ] {
        assert_eq!(config(data), Err(WireError::Record(text.to_owned())));
    }
}

#[test]
fn a_policy_is_whole_and_a_load_time_one_may_lack_parts() {
    let whole = json!({
        "associations": [association()], "queues": [], "projects": [{"project": "*"}],
        "banks": [{"bank": "A", "priority": 2}], "priority_factors": [{"factor": "bank", "weight": 3}],
        "config": {"deny_unknown_queues": true}, "dry_run": true, "later": 1,
    });
    let update = |data: &Value| {
        wire::policy_update(Some(&json!({ "data": data }).to_string()), &mut Vec::new()).map(|(_, dry)| dry)
    };
    assert_eq!(update(&whole), Ok(true));
    let bare = wire::policy_update(Some(&whole.to_string()), &mut Vec::new());
    assert_eq!(bare.map(|(_, dry)| dry), Ok(true));
    assert_eq!(update(&json!(3)), Err(WireError::WrongType("policy")));
    let mut lacking = whole.clone();
    lacking.as_object_mut().unwrap().remove("banks");
    assert_eq!(update(&lacking), Err(WireError::Record("policy.banks: key is missing".to_owned())));
    let load = |conf: Value| wire::load_config(&conf.to_string(), &mut Vec::new());
    assert!(load(json!({"config": lacking})).unwrap().is_some());
    assert!(load(json!({"other": 1})).unwrap().is_none());
    assert!(load(json!({"config": 7})).is_err());
    assert!(load(json!({"config": {"config": 7}})).is_err());
    assert!(load(json!({"config": {"queues": [{}]}})).is_err());
}

#[test]
fn an_eventlog_tells_of_dependencies() {
    let log = concat!(
        "{\"timestamp\":1.0,\"name\":\"submit\",\"context\":{\"userid\":1}}\n",
        "{\"timestamp\":1.0,\"name\":\"dependency-add\",\"context\":{\"description\":\"max-run-jobs-queue\"}}\n",
        "{\"timestamp\":1.0,\"name\":\"memo\",\"context\":{\"x\":\"dependency-add\"}}\n",
        "{\"timestamp\":1.0,\"name\":\"dependency-remove\",\"context\":{\"description\":\"max-run-jobs-queue\"}}\n",
        "not json \"dependency-add\"\n",
    );
    let name = || "max-run-jobs-queue".to_owned();
    assert_eq!(dependency_history(log), [(name(), true), (name(), false)]);
}
