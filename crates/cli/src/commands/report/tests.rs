// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the document with values that were computed by hand and with sums by SQL, and checks names and
//! files.

use std::path::Path;

use clap::Parser;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{build_text, held};
use crate::html::page;
use crate::html::page::tests::split_page;
use crate::tests::golden::{NOW, make_words};
use crate::ui::progress::Progress;
use crate::{Cli, Command};
use fairshare_engine::engine::answers::{JobsPage, Stats};

const WEEK: i64 = 604_800;

/// Creates a database. Each user has a name, a bank, shares, and the decayed usage of each period. Usage
/// halves each week; the next time is in one day.
fn make_site(
    directory: &Path,
    banks: &[(&str, &str, i64)],
    users: &[(&str, &str, i64, &[f64])],
) -> Connection {
    let database = Connection::open(directory.join("site.db")).expect("a database");
    let schema = "
        PRAGMA user_version = 38;
        CREATE TABLE association_table (
            active int NOT NULL DEFAULT 1, username text NOT NULL, bank text NOT NULL, shares int NOT NULL,
            job_usage real NOT NULL, fairshare real NOT NULL DEFAULT 0.5, PRIMARY KEY (username, bank));
        CREATE TABLE bank_table (bank text NOT NULL, active int NOT NULL DEFAULT 1, parent_bank text, shares int NOT NULL);
        CREATE TABLE config_table (key text PRIMARY KEY NOT NULL, value text NOT NULL);
        CREATE TABLE t_half_life_period_table (cluster text PRIMARY KEY, end_half_life_period real);
        CREATE TABLE job_usage_per_association_table (
            username text NOT NULL, userid int NOT NULL DEFAULT 1, bank text NOT NULL, period int NOT NULL, value real);
        INSERT INTO config_table VALUES ('priority_decay_half_life', '604800'), ('priority_usage_reset_period', '2419200');";
    database.execute_batch(schema).expect("a schema");
    database
        .execute("INSERT INTO t_half_life_period_table VALUES ('cluster', ?1)", [NOW + 86_400.0])
        .expect("a period");
    for bank in banks {
        let sql = "INSERT INTO bank_table (bank, parent_bank, shares) VALUES (?1, ?2, ?3)";
        database.execute(sql, *bank).expect("a bank");
    }
    for (user, bank, shares, bins) in users {
        let sql = "INSERT INTO association_table (username, bank, shares, job_usage) VALUES (?1, ?2, ?3, ?4)";
        database.execute(sql, (user, bank, shares, bins.iter().sum::<f64>())).expect("an association");
        // flux-accounting stores a row for each period that it keeps.
        for period in 0..bins.len().max(4) {
            let usage = bins.get(period).unwrap_or(&0.0);
            let sql = "INSERT INTO job_usage_per_association_table (username, bank, period, value) VALUES (?1, ?2, ?3, ?4)";
            database.execute(sql, (user, bank, period as i64, usage)).expect("a bin");
        }
    }
    database
}

/// Returns the output of `flux fairshare report -p site.db` with the arguments `more`.
fn print_report(directory: &Path, more: &[&str]) -> String {
    let database = directory.join("site.db");
    let start =
        ["flux-fairshare", "report", "--no-jobs", "--output", "-", "-p", database.to_str().expect("text")];
    let cli = Cli::try_parse_from(start.iter().chain(more)).expect("arguments");
    let Command::Report(args) = cli.command else { panic!("a report") };
    build_text(&args, NOW, &mut Progress::none()).expect("a page")
}

fn report_data(directory: &Path, more: &[&str]) -> Value {
    let more: Vec<&str> = more.iter().chain(&["--json"]).copied().collect();
    serde_json::from_str(&print_report(directory, &more)).expect("JSON")
}

/// Two banks of equal shares and three users: ann has used 300, ben 100, and cat in the other bank 400.
fn make_three_user_site(directory: &Path) -> Connection {
    make_site(
        directory,
        &[("root", "", 1), ("A", "root", 1), ("B", "root", 1)],
        &[("ann", "A", 1, &[200.0, 100.0]), ("ben", "A", 1, &[0.0, 60.0, 40.0]), ("cat", "B", 1, &[400.0])],
    )
}

