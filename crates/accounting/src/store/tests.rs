// SPDX-License-Identifier: LGPL-3.0-only
//! What a snapshot promises of all that is read through it.

use std::time::Duration;

use rusqlite::Connection;

use super::{Access, Database, Snapshot, StoreError, Which};

const SCHEMA: &str = "
    CREATE TABLE association_table (username, userid, bank, default_bank, shares, job_usage, fairshare);
    CREATE TABLE bank_table (bank, parent_bank, job_usage);
    CREATE TABLE job_usage_factor_table (username, userid, bank, last_job_timestamp);
    CREATE TABLE job_usage_per_association_table (username, userid, bank, period, value);
    CREATE TABLE jobs (id, userid, t_submit, t_run, t_inactive, ranks, R, jobspec);";

type Reading<'a> = &'a dyn Fn(&Snapshot<'_>) -> Result<(), StoreError>;

#[test]
fn whatever_is_read_without_locks_is_checked_when_it_was_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("unlocked.db");
    Connection::open(&path).and_then(|database| database.execute_batch(SCHEMA)).expect("a database");
    let readings: [(&str, Reading<'_>); 4] = [
        ("associations", &|snapshot| snapshot.ledger(&mut |_| ()).map(drop)),
        ("bins", &|snapshot| snapshot.bins(&super::Ledger::default()).map(drop)),
        ("records", &|snapshot| snapshot.ended_jobs(Which::All, &mut |_| ())),
        ("history", &|snapshot| snapshot.past_jobs(&mut |_| ())),
    ];
    for (what, read) in readings {
        let mut database = Database::open(&path, Access::Read, Duration::ZERO).expect("a database");
        read(&database.snapshot().expect("a snapshot")).expect(what);
        // As of a file that was read without locks and has another size now.
        database.unlocked = Some((0, None));
        let error = read(&database.snapshot().expect("a snapshot")).expect_err(what);
        assert!(error.to_string().contains("it was written to meanwhile"), "{what}: {error}");
    }
}
