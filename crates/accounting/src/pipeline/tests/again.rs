// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of three cases: a record that reappears after its removal, a record without an association, and a
//! user who returns.

use std::ops::Range;
use std::time::Duration;

use super::super::fetch;
use super::continuous::{make_site, pushed_usages};
use super::{Access, Database, END, H, Rule, Site};

/// A time in the first period.
const FIRST: f64 = END - H + 100.0;

/// Stores a fetch that found `new` jobs. Returns the range of removed records before this fetch.
fn record_fetch(site: &Site, now: f64, new: u64) -> Range<f64> {
    let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let removed = fetch::find_removed_range(&snapshot, now).expect("times");
    fetch::record_fetch(&snapshot, now, new).expect("recorded");
    snapshot.commit().expect("stored");
    removed
}

#[test]
fn the_range_of_removed_records_ends_at_the_oldest_record() {
    let site = Site::new("removed");
    let later = FIRST + 10_000.0;
    site.add_job(1, 1, "A", FIRST, 1.0);
    site.add_job(2, 1, "A", FIRST + 5000.0, 1.0);
    site.add_job(3, 1, "A", 0.0, -1.0);
    assert!(record_fetch(&site, later, 3).is_empty(), "the history is unknown");
    assert!(record_fetch(&site, later + 1.0, 0).is_empty(), "no record was removed");
    site.run_sql("DELETE FROM jobs WHERE id = '1'");
    assert_eq!(record_fetch(&site, later + 2.0, 0), FIRST..FIRST + 5000.0);
    site.run_sql("DELETE FROM jobs");
    // The records of jobs that ended in the last `OVERLAP` seconds may still arrive. Therefore the range of
    // removed records ends that long before the fetch.
    assert_eq!(record_fetch(&site, later + 3.0, 0), FIRST..later - fetch::OVERLAP);
    assert_eq!(record_fetch(&site, later - 2.0, 0), FIRST..later - 2.0 - fetch::OVERLAP);
    // Job 4 has the oldest end of all records, because the clock was far behind.
    site.add_job(4, 1, "A", FIRST - 500.0, 1.0);
    assert!(record_fetch(&site, later + 4.0, 1).is_empty());
    site.run_sql("DELETE FROM jobs");
    let recent = later + 4.0 - fetch::OVERLAP;
    assert_eq!(
        record_fetch(&site, later + 5.0, 0),
        FIRST - 500.0..recent,
        "also if another program added it"
    );
}

#[test]
fn a_fetch_without_jobs_writes_nothing_if_no_job_is_on_record() {
    let site = Site::new("fetched_nothing");
    let times = || site.run_query_for_numbers("SELECT fetched FROM fairshare_fetch_marks");
    record_fetch(&site, FIRST, 0);
    record_fetch(&site, FIRST + 1.0, 0);
    assert_eq!(times(), [FIRST], "each write would wake a watch");
    record_fetch(&site, FIRST + 700.0, 0);
    assert_eq!(times(), [FIRST + 700.0]);
}

#[test]
fn fetch_mark_tables_without_the_column_oldest_can_be_read() {
    let site = Site::new("older_fetch_marks");
    let later = FIRST + 10_000.0;
    site.add_job(1, 1, "A", FIRST, 1.0);
    site.run_sql(&format!(
        "CREATE TABLE fairshare_fetch_marks (one integer PRIMARY KEY CHECK (one = 1), fetched real);
         INSERT INTO fairshare_fetch_marks VALUES (1, {later})"
    ));
    assert!(record_fetch(&site, later + 1.0, 0).is_empty());
    site.run_sql("DELETE FROM jobs");
    assert_eq!(record_fetch(&site, later + 2.0, 0), FIRST..later + 1.0 - fetch::OVERLAP);
}

/// Does the same to the database as `flux account clear-usage` on bank B.
const CLEAR_B: &str = "UPDATE association_table SET job_usage = 0 WHERE bank = 'B';
    UPDATE job_usage_per_association_table SET value = 0 WHERE bank = 'B';
    UPDATE job_usage_factor_table SET last_job_timestamp = 0 WHERE bank = 'B';
    UPDATE bank_table SET job_usage = 0 WHERE bank = 'B'";

#[test]
fn a_job_that_waited_for_its_association_is_counted_only_once() {
    let site = Site::new("waited_and_cleared");
    site.add_job(1, 1, "A", FIRST, 10.0);
    site.add_job(2, 3, "B", FIRST, 20.0);
    site.run(FIRST + 1.0).expect("a run");
    site.run_sql("DELETE FROM association_table WHERE username = 'u1'");
    site.add_job(3, 1, "A", FIRST + 5.0, 4.0);
    assert_eq!(site.run(FIRST + 6.0).expect("a run").waiting, 1);
    site.add_user(1, "A");
    site.run_sql(CLEAR_B);
    assert_eq!(site.run(FIRST + 7.0).expect("a run").counted, 2);
    assert_eq!(site.usages(), [14.0, 0.0, 20.0]);
}

