// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that parse payloads, and check the error texts of invalid payloads.
//! Rules: D9

use super::jobspec::read_history;
use fairshare_engine::accounts::{ConfigPatch, ZeroScore};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::records::{FactorRecord, ProjectRecord, QueueRecord};
use fairshare_protocol::wire::{self, WireError};
use serde_json::{Value, json};

mod parts;
mod tree;

fn association_record() -> Value {
    json!({
        "userid": 5001, "bank": "A", "def_bank": "A", "fairshare": 0.5, "max_running_jobs": 5,
        "max_active_jobs": 7, "max_sched_jobs": 3, "max_nodes": 2147483647, "max_cores": 2147483647,
        "queues": " gold, ,silver,", "projects": "*", "def_project": "*", "active": 1, "extra": [1],
    })
}

fn make_record_with_field(key: &str, value: Value) -> Value {
    let mut record = association_record();
    record[key] = value;
    record
}

fn make_record_without_key(key: &str) -> Value {
    let mut record = association_record();
    record.as_object_mut().unwrap().remove(key);
    record
}

fn count_records(records: Value) -> Result<usize, WireError> {
    let payload = json!({ "data": records }).to_string();
    wire::read_associations(Some(&payload), &mut Reader::default()).map(|records| records.len())
}

#[test]
fn an_association_is_read_with_all_its_values() {
    let payload = json!({"data": [association_record()]}).to_string();
    let records = wire::read_associations(Some(&payload), &mut Reader::default()).unwrap();
    let association = &records[0].association;
    assert_eq!(association.queues.iter().map(|q| q.as_str()).collect::<Vec<_>>(), ["gold", "silver"]);
    assert_eq!(
        (association.user.0, association.max_running_jobs.0, association.max_nodes.0),
        (5001, 5, 2_147_483_647)
    );
    assert!(association.active && association.is_default_project("*"));
}

#[test]
fn an_error_names_the_record_the_key_and_the_fault() {
    let good = association_record;
    for (records, text) in [
        (
            json!([good(), make_record_with_field("max_nodes", json!("7"))]),
            "associations[1].max_nodes: expected integer, got string (user 5001, bank A)",
        ),
        (
            json!([make_record_without_key("queues")]),
            "associations[0].queues: key is missing (user 5001, bank A)",
        ),
        (json!([7]), "associations[0]: expected object, got integer 7"),
        (
            json!([[5001, "A", "A", 0.5, 1, 1, 1, 1, 1, "", "*", "*", 1]]),
            "associations[0]: expected object, got array",
        ),
        (
            json!([make_record_with_field("bank", json!("a\0b"))]),
            "associations[0].bank: contains the character NUL (user 5001, bank a\\0b)",
        ),
        (
            json!([make_record_with_field("queues", json!("a,\0"))]),
            "associations[0].queues: contains the character NUL (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("def_project", json!("\0"))]),
            "associations[0].def_project: contains the character NUL (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("userid", json!(1.5))]),
            "associations[0].userid: expected integer, got real 1.5 (bank A)",
        ),
        (
            json!([make_record_with_field("def_bank", json!(""))]),
            "associations[0].def_bank: expected a name, got an empty string; \
             \"flux account edit-user --default-bank=BANK USER\" sets one (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("max_cores", json!(1.5))]),
            "associations[0].max_cores: expected integer, got real 1.5 (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("max_cores", json!(9_223_372_036_854_775_808u64))]),
            "associations[0].max_cores: expected integer, got integer 9223372036854775808, which is beyond 64 bits (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("active", json!(true))]),
            "associations[0].active: expected integer, got boolean true (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("bank", json!(""))]),
            "associations[0].bank: expected a name, got an empty string; \
             \"flux account delete-user --force USER ''\" removes it (user 5001)",
        ),
        (
            json!([make_record_with_field("fairshare", json!(null))]),
            "associations[0].fairshare: expected number, got null (user 5001, bank A)",
        ),
    ] {
        assert_eq!(count_records(records.clone()), Err(WireError::Record(text.to_owned())), "{records}");
    }
    assert_eq!(count_records(json!([good(), make_record_with_field("fairshare", json!(1))])), Ok(2));
    assert_eq!(count_records(json!([])), Ok(0));
}

