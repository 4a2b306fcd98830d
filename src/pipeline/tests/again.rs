// SPDX-License-Identifier: LGPL-3.0-only
//! What was counted once comes again: removed records, those that waited, users who were away.

use std::ops::Range;
use std::time::Duration;

use super::super::fetch;
use super::{Access, Database, END, H, Site};

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