#[test]
fn records_wait_for_an_association_until_their_period_is_dropped() {
    let site = Site::new("waits_on");
    site.add_job(1, 9, "A", FIRST, 10.0);
    assert_eq!(site.run(FIRST + 1.0).expect("a run").waiting, 1);
    assert_eq!(site.run(END + 1.0).expect("a run").waiting, 1);
    assert_eq!(site.run(END + 9.0 * H).expect("a run").waiting, 0);
}

#[test]
fn usage_of_a_removed_user_decays_like_that_of_others() {
    for (boundaries, left) in [(1, 500.0), (2, 250.0), (10, 0.0)] {
        let site = Site::new(&format!("away_{boundaries}"));
        site.add_job(1, 1, "A", FIRST, 1000.0);
        site.run(FIRST + 1.0).expect("a run");
        site.run_sql("DELETE FROM association_table WHERE username = 'u1'");
        for boundary in 0..boundaries {
            site.run(END + f64::from(boundary) * H + 1.0).expect("a run");
        }
        let back = END + (f64::from(boundaries) - 0.5) * H;
        site.add_user(1, "A");
        site.add_job(2, 1, "A", back, 1.0);
        site.run(back + 1.0).expect("a run");
        assert_eq!(site.usages()[0], left + 1.0, "{boundaries}");
    }
}

/// `flux account delete-user --force` keeps the bins, and `add-user` sets the usage to 0.
#[test]
fn the_next_sync_restores_the_usage_of_a_user_who_was_removed_and_added() {
    for is_synced_between in [true, false] {
        let site = make_site(&format!("back_{is_synced_between}"));
        site.add_job(1, 1, "A", FIRST, 1000.0);
        site.run(FIRST + 1.0).expect("a run");
        let sum_pushed = || pushed_usages(&site, FIRST + 9.0).iter().sum::<f64>();
        let pushed = sum_pushed();
        site.run_sql("DELETE FROM association_table WHERE username = 'u1'");
        if is_synced_between {
            site.run(FIRST + 2.0).expect("a run");
        }
        site.add_user(1, "A");
        site.run(FIRST + 3.0).expect("a run");
        assert_eq!(site.usages()[0], 1000.0);
        assert!((sum_pushed() / pushed - 1.0).abs() < 1e-12);
        assert!(site.recount(FIRST + 4.0).expect("a recount").associations.is_empty());
    }
}

#[test]
fn sync_restores_usage_that_flux_accounting_counted_before_a_user_was_removed_and_added() {
    for is_synced_before in [true, false] {
        let site = Site::new(&format!("back_foreign_{is_synced_before}"));
        site.add_job(1, 1, "A", FIRST, 1000.0);
        if is_synced_before {
            site.run(FIRST + 1.0).expect("a run");
        }
        site.add_job(2, 1, "A", FIRST + 2.0, 500.0);
        site.run_sync_with_usage_rule(Rule::FluxAccounting, FIRST + 3.0).expect("a run");
        site.run_sql("DELETE FROM association_table WHERE username = 'u1'");
        site.add_user(1, "A");
        site.run(FIRST + 4.0).expect("a run");
        assert_eq!(site.usages()[0], 1500.0, "{is_synced_before}");
    }
}

#[test]
fn a_push_after_an_administrator_cleared_all_bins_contains_only_later_jobs() {
    let site = make_site("cleared_by_hand");
    site.add_job(1, 1, "A", FIRST, 80.0);
    site.run(FIRST + 1.0).expect("a run");
    site.run_sql(
        "UPDATE association_table SET job_usage = 0; UPDATE job_usage_per_association_table SET value = 0",
    );
    site.add_job(2, 1, "A", FIRST + 2.0, 1.0);
    site.run(FIRST + 3.0).expect("a run");
    assert_eq!(site.usages()[0], 1.0);
    assert!((0.9..1.1).contains(&pushed_usages(&site, FIRST + 4.0)[0]));
}

#[test]
fn a_late_record_of_a_user_who_was_removed_and_added_counts() {
    let site = Site::new("back_late");
    site.add_job(1, 1, "A", FIRST, 1000.0);
    site.run(FIRST + 1.0).expect("a run");
    site.run_sql("DELETE FROM association_table WHERE username = 'u1'");
    site.add_job(2, 1, "A", FIRST - 1.0, 40.0);
    assert_eq!(site.run(FIRST + 2.0).expect("a run").waiting, 1);
    site.add_user(1, "A");
    site.add_job(3, 1, "A", FIRST - 2.0, 7.0);
    site.run(FIRST + 3.0).expect("a run");
    assert_eq!(site.usages()[0], 1047.0);
}

