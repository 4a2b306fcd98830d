// SPDX-License-Identifier: LGPL-3.0-only
//! A clock that was ahead, or goes back.

use std::time::Duration;

use super::{Access, Database, END, H, PipelineError, Site};

/// In the first period.
const FIRST: f64 = END - H + 100.0;

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let site = Site::new("clock");
    site.job(1, 1, "A", END + 10.0, 80.0);
    site.run(END + 20.0).expect("a run");
    for back in [100.0, H, 40.0 * H] {
        let error = site.run(END + 20.0 - back).expect_err("refused");
        assert!(matches!(error, PipelineError::ClockWentBack { .. }), "{error}");
    }
    let told = |now: f64| site.run(now).expect_err("refused").to_string();
    assert_eq!(told(END - 100.0), told(END - 101.0), "it is the same as long as it lasts");
    assert_eq!(site.usages()[0], 80.0);
    site.run(END + H + 1.0).expect("a run");
    assert_eq!(site.usages()[0], 40.0);
}

#[test]
fn a_recount_repairs_what_a_clock_far_ahead_did() {
    let site = Site::new("ahead");
    site.job(1, 1, "A", FIRST, 10.0);
    site.run(FIRST + 1.0).expect("a run");
    site.run(END + 20.5 * H).expect("a run");
    assert_eq!(site.usages(), [0.0, 0.0, 0.0]);
    site.job(2, 1, "A", FIRST + 2.0, 4.0);
    site.run(FIRST + 3.0).expect_err("refused: the clock went back");
    site.recount(FIRST + 3.0).expect("a recount");
    assert_eq!(site.usages(), [14.0, 0.0, 0.0]);
    site.job(3, 1, "A", FIRST + 4.0, 2.0);
    assert_eq!(site.run(FIRST + 5.0).expect("a run").counted, 1);
    assert_eq!(site.usages(), [16.0, 0.0, 0.0]);
    // Boundaries are where they were, for flux-accounting too.
    site.run(END - 1.0).expect("a run");
    assert_eq!(site.usages(), [16.0, 0.0, 0.0]);
    site.run(END + 1.0).expect("a run");
    assert_eq!(site.usages(), [8.0, 0.0, 0.0]);
    let stored = site.numbers("SELECT end_half_life_period FROM t_half_life_period_table");
    assert!(stored.iter().all(|end| (END - H..=END).contains(end)), "{stored:?}");
}

#[test]
fn a_recount_takes_back_how_far_a_clock_ahead_had_counted() {
    let site = Site::new("ahead_newest");
    let newest = || site.numbers("SELECT last_job_timestamp FROM job_usage_factor_table WHERE userid = 1")[0];
    site.job(1, 1, "A", FIRST + 500.0, 10.0);
    site.job(2, 1, "A", FIRST + 1.0, 5.0);
    site.run(FIRST + 501.0).expect("a run");
    // The clock is put right; a record a little ahead is only one of another clock.
    site.recount(FIRST + 460.0).expect("a recount");
    assert_eq!(newest(), FIRST + 500.0);
    site.recount(FIRST + 10.0).expect("a recount");
    assert_eq!((newest(), site.usages()[0]), (FIRST + 10.0, 15.0));
    site.job(3, 1, "A", FIRST + 20.0, 2.0);
    let tally = site.run(FIRST + 30.0).expect("a run");
    assert_eq!((tally.counted, tally.late, site.usages()[0]), (1, 0, 17.0));
    assert_eq!(newest(), FIRST + 20.0);
}

#[test]
fn nobody_is_told_that_jobs_are_counted_which_have_not_ended_yet() {
    let site = Site::new("ahead_told");
    site.sql(
        "ALTER TABLE association_table ADD COLUMN max_running_jobs int DEFAULT 5;
         ALTER TABLE association_table ADD COLUMN max_active_jobs int DEFAULT 7",
    );
    let told = |now: f64| {
        let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
        let data = database.snapshot().expect("a snapshot").policy_data(now).expect("data");
        data.associations[0].counted_until.expect("a leaf")
    };
    let newest = |ended: f64| {
        site.sql(&format!("UPDATE job_usage_factor_table SET last_job_timestamp = {ended} WHERE userid = 1"));
    };
    let day = 86_400.0;
    // A clock that is ahead by little may be right: what it says is counted is.
    newest(FIRST + 30.0);
    assert_eq!(told(FIRST), FIRST + 30.0);
    newest(FIRST + day);
    assert_eq!([FIRST, FIRST + 5.0, FIRST + day].map(told), [FIRST, FIRST + 5.0, FIRST + day]);
    // Where it is our own count, no job that ended after that is in it.
    newest(0.0);
    site.job(1, 1, "A", FIRST + day, 10.0);
    site.run(FIRST).expect("a run");
    assert_eq!([FIRST + 1.0, FIRST + 500.0].map(told), [FIRST; 2]);
    // flux-accounting has counted since.
    newest(FIRST + 400.0);
    assert_eq!(told(FIRST + 500.0), FIRST + 400.0);
}

/// One such record made a usage infinite, for good.
#[test]
fn a_record_whose_times_cannot_be_counts_nowhere_and_is_told() {
    let site = Site::new("no_times");
    site.job(1, 1, "A", FIRST, 80.0);
    for (id, run, end) in
        [(2, "-1e308", "50010"), (3, "50000", "1e308"), (4, "-1", "50010"), (5, "50000", "1.1e11")]
    {
        site.job(id, 1, "A", FIRST + 1.0, 5.0);
        site.sql(&format!("UPDATE jobs SET t_run = {run}, t_inactive = {end} WHERE id = '{id}'"));
    }
    let tally = site.run(FIRST + 20.0).expect("a run");
    assert_eq!((tally.counted, tally.unreadable_count, site.usages()[0]), (1, 4, 80.0));
    assert_eq!(tally.unreadable, ["2", "3", "4", "5"]);
}

/// A period whose beginning is none of its own instants had each run take the last one for one of the future.
#[test]
fn an_end_of_a_period_beside_which_periods_are_nothing_is_refused() {
    let site = Site::new("no_period");
    site.job(1, 1, "A", FIRST, 80.0);
    site.sql("UPDATE t_half_life_period_table SET end_half_life_period = 9.2e18");
    let refused = site.run(FIRST + 20.0).expect_err("refused").to_string();
    assert!(refused.contains("9200000000000000000 and priority_decay_half_life 1000"), "{refused}");
    assert_eq!(site.usages()[0], 0.0);
}
