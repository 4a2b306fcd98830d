// SPDX-License-Identifier: LGPL-3.0-only
//! sync, recount, usage and scrub on generated databases: stored data, messages, and the state after failures.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::site::{Site, read_rows};
use super::{PROGRAM, fairshare};

/// The half-life of the test sites, in seconds.
const H: f64 = 1000.0;
/// The end of the first period of the test sites.
pub const END: f64 = 51_000.0;

/// The resource set of a job on two nodes.
const R: &str =
    r#"{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-3", "gpu": "0"}}]}}"#;

/// Adds the tables that counting needs besides those of [`Site`], and a few jobs.
pub fn add_jobs(site: &Site) {
    site.sql(&format!(
        "ALTER TABLE bank_table ADD COLUMN ignore_older_than int DEFAULT 0;
         UPDATE association_table SET job_usage = 0, default_bank = bank, userid = 1000 + rowid;
         CREATE TABLE job_usage_factor_table (
             username text, userid int, bank text, last_job_timestamp real DEFAULT 0, PRIMARY KEY (username, bank));
         INSERT INTO job_usage_factor_table (username, userid, bank) SELECT username, userid, bank FROM association_table;
         INSERT INTO job_usage_per_association_table (username, userid, bank, period)
             SELECT username, userid, bank, value FROM association_table, json_each('[0, 1, 2, 3]');
         CREATE TABLE t_half_life_period_table (cluster text, end_half_life_period real);
         INSERT INTO t_half_life_period_table VALUES ('cluster', {END});
         INSERT OR REPLACE INTO config_table VALUES ('priority_decay_half_life', {H}), ('priority_usage_reset_period', {});
         CREATE TABLE jobs (
             id char(16) PRIMARY KEY NOT NULL, userid int, t_submit real, t_run real, t_inactive real, ranks text, R text,
             jobspec text, project text, bank text, requested_duration real DEFAULT 0, actual_duration real DEFAULT 0);
         INSERT INTO jobs SELECT 100 + rowid, userid, {END}, {END}, {END} + 10 * rowid % 900, '0-1', '{R}', '{{}}',
             'p' || (rowid % 2), bank, 60, 60 FROM association_table",
        4.0 * H
    ));
}

fn make_site_with_jobs(test: &str) -> Site {
    let site = Site::small(test);
    add_jobs(&site);
    site
}

/// Runs `sync` as if the time were `now`. Does not fetch job records.
fn run_sync(site: &Site, now: f64, more: &[&str]) -> super::RunResult {
    let now = now.to_string();
    let head = ["sync", "--only", "usage", "--only", "fairshare", "--now", &now, "-p", site.path()];
    fairshare(head.iter().chain(more))
}