#[test]
fn a_record_with_a_userid_that_no_job_can_have_is_ignored_with_a_warning() {
    for userid in
        ["-1", "-3", "4294967295", "4294967296", "9223372036854775808", "-1e30", "1180591620717411303424"]
    {
        let record =
            association_record().to_string().replace("\"userid\":5001", &format!("\"userid\":{userid}"));
        let good = association_record();
        let named =
            record.replacen('{', "{\"username\":\"ann\",\"shares\":1,\"usage\":7,\"counted_until\":0,", 1);
        let payload = format!("{{\"data\":[{record},{good},{named}]}}");
        let mut reader = Reader::default();
        let records = wire::read_associations(Some(&payload), &mut reader).unwrap();
        assert_eq!(records.iter().map(|it| it.association.user.0).collect::<Vec<_>>(), [5001], "{userid}");
        let warnings = reader.warnings.take();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(
            warnings[0].starts_with("associations[0].userid: -")
                || warnings[0].starts_with("associations[0].userid: 4")
                || warnings[0].starts_with("associations[0].userid: 9")
        );
        assert!(warnings[0].contains("no job can match userid "), "{warnings:?}");
        assert!(warnings[1].contains("no job can match user ann in bank A"), "{warnings:?}");
        let part = format!("{{\"associations\":[{record},{named}]}}");
        let (part, site) = wire::read_policy_part(Some(&part), &mut Reader::default()).unwrap();
        assert_eq!((part.associations, part.arrays), (Vec::new(), ["associations"].into()));
        let leaves =
            site.associations.iter().map(|leaf| (leaf.user, &*leaf.name, leaf.usage)).collect::<Vec<_>>();
        assert_eq!(leaves, [(None, "ann", Some(7.0))], "the leaf stays in the tree: plugin 3.6 #4");
    }
    for userid in ["1e3", "-0.0", "null", "\"1\"", "1.5"] {
        let record =
            association_record().to_string().replace("\"userid\":5001", &format!("\"userid\":{userid}"));
        assert!(
            wire::read_associations(Some(&format!("{{\"data\":[{record}]}}")), &mut Reader::default())
                .is_err(),
            "{userid}"
        );
    }
}

#[test]
fn an_undecodable_payload_and_a_wrong_type_give_different_errors() {
    for (payload, text) in [
        (None, "there is no payload"),
        (Some(""), "EOF while parsing a value at line 1 column 0"),
        (Some("{"), "EOF while parsing an object at line 1 column 1"),
        (Some("[]"), "expected an object, got array"),
        (Some("[[[\"p\"]]]"), "expected an object, got array"),
        (Some("7"), "expected an object, got integer 7"),
        (Some("{}"), "the key \"data\" is missing"),
    ] {
        let fault = WireError::Undecodable(text.to_owned());
        assert_eq!(
            wire::read_associations(payload, &mut Reader::default()),
            Err(fault.clone()),
            "{payload:?}"
        );
        assert_eq!(
            wire::read_table::<ProjectRecord>(payload, &mut Reader::default()),
            Err(fault.clone()),
            "{payload:?}"
        );
        assert_eq!(wire::read_config_update(payload, &mut Reader::default()), Err(fault), "{payload:?}");
    }
    for data in [json!(null), json!({}), json!("x"), json!(3)] {
        let payload = json!({ "data": data }).to_string();
        assert_eq!(
            wire::read_table::<QueueRecord>(Some(&payload), &mut Reader::default()),
            Err(WireError::WrongType("queues"))
        );
        let is_object = data.is_object();
        assert_eq!(
            wire::read_config_update(Some(&payload), &mut Reader::default()).is_ok(),
            is_object,
            "{payload}"
        );
    }
}

