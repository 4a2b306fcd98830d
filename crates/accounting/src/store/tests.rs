// SPDX-License-Identifier: LGPL-3.0-only
//! All reads of a snapshot see the same state of the database.

use std::time::Duration;

use rusqlite::Connection;

use super::{Access, Database, Fault, Reason, Snapshot, StoreError, StoredLimit, Which};

const SCHEMA: &str = "
    CREATE TABLE association_table (username, userid, bank, default_bank, shares, job_usage, fairshare);
    CREATE TABLE bank_table (bank, parent_bank, job_usage);
    CREATE TABLE job_usage_factor_table (username, userid, bank, last_job_timestamp);
    CREATE TABLE job_usage_per_association_table (username, userid, bank, period, value);
    CREATE TABLE jobs (id, userid, t_submit, t_run, t_inactive, ranks, R, jobspec);";

type Reading<'a> = &'a dyn Fn(&Snapshot<'_>) -> Result<(), StoreError>;

#[test]
fn reads_without_locks_are_checked_for_changes_afterwards() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("unlocked.db");
    Connection::open(&path).and_then(|database| database.execute_batch(SCHEMA)).expect("a database");
    let readings: [(&str, Reading<'_>); 3] = [
        ("associations", &|snapshot| snapshot.ledger(&mut |_| ()).map(drop)),
        ("bins", &|snapshot| snapshot.bins(&super::Ledger::default()).map(drop)),
        ("records", &|snapshot| snapshot.ended_jobs(Which::All, &mut |_| ())),
    ];
    for (what, read) in readings {
        let mut database = Database::open(&path, Access::Read, Duration::ZERO).expect("a database");
        read(&database.snapshot().expect("a snapshot")).expect(what);
        // Sets the stored size of the file to 0, as if another process had changed a file that is read
        // without locks.
        database.opened.unlocked = Some((0, None));
        let error = read(&database.snapshot().expect("a snapshot")).expect_err(what);
        assert!(
            error.to_string().contains("another process wrote to the database during the read"),
            "{what}: {error}"
        );
    }
}

/// A database has an invalid limit `run-jobs` of bank A in queue q, and a valid one in all queues.
#[test]
fn the_remedy_for_an_invalid_limit_leaves_the_limits_of_other_queues() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("limits.db");
    Connection::open(&path).and_then(|database| database.execute_batch(SCHEMA)).expect("a database");
    let mut database = Database::open(&path, Access::Write, Duration::ZERO).expect("a database");
    let limit = |queue: &str, value| StoredLimit {
        scope: "bank".to_owned(),
        name: "A".to_owned(),
        queue: queue.to_owned(),
        measure: "run-jobs".to_owned(),
        value,
        is_given: false,
    };
    let snapshot = database.snapshot().expect("a snapshot");
    for limit in [limit("", 5), limit("q", -7)] {
        snapshot.set_limit(&limit).expect("stored");
    }
    let error = snapshot.read_limit_records().expect_err("a limit below 0");
    let Reason::Value(Fault { problem, remedy: Some(remedy) }) = error.reason else { panic!("{error}") };
    assert_eq!(problem, "fairshare_limit_table: bank A: value is -7, expected a whole number >= 0");
    let statement = remedy.split('"').nth(1).expect("a statement");
    assert_eq!(snapshot.transaction.execute(statement, []), Ok(1));
    assert_eq!(snapshot.stored_limits(), Ok(vec![limit("", 5)]));
}

#[test]
fn the_decay_ends_with_the_period_of_the_cluster_that_flux_accounting_uses() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("clusters.db");
    let periods = "CREATE TABLE t_half_life_period_table (cluster, end_half_life_period);
                   INSERT INTO t_half_life_period_table VALUES ('another', 7.0), ('cluster', 9.0);";
    let all = format!("{SCHEMA} {periods}");
    Connection::open(&path).and_then(|database| database.execute_batch(&all)).expect("a database");
    let mut database = Database::open(&path, Access::Read, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    assert_eq!(snapshot.pace().expect("a decay").boundary, Some(9.0));
    let settings = snapshot.usage_settings().expect("settings");
    assert_eq!(settings.period_end, 9.0);
}

#[test]
fn a_limit_in_the_oldest_schema_is_refused_with_the_names_of_missing_columns() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("oldest.db");
    let schema = "CREATE TABLE association_table (user_name, account, parent_acct, shares);";
    Connection::open(&path).and_then(|database| database.execute_batch(schema)).expect("a database");
    let mut database = Database::open(&path, Access::Read, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let association = snapshot.has_user("alice", Some("A")).expect_err("no column username");
    let user = snapshot.user_ids().expect_err("no column userid");
    let bank = snapshot.has_bank("A").expect_err("no table");
    for (error, missing) in [
        (association, "table association_table has no columns username, bank"),
        (user, "table association_table has no columns username, userid"),
        (bank, "no table bank_table"),
    ] {
        let Reason::Schema(fault) = error.reason else { panic!("{error}") };
        assert!(fault.problem.contains(missing), "{fault}");
        assert!(fault.remedy.is_some_and(|remedy| remedy.contains("flux account-update-db")));
    }
}