#[test]
fn the_figures_of_a_report_equal_values_computed_by_hand() {
    let directory = tempfile::tempdir().expect("a directory");
    make_three_user_site(directory.path());
    let data = report_data(directory.path(), &[]);
    assert_eq!(
        (&data["policy"], &data["ranked"], &data["source"]),
        (&json!("weighted-walk"), &json!(3), &json!("site.db"))
    );
    let banks = &data["banks"];
    assert_eq!(banks["name"], json!(["root", "A", "B"]));
    assert_eq!(banks["parent"], json!([null, 0, 0]));
    assert_eq!(banks["usage"], json!([800, 400, 400]));
    assert_eq!(banks["share"], json!([1, 0.5, 0.5]));
    assert_eq!(banks["part"], json!([1, 0.5, 0.5]));
    let users = &data["users"];
    assert_eq!((&users["name"], &users["bank"]), (&json!(["ann", "ben", "cat"]), &json!([1, 1, 2])));
    assert_eq!(users["share"], json!([0.5, 0.5, 1]));
    assert_eq!(users["part"], json!([0.75, 0.25, 1]));
    // The banks are equal, so their users are ranked together: ben (0.5 / 0.25), cat (1), ann (0.5 / 0.75).
    assert_eq!(users["places"][0], json!([3, 1, 2]));
    assert_eq!(users["fairshare"], json!([0.3333333, 1, 0.6666667]));
    // ann and ben have equal shares. ben has used 100, so ann's fair part of the usage is also 100. ann's usage of
    // 300 decays to 150 in a day, and to 75 a week later.
    assert_eq!(users["lost"], json!([-1, null, null]));
    assert_eq!(users["even_usage"], json!([100, null, null]));
    assert_eq!(users["even_in"], json!([86_400 + WEEK, null, null]));
    assert_eq!(data["forgetting"]["next"], json!(NOW as i64 + 86_400));
    assert_eq!(data["forgetting"]["due"], json!(0));
}

#[test]
fn the_level_that_lowers_the_fair_share_most_may_be_a_bank() {
    let directory = tempfile::tempdir().expect("a directory");
    let banks = [("root", "", 1), ("A", "root", 1), ("B", "root", 3)];
    make_site(directory.path(), &banks, &[("ann", "A", 1, &[0.0, 900.0]), ("cat", "B", 1, &[300.0])]);
    let data = report_data(directory.path(), &[]);
    // Bank A has a quarter of the shares, and its sibling has used 300. With a usage of 100, bank A would have used
    // exactly its share. Its usage of 900 becomes 450, 225 and 112.5 at the next three period boundaries. At the
    // fourth boundary, all usage is dropped.
    assert_eq!(data["users"]["lost"], json!([1, null]));
    assert_eq!(data["users"]["even_usage"], json!([100, null]));
    assert_eq!(data["users"]["even_in"], json!([86_400 + 3 * WEEK, null]));
    // With a half-life of a day, the usage of bank A is back at its share after log2(9) days.
    let data = report_data(directory.path(), &["--half-life", "1d"]);
    assert_eq!(data["users"]["even_in"][0], json!((9f64.log2() * 86_400.0).ceil() as i64));
    assert_eq!(data["forgetting"]["half_life"], json!(86_400));
}

#[test]
fn usage_by_period_and_bank_equals_sums_by_sql() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = make_three_user_site(directory.path());
    let data = report_data(directory.path(), &[]);
    let usage = &data["usage"];
    let began = NOW as i64 + 86_400 - WEEK;
    assert_eq!(usage["from"], json!([began, began - WEEK, began - 2 * WEEK]));
    assert_eq!(usage["users"], json!([[200, 0, 400], [100, 60, 0], [0, 40, 0]]));
    // Usage halves at each boundary.
    let sum = |period: i64, bank: &str| -> f64 {
        let sql = "SELECT coalesce(sum(value * (1 << period)), 0) FROM job_usage_per_association_table
                   WHERE period = ?1 AND (bank = ?2 OR ?2 = 'root')";
        database.query_row(sql, (period, bank), |row| row.get(0)).expect("a sum")
    };
    for period in 0..3 {
        let wanted = ["root", "A", "B"].map(|bank| sum(period, bank));
        let found: Vec<f64> =
            serde_json::from_value(usage["banks"][period as usize].clone()).expect("numbers");
        assert_eq!(found, wanted, "{period}");
    }
    assert_eq!(usage["banks"][2][1], json!(160), "ben's 40 were 160");
}

