// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of fetching without a Flux instance. `t/t5010-fetch.t` tests the rest.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

use super::archive::build_from_archive;
use super::list::ListedJob;
use super::record::{build_from_lookup, build_record};
use super::*;
use crate::store::ArchivedJob;

fn listed_job() -> ListedJob {
    ListedJob { id: 7, userid: 5001, t_submit: 1.0, t_run: 2.5, t_inactive: 10.0, ranks: "0-1".into() }
}

const SPEC: &str = r#"{"attributes":{"system":{"duration":60,"bank":"A","project":"p"}}}"#;

#[test]
fn a_record_combines_the_list_and_the_lookup() {
    let answer = serde_json::json!({ "id": 7, "R": "{ }", "jobspec": SPEC }).to_string();
    let record = build_from_lookup(listed_job(), &answer).expect("a record");
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
        text_of(build_from_lookup(listed_job(), r#"{"R":"{}"}"#)),
        "job 7: the response of job-info.lookup is invalid: missing field `jobspec` at line 1 column 10"
    );
    assert_eq!(
        text_of(build_from_archive(ArchivedJob { id: "f7".into(), ..ArchivedJob::default() })),
        "job f7: its id is not a number"
    );
    let job = ArchivedJob { id: "9".into(), userid: -1, ..ArchivedJob::default() };
    assert_eq!(text_of(build_from_archive(job)), "job 9: its user id is -1");
}

#[test]
fn updates_in_an_archived_eventlog_are_applied_in_their_order() {
    let line =
        |name: &str, context: &str| format!(r#"{{"timestamp":1,"name":"{name}","context":{context}}}"#);
    let eventlog = [
        line("submit", r#"{"userid":5001}"#),
        line("jobspec-update", r#"{"attributes.system.bank":"B","attributes.system.queue":"q"}"#),
        line("jobspec-update", r#"{"attributes.system.bank":"C"}"#),
        // The duration is not an object, so the change is dropped.
        line("jobspec-update", r#"{"attributes.system.duration.x":1}"#),
        r#"{"timestamp":2,"name":"clean"}"#.to_owned(),
    ]
    .join("\n");
    let job = ArchivedJob { id: "7".into(), jobspec: SPEC.into(), eventlog, ..ArchivedJob::default() };
    let record = build_from_archive(job).expect("a record");
    assert_eq!((record.bank.as_str(), record.requested_duration), ("C", 60.0));
    let spec: serde_json::Value = serde_json::from_str(&record.jobspec).expect("JSON");
    assert_eq!(spec["attributes"]["system"]["queue"], "q");
}

#[test]
fn an_archived_jobspec_without_updates_is_unchanged() {
    let spec = "{ \"attributes\": {\"system\" : {\"bank\":\"A\"}} }";
    let job = ArchivedJob { id: "7".into(), jobspec: spec.into(), ..ArchivedJob::default() };
    assert_eq!(build_from_archive(job).expect("a record").jobspec, spec);
}

/// A database file that is removed after the test.
struct ScratchDatabase(PathBuf);

impl ScratchDatabase {
    fn new(name: &str, sql: &str) -> ScratchDatabase {
        let path = std::env::temp_dir().join(format!("fetch-{name}-{}.sqlite", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Connection::open(&path).and_then(|db| db.execute_batch(sql)).expect("a scratch database");
        ScratchDatabase(path)
    }
}

impl Drop for ScratchDatabase {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn read_scratch(scratch: &ScratchDatabase) -> (Result<Fetched, String>, Vec<usize>, Vec<u64>) {
    let (mut batches, mut ids) = (Vec::new(), Vec::new());
    let fetched = read_archive(
        &scratch.0,
        Duration::ZERO,
        &mut |batch| {
            batches.push(batch.len());
            ids.extend(batch.iter().map(|record| record.id));
            Ok(())
        },
        &mut |_, _| (),
    );
    (fetched.map_err(|error| error.to_string()), batches, ids)
}

const ARCHIVE: &str =
    "CREATE TABLE jobs (id char(16) PRIMARY KEY, userid int, ranks text, t_submit real, t_run real,
    t_cleanup real, t_inactive real, eventlog text, jobspec text, R text);";

#[test]
fn an_archive_is_read_in_batches_without_jobs_that_never_ran() {
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
        INSERT INTO jobs SELECT i, 5001, '0', i, iif(i % 10 = 0, 0.0, i + 1), i + 2, i + 2, '', '{}',
        iif(i % 10 = 5, '', '{}') FROM n; UPDATE jobs SET jobspec = 'x' WHERE id = 2002";
    let scratch = ScratchDatabase::new("batches", &format!("{ARCHIVE}{fill}"));
    let (fetched, batches, ids) = read_scratch(&scratch);
    let fetched = fetched.expect("an archive");
    assert_eq!((fetched.records, fetched.never_ran), (1999, 500));
    assert_eq!(batches, [1000, 999]);
    assert_eq!(fetched.unreadable.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["2002"]);
    assert!(ids.iter().all(|id| ![0, 5].contains(&(id % 10))));
}

#[test]
fn the_error_about_another_database_names_the_missing_columns() {
    let scratch = ScratchDatabase::new("other", "CREATE TABLE jobs (id text, userid int)");
    let (fetched, ..) = read_scratch(&scratch);
    let text = fetched.expect_err("no archive");
    assert!(
        text.ends_with("not a job archive: table jobs has no t_submit, t_run, t_inactive, ranks, R, jobspec"),
        "{text}"
    );
}