#[test]
fn usage_of_a_removed_user_decays_in_a_recount() {
    for (boundaries, left) in [(1, 500.0), (2, 250.0), (10, 0.0)] {
        let site = Site::new(&format!("away_anew_{boundaries}"));
        site.add_job(1, 1, "A", FIRST, 1000.0);
        site.run(FIRST + 1.0).expect("a run");
        site.run_sql("DELETE FROM association_table WHERE username = 'u1'");
        for boundary in 0..boundaries {
            site.recount(END + f64::from(boundary) * H + 1.0).expect("a recount");
        }
        assert_eq!(site.bins(1).iter().sum::<f64>(), left, "{boundaries}");
        site.recount(END + f64::from(boundaries - 1) * H + 2.0).expect("a recount");
        assert_eq!(site.bins(1).iter().sum::<f64>(), left, "once for each boundary: {boundaries}");
    }
}

/// Only flux-accounting has counted usage before, so the database contains no state of an earlier sync.
#[test]
fn the_first_recount_of_a_database_decays_the_usage_of_removed_users() {
    let site = Site::new("away_first");
    site.run_sql("INSERT INTO job_usage_per_association_table VALUES ('gone', 7, 'A', 0, 8.0), ('gone', 7, 'A', 1, 0.0)");
    site.recount(END + H + 1.0).expect("a recount");
    let left = "SELECT sum(value) FROM job_usage_per_association_table WHERE username = 'gone'";
    assert_eq!(site.run_query_for_numbers(left), [4.0]);
}

#[test]
fn unreadable_bins_of_a_removed_user_are_not_changed() {
    let site = Site::new("away_unreadable");
    site.add_job(1, 1, "A", FIRST, 1000.0);
    site.run(FIRST + 1.0).expect("a run");
    site.run_sql(
        "INSERT INTO job_usage_per_association_table VALUES
             ('gone', 7, 'A', 0, 8.0), ('gone', 7, 'A', -1, 8.0), ('gone', 7, 'A', 1000000000, 8.0),
             ('gone', 'x', 'B', 0, 8.0), ('gone', 7, 'B', 'x', 8.0)",
    );
    site.run(END + 1.0).expect("a run");
    assert_eq!(site.usages()[0], 500.0);
    assert_eq!(
        site.run_query_for_numbers(
            "SELECT value FROM job_usage_per_association_table WHERE username = 'gone' ORDER BY rowid"
        ),
        [0.0, 8.0, 8.0, 0.0, 8.0],
        "usage with an invalid user id decays like any other"
    );
    site.run_sql(
        "UPDATE job_usage_per_association_table SET period = -1 WHERE username = 'u2' AND period = 3",
    );
    site.run(END + H + 1.0).expect_err("all bins of an association must be valid");
}

#[test]
fn usage_of_a_removed_user_decays_if_periods_are_table_columns() {
    let site = Site::new("away_columns");
    site.use_bin_columns(4);
    site.add_job(1, 1, "A", FIRST, 1000.0);
    site.run(FIRST + 1.0).expect("a run");
    site.run_sql("DELETE FROM association_table WHERE username = 'u1'");
    site.run(END + 1.0).expect("a run");
    site.run(END + H + 1.0).expect("a run");
    assert_eq!(
        site.run_query_for_numbers(
            "SELECT usage_factor_period_2 FROM job_usage_factor_table WHERE userid = 1"
        ),
        [250.0]
    );
    assert_eq!(
        site.run_query_for_numbers(
            "SELECT usage_factor_period_0 FROM job_usage_factor_table WHERE userid = 1"
        ),
        [0.0]
    );
}

#[test]
fn a_job_that_flux_accounting_counted_after_a_clear_is_not_late() {
    let site = Site::new("cleared_and_counted");
    site.add_job(1, 3, "B", FIRST + 5.0, 20.0);
    site.run(FIRST + 6.0).expect("a run");
    site.add_job(2, 3, "B", FIRST + 2.0, 4.0);
    site.add_job(3, 3, "B", FIRST + 6.5, 1.0);
    site.run_sql(CLEAR_B);
    site.run_sql(&format!("UPDATE bank_table SET ignore_older_than = {} WHERE bank = 'B'", FIRST - 50.0));
    site.run_sync_with_usage_rule(Rule::FluxAccounting, FIRST + 7.0).expect("a run");
    assert_eq!(site.usages(), [0.0, 0.0, 25.0]);
    site.run(FIRST + 8.0).expect("a run");
    assert_eq!(site.usages(), [0.0, 0.0, 25.0]);
}
