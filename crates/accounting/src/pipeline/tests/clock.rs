// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of clocks that were ahead or are set back.

use std::time::Duration;

use super::{Access, Database, END, H, PipelineError, Site};

/// A time in the first period.
const FIRST: f64 = END - H + 100.0;

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let site = Site::new("clock");
    site.add_job(1, 1, "A", END + 10.0, 80.0);
    site.run(END + 20.0).expect("a run");
    for back in [100.0, H, 40.0 * H] {
        let error = site.run(END + 20.0 - back).expect_err("refused");
        assert!(matches!(error, PipelineError::ClockWentBack { .. }), "{error}");
    }
    let text_at = |now: f64| site.run(now).expect_err("refused").to_string();
    assert_eq!(
        text_at(END - 100.0),
        text_at(END - 101.0),
        "the text does not change while the clock is behind"
    );
    assert_eq!(site.usages()[0], 80.0);
    site.run(END + H + 1.0).expect("a run");
    assert_eq!(site.usages()[0], 40.0);
}

#[test]
fn a_recount_repairs_the_usage_after_a_clock_was_far_ahead() {
    let site = Site::new("ahead");
    site.add_job(1, 1, "A", FIRST, 10.0);
    site.run(FIRST + 1.0).expect("a run");
    site.run(END + 20.5 * H).expect("a run");
    assert_eq!(site.usages(), [0.0, 0.0, 0.0]);
    site.add_job(2, 1, "A", FIRST + 2.0, 4.0);
    site.run(FIRST + 3.0).expect_err("refused: the clock went back");
    site.recount(FIRST + 3.0).expect("a recount");
    assert_eq!(site.usages(), [14.0, 0.0, 0.0]);
    site.add_job(3, 1, "A", FIRST + 4.0, 2.0);
    assert_eq!(site.run(FIRST + 5.0).expect("a run").counted, 1);
    assert_eq!(site.usages(), [16.0, 0.0, 0.0]);
    // The half-life periods still end at the same times as before.
    site.run(END - 1.0).expect("a run");
    assert_eq!(site.usages(), [16.0, 0.0, 0.0]);
    site.run(END + 1.0).expect("a run");
    assert_eq!(site.usages(), [8.0, 0.0, 0.0]);
    let stored = site.run_query_for_numbers("SELECT end_half_life_period FROM t_half_life_period_table");
    assert!(stored.iter().all(|end| (END - H..=END).contains(end)), "{stored:?}");
}

#[test]
fn a_recount_resets_the_time_of_the_newest_job_after_the_clock_was_ahead() {
    let site = Site::new("ahead_newest");
    let newest = || {
        site.run_query_for_numbers("SELECT last_job_timestamp FROM job_usage_factor_table WHERE userid = 1")
            [0]
    };
    site.add_job(1, 1, "A", FIRST + 500.0, 10.0);
    site.add_job(2, 1, "A", FIRST + 1.0, 5.0);
    site.run(FIRST + 501.0).expect("a run");
    // The clock is set back by 41 seconds. The clocks of two hosts may differ by this much, so the recount keeps
    // the stored end of the newest job.
    site.recount(FIRST + 460.0).expect("a recount");
    assert_eq!(newest(), FIRST + 500.0);
    site.recount(FIRST + 10.0).expect("a recount");
    assert_eq!((newest(), site.usages()[0]), (FIRST + 10.0, 15.0));
    site.add_job(3, 1, "A", FIRST + 20.0, 2.0);
    let tally = site.run(FIRST + 30.0).expect("a run");
    assert_eq!((tally.counted, tally.late, site.usages()[0]), (1, 0, 17.0));
    assert_eq!(newest(), FIRST + 20.0);
}

#[test]
fn a_push_does_not_claim_that_future_jobs_are_counted() {
    let site = Site::new("ahead_told");
    site.run_sql(
        "ALTER TABLE association_table ADD COLUMN max_running_jobs int DEFAULT 5;
         ALTER TABLE association_table ADD COLUMN max_active_jobs int DEFAULT 7",
    );
    let counted_until = |now: f64| {
        let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
        let data = database.snapshot().expect("a snapshot").policy_data(now).expect("data");
        data.associations[0].counted_until.expect("a leaf")
    };
    let newest = |ended: f64| {
        site.run_sql(&format!(
            "UPDATE job_usage_factor_table SET last_job_timestamp = {ended} WHERE userid = 1"
        ));
    };
    let day = 86_400.0;
    // A recorded time that is only slightly in the future may be right, so the push uses it.
    newest(FIRST + 30.0);
    assert_eq!(counted_until(FIRST), FIRST + 30.0);
    newest(FIRST + day);
    assert_eq!([FIRST, FIRST + 5.0, FIRST + day].map(counted_until), [FIRST, FIRST + 5.0, FIRST + day]);
    // The last sync was at FIRST, so no later job is counted.
    newest(0.0);
    site.add_job(1, 1, "A", FIRST + day, 10.0);
    site.run(FIRST).expect("a run");
    assert_eq!([FIRST + 1.0, FIRST + 500.0].map(counted_until), [FIRST; 2]);
    // flux-accounting has counted a job that ended at FIRST + 400.
    newest(FIRST + 400.0);
    assert_eq!(counted_until(FIRST + 500.0), FIRST + 400.0);
}

/// A record with the end 1e308 s once made a usage infinite.
#[test]
fn a_record_with_invalid_times_is_reported_and_not_counted() {
    let site = Site::new("no_times");
    site.add_job(1, 1, "A", FIRST, 80.0);
    for (id, run, end) in
        [(2, "-1e308", "50010"), (3, "50000", "1e308"), (4, "-1", "50010"), (5, "50000", "1.1e11")]
    {
        site.add_job(id, 1, "A", FIRST + 1.0, 5.0);
        site.run_sql(&format!("UPDATE jobs SET t_run = {run}, t_inactive = {end} WHERE id = '{id}'"));
    }
    let tally = site.run(FIRST + 20.0).expect("a run");
    assert_eq!((tally.counted, tally.unreadable_count, site.usages()[0]), (1, 4, 80.0));
    assert_eq!(tally.unreadable, ["2", "3", "4", "5"]);
}

/// If `end_half_life_period` is 9.2e18, rounding makes the half-life period begin after its own end. Each run would
/// then find the last run in the future.
#[test]
fn a_period_end_too_large_for_the_half_life_is_rejected() {
    let site = Site::new("no_period");
    site.add_job(1, 1, "A", FIRST, 80.0);
    site.run_sql("UPDATE t_half_life_period_table SET end_half_life_period = 9.2e18");
    let refused = site.run(FIRST + 20.0).expect_err("refused").to_string();
    assert!(refused.contains("9200000000000000000 and priority_decay_half_life 1000"), "{refused}");
    assert_eq!(site.usages()[0], 0.0);
}
