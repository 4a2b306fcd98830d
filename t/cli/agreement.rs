// SPDX-License-Identifier: LGPL-3.0-only
//! `push`, `update` and `sync` refuse the same databases, each with the command that repairs them.

use super::fairshare;
use super::site::Site;

/// Tables that sync needs besides those of [`Site`].
const USAGE_TABLES: &str = "
    ALTER TABLE bank_table ADD COLUMN ignore_older_than bigint DEFAULT 0;
    CREATE TABLE t_half_life_period_table (cluster tinytext DEFAULT 'cluster', end_half_life_period real);
    INSERT INTO t_half_life_period_table VALUES ('cluster', 4e9);
    CREATE TABLE job_usage_factor_table (username tinytext, userid int, bank tinytext, last_job_timestamp real DEFAULT 0);
    CREATE TABLE jobs (id char(16) PRIMARY KEY NOT NULL, userid int, t_submit real, t_run real, t_inactive real, ranks text,
        R text, jobspec text, project text, bank text);";

const SYNC: [&str; 6] = ["sync", "--dry-run", "--only", "usage", "--only", "fairshare"];

#[test]
fn push_update_and_sync_refuse_the_same_invalid_databases() {
    for (index, (sql, fault)) in [
        (
            "INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('A', 'root', 1)",
            "bank \"A\" appears twice",
        ),
        (
            "UPDATE bank_table SET parent_bank = 'B' WHERE bank = 'A'; UPDATE bank_table SET parent_bank = 'A' WHERE bank = 'B'",
            "is its own ancestor",
        ),
        ("UPDATE bank_table SET parent_bank = 'A' WHERE bank = 'root'", "no root"),
        ("INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('R', '', 1)", "several roots"),
        ("UPDATE bank_table SET parent_bank = 'Z' WHERE bank = 'A'", "its parent \"Z\" does not exist"),
        ("UPDATE association_table SET bank = 'Z' WHERE username = 'ann'", "bank \"Z\" does not exist"),
        ("DELETE FROM bank_table", "there are no banks"),
        ("INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('', 'root', 1)", "bank is \"\", expected a name"),
        ("UPDATE association_table SET job_usage = -8 WHERE username = 'ann'", "job_usage is -8, expected a number"),
        ("UPDATE association_table SET job_usage = 1e251 WHERE username = 'ann'", "job_usage is 1e251, expected"),
        ("UPDATE association_table SET job_usage = 'nan' WHERE username = 'ann'", "job_usage is \"nan\", expected"),
        ("UPDATE association_table SET job_usage = 9e999 WHERE username = 'ann'", "job_usage is inf, expected"),
        ("UPDATE association_table SET shares = -1 WHERE username = 'ann'", "shares is -1, expected"),
        ("INSERT INTO config_table VALUES ('node_weight', '-1')", "node_weight is -1, expected a number from 0 to 1e12"),
        ("INSERT INTO config_table VALUES ('core_weight', '1e13')", "core_weight is 10000000000000, expected"),
        ("INSERT INTO config_table VALUES ('gpu_weight', 'nan')", "key \"gpu_weight\": value is \"nan\", expected"),
        ("INSERT INTO config_table VALUES ('node_weight', 'inf')", "key \"node_weight\": value is \"inf\", expected"),
        ("INSERT INTO config_table VALUES ('priority_decay_half_life', '0')", "priority_decay_half_life is 0, expected"),
        ("INSERT INTO config_table VALUES ('priority_usage_reset_period', '-1')", "priority_usage_reset_period is -1"),
        ("INSERT INTO config_table VALUES ('decay_factor', '7')", "decay_factor is 7, expected a number from 0 to 1"),
        ("INSERT INTO config_table VALUES ('fairshare.policy', 'xx')", "unknown policy \"xx\""),
    ]
    .into_iter()
    .enumerate()
    {
        let site = Site::small(&format!("agreement{index}"));
        site.sql(USAGE_TABLES);
        for command in [&["push", "--dry-run"][..], &["update", "--dry-run"], &["update"], &SYNC] {
            fairshare(command.iter().copied().chain(["-p", site.path()])).ok();
        }
        site.sql(sql);
        for command in [&["push", "--dry-run"][..], &["update", "--dry-run"], &["update"], &SYNC] {
            let ran = fairshare(command.iter().copied().chain(["-p", site.path()]));
            assert!(ran.error().contains(fault), "{command:?} after {sql}: {ran:?}");
            assert!(ran.err.contains("flux ") || ran.err.contains("sqlite3 "), "no remedy: {ran:?}");
        }
    }
}

#[test]
fn usage_that_is_not_a_number_is_recounted() {
    for (index, value) in ["-8", "'nan'", "9e999", "1e251", "'much'"].into_iter().enumerate() {
        let site = Site::small(&format!("recounted{index}"));
        site.sql(USAGE_TABLES);
        site.sql(&format!("UPDATE association_table SET job_usage = {value} WHERE username = 'ann'"));
        let ran = fairshare(["update", "-p", site.path()]);
        assert!(ran.error().contains("\"flux fairshare recount --write\" counts all usage again"), "{ran:?}");
        let ran = fairshare(["recount", "--write", "-p", site.path()]);
        assert_eq!(ran.status, 0, "{value}: {ran:?}");
        fairshare(["update", "-p", site.path()]).ok();
    }
}