/// Returns user, usage and fair-share of each association.
fn read_associations(site: &Site) -> Vec<(String, f64, f64)> {
    let connection = site.open();
    let sql = "SELECT username, job_usage, fairshare FROM association_table ORDER BY username";
    let mut statement = connection.prepare(sql).expect("a table");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// Returns the rows of all tables to which `update-usage` writes.
fn read_update_usage_tables(site: &Site) -> Vec<String> {
    let tables = [
        "association_table",
        "bank_table",
        "job_usage_factor_table",
        "job_usage_per_association_table",
        "t_half_life_period_table",
        "jobs",
    ];
    read_rows(&site.open(), tables)
}

#[test]
fn sync_counts_and_ranks_in_one_transaction() {
    let site = make_site_with_jobs("sync_one_go");
    assert_eq!(run_sync(&site, END + 100.0, &[]).ok(), "");
    // The jobs ran on two nodes for 10, 20, 30 and 40 s. Ann is alone in bank A, and ben has one of five
    // shares in bank B.
    let expected = [("ann", 20.0), ("ben", 40.0), ("cat", 60.0), ("dan", 80.0)];
    let usages: Vec<(String, f64)> = read_associations(&site).into_iter().map(|row| (row.0, row.1)).collect();
    assert_eq!(usages, expected.map(|(user, usage)| (user.to_owned(), usage)));
    let banks: Vec<f64> = {
        let connection = site.open();
        let mut statement =
            connection.prepare("SELECT job_usage FROM bank_table ORDER BY bank").expect("a table");
        statement.query_map([], |row| row.get(0)).expect("rows").map(|row| row.expect("a number")).collect()
    };
    assert_eq!(banks, [20.0, 180.0, 200.0]);
    let shown = fairshare(["show", "-p", site.path(), "-P", "-o", "name,fairshare"]);
    for (user, _, fairshare) in read_associations(&site) {
        assert!(
            shown.ok().lines().any(|line| line.trim() == format!("{user}|{fairshare}")),
            "{user}: {shown:?}"
        );
    }
    let before = site.bytes();
    assert_eq!(run_sync(&site, END + 101.0, &[]).ok(), "");
    assert_eq!(site.bytes(), before, "a second run finds nothing to write");
    run_sync(&site, END + H + 1.0, &[]).ok();
    let usages: Vec<f64> = read_associations(&site).into_iter().map(|row| row.1).collect();
    assert_eq!(usages, [10.0, 20.0, 30.0, 40.0]);
}

#[test]
fn sync_rolls_back_all_changes_if_one_step_fails() {
    let site = make_site_with_jobs("sync_fails");
    site.sql("UPDATE bank_table SET parent_bank = 'nowhere' WHERE bank = 'B'");
    let before = read_update_usage_tables(&site);
    let ran = run_sync(&site, END + 100.0, &[]);
    assert!(ran.error().contains("nowhere"), "{ran:?}");
    assert_eq!(read_update_usage_tables(&site), before);
    site.sql("UPDATE bank_table SET parent_bank = 'root' WHERE bank = 'B'");
    run_sync(&site, END + 100.0, &[]).ok();
    assert_eq!(read_associations(&site)[3].1, 80.0);
}

#[test]
fn dry_run_shows_changes_and_stores_nothing() {
    let site = make_site_with_jobs("sync_dry");
    let before = site.bytes();
    let ran = run_sync(&site, END + 100.0, &["--dry-run", "--json"]);
    let json = ran.json();
    assert_eq!((json["counted"].as_u64(), json["boundaries"].as_u64()), (Some(4), Some(0)));
    let dan = &json["changes"][0];
    assert_eq!((dan["user"].as_str(), dan["usage"].as_f64()), (Some("dan"), Some(80.0)));
    assert!(run_sync(&site, END + 100.0, &["--dry-run"]).ok().contains("nothing was stored or sent"));
    assert_eq!(site.bytes(), before);
}

#[test]
fn sync_fails_if_the_clock_went_back_or_the_database_is_locked() {
    let site = make_site_with_jobs("sync_errors");
    run_sync(&site, END + 100.0, &[]).ok();
    let before = site.bytes();
    let ran = run_sync(&site, END - 5000.0, &[]);
    assert!(ran.error().contains("the clock went back"), "{ran:?}");
    assert!(!ran.error().contains("is stored"), "{ran:?}");
    let connection = site.open();
    connection.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let ran = run_sync(&site, END + 200.0, &["--wait", "0.1"]);
    assert!(ran.error().contains("locked by another process"), "{ran:?}");
    drop(connection);
    assert_eq!(site.bytes(), before);
    // Sync ranks edited associations although it refuses to count usage.
    let fairshares = read_associations(&site);
    site.sql("UPDATE association_table SET shares = 50 WHERE username = 'dan'");
    let ran = run_sync(&site, END - 5000.0, &[]);
    assert!(ran.error().contains("all changes are stored"), "{ran:?}");
    assert_ne!(read_associations(&site), fairshares);
}

#[test]
fn missing_columns_of_a_schema_are_named() {
    let site = make_site_with_jobs("sync_schema");
    site.sql(
        "DROP TABLE t_half_life_period_table; ALTER TABLE bank_table DROP COLUMN job_usage;
         ALTER TABLE jobs DROP COLUMN R; ALTER TABLE jobs DROP COLUMN t_run",
    );
    let ran = run_sync(&site, END + 100.0, &[]);
    for missing in [
        "no table t_half_life_period_table",
        "bank_table has no column job_usage",
        "jobs has no columns t_run, R",
    ] {
        assert!(ran.error().contains(missing), "{missing}: {ran:?}");
    }
}

#[test]
fn sync_updates_the_bin_columns_of_an_older_schema() {
    let site = make_site_with_jobs("sync_columns");
    site.sql(
        "DROP TABLE job_usage_per_association_table; DROP TABLE config_table;
         ALTER TABLE bank_table DROP COLUMN ignore_older_than; ALTER TABLE jobs DROP COLUMN project;
         ALTER TABLE jobs DROP COLUMN requested_duration; ALTER TABLE jobs DROP COLUMN actual_duration;
         UPDATE jobs SET jobspec = json_object('attributes', json_object('system', json_object('bank', bank)))
             WHERE id != '102';
         ALTER TABLE jobs DROP COLUMN bank;
         ALTER TABLE job_usage_factor_table ADD COLUMN usage_factor_period_0 real DEFAULT 0;
         ALTER TABLE job_usage_factor_table ADD COLUMN usage_factor_period_1 real DEFAULT 0;
         ALTER TABLE job_usage_factor_table ADD COLUMN usage_factor_period_2 real DEFAULT 0",
    );
    run_sync(&site, END + 100.0, &[]).ok();
    let usages = || read_associations(&site).into_iter().map(|row| row.1).collect::<Vec<f64>>();
    assert_eq!(usages(), [20.0, 40.0, 60.0, 80.0]);
    // The half-life is flux-accounting's own, a week.
    run_sync(&site, END + 604_800.0, &[]).ok();
    assert_eq!(usages(), [10.0, 20.0, 30.0, 40.0]);
    let bins: (f64, f64, f64) = site
        .open()
        .query_row("SELECT usage_factor_period_0, usage_factor_period_1, usage_factor_period_2 FROM job_usage_factor_table
                    WHERE username = 'dan'", [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("bins");
    assert_eq!(bins, (0.0, 40.0, 0.0));
}

#[test]
fn usage_sums_hours_by_user_bank_and_project() {
    let site = make_site_with_jobs("usage_hours");
    let usage = |more: &[&str]| fairshare(["usage", "-p", site.path(), "--json"].iter().chain(more)).json();
    let all = usage(&["--by", "user"]);
    let hours = |row: &serde_json::Value, key: &str| row[key].as_f64().expect("hours") * 3600.0;
    assert_eq!(all["usage"][0]["user"], "dan");
    assert_eq!(hours(&all["usage"][0], "node_hours"), 80.0);
    assert_eq!(hours(&all["usage"][0], "core_hours"), 320.0);
    assert_eq!(hours(&all["usage"][0], "gpu_hours"), 80.0);
    assert_eq!(hours(&all, "node_hours").round(), 200.0);
    let banks = usage(&["--by", "bank", "--bank", "B"]);
    assert_eq!(
        (banks["usage"].as_array().expect("rows").len(), hours(&banks, "node_hours").round()),
        (1, 180.0)
    );
    let projects = usage(&["--by", "project"]);
    assert_eq!(hours(&projects["usage"][0], "node_hours"), 120.0);
    // All jobs start at END. Dan's job runs for 40 s, of which ten are between END + 15 and END + 25.
    let part = usage(&["--since", &(END + 15.0).to_string(), "--until", &(END + 25.0).to_string()]);
    assert_eq!(hours(&part, "node_hours").round(), 20.0 + 20.0 + 10.0);
    let whole =
        usage(&["--whole", "--since", &(END + 15.0).to_string(), "--until", &(END + 25.0).to_string()]);
    assert_eq!(hours(&whole, "node_hours").round(), 40.0);
    assert!(all["running_jobs"].is_null() && all["usage"][0]["running_node_hours"].is_null(), "{all}");
    let table = fairshare(["usage", "-p", site.path()]);
    assert!(table.ok().contains("Only ended jobs count, because an option names the input"), "{table:?}");
    let csv = fairshare(["usage", "-p", site.path(), "--csv", "--by", "bank"]);
    assert!(
        csv.ok().starts_with(
            "bank,jobs,node_hours,running_node_hours,core_hours,gpu_hours,part\nB,3,0.05,,0.2,0.05,0.9\n"
        ),
        "{csv:?}"
    );
    run_sync(&site, END + 100.0, &[]).ok();
    let periods = usage(&["--by", "period", "--user", "dan"]);
    assert_eq!(
        (periods["periods"][0]["usage"].as_f64(), periods["next_boundary"].as_f64()),
        (Some(80.0), Some(END + H))
    );
    let below = usage(&["--by", "period", "--bank", "root"]);
    assert_eq!(below["periods"].as_array().expect("rows").len(), 4);
    let cut = fairshare(["usage", "-p", site.path(), "--by", "period", "--limit", "3"]);
    assert!(cut.ok().contains("cat") && !cut.ok().contains("dan"), "{cut:?}");
    assert!(cut.ok().contains("and 1 more (--limit 0 shows all)"), "{cut:?}");
    let all = fairshare(["usage", "-p", site.path(), "--by", "period", "--limit", "3", "--json"]).json();
    assert_eq!(all["periods"].as_array().expect("rows").len(), 4);
}

#[test]
fn unknown_users_and_banks_are_reported() {
    let site = make_site_with_jobs("usage_names");
    site.sql("INSERT INTO jobs SELECT '1', 4321, 0, 0, 10, '0', R, '{}', '', 'gone', 0, 0 FROM jobs LIMIT 1");
    for by in ["user", "period"] {
        for (option, name) in [("--user", "nobody-here"), ("--bank", "nowhere")] {
            let ran = fairshare(["usage", "-p", site.path(), "--by", by, option, name]);
            assert_eq!(ran.status, 1, "{by} {option}: {ran:?}");
            assert!(ran.err.contains(name), "{by} {option}: {ran:?}");
        }
        for (option, name) in [("--user", "ann"), ("--bank", "root"), ("--bank", "A")] {
            assert_eq!(fairshare(["usage", "-p", site.path(), "--by", by, option, name]).status, 0);
        }
    }
    // Records may have users and banks without an association.
    for (option, name) in [("--user", "4321"), ("--bank", "gone")] {
        fairshare(["usage", "-p", site.path(), option, name]).ok();
    }
}

#[test]
fn recount_reports_each_difference_and_stores_the_recount_only_on_request() {
    let site = make_site_with_jobs("recount_write");
    site.sql("UPDATE association_table SET job_usage = 7 WHERE username = 'ann'");
    let now = (END + 100.0).to_string();
    let recount = |more: &[&str]| fairshare(["recount", "-p", site.path(), "--now", &now].iter().chain(more));
    let before = site.bytes();
    let text = recount(&[]).ok().to_owned();
    assert!(text.contains("differs; nothing was written") && text.contains("ann"), "{text}");
    assert_eq!(site.bytes(), before);
    let document = recount(&["--json"]).json();
    let ann =
        document["differences"].as_array().and_then(|rows| rows.iter().find(|row| row["user"] == "ann"));
    let ann = ann.expect("a difference");
    let values = ["stored", "recounted", "difference"].map(|key| ann[key].as_f64().unwrap_or(f64::NAN));
    assert_eq!((values, ann["due"].as_bool()), ([7.0, 20.0, 13.0], Some(true)));
    // If records were missing, the recount would be lower than the stored usage. This recount is higher.
    assert!(!text.contains("the oldest record ended on"), "{text}");
    run_sync(&site, END + 100.0, &[]).ok();
    site.sql("UPDATE association_table SET job_usage = 70 WHERE username = 'ann'");
    let text = recount(&[]).ok().to_owned();
    assert!(text.contains("the oldest record ended on") && !text.contains("the next"), "{text}");
    recount(&["--write"]).ok();
    assert_eq!(read_associations(&site)[0].1, 20.0);
    assert!(recount(&[]).ok().contains("usage of 0 associations and 0 banks differs"));
    assert_eq!(run_sync(&site, END + 101.0, &["--dry-run", "--json"]).json()["counted"], 0);
    // sync names such a record only once.
    let columns = "t_submit, t_run, t_inactive, ranks, R, jobspec, project, 'gone', requested_duration, actual_duration";
    site.sql(&format!("INSERT INTO jobs SELECT '9', 4321, {columns} FROM jobs LIMIT 1"));
    let text = recount(&[]).ok().to_owned();
    assert!(text.contains("1 record of user 4321 not counted yet: no association in bank gone"), "{text}");
}

#[test]
fn scrub_reports_removed_records() {
    let site = make_site_with_jobs("scrub");
    run_sync(&site, END + 100.0, &[]).ok();
    let scrub = |now: f64, more: &[&str]| {
        fairshare(["scrub", "0", "-p", site.path(), "--now", &now.to_string()].iter().chain(more))
            .ok()
            .to_owned()
    };
    assert_eq!(scrub(END + 100.0, &[]), "removed 0 records; kept 4 records that usage still needs\n");
    assert_eq!(scrub(END + 9.0 * H, &["--dry-run"]), "would remove 4 records\n");
    assert_eq!(scrub(END + 9.0 * H, &[]), "removed 4 records\n");
    assert_eq!(run_sync(&site, END + 9.0 * H, &[]).ok(), "");
    assert_eq!(read_associations(&site)[0].1, 0.0);
}

/// Returns the watermarks of a push for ann in bank A and for ben, cat and dan in bank B.
fn read_watermarks(site: &Site) -> Vec<f64> {
    use fairshare_accounting::store::{Access, Database};
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let data = database.snapshot().expect("a snapshot").policy_data(END).expect("data");
    data.associations.iter().map(|one| one.counted_until.expect("a leaf")).collect()
}

#[test]
fn a_push_marks_jobs_that_never_count_again_as_counted() {
    let site = make_site_with_jobs("push_cut_off");
    run_sync(&site, END + 100.0, &[]).ok();
    let newest = [10.0, 20.0, 30.0, 40.0].map(|later| END + later);
    assert_eq!(read_watermarks(&site), newest);
    // Clears the usage of bank A as `flux account clear-usage` does.
    site.sql(&format!(
        "UPDATE association_table SET job_usage = 0 WHERE bank = 'A';
         UPDATE job_usage_per_association_table SET value = 0 WHERE bank = 'A';
         UPDATE job_usage_factor_table SET last_job_timestamp = 0 WHERE bank = 'A';
         UPDATE bank_table SET job_usage = 0, ignore_older_than = {} WHERE bank = 'A'",
        END + 200.0
    ));
    let cleared = [END + 200.0, newest[1], newest[2], newest[3]];
    assert_eq!(read_watermarks(&site), cleared);
    // Stores a change of the half-life. The usages must stay the same, and sync must not count earlier jobs again.
    site.sql(&format!(
        "INSERT INTO config_table VALUES ('reconfigure_time', '{}');
         UPDATE job_usage_per_association_table SET value = 0;
         UPDATE job_usage_factor_table SET last_job_timestamp = 0",
        END + 300.0
    ));
    assert_eq!(read_watermarks(&site), [END + 300.0; 4]);
    // `sync` recounts from the records and sets the watermarks; the cleared bank stays cleared.
    assert!(run_sync(&site, END + 400.0, &[]).err.contains("all usage was recounted"));
    assert_eq!(read_watermarks(&site), cleared);
    site.sql("DROP TABLE fairshare_usage_marks");
    assert_eq!(
        read_watermarks(&site),
        [END + 300.0; 4],
        "without the marks of sync, the time of the reconfiguration is the watermark"
    );
    // The value 1e300 is not a valid time. The watermark is then later than every job, and the plugin accepts it.
    site.sql("UPDATE bank_table SET ignore_older_than = 1e300 WHERE bank = 'A'");
    assert_eq!(read_watermarks(&site)[0], 1e12);
    site.sql("ALTER TABLE bank_table DROP COLUMN ignore_older_than; DROP TABLE config_table");
    assert_eq!(read_watermarks(&site), [0.0, newest[1], newest[2], newest[3]]);
}

/// Kills a sync at 25 moments. Each time the data are all old or all new, and the next run completes them.
fn kill_syncs(site: &Site) {
    let backup = site.path.with_extension("backup");
    add_jobs(site);
    std::fs::copy(&site.path, &backup).expect("a copy");
    let before = read_update_usage_tables(site);
    let begin = || {
        let now = (END + 100.0).to_string();
        let arguments = ["sync", "--only", "usage", "--only", "fairshare", "--now", &now, "-p", site.path()];
        Command::new(PROGRAM).args(arguments).stderr(Stdio::null()).spawn().expect("the program starts")
    };
    let started = Instant::now();
    assert!(begin().wait().expect("it ends").success());
    let full_duration = started.elapsed();
    let after = read_update_usage_tables(site);
    assert_ne!(before, after);
    let (mut kept, mut seed) = (0, 1_u64);
    for round in 0..25 {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", site.path()));
        }
        std::fs::copy(&backup, &site.path).expect("a copy");
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Round 0 kills the process at once. In later rounds, the process may end before it is killed.
        let part = if round == 0 { 0.0 } else { (seed >> 40) as f64 / (1_u64 << 24) as f64 };
        let moment = full_duration.mul_f64(1.1 * part);
        let mut child = begin();
        std::thread::sleep(moment.max(Duration::from_millis(1)));
        // Send SIGKILL. The call may fail if the process has already ended.
        let _ = child.kill();
        child.wait().expect("it ends");
        let found = read_update_usage_tables(site);
        if found == before {
            kept += 1;
        } else {
            assert!(found == after, "the database has old and new values after a kill at {moment:?}");
        }
        assert!(begin().wait().expect("it ends").success());
        assert!(read_update_usage_tables(site) == after, "the next run must complete the changes");
    }
    assert!(kept > 0, "every kill came after the changes were stored ({full_duration:?})");
}

#[test]
fn a_killed_sync_with_a_rollback_journal_stores_everything_or_nothing() {
    kill_syncs(&Site::large("sync_kill_journal", 20, 150));
}

#[test]
fn a_killed_sync_of_a_wal_database_stores_all_or_nothing() {
    let site = Site::large("sync_kill_wal", 20, 150);
    site.sql("PRAGMA journal_mode = WAL");
    kill_syncs(&site);
}