#[test]
fn the_last_of_several_equal_keys_of_a_record_counts() {
    let text = association_record().to_string().replacen('{', "{\"max_nodes\":1,", 1);
    let payload = format!("{{\"data\":[{text}]}}");
    let records = wire::read_associations(Some(&payload), &mut Reader::default()).unwrap();
    assert_eq!(records[0].association.max_nodes.0, 2_147_483_647);
}

/// Returns the warnings about a push of `records`, and the number of omitted warnings.
fn collect_warnings(records: Value) -> (Vec<String>, usize) {
    let mut reader = Reader::default();
    assert!(wire::read_associations(Some(&json!({ "data": records }).to_string()), &mut reader).is_ok());
    (reader.warnings.take(), reader.warnings.omitted())
}

#[test]
fn negative_limits_are_accepted_with_a_warning() {
    for (records, text) in [
        (
            json!([association_record(), make_record_with_field("max_cores", json!(-3))]),
            "associations[1].max_cores: negative limit -3 admits nothing (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("max_active_jobs", json!(-1))]),
            "associations[0].max_active_jobs: negative limit -1 means unlimited, as 0 does (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("max_running_jobs", json!(-1))]),
            "associations[0].max_running_jobs: negative limit -1 ends each job (user 5001, bank A)",
        ),
        (
            json!([make_record_with_field("max_running_jobs", json!(-2))]),
            "associations[0].max_running_jobs: negative limit -2 admits nothing (user 5001, bank A)",
        ),
    ] {
        assert_eq!(collect_warnings(records), (vec![text.to_owned()], 0));
    }
    let many: Vec<Value> = (0..25).map(|_| make_record_with_field("max_nodes", json!(-1))).collect();
    let (warnings, omitted) = collect_warnings(json!(many));
    assert_eq!((warnings.len(), omitted), (10, 15));
}

#[test]
fn records_and_payloads_must_be_objects() {
    let payload_of = |data: &str| format!("{{\"data\":[{data}]}}");
    for positional in ["[\"p\"]", "[\"A\",1]"] {
        let text = |array| Err(format!("{array}[0]: expected object, got array"));
        let error_text = |fault| match fault {
            WireError::Record(text) => text,
            other => format!("{other:?}"),
        };
        let payload = payload_of(positional);
        assert_eq!(
            wire::read_table::<ProjectRecord>(Some(&payload), &mut Reader::default())
                .map(drop)
                .map_err(error_text),
            text("projects")
        );
        assert_eq!(
            wire::read_banks(Some(&payload), &mut Reader::default()).map(drop).map_err(error_text),
            text("banks")
        );
        assert_eq!(
            wire::read_table::<FactorRecord>(Some(&payload), &mut Reader::default())
                .map(drop)
                .map_err(error_text),
            text("priority_factors")
        );
        assert_eq!(
            wire::read_table::<QueueRecord>(Some(&payload), &mut Reader::default())
                .map(drop)
                .map_err(error_text),
            text("queues")
        );
    }
}

#[test]
fn an_unknown_key_may_have_a_value_of_any_depth() {
    let deep = format!("{}{}", "[".repeat(2000), "]".repeat(2000));
    let record = association_record().to_string().replacen('{', &format!("{{\"later\":{deep},"), 1);
    let update = |record: &str| {
        wire::read_associations(
            Some(&format!("{{\"later\":{deep},\"data\":[{record}]}}")),
            &mut Reader::default(),
        )
    };
    assert_eq!(update(&record).map(|records| records.len()), Ok(1));
    let bad = record.replace("\"max_nodes\":2147483647", "\"max_nodes\":\"x\"");
    let text = "associations[0].max_nodes: expected integer, got string (user 5001, bank A)".to_owned();
    assert_eq!(update(&bad), Err(WireError::Record(text)));
    let conf = format!("{{\"config\":{{\"later\":{deep},\"associations\":[{record}]}}}}");
    let policy = wire::read_load_config(&conf, &mut Reader::default()).unwrap().unwrap();
    assert_eq!(policy.0.associations.len(), 1);
    let wrong = format!("{{\"data\":[{{\"project\":{deep}}}]}}");
    let text = "projects[0].project: expected string, got array".to_owned();
    assert_eq!(
        wire::read_table::<ProjectRecord>(Some(&wrong), &mut Reader::default()),
        Err(WireError::Record(text))
    );
}

