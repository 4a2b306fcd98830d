// SPDX-License-Identifier: LGPL-3.0-only
//! What was counted once comes again: removed records, those that waited, users who were away.

use std::ops::Range;
use std::time::Duration;

use super::super::fetch;
use super::{Access, Database, END, H, Rule, Site};

/// In the first period.
const FIRST: f64 = END - H + 100.0;

/// A fetch of so many new jobs, and what it would have left out as removed.
fn fetched(site: &Site, now: f64, new: u64) -> Range<f64> {
    let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let removed = fetch::removed(&snapshot, now).expect("times");
    fetch::remember(&snapshot, now, new).expect("remembered");
    snapshot.commit().expect("stored");
    removed
}

#[test]
fn what_was_removed_lies_between_the_oldest_ever_and_the_oldest_on_record() {
    let site = Site::new("removed");
    let later = FIRST + 10_000.0;
    site.job(1, 1, "A", FIRST, 1.0);
    site.job(2, 1, "A", FIRST + 5000.0, 1.0);
    site.job(3, 1, "A", 0.0, -1.0);
    assert!(fetched(&site, later, 3).is_empty(), "nothing is known of what was");
    assert!(fetched(&site, later + 1.0, 0).is_empty(), "all is there");
    site.sql("DELETE FROM jobs WHERE id = '1'");
    assert_eq!(fetched(&site, later + 2.0, 0), FIRST..FIRST + 5000.0);
    site.sql("DELETE FROM jobs");
    // What ended within the last minutes may have come late.
    assert_eq!(fetched(&site, later + 3.0, 0), FIRST..later - fetch::OVERLAP);
    assert_eq!(fetched(&site, later - 2.0, 0), FIRST..later - 2.0 - fetch::OVERLAP);
    // A clock was far behind: nothing so old was ever on record.
    site.job(4, 1, "A", FIRST - 500.0, 1.0);
    assert!(fetched(&site, later + 4.0, 1).is_empty());
    site.sql("DELETE FROM jobs");
    let recent = later + 4.0 - fetch::OVERLAP;
    assert_eq!(fetched(&site, later + 5.0, 0), FIRST - 500.0..recent, "whoever brought it");
}

#[test]
fn where_no_job_is_on_record_a_fetch_that_finds_none_writes_nothing() {
    let site = Site::new("fetched_nothing");
    let times = || site.numbers("SELECT fetched FROM fairshare_fetch_marks");
    fetched(&site, FIRST, 0);
    fetched(&site, FIRST + 1.0, 0);
    assert_eq!(times(), [FIRST], "what writes whenever it looks wakes a watch for ever");
    fetched(&site, FIRST + 700.0, 0);
    assert_eq!(times(), [FIRST + 700.0]);
}

#[test]
fn marks_of_a_version_that_did_not_know_the_oldest_are_taken_over() {
    let site = Site::new("older_fetch_marks");
    let later = FIRST + 10_000.0;
    site.job(1, 1, "A", FIRST, 1.0);
    site.sql(&format!(
        "CREATE TABLE fairshare_fetch_marks (one integer PRIMARY KEY CHECK (one = 1), fetched real);
         INSERT INTO fairshare_fetch_marks VALUES (1, {later})"
    ));
    assert!(fetched(&site, later + 1.0, 0).is_empty());
    site.sql("DELETE FROM jobs");
    assert_eq!(fetched(&site, later + 2.0, 0), FIRST..later + 1.0 - fetch::OVERLAP);
}

/// What clear-usage does.
const CLEAR_B: &str = "UPDATE association_table SET job_usage = 0 WHERE bank = 'B';
    UPDATE job_usage_per_association_table SET value = 0 WHERE bank = 'B';
    UPDATE job_usage_factor_table SET last_job_timestamp = 0 WHERE bank = 'B';
    UPDATE bank_table SET job_usage = 0 WHERE bank = 'B'";

#[test]
fn a_record_that_waited_counts_once_also_where_all_are_looked_at_again() {
    let site = Site::new("waited_and_cleared");
    site.job(1, 1, "A", FIRST, 10.0);
    site.job(2, 3, "B", FIRST, 20.0);
    site.run(FIRST + 1.0).expect("a run");
    site.sql("DELETE FROM association_table WHERE username = 'u1'");
    site.job(3, 1, "A", FIRST + 5.0, 4.0);
    assert_eq!(site.run(FIRST + 6.0).expect("a run").waiting, 1);
    site.add_user(1, "A");
    site.sql(CLEAR_B);
    assert_eq!(site.run(FIRST + 7.0).expect("a run").counted, 2);
    assert_eq!(site.usages(), [14.0, 0.0, 20.0]);
}

#[test]
fn records_wait_no_longer_than_their_period_is_kept() {
    let site = Site::new("waits_on");
    site.job(1, 9, "A", FIRST, 10.0);
    assert_eq!(site.run(FIRST + 1.0).expect("a run").waiting, 1);
    assert_eq!(site.run(END + 1.0).expect("a run").waiting, 1);
    assert_eq!(site.run(END + 9.0 * H).expect("a run").waiting, 0);
}

