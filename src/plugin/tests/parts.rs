// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of error texts that name a record, of staged pushes, and of requests for pages.

use super::{association_record, make_record_without_key};
use fairshare_engine::engine::answers::PageFilter;
use fairshare_engine::ids::UserId;
use fairshare_protocol::reading::Reader;
use fairshare_protocol::request::read_page;
use fairshare_protocol::wire::{self, StagedPushOptions, WireError};
use serde_json::{Value, json};

#[test]
fn a_record_error_names_the_queue_bank_or_user_of_the_record() {
    let read = |array: &str, record: Value| {
        let mut payload = json!({"queues": [], "projects": [], "banks": [], "priority_factors": []});
        payload["push"] = json!(1);
        payload[array] = json!([record]);
        wire::read_policy_part(Some(&payload.to_string()), &mut Reader::default()).map(drop)
    };
    for (array, record, text) in [
        ("queues", json!({"queue": "gold"}), "queues[0].priority: key is missing (queue gold)"),
        (
            "banks",
            json!({"bank": "A", "priority": "1"}),
            "banks[0].priority: expected number, got string (bank A)",
        ),
        (
            "priority_factors",
            json!({"factor": "bank", "weight": 1.5}),
            "priority_factors[0].weight: expected integer, got real 1.5 (factor bank)",
        ),
        (
            "projects",
            json!({"project": "a\0"}),
            "projects[0].project: contains the character NUL (project a\\0)",
        ),
        (
            "projects",
            json!({"project": 7}),
            "projects[0].project: expected string, got integer 7 (project 7)",
        ),
        ("associations", json!({"bank": "A\nB"}), "associations[0].userid: key is missing (bank A\\nB)"),
        ("associations", json!({}), "associations[0].userid: key is missing"),
    ] {
        assert_eq!(read(array, record), Err(WireError::Record(text.to_owned())));
    }
    let mut long = association_record();
    long["bank"] = json!("x".repeat(100_000));
    long["active"] = json!(null);
    let Err(WireError::Record(text)) = read("associations", long) else { panic!("accepted") };
    assert!(text.len() < 200, "{text}");
}

#[test]
fn each_part_of_a_push_continues_the_record_numbers_in_errors() {
    let mut reader = Reader::default();
    let part = |record: Value| json!({"push": 1, "associations": [association_record(), record]}).to_string();
    assert!(wire::read_policy_part(Some(&part(association_record())), &mut reader).is_ok());
    assert_eq!((reader.associations(), reader.records()), (2, 2));
    let text = "associations[3].active: key is missing (user 5001, bank A)".to_owned();
    let bad = wire::read_policy_part(Some(&part(make_record_without_key("active"))), &mut reader);
    assert_eq!(bad, Err(WireError::Record(text)));
}

#[test]
fn policy_begin_takes_its_options_or_their_defaults() {
    let usual = StagedPushOptions { dry_run: false, keeps_config: false, expires: 60 };
    assert_eq!(wire::read_policy_begin(None), Ok(usual));
    assert_eq!(wire::read_policy_begin(Some("{\"later\":1}")), Ok(usual));
    let all = StagedPushOptions { dry_run: true, keeps_config: true, expires: 5 };
    assert_eq!(wire::read_policy_begin(Some(r#"{"dry_run":true,"keep_config":true,"expires":5}"#)), Ok(all));
    for (payload, text) in [
        (r#"{"expires":0}"#, "policy.expires: expected an integer from 1 to 3600, got integer 0"),
        (r#"{"expires":"1"}"#, "policy.expires: expected an integer from 1 to 3600, got string"),
        (r#"{"dry_run":1}"#, "policy.dry_run: expected boolean, got integer 1"),
    ] {
        assert_eq!(wire::read_policy_begin(Some(payload)), Err(WireError::Record(text.to_owned())));
    }
    assert_eq!(wire::read_push_number(Some(r#"{"push":7}"#)), Ok(7));
    for payload in [r#"{"push":-7}"#, r#"{"push":"7"}"#, "{}"] {
        assert!(matches!(wire::read_push_number(Some(payload)), Err(WireError::Record(_))), "{payload}");
    }
}

#[test]
fn a_page_request_is_parsed_with_start_user_and_limits() {
    let page = |text: &str| read_page(Some(text));
    assert_eq!(read_page(None), Ok(PageFilter { after: None, user: None, most: 1000, most_held: 2000 }));
    assert_eq!(
        page(r#"{"after":[7,"A"],"user":7,"limit":5}"#),
        Ok(PageFilter {
            after: Some((UserId(7), "A".to_owned())),
            user: Some(UserId(7)),
            most: 5,
            most_held: 2000
        })
    );
    assert_eq!(page(r#"{"after":null}"#), read_page(None));
    for (text, fault) in [
        (r#"{"after":7}"#, "after: expected [userid, bank], got integer 7"),
        (r#"{"after":[-1,"A"]}"#, "after: expected [userid, bank], got array"),
        (r#"{"user":"a"}"#, "user: expected a user id, got string"),
        (r#"{"limit":0}"#, "limit: expected an integer from 1 to 1000, got integer 0"),
    ] {
        assert_eq!(page(text), Err(WireError::Record(fault.to_owned())));
    }
}

#[test]
fn an_unknown_load_time_option_is_an_error() {
    for (conf, text) in [
        (
            json!({"confg": {}}),
            "unknown option \"confg\"; known are config, live, refresh, accrual, weights, age-max, max-wait-behind, interleave, \
             running-limits, queues, charge-by, limits, enforce-queue-shapes, budgets, public, annotate, remember",
        ),
        (
            json!({"config": {}, "zero_score": "floor"}),
            "unknown option \"zero_score\"; known are config, live, refresh, accrual, weights, age-max, max-wait-behind, interleave, \
             running-limits, queues, charge-by, limits, enforce-queue-shapes, budgets, public, annotate, remember",
        ),
        (
            json!({"config": {"config": {"zero_scor": "floor"}}}),
            "config.config: unknown switch \"zero_scor\", expected \"deny_unknown_queues\" or \"zero_score\"",
        ),
    ] {
        let read = wire::read_load_config(&conf.to_string(), &mut Reader::default()).map(drop);
        assert_eq!(read, Err(WireError::Record(text.to_owned())), "{conf}");
    }
    // A newer program may have written the document, so an unknown key gives only a warning.
    let mut reader = Reader::default();
    let conf = json!({"config": {"associatons": [], "config": {}}}).to_string();
    assert!(wire::read_load_config(&conf, &mut reader).unwrap().is_some());
    assert_eq!(reader.warnings.take(), ["config: unknown key \"associatons\", ignored"]);
    let push = json!({"data": {"deny_unknown_queues": true, "later": 1}}).to_string();
    assert!(wire::read_config_update(Some(&push), &mut reader).is_ok());
    assert_eq!(reader.warnings.take(), ["config: unknown switch \"later\", ignored"]);
}