#[test]
fn a_dry_run_is_recognized_inside_and_outside_of_the_data_object() {
    let parts = "\"associations\":[],\"queues\":[],\"projects\":[],\"banks\":[],\"priority_factors\":[]";
    for (payload, dry_run) in [
        (format!("{{{parts}}}"), Ok(false)),
        (format!("{{{parts},\"dry_run\":true}}"), Ok(true)),
        (format!("{{\"data\":{{{parts}}},\"dry_run\":true}}"), Ok(true)),
        (format!("{{\"data\":{{{parts},\"dry_run\":true}}}}"), Ok(true)),
        (format!("{{\"data\":{{{parts},\"dry_run\":false}},\"dry_run\":true}}"), Ok(true)),
        (
            format!("{{\"data\":{{{parts}}},\"dry_run\":\"yes\"}}"),
            Err(WireError::Record("policy.dry_run: expected boolean, got string".to_owned())),
        ),
    ] {
        let read =
            wire::read_policy_update(Some(&payload), &mut Reader::default()).map(|(_, dry_run)| dry_run);
        assert_eq!(read, dry_run, "{payload}");
    }
}

#[test]
fn an_error_quotes_the_beginning_of_a_long_value() {
    let long = "x".repeat(1_000_000);
    let payload = json!({"data": {"zero_score": long}}).to_string();
    let Err(WireError::Record(text)) = wire::read_config_update(Some(&payload), &mut Reader::default())
    else {
        panic!("accepted")
    };
    assert!(text.starts_with("zero_score: expected \"hold\" or \"floor\", got \"xxx") && text.len() < 200);
    let digits = format!("{{\"data\":[{{\"factor\":\"bank\",\"weight\":{}}}]}}", "9".repeat(1_000_000));
    let Err(WireError::Record(text)) =
        wire::read_table::<FactorRecord>(Some(&digits), &mut Reader::default())
    else {
        panic!("accepted")
    };
    assert!(text.starts_with("priority_factors[0].weight: expected integer, got integer 9999"), "{text}");
    assert!(text.ends_with(", which is beyond 64 bits (factor bank)") && text.len() < 200, "{text}");
}

#[test]
fn configuration_settings_accept_booleans_and_the_words_floor_and_hold() {
    let config = |data: Value| {
        wire::read_config_update(Some(&json!({ "data": data }).to_string()), &mut Reader::default())
    };
    let nothing = ConfigPatch::default();
    for (data, patch) in [
        (json!({}), nothing),
        (json!({"other": 1}), nothing),
        (json!({"deny_unknown_queues": true}), ConfigPatch { deny_unknown_queues: Some(true), ..nothing }),
        (json!({"deny_unknown_queues": false}), ConfigPatch { deny_unknown_queues: Some(false), ..nothing }),
        (json!({"zero_score": "floor"}), ConfigPatch { zero_score: Some(ZeroScore::Floor), ..nothing }),
        (json!({"zero_score": "hold"}), ConfigPatch { zero_score: Some(ZeroScore::Hold), ..nothing }),
    ] {
        assert_eq!(config(data), Ok(patch));
    }
    for (data, text) in [
        (json!({"deny_unknown_queues": 1}), "deny_unknown_queues: expected boolean, got integer 1"),
        (json!({"deny_unknown_queues": "true"}), "deny_unknown_queues: expected boolean, got string"),
        (json!({"zero_score": "none"}), "zero_score: expected \"hold\" or \"floor\", got \"none\""),
    ] {
        assert_eq!(config(data), Err(WireError::Record(text.to_owned())));
    }
}