/// Stores the period of the last sync.
fn store_period_of_last_usage_run(database: &Connection, period_start: f64, period_end: f64) {
    database
        .execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS fairshare_usage_marks (
                 one integer PRIMARY KEY, period_start real, period_end real, half_life real, decay real, reset_period real,
                 reconfigured real, since real, last_job text, ran real, counted blob, unplaced blob, associations integer);
             INSERT OR REPLACE INTO fairshare_usage_marks
                 VALUES (1, {period_start}, {period_end}, {WEEK}, 0.5, 2419200, 0, 0, NULL, 0, x'', x'', 0)"
        ))
        .expect("marks");
}

#[test]
fn a_report_begins_with_the_period_that_the_next_sync_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = make_three_user_site(directory.path());
    let (week, next) = (WEEK as f64, NOW + 86_400.0);
    let began = || report_data(directory.path(), &[])["usage"]["from"][0].as_f64().expect("a time");
    // flux-accounting has decayed usage at a period boundary after our last sync. The period that our sync stored is outdated.
    store_period_of_last_usage_run(&database, next - 3.0 * week, next - week);
    assert_eq!(began(), next - week);
    store_period_of_last_usage_run(&database, next - 2.0 * week, next);
    assert_eq!(began(), next - 2.0 * week);
    // Without the table `fairshare_usage_marks`, the database has no record of our sync. The stored usage lacks the decay at
    // the last two period boundaries.
    database.execute_batch("DROP TABLE fairshare_usage_marks").expect("gone");
    let end = next - 3.0 * week;
    database.execute("UPDATE t_half_life_period_table SET end_half_life_period = ?1", [end]).expect("a time");
    assert_eq!(began(), end);
}

#[test]
fn report_predictions_include_period_boundaries_that_no_sync_has_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = make_three_user_site(directory.path());
    let next = NOW + 86_400.0;
    store_period_of_last_usage_run(&database, next - 2.0 * WEEK as f64, next);
    // The usage of 300 becomes 150 at the next count, and 75 in a day.
    let found = report_data(directory.path(), &[]);
    assert_eq!((&found["users"]["even_in"][0], &found["forgetting"]["due"]), (&json!(86_400), &json!(1)));
    store_period_of_last_usage_run(&database, next - 3.0 * WEEK as f64, next);
    let found = report_data(directory.path(), &[]);
    assert_eq!((&found["users"]["even_in"][0], &found["forgetting"]["due"]), (&json!(0), &json!(2)));
}

/// If an association has five stored periods instead of four, new usage is dropped at the fifth boundary.
#[test]
fn report_keeps_as_many_usage_periods_as_the_database_has_rows() {
    let new: &[f64] = &[30_000.0, 0.0, 0.0, 0.0, 0.0];
    let banks = [("root", "", 1), ("A", "root", 1), ("B", "root", 3)];
    for (banks, ben, cat, lost) in [(&banks[..2], "A", "A", -1), (&banks, "A", "B", 1)] {
        let directory = tempfile::tempdir().expect("a directory");
        let users = [("ann", "A", 1, new), ("ben", ben, 1, &[0.0]), ("cat", cat, 1, &[300.0])];
        let database = make_site(directory.path(), banks, &users);
        database
            .execute_batch(
                "UPDATE config_table SET value = '2592000' WHERE key = 'priority_usage_reset_period';
                 DELETE FROM job_usage_per_association_table WHERE username = 'ben'",
            )
            .expect("a user without rows");
        let data = report_data(directory.path(), &[]);
        assert_eq!(data["users"]["even_in"][0], json!(86_400 + 4 * WEEK), "{lost}");
        assert_eq!((&data["users"]["lost"][0], &data["users"]["periods"]), (&json!(lost), &json!([5, 4, 4])));
        assert_eq!(data["forgetting"]["periods"], json!(5), "of a bank as long as of anybody");
    }
}