#[test]
fn usage_of_who_is_away_decays_as_that_of_others() {
    for (boundaries, left) in [(1, 500.0), (2, 250.0), (10, 0.0)] {
        let site = Site::new(&format!("away_{boundaries}"));
        site.job(1, 1, "A", FIRST, 1000.0);
        site.run(FIRST + 1.0).expect("a run");
        site.sql("DELETE FROM association_table WHERE username = 'u1'");
        for boundary in 0..boundaries {
            site.run(END + f64::from(boundary) * H + 1.0).expect("a run");
        }
        let back = END + (f64::from(boundaries) - 0.5) * H;
        site.add_user(1, "A");
        site.job(2, 1, "A", back, 1.0);
        site.run(back + 1.0).expect("a run");
        assert_eq!(site.usages()[0], left + 1.0, "{boundaries}");
    }
}

#[test]
fn so_it_does_where_all_is_counted_anew() {
    for (boundaries, left) in [(1, 500.0), (2, 250.0), (10, 0.0)] {
        let site = Site::new(&format!("away_anew_{boundaries}"));
        site.job(1, 1, "A", FIRST, 1000.0);
        site.run(FIRST + 1.0).expect("a run");
        site.sql("DELETE FROM association_table WHERE username = 'u1'");
        for boundary in 0..boundaries {
            site.recount(END + f64::from(boundary) * H + 1.0).expect("a recount");
        }
        assert_eq!(site.bins(1).iter().sum::<f64>(), left, "{boundaries}");
        site.recount(END + f64::from(boundaries - 1) * H + 2.0).expect("a recount");
        assert_eq!(site.bins(1).iter().sum::<f64>(), left, "once for each boundary: {boundaries}");
    }
}

/// Where flux-accounting counted before, and nothing is remembered.
#[test]
fn so_it_does_where_the_first_of_ours_is_a_recount() {
    let site = Site::new("away_first");
    site.sql("INSERT INTO job_usage_per_association_table VALUES ('gone', 7, 'A', 0, 8.0), ('gone', 7, 'A', 1, 0.0)");
    site.recount(END + H + 1.0).expect("a recount");
    let left = "SELECT sum(value) FROM job_usage_per_association_table WHERE username = 'gone'";
    assert_eq!(site.numbers(left), [4.0]);
}

#[test]
fn what_cannot_be_read_of_who_is_away_stays_as_it_is() {
    let site = Site::new("away_unreadable");
    site.job(1, 1, "A", FIRST, 1000.0);
    site.run(FIRST + 1.0).expect("a run");
    site.sql(
        "INSERT INTO job_usage_per_association_table VALUES
             ('gone', 7, 'A', 0, 8.0), ('gone', 7, 'A', -1, 8.0), ('gone', 7, 'A', 1000000000, 8.0),
             ('gone', 'x', 'B', 0, 8.0), ('gone', 7, 'B', 'x', 8.0)",
    );
    site.run(END + 1.0).expect("a run");
    assert_eq!(site.usages()[0], 500.0);
    assert_eq!(
        site.numbers(
            "SELECT value FROM job_usage_per_association_table WHERE username = 'gone' ORDER BY rowid"
        ),
        [0.0, 8.0, 8.0, 0.0, 8.0],
        "a user id that is no number is nobody's, and its usage decays like any other"
    );
    site.sql("UPDATE job_usage_per_association_table SET period = -1 WHERE username = 'u2' AND period = 3");
    site.run(END + H + 1.0).expect_err("of an association all has to be read");
}

#[test]
fn so_it_does_where_bins_are_columns() {
    let site = Site::new("away_columns");
    site.bins_are_columns(4);
    site.job(1, 1, "A", FIRST, 1000.0);
    site.run(FIRST + 1.0).expect("a run");
    site.sql("DELETE FROM association_table WHERE username = 'u1'");
    site.run(END + 1.0).expect("a run");
    site.run(END + H + 1.0).expect("a run");
    assert_eq!(
        site.numbers("SELECT usage_factor_period_2 FROM job_usage_factor_table WHERE userid = 1"),
        [250.0]
    );
    assert_eq!(
        site.numbers("SELECT usage_factor_period_0 FROM job_usage_factor_table WHERE userid = 1"),
        [0.0]
    );
}

#[test]
fn what_was_taken_back_and_counted_by_another_is_not_taken_for_late() {
    let site = Site::new("cleared_and_counted");
    site.job(1, 3, "B", FIRST + 5.0, 20.0);
    site.run(FIRST + 6.0).expect("a run");
    site.job(2, 3, "B", FIRST + 2.0, 4.0);
    site.job(3, 3, "B", FIRST + 6.5, 1.0);
    site.sql(CLEAR_B);
    site.sql(&format!("UPDATE bank_table SET ignore_older_than = {} WHERE bank = 'B'", FIRST - 50.0));
    site.run_by(Rule::FluxAccounting, FIRST + 7.0).expect("a run");
    assert_eq!(site.usages(), [0.0, 0.0, 25.0]);
    site.run(FIRST + 8.0).expect("a run");
    assert_eq!(site.usages(), [0.0, 0.0, 25.0]);
}
