// SPDX-License-Identifier: LGPL-3.0-only
//! Generated accounting databases with the tables and columns that the tests need.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

/// The columns of the present schema that the tests need.
const SCHEMA: &str = "
    PRAGMA user_version = 38;
    CREATE TABLE association_table (
        creation_time bigint NOT NULL DEFAULT 0, active int NOT NULL DEFAULT 1, username tinytext NOT NULL,
        userid int NOT NULL DEFAULT 65534, bank tinytext NOT NULL, default_bank tinytext NOT NULL DEFAULT '',
        shares int NOT NULL DEFAULT 1, job_usage real NOT NULL DEFAULT 0, fairshare real NOT NULL DEFAULT 0.5,
        max_running_jobs int NOT NULL DEFAULT 5, max_active_jobs int NOT NULL DEFAULT 7,
        max_nodes int NOT NULL DEFAULT 2147483647, max_cores int NOT NULL DEFAULT 2147483647,
        queues tinytext NOT NULL DEFAULT '', projects tinytext NOT NULL DEFAULT '*',
        default_project tinytext NOT NULL DEFAULT '*', max_sched_jobs int NOT NULL DEFAULT 2147483647,
        PRIMARY KEY (username, bank));
    CREATE TABLE bank_table (
        bank_id integer PRIMARY KEY AUTOINCREMENT, bank text NOT NULL, active int NOT NULL DEFAULT 1,
        parent_bank text DEFAULT '', shares int NOT NULL, job_usage real NOT NULL DEFAULT 0,
        priority real NOT NULL DEFAULT 0);
    CREATE TABLE queue_table (
        queue tinytext PRIMARY KEY NOT NULL, min_nodes_per_job int NOT NULL DEFAULT 1,
        max_nodes_per_job int NOT NULL DEFAULT 1, max_time_per_job int NOT NULL DEFAULT 60,
        priority int NOT NULL DEFAULT 0, max_running_jobs int NOT NULL DEFAULT 100,
        max_nodes_per_assoc int NOT NULL DEFAULT 2147483647, max_sched_jobs int NOT NULL DEFAULT 2147483647,
        max_sched_nodes_per_assoc int NOT NULL DEFAULT 2147483647,
        max_sched_cores_per_assoc int NOT NULL DEFAULT 2147483647);
    CREATE TABLE project_table (project_id integer PRIMARY KEY, project tinytext NOT NULL);
    CREATE TABLE priority_factor_weight_table (factor text PRIMARY KEY NOT NULL, weight integer NOT NULL);
    CREATE TABLE config_table (key text PRIMARY KEY NOT NULL, value text NOT NULL);
    CREATE TABLE job_usage_per_association_table (
        username tinytext NOT NULL, userid int NOT NULL, bank tinytext NOT NULL, period int NOT NULL,
        value real DEFAULT 0, PRIMARY KEY (username, bank, period));
";

/// A database in its own directory.
pub struct Site {
    pub path: PathBuf,
}

impl Site {
    /// Makes a database of banks (name, parent, shares) and associations (user, bank, shares, usage).
    pub fn new(test: &str, banks: &[(&str, &str, i64)], associations: &[(&str, &str, i64, f64)]) -> Site {
        let site = Site { path: super::directory(test).join("site.db") };
        let mut connection = site.open();
        connection.execute_batch(SCHEMA).expect("a schema");
        let transaction = connection.transaction().expect("a transaction");
        for bank in banks {
            let sql = "INSERT INTO bank_table (bank, parent_bank, shares) VALUES (?1, ?2, ?3)";
            transaction.execute(sql, *bank).expect("a bank");
        }
        for association in associations {
            let sql = "INSERT INTO association_table (username, bank, default_bank, shares, job_usage) VALUES (?1, ?2, ?2, ?3, ?4)";
            transaction.execute(sql, *association).expect("an association");
        }
        transaction.commit().expect("committed");
        site
    }

    /// Makes two banks and four users, whose fair-shares under weighted-walk are 1, 0.75 (twice) and 0.25.
    pub fn small(test: &str) -> Site {
        Site::new(
            test,
            &[("root", "", 1), ("A", "root", 1), ("B", "root", 3)],
            &[("ann", "A", 1, 40.0), ("ben", "B", 1, 0.0), ("cat", "B", 2, 30.0), ("dan", "B", 2, 30.0)],
        )
    }

    /// Makes `groups` banks of `users` users each, with usages from a simple generator.
    pub fn large(test: &str, groups: usize, users: usize) -> Site {
        let site = Site::new(test, &[("root", "", 1)], &[]);
        let mut connection = site.open();
        let transaction = connection.transaction().expect("a transaction");
        let mut seed: u64 = 7;
        for group in 0..groups {
            let bank = format!("g{group}");
            let sql = "INSERT INTO bank_table (bank, parent_bank, shares) VALUES (?1, 'root', ?2)";
            transaction.execute(sql, (&bank, group as i64 % 7 + 1)).expect("a bank");
            let mut statement = transaction
                .prepare("INSERT INTO association_table (username, bank, default_bank, shares, job_usage) VALUES (?1, ?2, ?2, ?3, ?4)")
                .expect("a statement");
            for user in 0..users {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let usage = (seed >> 40) as f64 / 8.0;
                statement
                    .execute((format!("u{group}x{user}"), &bank, user as i64 % 5 + 1, usage))
                    .expect("an association");
            }
        }
        transaction.commit().expect("committed");
        site
    }

    pub fn open(&self) -> Connection {
        Connection::open(&self.path).expect("a database")
    }

    pub fn sql(&self, sql: &str) {
        self.open().execute_batch(sql).expect(sql);
    }

    pub fn path(&self) -> &str {
        self.path.to_str().expect("text")
    }

    /// Returns the directory of the file `site.db`.
    pub fn directory(&self) -> &Path {
        self.path.parent().expect("a directory")
    }

    /// Returns (user, fair-share), sorted by user.
    pub fn fairshares(&self) -> Vec<(String, f64)> {
        fairshares(&self.path)
    }

    /// Checks that an update waits for the lock of another connection and succeeds after its release.
    pub fn check_that_update_waits_for_lock(&self, other: &Connection) {
        std::thread::scope(|scope| {
            let update = scope.spawn(|| super::fairshare(["update", "-p", self.path(), "--wait", "20"]));
            std::thread::sleep(std::time::Duration::from_millis(300));
            assert!(!update.is_finished());
            other.execute_batch("ROLLBACK").expect("free");
            update.join().expect("ran").ok();
        });
        assert_eq!(self.fairshares().first().expect("ann").1, 0.25);
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("readable")
    }
}

/// Returns (user, fair-share), sorted by user and bank.
pub fn fairshares(path: &Path) -> Vec<(String, f64)> {
    let connection = Connection::open(path).expect("a database");
    let mut statement = connection
        .prepare("SELECT username, fairshare FROM association_table ORDER BY username, bank")
        .expect("a table");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// Returns all rows of these tables as text.
pub fn read_rows<'a>(connection: &Connection, tables: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut rows = Vec::new();
    for table in tables {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).expect("a table");
        let columns = statement.column_count();
        let mut found = statement.query([]).expect("rows");
        while let Some(row) = found.next().expect("a row") {
            let cells = (0..columns).map(|at| format!("{:?}", row.get_ref(at).expect("a cell")));
            rows.push(format!("{table}: {}", cells.collect::<Vec<_>>().join(", ")));
        }
    }
    rows
}