/// Adds the tables and columns for job records, and 40 jobs over 30 hours.
const JOBS: &str = r#"
    ALTER TABLE association_table ADD COLUMN userid int DEFAULT 0;
    ALTER TABLE association_table ADD COLUMN default_bank text DEFAULT 'A';
    ALTER TABLE bank_table ADD COLUMN job_usage real DEFAULT 0;
    UPDATE association_table SET userid = unicode(username), default_bank = bank;
    CREATE TABLE job_usage_factor_table (username text, userid int, bank text, last_job_timestamp real);
    CREATE TABLE jobs (id text PRIMARY KEY, userid int, t_run real, t_inactive real, R text, bank text, cores int);
    INSERT INTO config_table VALUES ('node_weight', '0'), ('core_weight', '2.5');
    WITH RECURSIVE job(id) AS (VALUES (0) UNION SELECT id + 1 FROM job WHERE id < 39)
    INSERT INTO jobs SELECT id, unicode(substr('abc', id % 3 + 1, 1)), 1.76e9 + id * 2700, 1.76e9 + id * 2700 + 60 + id * 333,
        '{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-' || (id % 7 + 1) || '"}}]}}',
        CASE WHEN id % 4 = 0 THEN '' WHEN id % 3 = 2 THEN 'B' ELSE 'A' END, id % 7 + 2 FROM job;
    INSERT INTO jobs VALUES ('nobody', 1, 1.76e9, 1.77e9, '{"version": 1}', 'A', 8),
        ('elsewhere', unicode('a'), 1.76e9, 1.77e9, '{"version": 1}', 'B', 8), ('bad', unicode('a'), 1.76e9, 1.77e9, '{', 'A', 8);"#;

#[test]
fn usage_over_time_equals_sums_by_sql() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = make_three_user_site(directory.path());
    assert_eq!(report_data(directory.path(), &[])["course"], Value::Null, "without jobs");
    database.execute_batch(JOBS).expect("jobs");
    let data = report_data(directory.path(), &[]);
    let course = &data["course"];
    let edges: Vec<f64> = serde_json::from_value(course["from"].clone()).expect("instants");
    assert_eq!(
        (&course["step"], course["labels"].as_array().map(Vec::len)),
        (&json!("hour"), Some(edges.len() - 1))
    );
    assert!((30..36).contains(&edges.len()) && edges.windows(2).all(|pair| pair[1] - pair[0] == 3600.0));
    let sum = |from: f64, to: f64, whose: &str| -> f64 {
        let sql = format!(
            "SELECT coalesce(sum(2.5 * cores * (min(t_inactive, ?2) - max(t_run, ?1))), 0) FROM jobs JOIN association_table a
             ON a.userid = jobs.userid AND a.bank = coalesce(nullif(jobs.bank, ''), a.default_bank)
             WHERE t_run < ?2 AND t_inactive > ?1 AND id != 'bad' AND {whose}"
        );
        database.query_row(&sql, [from, to], |row| row.get(0)).expect("a sum")
    };
    let near = |found: f64, wanted: f64, what: &str| {
        assert!((found - wanted).abs() <= 1e-6 * wanted, "{what}: {found} instead of {wanted}");
    };
    for (step, pair) in edges.windows(2).enumerate() {
        let found: Vec<f64> = serde_json::from_value(course["banks"][step].clone()).expect("numbers");
        for (found, whose) in found.into_iter().zip(["1", "a.bank = 'A'", "a.bank = 'B'"]) {
            near(found, sum(pair[0], pair[1], whose), whose);
        }
    }
    let cells: Vec<f64> = serde_json::from_value(course["users"].clone()).expect("numbers");
    assert!(cells.len() > 90 && cells.len().is_multiple_of(3));
    for cell in cells.chunks(3) {
        let (user, step) = (["ann", "ben", "cat"][cell[0] as usize], cell[1] as usize);
        near(cell[2], sum(edges[step], edges[step + 1], &format!("username = '{user}'")), user);
    }
}

#[test]
fn a_report_lists_the_ranks_under_other_ranking_policies() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = make_three_user_site(directory.path());
    database.execute_batch("UPDATE association_table SET active = 0 WHERE username = 'cat'").expect("done");
    let data = report_data(directory.path(), &["--policy", "classic"]);
    let policies: Vec<&str> = data["policies"]
        .as_array()
        .expect("policies")
        .iter()
        .filter_map(|policy| policy["policy"].as_str())
        .collect();
    assert_eq!(policies, ["classic", "weighted-walk", "fair-tree", "depth-oblivious", "pbs"]);
    assert_eq!(data["users"]["places"], json!(vec![json!([2, 1, 0]); 5]), "ben, then ann; cat is not ranked");
    assert_eq!((&data["by_rank"], &data["users"]["lost"]), (&json!(false), &json!([null, null, null])));
    // The fair-share is 2^-(usage / shares), with usage and shares as fractions of the whole site. Ben has
    // 0.125 of the usage and a quarter of the shares.
    assert_eq!(data["users"]["fairshare"][2], Value::Null);
    assert_eq!(data["stale"], json!(2), "none is stored as it is computed");
}

