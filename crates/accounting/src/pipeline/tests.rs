// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the pipeline on small databases, with histories in any order, and with other programs that write
//! between two runs.

mod again;
mod budgets;
mod charges;
mod clock;
mod continuous;
mod credits;
mod hands;
mod history;
mod running;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

use super::credits::set_usage;
use super::{PipelineError, Plan, Recount, Rule, StoredPeriods, Tally};
use crate::store::{Access, Credit, Database};

/// The tables and columns that counting usage needs.
const SCHEMA: &str = "
    CREATE TABLE association_table (
        active int DEFAULT 1, username text, userid int, bank text, default_bank text, shares int DEFAULT 1,
        job_usage real DEFAULT 0.0, fairshare real DEFAULT 0.5, PRIMARY KEY (username, bank));
    CREATE TABLE bank_table (
        bank_id integer PRIMARY KEY, bank text, active int DEFAULT 1, parent_bank text DEFAULT '', shares int DEFAULT 1,
        job_usage real DEFAULT 0.0, ignore_older_than int DEFAULT 0);
    CREATE TABLE job_usage_factor_table (
        username text, userid int, bank text, last_job_timestamp real DEFAULT 0.0, PRIMARY KEY (username, bank));
    CREATE TABLE job_usage_per_association_table (
        username text, userid int, bank text, period int, value real DEFAULT 0.0, PRIMARY KEY (username, bank, period));
    CREATE TABLE t_half_life_period_table (cluster text DEFAULT 'cluster', end_half_life_period real DEFAULT 0.0);
    CREATE TABLE config_table (key text PRIMARY KEY, value text);
    CREATE TABLE jobs (
        id char(16) PRIMARY KEY NOT NULL, userid integer, t_submit real, t_run real, t_inactive real, ranks text, R text,
        jobspec text, project text, bank text, requested_duration real DEFAULT 0.0, actual_duration real DEFAULT 0.0);
    INSERT INTO bank_table (bank) VALUES ('root');
    INSERT INTO bank_table (bank, parent_bank) VALUES ('A', 'root'), ('B', 'root');
";

/// Half-life of the test sites in seconds.
const H: f64 = 1000.0;
/// End of the first period of the test sites.
const END: f64 = 50_000.0 + H;