#[test]
fn a_push_needs_all_arrays_and_a_load_time_document_does_not() {
    let whole = json!({
        "associations": [association_record()], "queues": [], "projects": [{"project": "*"}],
        "banks": [{"bank": "A", "priority": 2}], "priority_factors": [{"factor": "bank", "weight": 3}],
        "config": {"deny_unknown_queues": true}, "dry_run": true, "later": 1,
    });
    let update = |data: &Value| {
        wire::read_policy_update(Some(&json!({ "data": data }).to_string()), &mut Reader::default())
            .map(|(_, dry)| dry)
    };
    assert_eq!(update(&whole), Ok(true));
    let bare = wire::read_policy_update(Some(&whole.to_string()), &mut Reader::default());
    assert_eq!(bare.map(|(_, dry)| dry), Ok(true));
    assert_eq!(update(&json!(3)), Err(WireError::WrongType("policy")));
    let mut lacking = whole.clone();
    lacking.as_object_mut().unwrap().remove("banks");
    assert_eq!(update(&lacking), Err(WireError::Record("policy.banks: key is missing".to_owned())));
    let load = |conf: Value| wire::read_load_config(&conf.to_string(), &mut Reader::default());
    assert!(load(json!({"config": lacking})).unwrap().is_some());
    assert!(load(json!({})).unwrap().is_none());
    assert!(load(json!({"config": 7})).is_err());
    assert!(load(json!({"config": {"config": 7}})).is_err());
    assert!(load(json!({"config": {"queues": [{}]}})).is_err());
}

#[test]
fn an_eventlog_gives_the_dependencies_added_and_removed() {
    let log = concat!(
        "{\"timestamp\":1.0,\"name\":\"submit\",\"context\":{\"userid\":1}}\n",
        "{\"timestamp\":1.0,\"name\":\"dependency-add\",\"context\":{\"description\":\"max-run-jobs-queue\"}}\n",
        "{\"timestamp\":1.0,\"name\":\"memo\",\"context\":{\"x\":\"dependency-add\"}}\n",
        "{\"timestamp\":1.0,\"name\":\"dependency-remove\",\"context\":{\"description\":\"max-run-jobs-queue\"}}\n",
        "not json \"dependency-add\"\n",
    );
    let name = || "max-run-jobs-queue".to_owned();
    let dependencies = read_history(log).into_iter().filter_map(|(_, past)| past.dependency());
    assert_eq!(dependencies.collect::<Vec<_>>(), [(name(), true), (name(), false)]);
}

/// Returns the error text of a rejected payload.
fn error_text(fault: WireError) -> String {
    match fault {
        WireError::Undecodable(text) | WireError::Record(text) => text,
        WireError::WrongType(what) => what.to_owned(),
    }
}

proptest::proptest! {
    /// A payload with a few characters replaced, inserted or removed is either accepted or rejected with a short text.
    /// An accepted name cannot break the JSON of the query.
    #[test]
    fn a_damaged_payload_is_accepted_or_rejected_with_a_short_error(
        edits in proptest::collection::vec((0usize..600, 0u8..3, "[0-9{}\\[\\]\",:.eE+nulx\\\\-]"), 1..6),
    ) {
        let mut text: Vec<char> = json!({"data": [association_record(), association_record()]}).to_string().chars().collect();
        for (at, kind, with) in edits {
            let at = at % text.len();
            let with: Vec<char> = with.chars().collect();
            match kind {
                0 => drop(text.splice(at..=at, with)),
                1 => drop(text.splice(at..at, with)),
                _ => drop(text.remove(at)),
            }
        }
        let payload: String = text.into_iter().collect();
        match wire::read_associations(Some(&payload), &mut Reader::default()) {
            Ok(records) => {
                for record in records {
                    let shown = format!("{:?}", record.association);
                    proptest::prop_assert!(!shown.contains("\\0") && record.fairshare.is_finite());
                }
            }
            Err(fault) => {
                let text = error_text(fault);
                proptest::prop_assert!(!text.is_empty() && text.len() < 500, "{} for {}", text, payload);
            }
        }
    }
}
