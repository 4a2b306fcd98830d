// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of fetching without a Flux instance. `t/t5010-fetch.t` tests fetching from an instance.

use super::list::ListedJob;
use super::record::{build_record, build_record_from_job_info};
use super::*;

fn listed_job() -> ListedJob {
    ListedJob {
        id: 7,
        userid: 5001,
        t_submit: 1.0,
        t_run: Some(2.5),
        t_inactive: 10.0,
        ranks: Some("0-1".into()),
    }
}

const SPEC: &str = r#"{"attributes":{"system":{"duration":60,"bank":"A","project":"p"}}}"#;

#[test]
fn a_job_record_combines_the_answers_of_job_list_and_job_info() {
    let answer = serde_json::json!({ "id": 7, "R": "{ }", "jobspec": SPEC }).to_string();
    let record = build_record_from_job_info(listed_job(), &answer).expect("a record");
    let expected = JobRecord {
        id: 7,
        userid: 5001,
        t_submit: 1.0,
        t_run: 2.5,
        t_inactive: 10.0,
        ranks: "0-1".to_owned(),
        r: "{ }".to_owned(),
        jobspec: SPEC.to_owned(),
        project: "p".to_owned(),
        bank: "A".to_owned(),
        requested_duration: 60.0,
        actual_duration: 7.5,
    };
    assert_eq!(record, expected);
}

#[test]
fn missing_fields_of_a_jobspec_are_empty() {
    for spec in ["{}", r#"{"attributes":{}}"#, r#"{"attributes":{"system":{"bank":null}}}"#] {
        let record = build_record(listed_job(), String::new(), spec.to_owned()).expect(spec);
        assert_eq!((record.bank.as_str(), record.project.as_str()), ("", ""), "{spec}");
        assert_eq!(record.requested_duration, 0.0, "{spec}");
    }
}

#[test]
fn the_error_about_an_unreadable_record_names_the_job() {
    let text_of = |result: Result<JobRecord, Unreadable>| result.expect_err("unreadable").to_string();
    assert_eq!(
        text_of(build_record(listed_job(), String::new(), "{".to_owned())),
        "job 7: its jobspec: EOF while parsing an object at line 1 column 1"
    );
    assert_eq!(
        text_of(build_record_from_job_info(listed_job(), r#"{"R":"{}"}"#)),
        "job 7: the response of job-info.lookup is invalid: missing field `jobspec` at line 1 column 10"
    );
}