/// A database file that is removed after the test.
struct Site {
    path: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Site {
    /// Makes a site whose first period ends at [`END`], with users 1, 2 and 3 in banks A, A and B, and four periods.
    fn new(name: &str) -> Site {
        // The file is in memory if possible, because these tests need no disk.
        let memory = PathBuf::from("/dev/shm");
        let directory = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let path = directory.join(format!("fairshare-{name}-{}.db", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let site = Site { path };
        site.run_sql(SCHEMA);
        site.run_sql(&format!(
            "INSERT INTO config_table VALUES ('priority_decay_half_life', '{H}'),
                 ('priority_usage_reset_period', '{}'), ('decay_factor', '0.5');
             INSERT INTO t_half_life_period_table VALUES ('cluster', {END})",
            4.0 * H
        ));
        for (user, bank) in [(1, "A"), (2, "A"), (3, "B")] {
            site.add_user(user, bank);
        }
        site
    }

    /// Converts the site to an older schema, which has a column for each of `periods` and no table of bins.
    fn use_bin_columns(&self, periods: usize) {
        self.run_sql("DROP TABLE job_usage_per_association_table");
        for period in 0..periods {
            let column = format!("usage_factor_period_{period} real DEFAULT 0.0");
            self.run_sql(&format!("ALTER TABLE job_usage_factor_table ADD COLUMN {column}"));
        }
    }

    fn add_user(&self, user: i64, bank: &str) {
        self.run_sql(&format!(
            "INSERT INTO association_table (username, userid, bank, default_bank) VALUES ('u{user}', {user}, '{bank}', '{bank}');
             INSERT OR IGNORE INTO job_usage_factor_table (username, userid, bank) VALUES ('u{user}', {user}, '{bank}');
             INSERT OR IGNORE INTO job_usage_per_association_table (username, userid, bank, period)
                 SELECT 'u{user}', {user}, '{bank}', value FROM json_each('[0, 1, 2, 3]')"
        ));
    }

    fn run_sql(&self, sql: &str) {
        let connection = Connection::open(&self.path).expect("a database");
        connection.execute_batch(sql).expect(sql);
    }

    /// Adds the record of a job of one node that ended at `ended` and ran for `used` seconds.
    fn add_job(&self, id: u64, user: i64, bank: &str, ended: f64, used: f64) {
        let connection = Connection::open(&self.path).expect("a database");
        let r = r#"{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-3"}}]}}"#;
        connection
            .execute(
                "INSERT OR IGNORE INTO jobs VALUES (?1, ?2, 0, ?3, ?4, '0', ?5, '{}', '', ?6, 0, 0)",
                (id.to_string(), user, ended - used, ended, r, bank),
            )
            .expect("a job");
    }

    /// Adds a credit of `usage` that counts from the time `from`.
    fn add_credit(&self, user: i64, bank: &str, usage: f64, from: f64) {
        let credit = Credit {
            user: format!("u{user}"),
            bank: bank.to_owned(),
            usage,
            live_usage: usage,
            from,
            ..Credit::default()
        };
        self.store_usage_credit(&credit);
    }

    fn store_usage_credit(&self, credit: &Credit) {
        let mut database = Database::open(&self.path, Access::Write, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        snapshot.add_credit(credit).expect("a credit");
        snapshot.commit().expect("stored");
    }

    /// Changes the usage of a user to `amount`.
    fn set_usage(&self, user: i64, bank: &str, amount: f64, now: f64) {
        let mut database = Database::open(&self.path, Access::Write, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        let credit = set_usage(&snapshot, &format!("u{user}"), bank, amount, now).expect("a credit");
        drop(snapshot);
        self.store_usage_credit(&credit);
    }

    /// Runs a sync with the default rule for counting usage, and stores the result.
    fn run(&self, now: f64) -> Result<Tally, PipelineError> {
        self.run_sync_with_usage_rule(Rule::Exact, now)
    }

    fn run_sync_with_usage_rule(&self, rule: Rule, now: f64) -> Result<Tally, PipelineError> {
        let mut database = Database::open(&self.path, Access::Write, Duration::ZERO)?;
        let snapshot = database.snapshot()?;
        let plan = Plan::new(&snapshot, rule, now, &mut |_| ())?;
        plan.write(&snapshot, &mut |_| ())?;
        snapshot.commit()?;
        Ok(plan.tally)
    }

    /// Recounts all usage and stores the result.
    fn recount(&self, now: f64) -> Result<Recount, PipelineError> {
        let mut database = Database::open(&self.path, Access::Write, Duration::ZERO)?;
        let snapshot = database.snapshot()?;
        let recount = Recount::new(&snapshot, now, &mut |_| ())?;
        recount.plan.write(&snapshot, &mut |_| ())?;
        snapshot.commit()?;
        Ok(recount)
    }

    /// Returns the stored usage of users 1, 2 and 3.
    fn usages(&self) -> Vec<f64> {
        self.run_query_for_numbers("SELECT job_usage FROM association_table ORDER BY userid")
    }

    /// Returns the stored bins of the user with id `user`.
    fn bins(&self, user: i64) -> Vec<f64> {
        self.run_query_for_numbers(&format!(
            "SELECT value FROM job_usage_per_association_table WHERE userid = {user} ORDER BY period"
        ))
    }

    /// Returns the stored usage of root, A and B.
    fn banks(&self) -> Vec<f64> {
        self.run_query_for_numbers("SELECT job_usage FROM bank_table ORDER BY bank_id")
    }

    fn run_query_for_numbers(&self, sql: &str) -> Vec<f64> {
        let connection = Connection::open(&self.path).expect("a database");
        let mut statement = connection.prepare(sql).expect(sql);
        let numbers = statement.query_map([], |row| row.get(0)).expect("rows");
        numbers.map(|number| number.expect("a number")).collect()
    }
}