#[test]
fn a_page_contains_names_only_in_its_data_block() {
    let names = [
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "]]>",
        "{{script}}{{data}}{{title}}",
        "\u{2028}\u{202e}\u{7}\"'\\",
        "&lt;",
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let users: Vec<(&str, &str, i64, &[f64])> =
        names.iter().map(|name| (*name, names[0], 1, &[1.0][..])).collect();
    make_site(directory.path(), &[("root", "", 1), (names[0], "root", 1)], &users);
    let title = "</title><script>\u{202e}&\"";
    let (inside, around) = split_page(&print_report(directory.path(), &["--title", title]));
    assert!(!inside.contains(['<', '>', '&']), "{inside}");
    let parsed: Value = serde_json::from_str(&inside).expect("JSON");
    assert_eq!(parsed, report_data(directory.path(), &["--title", title]));
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(parsed["users"]["name"], json!(sorted));
    // Except for the data, all pages are equal.
    let other = tempfile::tempdir().expect("a directory");
    make_three_user_site(other.path());
    let (_, plain) = split_page(&print_report(other.path(), &["--title", "plain"]));
    assert_eq!(around.replace(&page::escape_html(title), "plain"), plain);
    assert_eq!(page::escape_html(title), "&lt;/title&gt;&lt;script&gt;\\u{202e}&amp;&quot;");
}

#[test]
fn numbers_of_a_report_are_short_and_valid_json() {
    let written = |number: f64| serde_json::to_string(&super::data::Number(number)).expect("JSON");
    let rows = [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-2.0, "-2"),
        (1.0 / 3.0, "0.3333333"),
        (12_345_678.9, "12345679"),
        // A time has more than seven digits before the point. All of them are written.
        (1_763_862_401.4, "1763862401"),
        (1e-9 / 3.0, "3.333333e-10"),
        (5e-324, "5e-324"),
        (f64::INFINITY, "null"),
        (f64::NAN, "null"),
    ];
    for (number, text) in rows {
        assert_eq!(written(number), text);
    }
    for large in [1e20, f64::MAX, 1e16 + 2.0] {
        assert_eq!(written(large).parse(), Ok(large));
    }
}

#[test]
fn held_jobs_are_counted_by_limit_and_bank() {
    let row = |id: u64, bank: &str, holds: &[&str]| {
        let (nodes, cores) = (2, 8);
        json!({"id": id, "userid": 5001, "bank": bank, "state": "DEPEND", "nodes": nodes, "cores": cores, "holds": holds})
    };
    let jobs = [
        row(1, "chem", &["max-run-jobs-queue"]),
        row(2, "chem", &["max-run-jobs-queue", "max-resource-queue"]),
        row(3, "phys", &[]),
    ];
    let page: JobsPage =
        serde_json::from_value(json!({"now": NOW, "terms": [], "jobs": jobs, "next": null})).expect("a page");
    let own = serde_json::to_value(held::summarize_jobs(None, &page, &make_words())).expect("JSON");
    assert_eq!((&own["held"], &own["pending"], &own["running"]), (&json!(2), &json!(1), &Value::Null));
    assert_eq!(own["by_limit"], json!([["max-run-jobs-queue", 2], ["max-resource-queue", 1]]));
    assert_eq!(own["by_bank"], json!([["chem", 0, 2], ["phys", 1, 0]]));
    assert_eq!(
        (&own["jobs"][1]["id"], &own["jobs"][1]["user"], &own["more"]),
        (&json!("ƒ2"), &json!("ann"), &json!(0))
    );
    // If the instance owner asks, the plugin's counts include jobs that the answer does not list.
    let stats: Stats = serde_json::from_value(json!({
        "jobs": {"held": 7, "pending": 4, "running": 3}, "held_by_limit": {"max-run-jobs-queue": 7, "other": 0},
        "held": [{"bank": "chem", "jobs": 7}], "pending": [{"bank": "phys", "jobs": 4}]
    }))
    .expect("statistics");
    let all = serde_json::to_value(held::summarize_jobs(Some(&stats), &page, &make_words())).expect("JSON");
    assert_eq!((&all["held"], &all["running"], &all["more"]), (&json!(7), &json!(3), &json!(5)));
    assert_eq!(all["by_limit"], json!([["max-run-jobs-queue", 7]]));
    assert_eq!(all["by_bank"], json!([["chem", 0, 7], ["phys", 4, 0]]));
}
