// SPDX-License-Identifier: LGPL-3.0-only
//! All reads of a snapshot see the same state of the database.

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
        database.unlocked = Some((0, None));
        let error = read(&database.snapshot().expect("a snapshot")).expect_err(what);
        assert!(
            error.to_string().contains("another process wrote to the database during the read"),
            "{what}: {error}"
        );
    }
}
